//! What the example promises.

use longhaul::Client;
use longhaul::client::Command;
use serde_json::json;

#[tokio::test]
async fn it_calculates_and_greets() {
    let client = Client::connect(Command::new(env!("CARGO_BIN_EXE_calculator"))).await.unwrap();
    let sum = client.call("add", &json!({"a": 40, "b": 2})).await.unwrap();
    assert_eq!(sum.content[0].as_text(), Some("42"));
    let failed = client.call("divide", &json!({"dividend": 1, "divisor": 0})).await.unwrap();
    assert!(failed.is_error && failed.content[0].as_text().unwrap().contains("divided by zero"));
    let greeting = client.read_resource("greeting://Ada").await.unwrap();
    assert_eq!(greeting.contents[0].text.as_deref(), Some("Hello, Ada!"));
    client.close().await;
}
