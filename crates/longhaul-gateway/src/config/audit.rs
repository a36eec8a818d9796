//! `[audit]`: where it is noted what becomes of tasks.

use std::path::{Path, PathBuf};

use longhaul::audit::AuditOptions;

use super::diagnostic::Diagnostic;
use super::reader::{Reader, Section};

/// Where it is noted what becomes of tasks, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The folder of the trail.
    pub path: PathBuf,
    /// How many bytes one file has before the next is begun.
    pub max_file: u64,
    /// How many files there are before the oldest go.
    pub max_files: u32,
}

/// Smaller files would be all beginnings.
const MAX_FILE_MIN: u64 = 64 << 10;
const MAX_FILE_MAX: u64 = 1 << 30;

impl Audit {
    /// `None` if it does not say where.
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, base: &Path) -> Option<Self> {
        reader.reject_unknown(section, &["path", "max_file", "max_files"]);
        let default = AuditOptions::default();
        let max_file = reader.size(section, "max_file", (MAX_FILE_MIN, MAX_FILE_MAX));
        let max_files = reader.count_of(section, "max_files", 1).map(|count| count.value);
        let path = match reader.text(section, "path") {
            Some(text) if !text.value.is_empty() => base.join(text.value),
            Some(text) => {
                let message = format!("`path` of {} is empty", section.place);
                reader.push(Diagnostic::error(message).at(text.span, "no folder").help("name a folder"));
                return None;
            }
            None => {
                if section.entry("path").is_none() {
                    let message = format!("{} says nothing of where the trail is", section.place);
                    let help = "add `path = \"audit\"`: a folder, made if it is not there";
                    reader.push(Diagnostic::error(message).at(section.span.clone(), "no `path`").help(help));
                }
                return None;
            }
        };
        Some(Self {
            path,
            max_file: max_file.unwrap_or(default.max_file),
            max_files: max_files.unwrap_or_else(|| u32::try_from(default.max_files).unwrap_or(u32::MAX)),
        })
    }

    /// The bounds, as the trail takes them.
    #[must_use]
    pub fn options(&self) -> AuditOptions {
        let max_files = usize::try_from(self.max_files).unwrap_or(usize::MAX);
        AuditOptions::default().max_file(self.max_file).max_files(max_files)
    }
}
