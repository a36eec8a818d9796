//! Whatever others wrote that ends up in the program, or runs in its checks, is what was looked at once.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The committed files of that name, with their text.
fn files(name: &str) -> Vec<(String, String)> {
    let pattern = format!("*{name}");
    let listed = Command::new("git").args(["ls-files", &pattern]).current_dir(root()).output().unwrap();
    let paths = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<_> =
        paths.lines().map(|path| (path.to_owned(), fs::read_to_string(root().join(path)).unwrap())).collect();
    assert!(!files.is_empty(), "no {name} is committed");
    files
}

#[test]
fn s66_every_crate_is_from_the_registry_and_is_what_was_locked() {
    for (path, text) in files("Cargo.lock") {
        let lock: toml::Table = toml::from_str(&text).unwrap();
        for package in lock["package"].as_array().unwrap() {
            let name = &package["name"];
            // Ours have no source.
            let Some(source) = package.get("source") else { continue };
            let registry = "registry+https://github.com/rust-lang/crates.io-index";
            assert_eq!(source.as_str(), Some(registry), "{path}: {name}");
            assert!(package.get("checksum").is_some(), "{path}: {name} has no checksum");
        }
    }
}

const REGISTRY: &str = "https://registry.npmjs.org/";

#[test]
fn s66_every_package_of_npm_is_from_its_registry_and_is_what_was_locked() {
    for (path, text) in files("package-lock.json") {
        let lock: serde_json::Value = serde_json::from_str(&text).unwrap();
        let packages = lock["packages"].as_object().unwrap().iter();
        // The first is the folder itself; one within a bundle came with it.
        for (name, package) in packages.filter(|(name, of)| !name.is_empty() && of["inBundle"] != true) {
            // Without an address it comes from the registry that npm is told of.
            let elsewhere = package["resolved"].as_str().is_some_and(|from| !from.starts_with(REGISTRY));
            assert!(!elsewhere, "{path}: {name} is from {}", package["resolved"]);
            assert!(package["integrity"].is_string(), "{path}: {name} has no hash");
        }
    }
}

#[test]
fn s66_every_package_of_pypi_is_what_was_locked() {
    for (path, text) in files("requirements.txt") {
        for package in text.replace("\\\n", " ").lines().filter(|line| line.contains("==")) {
            assert!(package.contains("--hash=sha256:"), "{path}: {package}");
        }
    }
}

#[test]
fn s66_no_crate_may_be_unsafe() {
    // That every crate takes the workspace's lints is a rule of `cargo xtask tidy`.
    let manifest: toml::Table =
        toml::from_str(&fs::read_to_string(root().join("Cargo.toml")).unwrap()).unwrap();
    assert_eq!(manifest["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
}
