//! Minting task ids.

use longhaul_store::{TaskId, Time};

use crate::environment::Environment;

/// A fresh id of a task that is made `at` this time: 160 random bits of it nobody can guess.
pub(crate) fn mint(tool: &str, at: Time, environment: &dyn Environment) -> TaskId {
    let mut bits = [0; 20];
    environment.random(&mut bits);
    TaskId::minted(tool, at, bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Tokio;

    #[test]
    fn an_id_begins_with_the_tools_name_and_never_comes_twice() {
        let mint = |tool: &str| mint(tool, Time::from_unix_ms(0), &Tokio);
        let (one, two) = (mint("Build.All"), mint("Build.All"));
        assert!(one.as_str().starts_with("build_all-"), "{one}");
        assert_eq!(one.as_str().len(), "build_all-".len() + 40);
        assert_ne!(one, two);
        assert!(mint(&"é".repeat(200)).as_str().len() <= 16 + 41);
    }
}
