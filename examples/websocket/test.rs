//! What the example promises.

use std::sync::{Arc, Mutex};

use longhaul::Client;
use longhaul::client::{CallOptions, Target};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

mod server;
mod socket;

#[tokio::test]
async fn calls_go_over_a_websocket_and_foreign_pages_do_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(server::serve(listener));

    let (reader, writer) = socket::connect(&url, 1 << 20).await.unwrap();
    let client = Client::connect(Target::stream(reader, writer)).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let options =
        CallOptions::default().on_progress(move |progress| hear.lock().unwrap().push(progress.value));
    let counted = client.call_with("count", &json!({"to": 3}), options).await.unwrap();
    assert_eq!(counted.content[0].as_text(), Some("3"));
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0]);
    client.close().await;

    let mut foreign = url.into_client_request().unwrap();
    foreign.headers_mut().insert("origin", "https://evil.example".parse().unwrap());
    let refused = tokio_tungstenite::connect_async(foreign).await.unwrap_err();
    assert!(refused.to_string().contains("403"), "{refused}");
}
