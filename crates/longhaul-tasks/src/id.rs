//! Minting task ids.

use longhaul_store::TaskId;

use crate::environment::Environment;

/// A fresh id: a few characters of the tool's name for people, then 160 random bits that nobody can guess.
pub(crate) fn mint(tool: &str, environment: &dyn Environment) -> TaskId {
    let mut bits = [0; 20];
    environment.random(&mut bits);
    TaskId::from_entropy_of(tool, bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Tokio;

    #[test]
    fn an_id_begins_with_the_tools_name_and_never_comes_twice() {
        let (one, two) = (mint("Build.All", &Tokio), mint("Build.All", &Tokio));
        assert!(one.as_str().starts_with("build_all-"), "{one}");
        assert_eq!(one.as_str().len(), "build_all-".len() + 32);
        assert_ne!(one, two);
        assert!(mint(&"é".repeat(200), &Tokio).as_str().len() <= 16 + 33);
    }
}
