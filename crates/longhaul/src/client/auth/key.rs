//! A key of a client: it signs who the client is (RFC 7523), or that a token is its own (RFC 9449).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::error::AuthError;
use super::secret::Secret;

/// A private key.
///
/// Its `Debug` says which algorithm it is of, and nothing else.
#[derive(Clone)]
pub struct SigningKey {
    pair: Arc<Pair>,
    kid: Option<String>,
    /// As it was written, base64.
    pkcs8: Secret,
}

enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

impl SigningKey {
    /// Reads a private key in PKCS #8 (`BEGIN PRIVATE KEY`): of the curve P-256 (it signs with ES256), Ed25519 (EdDSA)
    /// or RSA (RS256).
    ///
    /// # Errors
    ///
    /// [`AuthError::Key`] when it is none of these.
    pub fn from_pem(pem: &str) -> Result<Self, AuthError> {
        let unreadable =
            AuthError::Key { reason: "it must be one private key in PKCS #8, in PEM (`BEGIN PRIVATE KEY`)" };
        let body = pem.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).map(|(body, _)| body);
        let body: String = body.ok_or(unreadable)?.split_whitespace().collect();
        Self::from_pkcs8(&body)
    }

    /// Says which of the client's published keys it is.
    #[must_use]
    pub fn kid(mut self, kid: impl Into<String>) -> Self {
        self.kid = Some(kid.into());
        self
    }

    /// A new key of the curve P-256.
    pub(super) fn generate() -> Result<Self, AuthError> {
        let failed = AuthError::Key { reason: "none can be made" };
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| failed.clone())?;
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| failed)?;
        Self::from_pkcs8(&STANDARD.encode(pkcs8.as_ref()))
    }

    /// Reads a key from the base64 that [`pkcs8`](Self::pkcs8) gives.
    pub(super) fn from_pkcs8(base64: &str) -> Result<Self, AuthError> {
        let der = STANDARD.decode(base64).map_err(|_| AuthError::Key { reason: "it is no base64" })?;
        let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).map(Pair::Es256);
        let ed = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Pair::EdDsa);
        let pair = ec.or_else(|_| ed()).or_else(|_| RsaKeyPair::from_pkcs8(&der).map(Pair::Rs256));
        let pair = pair.map_err(|_| AuthError::Key { reason: "it is none of P-256, Ed25519 and RSA" })?;
        Ok(Self { pair: Arc::new(pair), kid: None, pkcs8: Secret::new(base64) })
    }

    /// The key, to be kept.
    pub(super) fn pkcs8(&self) -> &Secret {
        &self.pkcs8
    }

    /// What it signs with, by name (RFC 7518).
    pub fn algorithm(&self) -> &'static str {
        match &*self.pair {
            Pair::Es256(_) => "ES256",
            Pair::EdDsa(_) => "EdDSA",
            Pair::Rs256(_) => "RS256",
        }
    }

    /// Its public half, which the key itself must be of P-256 for.
    pub(super) fn jwk(&self) -> Result<Value, AuthError> {
        let Pair::Es256(pair) = &*self.pair else {
            return Err(AuthError::Key { reason: "it is not of P-256" });
        };
        // An uncompressed point: 4, x, y.
        let (x, y) = pair.public_key().as_ref().get(1..).unwrap_or_default().split_at(32);
        Ok(
            json!({ "kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y) }),
        )
    }

    /// A JWT of these claims. `header` is completed with what the key is.
    pub(super) fn sign(&self, mut header: Value, claims: &Value) -> Result<String, AuthError> {
        header["alg"] = self.algorithm().into();
        if let Some(kid) = &self.kid {
            header["kid"] = kid.as_str().into();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(claims));
        let signature = self.pair.sign(message.as_bytes())?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl Pair {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, AuthError> {
        let failed = |_| AuthError::Key { reason: "it does not sign" };
        let random = SystemRandom::new();
        match self {
            Self::Es256(pair) => {
                pair.sign(&random, message).map(|made| made.as_ref().to_vec()).map_err(failed)
            }
            Self::EdDsa(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Self::Rs256(pair) => {
                let mut made = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut made).map_err(failed)?;
                Ok(made)
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn what_a_key_signs_its_public_half_verifies() {
        let key = SigningKey::generate().unwrap();
        let pem = format!("{BEGIN}\n{}\n{END}\n", key.pkcs8().reveal());
        let again = SigningKey::from_pem(&pem).unwrap().kid("k1");
        assert_eq!(again.jwk().unwrap(), key.jwk().unwrap());
        let jwt = again.sign(json!({ "typ": "x" }), &json!({ "iss": "me" })).unwrap();
        let (message, signature) = jwt.rsplit_once('.').unwrap();
        let header = URL_SAFE_NO_PAD.decode(message.split('.').next().unwrap()).unwrap();
        let header: Value = serde_json::from_slice(&header).unwrap();
        assert_eq!(header, json!({ "typ": "x", "alg": "ES256", "kid": "k1" }));
        let jwk = key.jwk().unwrap();
        let part = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
        let point = [&[4][..], &part("x"), &part("y")].concat();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        public.verify(message.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn what_is_no_key_is_refused_and_no_key_shows_itself() {
        for bad in [
            "",
            "x",
            "-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        ] {
            assert!(matches!(SigningKey::from_pem(bad), Err(AuthError::Key { .. })), "{bad}");
        }
        let key = SigningKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), r#"SigningKey { algorithm: "ES256", .. }"#);
    }
}
