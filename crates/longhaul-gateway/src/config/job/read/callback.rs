//! `callback` of a job: where the API can say that it has ended.

use std::ops::Range;

use reqwest::Url;

use super::{CALLBACK, Reader, Section};
use crate::config::{
    diagnostic::Diagnostic,
    input::read::Declared as Input,
    job::{Callback, CallbackBody},
};

/// A `callback`, as far as it could be read.
pub(super) struct Declared {
    pub(super) callback: Option<Callback>,
    /// Whether a start says it.
    pub(super) used: bool,
    span: Range<usize>,
    job: String,
}

/// Reads `callback`, if there is one.
pub(super) fn read(reader: &mut Reader<'_>, job: &Section<'_>, inputs: &[Input]) -> Option<Declared> {
    let entry = job.entry("callback")?;
    for input in inputs.iter().filter(|input| input.name == CALLBACK) {
        let message = format!("`{CALLBACK}` cannot be the name of an input of {} as well", job.place);
        let help = "`{callback}` stands for the address at which the API calls back: choose another name";
        reader.push(Diagnostic::error(message).at(input.span.clone(), "taken").help(help));
    }
    let span = entry.key_span.clone();
    let callback = reader.table(&entry, format!("`callback` of {}", job.place)).and_then(|section| {
        reader.reject_unknown(&section, &["url", "body"]);
        let body = reader.word(&section, "body", &BODIES).unwrap_or_default();
        url(reader, &section).map(|url| Callback { url, body })
    });
    Some(Declared { callback, used: false, span, job: job.place.clone() })
}

/// An address that no API is told is of no use.
pub(super) fn warn_if_unused(reader: &mut Reader<'_>, declared: Option<&Declared>) {
    let Some(declared) = declared.filter(|declared| !declared.used) else { return };
    let message = format!("the API of {} is never told where it can call back", declared.job);
    let help = "write \"{callback}\" in the `body`, a header or the `url` of `start`, or remove `callback`";
    reader.push(Diagnostic::warning(message).at(declared.span.clone(), "never used").help(help));
}

fn url(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<Url> {
    let help = "write where the API reaches this server: `url = \"https://tools.example\"`";
    let Some(text) = reader.text(section, "url") else {
        if section.entry("url").is_none() {
            let message = format!("{} has no URL", section.place);
            reader.push(Diagnostic::error(message).at(section.span.clone(), "no `url`").help(help));
        }
        return None;
    };
    let plain = |url: &Url| {
        let bare = url.query().is_none() && url.fragment().is_none();
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && bare
    };
    match Url::parse(text.value).ok().filter(plain) {
        Some(url) => Some(url),
        None => {
            let message = format!("`url` of {} cannot be used", section.place);
            reader.push(
                Diagnostic::error(message).at(text.span, "no plain address of http or https").help(help),
            );
            None
        }
    }
}

const BODIES: [(&str, CallbackBody); 2] =
    [("ignored", CallbackBody::Ignored), ("status", CallbackBody::Status)];
