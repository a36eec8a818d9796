//! JSON Web Tokens: taking one apart, and checking its signature with a key that says itself what it is for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::refusal::Refusal;

/// A token taken apart. Nothing in it is true yet.
#[derive(Debug)]
pub(super) struct Jwt<'t> {
    pub(super) header: Header,
    pub(super) claims: Map<String, Value>,
    message: &'t str,
    signature: &'t str,
}

/// What a token says of its signature. Keys and addresses of keys in it (`jwk`, `jku`, `x5c`, `x5u`) are not
/// even read: whoever made the token chose them.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// A public key, and the algorithms it may be used with. The token has no say in that.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) kid: Option<String>,
    algorithms: &'static [Algorithm],
    key: DecodingKey,
}

/// A key as its issuer publishes it (RFC 7517).
#[derive(Deserialize)]
pub(super) struct Jwk {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    key_ops: Option<Vec<String>>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

impl<'t> Jwt<'t> {
    /// Takes a token apart; `None` if it is no JWT at all.
    pub(super) fn take_apart(token: &'t str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        if claims.contains('.') {
            return None;
        }
        let header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        let claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        Some(Self { header, claims, message, signature })
    }

    /// Whose token it claims to be.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }

    /// Whether it is an access token at all, and asks nothing that we do not know how to do.
    pub(super) fn check_kind(&self) -> Result<(), Refusal> {
        if self.header.crit.is_some() {
            return Err(Refusal::Invalid("the token has critical extensions, and none is known here"));
        }
        let typ = self.header.typ.as_deref().unwrap_or("JWT");
        let typ = typ
            .get(..APPLICATION.len())
            .filter(|start| start.eq_ignore_ascii_case(APPLICATION))
            .map_or(typ, |start| &typ[start.len()..]);
        if ["JWT", "at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known)) {
            Ok(())
        } else {
            Err(Refusal::Invalid("the token is of another kind than access tokens"))
        }
    }

    /// Whether `key` made its signature.
    pub(super) fn check_signature(&self, key: &Key) -> Result<(), Refusal> {
        let wrong = Refusal::Invalid("the signature of the token is not its issuer's");
        let algorithm = key.algorithm(&self.header.alg).ok_or_else(|| wrong.clone())?;
        match crypto::verify(self.signature, self.message.as_bytes(), &key.key, algorithm) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(wrong),
        }
    }
}

const APPLICATION: &str = "application/";

impl Key {
    /// The key, if it can check signatures with an algorithm that this server knows. Shared secrets cannot:
    /// whoever could check with one could sign with it.
    pub(super) fn of(jwk: &Jwk) -> Option<Self> {
        let checks = jwk.key_ops.as_ref().is_none_or(|uses| uses.iter().any(|one| one == "verify"));
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") || !checks {
            return None;
        }
        let (algorithms, key) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", None) => {
                (RSA, DecodingKey::from_rsa_components(jwk.n.as_deref()?, jwk.e.as_deref()?).ok()?)
            }
            ("EC", Some(curve)) => {
                let algorithms = if curve == "P-256" {
                    P256
                } else if curve == "P-384" {
                    P384
                } else {
                    return None;
                };
                (algorithms, DecodingKey::from_ec_components(jwk.x.as_deref()?, jwk.y.as_deref()?).ok()?)
            }
            ("OKP", Some("Ed25519")) => (ED25519, DecodingKey::from_ed_components(jwk.x.as_deref()?).ok()?),
            _ => return None,
        };
        let algorithms = match &jwk.alg {
            None => algorithms,
            Some(only) => {
                let index = algorithms.iter().position(|one| named(*one, only))?;
                &algorithms[index..=index]
            }
        };
        Some(Self { kid: jwk.kid.clone(), algorithms, key })
    }

    /// Whether it is the key that a token names, if it names one.
    pub(super) fn fits(&self, header: &Header) -> bool {
        (header.kid.is_none() || self.kid == header.kid) && self.algorithm(&header.alg).is_some()
    }

    fn algorithm(&self, name: &str) -> Option<Algorithm> {
        self.algorithms.iter().copied().find(|one| named(*one, name))
    }
}

/// Whether an algorithm has this name. EdDSA has two (RFC 9864).
fn named(algorithm: Algorithm, name: &str) -> bool {
    let own = match algorithm {
        Algorithm::RS256 => "RS256",
        Algorithm::RS384 => "RS384",
        Algorithm::RS512 => "RS512",
        Algorithm::PS256 => "PS256",
        Algorithm::PS384 => "PS384",
        Algorithm::PS512 => "PS512",
        Algorithm::ES256 => "ES256",
        Algorithm::ES384 => "ES384",
        Algorithm::EdDSA => return matches!(name, "EdDSA" | "Ed25519"),
        _ => return false,
    };
    own == name
}

const RSA: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
const P256: &[Algorithm] = &[Algorithm::ES256];
const P384: &[Algorithm] = &[Algorithm::ES384];
const ED25519: &[Algorithm] = &[Algorithm::EdDSA];
