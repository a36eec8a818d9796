//! Tokens: whose they are, what they are good for, and how they end.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use longhaul::auth::Upstream;

use crate::rig::{APP, Browser, CLI, Front, LocalUpstream, RESOURCE, asks, parameters};

#[tokio::test]
async fn a_client_comes_in_with_a_token_of_ours_for_who_signed_in() {
    let front = Front::start().await;
    let (client, tokens) = front.tokens(APP).await;
    let whoami = front.host.whoami(tokens["access_token"].as_str().unwrap()).await.text();
    let (principal, email) = whoami.split_once(' ').unwrap();
    let mut parts = principal.split('|');
    assert_eq!(parts.next(), Some("https://mcp.example"));
    assert_eq!(parts.next(), Some("ann"));
    // Short, and no other client's.
    let handle = parts.next().unwrap();
    assert!(handle.starts_with("registered:") && handle.len() < 40, "{handle} {client}");
    assert_eq!(email, "ann@example.com");
    assert_eq!(tokens["token_type"], "Bearer");
    assert_eq!(tokens["expires_in"], 600);
    assert_eq!(tokens["scope"], "mcp");
}

#[tokio::test]
async fn a_client_gets_the_scopes_it_asks_for_and_no_more() {
    let front = Front::start().await;
    let (_, tokens) = front.tokens(APP).await;
    let refused = front.host.call(tokens["access_token"].as_str().unwrap(), "deploy", json!({})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.header("www-authenticate").contains(r#"scope="audit deploy mcp""#));
    // It steps up.
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let back = front
        .back(&mut browser, &asks(&client, APP, &[("scope", "audit deploy mcp offline_access")]), "ann")
        .await;
    let code = parameters(back.header("location"))["code"].clone();
    let more = front.redeem(&client, APP, &code, &[]).await.json();
    assert_eq!(more["scope"], "audit deploy mcp");
    let deployed = front.host.call(more["access_token"].as_str().unwrap(), "deploy", json!({})).await;
    assert_eq!(deployed.text(), "deployed");
    // And down again, for one token.
    let less = front.refresh(&client, &more, &[("scope", "mcp")]).await.json();
    let refused = front.host.call(less["access_token"].as_str().unwrap(), "deploy", json!({})).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let never = front.refresh(&client, &less, &[("scope", "mcp admin")]).await;
    assert_eq!(never.json()["error"], "invalid_scope");
}

#[tokio::test]
async fn s40_p10_no_token_crosses_from_one_side_to_the_other() {
    let front = Front::start().await;
    let (client, tokens) = front.tokens(APP).await;
    assert!(!tokens.to_string().contains("upstream"), "{tokens}");
    // Nor does what upstream gives let anybody in.
    assert_eq!(front.host.whoami("upstream-access").await.status, StatusCode::UNAUTHORIZED);
    for form in front.upstream.forms() {
        assert!(!form.contains("longhaul_") && !form.contains(&client), "{form}");
    }
    // A refresh token is no access token, and neither is the id of a client.
    for other in [tokens["refresh_token"].as_str().unwrap(), &client] {
        assert_eq!(front.host.whoami(other).await.status, StatusCode::UNAUTHORIZED, "{other}");
        let relabelled = format!("longhaul_access_{}", other.rsplit_once('_').unwrap().1);
        assert_eq!(front.host.whoami(&relabelled).await.status, StatusCode::UNAUTHORIZED, "{relabelled}");
    }
}

#[tokio::test]
async fn r4_p10_a_token_of_one_server_is_worth_nothing_at_another() {
    let front = Front::start().await;
    let (client, tokens) = front.tokens(APP).await;
    let access = tokens["access_token"].as_str().unwrap();
    // On the same store, with the same key: another host, and another path of the same host.
    for resource in ["https://other.example/mcp", "https://mcp.example/other"] {
        let host = Front::host(&front.upstream, &front.registry, resource, |proxy| proxy).await;
        assert_eq!(host.whoami(access).await.status, StatusCode::UNAUTHORIZED, "{resource}");
        let other =
            Front { host, upstream: LocalUpstream::start().await, registry: Arc::clone(&front.registry) };
        assert_eq!(other.refresh(&client, &tokens, &[]).await.json()["error"], "invalid_grant", "{resource}");
    }
    // Nor is a code: here of the same host, and so of the same issuer.
    let code = front.code(&mut Browser::default(), &client, APP).await;
    let host =
        Front::host(&front.upstream, &front.registry, "https://mcp.example/other", |proxy| proxy).await;
    let upstream = LocalUpstream::start().await;
    let other = Front { host, upstream, registry: Arc::clone(&front.registry) };
    let answer = other.redeem(&client, APP, &code, &[]).await;
    assert_eq!(answer.json()["error_description"], "the code is for another server");
    // None was the worse for it.
    assert_eq!(front.host.whoami(access).await.status, StatusCode::OK);
    let elsewhere = front.refresh(&client, &tokens, &[("resource", "https://other.example/mcp")]).await;
    assert_eq!(elsewhere.json()["error"], "invalid_target");
    assert_eq!(front.refresh(&client, &tokens, &[("resource", RESOURCE)]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn p11_a_token_refreshes_once_and_a_second_use_ends_the_grant() {
    let front = Front::start().await;
    let (client, first) = front.tokens(APP).await;
    for another in ["known", ""] {
        let refused = front.refresh(&client, &first, &[("client_id", another)]).await;
        assert_eq!(refused.json()["error"], "invalid_grant", "{another}");
    }
    let second = front.refresh(&client, &first, &[]).await.json();
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    assert_ne!(first["access_token"], second["access_token"]);
    for tokens in [&first, &second] {
        assert_eq!(front.host.whoami(tokens["access_token"].as_str().unwrap()).await.status, StatusCode::OK);
    }
    let stolen = front.refresh(&client, &first, &[]).await;
    assert_eq!((stolen.status, &stolen.json()["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_grant")));
    for tokens in [&first, &second] {
        assert_eq!(front.refresh(&client, tokens, &[]).await.json()["error"], "invalid_grant");
        assert_eq!(
            front.host.whoami(tokens["access_token"].as_str().unwrap()).await.status,
            StatusCode::UNAUTHORIZED
        );
    }
}

#[tokio::test]
async fn p11_of_many_that_refresh_at_once_one_succeeds() {
    let front = Arc::new(Front::start().await);
    let (client, tokens) = front.tokens(APP).await;
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (front, client, tokens) = (Arc::clone(&front), client.clone(), tokens.clone());
        all.spawn(async move { front.refresh(&client, &tokens, &[]).await.status });
    }
    let all = all.join_all().await;
    assert_eq!(all.iter().filter(|status| **status == StatusCode::OK).count(), 1, "{all:?}");
}

#[tokio::test]
async fn p11_a_token_for_calls_lasts_no_longer_than_it_says() {
    let front = Front::with(|proxy| proxy.access(Duration::from_secs(1))).await;
    let (client, tokens) = front.tokens(APP).await;
    assert_eq!(tokens["expires_in"], 1);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let answer = front.host.whoami(tokens["access_token"].as_str().unwrap()).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(answer.header("www-authenticate").contains("the token has expired"), "{answer:?}");
    assert_eq!(front.refresh(&client, &tokens, &[]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_grant_ends_and_then_its_user_signs_in_again() {
    let front = Front::with(|proxy| proxy.grant(Duration::from_secs(2))).await;
    let (client, tokens) = front.tokens(APP).await;
    assert!(tokens["expires_in"].as_u64().unwrap() <= 2, "no token outlives it");
    let renewed = front.refresh(&client, &tokens, &[]).await.json();
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(front.refresh(&client, &renewed, &[]).await.json()["error"], "invalid_grant");
    assert_eq!(
        front.host.whoami(renewed["access_token"].as_str().unwrap()).await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn a_code_that_is_redeemed_twice_takes_back_what_it_gave() {
    let front = Front::start().await;
    let client = front.register("App", APP).await;
    let code = front.code(&mut Browser::default(), &client, APP).await;
    let tokens = front.redeem(&client, APP, &code, &[]).await.json();
    assert_eq!(front.host.whoami(tokens["access_token"].as_str().unwrap()).await.status, StatusCode::OK);
    assert_eq!(front.redeem(&client, APP, &code, &[]).await.json()["error"], "invalid_grant");
    assert_eq!(
        front.host.whoami(tokens["access_token"].as_str().unwrap()).await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn advisory_cve_2025_4143_s58_p07_a_code_is_redeemed_by_its_client_at_its_address() {
    let front = Front::start().await;
    let client = front.register("CLI", "http://127.0.0.1/callback").await;
    let other = front.register("CLI", "http://127.0.0.1/callback").await;
    for wrong in [
        ("client_id", other.as_str()),
        ("client_id", ""),
        ("redirect_uri", "http://127.0.0.1:4001/callback"),
        ("redirect_uri", "http://127.0.0.1/callback"),
    ] {
        let code = front.code(&mut Browser::default(), &client, CLI).await;
        let answer = front.redeem(&client, CLI, &code, &[wrong]).await;
        assert_eq!(answer.json()["error"], "invalid_grant", "{wrong:?}");
    }
    let code = front.code(&mut Browser::default(), &client, CLI).await;
    assert_eq!(front.redeem(&client, CLI, &code, &[]).await.status, StatusCode::OK);
    let nothing = front.redeem(&client, CLI, "unknown", &[]).await;
    assert_eq!(nothing.json()["error"], "invalid_grant");
    assert_eq!(nothing.header("cache-control"), "no-store");
}

#[tokio::test]
async fn a_grant_that_is_revoked_is_over_at_once() {
    let front = Front::start().await;
    for kind in ["access_token", "refresh_token"] {
        let (client, tokens) = front.tokens(APP).await;
        let access = tokens["access_token"].as_str().unwrap();
        let form = |client: &str, token: &str| {
            [("client_id", client), ("token", token)].map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        for strange in [form("known", access), form(&client, "unknown")] {
            assert_eq!(front.post("/revoke", &strange).await.status, StatusCode::OK);
            assert_eq!(
                front.host.whoami(access).await.status,
                StatusCode::OK,
                "another's is not its to revoke"
            );
        }
        let revoked = front.post("/revoke", &form(&client, tokens[kind].as_str().unwrap())).await;
        assert_eq!(revoked.status, StatusCode::OK);
        assert_eq!(front.host.whoami(access).await.status, StatusCode::UNAUTHORIZED, "{kind}");
        assert_eq!(front.refresh(&client, &tokens, &[]).await.json()["error"], "invalid_grant");
    }
}

#[tokio::test]
async fn what_was_granted_survives_a_restart_at_each_step() {
    let front = Front::start().await;
    let restart = async |front: Front| {
        let host = Front::host(&front.upstream, &front.registry, RESOURCE, |proxy| proxy).await;
        Front { host, ..front }
    };
    let client = front.register("App", APP).await;
    let front = restart(front).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let front = restart(front).await;
    let to = browser.decide(&front.host, &page, "approve").await;
    let front = restart(front).await;
    let back = browser.get(&front.host, &front.upstream.sign_in(to.header("location"), "ann")).await;
    let code = parameters(back.header("location"))["code"].clone();
    let front = restart(front).await;
    let tokens = front.redeem(&client, APP, &code, &[]).await.json();
    let front = restart(front).await;
    assert_eq!(front.host.whoami(tokens["access_token"].as_str().unwrap()).await.status, StatusCode::OK);
    let renewed = front.refresh(&client, &tokens, &[]).await;
    assert_eq!(renewed.status, StatusCode::OK);
    let front = restart(front).await;
    assert_eq!(
        front.refresh(&client, &tokens, &[]).await.json()["error"],
        "invalid_grant",
        "used before the restart"
    );
}

#[tokio::test]
async fn an_upstream_without_id_tokens_is_asked_whose_its_token_is() {
    let front = Front::start().await;
    let url = front.upstream.url().to_owned();
    let asked_for = move |subject: &str| {
        let upstream = Upstream::new(url.as_str(), "longhaul", "s3cret").unwrap().scope("read:user");
        let at = |path: &str| format!("{url}{path}");
        upstream.asked_at(&at("/auth"), &at("/token"), &at("/user"), subject).unwrap()
    };
    let host = Front::before(asked_for("id"), &front.registry, RESOURCE, |proxy| proxy).await;
    let front = Front { host, ..front };
    let client = front.register("App", APP).await;
    let mut browser = Browser::default();
    let page = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let to = browser.decide(&front.host, &page, "approve").await;
    assert_eq!(parameters(to.header("location"))["scope"], "read:user");
    // It does not say who it is.
    let back = front.upstream.sign_in(to.header("location"), "ann");
    let back = browser.get(&front.host, back.rsplit_once("&iss=").unwrap().0).await;
    let code = parameters(back.header("location"))["code"].clone();
    let tokens = front.redeem(&client, APP, &code, &[]).await.json();
    let whoami = front.host.whoami(tokens["access_token"].as_str().unwrap()).await.text();
    assert!(whoami.starts_with("https://mcp.example|42|registered:"), "{whoami}");

    let host = Front::before(asked_for("nobody"), &front.registry, RESOURCE, |proxy| proxy).await;
    let front = Front { host, ..front };
    let to = browser.get(&front.host, &asks(&client, APP, &[])).await;
    let back = front.upstream.sign_in(to.header("location"), "ann");
    let back = browser.get(&front.host, back.rsplit_once("&iss=").unwrap().0).await;
    assert!(back.header("location").contains("error=server_error"), "{back:?}");
}
