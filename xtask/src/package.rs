//! Every published crate as a registry would get it: `cargo xtask package` builds each from its archive, and the stage `archives`
//! sees that the archives are complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::site::Site;
use crate::tally::Tally;
use crate::tidy::{Source, Tree, reads};
use crate::workspace::Workspace;

/// What every archive has beside its sources.
const EACH: [&str; 4] = ["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// The stage: each archive would have what its crate is built and shown with. Nothing is built.
///
/// # Errors
///
/// When cargo cannot be run, or the tree cannot be read.
pub(crate) fn archives(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let tree = Tree::load(&site.root)?;
    let mut tally = Tally::default();
    for package in workspace.our_packages().filter(|package| package.is_published()) {
        let list = ["package", "--list", "--locked", "--allow-dirty", "--package", &package.name];
        let ran = site.run(&mut site.cargo(&list))?;
        let listed: BTreeSet<&str> = ran.lines.iter().map(String::as_str).collect();
        let folder = format!("{}/", workspace.folder(package));
        let shipped = tree.rust().filter(|file| !file.is_test).filter_map(|file| {
            let path = file.path.strip_prefix(&folder).filter(|path| listed.contains(path))?;
            Some((path, file.tokens()?))
        });
        let warnings = ran.lines.iter().filter(|line| line.starts_with("warning: ")).cloned();
        for complaint in lacks(&listed, shipped).into_iter().chain(warnings) {
            tally += site.complain(format!("{}: {complaint}", package.name));
        }
        tally += Tally::one(ran.success);
    }
    Ok(tally)
}

/// What is not in an archive and ought to be: for everybody, or for one of its sources, which are known by their paths in it.
fn lacks<'s>(listed: &BTreeSet<&str>, sources: impl Iterator<Item = (&'s str, &'s Source)>) -> Vec<String> {
    let each = EACH.into_iter().filter(|name| !listed.contains(name));
    let mut found: Vec<String> = each.map(|name| format!("its archive has no {name}")).collect();
    for (path, source) in sources {
        let tokens = &source.shipped;
        for at in 0..tokens.len() {
            let includes = ["include_str", "include_bytes", "include"];
            if !includes.iter().any(|name| reads(tokens, at, &[name, "!", "("])) {
                continue;
            }
            let written = tokens.get(at + 3).map(|token| token.text.as_str()).unwrap_or_default();
            let name = written.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
            if name.and_then(|name| beside(path, name)).is_none_or(|file| !listed.contains(&*file)) {
                let line = tokens[at].line;
                found.push(format!("{path}:{line} includes {written}, which is not in its archive"));
            }
        }
    }
    found
}

/// The path of a file that another one names, in the same archive.
fn beside(path: &str, name: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Makes the archives and builds each, against those of the others it needs.
///
/// # Errors
///
/// When cargo cannot be run, or does not end in time.
pub(crate) fn run(site: &Site) -> Result<Tally> {
    let workspace = Workspace::members(&site.root)?;
    let published: Vec<_> = workspace.our_packages().filter(|package| package.is_published()).collect();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("there is no home folder")?;
    // Of its own: what cargo has built of an archive it would build anew only if the version were another.
    let target = site.target.join("packages");
    for package in &published {
        forget(
            &home.join("registry/src"),
            &target.join("debug/.fingerprint"),
            &package.name,
            &package.version,
        )?;
    }
    let mut command = site.cargo(&["package", "--locked"]);
    command.args(published.iter().flat_map(|package| ["-p", &package.name]));
    let made = site.run(command.arg("--target-dir").arg(&target))?;
    println!("archives: {}", target.join("package").display());
    // It makes an archive of a manifest that tells nobody what the crate is, too.
    let warnings: Vec<_> = made.lines.iter().filter(|line| line.starts_with("warning: ")).collect();
    warnings.iter().for_each(|warning| println!("{warning}"));
    Ok(Tally::one(made.success && warnings.is_empty()))
}

/// Removes what was `unpacked` of an archive that was made here before, and the note of what was `built` of it. Cargo tells both by
/// name and version alone, so others would be built against that one.
fn forget(unpacked: &Path, built: &Path, name: &str, version: &str) -> Result<()> {
    let archive = format!("{name}-{version}");
    // The registry of such archives is a folder, which has no host.
    for registry in named(unpacked, |registry| registry.starts_with('-'))? {
        named(&registry, |folder| folder == archive)?.iter().try_for_each(|path| remove(path))?;
    }
    let is_its = |folder: &str| folder.rsplit_once('-').is_some_and(|(of, _)| of == name);
    named(built, is_its)?.iter().try_for_each(|path| remove(path))
}

/// What a folder holds by such names; nothing if there is no folder.
fn named(folder: &Path, is_such: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let all = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    let such = all.iter().filter(|it| it.file_name().to_str().is_some_and(&is_such));
    Ok(such.map(fs::DirEntry::path).collect())
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_archive_lacks_is_told() {
        let listed = BTreeSet::from(["Cargo.toml", "LICENSE-MIT", "README.md", "src/a/b.rs", "src/c.sql"]);
        let source = Source::parse(
            "const THERE: &str = include_str!(\"../c.sql\");\nconst GONE: &[u8] = include_bytes!(\"c.sql\");\n\
             #[doc = include_str!(\"../../../README.md\")] struct Outside;\n\
             #[cfg(doctest)] #[doc = include_str!(\"../../../README.md\")] struct Tested;\n\
             #[cfg(test)] mod tests { const TESTED: &str = include_str!(\"d.sql\"); }",
        );
        assert_eq!(
            lacks(&listed, std::iter::once(("src/a/b.rs", &source.unwrap()))),
            [
                "its archive has no LICENSE-APACHE",
                "src/a/b.rs:2 includes \"c.sql\", which is not in its archive",
                "src/a/b.rs:3 includes \"../../../README.md\", which is not in its archive",
            ]
        );
    }

    #[test]
    fn only_what_is_of_an_earlier_archive_is_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let (unpacked, built) = (home.path().join("src"), home.path().join("built"));
        forget(&unpacked, &built, "ours", "0.1.0").unwrap();
        let gone = [unpacked.join("-1f/ours-0.1.0"), built.join("ours-0123456789abcdef")];
        let kept = [
            unpacked.join("-1f/ours-0.0.9"),
            unpacked.join("-1f/other-0.1.0"),
            unpacked.join("index-2e/ours-0.1.0"),
            built.join("ours-too-0123456789abcdef"),
        ];
        for folder in gone.iter().chain(&kept) {
            fs::create_dir_all(folder).unwrap();
        }
        forget(&unpacked, &built, "ours", "0.1.0").unwrap();
        assert!(gone.iter().all(|folder| !folder.exists()));
        assert!(kept.iter().all(|folder| folder.exists()));
    }
}
