//! `[store]`: where tasks and the output of commands are kept.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use thiserror::Error;

use super::{
    diagnostic::{Diagnostic, Edit},
    reader::{Reader, Section, quoted},
    sealing::Sealing,
    spelling::nearest,
    tool::read::Context,
};

/// Where tasks and the output of commands are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Store {
    /// The store of tasks; `sqlite:longhaul.db` beside the configuration file unless configured.
    pub url: StoreUrl,
    /// The folder of run files, where `None` leaves it to the store: a SQLite file has its own beside it.
    pub state: Option<PathBuf>,
    /// How many bytes all run files together may take.
    pub max_run_bytes: u64,
    /// With which keys it is sealed; `None` when it is not.
    pub sealing: Option<Sealing>,
}

impl Store {
    /// The store at `url`, everything else by default.
    #[must_use]
    pub fn at(url: StoreUrl) -> Self {
        Self { url, state: None, max_run_bytes: MAX_RUN_BYTES, sealing: None }
    }

    /// The defaults of a configuration file that stands in `base`.
    pub(super) fn defaults(base: &Path) -> Self {
        Self::at(StoreUrl::Sqlite(base.join("longhaul.db")))
    }

    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, context: Context<'_>) -> Self {
        reader.reject_unknown(section, &["url", "state", "max_run_bytes", "keys", "read_plain"]);
        let base = context.base;
        let mut store = Self::defaults(base);
        if let Some(text) = reader.text(section, "url") {
            match text.value.parse::<StoreUrl>() {
                Ok(url) => store.url = url.resolved(base),
                Err(error) => {
                    let message = format!("`url` of {} names no store: {error}", section.place);
                    let diagnostic = Diagnostic::error(message).at(text.span.clone(), "not a store");
                    reader.push(match error.suggestion(text.value) {
                        Some(url) => {
                            diagnostic.fix(format!("write `{url}`"), vec![Edit::new(text.span, quoted(&url))])
                        }
                        None => diagnostic.help(URL_FORM),
                    });
                }
            }
        }
        if let Some(text) = reader.text(section, "state") {
            if text.value.is_empty() {
                let message = format!("`state` of {} is empty", section.place);
                reader.push(Diagnostic::error(message).at(text.span, "no folder").help("name a folder"));
            } else {
                store.state = Some(base.join(text.value));
            }
        }
        let range = (MAX_RUN_BYTES_MIN, u64::MAX);
        store.max_run_bytes = reader.size(section, "max_run_bytes", range).unwrap_or(MAX_RUN_BYTES);
        store.sealing = Sealing::read(reader, section, context);
        store
    }
}

/// The address of a store.
///
/// # Examples
///
/// ```
/// use longhaul_gateway::config::StoreUrl;
///
/// assert_eq!("sqlite:tasks.db".parse::<StoreUrl>()?, StoreUrl::Sqlite("tasks.db".into()));
/// assert!("tasks.db".parse::<StoreUrl>().is_err());
/// # Ok::<(), longhaul_gateway::config::StoreUrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "whoever opens one must know each")]
pub enum StoreUrl {
    /// `sqlite:PATH`: one file.
    Sqlite(PathBuf),
    /// `memory:`: nothing outlives the process.
    Memory,
}

impl StoreUrl {
    fn resolved(self, base: &Path) -> Self {
        match self {
            Self::Sqlite(path) => Self::Sqlite(base.join(path)),
            Self::Memory => Self::Memory,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(StoreUrlError::NoScheme);
        };
        match scheme {
            // Both forms are in use elsewhere: `sqlite:file`, and `sqlite://file` with the two slashes of a URL.
            "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
                "" => Err(StoreUrlError::NoFile),
                path => Ok(Self::Sqlite(path.into())),
            },
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(StoreUrlError::MemoryTakesNothing),
            _ => Err(StoreUrlError::UnknownScheme { scheme: scheme.chars().take(40).collect() }),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not the address of a store.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// There is no `scheme:`.
    #[error("it has no scheme")]
    NoScheme,
    /// The scheme is none of ours; no store on the network is.
    #[error("there is no `{scheme}:` store in this release: use sqlite:FILE or memory:")]
    UnknownScheme {
        /// The scheme as written.
        scheme: String,
    },
    /// `sqlite:` without a file.
    #[error("`sqlite:` needs a file")]
    NoFile,
    /// `memory:` with something behind it.
    #[error("`memory:` takes nothing behind it")]
    MemoryTakesNothing,
}

impl StoreUrlError {
    /// What was probably meant by `written`, the text that names no store.
    #[must_use]
    pub fn suggestion(&self, written: &str) -> Option<String> {
        match self {
            Self::NoScheme if written == "memory" => Some("memory:".to_owned()),
            Self::NoScheme if !written.is_empty() => Some(format!("sqlite:{written}")),
            Self::UnknownScheme { scheme } => {
                let near = nearest(scheme, ["sqlite", "memory"])?;
                Some(format!("{near}{}", &written[scheme.len()..]))
            }
            Self::MemoryTakesNothing => Some("memory:".to_owned()),
            _ => None,
        }
    }
}

const URL_FORM: &str = "a store is `sqlite:FILE` or `memory:`";
const MAX_RUN_BYTES: u64 = 10 << 30;
const MAX_RUN_BYTES_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_its_scheme() {
        let parsed = |text: &str| text.parse::<StoreUrl>();
        assert_eq!(parsed("sqlite:///var/t.db"), Ok(StoreUrl::Sqlite("/var/t.db".into())));
        assert_eq!(parsed("memory:"), Ok(StoreUrl::Memory));
        assert_eq!(parsed("longhaul.db"), Err(StoreUrlError::NoScheme));
        assert_eq!(parsed("sqlite:"), Err(StoreUrlError::NoFile));
        assert_eq!(parsed("memory:x"), Err(StoreUrlError::MemoryTakesNothing));
        for scheme in ["postgres", "redis", "mysql"] {
            let error = parsed(&format!("{scheme}://user:hunter2@h/db")).unwrap_err();
            assert_eq!(error, StoreUrlError::UnknownScheme { scheme: scheme.into() });
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
