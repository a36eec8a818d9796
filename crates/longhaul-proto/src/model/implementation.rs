//! Who a client or server says it is.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::icon::Icon;
use crate::jsonrpc::clip;

/// The name and version a peer reports of itself: for display and logs, never for trust.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// A name for programs.
    pub name: String,
    /// Its version, in its own scheme.
    pub version: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where to read about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Pictures of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
}

impl Implementation {
    /// An implementation with a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// What a peer says of itself in this text, by name and version, neither longer than an error repeats of anything; `None`
    /// where it says so wrongly.
    ///
    /// ```
    /// use longhaul_proto::model::Implementation;
    /// let said = r#"{"name": "caller", "version": "2.1", "description": "It calls."}"#;
    /// assert_eq!(Implementation::said(said), Some(Implementation::new("caller", "2.1")));
    /// assert_eq!(Implementation::said(r#"{"version": "2.1"}"#), None);
    /// ```
    pub fn said(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Said<'s> {
            #[serde(borrow)]
            name: Cow<'s, str>,
            #[serde(borrow)]
            version: Cow<'s, str>,
        }
        let said: Said<'_> = serde_json::from_str(text).ok()?;
        Some(Self::new(clip(&said.name), clip(&said.version)))
    }

    /// What is kept of a peer's for as long as its session lasts: its names and version, none longer than an error
    /// repeats of anything.
    #[must_use]
    pub fn shortened(self) -> Self {
        let short = |text: String| clip(&text).into_owned();
        Self { title: self.title.map(short), ..Self::new(short(self.name), short(self.version)) }
    }
}
