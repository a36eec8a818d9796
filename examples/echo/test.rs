//! What the example promises.

use longhaul::Client;
use longhaul::client::Command;
use serde_json::json;

#[tokio::test]
async fn what_is_said_comes_back() {
    let client = Client::connect(Command::new(env!("CARGO_BIN_EXE_echo"))).await.unwrap();
    let tools = client.list_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["echo"]);
    let answer = client.call("echo", &json!({"message": "hello"})).await.unwrap();
    assert_eq!(answer.content[0].as_text(), Some("hello"));
    client.close().await;
}
