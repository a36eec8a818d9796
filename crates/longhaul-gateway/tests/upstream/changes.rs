//! What changes on other servers is told to whoever wants to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longhaul::client::{Change, Client, Options, Subscription};
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::model::SubscriptionFilter;
use longhaul::server::{Caller, Grant, Prompt, Resource, Scopes, local_user};
use longhaul::transport::memory;
use longhaul::{Tool, proto::model};
use serde_json::json;

use super::rig::{Front, Nothing, at, both_eras, eventually, one_of_each, over_http};

async fn next(changes: &mut Subscription) -> Change {
    let next = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
    next.expect("a change is told").unwrap().expect("the subscription goes on")
}

#[tokio::test]
async fn a_list_that_changes_is_listed_again_and_told() {
    for behind in both_eras() {
        let (server, catalogue) = one_of_each("one");
        let url = over_http(server.dispatcher().unwrap()).await;
        let front = Front::before(vec![at("one", &url, "")], behind).await;
        for revision in both_eras() {
            let client = front.caller(Options::default().revision(revision)).await;
            let mut changes = client.subscribe(SubscriptionFilter::default().lists()).await.unwrap();
            let name = format!("p-{revision}");
            let uri = format!("notes://{revision}");
            // Whether it tells of changes already nobody knows: it is told until it is heard.
            catalogue.put(Prompt::raw(model::Prompt::new(&*name), |_, _| async { "p" })).unwrap();
            while !matches!(next(&mut changes).await, Change::Prompts) {}
            let prompts = client.prompts().collect().await.unwrap();
            assert!(prompts.iter().any(|prompt| prompt.name == name), "{behind} {revision}: {prompts:?}");
            catalogue.put(Resource::text(&*uri, "new", "n")).unwrap();
            while !matches!(next(&mut changes).await, Change::Resources) {}
            assert!(client.resources().collect().await.unwrap().iter().any(|resource| resource.uri == uri));
            catalogue.remove::<Resource>(&uri).unwrap();
            while !matches!(next(&mut changes).await, Change::Resources) {}
            assert!(client.resources().collect().await.unwrap().iter().all(|resource| resource.uri != uri));
        }
    }
}

/// Waits until a client is told that tools have changed and finds it so: the first word may be of something before.
pub(crate) async fn told(
    client: &Client,
    changes: &mut Subscription,
    is_so: impl Fn(&[model::Tool]) -> bool,
) {
    while !matches!(next(changes).await, Change::Tools) || !is_so(&client.list_tools().await.unwrap()) {}
}

#[tokio::test]
async fn tools_that_come_turn_and_go_at_a_server_do_so_for_all_who_are_connected() {
    for behind in both_eras() {
        let (server, catalogue) = one_of_each("one");
        let url = over_http(server.dispatcher().unwrap()).await;
        let front = Front::before(vec![at("one", &url, "task = \"never\"")], behind).await;
        let mut all = Vec::new();
        for revision in both_eras() {
            let client = front.caller(Options::default().revision(revision)).await;
            let changes = client.subscribe(SubscriptionFilter::default().lists()).await.unwrap();
            all.push((client, changes));
        }
        let late = |description: &str, says: &'static str| {
            Tool::typed("late", description, move |_, Nothing {}| async move { says })
        };
        let described = |tools: &[model::Tool], wanted: Option<&str>| {
            let late = tools.iter().find(|tool| tool.name == "late");
            late.and_then(|tool| tool.description.as_deref()) == wanted
        };
        for (description, says) in [("It came", "here"), ("It turned", "here again")] {
            catalogue.put(late(description, says)).unwrap();
            for (client, changes) in &mut all {
                told(client, changes, |tools| described(tools, Some(description))).await;
                let said = client.call("late", &json!({})).await.unwrap();
                assert_eq!(said.content[0].as_text(), Some(says), "{behind}");
            }
        }
        catalogue.remove::<Tool>("late").unwrap();
        for (client, changes) in &mut all {
            told(client, changes, |tools| described(tools, None)).await;
            let refused = client.call("late", &json!({})).await;
            assert!(refused.as_ref().map_or(true, |result| result.is_error), "{behind}: {refused:?}");
            assert!(client.call("who", &json!({})).await.is_ok(), "the others are as they were");
        }
    }
}

#[tokio::test]
async fn a_server_that_tells_of_changes_without_end_is_let_tell_of_more_before_it_is_listed_again() {
    for behind in both_eras() {
        let (server, catalogue) = one_of_each("one");
        let url = over_http(server.dispatcher().unwrap()).await;
        let front = Front::before(vec![at("one", &url, "")], behind).await;
        let telling = tokio::spawn(async move {
            for nth in 0_u64.. {
                let mut prompt = model::Prompt::new("restless");
                prompt.description = Some(nth.to_string());
                catalogue.put(Prompt::raw(prompt, |_, _| async { "p" })).unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let mut listed = front.upstreams.iter().next().unwrap().seen();
        let began = Instant::now();
        // The first is that when it begins to tell, the second by what it tells first.
        for _ in 0..6 {
            listed.changed().await.unwrap();
        }
        telling.abort();
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(3), "{behind}: listed six times in {took:?}");
    }
}

#[tokio::test]
async fn a_resource_that_changes_is_told_to_who_watches_it() {
    for behind in both_eras() {
        let (server, catalogue) = one_of_each("one");
        let url = over_http(server.dispatcher().unwrap()).await;
        let front = Front::before(vec![at("one", &url, "")], behind).await;
        for revision in both_eras() {
            let client = front.caller(Options::default().revision(revision)).await;
            for uri in ["notes://today", "hidden://one"] {
                // What no list shows is known once it was read.
                client.read_resource(uri).await.unwrap();
                let filter = SubscriptionFilter::default().resource(uri);
                let mut changes = client.subscribe(filter).await.unwrap();
                assert_eq!(changes.agreed().resource_subscriptions, [uri]);
                // It is watched there a moment later.
                eventually("a change is not told", async || {
                    catalogue.resource_updated(uri).unwrap();
                    let next = tokio::time::timeout(Duration::from_millis(200), changes.next()).await;
                    matches!(next, Ok(Ok(Some(Change::Resource(told)))) if told == uri)
                })
                .await;
            }
        }
    }
}

/// A server behind that is asked to tell of resources, and how often that was.
async fn counted(behind: Revision, more: &str) -> (Front, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let its = Arc::clone(&asked);
    let (server, _catalogue) = one_of_each("one");
    let server = server.tell_of_resources(move |_| {
        its.fetch_add(1, Ordering::SeqCst);
        Some(std::future::pending())
    });
    let url = over_http(server.dispatcher().unwrap()).await;
    (Front::before(vec![at("one", &url, more)], behind).await, asked)
}

/// Watches them, and says which.
async fn watched(client: &Client, uris: &[&str]) -> (Option<Subscription>, Vec<String>) {
    let filter = SubscriptionFilter::default();
    match client.subscribe(uris.iter().fold(filter, |filter, uri| filter.resource(*uri))).await {
        Ok(changes) => {
            let agreed = changes.agreed().resource_subscriptions.clone();
            (Some(changes), agreed)
        }
        Err(_) => (None, Vec::new()),
    }
}

#[tokio::test]
async fn no_server_is_asked_to_tell_of_what_nobody_has_offered() {
    for behind in both_eras() {
        let (front, asked) = counted(behind, "").await;
        for revision in both_eras() {
            let client = front.caller(Options::default().revision(revision)).await;
            for guess in ["file:///etc/passwd", "hidden://one", "notes://today2", "rows://{id}x/y"] {
                let (_changes, agreed) = watched(&client, &[guess]).await;
                assert_eq!(agreed, [""; 0], "{guess} {revision}");
            }
            assert_eq!(asked.load(Ordering::SeqCst), 0, "{behind} {revision}");
        }
        let client = front.caller(Options::default()).await;
        let (_changes, agreed) = watched(&client, &["notes://today", "rows://7"]).await;
        assert_eq!(agreed, ["notes://today", "rows://7"]);
        eventually("it is not watched there", async || asked.load(Ordering::SeqCst) == 2).await;
    }
}

#[tokio::test]
async fn who_may_not_ask_a_server_is_told_nothing_by_it() {
    let (front, asked) = counted(Dialect::newest_modern().revision(), "scope = \"notes\"\n").await;
    let granted = async |scopes: &str, revision| {
        let mut caller = Caller::new(Some(local_user()));
        let scopes = Scopes::parse(scopes).unwrap();
        caller.grant = Some(Arc::new(Grant::new(Some(scopes), serde_json::Map::new())));
        let target = memory::serve_caller(front.dispatcher.clone(), caller);
        Client::connect_with(target, Options::default().revision(revision)).await.unwrap()
    };
    for revision in both_eras() {
        let stranger = granted("other", revision).await;
        let (_changes, agreed) = watched(&stranger, &["notes://today"]).await;
        assert_eq!((agreed.len(), asked.load(Ordering::SeqCst)), (0, 0), "{revision}");
        let known = granted("notes", revision).await;
        let (_changes, agreed) = watched(&known, &["notes://today"]).await;
        assert_eq!(agreed, ["notes://today"], "{revision}");
        // Though somebody else is told of it now.
        let (_changes, agreed) = watched(&stranger, &["notes://today"]).await;
        assert_eq!(agreed, [""; 0], "{revision}");
        eventually("it is not watched there", async || asked.load(Ordering::SeqCst) > 0).await;
        asked.store(0, Ordering::SeqCst);
    }
}
