//! Proofs that a token is its bearer's own (DPoP, RFC 9449): a key, and a signature of each request.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::error::AuthError;
use super::key::SigningKey;
use super::{now, random_text};

/// The key that tokens are bound to, and what each server wants to see in the next proof.
#[derive(Debug)]
pub(super) struct Proofs {
    key: SigningKey,
    nonces: Mutex<BTreeMap<String, String>>,
}

/// Of so many servers nonces are kept: a server and its authorization servers.
const MAX_NONCES: usize = 16;

impl Proofs {
    pub(super) fn new(key: SigningKey) -> Self {
        Self { key, nonces: Mutex::default() }
    }

    pub(super) fn key(&self) -> &SigningKey {
        &self.key
    }

    /// The proof of one request, with the token that it shows. Each is another.
    pub(super) fn make(&self, method: &str, url: &Url, token: Option<&str>) -> Result<String, AuthError> {
        let mut place = url.clone();
        place.set_query(None);
        place.set_fragment(None);
        let mut claims = json!({ "jti": random_text(), "htm": method, "htu": place.as_str(), "iat": now() });
        if let Some(token) = token {
            claims["ath"] = URL_SAFE_NO_PAD.encode(Sha256::digest(token)).into();
        }
        let nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nonce) = nonces.get(&url.origin().ascii_serialization()) {
            claims["nonce"] = nonce.as_str().into();
        }
        self.key.sign(json!({ "typ": "dpop+jwt", "jwk": self.key.jwk()? }), &claims)
    }

    /// Learns what whoever is at `url` wants to see next, if the answer says it.
    pub(super) fn learn(&self, url: &Url, headers: &HeaderMap) {
        let Some(nonce) = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok()) else { return };
        let mut nonces = self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        if nonces.len() < MAX_NONCES || nonces.contains_key(&url.origin().ascii_serialization()) {
            nonces.insert(url.origin().ascii_serialization(), nonce.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::Value;

    use super::*;

    fn claims(proof: &str) -> Value {
        let part = URL_SAFE_NO_PAD.decode(proof.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice(&part).unwrap()
    }

    #[test]
    fn c24_each_proof_is_of_one_request_and_has_the_nonce_of_its_server() {
        let proofs = Proofs::new(SigningKey::generate().unwrap());
        let url = Url::parse("https://mcp.example/mcp?x=1#y").unwrap();
        let first = claims(&proofs.make("POST", &url, Some("token")).unwrap());
        assert_eq!((&first["htm"], &first["htu"]), (&json!("POST"), &json!("https://mcp.example/mcp")));
        assert_eq!(first["ath"], json!(URL_SAFE_NO_PAD.encode(Sha256::digest("token"))));
        assert!(first.get("nonce").is_none());
        let headers = [("dpop-nonce".parse().unwrap(), HeaderValue::from_static("n1"))].into_iter().collect();
        proofs.learn(&url, &headers);
        let second = claims(&proofs.make("POST", &url, None).unwrap());
        assert_eq!(second["nonce"], "n1");
        assert!(second["jti"] != first["jti"] && second.get("ath").is_none());
        let other = Url::parse("https://login.example/token").unwrap();
        assert!(claims(&proofs.make("POST", &other, None).unwrap()).get("nonce").is_none());
    }
}
