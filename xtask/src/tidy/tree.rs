//! The files of the repository as the rules see them: paths, text, and Rust sources as tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::source::Source;

/// A file that can be committed.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root, with forward slashes.
    pub(crate) path: String,
    /// Its text; `None` when it is not UTF-8.
    pub(crate) text: Option<String>,
    /// Its tokens, for a `.rs` file; the error's text when it has none.
    pub(crate) source: Option<Result<Source, String>>,
    /// Whether it is built for tests alone.
    pub(crate) is_test: bool,
}

impl File {
    /// The tokens of a Rust file that has them.
    pub(crate) fn tokens(&self) -> Option<&Source> {
        self.source.as_ref()?.as_ref().ok()
    }

    /// The text by lines, numbered from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.as_deref().unwrap_or_default().lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// Every file that is or could be committed.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The files, by path.
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// Reads the files git would commit, or, without git, all but build output.
    ///
    /// # Errors
    ///
    /// When git cannot list them or one cannot be read.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let paths = if root.join(".git").exists() { committable(root)? } else { walk(root)? };
        let mut files = BTreeMap::new();
        for path in paths {
            let full = root.join(&path);
            // A path in the index whose file was deleted is not part of the tree; nor is what a symlink points at.
            if !full.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            files.insert(path, fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?);
        }
        Ok(Self::new(files))
    }

    /// A tree of these files.
    pub(crate) fn new(files: BTreeMap<String, Vec<u8>>) -> Self {
        let mut files: Vec<File> = files
            .into_iter()
            .map(|(path, bytes)| {
                let text = String::from_utf8(bytes).ok();
                let source = path.ends_with(".rs").then(|| match &text {
                    Some(text) => Source::parse(text).map_err(|e| format!("{e:#}")),
                    None => Err("not UTF-8".to_owned()),
                });
                File { is_test: is_test_path(&path), path, text, source }
            })
            .collect();
        let declared = declared_test_files(&files);
        for file in &mut files {
            let under = |test: &String| file.path.starts_with(&format!("{}/", test.trim_end_matches(".rs")));
            file.is_test |= declared.contains(&file.path)
                || declared.iter().any(under)
                || file.source.as_ref().is_some_and(|s| s.as_ref().is_ok_and(|s| s.is_test));
        }
        Self { files }
    }

    /// A tree of these texts, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect())
    }

    /// Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.source.is_some())
    }

    /// Whether a file or a folder stands at this path.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The file at this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Names of the folders at the root.
    pub(crate) fn top_folders(&self) -> BTreeSet<&str> {
        self.files.iter().filter_map(|file| Some(file.path.split_once('/')?.0)).collect()
    }
}

fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
        || path.starts_with("crates/longhaul-test/")
}

/// Files that some `#[cfg(test)] mod name;` brings in.
fn declared_test_files(files: &[File]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in files {
        let Some(source) = file.tokens() else { continue };
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let stem = name.trim_end_matches(".rs");
        let base = match stem {
            "mod" | "lib" | "main" => folder.to_owned(),
            _ => format!("{folder}/{stem}"),
        };
        for module in &source.test_modules {
            found.insert(format!("{base}/{module}.rs"));
        }
    }
    found
}

/// The files git would commit.
///
/// # Errors
///
/// When git cannot list them.
pub(crate) fn committable(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run git; install it, for it says which files belong to the repository")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listing = String::from_utf8(output.stdout).context("a path that git lists is not UTF-8")?;
    Ok(listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// All files but build output.
///
/// # Errors
///
/// When a folder cannot be read.
pub(crate) fn walk(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).with_context(|| format!("cannot list {folder:?}"))? {
            let entry = entry?;
            let name =
                entry.file_name().into_string().map_err(|name| anyhow::anyhow!("not UTF-8: {name:?}"))?;
            if matches!(name.as_str(), ".git" | "target" | "node_modules") {
                continue;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_is_a_test() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod probe;\nmod real;"),
            ("crates/a/src/probe.rs", ""),
            ("crates/a/src/probe/deep.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)] mod inner;"),
            ("crates/a/src/real/inner.rs", ""),
            ("crates/a/tests/api.rs", ""),
        ]);
        let tests: Vec<&str> = tree.files.iter().filter(|f| f.is_test).map(|f| f.path.as_str()).collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/probe.rs",
                "crates/a/src/probe/deep.rs",
                "crates/a/src/real/inner.rs",
                "crates/a/tests/api.rs"
            ]
        );
    }

    #[test]
    fn a_tree_without_git_is_walked_past_build_output() {
        let root = tempfile::tempdir().unwrap();
        for path in ["src/a.rs", "target/b.rs", "x/node_modules/c.js"] {
            let full = root.path().join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, "").unwrap();
        }
        let tree = Tree::load(root.path()).unwrap();
        assert_eq!(tree.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["src/a.rs"]);
        assert!(tree.holds("src/") && tree.holds("src/a.rs") && !tree.holds("target"));
    }
}
