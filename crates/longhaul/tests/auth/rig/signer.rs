//! Keys that sign tokens.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A key of an issuer.
pub(crate) struct Signer {
    pub(crate) kid: &'static str,
    pub(crate) alg: &'static str,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

pub(crate) fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn new(kid: &'static str, alg: &'static str) -> Self {
        let pair = match alg {
            "RS256" | "PS256" => Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())),
            "ES256" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()),
            "ES384" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap()),
            "EdDSA" => Pair::Ed(Ed25519KeyPair::generate().unwrap()),
            other => panic!("no key for {other}"),
        };
        Self { kid, alg, pair }
    }

    /// As its issuer publishes it.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({"kty": "RSA", "n": base64(public.n), "e": base64(public.e)})
            }
            Pair::Ec(pair) => {
                let (curve, size) = if self.alg == "ES256" { ("P-256", 32) } else { ("P-384", 48) };
                let (x, y) = pair.public_key().as_ref()[1..].split_at(size);
                json!({"kty": "EC", "crv": curve, "x": base64(x), "y": base64(y)})
            }
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key())}),
        };
        jwk["kid"] = self.kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// A token with this header, whatever it says, and these claims.
    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let random = SystemRandom::new();
        let bytes = message.as_bytes();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                if self.alg == "PS256" {
                    pair.sign(&RSA_PSS_SHA256, &random, bytes, &mut signature).unwrap();
                } else {
                    pair.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature).unwrap();
                }
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
        };
        format!("{message}.{}", base64(signature))
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&json!({"alg": self.alg, "kid": self.kid, "typ": "at+jwt"}), claims)
    }
}
