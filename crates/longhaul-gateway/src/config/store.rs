//! `[store]`: where tasks and the output of commands are kept.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use thiserror::Error;

use super::{
    diagnostic::{Diagnostic, Edit},
    quotas::Quotas,
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
    /// How long a task whose command runs on one host waits for a server there, before any other server ends it as lost.
    pub host_grace: Duration,
    /// How many tasks it takes.
    pub quotas: Quotas,
    /// With which keys it is sealed; `None` when it is not.
    pub sealing: Option<Sealing>,
}

impl Store {
    /// The store at `url`, everything else by default.
    #[must_use]
    pub fn at(url: StoreUrl) -> Self {
        let (max_run_bytes, quotas) = (MAX_RUN_BYTES, Quotas::default());
        Self { url, state: None, max_run_bytes, host_grace: HOST_GRACE, quotas, sealing: None }
    }

    /// The defaults of a configuration file that stands in `base`.
    pub(super) fn defaults(base: &Path) -> Self {
        Self::at(StoreUrl::Sqlite(base.join("longhaul.db")))
    }

    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, context: Context<'_>) -> Self {
        let known = ["url", "state", "max_run_bytes", "host_grace", "keys", "read_plain"];
        reader.reject_unknown(section, &[&known[..], &Quotas::KEYS].concat());
        let base = context.base;
        let mut store = Self::defaults(base);
        if let Some(text) = reader.text(section, "url") {
            let line = reader.line_of(&text.span);
            match text.value.parse::<StoreUrl>() {
                Ok(StoreUrl::Postgres(url)) if url.has_password() => {
                    reader.push(
                        shows_a_password(section, line)
                            .help("leave it out, and set PGPASSWORD where the server starts"),
                    );
                }
                Ok(StoreUrl::Redis(url)) if url.has_password() => {
                    reader.push(
                        shows_a_password(section, line)
                            .help("leave it out, and set REDISCLI_AUTH where the server starts"),
                    );
                }
                // The line may show a password.
                Err(error @ StoreUrlError::Unescaped) => {
                    let message =
                        format!("`url` of {} in line {line} names no store: {error}", section.place);
                    reader.push(Diagnostic::error(message).help(URL_FORM));
                }
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
        let range = (HOST_GRACE_MIN, HOST_GRACE_MAX);
        store.host_grace = reader.duration(section, "host_grace", range).unwrap_or(HOST_GRACE);
        store.quotas = Quotas::read(reader, section);
        store.sealing = Sealing::read(reader, section, context);
        store
    }
}

fn shows_a_password(section: &Section<'_>, line: usize) -> Diagnostic {
    Diagnostic::error(format!("`url` of {} in line {line} has a password", section.place))
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
    /// `postgres://HOST/DATABASE`: a database that the nodes of a fleet share.
    Postgres(DatabaseUrl),
    /// `redis://HOST`, `rediss://HOST` or `redis+unix:///SOCKET`: a Redis or Valkey server that the nodes of a fleet share.
    Redis(DatabaseUrl),
    /// `memory:`: nothing outlives the process.
    Memory,
}

/// The URL of a database. What is shown of it has neither a user, a password nor settings.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// All of it, a password included.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is a password in it.
    #[must_use]
    pub fn has_password(&self) -> bool {
        let user = self.authority().rsplit_once('@').map_or("", |(user, _)| user);
        let settings = self.0.split_once('?').map_or("", |(_, settings)| settings);
        user.contains(':')
            || settings
                .split('&')
                .any(|setting| ["password=", "pass="].iter().any(|word| setting.starts_with(word)))
    }

    fn authority(&self) -> &str {
        let rest = self.0.split_once("//").map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority();
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        let behind = self.0.split_once("//").map_or("", |(_, rest)| &rest[authority.len()..]);
        let scheme = match self.0.split(':').next().unwrap_or_default() {
            "postgresql" => "postgres",
            scheme => scheme,
        };
        write!(f, "{scheme}://{hosts}{}", behind.split('?').next().unwrap_or_default())
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StoreUrl {
    fn resolved(self, base: &Path) -> Self {
        match self {
            Self::Sqlite(path) => Self::Sqlite(base.join(path)),
            other => other,
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
            // Both names are in use elsewhere.
            "postgres" | "postgresql" => match DatabaseUrl(text.to_owned()) {
                url if !rest.starts_with("//") || url.authority().is_empty() => {
                    Err(StoreUrlError::NoDatabase)
                }
                // What stands before it may be a password, and would be shown.
                url if text.matches('@').count() > url.authority().matches('@').count() => {
                    Err(StoreUrlError::Unescaped)
                }
                url => Ok(Self::Postgres(url)),
            },
            "redis" | "rediss" | "valkey" | "valkeys" | "redis+unix" => match DatabaseUrl(text.to_owned()) {
                url if !rest.starts_with("//")
                    || url.authority().is_empty() != (scheme == "redis+unix")
                    || rest.len() < 3 =>
                {
                    Err(StoreUrlError::NoServer)
                }
                url if text.matches('@').count() > url.authority().matches('@').count() => {
                    Err(StoreUrlError::Unescaped)
                }
                url => Ok(Self::Redis(url)),
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
            Self::Postgres(url) | Self::Redis(url) => url.fmt(f),
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
    /// The scheme is none of ours.
    #[error(
        "there is no `{scheme}:` store in this release: use sqlite:FILE, postgres://HOST/DATABASE, redis://HOST or memory:"
    )]
    UnknownScheme {
        /// The scheme as written.
        scheme: String,
    },
    /// `sqlite:` without a file.
    #[error("`sqlite:` needs a file")]
    NoFile,
    /// `postgres:` without a database.
    #[error("`postgres:` needs a host and a database, as in postgres://USER@HOST/DATABASE")]
    NoDatabase,
    /// `redis:` without a server.
    #[error(
        "`redis:` needs a host, as in redis://HOST or rediss://USER@HOST:PORT/0, or a socket: redis+unix:///SOCKET"
    )]
    NoServer,
    /// An `@` behind the host: something before it is not as it must be written.
    #[error("write what is special in a user or a password of a database as %2F, %3F, %40 and the like")]
    Unescaped,
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
                let near = nearest(scheme, ["sqlite", "postgres", "redis", "memory"])?;
                Some(format!("{near}{}", &written[scheme.len()..]))
            }
            Self::MemoryTakesNothing => Some("memory:".to_owned()),
            _ => None,
        }
    }
}

const URL_FORM: &str = "a store is `sqlite:FILE`, `postgres://HOST/DATABASE`, `redis://HOST` or `memory:`";
const MAX_RUN_BYTES: u64 = 10 << 30;
const MAX_RUN_BYTES_MIN: u64 = 1 << 20;
const HOST_GRACE: Duration = Duration::from_secs(10 * 60);
const HOST_GRACE_MIN: Duration = Duration::from_secs(1);
const HOST_GRACE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

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
        assert!(matches!(parsed("postgres://h/db"), Ok(StoreUrl::Postgres(_))));
        assert_eq!(parsed("postgres:"), Err(StoreUrlError::NoDatabase));
        for unescaped in ["postgres://ann:hunt/er2@h/db", "postgres://ann:hunt?er2@h/db"] {
            let error = parsed(unescaped).unwrap_err();
            assert_eq!(error, StoreUrlError::Unescaped);
            assert!(!error.to_string().contains("hunt"), "{error}");
        }
        for server in
            ["redis://h", "rediss://ann@h:6380/1", "valkey://h", "redis+unix:///run/redis.sock?db=1"]
        {
            assert!(matches!(parsed(server), Ok(StoreUrl::Redis(_))), "{server}");
        }
        for none in ["redis:", "redis://", "redis+unix://", "redis+unix://h/socket", "redis:h"] {
            assert_eq!(parsed(none), Err(StoreUrlError::NoServer), "{none}");
        }
        for scheme in ["mongodb", "mysql"] {
            let error = parsed(&format!("{scheme}://user:hunter2@h/db")).unwrap_err();
            assert_eq!(error, StoreUrlError::UnknownScheme { scheme: scheme.into() });
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn of_a_database_nothing_secret_is_shown() {
        for (text, shown, secret) in [
            ("postgres://ann:hunter2@h:6432/db?sslmode=prefer", "postgres://h:6432/db", true),
            ("postgresql://ann:hunt@er2@h/db", "postgres://h/db", true),
            ("postgres://h/db?user=ann&password=hunter2", "postgres://h/db", true),
            ("postgres://ann@%2Frun%2Fpostgresql/db", "postgres://%2Frun%2Fpostgresql/db", false),
            ("postgres://h", "postgres://h", false),
            ("rediss://ann:hunter2@h:6380/1?name=a", "rediss://h:6380/1", true),
            ("redis+unix:///run/redis.sock?pass=hunter2", "redis+unix:///run/redis.sock", true),
            ("redis://ann@h", "redis://h", false),
        ] {
            let Ok(StoreUrl::Postgres(url) | StoreUrl::Redis(url)) = text.parse() else {
                panic!("{text} is one")
            };
            assert_eq!((url.to_string().as_str(), url.has_password()), (shown, secret));
            assert_eq!((format!("{url:?}").as_str(), url.expose()), (shown, text));
        }
    }
}
