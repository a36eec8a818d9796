//! Finding the name that somebody meant.

/// The candidate nearest to `name`, if one is near enough to be what was meant.
///
/// Case and the difference between `-` and `_` cost nothing, so `read-only` finds `readOnly`'s neighbours and
/// `max-output` finds `max_output`.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    // One slip in a short name, one in three characters in a long one: beyond that a suggestion is noise.
    let allowed = (wanted.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &folded(candidate)), candidate))
        .filter(|(distance, candidate)| {
            let begins = wanted.len() >= MIN_PREFIX && folded(candidate).starts_with(&wanted);
            begins || (*distance <= allowed && *distance < candidate.chars().count())
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `a`, `b` and `c`, each in backquotes.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn folded(name: &str) -> String {
    // A name of unbounded length would make the distance quadratic in what a caller sends.
    name.chars().take(MAX_COMPARED).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

const MAX_COMPARED: usize = 64;

/// From this length on, the beginning of a name is enough: `desc` finds `description`.
const MIN_PREFIX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_is_recognised_and_a_different_word_is_not() {
        assert_eq!(nearest("crat", ["name", "crate"]), Some("crate"));
        assert_eq!(nearest("Max-Output", ["max_output"]), Some("max_output"));
        assert_eq!(nearest("desc", ["description", "title"]), Some("description"));
        assert_eq!(nearest("colour", ["name", "crate"]), None);
        assert_eq!(nearest("a", ["b"]), None, "a one-letter name is nobody's misspelling");
    }

    #[test]
    fn a_list_reads_as_a_sentence() {
        assert_eq!(listed(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(listed(["a"]), "`a`");
        assert_eq!(listed([]), "none");
    }
}
