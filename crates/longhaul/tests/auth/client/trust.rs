//! Whose answer a client believes.

use serde_json::json;

use super::{AuthError, Grantor, Person, connect, why};

#[tokio::test]
async fn c11_c12_c13_an_answer_of_another_redeems_nothing() {
    for (advertised, back, is_good) in [
        (true, Some(""), true),
        (true, None, false),
        (true, Some("https://evil.example"), false),
        (true, Some("/"), false),
        (false, Some(""), true),
        (false, None, true),
        (false, Some("https://evil.example"), false),
    ] {
        let grantor = Grantor::start(|ways, url| {
            ways.issuer = json!({ "authorization_response_iss_parameter_supported": advertised });
            // What begins with a slash, and nothing, follow the issuer's own name.
            let issuer =
                |iss: &str| if iss.starts_with("https") { iss.to_owned() } else { format!("{url}{iss}") };
            ways.back.extend(back.map(|iss| ("iss".to_owned(), issuer(iss))));
        })
        .await;
        let connected = connect(&grantor, &Person::default()).await;
        assert_eq!(grantor.heard("POST /token").len(), usize::from(is_good), "{advertised} {back:?}");
        match connected {
            Ok(_) => assert!(is_good),
            Err(error) => assert!(matches!(why(error), AuthError::Mismatch { .. }) && !is_good),
        }
    }
}

#[tokio::test]
async fn c11_c13_an_error_is_shown_only_if_it_is_the_answer() {
    let answer = |back: &[(&str, &str)]| {
        let back: Vec<(String, String)> =
            back.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        async move {
            let grantor = Grantor::start(|ways, _| ways.back = back).await;
            let error = why(connect(&grantor, &Person::default()).await.unwrap_err());
            assert!(grantor.heard("POST /token").is_empty());
            error
        }
    };
    let denied = answer(&[("error", "access_denied"), ("error_description", "no\n\u{1b}[31mway")]).await;
    assert!(matches!(&denied, AuthError::Refused { error, .. } if error == "access_denied"), "{denied:?}");
    assert!(!denied.to_string().contains(['\n', '\u{1b}']), "{denied}");
    for others in [
        &[("state", "another"), ("error", "evil words")][..],
        &[("iss", "https://evil.example"), ("error", "evil words")],
    ] {
        let dropped = answer(others).await;
        assert!(matches!(dropped, AuthError::Mismatch { .. }), "{dropped:?}");
        assert!(!dropped.to_string().contains("evil"), "{dropped}");
    }
}

#[tokio::test]
async fn c20_no_token_is_shown_where_others_listen() {
    let person = Person::default();
    // Nobody is asked: the name is not looked up before the server has been.
    let oauth = longhaul::client::auth::OAuth::new().browser(person.clone());
    let options = longhaul::client::Options::default().oauth(oauth);
    let error = longhaul::client::Client::connect_with("http://mcp.invalid/mcp", options).await.unwrap_err();
    assert!(matches!(error, longhaul::client::Error::Unreachable { .. }), "{error:?}");
    assert_eq!(person.visits(), 0);
}
