//! What somebody may paste into a shell.

use std::borrow::Cow;

/// A word as a shell reads it back.
pub fn word(word: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_word_is_quoted_where_a_shell_would_read_another() {
        for (word, shown) in [
            ("builds", "builds"),
            ("my builds", "'my builds'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(super::word(word), shown);
        }
    }
}
