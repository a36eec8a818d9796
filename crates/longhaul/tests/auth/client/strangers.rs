//! Servers and authorization servers that want what they must not have, or keep their clients busy.

use std::time::Duration;

use longhaul::client::auth::{Credentials, FetchError, Limits, OAuth, TokenStore as _};
use longhaul_test::Log;

use super::keeping::Seen;
use super::{AuthError, Grantor, Odd, Person, connect, connect_with, why};

/// What a client asks until it has a token, and with it.
const WAY: [&str; 5] = [
    "GET /.well-known/oauth-protected-resource/mcp",
    "GET /.well-known/oauth-authorization-server",
    "POST /register",
    "POST /token",
    "POST /mcp",
];

#[tokio::test]
async fn s40_s47_s54_nobody_is_followed_elsewhere() {
    let elsewhere = Grantor::start(|_, _| {}).await;
    for what in WAY {
        let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
        let client = connect(&grantor, &Person::default()).await.unwrap();
        let path = what.split_once(' ').unwrap().1;
        let to = Odd::Redirect(format!("{}{path}", elsewhere.url));
        grantor.change(|ways| drop(ways.odd.insert(what, to)));
        grantor.revoke_all();
        // Where the way is known already, nobody is asked again.
        let outcome = client.call("x", &()).await;
        assert!(outcome.is_err() || matches!(what, "POST /register") || what.ends_with("server"), "{what}");
        connect(&grantor, &Person::default()).await.unwrap_err();
    }
    assert!(elsewhere.paths().is_empty() && elsewhere.heard("POST /mcp").is_empty());
}

#[tokio::test]
async fn s47_who_says_too_much_or_nothing_is_not_listened_to_without_end() {
    let limits = Limits::default().timeout(Duration::from_millis(300)).max_answer(4096);
    for what in &WAY[..4] {
        for odd in [Odd::Long(5000), Odd::Never] {
            let grantor = Grantor::start(|ways, _| drop(ways.odd.insert(what, odd.clone()))).await;
            let oauth = OAuth::new().browser(Person::default()).limits(limits);
            let error = why(connect_with(&grantor, oauth).await.unwrap_err());
            let AuthError::Fetch { source, .. } = &error else { panic!("{what} {odd:?}: {error:?}") };
            let is_why = match odd {
                Odd::Long(_) => matches!(**source, FetchError::TooLong { limit: 4096, .. }),
                _ => matches!(**source, FetchError::Unreachable(_)),
            };
            assert!(is_why, "{what} {odd:?}: {error:?}");
        }
    }
}

#[tokio::test]
async fn s53_who_holds_a_token_for_ever_does_not_keep_others_waiting_so_long() {
    let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
    let store = Seen::default();
    let oauth = OAuth::new().browser(Person::default()).store(store.clone());
    let oauth = oauth.limits(Limits::default().patience(Duration::from_millis(50)));
    let client = connect_with(&grantor, oauth).await.unwrap();
    let held = store.hold(&format!("tokens {}", grantor.server())).await.unwrap();
    grantor.revoke_access();
    let error = why(client.call("x", &()).await.unwrap_err());
    assert!(matches!(error, AuthError::Busy { .. }), "{error:?}");
    drop(held);
    client.call("x", &()).await.unwrap();
}

#[tokio::test]
async fn c18_s64_no_token_code_state_or_secret_is_logged_or_shown() {
    let log = Log::of_this_thread();
    let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
    let credentials = Credentials::new("known").secret("s3cret");
    let oauth = OAuth::new().browser(Person::default()).credentials(credentials);
    let client = connect_with(&grantor, oauth.clone()).await.unwrap();
    let mut shown = format!("{oauth:?} {client:?}");
    grantor.revoke_access();
    client.call("x", &()).await.unwrap();
    // What fails, too.
    grantor.change(|ways| {
        ways.odd.insert("POST /token", Odd::Long(10));
        ways.odd.insert("POST /revoke", Odd::Redirect("/elsewhere".to_owned()));
    });
    grantor.revoke_access();
    let error = client.call("x", &()).await.unwrap_err();
    shown.push_str(&format!("{error:?} {error} {:?}", why(error.clone())));
    oauth.sign_out(&grantor.server()).await.unwrap();
    shown.push_str(&log.text());
    assert!(log.text().contains("was not told that a token is not used"), "{}", log.text());
    let mut secrets: Vec<String> = vec!["s3cret".into(), "access-".into(), "refresh-".into(), "code-".into()];
    for heard in grantor.heard("GET /authorize").iter().chain(&grantor.heard("POST /token")) {
        let names = ["state", "code_verifier", "refresh_token"];
        secrets.extend(names.into_iter().filter_map(|name| heard.parameter(name)));
    }
    assert!(secrets.len() > 6, "{secrets:?}");
    for secret in secrets {
        assert!(!shown.contains(&secret), "{secret} is in\n{shown}");
    }
}
