//! What a server offers beside calls, and what is said of its tools in headers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::Server;
use longhaul::client::{Client, Error, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{self, CompletionReference, PromptArgument, PromptMessage};
use longhaul::server::{Prompt, Resource, ResourceTemplate};
use longhaul::transport::http::server;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::played::{discovery, ok, play, respond};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Row {
    id: u64,
}

async fn ours() -> String {
    let greeting = model::Prompt::new("greeting").with_argument(PromptArgument::required("name"));
    let greeting = Prompt::raw(greeting, |_, arguments| async move {
        vec![PromptMessage::user(format!("Hello {}", arguments["name"]).as_str())]
    })
    .complete("name", |_, typed| async move {
        let others: usize = typed.others.len();
        vec![format!("{}da{others}", typed.value)]
    });
    let template =
        ResourceTemplate::typed("test://row/{id}", "row", |_, Row { id }| async move { format!("row {id}") });
    let server = (0..130).fold(Server::new("ours", "1"), |server, n| {
        server.resource(Resource::text(format!("test://{n:03}"), format!("r{n}"), "words"))
    });
    let dispatcher = server.prompt(greeting).resource_template(template).dispatcher().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(dispatcher, listener, server::Options::default(), std::future::pending()));
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn everything_that_is_offered_is_used_in_every_revision() {
    let url = ours().await;
    for revision in Revision::ALL {
        let client = Client::connect_with(url.as_str(), Options::default().revision(revision)).await.unwrap();
        let resources = client.resources().collect().await.unwrap();
        assert_eq!(resources.len(), 130, "from all pages");
        let read = client.read_resource(&resources[129].uri).await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("words"));
        let mut templates = client.resource_templates();
        assert_eq!(templates.next().await.unwrap().unwrap().uri_template, "test://row/{id}");
        assert!(templates.next().await.unwrap().is_none());
        let read = client.read_resource("test://row/7").await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("row 7"));
        let prompts = client.prompts().collect().await.unwrap();
        assert_eq!((prompts.len(), prompts[0].arguments[0].required), (1, true));
        let prompt = client.get_prompt("greeting", &json!({ "name": "Ada" })).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some("Hello Ada"));
        let of = CompletionReference::prompt("greeting");
        let known = BTreeMap::from([("other".to_owned(), "x".to_owned())]);
        let completed = client.complete(&of, ("name", "A"), &known).await.unwrap();
        let context = usize::from(revision >= Revision::V2025_06_18);
        assert_eq!(completed.values, [format!("Ada{context}")], "{revision}");
        let raw = client
            .request("prompts/get", &json!({ "name": "greeting", "arguments": { "name": "Ida" } }))
            .await;
        assert!(raw.unwrap().get().contains("Hello Ida"));
        let unknown = client.request("acme/none", &()).await.unwrap_err();
        assert!(matches!(&unknown, Error::Answer(error) if error.code.0 == -32601), "{unknown:?}");
        let meta = client.request("prompts/list", &json!({ "_meta": {} })).await.unwrap_err();
        assert!(matches!(meta, Error::Arguments { .. }));
        client.close().await;
    }
}

#[tokio::test]
async fn a_list_that_does_not_end_is_given_up() {
    let (url, _) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        _ => {
            let page =
                request.body["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap_or(0));
            let next = if page < 9 { page + 1 } else { page };
            ok(request, json!({ "resultType": "complete", "prompts": [], "nextCursor": next.to_string() }))
        }
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let error = client.prompts().next().await.unwrap_err();
    assert!(error.to_string().contains("does not move on"), "{error}");
    let short = Options::default().max_listed(5);
    let client = Client::connect_with(url.as_str(), short).await.unwrap();
    let error = client.prompts().next().await.unwrap_err();
    assert!(error.to_string().contains("more than 5 pages"), "{error}");
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        std::io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_cannot_be_read_counts_and_is_one_warning_a_page() {
    let (url, _) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        _ => {
            let mut prompts = vec![json!({ "name": "good" })];
            prompts.resize(100, json!({}));
            prompts[1] = json!({ "name": 7 });
            let next = request.body["params"]["cursor"].is_null().then_some("second");
            let mut page = json!({ "resultType": "complete", "prompts": prompts });
            if let Some(next) = next {
                page["nextCursor"] = json!(next);
            }
            ok(request, page)
        }
    })
    .await;
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _logged = tracing::subscriber::set_default(subscriber.finish());
    let connect =
        async |most| Client::connect_with(url.as_str(), Options::default().max_listed(most)).await.unwrap();
    let prompts = connect(200).await.prompts().collect().await.unwrap();
    assert_eq!(prompts.len(), 2);
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warned: Vec<&str> = said.lines().filter(|line| line.contains("left out of a list")).collect();
    assert_eq!(warned.len(), 2, "{said}");
    assert!(
        warned.iter().all(|line| line.contains("left_out=99") && line.contains("items=7, {}, {}")),
        "{said}"
    );
    let error = connect(199).await.prompts().collect().await.unwrap_err();
    assert!(error.to_string().contains("a list of more than 199 prompts"), "{error}");
}

/// The tools of a server that has some arguments repeated in headers, one of them as nobody may.
fn marked() -> Value {
    let tool = |name: &str, kind: &str| {
        let region = json!({ "type": kind, "x-mcp-header": "Region" });
        let limit = json!({ "type": "integer", "x-mcp-header": "Limit" });
        let properties = json!({ "region": region, "limit": limit, "query": { "type": "string" } });
        json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } })
    };
    json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "tools": [tool("find", "string"), tool("wrong", "object")],
    })
}

#[tokio::test]
async fn arguments_are_repeated_in_headers_as_their_tool_wants_it() {
    let (url, heard) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        Some("tools/list") => ok(request, marked()),
        _ => ok(request, json!({ "resultType": "complete", "content": [] })),
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    let tools = client.list_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["find"], "a tool that cannot be called is left out");
    client.call("find", &json!({ "region": "us west", "limit": null, "query": "x" })).await.unwrap();
    client.call("find", &json!({ "region": " padded", "limit": 42 })).await.unwrap();
    let heard = heard.lock().unwrap();
    let (first, second) = (&heard[heard.len() - 2], &heard[heard.len() - 1]);
    assert!(
        first.has("mcp-param-region: us west\r\n") && !first.has("mcp-param-limit") && !first.has("query")
    );
    assert!(second.has("mcp-param-region: =?base64?IHBhZGRlZA==?=") && second.has("mcp-param-limit: 42"));
}

#[tokio::test]
async fn a_call_that_lacks_a_header_is_made_again_once_the_tools_are_known() {
    let (url, heard) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        Some("tools/list") => ok(request, marked()),
        _ if request.has("mcp-param-region: eu") => {
            ok(request, json!({ "resultType": "complete", "content": [] }))
        }
        _ => {
            let error = json!({ "code": -32020, "message": "header mismatch" });
            let body = json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error });
            respond("400 Bad Request", "application/json", "", &body.to_string())
        }
    })
    .await;
    let client = Client::connect(url.as_str()).await.unwrap();
    client.call("find", &json!({ "region": "eu" })).await.unwrap();
    let methods = |heard: &[super::played::Heard]| {
        heard.iter().map(|heard| heard.body["method"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        methods(&heard.lock().unwrap()),
        ["server/discover", "tools/call", "tools/list", "tools/call"]
    );
    // It is not tried without end.
    let error = client.call("find", &json!({ "region": "us" })).await.unwrap_err();
    assert!(matches!(&error, Error::Answer(error) if error.code.0 == -32020), "{error:?}");
    assert_eq!(heard.lock().unwrap().len(), 7);
}

#[tokio::test]
async fn a_server_that_refuses_what_it_speaks_is_asked_once_more() {
    let refused = AtomicBool::new(false);
    let (url, heard) = play(move |request| {
        if refused.swap(true, Ordering::AcqRel) {
            return discovery(request);
        }
        let data = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
        let error = json!({ "code": -32022, "message": "unsupported protocol version", "data": data });
        let body = json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error });
        respond("400 Bad Request", "application/json", "", &body.to_string())
    })
    .await;
    let options = Options::default().request_timeout(Duration::from_secs(20));
    let client = Client::connect_with(url.as_str(), options).await.unwrap();
    assert_eq!(client.dialect().revision(), Revision::V2026_07_28);
    assert_eq!(heard.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn what_may_be_kept_is_asked_for_once() {
    let (url, heard) = play(|request| match request.body["method"].as_str() {
        Some("server/discover") => discovery(request),
        Some("prompts/list") => {
            let hint =
                json!({ "resultType": "complete", "prompts": [], "ttlMs": 60_000, "cacheScope": "private" });
            ok(request, hint)
        }
        _ => ok(
            request,
            json!({ "resultType": "complete", "resources": [], "ttlMs": 0, "cacheScope": "private" }),
        ),
    })
    .await;
    let asked =
        |method: &str| heard.lock().unwrap().iter().filter(|heard| heard.body["method"] == method).count();
    let client = Client::connect(url.as_str()).await.unwrap();
    for _ in 0..2 {
        client.prompts().collect().await.unwrap();
        client.resources().collect().await.unwrap();
    }
    assert_eq!((asked("prompts/list"), asked("resources/list")), (1, 2));
    let client = Client::connect_with(url.as_str(), Options::default().cache(false)).await.unwrap();
    for _ in 0..2 {
        client.prompts().collect().await.unwrap();
    }
    assert_eq!(asked("prompts/list"), 3);
}
