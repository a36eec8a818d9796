//! What is said of a sign-in: nothing that anybody could use.

use http::StatusCode;
use longhaul_test::Log;

use crate::rig::{APP, Browser, Front, VERIFIER, asks, field, parameters};

#[tokio::test]
async fn s64_r12_no_token_code_state_or_secret_is_logged() {
    let log = Log::of_this_thread();
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let mut secrets =
        vec![client.clone(), field(&page.body, "transaction"), "s3cret".into(), VERIFIER.into()];
    let to = browser.decide(&front.host, &page, "approve").await;
    let asked = parameters(to.header("location"));
    secrets.extend([asked["state"].clone(), asked["nonce"].clone()]);
    secrets.extend(browser.cookies("__Host-").iter().map(|name| browser.cookie(name)));
    // One that fails on the way, and one that does not.
    let address = front.upstream.sign_in(to.header("location"), "ann");
    let failing = address.replace("upstream-code-0", "upstream-code-wrong");
    let mut other = browser.clone();
    assert!(other.get(&front.host, &failing).await.header("location").contains("error=server_error"));
    let back = browser.get(&front.host, &address).await;
    let code = parameters(back.header("location"))["code"].clone();
    assert_eq!(front.redeem(&client, APP, "wrong-code", &[]).await.status, StatusCode::BAD_REQUEST);
    let tokens = front.redeem(&client, APP, &code, &[]).await.json();
    let renewed = front.refresh(&client, &tokens, &[]).await.json();
    assert_eq!(front.host.whoami(renewed["access_token"].as_str().unwrap()).await.status, StatusCode::OK);
    assert_eq!(front.host.whoami("a-bad-token").await.status, StatusCode::UNAUTHORIZED);
    for tokens in [&tokens, &renewed] {
        secrets
            .extend(["access_token", "refresh_token"].map(|name| tokens[name].as_str().unwrap().to_owned()));
    }
    secrets.extend([
        code,
        "upstream-code-".into(),
        "upstream-access".into(),
        "wrong-code".into(),
        "a-bad-token".into(),
    ]);
    let said = log.text();
    assert!(said.contains("a sign-in failed upstream"), "it says something: {said}");
    for secret in secrets {
        assert!(!said.contains(&secret), "{secret} is in\n{said}");
    }
}
