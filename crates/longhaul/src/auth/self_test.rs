//! Whether signatures can be checked here at all: good ones of each kind are good, and changed ones are not.
//!
//! A program can be built so that its cryptography is missing, which shows only when the first token comes.

use std::panic::catch_unwind;

use super::jwt::{Jwk, Jwt, Key};

/// Signatures cannot be checked: what is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Broken(pub(super) &'static str);

pub(super) fn run() -> Result<(), Broken> {
    // If another part of the program has chosen its cryptography before us, that is what is tested.
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
    catch_unwind(|| KNOWN.iter().try_for_each(Known::check))
        .unwrap_or(Err(Broken("the cryptography of this program is missing")))
}

/// A key, and a token that it has signed.
struct Known {
    jwk: &'static str,
    token: &'static str,
}

impl Known {
    fn check(&self) -> Result<(), Broken> {
        let unread = Broken("a known key cannot be read");
        let jwk: Jwk = serde_json::from_str(self.jwk).map_err(|_| unread)?;
        let key = Key::of(&jwk).ok_or(unread)?;
        let is_good =
            |token: &str| Jwt::take_apart(token).is_some_and(|jwt| jwt.check_signature(&key).is_ok());
        if !is_good(self.token) {
            return Err(Broken("a good signature is taken for a bad one"));
        }
        // The first character of the signature says six of its bits.
        let Some((message, signature)) = self.token.rsplit_once('.') else { return Err(unread) };
        let other = if signature.starts_with('A') { 'B' } else { 'A' };
        let changed = format!("{message}.{other}{}", signature.get(1..).unwrap_or_default());
        if is_good(&changed) { Err(Broken("a bad signature is taken for a good one")) } else { Ok(()) }
    }
}

const KNOWN: [Known; 5] = [
    Known {
        jwk: r#"{"kty":"RSA","n":"yEJOre7oI-rz2IDQ1nwPS2fbGXnWlBMdp0bV1zg7TZPXyIddJz_LaQWP-T1-80JPwz-JveZa61N_7z-pRFBxpMCUQGcwGXKkwE0SZZKOt-1PzwiX1WuR_p8mLU2qT3HIA3Kb4g1lWfXMMBh-qukM8Sayxr94YUszrjb_HtkRZ1WASGI3gU7p7o7CWCbh7G0giDP98Ca-0N7ICpfLQMb3ubnZYoxhysJbzn5aDZmZqiA4Sb5bLiU1u8Zr1mWAJepfJpNEYnr3rawf2Y5QRSbdCjrwZb0ULW1n8K3wqKHzPMsTJBtFZEzUo-BjBf21qShBsFkF_rGwe5huuxqewjgKVQ","e":"AQAB"}"#,
        token: "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzZWxmLXRlc3QifQ.cAhyGiHH79KOh1BbGdSHdigx68jNCvP_D-gpoqikSCQp5KG3JlfhcPkn7UG4VwEL587jQ123FyNVeEhSLnXEd7gBH3fhNnbKd7xpo9bgxhvV8fyugmSwYVjMa3M6-Qeca30SWQfWrIo8U7KsbhIFT2ZERuyeV3tGo4aWTo4CIjrkpal8pSnYHVomkMBZgKeMnJqultVIHBFR3iLG4zyUwEMs5o79RlkyFEOZymIc5mnN33wAMLzgzk1240amnFWYhsm_5khBbJkc1If8j5NLgWkB05v4hkSSeiJSuEbb_8IDsO0pk6KmMrEBRfO3nQ6dYjrwnF_kVHlbulQpbMEEPQ",
    },
    Known {
        jwk: r#"{"kty":"RSA","n":"yEJOre7oI-rz2IDQ1nwPS2fbGXnWlBMdp0bV1zg7TZPXyIddJz_LaQWP-T1-80JPwz-JveZa61N_7z-pRFBxpMCUQGcwGXKkwE0SZZKOt-1PzwiX1WuR_p8mLU2qT3HIA3Kb4g1lWfXMMBh-qukM8Sayxr94YUszrjb_HtkRZ1WASGI3gU7p7o7CWCbh7G0giDP98Ca-0N7ICpfLQMb3ubnZYoxhysJbzn5aDZmZqiA4Sb5bLiU1u8Zr1mWAJepfJpNEYnr3rawf2Y5QRSbdCjrwZb0ULW1n8K3wqKHzPMsTJBtFZEzUo-BjBf21qShBsFkF_rGwe5huuxqewjgKVQ","e":"AQAB"}"#,
        token: "eyJhbGciOiJQUzI1NiJ9.eyJzdWIiOiJzZWxmLXRlc3QifQ.Jn9ko50sGSEkVURkugZlErGazDmST-GudSgy_vVPlNbxRhsVHin4msWUIoA33_IH7QpeKpi3i8Ipb5Uy-8WEKXp-VNl0z2MvuGkGQr8haR9gKl9o56paWMFAQPyTabgukVw1CfpQLS_ido5_Y6t6kh50UaDqahKK0-4S8lXRGBzaQwr7ZqbP2SrJ1Nq4mcdniXfBM8-VNbGjgiZwPYtsccqvChpe2nyr1W_5Yg2lNxbe391QUHs5_WIlTbICi4gEEel7N-wJjdTyrlT1M_x-11kwBSOCjmx8l07D4tgJVhRke2dYZYPZF9TFDvsAT_qsemV4lLFN0wdVEmLkUvVa6A",
    },
    Known {
        jwk: r#"{"kty":"EC","crv":"P-256","x":"7mSmxn9E6SsNEl81yBBlo3n1HeUPcXHGEyxzVCTwvQ4","y":"mDAL8XSgzrA45qwoDBZk7cS4toUTcSXU7TJFwmttNBk"}"#,
        token: "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzZWxmLXRlc3QifQ.zetiju8nO1znA37ZiZZqpnfnehVdUQC6u-fXiojEZiYLiMNLDClgNSRmcuX0WMcVK6KFC-GxgrDblyqYCjZXZg",
    },
    Known {
        jwk: r#"{"kty":"EC","crv":"P-384","x":"WOtpX5vIABLlzBCM7dOMZoo736Ify2eDs1Z3ShN11Z6dZuok_Kd_XcfMiQyR8VNE","y":"yLQzXAffczysH1r2pbGLE0RNf7AUnP7JA302R6ngjI2J784gP_-vTTQqucmRLbTV"}"#,
        token: "eyJhbGciOiJFUzM4NCJ9.eyJzdWIiOiJzZWxmLXRlc3QifQ.lJcmJE_pY0FdWJAaAiDkd7vC2vYdgOy6ru4R7KUcjN4bqACx1sHX_Vlaj6BIlOYiuUkCt-5CH91I_LaalXxpVy1CSpJ-ix_qKyIApGGfLTXVjUR7UjwD0nzbqYVDnf73",
    },
    Known {
        jwk: r#"{"kty":"OKP","crv":"Ed25519","x":"hSHRAiyCN01vyg_wmxkphqJuL1tUTMBPzyBYZGVyu-s"}"#,
        token: "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJzZWxmLXRlc3QifQ.3YJWXE9VhxeMKarrSeBVppNmyCCgyatYD7rwUaAZNd9CD8eZ4DZF6Q0UBheGtvcIXev_6ma47RfSbX-j2_I7Dg",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cryptography_of_this_build_works() {
        assert_eq!(run(), Ok(()));
    }

    #[test]
    fn a_token_under_another_key_is_found_out() {
        let mixed = Known { jwk: KNOWN[2].jwk, token: KNOWN[4].token };
        assert_eq!(mixed.check(), Err(Broken("a good signature is taken for a bad one")));
    }
}
