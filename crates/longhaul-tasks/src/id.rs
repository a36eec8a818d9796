//! Minting task ids.

use longhaul_store::TaskId;

use crate::environment::Environment;

/// The longest part of a tool's name that an id repeats.
const PREFIX: usize = 16;

/// A fresh id: a few characters of the tool's name for people, then 160 random bits that nobody can guess.
pub(crate) fn mint(tool: &str, environment: &dyn Environment) -> TaskId {
    let mut bits = [0; 20];
    environment.random(&mut bits);
    let random = TaskId::from_entropy(bits);
    let name = tool
        .bytes()
        .take(PREFIX)
        .map(|b| if b.is_ascii_alphanumeric() { b.to_ascii_lowercase() } else { b'_' });
    let id = format!("{}-{random}", String::from_utf8_lossy(&name.collect::<Vec<u8>>()));
    TaskId::new(id).unwrap_or(random)
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
        assert!(mint(&"é".repeat(200), &Tokio).as_str().len() <= PREFIX + 33);
    }
}
