//! What an authorization server says of itself: where that is found, and that it is its own.

use reqwest::{Client, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

#[cfg(feature = "auth")]
use super::fetch;
use super::fetch::{Bounds, FetchError, shown};

/// Where the metadata of an issuer may be, in the order in which the specification wants it looked for
/// (2026-07-28, Authorization Server Metadata Discovery).
pub(crate) fn places(issuer: &Url) -> Vec<Url> {
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        at(format!("/.well-known/oauth-authorization-server{path}")),
        at(format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        places.push(at(format!("{path}/.well-known/openid-configuration")));
    }
    places
}

/// The metadata of an issuer, and where it was found.
#[derive(Debug)]
pub(crate) struct Found<T> {
    pub(crate) document: T,
    #[cfg(feature = "auth")]
    at: Url,
}

/// The metadata of `issuer`, at the first of these places that has one (RFC 8414; OpenID Connect Discovery).
pub(crate) async fn discover<T: DeserializeOwned>(
    http: &Client,
    issuer: &str,
    places: &[Url],
    bounds: Bounds,
) -> Result<Found<T>, FetchError> {
    #[derive(Deserialize)]
    struct Document {
        issuer: String,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let mut missing = None;
    for at in places {
        let document: Document = match bounds.json(http.get(at.clone()), at).await {
            Ok(document) => document,
            // Another place may have it, and this one a page for whatever it does not know.
            Err(error @ (FetchError::Status { .. } | FetchError::Malformed { .. })) => {
                missing.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let malformed = |reason: String| FetchError::Malformed { url: at.to_string(), reason };
        if document.issuer != issuer {
            return Err(malformed("it is of another issuer".to_owned()));
        }
        let document = T::deserialize(Value::Object(document.rest))
            .map_err(|error| malformed(shown(&error.to_string())))?;
        return Ok(Found {
            document,
            #[cfg(feature = "auth")]
            at: at.clone(),
        });
    }
    Err(missing.unwrap_or_else(|| FetchError::Malformed {
        url: issuer.to_owned(),
        reason: "it has no metadata".to_owned(),
    }))
}

#[cfg(feature = "auth")]
impl<T> Found<T> {
    /// An address that the metadata names, which must be as safe as its own.
    pub(crate) fn url(&self, text: &str) -> Result<Url, FetchError> {
        let malformed = |reason: String| FetchError::Malformed { url: self.at.to_string(), reason };
        let url = fetch::url(text).map_err(|error| malformed(error.to_string()))?;
        if url.scheme() == self.at.scheme() {
            Ok(url)
        } else {
            Err(malformed("what it names is reached in another way than itself".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_the_specification_says() {
        let found = |issuer: &str| -> Vec<String> {
            places(&Url::parse(issuer).unwrap()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            found("https://login.example/"),
            [
                "https://login.example/.well-known/oauth-authorization-server",
                "https://login.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            found("https://login.example/t1"),
            [
                "https://login.example/.well-known/oauth-authorization-server/t1",
                "https://login.example/.well-known/openid-configuration/t1",
                "https://login.example/t1/.well-known/openid-configuration",
            ]
        );
    }
}
