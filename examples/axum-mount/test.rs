//! What the example promises.

use std::time::Duration;

use axum_mount::application;
use longhaul::Client;
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
