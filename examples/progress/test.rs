//! What the example promises.

use std::sync::{Arc, Mutex};

use longhaul::Client;
use longhaul::client::{CallOptions, Command};
use serde_json::json;

#[tokio::test]
async fn each_cup_is_told_of() {
    let client = Client::connect(Command::new(env!("CARGO_BIN_EXE_progress"))).await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let options =
        CallOptions::default().on_progress(move |progress| hear.lock().unwrap().push(progress.value));
    let tea = client.call_with("brew", &json!({"cups": 3}), options).await.unwrap();
    assert_eq!(tea.content[0].as_text(), Some("3 cups of tea"));
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0, 3.0]);
    client.close().await;
}
