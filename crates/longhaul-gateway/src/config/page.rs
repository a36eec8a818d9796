//! `[page]`: the pages for people at a browser.

use longhaul::server::Scopes;

use super::diagnostic::Diagnostic;
use super::reader::{Reader, Section};

/// The pages for people at a browser, beside the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// Whether there are any.
    pub enabled: bool,
    /// Who carries all of these sees every task, where callers sign in; nobody does when `None`.
    pub operators: Option<Scopes>,
}

impl Default for Page {
    fn default() -> Self {
        Self { enabled: true, operators: None }
    }
}

impl Page {
    pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Self {
        reader.reject_unknown(section, &["enabled", "operators"]);
        let enabled = reader.boolean(section, "enabled").is_none_or(|enabled| enabled.value);
        let operators = reader.text(section, "operators").and_then(|text| match Scopes::parse(text.value) {
            // Whoever asks for nothing would let everybody see everything.
            Ok(scopes) if !scopes.is_empty() => Some(scopes),
            _ => {
                let message = format!("`operators` of {} is no scope", section.place);
                let help = "name the scope that tokens of operators carry: \"longhaul:operator\"";
                reader.push(Diagnostic::error(message).at(text.span, "no scope").help(help));
                None
            }
        });
        Self { enabled, operators }
    }
}
