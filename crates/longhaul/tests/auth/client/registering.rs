//! Who a client says it is.

use base64::Engine as _;
use longhaul::client::auth::{Credentials, IdentityProvider, OAuth, Secret, SigningKey};
use serde_json::{Value, json};

use super::{AuthError, Grantor, Person, connect, connect_with, why};

#[tokio::test]
async fn c05_c07_a_client_registers_as_what_it_is() {
    let grantor = Grantor::start(|_, _| {}).await;
    let oauth = OAuth::new().browser(Person::default()).name("My App");
    connect_with(&grantor, oauth).await.unwrap();
    let registered: Value = serde_json::from_str(&grantor.heard("POST /register")[0].body).unwrap();
    assert_eq!(
        registered,
        json!({ "client_name": "My App", "redirect_uris": ["http://127.0.0.1:4000/callback"],
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
            "token_endpoint_auth_method": "none", "application_type": "native" })
    );
}

#[tokio::test]
async fn c05_c06_who_publishes_its_metadata_registers_nowhere_that_takes_it() {
    let id = "https://app.example/client.json";
    for takes in [true, false] {
        let grantor =
            Grantor::start(|ways, _| ways.issuer = json!({ "client_id_metadata_document_supported": takes }))
                .await;
        let oauth = OAuth::new().browser(Person::default()).metadata_document(id).unwrap();
        connect_with(&grantor, oauth).await.unwrap();
        assert_eq!(grantor.heard("POST /register").len(), usize::from(!takes));
        let said = grantor.heard("POST /token")[0].parameter("client_id");
        assert_eq!(said.as_deref() == Some(id), takes);
    }
    assert!(OAuth::new().metadata_document("https://app.example").is_err());
}

#[tokio::test]
async fn c05_a_client_proves_itself_as_it_was_told() {
    let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("client-1:s%3Ac"));
    for (method, header, in_form) in [
        ("client_secret_basic", basic.as_str(), None),
        ("client_secret_post", "", Some("s:c")),
        ("none", "", None),
    ] {
        let grantor = Grantor::start(|ways, _| {
            ways.issuer = json!({ "token_endpoint_auth_methods_supported": [method] });
            ways.registration = json!({ "token_endpoint_auth_method": method, "client_secret": "s:c" });
        })
        .await;
        connect(&grantor, &Person::default()).await.unwrap();
        let token = &grantor.heard("POST /token")[0];
        assert_eq!(token.header("authorization"), header, "{method}");
        assert_eq!(token.parameter("client_secret").as_deref(), in_form, "{method}");
        assert_eq!(token.parameter("client_id").is_some(), method != "client_secret_basic");
    }
}

#[tokio::test]
async fn c08_credentials_are_shown_to_their_issuer_alone() {
    let grantor = Grantor::start(|ways, _| {
        ways.issuer = json!({ "token_endpoint_auth_methods_supported": null, "registration_endpoint": null });
    })
    .await;
    let credentials = Credentials::new("known").secret("s3cret");
    let known = |issuer: &str| {
        OAuth::new().browser(Person::default()).credentials(credentials.clone().issuer(issuer))
    };
    connect_with(&grantor, known(&grantor.url)).await.unwrap();
    assert!(grantor.heard("POST /token")[0].header("authorization").starts_with("Basic "));
    let error = why(connect_with(&grantor, known("https://login.example")).await.unwrap_err());
    assert!(matches!(error, AuthError::OtherIssuer { .. }), "{error:?}");
    assert_eq!(grantor.heard("POST /token").len(), 1);
    // Where nobody is known there is no way in.
    let error = why(connect(&grantor, &Person::default()).await.unwrap_err());
    assert!(matches!(error, AuthError::NoClient { .. }), "{error:?}");
}

#[tokio::test]
async fn c07_a_refused_registration_is_told() {
    let grantor = Grantor::start(|ways, _| {
        ways.issuer = json!({ "registration_endpoint": "http://127.0.0.1:1/" });
    })
    .await;
    let error = why(connect(&grantor, &Person::default()).await.unwrap_err());
    assert!(matches!(error, AuthError::Fetch { .. }), "{error:?}");
    let grantor = Grantor::start(|ways, url| {
        ways.issuer = json!({ "registration_endpoint": format!("{url}/token") });
    })
    .await;
    let error = why(connect(&grantor, &Person::default()).await.unwrap_err());
    assert!(
        error.to_string().contains("registering the client was refused: unsupported_grant_type"),
        "{error}"
    );
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
}

#[tokio::test]
async fn c24_whom_a_platform_vouches_for_gets_a_token_and_nobody_else() {
    for (says, is_good) in [("vouched for", true), ("expired", false)] {
        let grantor = Grantor::start(|_, _| {}).await;
        let issuer = grantor.url.clone();
        let oauth = OAuth::workload(Credentials::new("pod"), move |asked| {
            assert_eq!(asked, issuer);
            std::future::ready(Ok(Secret::new(says)))
        });
        assert_eq!(connect_with(&grantor, oauth).await.is_ok(), is_good);
        let asked = grantor.heard("POST /token");
        assert_eq!(asked.len(), 1, "another grant is not tried");
        assert_eq!(asked[0].parameter("client_id").as_deref(), Some("pod"));
        assert_eq!(asked[0].parameter("resource"), Some(grantor.server()));
    }
}

#[tokio::test]
async fn c24_a_company_vouches_for_its_people_to_the_servers_own_issuer() {
    let company = Grantor::start(|_, _| {}).await;
    let grantor = Grantor::start(|ways, _| ways.challenge = Some(r#"scope="a""#.to_owned())).await;
    let credentials = || Credentials::new("app").secret("s3cret");
    let endpoint = format!("{}/token", company.url);
    let provider = || IdentityProvider::new(&endpoint, "app at home", "who i am").unwrap();
    connect_with(&grantor, OAuth::enterprise(credentials(), provider())).await.unwrap();
    let asked = &company.heard("POST /token")[0];
    for (name, value) in [
        ("audience", grantor.url.as_str()),
        ("resource", &grantor.server()),
        ("scope", "a"),
        ("client_id", "app at home"),
        ("subject_token", "who i am"),
    ] {
        assert_eq!(asked.parameter(name).as_deref(), Some(value), "{name}");
    }
    assert!(!asked.body.contains("s3cret") && asked.header("authorization").is_empty());
    assert!(grantor.heard("POST /token")[0].header("authorization").starts_with("Basic "));
    // What is no such word goes to nobody.
    company.change(|ways| ways.token = json!({ "issued_token_type": "access_token" }));
    let error = why(connect_with(&grantor, OAuth::enterprise(credentials(), provider())).await.unwrap_err());
    assert!(matches!(error, AuthError::Refused { .. }), "{error:?}");
    assert_eq!(grantor.heard("POST /token").len(), 1);
    assert!(IdentityProvider::new("http://idp.example/token", "a", "b").is_err());
}

#[tokio::test]
async fn c24_a_client_of_its_own_needs_no_user() {
    let grantor = Grantor::start(|ways, _| {
        ways.challenge = Some(r#"scope="a""#.to_owned());
        ways.issuer = json!({ "authorization_endpoint": null, "code_challenge_methods_supported": null });
    })
    .await;
    let pem = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg\n-----END PRIVATE KEY-----";
    assert!(SigningKey::from_pem(pem).is_err());
    let credentials = Credentials::new("robot").secret("s3cret");
    let client = connect_with(&grantor, OAuth::client_credentials(credentials)).await.unwrap();
    client.call("x", &()).await.unwrap();
    let token = &grantor.heard("POST /token")[0];
    for (name, value) in [("grant_type", "client_credentials"), ("scope", "a")] {
        assert_eq!(token.parameter(name).as_deref(), Some(value));
    }
    assert_eq!(token.parameter("resource"), Some(grantor.server()));
}

#[tokio::test]
async fn c19_users_come_back_over_tls_or_to_this_machine() {
    for (back, is_good) in [
        ("https://app.example/callback", true),
        ("http://localhost:4000/callback", true),
        ("http://app.example/callback", false),
        ("app.example:/callback", false),
        ("javascript:alert(1)", false),
        ("", false),
    ] {
        let grantor = Grantor::start(|_, _| {}).await;
        let person = Person::back_at(back);
        let connected = connect(&grantor, &person).await;
        assert_eq!(connected.is_ok(), is_good, "{back}");
        assert_eq!(
            (grantor.heard("POST /register").len(), person.visits()),
            (is_good.into(), is_good.into())
        );
        if let Err(error) = connected {
            assert!(matches!(why(error), AuthError::UnsafeRedirect { .. }));
        }
    }
}
