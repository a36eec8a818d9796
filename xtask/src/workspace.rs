//! The workspace as `cargo metadata` describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The workspace: its packages, what they depend on, and where it builds.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Workspace {
    /// Members, and with [`Workspace::resolved`] every dependency too.
    pub(crate) packages: Vec<Package>,
    /// The folder of the root `Cargo.toml`.
    pub(crate) workspace_root: PathBuf,
    /// Where cargo builds.
    pub(crate) target_directory: PathBuf,
    workspace_members: BTreeSet<String>,
    resolve: Option<Resolve>,
}

/// One package.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    /// What its manifest asks for.
    pub(crate) dependencies: Vec<Dependency>,
    /// Path of its `Cargo.toml`.
    pub(crate) manifest_path: PathBuf,
    /// Its features and what each turns on.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    targets: Vec<Target>,
    /// The registries it may go to; `None` is any.
    publish: Option<Vec<String>>,
    /// What cargo does not read.
    metadata: Option<Metadata>,
    id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Metadata {
    /// The dependencies whose types it shows in its own interface, each with the reason.
    #[serde(default, rename = "public-dependencies")]
    public_dependencies: BTreeMap<String, String>,
}

/// One line of a manifest's dependencies.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Dependency {
    /// Name of the package, not its alias.
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// One thing a package builds.
#[derive(Clone, Debug, Default, Deserialize)]
struct Target {
    name: String,
    /// `lib`, `bin`, `test` and so on.
    kind: Vec<String>,
    /// The features without which it is not built.
    #[serde(default, rename = "required-features")]
    required_features: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Default, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Default, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Default, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Workspace {
    /// The members alone; reads manifests and nothing else.
    ///
    /// # Errors
    ///
    /// When cargo cannot read the workspace at `root`.
    pub(crate) fn members(root: &Path) -> Result<Self> {
        Self::read(root, &["--no-deps"])
    }

    /// The members and everything they resolve to under the committed lock file.
    ///
    /// # Errors
    ///
    /// When cargo cannot resolve the workspace at `root`, also because `Cargo.lock` is out of date.
    pub(crate) fn resolved(root: &Path) -> Result<Self> {
        Self::read(root, &["--locked"])
    }

    /// Parses what `cargo metadata` printed.
    ///
    /// # Errors
    ///
    /// When the text is not its format.
    pub(crate) fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).context("cannot read the output of cargo metadata")
    }

    /// Whether the package is one of ours.
    pub(crate) fn is_member(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }

    /// Why cargo would not run this `cargo test`, if it would not: no package or test has the name, or a feature is missing
    /// that the test needs.
    pub(crate) fn refuses(&self, cargo_test: &str) -> Option<String> {
        let after = |option| cargo_test.split_whitespace().skip_while(move |word| *word != option).nth(1);
        let name = after("-p")?;
        let Some(package) = self.packages.iter().find(|package| package.name == name) else {
            return Some(format!("there is no package {name}"));
        };
        let test = after("--test")?;
        let is_it = |target: &&Target| target.name == test && target.kind.iter().any(|kind| kind == "test");
        let Some(target) = package.targets.iter().find(is_it) else {
            return Some(format!("{name} has no test {test}"));
        };
        let asked = after("--features").into_iter().flat_map(|list| list.split(',')).chain(["default"]);
        let (mut on, mut next) = (BTreeSet::new(), asked.collect::<Vec<_>>());
        while let Some(feature) = next.pop() {
            if on.insert(feature) {
                next.extend(package.features.get(feature).into_iter().flatten().map(String::as_str));
            }
        }
        let missing = target.required_features.iter().find(|needed| !on.contains(needed.as_str()));
        missing.map(|feature| format!("test {test} of {name} needs the feature {feature}"))
    }

    /// The names of those of our packages with which one is built and tested, itself among them.
    pub(crate) fn needed_by<'a>(&'a self, name: &'a str) -> BTreeSet<&'a str> {
        let (mut needed, mut next) = (BTreeSet::new(), vec![name]);
        while let Some(name) = next.pop() {
            let Some(package) = self.our_packages().find(|package| package.name == name) else { continue };
            if needed.insert(name) {
                next.extend(package.dependencies.iter().map(|dependency| dependency.name.as_str()));
            }
        }
        needed
    }

    /// Our packages.
    pub(crate) fn our_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_member(package))
    }

    /// The folder of a package from the root, with forward slashes.
    pub(crate) fn folder<'a>(&self, package: &'a Package) -> &'a str {
        let manifest =
            package.manifest_path.strip_prefix(&self.workspace_root).unwrap_or(&package.manifest_path);
        manifest.parent().and_then(Path::to_str).unwrap_or_default()
    }

    /// Every package that `name` needs when it is built for use: normal dependencies, and theirs. Each comes with
    /// the name of the package that asks for it.
    pub(crate) fn reachable(&self, name: &str) -> BTreeMap<&str, &str> {
        let names: BTreeMap<&str, &str> =
            self.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let nodes: BTreeMap<&str, &Node> = self
            .resolve
            .iter()
            .flat_map(|resolve| &resolve.nodes)
            .map(|node| (node.id.as_str(), node))
            .collect();
        let start =
            self.our_packages().find(|package| package.name == name).map(|package| package.id.as_str());
        let mut found = BTreeMap::new();
        let mut waiting: Vec<&str> = start.into_iter().collect();
        while let Some(id) = waiting.pop() {
            let edges = nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default();
            for edge in edges.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none())) {
                let (Some(needed), Some(asker)) = (names.get(edge.pkg.as_str()), names.get(id)) else {
                    continue;
                };
                if !found.contains_key(needed) {
                    found.insert(*needed, *asker);
                    waiting.push(&edge.pkg);
                }
            }
        }
        found
    }

    fn read(root: &Path, arguments: &[&str]) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1"])
            .args(arguments)
            .current_dir(root)
            .output()
            .context("cannot run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Self::parse(
            std::str::from_utf8(&output.stdout).context("cargo metadata printed bytes that are not UTF-8")?,
        )
    }
}

impl Package {
    /// The names of its normal dependencies.
    pub(crate) fn normal_dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().filter(|d| d.kind.is_none()).map(|d| d.name.as_str())
    }

    /// Whether it builds something of this kind: `lib`, `bin`, `test` and so on.
    pub(crate) fn builds(&self, kind: &str) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|one| one == kind))
    }

    /// The names of its programs.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let is_program = |target: &&Target| target.kind.iter().any(|kind| kind == "bin");
        self.targets.iter().filter(is_program).map(|target| target.name.as_str())
    }

    /// Whether anybody is to find it in a registry.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    /// Whether cargo means it by this.
    pub(crate) fn is_named_by(&self, id: &str) -> bool {
        self.id == id
    }

    /// The crates whose types it may show, as code names them.
    pub(crate) fn public_dependencies(&self) -> BTreeSet<&str> {
        self.metadata.iter().flat_map(|own| own.public_dependencies.keys()).map(String::as_str).collect()
    }
}

impl Dependency {
    /// Whether only tests, examples and benches see it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// Builders for the fixtures of rules that read a workspace.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// A package as a fixture writes it: its folder, whose last part names it, and its dependencies by name and kind.
    pub(crate) type Written<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    /// A workspace of these packages.
    pub(crate) fn workspace(packages: &[Written<'_>]) -> Workspace {
        let mut workspace = Workspace { workspace_root: "/repository".into(), ..Workspace::default() };
        let mut nodes: Vec<Node> = Vec::new();
        for (folder, dependencies) in packages {
            let name = folder.rsplit('/').next().unwrap();
            workspace.workspace_members.insert(name.to_owned());
            workspace.packages.push(Package {
                name: name.to_owned(),
                id: name.to_owned(),
                manifest_path: format!("/repository/{folder}/Cargo.toml").into(),
                dependencies: dependencies
                    .iter()
                    .map(|(name, kind)| Dependency {
                        name: (*name).to_owned(),
                        kind: kind.map(str::to_owned),
                    })
                    .collect(),
                ..Package::default()
            });
            let deps = dependencies
                .iter()
                .map(|(name, kind)| Edge {
                    pkg: (*name).to_owned(),
                    dep_kinds: vec![EdgeKind { kind: kind.map(str::to_owned) }],
                })
                .collect();
            nodes.push(Node { id: name.to_owned(), deps });
        }
        workspace.resolve = Some(Resolve { nodes });
        workspace
    }

    /// Makes one of the packages a dependency from outside.
    pub(crate) fn foreign(workspace: &mut Workspace, name: &str) {
        workspace.workspace_members.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::{foreign, workspace};
    use super::*;

    #[test]
    fn only_normal_dependencies_are_reachable() {
        let mut workspace = workspace(&[
            ("crates/a", &[("b", None), ("d", Some("dev"))]),
            ("b", &[("c", None), ("e", Some("build"))]),
            ("c", &[]),
            ("d", &[]),
            ("e", &[]),
        ]);
        foreign(&mut workspace, "b");
        let reachable: Vec<(&str, &str)> = workspace.reachable("a").into_iter().collect();
        assert_eq!(reachable, [("b", "a"), ("c", "b")]);
        assert_eq!(workspace.folder(&workspace.packages[0]), "crates/a");
    }

    #[test]
    fn a_package_is_tested_with_ours_that_it_needs_in_any_way_and_no_others() {
        let mut workspace = workspace(&[
            ("a", &[("b", Some("dev")), ("d", None)]),
            ("b", &[("c", Some("build")), ("a", None)]),
            ("c", &[]),
            ("d", &[]),
            ("e", &[("a", None)]),
        ]);
        foreign(&mut workspace, "d");
        assert_eq!(workspace.needed_by("a").into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(workspace.needed_by("d").is_empty());
    }

    #[test]
    fn what_cargo_prints_of_this_workspace_can_be_read() {
        let workspace = Workspace::members(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let xtask = workspace.our_packages().find(|package| package.name == "xtask").unwrap();
        assert_eq!(workspace.folder(xtask), "xtask");
        assert!(xtask.normal_dependencies().any(|name| name == "anyhow"));
    }
}
