//! Servers that do things wrong, and callers who do: what is wrong is the matter of whoever it comes from.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longhaul::client::{Client, Options};
use longhaul::proto::model::{CallToolResult, ElicitResult, TaskStatus};
use longhaul::server::Principal;
use longhaul::transport::memory;
use longhaul_gateway::upstream::{Seen, Upstream, Upstreams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::rig::{Front, at, begun, both_eras, eventually, one_of_each, over_http, serve_at};
use super::wrong::that_is_wrong;

/// The revision in which a server that is wrong is spoken to.
fn legacy() -> longhaul::proto::dialect::Revision {
    both_eras()[0]
}

fn named(name: &Value) -> ElicitResult {
    ElicitResult::accepted(serde_json::value::to_raw_value(&json!({ "name": name })).unwrap())
}

fn said(result: &CallToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

async fn call(client: &Client, tool: &str, argument: &str) -> CallToolResult {
    let arguments = json!({ "as": argument });
    let called = client.call(tool, &arguments);
    tokio::time::timeout(Duration::from_secs(60), called).await.expect("it is answered").unwrap()
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_none_fails_its_own_call_and_no_other() {
    let front = Front::before(vec![that_is_wrong("all", "")], legacy()).await;
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_asked, answers) = (Arc::clone(&asked), Arc::clone(&answer));
    let client = front
        .caller(Options::default().on_form(move |_| {
            is_asked.notify_one();
            let answers = Arc::clone(&answers);
            async move {
                answers.notified().await;
                named(&json!("ann"))
            }
        }))
        .await;
    let other = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "asks", "").await }
    });
    asked.notified().await;
    for long in [
        r#"{"jsonrpc":"2.0","id":ID,"result":LONG}"#,
        r#"{"result":LONG,"jsonrpc":"2.0","id":ID}"#,
        r#"{"result":LONG,"id":ID,"jsonrpc":"2.0"}"#,
    ] {
        let failed = call(&client, "long", long).await;
        assert!(
            failed.is_error && said(&failed).contains("longer than the limit of 4194304 bytes"),
            "{failed:?}"
        );
    }
    for none in [
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"both"}}"#,
        r#"{"id":ID,"result":{"content":[]}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[}}"#,
        r#"{"result":nothing,"jsonrpc":"2.0","id":ID}"#,
    ] {
        let failed = call(&client, "said", none).await;
        assert!(failed.is_error && said(&failed).contains("cannot be read"), "{none}: {failed:?}");
    }
    answer.notify_one();
    let answered = other.await.unwrap();
    assert!(!answered.is_error && said(&answered).contains("ann"), "{answered:?}");
    assert_eq!(front.upstreams.iter().next().unwrap().connections(), 1);
    front.upstreams.close().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_to_tell_what_it_was_ends_the_connection() {
    let front = Front::before(vec![that_is_wrong("all", "")], legacy()).await;
    let client = front.caller(Options::default()).await;
    let failed = call(&client, "long", r#"{"x":LONG,"jsonrpc":"2.0","id":ID}"#).await;
    assert!(failed.is_error && said(&failed).contains("a message longer than the limit"), "{failed:?}");
    eventually("the next call begins it anew", async || said(&call(&client, "who", "").await) == "wrong")
        .await;
    front.upstreams.close().await;
}

#[tokio::test]
async fn whoever_is_asked_may_take_longer_than_a_call_may_be_idle() {
    let mut behind = that_is_wrong("all", "");
    behind.defaults.idle = Some(Duration::from_millis(500));
    let front = Front::before(vec![behind], legacy()).await;
    for revision in both_eras() {
        let asked = Arc::new(AtomicUsize::new(0));
        let times = Arc::clone(&asked);
        let options = Options::default().revision(revision).on_form(move |_| {
            times.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                named(&json!("ann"))
            }
        });
        let answered = call(&front.caller(options).await, "asks", "").await;
        assert!(!answered.is_error && said(&answered).contains("ann"), "{revision}: {answered:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{revision}");
    }
    let client = front.caller(Options::default()).await;
    let silent = call(&client, "silent", "").await;
    assert!(silent.is_error && said(&silent).contains("no answer and no progress"), "{silent:?}");
    front.upstreams.close().await;
}

#[tokio::test]
async fn what_does_not_fit_the_question_reaches_no_server() {
    let front = Front::before(vec![that_is_wrong("all", "")], legacy()).await;
    for revision in both_eras() {
        let asked = Arc::new(AtomicUsize::new(0));
        let times = Arc::clone(&asked);
        let options = Options::default().revision(revision).on_form(move |_| {
            let is_first = times.fetch_add(1, Ordering::SeqCst) == 0;
            async move { named(&if is_first { json!(7) } else { json!("ann") }) }
        });
        let answered = call(&front.caller(options).await, "asks", "").await;
        // In rounds it is asked again; a session tells the server.
        let expected = if revision == legacy() { "does not fit the question" } else { "ann" };
        assert!(said(&answered).contains(expected), "{revision}: {answered:?}");
        assert!(!said(&answered).contains("\"name\":7"), "{revision}: {answered:?}");
    }
    front.upstreams.close().await;
}

#[tokio::test]
async fn whoever_goes_away_while_they_are_asked_keeps_nobody_else_from_being_asked() {
    let front = Front::before(vec![that_is_wrong("all", "")], legacy()).await;
    let of = |name: &str| memory::serve(front.dispatcher.clone(), Principal::new(name.to_owned()).unwrap());
    let asked = Arc::new(Notify::new());
    let is_asked = Arc::clone(&asked);
    let options = Options::default().revision(legacy()).on_form(move |_| {
        is_asked.notify_one();
        std::future::pending()
    });
    let ann = Client::connect_with(of("ann"), options).await.unwrap();
    let calling = tokio::spawn({
        let ann = ann.clone();
        async move { ann.call("asks", &json!({})).await }
    });
    asked.notified().await;
    calling.abort();
    ann.close().await;
    drop(ann);
    let options = Options::default().on_form(|_| async { named(&json!("bob")) });
    let bob = Client::connect_with(of("bob"), options).await.unwrap();
    eventually("her question is not answered for her", async || {
        said(&call(&bob, "answered", "").await).contains("\"action\":\"cancel\"")
    })
    .await;
    let answered = bob.call("asks", &json!({})).await.unwrap();
    assert!(said(&answered).contains("bob"), "{answered:?}");
    front.upstreams.close().await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_takes_too_long_while_it_asks_is_cancelled_at_its_server_before_that_goes_on()
 {
    let front = Front::before(vec![that_is_wrong("all", "")], legacy()).await;
    let asked = Arc::new(Notify::new());
    let is_asked = Arc::clone(&asked);
    let options = Options::default().revision(legacy()).on_form(move |_| {
        is_asked.notify_one();
        std::future::pending()
    });
    let ann = front.caller(options).await;
    let calling = tokio::spawn({
        let ann = ann.clone();
        async move { ann.call("asks", &json!({})).await }
    });
    asked.notified().await;
    // She is there still: her client says that she does not want it any more.
    calling.abort();
    eventually("it goes on", async || said(&call(&ann, "cancelled", "").await) == "1").await;
    front.upstreams.close().await;

    let front = Front::before(vec![that_is_wrong("all", "tools.asks.timeout = \"1s\"")], legacy()).await;
    let ann = front.caller(Options::default().revision(legacy()).on_form(|_| std::future::pending())).await;
    let failed = call(&ann, "asks", "").await;
    assert!(failed.is_error && said(&failed).contains("longer than its timeout"), "{failed:?}");
    eventually("it goes on", async || said(&call(&ann, "cancelled", "").await) == "1").await;
    front.upstreams.close().await;

    let front = Front::before(vec![that_is_wrong("all", "tools.asks.task = \"required\"")], legacy()).await;
    let ann = front.caller(Options::default().on_form(|_| std::future::pending())).await;
    let task = begun(&ann, "asks").await;
    eventually("it does not ask", async || task.get().await.unwrap().status == TaskStatus::InputRequired)
        .await;
    task.cancel().await.unwrap();
    eventually("it goes on", async || said(&call(&ann, "cancelled", "").await) == "1").await;
    front.upstreams.close().await;
}

/// The names of the tools that it offers.
async fn tools(client: &Client) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

/// What is warned about on this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn with(&self, words: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|warning| warning.contains(words)).cloned().collect()
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Words(String);
        impl Visit for Words {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                write!(self.0, "{field}={value:?} ").unwrap();
            }
        }
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().unwrap().push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_tool_that_cannot_be_read_is_left_out_and_no_other_is() {
    let warnings = Warnings::default();
    let _heard = tracing::subscriber::set_default(warnings.clone());
    let front = Front::before(vec![that_is_wrong("bad tools", "")], legacy()).await;
    let names = tools(&front.caller(Options::default()).await).await;
    assert!(
        ["own", "who", "answered"].iter().all(|name| names.iter().any(|named| named == name)),
        "{names:?}"
    );
    assert!(!names.iter().any(|name| name == "bad"), "{names:?}");
    let left_out = warnings.with("left out of a list");
    assert!(left_out.iter().any(|warning| warning.contains("\"bad\"")), "{left_out:?}");
    assert!(left_out.iter().all(|warning| warning.contains("left_out=3")), "one a page: {left_out:?}");
    let notes = front.notes(0);
    for (bad, why) in [
        ("\"bad\"", "missing field `inputSchema`"),
        ("7", "`name`: invalid type"),
        ("\"bad\"", "invalid type"),
    ] {
        let begins = format!("a tool that is listed as {bad} is not served: {why}");
        assert!(notes.iter().any(|note| note.starts_with(&begins)), "{begins}: {notes:?}");
    }
    let twice = "`who` is listed more than once, and served as it is listed first";
    assert_eq!(notes.iter().filter(|note| *note == twice).count(), 1, "{notes:?}");
    assert_eq!(notes.len(), 4, "each once: {notes:?}");
    front.upstreams.close().await;
}

/// Waits until it is known that a server offers nothing, and says why.
async fn why_not(upstream: &Upstream) -> String {
    let mut seen = upstream.seen();
    let failed = seen.wait_for(|seen| matches!(seen, Seen::Failed { .. }));
    let failed = tokio::time::timeout(Duration::from_secs(30), failed).await.expect("it fails in time");
    match &*failed.unwrap() {
        Seen::Failed { why } => why.to_string(),
        seen => panic!("{seen:?}"),
    }
}

#[tokio::test]
async fn a_server_has_to_say_in_time_what_it_has() {
    let front = Front::begin(vec![that_is_wrong("never", "start_within = \"5s\"")], legacy());
    let why = why_not(&front.upstreams.iter().next().unwrap()).await;
    assert_eq!(why, "it has not said within 5s what it has");
    front.upstreams.close().await;
}

#[tokio::test]
async fn a_server_that_does_not_list_its_tools_is_asked_less_and_less_often_and_warned_about_once() {
    let warnings = Warnings::default();
    let _heard = tracing::subscriber::set_default(warnings.clone());
    let front = Front::begin(vec![that_is_wrong("no list", "")], legacy());
    let upstream = front.upstreams.iter().next().unwrap();
    let why = why_not(&upstream).await;
    assert!(why.contains("no list"), "{why}");
    let (began, mut seen) = (Instant::now(), upstream.seen());
    for _ in 0..2 {
        tokio::time::timeout(Duration::from_secs(60), seen.changed()).await.unwrap().unwrap();
    }
    let took = began.elapsed();
    assert!(took > Duration::from_secs(8), "it was asked twice more within {took:?}");
    let warned = warnings.with("what a server has is not known");
    assert!(warned.len() == 1 && warned[0].contains("no list"), "{warned:?}");
    front.upstreams.close().await;
}

#[tokio::test]
async fn so_is_one_that_lists_its_tools_and_then_does_not() {
    let warnings = Warnings::default();
    let _heard = tracing::subscriber::set_default(warnings.clone());
    let front = Front::begin(vec![that_is_wrong("no second list", "start_within = \"1s\"")], legacy());
    let upstream = front.upstreams.iter().next().unwrap();
    let (mut seen, mut asked_anew) = (upstream.seen(), 0);
    let is_away = |seen: &Seen| matches!(seen, Seen::Listed { away: Some(_), .. });
    let counted = async {
        while seen.wait_for(is_away).await.is_ok() {
            asked_anew += 1;
            seen.wait_for(|seen| !is_away(seen)).await.unwrap();
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), counted).await.is_err(), "it is asked again");
    // After 1 s, 5 s, 9 s and 16 s, a second each.
    assert!((3..=4).contains(&asked_anew), "{asked_anew} times within 20 s");
    let warned = warnings.with("what a server has is not known");
    assert!(warned.len() == 1 && warned[0].contains("it has not said within 1s"), "{warned:?}");
    front.upstreams.close().await;
}

#[tokio::test]
async fn a_server_that_is_this_one_is_not_served_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let itself = Upstream::new(at("itself", &url, ""), Options::default());
    let upstreams = Upstreams::new(vec![Arc::clone(&itself)], ["none"]);
    let (server, catalogue) = upstreams.room(one_of_each("front").0);
    serve_at(listener, server.dispatcher().unwrap());
    upstreams.keep_offered(&catalogue);
    let why = why_not(&itself).await;
    assert!(why.contains("it is this server itself"), "{why}");
    let before = tools(&Client::connect(&*url).await.unwrap()).await;
    assert!(before.iter().any(|name| name == "who") && !before.iter().any(|name| name == "itself_who"));
    // Another that serves this one on is another.
    let front = Front::before(vec![at("one", &url, "")], both_eras()[1]).await;
    assert!(tools(&front.caller(Options::default()).await).await.iter().any(|name| name == "who"));
    upstreams.close().await;
}

#[tokio::test]
async fn a_file_of_pins_that_is_mended_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let pins = folder.path().join("pins");
    std::fs::write(&pins, "<<<<<<< ours\n").unwrap();
    let (server, _catalogue) = one_of_each("one");
    let url = over_http(server.dispatcher().unwrap()).await;
    let front = Front::before(vec![at("one", &url, &format!("pins = {pins:?}\n"))], both_eras()[1]).await;
    let client = front.caller(Options::default()).await;
    assert_eq!(tools(&client).await, ["own"]);
    std::fs::write(&pins, "").unwrap();
    eventually("its tools are held back still", async || tools(&client).await.len() > 1).await;
    let text = std::fs::read_to_string(&pins).unwrap();
    let spoilt = text.lines().map(|line| match line.ends_with("one/who") {
        true => format!("{}  one/who\n", "0".repeat(64)),
        false => format!("{line}\n"),
    });
    std::fs::write(&pins, spoilt.collect::<String>()).unwrap();
    eventually("what changed is served still", async || {
        !tools(&client).await.iter().any(|name| name == "who")
    })
    .await;
    eventually("nothing is said of it", async || {
        front.notes(0).iter().any(|note| note.contains("`who` is not served"))
    })
    .await;
}

/// Whoever has a tool that turned could list beside it what fills all that is told of a server.
#[tokio::test]
async fn what_cannot_be_read_keeps_nobody_from_hearing_what_turned() {
    let folder = tempfile::tempdir().unwrap();
    let more = format!("pins = {:?}\ntools.gone.enabled = true\n", folder.path().join("pins"));
    let front = Front::before(vec![that_is_wrong("all", &more)], legacy()).await;
    front.upstreams.close().await;
    let front = Front::before(vec![that_is_wrong("many bad tools", &more)], legacy()).await;
    let notes = front.notes(0);
    assert!(notes[0].starts_with("`who` is not served: it says something else"), "{notes:?}");
    assert!(notes[1].starts_with("it has no tool `gone`"), "{notes:?}");
    let (more, shown) = notes.split_last().unwrap();
    assert!(shown[2..].iter().all(|note| note.starts_with("a tool that is listed as \"bad ")), "{notes:?}");
    assert_eq!(more, &format!("and {} more of the kind", 32 - shown.len()));
    front.upstreams.close().await;
}

#[tokio::test]
async fn a_server_that_names_its_tools_anew_each_time_is_not_listed_again_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let pins = folder.path().join("pins");
    let front =
        Front::before(vec![that_is_wrong("others each time", &format!("pins = {pins:?}"))], legacy()).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let text = std::fs::read_to_string(&pins).unwrap();
    let named = text.lines().filter(|line| line.contains("wrong/number ")).count();
    assert_eq!(named, 2, "it is listed, and once more when it is listened to: {text}");
    front.upstreams.close().await;
}

#[tokio::test]
async fn a_tool_that_its_server_lists_no_more_once_it_is_started_anew_is_not_called_where_it_has_pins() {
    let folder = tempfile::tempdir().unwrap();
    let (pins, lists) = (folder.path().join("pins"), folder.path().join("lists"));
    std::fs::write(&lists, "all").unwrap();
    let behind = that_is_wrong(lists.to_str().unwrap(), &format!("pins = {pins:?}"));
    let front = Front::before(vec![behind], legacy()).await;
    let client = front.caller(Options::default()).await;
    assert_eq!(said(&call(&client, "who", "").await), "wrong");
    std::fs::write(&lists, "all but who").unwrap();
    assert!(call(&client, "ends", "").await.is_error);
    // It would answer.
    let refused = client.call("who", &json!({})).await;
    let is_refused =
        |result: &CallToolResult| result.is_error && said(result).contains("has not said it again");
    assert!(refused.as_ref().map_or(true, is_refused), "{refused:?}");
    assert_eq!(said(&call(&client, "answered", "").await), "null", "what it lists is called");
    assert_eq!(front.upstreams.iter().next().unwrap().connections(), 2);
    front.upstreams.close().await;
}
