//! The everything server served on by another: what its clients see of it is the same.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{AsTask, CallOptions, Client, Command, Options, Target};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CallToolResult, Tool};
use longhaul::server::{Catalogue, local_user};
use longhaul::{Server, driver};
use longhaul_gateway::config::check;
use longhaul_gateway::upstream::{Names, Seen, Upstream, keep_offered};
use serde_json::{Value, json};

const EVERYTHING: &str = env!("CARGO_BIN_EXE_longhaul-everything");

/// A server that serves others on, as a configuration says.
pub(crate) struct Front {
    dispatcher: longhaul::server::Dispatcher,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
}

impl Front {
    /// The everything server behind one with these lines in its section.
    pub(crate) async fn with(lines: &str) -> Self {
        let text = format!("[servers.every]\ncommand = [{EVERYTHING:?}, \"--stdio\"]\ncwd = \"/\"\n{lines}");
        let config = check("longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
        let (server, catalogue): (Server, Catalogue) =
            Server::new("front", "1").tasks_to_come(true).dynamic();
        let dispatcher = server.dispatcher().unwrap();
        let names = Arc::new(Names::new(config.names()));
        let mut upstreams = Vec::new();
        for server in config.servers {
            let upstream = Upstream::new(server, Options::default());
            tokio::spawn(keep_offered(Arc::clone(&upstream), catalogue.clone(), Arc::clone(&names)));
            let mut seen = upstream.seen();
            let listed = seen.wait_for(|seen| matches!(seen, Seen::Listed { .. }));
            drop(tokio::time::timeout(Duration::from_secs(60), listed).await.expect("it is listed").unwrap());
            upstreams.push(upstream);
        }
        dispatcher.start().await.unwrap();
        Self { dispatcher, upstreams }
    }

    /// A client of it.
    pub(crate) async fn client(&self, options: Options) -> Client {
        let (near, far) = tokio::io::duplex(1 << 16);
        let dispatcher = self.dispatcher.clone();
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(far);
            let options = driver::Options::default();
            driver::serve(dispatcher, local_user(), reader, writer, options, std::future::pending()).await
        });
        let (reader, writer) = tokio::io::split(near);
        Client::connect_with(Target::stream(reader, writer), options).await.unwrap()
    }

    pub(crate) async fn close(self) {
        for upstream in self.upstreams {
            upstream.close().await;
        }
    }
}

async fn direct(revision: Revision) -> Client {
    let command = Command::new(EVERYTHING).args(["--stdio"]);
    Client::connect_with(command, Options::default().revision(revision)).await.unwrap()
}

/// What is listed of each tool, but for when its calls become tasks: that is for whoever serves it to say.
async fn listed(client: &Client) -> BTreeMap<String, String> {
    let said = |mut tool: Tool| {
        tool.task_support = Default::default();
        (tool.name.clone(), format!("{tool:?}"))
    };
    client.list_tools().await.unwrap().into_iter().map(said).collect()
}

/// A result, but for who has answered.
fn said(result: CallToolResult) -> Value {
    let mut said = serde_json::to_value(result).unwrap();
    if let Some(meta) = said["_meta"].as_object_mut() {
        meta.remove("io.modelcontextprotocol/serverInfo");
        if meta.is_empty() {
            said.as_object_mut().unwrap().remove("_meta");
        }
    }
    said
}

#[tokio::test]
async fn what_a_server_offers_is_the_same_behind_another_in_every_revision() {
    // What becomes a task may be handed over, and is listed so.
    let front = Front::with("task = \"never\"").await;
    for revision in Revision::ALL {
        let (near, far) = (direct(revision).await, front.client(Options::default().revision(revision)).await);
        let (listed_near, listed_far) = (listed(&near).await, listed(&far).await);
        for (name, said) in &listed_near {
            assert_eq!(Some(said), listed_far.get(name), "{revision}");
        }
        assert_eq!(listed_near.len(), listed_far.len());
        for (tool, arguments) in [
            ("echo", json!({ "message": "héllo\n\u{2028}" })),
            ("show", json!({ "kind": "all" })),
            ("weather", json!({ "city": "Oslo" })),
            ("fail", json!({})),
            ("echo", json!({ "massage": 1 })),
        ] {
            let options = || CallOptions::default().as_task(AsTask::Never);
            let (near, far) = (
                near.call_with(tool, &arguments, options()).await.unwrap(),
                far.call_with(tool, &arguments, options()).await.unwrap(),
            );
            assert_eq!(said(near), said(far), "{tool} in {revision}");
        }
        let unknown = far.call("nothing", &json!({})).await.unwrap_err();
        assert!(unknown.to_string().contains("nothing"), "{unknown}");
        let panicked = far.call("panic", &json!({})).await.unwrap_err();
        assert!(!panicked.is_retryable(), "{panicked}");
        near.close().await;
        far.close().await;
    }
    front.close().await;
}

#[tokio::test]
async fn a_server_that_ended_is_started_by_the_next_call() {
    let front = Front::with("prefix = \"e.\"\ntools.panic.enabled = false").await;
    let client = front.client(Options::default()).await;
    let tools = listed(&client).await;
    assert!(tools.contains_key("e.echo") && !tools.contains_key("e.panic"), "{:?}", tools.keys());
    for _ in 0..2 {
        let said = client.call("e.echo", &json!({ "message": "here" })).await.unwrap();
        assert_eq!(said.content[0].as_text(), Some("here"));
        front.upstreams[0].close().await;
    }
    front.close().await;
}
