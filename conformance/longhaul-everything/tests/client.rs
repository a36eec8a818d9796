//! The everything server as a child process, used by our own client in both eras.

mod behind;

use std::sync::{Arc, Mutex};

use longhaul::client::{CallOptions, Client, Command, Options};
use longhaul::proto::dialect::Revision;

#[tokio::test]
async fn our_client_uses_the_everything_server_as_a_child_process() {
    for revision in Revision::ALL {
        let command = Command::new(env!("CARGO_BIN_EXE_longhaul-everything")).args(["--stdio"]);
        let client = Client::connect_with(command, Options::default().revision(revision)).await.unwrap();
        assert_eq!(client.server_info().unwrap().name, "everything");
        let tools = client.list_tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "slow"));

        let seen = Arc::new(Mutex::new(Vec::new()));
        let progress = Arc::clone(&seen);
        let options = CallOptions::default().on_progress(move |point| progress.lock().unwrap().push(point));
        let slow = serde_json::json!({ "seconds": 0.02, "steps": 2 });
        let result = client.call_with("slow", &slow, options).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("step 2 of 2: done"));
        assert_eq!(seen.lock().unwrap().last().unwrap().message.as_deref(), Some("step 2 of 2"));

        assert!(client.call("fail", &()).await.unwrap().is_error);
        assert!(client.call("panic", &()).await.is_err_and(|error| !error.is_retryable()));
        assert!(client.call("nothing", &()).await.is_err());
        client.close().await;
        assert!(client.ping().await.is_err());
    }
}
