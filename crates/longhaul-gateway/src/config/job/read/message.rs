//! One request of a job: its method, its URL, its headers and its body.

use reqwest::{Method, header::HeaderName};
use toml::{Spanned, de::DeValue};

use super::{CALLBACK, JOB, Request, UrlTemplate};
use crate::config::{
    diagnostic::Diagnostic,
    environment::source,
    input::{Kind, Presence, read::Declared},
    job::{
        body::Body,
        request::{Header, HeaderText},
    },
    outline::Form,
    reader::{At, Entry, Reader, Section},
    spelling::nearest,
    template::{Template, Token, tokens},
    tool::read::Context,
};

/// What may stand for what in a text.
pub(in crate::config) enum Names<'n> {
    /// Nothing.
    Fixed,
    /// `{job}`, the job's id.
    Job,
    /// The inputs of the tool, and `{callback}` where the API can call back: whether it is used.
    Call { inputs: &'n mut [Declared], callback: Option<&'n mut bool> },
}

impl Names<'_> {
    fn all(&self) -> Vec<String> {
        match self {
            Self::Fixed => Vec::new(),
            Self::Job => vec![JOB.to_owned()],
            Self::Call { inputs, callback } => {
                let names = inputs.iter().map(|input| input.name.clone());
                names.chain(callback.iter().map(|_| CALLBACK.to_owned())).collect()
            }
        }
    }

    fn mark(&mut self, name: &str) {
        if let Self::Call { inputs, callback } = self {
            inputs.iter_mut().filter(|input| input.name == name).for_each(|input| input.used = true);
            callback.iter_mut().filter(|_| name == CALLBACK).for_each(|used| **used = true);
        }
    }

    /// The inputs of a template that this is not so of.
    fn unfit(&self, template: &Template, fits: impl Fn(&Kind, &Presence) -> bool) -> Option<String> {
        let Self::Call { inputs, .. } = self else { return None };
        let declared = template.inputs().filter_map(|index| inputs.get(index));
        let mut unfit = declared.filter(|declared| {
            declared.input.as_ref().is_some_and(|input| !fits(&input.kind, &input.presence))
        });
        unfit.next().map(|declared| declared.name.clone())
    }
}

/// Reads a request.
pub(super) fn request(
    reader: &mut Reader<'_>,
    entry: &Entry<'_>,
    job: &str,
    context: Context<'_>,
    names: &mut Names<'_>,
) -> Option<Request> {
    let section = reader.table(entry, format!("`{}` of {job}", entry.key))?;
    reader.reject_unknown(&section, &["method", "url", "headers", "body"]);
    let method = reader.word(&section, "method", &METHODS);
    if section.entry("url").is_none() {
        let message = format!("{} has no URL", section.place);
        let diagnostic = Diagnostic::error(message).at(section.span.clone(), "no `url`");
        reader.push(diagnostic.help("write where the request goes: `url = \"https://…\"`"));
    }
    let url = url(reader, &section, names);
    let headers = headers(reader, &section, context, names);
    reader.asks(&section, "body", || Form::Anything);
    let body = match section.entry("body") {
        Some(entry) => {
            let place = format!("`body` of {}", section.place);
            body(reader, &place, entry.value, entry.span, names).map(Some)
        }
        None => Some(None),
    };
    let method = match method.unwrap_or(Verb::Post) {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete => Method::DELETE,
    };
    Some(Request { method, url: url?, headers: headers?, body: body? })
}

#[derive(Clone, Copy)]
enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

const METHODS: [(&str, Verb); 5] = [
    ("GET", Verb::Get),
    ("POST", Verb::Post),
    ("PUT", Verb::Put),
    ("PATCH", Verb::Patch),
    ("DELETE", Verb::Delete),
];

/// Reads the `url` of a request.
pub(super) fn url(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    names: &mut Names<'_>,
) -> Option<UrlTemplate> {
    let text = reader.text(section, "url")?;
    let template = template(reader, &section.place, &text, names)?;
    let in_one_piece =
        |kind: &Kind, presence: &Presence| !matches!(kind, Kind::Array(_)) && *presence != Presence::Optional;
    if let Some(name) = names.unfit(&template, in_one_piece) {
        let message = format!("`{{{name}}}` cannot stand in the URL of {}", section.place);
        let help = "a list has no one place in a URL, and what may be left out would leave a hole: give the input a default, or send it in the `body`";
        reader.push(Diagnostic::error(message).at(text.span, format!("`{{{name}}}`")).help(help));
        return None;
    }
    match UrlTemplate::new(template) {
        Ok(url) => Some(url),
        Err(mistake) => {
            let message = format!("`url` of {} cannot be used: {mistake}", section.place);
            let help = "a URL is whole, `https://host/path`, and values stand in its path or query alone";
            reader.push(Diagnostic::error(message).at(text.span, "not usable").help(help));
            None
        }
    }
}

/// Reads `headers`.
pub(in crate::config) fn headers(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    context: Context<'_>,
    names: &mut Names<'_>,
) -> Option<Vec<Header>> {
    if section.entry("headers").is_none() {
        return Some(Vec::new());
    }
    let table = reader.section(section, "headers", format!("`headers` of {}", section.place))?;
    let read = |entry: &Entry<'_>| {
        let key = At { value: entry.key, span: entry.key_span.clone() };
        reader.asks(&table, entry.key, || Form::Text);
        let name = header_name(reader, &table, &key)?;
        let value = match entry.value {
            DeValue::String(text) => {
                let text = At { value: text.as_ref(), span: entry.span.clone() };
                header_text(reader, &table, &name, &text, names)
            }
            DeValue::Table(_) => header_source(reader, &table, entry, context),
            _ => {
                let diagnostic = reader.wrong_type(entry, &table.place, "a string or `{ from = … }`");
                reader.push(diagnostic);
                None
            }
        };
        value.map(|value| Header { name, value })
    };
    let headers: Vec<Option<Header>> = table.entries().iter().map(read).collect();
    headers.into_iter().collect()
}

fn header_text(
    reader: &mut Reader<'_>,
    table: &Section<'_>,
    name: &HeaderName,
    text: &At<&str>,
    names: &mut Names<'_>,
) -> Option<HeaderText> {
    let template = template(reader, &table.place, text, names)?;
    if SECRETS.contains(&name.as_str()) && template.inputs().next().is_none() {
        let message = format!("the secret of the header `{name}` stands in the file");
        let help = format!("keep it elsewhere: `{name} = {{ from = \"env:NAME\", prefix = \"Bearer \" }}`");
        reader.push(Diagnostic::error(message).at(text.span.clone(), "a secret").help(help));
        return None;
    }
    let line = |kind: &Kind, _: &Presence| !matches!(kind, Kind::Array(_));
    if let Some(name) = names.unfit(&template, line) {
        let message = format!("`{{{name}}}` is a list, and a header of {} is one text", table.place);
        reader.push(Diagnostic::error(message).at(text.span.clone(), format!("`{{{name}}}`")));
        return None;
    }
    Some(HeaderText::Template(template))
}

fn header_source(
    reader: &mut Reader<'_>,
    table: &Section<'_>,
    entry: &Entry<'_>,
    context: Context<'_>,
) -> Option<HeaderText> {
    let place = format!("header `{}` of {}", entry.key.escape_debug(), table.place);
    let section = reader.table(entry, place)?;
    reader.reject_unknown(&section, &["from", "prefix"]);
    let prefix = reader.owned(&section, "prefix").unwrap_or_default();
    let fails = "it is read for each request, and none is sent until it is there";
    let source = source(reader, &section, entry.span.clone(), context, fails)?;
    Some(HeaderText::From { prefix, source })
}

/// A header that a configuration may set.
pub(super) fn header_name(
    reader: &mut Reader<'_>,
    section: &Section<'_>,
    text: &At<&str>,
) -> Option<HeaderName> {
    let (label, help) = match text.value.parse::<HeaderName>() {
        Ok(name) if !OURS.contains(&name.as_str()) => return Some(name),
        Ok(_) => ("set by the request itself", "remove it"),
        Err(_) => ("not a header", "a header's name is letters, digits and `-`"),
    };
    let message = format!("`{}` cannot be a header of {}", text.value.escape_debug(), section.place);
    reader.push(Diagnostic::error(message).at(text.span.clone(), label).help(help));
    None
}

fn body(
    reader: &mut Reader<'_>,
    place: &str,
    value: &DeValue<'_>,
    span: std::ops::Range<usize>,
    names: &mut Names<'_>,
) -> Option<Body> {
    let literal = |json: Option<serde_json::Value>| json.map(Body::Literal);
    match value {
        DeValue::String(text) => {
            let text = At { value: text.as_ref(), span };
            let template = template(reader, place, &text, names)?;
            if template.sole_input().is_none() {
                let single = |kind: &Kind, _: &Presence| !matches!(kind, Kind::Array(_));
                if let Some(name) = names.unfit(&template, single) {
                    let message = format!("`{{{name}}}` is a list, and stands within a text of {place}");
                    let help = format!("a text that is `{{{name}}}` and nothing else becomes the list");
                    reader.push(Diagnostic::error(message).at(text.span, format!("`{{{name}}}`")).help(help));
                    return None;
                }
            }
            Some(Body::Text(template))
        }
        DeValue::Boolean(value) => literal(Some((*value).into())),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => literal(Some(number.into())),
            Err(_) => no_number(reader, place, span),
        },
        DeValue::Float(number) => {
            let finite = number.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            match finite {
                Some(number) => literal(Some(number.into())),
                None => no_number(reader, place, span),
            }
        }
        DeValue::Datetime(time) => literal(Some(time.to_string().into())),
        DeValue::Array(items) => {
            let read = |item: &Spanned<DeValue<'_>>| body(reader, place, item.get_ref(), item.span(), names);
            let items: Vec<Option<Body>> = items.iter().map(read).collect();
            items.into_iter().collect::<Option<_>>().map(Body::List)
        }
        DeValue::Table(table) => {
            let mut members = Vec::with_capacity(table.len());
            for (name, member) in table.iter() {
                let member = body(reader, place, member.get_ref(), member.span(), names);
                members.push(member.map(|member| (name.get_ref().to_string(), member)));
            }
            members.into_iter().collect::<Option<_>>().map(Body::Object)
        }
    }
}

/// Reports a number that JSON does not have, or that would not arrive as it stands.
fn no_number(reader: &mut Reader<'_>, place: &str, span: std::ops::Range<usize>) -> Option<Body> {
    let message = format!("a number in {place} cannot be sent");
    let help = "numbers are finite, and whole ones have 64 bits: to send it as a text, put it in quotes";
    reader.push(Diagnostic::error(message).at(span, "too large, or no number in JSON").help(help));
    None
}

/// Resolves one text, reporting placeholders that stand for nothing.
fn template(
    reader: &mut Reader<'_>,
    place: &str,
    text: &At<&str>,
    names: &mut Names<'_>,
) -> Option<Template> {
    let all = names.all();
    for token in tokens(text.value) {
        let Token::Input { name, .. } = token else { continue };
        if all.iter().any(|known| known == name) {
            names.mark(name);
            continue;
        }
        let message = format!("`{{{name}}}` stands for nothing in {place}");
        let diagnostic = Diagnostic::error(message).at(text.span.clone(), "nothing of that name");
        let near = nearest(name, all.iter().map(String::as_str));
        let help = match (near, &*names) {
            (Some(near), _) => format!("there is `{{{near}}}`"),
            (None, Names::Fixed) => {
                format!("nothing does here: to send it as it is, write `{{{{{name}}}}}`")
            }
            (None, Names::Job) => {
                format!("only `{{{JOB}}}` does: what depends on the call is sent by `start`")
            }
            (None, Names::Call { .. }) if name == CALLBACK => {
                "say where the API reaches this server: `callback = { url = \"https://…\" }`".to_owned()
            }
            (None, Names::Call { .. }) => format!("to make it an input, declare `input.{name}`"),
        };
        reader.push(diagnostic.help(help));
        if let Some(near) = near {
            // The one that was meant is not also unused.
            names.mark(near);
        }
    }
    Template::resolve(text.value, |name| all.iter().position(|known| known == name))
}

/// What the request itself sets.
const OURS: [&str; 8] =
    ["host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer"];

/// What would be a secret in the file.
const SECRETS: [&str; 5] = ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"];
