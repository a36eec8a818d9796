//! What a server offers changes while it serves, and who wants to know is told.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod host;

use std::sync::Arc;
use std::time::Duration;

use host::{Host, both_eras};
use longhaul::proto::dialect::{Dialect, Era};
use longhaul::proto::model::{self, LoggingLevel};
use longhaul::server::{
    Catalogue, ChangeError, Prompt, Resource, ResourceTemplate, SubscriptionOptions, TaskPolicy, ToolError,
};
use longhaul::service::{Level, Trace};
use longhaul::store::{Json, Memory, NewTask, Owner, TaskId, TaskStore as _};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};
use tokio::sync::Notify;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Id {
    id: u64,
}

fn tool(name: &str, says: &'static str) -> Tool {
    Tool::typed(name, "Say it", move |_, Nothing {}| async move { says })
}

fn prompt(name: &str) -> Prompt {
    Prompt::raw(model::Prompt::new(name), |_, _| async { "hello" })
}

fn begin() -> (Server, Catalogue) {
    let (server, catalogue) = Server::new("test", "1.0.0").tool(tool("first", "1")).dynamic();
    (server.resource(Resource::text("app://watched", "watched", "w")), catalogue)
}

async fn host(dialect: &'static Dialect) -> (Host, Catalogue) {
    let (server, catalogue) = begin();
    (Host::new(server.dispatcher().unwrap(), dialect).await, catalogue)
}

async fn names(host: &mut Host, method: &str, list: &str) -> Vec<String> {
    let answer = host.ask(method, json!({})).await;
    let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
    items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// Nothing is said for longer than changes are gathered.
async fn silent(host: &mut Host) {
    let said = tokio::time::timeout(Duration::from_millis(200), host.receive()).await;
    assert!(said.is_err(), "{said:?}");
}

async fn listen(host: &mut Host, filter: Value) -> (u64, Value) {
    let id = host.request("subscriptions/listen", json!({"notifications": filter})).await;
    let acknowledged = host.receive().await.unwrap();
    host.check("SubscriptionsAcknowledgedNotification", &acknowledged);
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    (id, acknowledged["params"]["notifications"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_by_the_next_request_and_order_is_kept() {
    for dialect in both_eras() {
        let (server, catalogue) = begin();
        let mut host = Host::new(server.tool(tool("second", "2")).dispatcher().unwrap(), dialect).await;
        // A session would hear of each.
        catalogue.add(tool("third", "3")).unwrap();
        catalogue.put(tool("first", "one")).unwrap();
        assert!(catalogue.enable::<Tool>("second", false).unwrap());
        let heard = async |host: &mut Host| {
            if dialect.era() == Era::Legacy {
                assert_eq!(host.receive().await.unwrap()["method"], "notifications/tools/list_changed");
            }
        };
        heard(&mut host).await;
        assert_eq!(names(&mut host, "tools/list", "tools").await, ["first", "third"]);
        let called = host.ask("tools/call", json!({"name": "first"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "one");
        assert_eq!(host.error("tools/call", json!({"name": "second"})).await.0, -32602);
        assert!(catalogue.enable::<Tool>("second", true).unwrap());
        assert!(!catalogue.enable::<Tool>("second", true).unwrap(), "it was so already");
        assert!(catalogue.remove::<Tool>("first").unwrap() && !catalogue.remove::<Tool>("first").unwrap());
        heard(&mut host).await;
        assert_eq!(names(&mut host, "tools/list", "tools").await, ["second", "third"]);
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_can_come_and_go() {
    let (mut host, catalogue) = host(Dialect::newest_modern()).await;
    let rows =
        ResourceTemplate::typed("db://{id}", "rows", |_, Id { id }| async move { format!("row {id}") });
    catalogue.add(rows).unwrap();
    catalogue.add(prompt("hello")).unwrap();
    catalogue.add(Resource::text("app://new", "new", "n")).unwrap();
    assert_eq!(names(&mut host, "prompts/list", "prompts").await, ["hello"]);
    assert_eq!(names(&mut host, "resources/list", "resources").await, ["watched", "new"]);
    let templates = names(&mut host, "resources/templates/list", "resourceTemplates").await;
    assert_eq!(templates, ["rows"]);
    let read = host.ask("resources/read", json!({"uri": "db://7"})).await;
    assert_eq!(read["result"]["contents"][0]["text"], "row 7");
    assert!(catalogue.remove::<ResourceTemplate>("db://{id}").unwrap());
    assert!(catalogue.remove::<Prompt>("hello").unwrap());
    assert_eq!(host.error("resources/read", json!({"uri": "db://7"})).await.0, -32602);
    assert_eq!(host.error("prompts/get", json!({"name": "hello"})).await.0, -32602);
}

#[tokio::test]
async fn what_cannot_be_offered_is_refused_and_nothing_changes() {
    let (server, catalogue) = begin();
    let early = catalogue.add(tool("x", "x")).unwrap_err();
    assert!(matches!(early, ChangeError::NotServing));
    let dispatcher = server.dispatcher().unwrap();
    let refused = [
        catalogue.add(tool("first", "x")).unwrap_err(),
        catalogue.put(tool("no good", "x")).unwrap_err(),
        catalogue.put(tool("t", "x").task(TaskPolicy::always())).unwrap_err(),
        catalogue.put(prompt("p").complete("x", |_, _| async { vec!["x"] })).unwrap_err(),
    ];
    assert!(refused.iter().all(|error| matches!(error, ChangeError::Refused(_))), "{refused:?}");
    let mut host = Host::new(dispatcher, Dialect::newest_modern()).await;
    assert_eq!(names(&mut host, "tools/list", "tools").await, ["first"]);
    assert_eq!(names(&mut host, "prompts/list", "prompts").await, Vec::<String>::new());
    host.served.abort();
    while catalogue.resource_updated("app://watched").is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_told_once_of_many_changes() {
    let (mut host, catalogue) = host(Dialect::newest_legacy()).await;
    for turn in 0..100 {
        catalogue.add(tool(&format!("t{turn}"), "t")).unwrap();
        catalogue.add(prompt(&format!("p{turn}"))).unwrap();
    }
    for method in ["tools", "prompts"] {
        let told = host.receive().await.unwrap();
        assert_eq!(told["method"], format!("notifications/{method}/list_changed"));
    }
    silent(&mut host).await;
    assert_eq!(names(&mut host, "tools/list", "tools").await.len(), 101);
}

#[tokio::test(start_paused = true)]
async fn a_session_hears_of_the_resources_it_watches() {
    let (mut host, catalogue) = host(Dialect::newest_legacy()).await;
    let watched = json!({"uri": "app://watched"});
    catalogue.resource_updated("app://watched").unwrap();
    silent(&mut host).await;
    host.result("resources/subscribe", watched.clone(), "EmptyResult").await;
    catalogue.resource_updated("app://other").unwrap();
    catalogue.resource_updated("app://watched").unwrap();
    catalogue.resource_updated("app://watched").unwrap();
    let told = host.receive().await.unwrap();
    host.check("ResourceUpdatedNotification", &told);
    assert_eq!(told["params"], watched);
    silent(&mut host).await;
    host.result("resources/unsubscribe", watched, "EmptyResult").await;
    catalogue.resource_updated("app://watched").unwrap();
    silent(&mut host).await;
    assert_eq!(host.error("resources/subscribe", json!({"uri": "app://none"})).await.0, -32002);
    assert_eq!(host.error("resources/subscribe", json!({})).await.0, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_acknowledged_and_brings_only_what_was_asked_for() {
    let (mut host, catalogue) = host(Dialect::newest_modern()).await;
    let filter = json!({"promptsListChanged": true, "toolsListChanged": false,
        "resourceSubscriptions": ["app://watched", "app://none"]});
    let (id, agreed) = listen(&mut host, filter).await;
    let expected = json!({"promptsListChanged": true, "resourceSubscriptions": ["app://watched"]});
    assert_eq!(agreed, expected, "less what is not there");
    catalogue.add(tool("t", "t")).unwrap();
    catalogue.resource_updated("app://none").unwrap();
    silent(&mut host).await;
    catalogue.add(prompt("a")).unwrap();
    catalogue.add(prompt("b")).unwrap();
    catalogue.resource_updated("app://watched").unwrap();
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    let told = host.receive().await.unwrap();
    host.check("PromptListChangedNotification", &told);
    assert_eq!(
        (&told["method"], &told["params"]["_meta"]),
        (&json!("notifications/prompts/list_changed"), &meta)
    );
    let told = host.receive().await.unwrap();
    host.check("ResourceUpdatedNotification", &told);
    assert_eq!(told["params"], json!({"uri": "app://watched", "_meta": meta}));
    silent(&mut host).await;

    // A second one is told for itself, and the first goes on.
    let (other, _) = listen(&mut host, json!({"toolsListChanged": true})).await;
    catalogue.add(tool("u", "u")).unwrap();
    let told = host.receive().await.unwrap();
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], other);
    host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": other}}))
        .await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    catalogue.add(tool("v", "v")).unwrap();
    silent(&mut host).await;
    let (code, _) = host.error("subscriptions/listen", json!({})).await;
    assert_eq!(code, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_ends_its_subscriptions_with_a_result() {
    for layered in [false, true] {
        let (mut server, _catalogue) = begin();
        if layered {
            server = server.layer(Level::Server, Trace);
        }
        let mut host = Host::new(server.dispatcher().unwrap(), Dialect::newest_modern()).await;
        let (id, _) = listen(&mut host, json!({"toolsListChanged": true})).await;
        host.stop.take().unwrap().send(()).unwrap();
        let cancelled = host.receive().await.unwrap();
        host.check("CancelledNotification", &cancelled);
        assert_eq!(cancelled["params"]["requestId"], id);
        let answer = host.receive().await.unwrap();
        host.check("SubscriptionsListenResultResponse", &answer);
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        assert_eq!(host.receive().await, None);
        assert!(host.served.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_dynamic_server_declares_that_it_tells_of_changes() {
    let list = json!({"listChanged": true});
    let resources = json!({"subscribe": true, "listChanged": true});
    let (mut host, _catalogue) = host(Dialect::newest_modern()).await;
    let discovered = host.result("server/discover", json!({}), "DiscoverResult").await;
    let capabilities = &discovered["capabilities"];
    assert_eq!((&capabilities["tools"], &capabilities["prompts"]), (&list, &list));
    assert_eq!(capabilities["resources"], resources);
}

#[tokio::test(start_paused = true)]
async fn a_session_hears_of_the_parts_of_its_own_task_and_of_no_other() {
    let (gate, store) = (Arc::new(Notify::new()), Memory::new());
    let opened = Arc::clone(&gate);
    let give = move |cx: Cx, Nothing {}| {
        let gate = Arc::clone(&opened);
        async move {
            for part in ["one", "two"] {
                gate.notified().await;
                cx.emit(part).await?;
            }
            gate.notified().await;
            Ok::<_, ToolError>("given")
        }
    };
    let (server, _catalogue) = begin();
    let server =
        server.store(store.another_node()).tool(Tool::typed("give", "Give", give).task(TaskPolicy::always()));
    let mut host = Host::new(server.dispatcher().unwrap(), Dialect::newest_legacy()).await;
    let created = host.ask("tools/call", json!({"name": "give", "task": {}})).await;
    let id = created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let parts = |id: &str| json!({"uri": format!("longhaul://tasks/{id}/parts")});
    let foreign = NewTask::new(
        TaskId::new("foreign").unwrap(),
        Owner::principal("bob").unwrap(),
        "give",
        Json::parse("{}").unwrap(),
    );
    store.create(foreign).await.unwrap();
    for none in ["foreign", "unknown"] {
        assert_eq!(host.error("resources/subscribe", parts(none)).await.0, -32002, "{none}");
    }
    host.result("resources/subscribe", parts(&id), "EmptyResult").await;
    host.result("resources/subscribe", parts(&id), "EmptyResult").await;
    let updated = async |host: &mut Host| loop {
        let said = host.receive().await.unwrap();
        if said["method"] == "notifications/resources/updated" {
            host.check("ResourceUpdatedNotification", &said);
            return said["params"].clone();
        }
    };
    let not_updated = async |host: &mut Host| {
        while let Ok(said) = tokio::time::timeout(Duration::from_millis(200), host.receive()).await {
            assert_ne!(said.unwrap()["method"], "notifications/resources/updated");
        }
    };
    gate.notify_one();
    assert_eq!(updated(&mut host).await, parts(&id));
    not_updated(&mut host).await;
    host.result("resources/unsubscribe", parts(&id), "EmptyResult").await;
    gate.notify_one();
    not_updated(&mut host).await;
}

/// What is told of while anybody watches it, as the test sees it: how many tell of it now.
fn elsewhere(server: Server) -> (Server, Arc<()>) {
    let telling = Arc::new(());
    let its = Arc::clone(&telling);
    let server = server.tell_of_resources(move |what| {
        let telling = Arc::clone(&its);
        (what.uri != "app://silent").then_some(async move {
            std::future::pending::<()>().await;
            drop(telling);
        })
    });
    (server.resource(Resource::text("app://silent", "silent", "s")), telling)
}

#[tokio::test(start_paused = true)]
async fn who_tells_of_a_resource_runs_for_as_long_as_anybody_watches_it() {
    let yield_to_it = || tokio::time::sleep(Duration::from_millis(1));
    for dialect in both_eras() {
        let (server, catalogue) = begin();
        let (server, telling) = elsewhere(server);
        let mut host = Host::new(server.dispatcher().unwrap(), dialect).await;
        let none = Arc::strong_count(&telling);
        let watched = json!({"uri": "app://watched"});
        let subscription = match dialect.era() {
            Era::Legacy => {
                for _ in 0..2 {
                    host.result("resources/subscribe", watched.clone(), "EmptyResult").await;
                }
                assert_eq!(host.error("resources/subscribe", json!({"uri": "app://silent"})).await.0, -32602);
                None
            }
            Era::Modern => {
                let filter = json!({"resourceSubscriptions": ["app://watched", "app://silent"]});
                let (id, agreed) = listen(&mut host, filter).await;
                assert_eq!(agreed, json!({"resourceSubscriptions": ["app://watched"]}));
                Some(id)
            }
        };
        assert_eq!(Arc::strong_count(&telling), none + 1);
        catalogue.resource_updated("app://watched").unwrap();
        assert_eq!(host.receive().await.unwrap()["method"], "notifications/resources/updated");
        match subscription {
            None => drop(host.result("resources/unsubscribe", watched, "EmptyResult").await),
            Some(id) => {
                let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                host.send(cancelled).await;
            }
        }
        yield_to_it().await;
        assert_eq!(Arc::strong_count(&telling), none, "{}", dialect.revision());
    }
}

/// Whatever a template matches can be watched, so that nobody may watch more of it than there is room for.
#[tokio::test(start_paused = true)]
async fn a_client_watches_so_many_resources_and_a_principal_so_many_in_all() {
    let row = |id: u64| format!("db://{id}");
    for dialect in both_eras() {
        let rows = ResourceTemplate::typed("db://{id}", "rows", |_, Id { id }| async move { id.to_string() });
        let (server, _catalogue) = begin();
        let (server, telling) = elsewhere(server.resource_template(rows));
        let bounds = SubscriptionOptions::default().max_resources(2).max_watched(10, 3);
        let dispatcher = server.subscriptions(bounds).dispatcher().unwrap();
        let none = Arc::strong_count(&telling);
        let mut hosts =
            [Host::new(dispatcher.clone(), dialect).await, Host::new(dispatcher.clone(), dialect).await];
        match dialect.era() {
            Era::Legacy => {
                let watch = |id| json!({"uri": row(id)});
                for id in [1, 2, 2] {
                    hosts[0].result("resources/subscribe", watch(id), "EmptyResult").await;
                }
                assert_eq!(hosts[0].error("resources/subscribe", watch(3)).await.0, -32603);
                hosts[1].result("resources/subscribe", watch(4), "EmptyResult").await;
                let (code, message) = hosts[1].error("resources/subscribe", watch(5)).await;
                assert!(code == -32603 && message.contains("limit of one caller"), "{code} {message}");
                hosts[0].result("resources/unsubscribe", watch(1), "EmptyResult").await;
                hosts[1].result("resources/subscribe", watch(5), "EmptyResult").await;
            }
            Era::Modern => {
                let uris: Vec<String> = (0..100).map(|id| row(id / 2)).collect();
                let filter = json!({ "resourceSubscriptions": uris });
                let (first, agreed) = listen(&mut hosts[0], filter.clone()).await;
                assert_eq!(agreed, json!({"resourceSubscriptions": [row(0), row(1)]}));
                let (_, agreed) = listen(&mut hosts[1], filter.clone()).await;
                assert_eq!(agreed, json!({"resourceSubscriptions": [row(0)]}));
                assert_eq!(Arc::strong_count(&telling), none + 2, "one tells of each");
                let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}});
                hosts[0].send(cancelled).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                let (_, agreed) = listen(&mut hosts[1], filter).await;
                assert_eq!(agreed, json!({"resourceSubscriptions": [row(0), row(1)]}));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_session_watched_that_is_gone_takes_nobodys_room() {
    let rows = ResourceTemplate::typed("db://{id}", "rows", |_, Id { id }| async move { id.to_string() });
    let (server, _catalogue) = begin();
    let (server, telling) = elsewhere(server.resource_template(rows));
    let bounds = SubscriptionOptions::default().max_watched(10, 2);
    let dispatcher = server.subscriptions(bounds).dispatcher().unwrap();
    let none = Arc::strong_count(&telling);
    let mut gone = Host::new(dispatcher.clone(), Dialect::newest_legacy()).await;
    let mut here = Host::new(dispatcher.clone(), Dialect::newest_legacy()).await;
    let watch = |id: u64| json!({"uri": format!("db://{id}")});
    for id in [1, 2] {
        gone.result("resources/subscribe", watch(id), "EmptyResult").await;
    }
    assert_eq!(here.error("resources/subscribe", watch(3)).await.0, -32603);
    // It hangs up.
    let served = {
        let gone = gone;
        gone.served
    };
    served.await.unwrap().unwrap();
    for id in [3, 4] {
        here.result("resources/subscribe", watch(id), "EmptyResult").await;
    }
    assert_eq!(here.error("resources/subscribe", watch(5)).await.0, -32603);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(Arc::strong_count(&telling), none + 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_described_by_hand_is_offered_and_changed_in_one_go() {
    for dialect in both_eras() {
        let (mut host, catalogue) = host(dialect).await;
        let files = |n: u8| {
            let definition = model::Resource::new(format!("f:{n}"), n.to_string()).with_title("F");
            Resource::raw(definition, move |_| async move { n.to_string() })
        };
        let template = |uri: &str| {
            let definition = model::ResourceTemplate::new(uri, uri);
            ResourceTemplate::raw(definition, |_, uri| async move { uri.to_uppercase() })
                .complete_any(|_, variable, typed| async move { vec![format!("{variable}={}", typed.value)] })
        };
        assert!(catalogue.renew(["app://watched"], (0..100).map(files)).unwrap().is_empty());
        let templates = ["db://{id}", "any://{path*}", "broken{"].map(template);
        assert!(catalogue.renew([""; 0], templates).unwrap().is_empty());
        let refused = catalogue.renew(["none"], [tool("no good", "x"), tool("good", "x")]).unwrap();
        assert_eq!(refused.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["no good"]);
        if dialect.era() == Era::Legacy {
            for list in ["tools", "resources"] {
                let told = host.receive().await.unwrap();
                assert_eq!(told["method"], format!("notifications/{list}/list_changed"));
            }
        }
        assert_eq!(names(&mut host, "resources/list", "resources").await.len(), 100);
        assert_eq!(names(&mut host, "tools/list", "tools").await, ["first", "good"]);
        let read = host.ask("resources/read", json!({"uri": "f:7"})).await;
        assert_eq!(read["result"]["contents"][0]["text"], "7");
        let read = host.ask("resources/read", json!({"uri": "db://x"})).await;
        assert_eq!(read["result"]["contents"][0]["text"], "DB://X");
        for (template, variable) in [("db://{id}", "id"), ("any://{path*}", "path"), ("db://{id}", "other")] {
            let params = json!({"ref": {"type": "ref/resource", "uri": template},
                "argument": {"name": variable, "value": "v"}});
            let completed = host.result("completion/complete", params, "CompleteResult").await;
            assert_eq!(completed["completion"]["values"], json!([format!("{variable}=v")]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_log_is_passed_on_to_who_wants_it() {
    for dialect in both_eras() {
        let (server, catalogue) = begin();
        let mut host = Host::new(server.dispatcher().unwrap(), dialect).await;
        let wanted = if dialect.era() == Era::Legacy { Some("info") } else { None };
        catalogue
            .add(Tool::typed("logs", "Log", |cx: Cx, Nothing {}| async move {
                cx.pass_log(LoggingLevel::Debug, Some("disk"), &json!({"free": 1}));
                cx.pass_log(LoggingLevel::Error, Some("disk"), &json!({"free": 0}));
                json!(cx.log_level()).to_string()
            }))
            .unwrap();
        if dialect.era() == Era::Legacy {
            assert_eq!(host.receive().await.unwrap()["method"], "notifications/tools/list_changed");
        }
        let id = host.request("tools/call", json!({"name": "logs"})).await;
        if wanted.is_some() {
            let told = host.receive().await.unwrap();
            host.check("LoggingMessageNotification", &told);
            assert_eq!(told["params"], json!({"level": "error", "logger": "disk", "data": {"free": 0}}));
        }
        let answer = host.receive().await.unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], json!(wanted).to_string());
    }
}
