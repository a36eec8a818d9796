//! Errors in words: what went wrong, and why.

use std::error::Error;

/// An error and what caused it, in a line. What an error says of its cause itself is not said again.
pub fn in_words(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.ends_with(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn each_cause_is_said_once() {
        let refused = Said("connection refused", None);
        let opened = Said("it cannot be opened: connection refused", Some(Box::new(refused)));
        let error = Said("the store is away", Some(Box::new(opened)));
        assert_eq!(in_words(&error), "the store is away: it cannot be opened: connection refused");
        assert_eq!(in_words(&Said("alone", None)), "alone");
    }
}
