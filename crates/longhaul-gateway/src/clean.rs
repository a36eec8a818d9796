//! What others wrote, made safe to show: nothing that moves the cursor, sets the clipboard or title,
//! recolours, or turns the order of letters around.

/// Text of several lines, without control sequences and control characters.
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut strings = Strings { may_end: true };
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars, &mut strings),
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => strings.skip(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if is_harmful(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// One line of at most `limit` characters.
pub fn line(long: &str, limit: usize) -> String {
    // However long it is, only its beginning can be shown.
    let head: String = long.chars().take(limit.saturating_mul(8)).collect();
    let words = text(&head);
    let mut line = String::new();
    for (n, c) in words.trim().chars().enumerate() {
        if n == limit {
            line.pop();
            line.push('…');
            break;
        }
        line.push(if c == '\n' || c == '\t' { ' ' } else { c });
    }
    line
}

/// Text with the colours of whoever has laid it out, and no other sequences of its own: what harms by itself is shown as `�`.
pub fn coloured(text: &str) -> String {
    let is_laid_out = |c: char| matches!(c, '\n' | '\t' | '\u{1b}');
    text.chars()
        .map(|c| if is_harmful(c) && !is_laid_out(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// JSON that means the same and shows nothing harmful: such characters, which stand in strings only, are
/// escaped.
pub fn json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_harmful(c) || matches!(c, '\u{2028}' | '\u{2029}') {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters, what turns the order of letters, and what cannot be seen.
fn is_harmful(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// What follows an escape character.
fn skip_escape(chars: &mut Chars<'_>, strings: &mut Strings) {
    match chars.next() {
        Some('[') => skip_control_sequence(chars),
        Some(']' | 'P' | 'X' | '^' | '_') => strings.skip(chars),
        Some(c @ ' '..='/') => {
            // Intermediate bytes, then one that ends it.
            let mut last = c;
            while matches!(last, ' '..='/') {
                let Some(next) = chars.next() else { return };
                last = next;
            }
        }
        _ => {}
    }
}

/// Parameters, then one letter that ends it; anything else ends it too.
fn skip_control_sequence(chars: &mut Chars<'_>) {
    while let Some(c) = chars.peek().copied() {
        if matches!(c, '\0'..='\u{1f}') {
            return;
        }
        chars.next();
        if !matches!(c, ' '..='?') {
            return;
        }
    }
}

/// Strings that a terminal takes for itself: a title, the clipboard, a picture.
struct Strings {
    /// Whether one may end somewhere in the rest of the text; once a search has found no end there is none, so
    /// no text is searched twice.
    may_end: bool,
}

impl Strings {
    /// Skips a string with its end. One without an end is taken for text that follows a stray character.
    fn skip(&mut self, chars: &mut Chars<'_>) {
        if !self.may_end {
            return;
        }
        let mut ahead = chars.clone();
        while let Some(c) = ahead.next() {
            let ends = match c {
                '\u{7}' | '\u{9c}' => true,
                '\u{1b}' => ahead.next_if_eq(&'\\').is_some(),
                _ => false,
            };
            if ends {
                *chars = ahead;
                return;
            }
        }
        self.may_end = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_go_and_words_stay() {
        for (dirty, clean) in [
            ("plain äöü 世界 👍", "plain äöü 世界 👍"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[1;1Hgone", "gone"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]52;c;c2VjcmV0\u{1b}\\b", "ab"),
            ("a\u{1b}P1$r0m\u{1b}\\b", "ab"),
            ("a\u{9b}31mb", "ab"),
            ("a\u{9d}0;t\u{9c}b", "ab"),
            ("\u{1b}(0lines", "lines"),
            ("\u{1b}cafter a reset", "after a reset"),
            ("10%\r20%\r\ndone\n", "10%\n20%\ndone\n"),
            ("bell\u{7} back\u{8} del\u{7f} nul\0", "bell back del nul"),
            ("evil\u{202e}txt.exe\u{2066}", "eviltxt.exe"),
            ("in\u{200b}vis\u{feff}ible\u{e0041}", "invisible"),
            ("one\u{2028}two", "one\ntwo"),
            ("open\u{1b}]0;never ends", "open0;never ends"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}[31", ""),
        ] {
            assert_eq!(text(dirty), clean, "{dirty:?}");
        }
    }

    #[test]
    fn nothing_harmful_is_left_of_any_text() {
        let all: String = ('\0'..='\u{e1000}').collect();
        for c in ["\u{1b}", "\u{9b}", "]", "[", ""] {
            let left = text(&format!("{c}{all}{c}{all}"));
            assert!(!left.chars().any(|c| is_harmful(c) && c != '\n' && c != '\t'));
        }
    }

    #[test]
    fn a_line_is_one_line_and_no_longer_than_it_may_be() {
        assert_eq!(line("  a\nb\tc \u{1b}[1m", 20), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
        assert_eq!(line("abcd", 4), "abcd");
        assert_eq!(line(&"x".repeat(10_000_000), 3), "xx…");
    }

    #[test]
    fn colours_stay_and_what_harms_by_itself_does_not() {
        assert_eq!(coloured("\u{1b}[31ma\u{1b}[0m\n\tb"), "\u{1b}[31ma\u{1b}[0m\n\tb");
        assert_eq!(coloured("a\u{9b}2J\u{202e}\u{7}"), "a�2J��");
    }

    #[test]
    fn json_says_the_same_and_shows_nothing_harmful() {
        let value = serde_json::json!({ "a": "\u{1b}[31m\u{9b}\u{202e}\u{e0041} ok" });
        let shown = json(&value.to_string());
        assert!(!shown.chars().any(is_harmful), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
