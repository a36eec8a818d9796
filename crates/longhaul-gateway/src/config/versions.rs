//! `version` and `accepts`: which version of a tool a definition is, and with which of its tasks it goes on.

use longhaul::{
    Tool,
    store::{Accepts, InvalidToolVersion, ToolVersion},
};

use super::{
    diagnostic::Diagnostic,
    reader::{At, Reader, Section},
};

/// The version of a tool, and those of the tasks that it begins and goes on with.
///
/// By default there is none, which is 0.0.0: a definition that has changed goes on with what was called before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versions {
    /// Its own.
    pub version: ToolVersion,
    /// Those of its tasks, its own among them.
    pub accepts: Accepts,
}

impl Versions {
    /// A tool of these.
    pub(crate) fn of(&self, tool: Tool) -> Tool {
        tool.version(&self.version.to_string()).accepts(&self.accepts.to_string())
    }
}

/// What is said here, or else what holds otherwise. Who says a version alone accepts no other.
pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_>, otherwise: &Versions) -> Versions {
    let before = reader.count();
    let version = parsed(reader, section, "version", "no version", ToolVersion::new);
    let accepts = parsed(reader, section, "accepts", "no requirement on versions", Accepts::new);
    if reader.count() > before {
        return otherwise.clone();
    }
    let Some(accepts) = accepts else {
        let own = |At { value: version, .. }| Versions { accepts: Accepts::only(&version), version };
        return version.map_or_else(|| otherwise.clone(), own);
    };
    let version = version.map_or_else(|| otherwise.version.clone(), |version| version.value);
    if !accepts.value.admits(&version) {
        let message = format!("`accepts` of {} leaves out its own version, {version}", section.place);
        let help =
            "a tool goes on with what it begins: say its `version`, and let `accepts` include that one";
        reader.push(Diagnostic::error(message).at(accepts.span, "not its own").help(help));
    }
    Versions { version, accepts: accepts.value }
}

fn parsed<T>(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    key: &str,
    no: &str,
    parse: impl FnOnce(&str) -> Result<T, InvalidToolVersion>,
) -> Option<At<T>> {
    let At { value: text, span } = reader.text(section, key)?;
    match parse(text) {
        Ok(value) => Some(At { value, span }),
        Err(error) => {
            let message = format!("`{key}` of {} is {no}", section.place);
            reader.push(Diagnostic::error(message).at(span, no).help(error.to_string()));
            None
        }
    }
}
