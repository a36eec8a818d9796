//! What a client asks for, and how often.

use serde_json::json;

use super::{AuthError, Grantor, Person, connect, why};

fn asked(grantor: &Grantor) -> Vec<Option<String>> {
    grantor.heard("GET /authorize").iter().map(|heard| heard.parameter("scope")).collect()
}

#[tokio::test]
async fn c14_the_least_is_asked_for() {
    for (challenge, supported, offline, expected) in [
        (r#"scope="a""#, json!(["b", "c"]), false, Some("a")),
        ("", json!(["c", "b"]), false, Some("b c")),
        ("", json!(null), false, None),
        ("", json!(null), true, None),
        (r#"scope="a""#, json!(null), true, Some("a offline_access")),
    ] {
        let grantor = Grantor::start(|ways, _| {
            ways.challenge = Some(challenge.to_owned());
            ways.resource = json!({ "scopes_supported": supported });
            ways.issuer =
                json!({ "scopes_supported": if offline { vec!["offline_access"] } else { vec![] } });
        })
        .await;
        connect(&grantor, &Person::default()).await.unwrap();
        assert_eq!(asked(&grantor), [expected.map(str::to_owned)], "{challenge} {supported}");
    }
}

#[tokio::test]
async fn c15_a_token_is_widened_by_what_an_operation_needs() {
    let grantor = Grantor::start(|ways, _| {
        ways.challenge = Some(r#"scope="read""#.to_owned());
        ways.tool_scope = Some("write".to_owned());
    })
    .await;
    let person = Person::default();
    let client = connect(&grantor, &person).await.unwrap();
    client.call("x", &()).await.unwrap();
    client.call("x", &()).await.unwrap();
    assert_eq!(asked(&grantor), [Some("read".to_owned()), Some("read write".to_owned())]);
    assert_eq!(person.visits(), 2);
    assert_eq!(grantor.heard("POST /register").len(), 1, "known to it already");
}

#[tokio::test]
async fn c15_what_was_asked_for_in_vain_is_not_asked_for_again() {
    let grantor = Grantor::start(|ways, _| {
        ways.tool_scope = Some("admin".to_owned());
    })
    .await;
    let person = Person::default();
    let client = connect(&grantor, &person).await.unwrap();
    // The user may not have it: whatever is asked for, none of it is granted.
    grantor.change(|ways| ways.tool_scope = Some("never granted".to_owned()));
    for _ in 0..3 {
        let error = why(client.call("x", &()).await.unwrap_err());
        assert!(matches!(error, AuthError::Scope { .. }), "{error:?}");
    }
    assert_eq!(person.visits(), 2);
}

#[tokio::test]
async fn c15_a_server_that_refuses_what_was_granted_is_asked_no_more() {
    let grantor = Grantor::start(|ways, _| ways.token = json!({ "access_token": "of another server" })).await;
    let person = Person::default();
    let error = why(connect(&grantor, &person).await.unwrap_err());
    assert!(matches!(error, AuthError::TokenRefused), "{error:?}");
    assert_eq!((person.visits(), grantor.heard("POST /mcp").len()), (1, 2));
}

#[tokio::test]
async fn who_waits_for_a_user_that_leaves_asks_no_other() {
    let grantor = Grantor::start(|_, _| {}).await;
    let person = Person::away();
    let oauth = longhaul::client::auth::OAuth::new().browser(person.clone());
    let error = why(super::connect_with(&grantor, oauth).await.unwrap_err());
    assert!(matches!(error, AuthError::Browser { .. }), "{error:?}");
    assert_eq!(person.visits(), 1);
    let error = super::connect_with(&grantor, longhaul::client::auth::OAuth::new()).await.unwrap_err();
    assert!(matches!(error, longhaul::client::Error::SignIn { with_token: false, .. }), "{error:?}");
}
