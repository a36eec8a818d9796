//! Versions of tools, and which of them a node runs: a task is claimed only by who can go on where it was.

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
use std::borrow::Cow;
use std::{
    fmt,
    str::FromStr,
    sync::{Arc, LazyLock},
};

use semver::{Version, VersionReq};

use crate::HostId;

/// The version of a tool, as semantic versions go. A tool that says none has version 0.0.0.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ToolVersion(Arc<Version>);

impl ToolVersion {
    /// The longest version, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Takes a version; what is left out at its end is 0.
    ///
    /// # Errors
    ///
    /// [`InvalidToolVersion`] if it is none.
    ///
    /// ```
    /// use longhaul_store::ToolVersion;
    /// assert_eq!(ToolVersion::new("2")?.to_string(), "2.0.0");
    /// assert_eq!(ToolVersion::new("2.1.0-rc.1")?.to_string(), "2.1.0-rc.1");
    /// assert!(ToolVersion::new("two").is_err());
    /// # Ok::<_, longhaul_store::InvalidToolVersion>(())
    /// ```
    pub fn new(version: &str) -> Result<Self, InvalidToolVersion> {
        if version == NONE {
            return Ok(Self::default());
        }
        let invalid = |why: &dyn fmt::Display| InvalidToolVersion::new(version, why);
        if version.len() > Self::MAX_LEN {
            return Err(invalid(&format_args!("it is longer than {} bytes", Self::MAX_LEN)));
        }
        let numbers = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let missing = if numbers { 2_usize.saturating_sub(version.matches('.').count()) } else { 0 };
        let whole = format!("{version}{}", ".0".repeat(missing));
        Version::parse(&whole).map(|version| Self(Arc::new(version))).map_err(|error| invalid(&error))
    }
}

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
impl ToolVersion {
    /// As a row keeps it.
    pub(crate) fn text(&self) -> Cow<'static, str> {
        // Most tools have none, and to write one costs as much as to write a date.
        if *self == Self::default() { NONE.into() } else { self.to_string().into() }
    }
}

impl Default for ToolVersion {
    fn default() -> Self {
        // Most tools have none: each record of one has this.
        static DEFAULT: LazyLock<ToolVersion> =
            LazyLock::new(|| ToolVersion(Arc::new(Version::new(0, 0, 0))));
        DEFAULT.clone()
    }
}

/// How that is written.
const NONE: &str = "0.0.0";

impl fmt::Display for ToolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ToolVersion {
    type Err = InvalidToolVersion;

    fn from_str(version: &str) -> Result<Self, InvalidToolVersion> {
        Self::new(version)
    }
}

/// Which versions of a tool a node runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Accepts(VersionReq);

impl Accepts {
    /// Takes a requirement on semantic versions.
    ///
    /// # Errors
    ///
    /// [`InvalidToolVersion`] if it is none.
    ///
    /// ```
    /// use longhaul_store::{Accepts, ToolVersion};
    /// let accepts = Accepts::new(">=1, <3")?;
    /// assert!(accepts.admits(&ToolVersion::new("2.4")?));
    /// assert!(!accepts.admits(&ToolVersion::new("3")?));
    /// # Ok::<_, longhaul_store::InvalidToolVersion>(())
    /// ```
    pub fn new(requirement: &str) -> Result<Self, InvalidToolVersion> {
        VersionReq::parse(requirement).map(Self).map_err(|error| InvalidToolVersion::new(requirement, &error))
    }

    /// This version, and no other.
    #[must_use]
    pub fn only(version: &ToolVersion) -> Self {
        let Version { major, minor, patch, pre, .. } = &*version.0;
        Self(VersionReq {
            comparators: vec![semver::Comparator {
                op: semver::Op::Exact,
                major: *major,
                minor: Some(*minor),
                patch: Some(*patch),
                pre: pre.clone(),
            }],
        })
    }

    /// Whether this version is one of them.
    #[must_use]
    pub fn admits(&self, version: &ToolVersion) -> bool {
        self.0.matches(&version.0)
    }
}

impl Default for Accepts {
    /// What says no version.
    fn default() -> Self {
        Self::only(&ToolVersion::default())
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Accepts {
    type Err = InvalidToolVersion;

    fn from_str(requirement: &str) -> Result<Self, InvalidToolVersion> {
        Self::new(requirement)
    }
}

/// A tool that a node runs, the versions of it, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Runnable {
    /// The tool's name.
    pub tool: Arc<str>,
    /// The versions.
    pub accepts: Accepts,
    /// The host that the node is on, if the work of the tool is bound to one. Default `None`: it takes no task that is bound.
    pub host: Option<HostId>,
}

impl Runnable {
    /// These versions of a tool.
    #[must_use]
    pub fn new(tool: impl Into<Arc<str>>, accepts: Accepts) -> Self {
        Self { tool: tool.into(), accepts, host: None }
    }

    /// The same on a host.
    #[must_use]
    pub fn on(mut self, host: Option<HostId>) -> Self {
        self.host = host;
        self
    }

    /// Whether a task of this tool and version, bound to this host or to none, is one it can run.
    #[must_use]
    pub fn admits(&self, tool: &str, version: &ToolVersion, host: Option<&HostId>) -> bool {
        *self.tool == *tool && self.accepts.admits(version) && (host.is_none() || host == self.host.as_ref())
    }
}

/// What is no version, or no requirement on one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{given:?} is not understood ({why}); write a version as \"2\" or \"2.1.0\", and which are accepted as \">=1, <3\""
)]
#[non_exhaustive]
pub struct InvalidToolVersion {
    given: String,
    why: String,
}

impl InvalidToolVersion {
    fn new(given: &str, why: &dyn fmt::Display) -> Self {
        Self { given: given.to_owned(), why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ToolVersion {
        ToolVersion::new(text).unwrap()
    }

    #[test]
    fn a_version_may_be_short_and_nothing_else_is_one() {
        assert_eq!((version("1").to_string(), version("1.2").to_string()), ("1.0.0".into(), "1.2.0".into()));
        assert_eq!(version("1.2.3-a+b").to_string(), "1.2.3-a+b");
        for bad in ["", ".", "1.", "v1", "1.2.3.4", "1-a", "01", "1.2.3-"] {
            assert!(ToolVersion::new(bad).is_err(), "{bad:?}");
        }
        assert!(ToolVersion::new(&format!("1.0.0-{}", "a".repeat(64))).is_err());
        assert!(Accepts::new("one").is_err() && Accepts::new("").is_err());
    }

    #[test]
    fn who_says_nothing_accepts_its_own_version_alone() {
        let none = Accepts::default();
        assert!(none.admits(&ToolVersion::default()) && !none.admits(&version("0.0.1")));
        let only = Accepts::only(&version("2.1.0-rc.1"));
        assert!(only.admits(&version("2.1.0-rc.1")));
        assert!(!only.admits(&version("2.1.0")) && !only.admits(&version("2.1.0-rc.2")));
        assert!(Runnable::new("a", none.clone()).admits("a", &ToolVersion::default(), None));
        assert!(!Runnable::new("a", none).admits("b", &ToolVersion::default(), None));
    }

    #[test]
    fn what_is_bound_to_a_host_is_run_there_and_what_is_not_anywhere() {
        let [here, there] = ["here", "there"].map(|name| HostId::new(name).unwrap());
        let (anywhere, run) = (
            Runnable::new("a", Accepts::default()),
            Runnable::new("a", Accepts::default()).on(Some(here.clone())),
        );
        let none = ToolVersion::default();
        assert!(anywhere.admits("a", &none, None) && run.admits("a", &none, None));
        assert!(run.admits("a", &none, Some(&here)) && !run.admits("a", &none, Some(&there)));
        assert!(!anywhere.admits("a", &none, Some(&here)));
    }
}
