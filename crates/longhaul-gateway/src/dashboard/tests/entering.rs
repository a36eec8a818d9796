//! Who comes to the pages with something that lets nobody in.

use longhaul::auth::{Refusal, Rules, Verify, VerifyFuture};
use longhaul::transport::http::server::WrongCredential;

use super::*;

/// Knows one token, which lacks what is needed, and cannot tell of another.
#[derive(Debug)]
struct Issuer;

impl Verify for Issuer {
    fn verify<'a>(&'a self, token: &'a str, _: &'a Rules) -> VerifyFuture<'a> {
        Box::pin(async move {
            match token {
                "untold" => Err(Refusal::Unavailable),
                "lacking" => Err(Refusal::Scope(Scopes::parse("call").unwrap())),
                _ => Ok(None),
            }
        })
    }
}

#[tokio::test]
async fn only_what_is_wrong_is_called_wrong_and_counts() {
    let mut scene = Scene::new().await;
    let tokens = StaticTokens::new().token("ann", ANNS, None).unwrap();
    let guard = Protection::new().tokens(tokens).verify(Arc::new(Issuer)).guard().unwrap();
    scene.dashboard = scene.dashboard.clone().guarded(guard, None);
    let counts = |answer: &Answer| answer.extensions().get::<WrongCredential>().is_some();
    let takes_back = |answer: &Answer| {
        let cookies = answer.headers().get_all(SET_COOKIE).into_iter();
        cookies.filter(|cookie| cookie.to_str().unwrap().starts_with("longhaul-8420=; ")).count()
    };
    let sign_in = async |token: &str| {
        let request = Request::post("/sign-in").header("sec-fetch-site", "same-origin");
        scene.ask(request, &format!("token={token}")).await
    };
    for (token, status, is_wrong, said) in [
        ("odd", StatusCode::UNAUTHORIZED, true, "That token does not count here."),
        ("%0A%C3%BC", StatusCode::UNAUTHORIZED, true, "That token does not count here."),
        ("lacking", StatusCode::FORBIDDEN, false, "it has to have the scope call."),
        ("untold", StatusCode::SERVICE_UNAVAILABLE, false, "Tokens cannot be checked now"),
    ] {
        let answer = sign_in(token).await;
        assert_eq!((answer.status(), counts(&answer)), (status, is_wrong), "{token}");
        assert_eq!(answer.headers().contains_key(RETRY_AFTER), token == "untold", "{token}");
        let page = text(answer).await;
        assert!(page.contains(said) && page.contains("name=\"token\""), "{page}");
    }

    let entered = sign_in(ANNS).await;
    assert!(!counts(&entered));
    let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
    for (cookie, is_wrong) in [(cookie.as_str(), false), ("longhaul-8420=made.up", true), ("other=1", false)]
    {
        for path in ["/", "/tasks/x", "/admin/api/tasks", "/events?view=tasks"] {
            let answer = scene.ask(Request::get(path).header(COOKIE, cookie), "").await;
            assert_eq!(counts(&answer), is_wrong, "{cookie} {path}");
            assert_eq!(takes_back(&answer), usize::from(is_wrong), "{cookie} {path}");
        }
        let request = Request::post("/sign-out").header("sec-fetch-site", "same-origin");
        let left = scene.ask(request.header(COOKIE, cookie), "").await;
        assert_eq!((left.status(), counts(&left)), (StatusCode::SEE_OTHER, is_wrong), "{cookie}");
    }
}
