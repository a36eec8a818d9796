//! A server over HTTP that is away for a while, and has forgotten all sessions when it is back.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use longhaul::client::{CallOptions, Client, Options};
use longhaul::proto::model::CallToolResult;
use serde_json::json;
use tokio::sync::Notify;

use super::rig::{Elsewhere, Front, at, both_eras, eventually};

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

async fn is_listed(client: &Client, prompt: &str) -> bool {
    client.prompts().collect().await.unwrap().iter().any(|listed| listed.name == prompt)
}

fn said(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[tokio::test]
async fn a_server_that_was_killed_and_is_back_is_gone_on_with() {
    for behind in both_eras() {
        let address = free_address();
        let program = Elsewhere::at(address, "before");
        let url = format!("http://{address}/mcp");
        let front = Front::before(vec![at("one", &url, "task = \"never\"\n")], behind).await;
        let client = front.caller(Options::default()).await;
        assert!(is_listed(&client, "before").await);

        let (caller, has_begun) = (client.clone(), Arc::new(Notify::new()));
        let begun = Arc::clone(&has_begun);
        let under_way = tokio::spawn(async move {
            let told = CallOptions::default().on_progress(move |_| begun.notify_one());
            caller.call_with("endless", &json!({}), told).await
        });
        has_begun.notified().await;
        program.kill();
        // A call that it was at, and one that comes meanwhile, end, and say that it was the server.
        for ended in [under_way.await.unwrap(), client.call("who", &json!({})).await] {
            let ended = ended.unwrap();
            assert!(ended.is_error && said(&ended).contains("the server one"), "{behind}: {ended:?}");
        }

        let _program = Elsewhere::at(address, "after");
        eventually("it is not called", async || {
            let called = client.call("who", &json!({})).await.unwrap();
            !called.is_error && said(&called) == "elsewhere"
        })
        .await;
        eventually("what it has now is not listed", async || {
            is_listed(&client, "after").await && !is_listed(&client, "before").await
        })
        .await;
    }
}
