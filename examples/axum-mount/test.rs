//! What the example promises.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use axum_mount::application;
use longhaul::auth::{Issuer, Protection, Resource, StaticTokens};
use longhaul::transport::http::server::Options;
use longhaul::{Client, Server, client};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

mod axum_mount;

#[tokio::test]
async fn a_page_and_a_server_share_an_application_and_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (application, mcp) = application().await.unwrap();
    let application = application.nest_service("/nested", mcp.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = axum::serve(listener, application).with_graceful_shutdown(async move {
        let _ = stopped.await;
        mcp.stop().await;
    });
    let served = tokio::spawn(served.into_future());

    for visitor in 1..=3 {
        let page = reqwest::get(format!("http://{address}/")).await.unwrap().text().await.unwrap();
        assert_eq!(page, format!("You are visitor number {visitor}.\n"));
    }
    for path in ["mcp", "nested"] {
        let client = Client::connect(format!("http://{address}/{path}").as_str()).await.unwrap();
        let answer = client.call("visits", &json!({})).await.unwrap();
        assert_eq!(answer.content[0].as_text(), Some("3"));
        client.close().await;
    }
    let foreign = reqwest::Client::new().post(format!("http://{address}/mcp"));
    let foreign = foreign.header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!(foreign.status(), 403, "it looks after itself");

    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(10), served).await.unwrap().unwrap().unwrap();
}

/// Clients look for how to sign in at the root, wherever the endpoint is.
#[tokio::test]
async fn a_server_that_asks_for_tokens_is_the_fallback() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let guard = Protection::new()
        .resource(Resource::parse(&format!("http://{address}/mcp")).unwrap())
        // Whoever has no token is sent there; nobody is, here.
        .issuer(Issuer::new("https://login.example").unwrap())
        .tokens(StaticTokens::new().token("ann", TOKEN, None).unwrap());
    let options = Options::default().guard(guard.guard().unwrap());
    let mcp = Server::new("guarded", "1.0.0").into_http_service(options).await.unwrap();
    let application = Router::new().route("/", get(async || "a page")).fallback_service(mcp);
    tokio::spawn(axum::serve(listener, application).into_future());

    let page = reqwest::get(format!("http://{address}/")).await.unwrap();
    assert_eq!(page.text().await.unwrap(), "a page");
    let refused = reqwest::Client::new().post(format!("http://{address}/mcp")).send().await.unwrap();
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let says = challenge.split('"').nth(1).unwrap_or_else(|| panic!("{challenge}"));
    let metadata = reqwest::get(says).await.unwrap().text().await.unwrap();
    assert!(metadata.contains(&format!("http://{address}/mcp")), "{metadata}");
    let url = format!("http://{address}/mcp");
    let signed_in = client::Options::default().bearer(TOKEN);
    let client = Client::connect_with(url.as_str(), signed_in).await.unwrap();
    client.ping().await.unwrap();
}
