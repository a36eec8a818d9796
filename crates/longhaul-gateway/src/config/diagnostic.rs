//! One mistake in a configuration file, and the list of all of them, shown as `rustc` shows its own.

use std::{error, fmt, ops::Range};

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet, normalize_untrusted_str};

use crate::clean;

/// Whether a mistake keeps the configuration from being used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, and probably does not do what its author wants.
    Warning,
}

/// Whether a rendering carries ANSI colours. The caller knows its terminal; this crate does not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Colour {
    /// Plain text.
    #[default]
    Never,
    /// ANSI colours, always.
    Always,
}

/// One mistake: what is wrong, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    severity: Severity,
    message: String,
    labels: Vec<Label>,
    notes: Vec<String>,
    helps: Vec<Help>,
}

impl Diagnostic {
    pub(super) fn error(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message.into())
    }

    pub(super) fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message.into())
    }

    fn new(severity: Severity, message: String) -> Self {
        Self { severity, message, labels: Vec::new(), notes: Vec::new(), helps: Vec::new() }
    }

    /// Marks the place of the mistake.
    pub(super) fn at(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: label.into(), primary: self.labels.is_empty() });
        self
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(super) fn help(self, message: impl Into<String>) -> Self {
        self.fix(message, Vec::new())
    }

    /// Says what to do and shows the lines as they should be.
    pub(super) fn fix(mut self, message: impl Into<String>, edits: Vec<Edit>) -> Self {
        self.helps.push(Help { message: message.into(), edits });
        self
    }

    /// Whether this mistake keeps the configuration from being used.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// What is wrong, in one line without a full stop.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Where the mistake is, in bytes of the source; `None` when it is about the file as a whole.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.labels.first().map(|label| label.span.clone())
    }

    /// What to do about it, one sentence each.
    pub fn helps(&self) -> impl Iterator<Item = &str> {
        self.helps.iter().map(|help| help.message.as_str())
    }

    fn groups<'a>(&'a self, name: &'a str, source: &'a str) -> Vec<Group<'a>> {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        // A mistake of the file as a whole has no line to show beside the name.
        let title = match self.labels.is_empty() {
            true => format!("{name}: {}", self.message),
            false => self.message.clone(),
        };
        let mut first = Group::with_title(level.primary_title(title));
        if !self.labels.is_empty() {
            let marks = self.labels.iter().map(|label| {
                let kind = if label.primary { AnnotationKind::Primary } else { AnnotationKind::Context };
                let text = (!label.text.is_empty()).then_some(label.text.as_str());
                kind.span(label.span.clone()).label(text)
            });
            let name = normalize_untrusted_str(name);
            first = first.element(Snippet::source(source).path(name).annotations(marks));
        }
        // Messages may carry styling of their own, so text from the file is made harmless first.
        for note in &self.notes {
            first = first.element(Level::NOTE.message(normalize_untrusted_str(note)));
        }
        let (with_lines, plain): (Vec<_>, Vec<_>) =
            self.helps.iter().partition(|help| !help.edits.is_empty());
        for help in plain {
            first = first.element(Level::HELP.message(normalize_untrusted_str(&help.message)));
        }
        let mut groups = vec![first];
        groups.extend(with_lines.into_iter().map(|help| {
            let patches = help.edits.iter().map(|edit| Patch::new(edit.span.clone(), &edit.replacement));
            Level::HELP
                .secondary_title(normalize_untrusted_str(&help.message))
                .element(Snippet::source(source).patches(patches))
        }));
        groups
    }
}

/// One replacement in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    span: Range<usize>,
    replacement: String,
}

impl Edit {
    pub(super) fn new(span: Range<usize>, replacement: impl Into<String>) -> Self {
        Self { span, replacement: replacement.into() }
    }

    #[cfg(test)]
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    #[cfg(test)]
    pub(super) fn replacement(&self) -> &str {
        &self.replacement
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    span: Range<usize>,
    text: String,
    primary: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Help {
    message: String,
    edits: Vec<Edit>,
}

/// Every mistake of one configuration file, in the order of the file.
///
/// `Display` renders all of them without colour; [`render`](Self::render) lets the caller choose.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics {
    name: String,
    source: String,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(super) fn new(name: &str, source: &str, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|diagnostic| diagnostic.span().map_or(0, |span| span.start));
        Self { name: name.to_owned(), source: source.to_owned(), list }
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// The mistakes, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many mistakes keep the configuration from being used.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error).count()
    }

    /// How many mistakes do not.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.list.len() - self.errors()
    }

    /// The line and column of a mistake, both counted from 1, the column in characters.
    #[must_use]
    pub fn position(&self, diagnostic: &Diagnostic) -> Option<(usize, usize)> {
        let before = self.source.get(..diagnostic.span()?.start)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Some((line, before[line_start..].chars().count() + 1))
    }

    /// The mistakes as a person reads them: message, line, caret, and the line as it should be.
    ///
    /// At most [`MAX_RENDERED`] are shown, followed by how many are left out; the text ends with a newline
    /// unless it is empty.
    #[must_use]
    pub fn render(&self, colour: Colour) -> String {
        let renderer = match colour {
            Colour::Never => Renderer::plain(),
            Colour::Always => Renderer::styled(),
        };
        let mut text = String::new();
        for diagnostic in self.list.iter().take(MAX_RENDERED) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&renderer.render(&diagnostic.groups(&self.name, &self.source)));
            text.push('\n');
        }
        if self.list.len() > MAX_RENDERED {
            let title = format!("{} more mistakes are not shown", self.list.len() - MAX_RENDERED);
            text.push('\n');
            text.push_str(&renderer.render(&[Group::with_title(Level::NOTE.primary_title(title))]));
            text.push('\n');
        }
        // The renderer shows what moves a terminal's cursor as signs, but for what is one character of its own.
        clean::coloured(&text)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Colour::Never))
    }
}

/// Leaves the source out: a configuration may hold secrets.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnostics")
            .field("name", &self.name)
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}

impl error::Error for Diagnostics {}

/// The most mistakes one rendering shows.
pub const MAX_RENDERED: usize = 100;
