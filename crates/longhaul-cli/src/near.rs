//! What was probably meant by a name that is none.

/// The name of `known` that is nearest to `written`, if any is near.
pub(crate) fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let written = written.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&written, &name.to_lowercase());
    let allowed = (written.chars().count() / 3).max(1);
    known
        .into_iter()
        .take(MOST)
        .map(|name| (if is_part(&written, name) { 1 } else { distance(name) }, name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Whether one is the beginning of the other, as when a prefix was left out or typed too much of.
fn is_part(written: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    written.chars().count() >= 3 && (name.starts_with(written) || name.ends_with(written))
}

/// How many names are compared.
const MOST: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_understood_and_other_words_are_not() {
        let tools = ["test", "build", "deploy_production"];
        assert_eq!(nearest("tset", tools), Some("test"));
        assert_eq!(nearest("biuld", tools), Some("build"));
        assert_eq!(nearest("Deploy", tools), Some("deploy_production"));
        assert_eq!(nearest("frobnicate", tools), None);
        assert_eq!(nearest("", tools), None);
    }
}
