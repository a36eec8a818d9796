//! Keeping tokens: renewed once for all, bound to who granted them, and gone when they are to be.

use std::sync::Arc;

use longhaul::client::auth::{FileTokens, Held, MemoryTokens, OAuth, Secret, TokenStore};
use longhaul::tasks::environment::BoxFuture;
use serde_json::json;

use super::{AuthError, Grantor, Person, connect, connect_with};

/// A store that the test sees, too.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<MemoryTokens>);

impl TokenStore for Seen {
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Secret>, AuthError>> {
        self.0.load(name)
    }

    fn save<'a>(&'a self, name: &'a str, text: Secret) -> BoxFuture<'a, Result<(), AuthError>> {
        self.0.save(name, text)
    }

    fn remove<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), AuthError>> {
        self.0.remove(name)
    }

    fn hold<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Held, AuthError>> {
        self.0.hold(name)
    }
}

#[tokio::test]
async fn c18_a_token_that_ended_is_renewed_once_for_all_who_wait() {
    let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
    let person = Person::default();
    let client = connect(&grantor, &person).await.unwrap();
    for round in 1..=2 {
        grantor.revoke_access();
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.call("x", &()).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        let renewed = grantor
            .heard("POST /token")
            .iter()
            .filter(|heard| heard.parameter("refresh_token").is_some())
            .count();
        assert_eq!(renewed, round, "each token that gets others was used once");
    }
    let last = grantor.heard("POST /token").pop().unwrap();
    assert_eq!(last.parameter("resource"), Some(grantor.server()));
    assert_eq!(person.visits(), 1);
}

#[tokio::test]
async fn c18_a_token_is_renewed_before_it_ends_and_kept_for_the_next_run() {
    let grantor = Grantor::start(|ways, _| {
        ways.refreshes = true;
        ways.token = json!({ "expires_in": 10 });
    })
    .await;
    let (person, store) = (Person::default(), Seen::default());
    connect_with(&grantor, OAuth::new().browser(person.clone()).store(store.clone())).await.unwrap();
    grantor.change(|ways| ways.token = json!({}));
    // Another run, in which nobody is asked.
    let client = connect_with(&grantor, OAuth::new().store(store.clone())).await.unwrap();
    client.call("x", &()).await.unwrap();
    let refused =
        grantor.heard("POST /mcp").iter().filter(|heard| heard.header("authorization").is_empty()).count();
    assert_eq!((person.visits(), refused), (1, 1), "only before the first sign-in");
    // What counts no more is forgotten, and the user has to sign in again.
    grantor.revoke_all();
    let error = client.call("x", &()).await.unwrap_err();
    assert!(matches!(error, longhaul::client::Error::SignIn { .. }), "{error:?}");
    assert!(store.load(&format!("tokens {}", grantor.server())).await.unwrap().is_none());
    let shown = format!("{store:?} {client:?} {error:?}");
    assert!(!shown.contains("access-") && !shown.contains("refresh-"), "{shown}");
}

#[tokio::test]
async fn c18_what_another_run_has_renewed_is_taken_up() {
    let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
    let (person, store) = (Person::default(), Seen::default());
    let oauth = || OAuth::new().browser(person.clone()).store(store.clone());
    let one = connect_with(&grantor, oauth()).await.unwrap();
    let other = connect_with(&grantor, oauth()).await.unwrap();
    grantor.revoke_access();
    one.call("x", &()).await.unwrap();
    other.call("x", &()).await.unwrap();
    one.call("x", &()).await.unwrap();
    assert_eq!((person.visits(), grantor.heard("POST /token").len()), (1, 2));
}

#[tokio::test]
async fn c08_c17_s50_who_has_moved_is_registered_with_anew_and_shown_nothing_of_the_other() {
    let (first, second) = (
        Grantor::start(|_, _| {}).await,
        Grantor::start(|ways, _| {
            ways.registration = json!({ "client_id": "of the second" });
        })
        .await,
    );
    let person = Person::default();
    let client = connect(&first, &person).await.unwrap();
    let other = second.url.clone();
    first.change(|ways| ways.resource = json!({ "authorization_servers": [other] }));
    first.revoke_all();
    // The second's tokens do not count at the first: what matters is who was asked with what.
    client.call("x", &()).await.unwrap_err();
    assert_eq!(second.heard("POST /register").len(), 1);
    let asked = &second.heard("POST /token")[0];
    assert_eq!(asked.parameter("client_id").as_deref(), Some("of the second"));
    assert_eq!(asked.parameter("refresh_token"), None);
}

#[tokio::test]
async fn s53_of_clients_that_share_a_store_one_renews_and_the_others_take_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.json");
    for is_file in [false, true] {
        let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
        let person = Person::default();
        let (memory, file) = (Seen::default(), FileTokens::new(&path));
        let oauth = || {
            let oauth = OAuth::new().browser(person.clone());
            if is_file { oauth.store(file.clone()) } else { oauth.store(memory.clone()) }
        };
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect_with(&grantor, oauth()).await.unwrap());
        }
        grantor.revoke_access();
        let calls: Vec<_> = clients
            .iter()
            .map(|client| {
                let client = client.clone();
                tokio::spawn(async move { client.call("x", &()).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert_eq!((person.visits(), grantor.heard("POST /token").len()), (1, 2), "{is_file}");
    }
}

#[tokio::test]
async fn who_signs_out_or_in_elsewhere_does_so_for_all_who_share_the_store() {
    let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
    let (person, store) = (Person::default(), Seen::default());
    let signing_in = || OAuth::new().browser(person.clone()).store(store.clone());
    connect_with(&grantor, signing_in()).await.unwrap();
    let running = connect_with(&grantor, OAuth::new().store(store.clone())).await.unwrap();
    running.call("x", &()).await.unwrap();
    assert!(signing_in().sign_out(&grantor.server()).await.unwrap());
    let asked = grantor.heard("POST /token").len();
    let error = running.call("x", &()).await.unwrap_err();
    assert!(matches!(error, longhaul::client::Error::SignIn { .. }), "{error:?}");
    assert_eq!(grantor.heard("POST /token").len(), asked, "nothing is left to renew it by");
    connect_with(&grantor, signing_in()).await.unwrap();
    running.call("x", &()).await.unwrap();
    assert_eq!(person.visits(), 2);
}

#[tokio::test]
async fn c08_servers_of_one_issuer_share_a_registration_and_no_token() {
    let first = Grantor::start(|_, _| {}).await;
    let issuer = first.url.clone();
    let second = Grantor::start(|ways, _| {
        ways.resource = json!({ "authorization_servers": [issuer] });
    })
    .await;
    let oauth = OAuth::new().browser(Person::default());
    let client = connect_with(&first, oauth.clone()).await.unwrap();
    // The rig's second server knows no token of the first's: what matters is who was asked with what.
    connect_with(&second, oauth).await.unwrap_err();
    assert_eq!((first.heard("POST /register").len(), second.heard("POST /register").len()), (1, 0));
    let granted = first.heard("POST /token");
    let resources: Vec<_> = granted.iter().map(|heard| heard.parameter("resource").unwrap()).collect();
    assert_eq!(resources, [first.server(), second.server()]);
    client.call("x", &()).await.unwrap();
    let shown = |grantor: &Grantor| -> std::collections::BTreeSet<String> {
        let served = grantor.heard("POST /mcp");
        served
            .iter()
            .map(|heard| heard.header("authorization").to_owned())
            .filter(|it| !it.is_empty())
            .collect()
    };
    assert!(shown(&first).is_disjoint(&shown(&second)));
}

#[tokio::test]
async fn c18_whoever_signs_out_leaves_nothing() {
    let grantor = Grantor::start(|ways, _| ways.refreshes = true).await;
    let oauth = OAuth::new().browser(Person::default());
    let client = connect_with(&grantor, oauth.clone()).await.unwrap();
    client.close().await;
    assert!(oauth.sign_out(&grantor.server()).await.unwrap());
    assert!(!oauth.sign_out(&grantor.server()).await.unwrap());
    let taken_back = &grantor.heard("POST /revoke")[0];
    assert!(taken_back.parameter("token").unwrap().starts_with("refresh-"));
}

#[tokio::test]
async fn c24_a_token_is_bound_to_a_key_where_the_server_wants_that() {
    let grantor = Grantor::start(|ways, _| {
        ways.nonce = true;
        ways.refreshes = true;
        ways.issuer = json!({ "dpop_signing_alg_values_supported": ["ES256"] });
    })
    .await;
    let store = Seen::default();
    let client =
        connect_with(&grantor, OAuth::new().browser(Person::default()).store(store.clone())).await.unwrap();
    client.call("x", &()).await.unwrap();
    let served = grantor.heard("POST /mcp");
    let shown: Vec<&str> =
        served.iter().map(|heard| heard.header("dpop")).filter(|proof| !proof.is_empty()).collect();
    assert!(served[1..].iter().all(|heard| heard.header("authorization").starts_with("DPoP ")));
    let different: std::collections::BTreeSet<&&str> = shown.iter().collect();
    assert_eq!(different.len(), served.len() - 1, "each its own");
    assert_eq!(grantor.heard("POST /token").len(), 2, "once more, with the nonce");
    // The next run has the same key.
    let again = connect_with(&grantor, OAuth::new().store(store)).await.unwrap();
    again.call("x", &()).await.unwrap();
    assert_eq!(grantor.heard("POST /token").len(), 2);
}
