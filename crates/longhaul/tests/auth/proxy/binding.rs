//! What holds a sign-in together: one browser, one state, used once, and nothing from elsewhere.

use http::StatusCode;
use serde_json::json;

use crate::rig::{APP, Browser, Front, VERIFIER, asks, parameters};

#[tokio::test]
async fn p08_the_state_begins_with_the_approval_and_is_used_once() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    assert!(browser.cookies("__Host-longhaul-state").is_empty(), "not before");
    let to = browser.decide(&front.host, &page, "approve").await;
    let cookie = to.header("set-cookie");
    assert!(cookie.starts_with("__Host-longhaul-state-") && cookie.contains("Max-Age=600"), "{cookie}");
    let again = browser.decide(&front.host, &page, "approve").await;
    let states = [&to, &again].map(|to| parameters(to.header("location"))["state"].clone());
    assert_ne!(states[0], states[1]);
    assert!(states[0].len() >= 43, "{}", states[0]);

    let before = browser.clone();
    let back = front.upstream.sign_in(to.header("location"), "ann");
    let first = browser.get(&front.host, &back).await;
    assert!(first.header("location").contains("code="));
    assert_eq!(browser.get(&front.host, &back).await.status, StatusCode::FORBIDDEN, "its cookie is gone");
    // Somebody who kept the cookie, with another code.
    let other = front.upstream.sign_in(to.header("location"), "ann");
    let mut kept = before.clone();
    let replayed = kept.get(&front.host, &other).await;
    assert_eq!((replayed.status, replayed.header("location")), (StatusCode::BAD_REQUEST, ""));
}

#[tokio::test]
async fn p08_a_state_that_is_not_the_browsers_own_leads_nowhere() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let to = browser.decide(&front.host, &page, "approve").await;
    let state = parameters(to.header("location"))["state"].clone();
    let code = parameters(&front.upstream.sign_in(to.header("location"), "ann"))["code"].clone();
    let (name, secret) = state.split_once('.').unwrap();
    let iss = front.upstream.url();
    for bad in [
        format!("{name}.{}", "A".repeat(43)),
        format!("{name}."),
        format!("{name}.{secret}A"),
        format!("x.{secret}"),
        String::new(),
    ] {
        let answer =
            browser.get(&front.host, &format!("/authorize/callback?code={code}&state={bad}&iss={iss}")).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FORBIDDEN, ""), "{bad}");
    }
    // Nobody was asked about the code meanwhile.
    assert!(front.upstream.forms().is_empty());
}

#[tokio::test]
async fn advisory_cve_2026_27124_s57_p09_who_approved_must_be_who_comes_back() {
    let front = Front::start().await;
    let client = front.register("Evil", "https://evil.example/callback").await;
    let mut attacker = Browser::default();
    let address = asks(&client, "https://evil.example/callback", &[]);
    let page = attacker.get(&front.host, &address).await;
    let to = attacker.decide(&front.host, &page, "approve").await;
    // The victim is sent upstream by the attacker, and comes back signed in.
    let back = front.upstream.sign_in(to.header("location"), "victim");
    let mut victim = Browser::default();
    for _ in 0..2 {
        let answer = victim.get(&front.host, &back).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FORBIDDEN, ""));
        // Nor while something of its own is under way.
        victim.get(&front.host, &asks("known", "https://known.example/callback", &[])).await;
    }
}

#[tokio::test]
async fn an_answer_of_another_authorization_server_leads_nowhere() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let to = browser.decide(&front.host, &page, "approve").await;
    let back = front.upstream.sign_in(to.header("location"), "ann");
    let (without, _) = back.rsplit_once("&iss=").unwrap();
    for other in [without.to_owned(), format!("{without}&iss=https://evil.example"), format!("{back}/")] {
        let answer = browser.get(&front.host, &other).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FORBIDDEN, ""), "{other}");
    }
    assert!(front.upstream.forms().is_empty(), "its code was shown to nobody");
    assert!(browser.get(&front.host, &back).await.header("location").contains("code="));
}

#[tokio::test]
async fn an_id_token_that_is_not_of_this_sign_in_proves_nothing() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    for wrong in [
        json!({"sub": "ann", "nonce": "another"}),
        json!({"sub": "ann", "nonce": null}),
        json!({"sub": "ann", "aud": "another"}),
        json!({"sub": "ann", "aud": ["longhaul", "another"]}),
        json!({"sub": "ann", "azp": "another"}),
        json!({"sub": "ann", "iss": "https://evil.example"}),
        json!({"sub": "ann", "exp": 1000}),
        json!({"sub": "ann", "exp": null}),
        json!({"sub": ""}),
        json!({}),
    ] {
        let mut browser = Browser::default();
        let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
        let to = browser.decide(&front.host, &page, "approve").await;
        let answer = browser
            .get(&front.host, &front.upstream.sign_in_with(to.header("location"), wrong.clone()))
            .await;
        assert!(
            answer.header("location").starts_with("https://app.example/callback?error=server_error&state="),
            "{wrong}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn advisory_cve_2025_4144_p12_both_legs_prove_who_began_them() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    for wrong in [
        [("code_challenge", ""), ("x", "y")],
        [("code_challenge_method", ""), ("x", "y")],
        [("code_challenge_method", "plain"), ("code_challenge", VERIFIER)],
        [("code_challenge", "short"), ("x", "y")],
        [("code_challenge", "="), ("x", "y")],
    ] {
        let answer = Browser::default().get(&front.host, &asks(&client, APP, &wrong)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{wrong:?}");
    }
    let mut browser = Browser::default();
    for wrong in
        ["", "another-verifier-that-is-as-long-as-it-has-to-be-0", &VERIFIER.to_uppercase(), &VERIFIER[..42]]
    {
        let code = front.code(&mut browser, &client, APP).await;
        browser = Browser::default();
        let refused = front.redeem(&client, APP, &code, &[("code_verifier", wrong)]).await;
        assert_eq!(refused.json()["error"], "invalid_grant", "{wrong}");
        // Whoever guessed once does not guess again.
        let late = front.redeem(&client, APP, &code, &[]).await;
        assert_eq!(late.json()["error"], "invalid_grant");
    }
    // The upstream of the tests gives nothing without the verifier, and asserts S256.
    let form = front.upstream.forms().pop().unwrap();
    assert!(parameters(&format!("?{form}"))["code_verifier"].len() >= 43);
}

#[tokio::test]
async fn p13_every_answer_says_whom_it_is_from() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let back = front.back(&mut browser, &asks(&client, APP, &[]), "ann").await;
    let says = parameters(back.header("location"));
    assert_eq!((says["iss"].as_str(), says["state"].as_str()), ("https://mcp.example", "its-state"));
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let denied = browser.decide(&front.host, &page, "deny").await;
    assert_eq!(parameters(denied.header("location"))["iss"], "https://mcp.example");
    let to = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let to = browser.decide(&front.host, &to, "approve").await;
    let asked = parameters(to.header("location"));
    let failed = format!(
        "/authorize/callback?error=login_required&state={}&iss={}",
        asked["state"],
        front.upstream.url()
    );
    let failed = browser.get(&front.host, &failed).await;
    let says = parameters(failed.header("location"));
    assert_eq!((says["iss"].as_str(), says["error"].as_str()), ("https://mcp.example", "server_error"));
}

#[tokio::test]
async fn p16_nobody_who_approved_nothing_is_sent_to_a_strangers_address() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    for wrong in [
        ("redirect_uri", "https://evil.example/callback"),
        ("redirect_uri", ""),
        ("client_id", "unknown"),
        ("client_id", ""),
        ("response_type", "token"),
        ("scope", "mcp admin"),
        ("resource", "https://other.example/mcp"),
        ("state", &"s".repeat(2000)),
    ] {
        let answer = browser.get(&front.host, &asks(&client, APP, &[wrong])).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::BAD_REQUEST, ""), "{wrong:?}");
    }
    let twice = format!("{}&redirect_uri=https://evil.example/", asks(&client, APP, &[]));
    assert_eq!(browser.get(&front.host, &twice).await.status, StatusCode::BAD_REQUEST);
    // Whoever wants may go back and say what was wrong.
    let answer = browser.get(&front.host, &asks(&client, APP, &[("scope", "mcp admin")])).await;
    assert!(
        answer.body.contains("href=\"https://app.example/callback?error=invalid_scope&amp;"),
        "{}",
        answer.body
    );
}
