//! Hearing of changes, over HTTP and in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul::client::{Change, Client, Error, Options, Subscription, Target};
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::model::{LoggingLevel, SubscriptionFilter};
use longhaul::server::{Catalogue, Dispatcher, Resource, local_user};
use longhaul::transport::http::server;
use longhaul::{Cx, Server, Tool, driver};
use tokio::net::TcpListener;

use super::Nothing;
use super::played::eventually;

fn both_eras() -> [Revision; 2] {
    [Dialect::newest_modern(), Dialect::newest_legacy()].map(Dialect::revision)
}

fn ours() -> (Dispatcher, Catalogue) {
    let chatty = Tool::typed("chatty", "Log", |cx: Cx, Nothing {}| async move {
        cx.log(LoggingLevel::Info, "talk").await;
        cx.log(LoggingLevel::Error, "trouble").await;
        "done"
    });
    let (server, catalogue) = Server::new("ours", "1").tool(chatty).dynamic();
    let server =
        server.resource(Resource::text("app://a", "a", "a")).resource(Resource::text("app://b", "b", "b"));
    (server.dispatcher().unwrap(), catalogue)
}

async fn over_http(dispatcher: Dispatcher) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(dispatcher, listener, server::Options::default(), std::future::pending()));
    Target::url(format!("http://{address}/mcp"))
}

fn in_process(dispatcher: Dispatcher) -> Target {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    let options = driver::Options::default();
    tokio::spawn(driver::serve(dispatcher, local_user(), reader, writer, options, std::future::pending()));
    let (reader, writer) = tokio::io::split(theirs);
    Target::stream(reader, writer)
}

async fn next(changes: &mut Subscription) -> Change {
    let next = tokio::time::timeout(Duration::from_secs(20), changes.next()).await;
    next.expect("a change is told").unwrap().expect("the subscription goes on")
}

#[tokio::test]
async fn a_subscription_brings_what_it_asked_for_and_nothing_else() {
    for revision in both_eras() {
        for is_http in [true, false] {
            let (dispatcher, catalogue) = ours();
            let target = if is_http { over_http(dispatcher).await } else { in_process(dispatcher) };
            let client = Client::connect_with(target, Options::default().revision(revision)).await.unwrap();
            let filter = SubscriptionFilter::default().lists().resource("app://a");
            let mut changes = client.subscribe(filter.clone()).await.unwrap();
            assert!(changes.agreed().tools_list_changed, "{revision}");
            assert_eq!(changes.agreed().resource_subscriptions, ["app://a"]);
            let mut others =
                client.subscribe(SubscriptionFilter::default().resource("app://b")).await.unwrap();
            catalogue.resource_updated("app://a").unwrap();
            assert!(
                matches!(next(&mut changes).await, Change::Resource(uri) if uri == "app://a"),
                "{revision}"
            );
            catalogue.remove::<Tool>("chatty").unwrap();
            assert!(matches!(next(&mut changes).await, Change::Tools), "{revision}");
            catalogue.resource_updated("app://b").unwrap();
            assert!(
                matches!(next(&mut others).await, Change::Resource(uri) if uri == "app://b"),
                "{revision}"
            );
            client.close().await;
            assert!(matches!(changes.next().await, Err(Error::Lost { .. })), "{revision}");
        }
    }
}

#[tokio::test]
async fn a_server_without_changes_says_so() {
    let dispatcher = Server::new("ours", "1").dispatcher().unwrap();
    let client = Client::connect(over_http(dispatcher).await).await.unwrap();
    let error = client.subscribe(SubscriptionFilter::default().lists()).await.unwrap_err();
    assert!(matches!(error, Error::Answer(_)), "{error:?}");
}

#[tokio::test]
async fn the_log_is_as_severe_as_was_last_asked_for() {
    for revision in both_eras() {
        let (dispatcher, _catalogue) = ours();
        let count = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&count);
        let options = Options::default().revision(revision).on_log(LoggingLevel::Error, move |_| {
            counting.fetch_add(1, Ordering::AcqRel);
        });
        let client = Client::connect_with(over_http(dispatcher).await, options).await.unwrap();
        client.call("chatty", &()).await.unwrap();
        eventually("trouble is heard", || count.load(Ordering::Acquire) == 1).await;
        client.set_log_level(LoggingLevel::Debug).await.unwrap();
        client.call("chatty", &()).await.unwrap();
        eventually("talk is heard as well", || count.load(Ordering::Acquire) == 3).await;
        client.close().await;
    }
}
