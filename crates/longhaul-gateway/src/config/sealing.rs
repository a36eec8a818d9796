//! `keys` and `read_plain` of `[store]`: whether what tasks carry is sealed where it is kept.

use longhaul_store::sealed::{InvalidSealingKey, SealingKeys};
use thiserror::Error;

use super::{
    diagnostic::Diagnostic,
    environment::{EnvError, EnvSource, Sources, explain, parse},
    reader::{Reader, Section},
    tool::read::Context,
};

/// With which keys a store is sealed, and where each is read when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sealing {
    /// The newest, which seals.
    pub newest: EnvSource,
    /// Others, which still open what they have sealed.
    pub older: Vec<EnvSource>,
    /// Whether what was written before the store was sealed is read.
    pub reads_plain: bool,
}

/// Why there are no keys.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SealingError {
    /// One is not where it should be.
    #[error("the key of the store cannot be read from {from}")]
    #[non_exhaustive]
    Unreadable {
        /// Where.
        from: EnvSource,
        /// Why.
        #[source]
        source: EnvError,
    },
    /// What is there is no key.
    #[error("{from} holds no key of a store")]
    #[non_exhaustive]
    Invalid {
        /// Where.
        from: EnvSource,
        /// Why.
        #[source]
        source: InvalidSealingKey,
    },
}

impl Sealing {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, context: Context<'_>) -> Option<Self> {
        let reads_plain = reader.boolean(section, "read_plain");
        let Some(texts) = reader.texts(section, "keys") else {
            if let Some(reads_plain) = reads_plain.filter(|_| section.entry("keys").is_none()) {
                let message = format!("{} is not sealed, so that `read_plain` says nothing", section.place);
                let help = "name its keys, `keys = [\"env:NAME\"]`, or remove it";
                reader.push(Diagnostic::error(message).at(reads_plain.span, "no `keys`").help(help));
            }
            return None;
        };
        if texts.is_empty() {
            let message = format!("`keys` of {} names none", section.place);
            let help = "name where one is read, such as `keys = [\"env:NAME\"]`, or remove it";
            let span = section.entry("keys").map_or_else(|| section.span.clone(), |entry| entry.key_span);
            reader.push(Diagnostic::error(message).at(span, "no key").help(help));
        }
        let mut sources = Vec::with_capacity(texts.len());
        for text in &texts {
            let Some(source) = parse(text.value, context.base) else {
                let message = format!("`keys` of {} names a place where nothing is read", section.place);
                let help = "a key never stands in the configuration: say `env:NAME` or `file:PATH`";
                reader.push(Diagnostic::error(message).at(text.span.clone(), "no source").help(help));
                continue;
            };
            match keys(&source, context.sources) {
                Ok(_) => {}
                Err(SealingError::Unreadable { source, .. }) => {
                    let message =
                        format!("a key of {} cannot be read now: {}", section.place, explain(&source));
                    let help = "the server does not start without it";
                    reader
                        .push(Diagnostic::warning(message).at(text.span.clone(), "nothing there").help(help));
                }
                Err(SealingError::Invalid { from, source }) => {
                    let message = format!("{from} holds no key of a store: {source}");
                    let help = "make one, and keep it where the store is not kept: what is sealed is lost without it";
                    reader.push(Diagnostic::error(message).at(text.span.clone(), "no key").help(help));
                }
            }
            sources.push(source);
        }
        let mut sources = sources.into_iter();
        let newest = sources.next()?;
        let reads_plain = reads_plain.is_some_and(|reads_plain| reads_plain.value);
        Some(Self { newest, older: sources.collect(), reads_plain })
    }

    /// The keys, read from `sources`.
    ///
    /// # Errors
    ///
    /// When one of them is not there, or is none.
    pub fn keys(&self, sources: &dyn Sources) -> Result<SealingKeys, SealingError> {
        let newest = keys(&self.newest, sources)?;
        self.older.iter().try_fold(newest, |all, older| Ok(all.or(keys(older, sources)?)))
    }
}

/// The key that is read here.
fn keys(from: &EnvSource, sources: &dyn Sources) -> Result<SealingKeys, SealingError> {
    let text =
        from.read(sources).map_err(|source| SealingError::Unreadable { from: from.clone(), source })?;
    // What is no text is no key either.
    SealingKeys::new(&text.to_string_lossy())
        .map_err(|source| SealingError::Invalid { from: from.clone(), source })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, io, path::Path};

    use super::*;
    use crate::config::check_with;

    /// A machine with one key in a variable and another in a file.
    struct Known;

    impl Sources for Known {
        fn variable(&self, name: &str) -> Option<OsString> {
            (name == "KEY").then(|| "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".into())
        }

        fn variables(&self) -> Vec<(OsString, OsString)> {
            Vec::new()
        }

        fn file(&self, path: &Path, _: usize) -> io::Result<Vec<u8>> {
            let known = path == Path::new("/etc/longhaul/older");
            known
                .then(|| b"//////////////////////////////////////////8=\n".to_vec())
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        }
    }

    fn sealing(store: &str) -> Option<Sealing> {
        let text = format!("[store]\n{store}\n[tools.t]\ndescription = \"d\"\ncommand = [\"x\"]\n");
        let checked = check_with("/etc/longhaul/longhaul.toml", &text, &Known).unwrap();
        assert!(checked.warnings.is_empty(), "{}", checked.warnings);
        checked.config.store.sealing
    }

    #[test]
    fn keys_are_read_where_it_says() {
        assert_eq!(sealing(""), None);
        let sealing = sealing("keys = [\"env:KEY\", \"file:older\"]\nread_plain = true").unwrap();
        assert_eq!((&sealing.newest, sealing.reads_plain), (&EnvSource::Variable("KEY".into()), true));
        assert_eq!(sealing.older, [EnvSource::File("/etc/longhaul/older".into())]);
        // Their names are all that is shown of them.
        let shown = format!("{:?}", sealing.keys(&Known).unwrap());
        assert!(shown.len() < 30 && !shown.contains("AAEC"), "{shown}");
        let missing = Sealing { newest: EnvSource::Variable("OTHER".into()), ..sealing };
        assert!(matches!(missing.keys(&Known), Err(SealingError::Unreadable { .. })));
    }
}
