//! A request of a job: what is configured, and what is sent for one call.

use std::fmt;

use reqwest::{
    Method, Url,
    header::{HeaderName, HeaderValue},
};

use super::{body::Body, url::UrlTemplate};
use crate::config::{
    argument::ArgumentError,
    environment::{EnvError, EnvSource, Sources},
    template::{Piece, Template},
    value::Value,
};

/// A request with placeholders.
#[derive(Clone, Debug)]
pub(in crate::config) struct Request {
    pub(in crate::config) method: Method,
    pub(in crate::config) url: UrlTemplate,
    pub(in crate::config) headers: Vec<Header>,
    pub(in crate::config) body: Option<Body>,
}

/// A header that is sent.
#[derive(Clone)]
pub(in crate::config) struct Header {
    pub(in crate::config) name: HeaderName,
    pub(in crate::config) value: HeaderText,
}

#[derive(Clone)]
pub(in crate::config) enum HeaderText {
    Template(Template),
    From { prefix: String, source: EnvSource },
}

impl Request {
    /// Whether values stand in it.
    pub(super) fn has_values(&self) -> bool {
        let in_header = |header: &Header| match &header.value {
            HeaderText::Template(template) => template.inputs().next().is_some(),
            HeaderText::From { .. } => false,
        };
        self.url.has_values()
            || self.headers.iter().any(in_header)
            || self.body.as_ref().is_some_and(Body::has_values)
    }

    /// The request with these values; `headers` are sent as well, where it has none of their name.
    pub(super) fn bind(
        &self,
        headers: &[Header],
        names: &[&str],
        values: &[Option<Value>],
    ) -> Result<BoundRequest, ArgumentError> {
        let url = self.url.bind(names, values)?;
        let own = self.headers.iter().map(|header| header.bind(names, values));
        let mut bound: Vec<BoundHeader> = own.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        for header in headers {
            if self.headers.iter().all(|own| own.name != header.name) {
                bound.extend(header.bind(&[], &[])?);
            }
        }
        let body = self.body.as_ref().and_then(|body| body.bind(values)).map(|body| body.to_string());
        Ok(BoundRequest { method: self.method.clone(), url, headers: bound, body })
    }
}

impl Header {
    /// The header with these values; `None` if one in it is left out.
    pub(in crate::config) fn bind(
        &self,
        names: &[&str],
        values: &[Option<Value>],
    ) -> Result<Option<BoundHeader>, ArgumentError> {
        let name = self.name.clone();
        let template = match &self.value {
            HeaderText::From { prefix, source } => {
                let value = Source::From { prefix: prefix.clone(), source: source.clone() };
                return Ok(Some(BoundHeader { name, value }));
            }
            HeaderText::Template(template) => template,
        };
        let piece = |piece: &Piece| match piece {
            Piece::Literal(text) => Some(text.clone()),
            Piece::Input(index) => values.get(*index)?.as_ref()?.text(),
        };
        let Some(text) = template.pieces().iter().map(piece).collect::<Option<String>>() else {
            return Ok(None);
        };
        // No line break, so that no value is another header.
        match HeaderValue::from_str(&text) {
            Ok(value) => Ok(Some(BoundHeader { name, value: Source::Value(value) })),
            Err(_) => {
                let first = template.inputs().next().and_then(|index| names.get(index));
                let name = first.copied().unwrap_or_default().to_owned();
                let reason = "it holds a line break or another character that no header can have";
                Err(ArgumentError::Unfit { name, place: "a header", reason })
            }
        }
    }
}

/// Texts may be secrets.
impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            HeaderText::Template(_) => write!(f, "{}: [hidden]", self.name),
            HeaderText::From { source, .. } => write!(f, "{} from {source}", self.name),
        }
    }
}

/// A request that can be sent.
#[derive(Clone)]
#[non_exhaustive]
pub struct BoundRequest {
    /// Its method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Its headers, but for those of the body.
    pub headers: Vec<BoundHeader>,
    /// Its body, JSON.
    pub body: Option<String>,
}

impl BoundRequest {
    /// What asks for a thing.
    pub(super) fn get(url: Url, headers: Vec<BoundHeader>) -> Self {
        Self { method: Method::GET, url, headers, body: None }
    }
}

/// Arguments may be secrets, and so are headers.
impl fmt::Debug for BoundRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url.origin().ascii_serialization())
    }
}

/// A header whose value may be kept elsewhere.
#[derive(Clone)]
pub struct BoundHeader {
    name: HeaderName,
    value: Source,
}

#[derive(Clone)]
enum Source {
    Value(HeaderValue),
    From { prefix: String, source: EnvSource },
}

impl BoundHeader {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &HeaderName {
        &self.name
    }

    /// It with its value, or with where that is read. There may be a secret in it.
    pub(in crate::config) fn spelt(&self) -> String {
        match &self.value {
            Source::Value(value) => format!("{} is {:?}", self.name, value.as_bytes()),
            Source::From { prefix, source } => format!("{} from {prefix:?} {source:?}", self.name),
        }
    }

    /// Reads its value, now: a secret that has changed is seen by the next request.
    ///
    /// # Errors
    ///
    /// When it is not there, or no header can have it. The value is in no error.
    pub fn value(&self, sources: &dyn Sources) -> Result<HeaderValue, HeaderError> {
        let (prefix, source) = match &self.value {
            Source::Value(value) => return Ok(value.clone()),
            Source::From { prefix, source } => (prefix, source),
        };
        let unusable = || HeaderError::Unusable { name: self.name.clone() };
        let text = source.read(sources)?.into_string().map_err(|_| unusable())?;
        let mut value = HeaderValue::from_str(&format!("{prefix}{text}")).map_err(|_| unusable())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Values may be secrets.
impl fmt::Debug for BoundHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// A header has no value now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// What it is read from is not there.
    #[error("a header has no value")]
    Missing(#[from] EnvError),
    /// What is there fits in no header.
    #[error("the value for the header `{name}` holds characters that no header can have")]
    Unusable {
        /// The header.
        name: HeaderName,
    },
}
