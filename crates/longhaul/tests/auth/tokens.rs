//! Which tokens count.

use std::time::Duration;

use hyper::StatusCode;
use longhaul::auth::{Introspection, Issuer, Protection, Resource, StaticTokens};
use longhaul::server::Scopes;
use serde_json::{Value, json};

use crate::rig::{Host, LocalIssuer, METADATA, RESOURCE, Signer, claims, now};

#[tokio::test]
async fn a_token_of_each_kind_of_key_proves_who_calls() {
    let signers = ["RS256", "PS256", "ES256", "ES384", "EdDSA"].map(|alg| Signer::new(alg, alg));
    let issuer = LocalIssuer::start(&signers.each_ref()).await;
    let host = Host::start(Host::protection(&issuer)).await;
    for signer in &signers {
        let answer = host.whoami(&signer.sign(&claims(&issuer, "ann", json!({})))).await;
        assert_eq!(answer.text(), format!("{}|ann|cli ann@example.com", issuer.url()), "{}", signer.alg);
    }
    assert_eq!(issuer.fetches(), 1);
    // The other name of EdDSA, and a token that names no key where only one fits.
    let claims = claims(&issuer, "ann", json!({}));
    for header in [json!({"alg": "Ed25519", "kid": "EdDSA"}), json!({"alg": "EdDSA"})] {
        let token = signers[4].sign_with(&header, &claims);
        assert_eq!(host.whoami(&token).await.status, StatusCode::OK, "{header}");
    }
}

/// Every forged token is a 401 that says so, and asks the issuer for nothing.
#[tokio::test]
async fn s56_forged_tokens_are_refused() {
    let (rsa, ec, other) = (Signer::new("r", "RS256"), Signer::new("e", "ES256"), Signer::new("r", "RS256"));
    let issuer = LocalIssuer::start(&[&rsa, &ec]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    let good = claims(&issuer, "ann", json!({}));
    assert_eq!(host.whoami(&rsa.sign(&good)).await.status, StatusCode::OK);

    let mut forged = vec![other.sign(&good)];
    let headers = [
        json!({"alg": "none"}),
        json!({"alg": "none", "kid": "r"}),
        json!({"alg": "NONE", "kid": "r"}),
        json!({"alg": "", "kid": "r"}),
        json!({"alg": "HS256", "kid": "r"}),
        json!({"alg": "HS512", "kid": "r"}),
        json!({"alg": "rs256", "kid": "r"}),
        json!({"alg": "RS384", "kid": "r"}),
        json!({"alg": "PS256", "kid": "r"}),
        json!({"alg": "ES256", "kid": "r"}),
        json!({"alg": "RS256", "kid": "e"}),
        json!({"alg": "RS256", "kid": "../r"}),
        json!({"alg": "RS256", "kid": "r' OR 1=1"}),
        json!({"alg": "RS256", "kid": 7}),
        json!({"alg": ["RS256"], "kid": "r"}),
        json!({"kid": "r"}),
        json!({"alg": "RS256", "kid": "r", "crit": ["exp"]}),
        json!({"alg": "RS256", "kid": "r", "crit": []}),
        json!({"alg": "RS256", "kid": "r", "b64": false, "crit": ["b64"]}),
        json!({"alg": "RS256", "kid": "r", "typ": "dpop+jwt"}),
        json!({"alg": "RS256", "kid": "r", "typ": "logout+jwt"}),
        json!({"alg": "RS256", "kid": "r", "typ": "application/"}),
        json!([]),
    ];
    forged.extend(headers.iter().map(|header| rsa.sign_with(header, &good)));
    // A key that comes with the token, or from where the token says.
    for header in [
        json!({"alg": "RS256", "jwk": other.jwk()}),
        json!({"alg": "RS256", "kid": "r", "jwk": other.jwk()}),
        json!({"alg": "RS256", "kid": "r", "jku": "https://evil.example/keys"}),
        json!({"alg": "RS256", "kid": "r", "x5u": "https://evil.example/cert"}),
    ] {
        forged.push(other.sign_with(&header, &good));
    }
    let token = rsa.sign(&good);
    let (message, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let admin = rsa.sign(&claims(&issuer, "admin", json!({})));
    let admin = admin.split('.').nth(1).unwrap();
    for changed in [
        format!("{header}.{payload}."),
        format!("{header}.{payload}"),
        format!("{header}.{admin}.{signature}"),
        format!("{header}.{payload}.{signature}.{signature}"),
        format!("{header}.{payload}.{}", &signature[1..]),
        format!("{header}.{payload}.{signature}AA"),
        format!("{header}.{payload}.{signature}=="),
        format!(".{payload}.{signature}"),
        format!("{header}..{signature}"),
        "a.b.c".to_owned(),
        "..".to_owned(),
        "x".repeat(20_000),
    ] {
        forged.push(changed);
    }
    let fetched = issuer.fetches();
    for token in &forged {
        let answer = host.whoami(token).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{token}");
        let challenge = answer.header("www-authenticate");
        assert!(challenge.starts_with(&format!("Bearer resource_metadata=\"{METADATA}\"")), "{challenge}");
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    }
    assert!(issuer.fetches() <= fetched + 1, "a forged kid costs one look for new keys at most");
}

/// The public key as the secret of an HMAC: the classic confusion.
#[tokio::test]
async fn s56_a_public_key_is_no_secret() {
    use base64::Engine as _;
    let rsa = Signer::new("r", "RS256");
    let issuer = LocalIssuer::start(&[&rsa]).await;
    // An issuer that publishes a shared secret publishes it to whoever forges, too.
    let secret = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([7; 32]);
    issuer.publish(vec![rsa.jwk(), json!({"kty": "oct", "kid": "s", "k": secret, "alg": "HS256"})]);
    let host = Host::start(Host::protection(&issuer)).await;
    let good = claims(&issuer, "ann", json!({}));
    for (kid, key) in [
        ("r", rsa.jwk()["n"].as_str().unwrap().as_bytes().to_vec()),
        ("r", rsa.jwk().to_string().into_bytes()),
        ("s", vec![7; 32]),
    ] {
        let encode = |text: String| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        let header = json!({"alg": "HS256", "kid": kid}).to_string();
        let message = format!("{}.{}", encode(header), encode(good.to_string()));
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key);
        let tag = aws_lc_rs::hmac::sign(&key, message.as_bytes());
        let tag = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(tag);
        assert_eq!(host.whoami(&format!("{message}.{tag}")).await.status, StatusCode::UNAUTHORIZED, "{kid}");
    }
}

#[tokio::test]
async fn s55_r2_a_token_for_another_server_issuer_or_time_is_refused() {
    let signer = Signer::new("k", "ES256");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    for (changes, says) in [
        (json!({"aud": "https://other.example/mcp"}), "the token is not for this server"),
        (json!({"aud": "https://mcp.example"}), "the token is not for this server"),
        (json!({"aud": null}), "the token is not for this server"),
        (json!({"aud": []}), "the token is not for this server"),
        (json!({"exp": now() - 61}), "the token has expired"),
        (json!({"exp": null}), "the token does not say when it expires"),
        (json!({"exp": (now() + 600).to_string()}), "a claim of the token is not what it must be"),
        (json!({"nbf": now() + 120}), "the token is not valid yet"),
        (json!({"nbf": "0"}), "a claim of the token is not what it must be"),
        (json!({"iss": "https://evil.example"}), "the token is not known here"),
        (json!({"iss": format!("{}/", issuer.url())}), "the token is not known here"),
        (json!({"iss": null}), "the token is not known here"),
        (json!({"sub": null}), "the token names no subject"),
        (json!({"cnf": {"jkt": "x"}}), "the token is bound to a key and is no bearer token"),
    ] {
        let answer = host.whoami(&signer.sign(&claims(&issuer, "ann", changes.clone()))).await;
        assert_eq!((answer.status, answer.body.as_str()), (StatusCode::UNAUTHORIZED, says), "{changes}");
    }
    // Clocks differ a little.
    for changes in [json!({"exp": now() - 50}), json!({"nbf": now() + 50})] {
        let answer = host.whoami(&signer.sign(&claims(&issuer, "ann", changes.clone()))).await;
        assert_eq!(answer.status, StatusCode::OK, "{changes}");
    }
}

#[tokio::test]
async fn s63_a_token_that_is_bound_to_a_key_is_no_bearer_token() {
    let signer = Signer::new("k", "ES256");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    for bound in [json!({"jkt": "x"}), json!({"x5t#S256": "x"}), json!({}), json!("x")] {
        let token = signer.sign(&claims(&issuer, "ann", json!({"cnf": bound})));
        assert_eq!(host.whoami(&token).await.status, StatusCode::UNAUTHORIZED, "{bound}");
    }
}

#[tokio::test]
async fn s56_a_new_key_is_found_once_and_strangers_cannot_ask_for_more() {
    let (old, new) = (Signer::new("old", "ES256"), Signer::new("new", "EdDSA"));
    let issuer = LocalIssuer::start(&[&old]).await;
    let host = Host::start(Host::protection(&issuer)).await;
    let good = claims(&issuer, "ann", json!({}));
    assert_eq!(host.whoami(&old.sign(&good)).await.status, StatusCode::OK);
    issuer.publish(vec![old.jwk(), new.jwk()]);
    assert_eq!(host.whoami(&new.sign(&good)).await.status, StatusCode::OK, "found by looking again");
    assert_eq!(issuer.fetches(), 2);
    let calls = (0..50).map(|turn| {
        let header = json!({"alg": "ES256", "kid": format!("k{turn}")});
        let (token, host) = (old.sign_with(&header, &good), &host);
        async move { host.whoami(&token).await.status }
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(issuer.fetches(), 2, "it is not looked for again so soon");
    assert_eq!(host.whoami(&old.sign(&good)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_that_no_signature_can_be_checked_with_are_passed_over() {
    let signer = Signer::new("k", "ES256");
    let issuer = LocalIssuer::start(&[&signer]).await;
    let mut encrypting = Signer::new("enc", "RS256").jwk();
    encrypting["use"] = "enc".into();
    let mut fixed = Signer::new("fixed", "ES384").jwk();
    fixed["alg"] = "ES256".into();
    let strange = json!({"kty": "LWE", "kid": "later", "crv": 7});
    issuer.publish(vec![encrypting, fixed, strange, json!("?"), signer.jwk()]);
    let host = Host::start(Host::protection(&issuer)).await;
    let good = claims(&issuer, "ann", json!({}));
    assert_eq!(host.whoami(&signer.sign(&good)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn who_cannot_be_checked_now_is_told_to_come_back() {
    let signer = Signer::new("k", "ES256");
    let issuer = LocalIssuer::start(&[&signer]).await;
    issuer.go_down();
    let host = Host::start(Host::protection(&issuer)).await;
    let answer = host.whoami(&signer.sign(&claims(&issuer, "ann", json!({})))).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((answer.header("retry-after"), answer.header("www-authenticate")), ("10", ""));
}

#[tokio::test]
async fn s49_metadata_of_another_issuer_gives_no_keys() {
    let signer = Signer::new("k", "ES256");
    let issuer = LocalIssuer::start(&[&signer]).await;
    issuer.pretend_to_be("https://login.example");
    let host = Host::start(Host::protection(&issuer)).await;
    let token = signer.sign(&claims(&issuer, "ann", json!({})));
    assert_eq!(host.whoami(&token).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(issuer.fetches(), 0);
    // Whoever says where the keys are need not ask.
    let trusted = Issuer::new(issuer.url()).unwrap().keys_at(&issuer.keys_url()).unwrap();
    let resource = Resource::parse(RESOURCE).unwrap();
    let host = Host::start(Protection::new().resource(resource).issuer(trusted)).await;
    assert_eq!(host.whoami(&token).await.status, StatusCode::OK);
}

#[tokio::test]
async fn tokens_that_an_operator_hands_out_name_their_principals() {
    let tokens = StaticTokens::new()
        .token("ci", "ci-0123456789abcdef0123", Some(Scopes::parse("mcp").unwrap()))
        .unwrap()
        .token("ann", "ann-0123456789abcdef0123", None)
        .unwrap();
    let protection = Protection::new().tokens(tokens).require(Scopes::parse("mcp").unwrap());
    let host = Host::start(protection).await;
    assert_eq!(host.whoami("ci-0123456789abcdef0123").await.text(), "token:ci ");
    assert_eq!(host.whoami("ann-0123456789abcdef0123").await.text(), "token:ann ");
    let answer = host.whoami("ann-0123456789abcdef0124").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(!answer.header("www-authenticate").contains("resource_metadata"), "nobody else hands them out");
    let forbidden = host.call("ci-0123456789abcdef0123", "deploy", json!({})).await;
    assert_eq!(forbidden.status, StatusCode::FORBIDDEN);
    assert_eq!(host.call("ann-0123456789abcdef0123", "deploy", json!({})).await.text(), "deployed");
}

#[tokio::test]
async fn an_endpoint_can_vouch_for_tokens_that_only_it_can_read() {
    let issuer = LocalIssuer::start(&[]).await;
    let says = |changes: Value| {
        let mut says = claims(&issuer, "ann", changes);
        says["active"] = says.get("active").cloned().unwrap_or_else(|| true.into());
        says
    };
    issuer.vouch("good", says(json!({})));
    issuer.vouch("client", says(json!({"sub": null, "iss": null, "exp": null})));
    issuer.vouch("ended", says(json!({"exp": now() - 100})));
    issuer.vouch("elsewhere", says(json!({"aud": "https://other.example"})));
    issuer.vouch("nowhere", says(json!({"aud": null})));
    issuer.vouch("foreign", says(json!({"iss": "https://evil.example"})));
    issuer.vouch("inactive", says(json!({"active": false})));
    issuer.vouch("almost", says(json!({"active": "true"})));
    let introspection = Introspection::new(issuer.url(), &issuer.endpoint(), "mcp", "s3cret").unwrap();
    let resource = Resource::parse(RESOURCE).unwrap();
    let host = Host::start(Protection::new().resource(resource).introspection(introspection)).await;
    assert_eq!(host.whoami("good").await.text(), format!("{}|ann|cli ann@example.com", issuer.url()));
    assert_eq!(host.whoami("good").await.status, StatusCode::OK);
    assert_eq!(issuer.introspections(), 1, "an answer holds for a while");
    assert_eq!(host.whoami("client").await.text(), format!("{}|cli|cli ann@example.com", issuer.url()));
    for bad in ["ended", "elsewhere", "nowhere", "foreign", "inactive", "almost", "unheard-of"] {
        assert_eq!(host.whoami(bad).await.status, StatusCode::UNAUTHORIZED, "{bad}");
    }
    let (form, authorization) = issuer.asked().remove(0);
    assert_eq!(form, "token=good&token_type_hint=access_token");
    assert_eq!(authorization, "Basic bWNwOnMzY3JldA==");
    issuer.go_down();
    assert_eq!(host.whoami("another").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_token_that_says_it_is_of_another_issuer_is_shown_to_nobody() {
    let signer = Signer::new("k", "ES256");
    let (issuer, foreign) = (LocalIssuer::start(&[]).await, LocalIssuer::start(&[&signer]).await);
    let introspection = Introspection::new(issuer.url(), &issuer.endpoint(), "mcp", "s3cret").unwrap();
    let resource = Resource::parse(RESOURCE).unwrap();
    let host = Host::start(Protection::new().resource(resource).introspection(introspection)).await;
    let theirs = signer.sign(&claims(&foreign, "ann", json!({})));
    assert_eq!(host.whoami(&theirs).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(issuer.introspections(), 0);
    // Of a kind that its own issuer does not answer for (it says 400): not good here, but nothing is down.
    let of_no_kind = signer.sign(&claims(&issuer, "ann", json!({})));
    assert_eq!(host.whoami(&of_no_kind).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(issuer.introspections(), 1);
}

#[test]
fn a_protection_that_lets_in_nobody_or_anybody_is_refused() {
    let issuer = || Issuer::new("https://login.example").unwrap();
    let resource = || Resource::parse(RESOURCE).unwrap();
    let said = |protection: Protection| protection.guard().map(drop).unwrap_err().to_string();
    assert!(said(Protection::new()).contains("nobody could ever come in"));
    assert!(said(Protection::new().issuer(issuer())).contains("no URI of its own"));
    let twice = Protection::new().resource(resource()).issuer(issuer()).issuer(issuer());
    assert!(said(twice).contains("trusted twice"));
    let offline = Scopes::parse("mcp offline_access").unwrap();
    let asks = Protection::new().resource(resource()).issuer(issuer()).require(offline);
    assert!(said(asks).contains("offline_access"));
    let lenient = Protection::new().resource(resource()).issuer(issuer()).leeway(Duration::from_secs(900));
    assert!(lenient.guard().is_ok(), "an hour of leeway is a minute of it");
}
