//! The everything server served on by another: what its clients see of it is the same.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{AsTask, CallOptions, Client, Command, Options, Target};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CallToolResult, CreateMessageResult, ElicitResult, Root, Tool};
use longhaul::server::local_user;
use longhaul::{Server, driver};
use longhaul_gateway::config::check;
use longhaul_gateway::upstream::{Seen, Upstream, Upstreams};
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
        Self::speaking(lines, Options::default()).await
    }

    /// The same, spoken to with these options.
    async fn speaking(lines: &str, options: Options) -> Self {
        let text = format!("[servers.every]\ncommand = [{EVERYTHING:?}, \"--stdio\"]\ncwd = \"/\"\n{lines}");
        let config = check("longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
        let names: Vec<String> = config.names().map(str::to_owned).collect();
        let upstreams: Vec<_> =
            config.servers.into_iter().map(|server| Upstream::new(server, options.clone())).collect();
        let serving = Upstreams::new(upstreams.clone(), names);
        let (server, catalogue) = serving.room(Server::new("front", "1"));
        let dispatcher = server.dispatcher().unwrap();
        serving.keep_offered(&catalogue);
        for upstream in &upstreams {
            let mut seen = upstream.seen();
            let listed = seen.wait_for(|seen| matches!(seen, Seen::Listed { .. }));
            drop(tokio::time::timeout(Duration::from_secs(60), listed).await.expect("it is listed").unwrap());
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

/// A client whose user, model and folder are somebody's.
fn of(name: &'static str, revision: Revision) -> Options {
    let order = format!(r#"{{"name":"{name}","cups":2,"size":"small"}}"#);
    let order = serde_json::value::RawValue::from_string(order).unwrap();
    Options::default()
        .revision(revision)
        .on_form(move |_| {
            let order = order.clone();
            async move { ElicitResult::accepted(order) }
        })
        .on_sample(move |_| async move { Ok(CreateMessageResult::new("a model", name)) })
        .on_roots(move || async move { vec![Root::new(format!("file:///{name}"))] })
}

async fn text(client: &Client, tool: &str, arguments: &Value) -> String {
    match client.call(tool, arguments).await {
        Ok(result) => result.content[0].as_text().unwrap().to_owned(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn what_a_server_asks_is_put_to_whoever_made_the_call_and_to_nobody_else() {
    let [modern, legacy, ..] = Revision::ALL;
    let message = json!({ "message": "What?" });
    let front = Front::with("").await;
    for revision in [modern, legacy] {
        let (ann, bob) = (front.client(of("ann", revision)).await, front.client(of("bob", revision)).await);
        let nothing = json!({});
        // What belongs to which call is said, so that they may be made at once.
        let said = tokio::join!(
            text(&ann, "ask_model", &message),
            text(&bob, "ask_model", &message),
            text(&ann, "ask_user", &message),
            text(&bob, "ask_user", &message),
            text(&ann, "ask_roots", &nothing),
            text(&bob, "ask_roots", &nothing),
        );
        assert_eq!((said.0.as_str(), said.1.as_str()), ("ann", "bob"), "{revision}");
        assert_eq!((said.2.as_str(), said.3.as_str()), ("2 small for ann", "2 small for bob"), "{revision}");
        assert_eq!((said.4.as_str(), said.5.as_str()), ("file:///ann", "file:///bob"), "{revision}");
        ann.close().await;
        // Who cannot be asked is not, and somebody else is not either.
        let shy = front.client(Options::default().revision(revision)).await;
        let refused = text(&shy, "ask_model", &message).await;
        assert!(refused.contains("nobody here can give one"), "{refused}");
        bob.close().await;
    }
    front.close().await;
}

#[tokio::test]
async fn a_question_of_a_task_in_a_session_is_put_to_whoever_called_for_that() {
    let front = Front::speaking("", Options::default().revision(Revision::ALL[1])).await;
    let modern = Revision::ALL[0];
    let (ann, bob) = (front.client(of("ann", modern)).await, front.client(of("bob", modern)).await);
    for _ in 0..3 {
        let message = json!({ "message": "What?" });
        // In one session, at the same time: what it asks says of which task it is.
        let said = tokio::join!(text(&ann, "order", &message), text(&bob, "order", &message));
        assert_eq!((said.0.as_str(), said.1.as_str()), ("2 small for ann", "2 small for bob"));
    }
    front.close().await;
}

#[tokio::test]
async fn a_question_that_may_be_anybodys_is_put_to_nobody() {
    let front = Front::speaking("", Options::default().revision(Revision::ALL[1])).await;
    let (asked, mut is_asked) = tokio::sync::mpsc::channel(1);
    let (answer, answered) = tokio::sync::watch::channel(false);
    let ann = Options::default().on_roots(move || {
        let (asked, mut answered) = (asked.clone(), answered.clone());
        async move {
            asked.send(()).await.unwrap();
            answered.wait_for(|answered| *answered).await.unwrap();
            vec![Root::new("file:///ann")]
        }
    });
    let (ann, bob) = (front.client(ann).await, front.client(of("bob", Revision::ALL[0])).await);
    let anns = tokio::spawn(async move { text(&ann, "ask_roots", &json!({})).await });
    is_asked.recv().await.unwrap();
    // Two calls are under way in one session, and its requests do not say of which they are.
    let refused = text(&bob, "ask_roots", &json!({})).await;
    assert!(refused.contains("nobody can tell whom this is for"), "{refused}");
    answer.send_replace(true);
    assert_eq!(anns.await.unwrap(), "file:///ann");
    assert_eq!(text(&bob, "ask_roots", &json!({})).await, "file:///bob");
    bob.close().await;
    front.close().await;
}
