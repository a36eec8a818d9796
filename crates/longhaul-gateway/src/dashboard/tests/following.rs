//! Pages that follow what happens.

use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::store::{
    Cursor, Filter, Json, NewTask, Overlay, Owner, Page, Record, Scope, StoreFuture, TaskId, TaskStore,
};
use tokio::sync::mpsc::Receiver;

use super::*;
use crate::admin::{Find, PAGE, Pace, Viewer};
use crate::command::Processes;

/// What a page is sent, up to these words.
async fn hear(pieces: &mut Receiver<Bytes>, words: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(words) {
        let piece = tokio::time::timeout(Duration::from_secs(60), pieces.recv()).await;
        heard += std::str::from_utf8(&piece.unwrap().expect("it goes on")).unwrap();
    }
    heard
}

#[tokio::test]
async fn a_page_that_follows_hears_of_what_changes_and_of_an_end() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    let answer = browser.get(&format!("/events?view=task&id={id}")).await;
    assert_eq!(answer.headers()[CONTENT_TYPE], "text/event-stream");
    let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
    hear(&mut pieces, "\"id\":\"questions\"").await;
    assert_eq!(browser.submit(&format!("{place}/cancel"), "").await.status(), StatusCode::SEE_OTHER);
    hear(&mut pieces, "event: end\ndata: {\"status\":\"cancelled\"}").await;
    scene.dispatcher.engine().drain(Duration::ZERO).await;
    let rest =
        tokio::time::timeout(Duration::from_secs(60), async { while pieces.recv().await.is_some() {} });
    rest.await.expect("a server that stops lets its pages go");
}

#[tokio::test]
async fn a_page_that_has_no_stream_is_told_all_there_is_and_when_it_was_all() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    let task = format!("/events?view=task&id={id}");
    let mut streams = Vec::new();
    while let PageBody::Pieces(pieces) = browser.get(&task).await.into_body() {
        streams.push(pieces);
    }
    assert_eq!(browser.get(&task).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    for (path, shown) in
        [(task, "\"id\":\"questions\""), ("/events?view=tasks".to_owned(), "\"id\":\"counts\"")]
    {
        let answer = browser.get(&format!("{path}&once=")).await;
        let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
        let mut heard = String::new();
        let whole = async {
            while let Some(piece) = pieces.recv().await {
                heard += std::str::from_utf8(&piece).unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), whole).await.expect("it ends");
        assert!(heard.contains(shown), "{heard}");
        assert!(heard.ends_with("event: later\ndata: {\"more\":false}\n\n"), "{heard}");
    }
    drop(streams);
}

#[tokio::test]
async fn a_row_that_is_in_no_list_any_more_is_told_of_to_whoever_has_it() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    // It asks, so it is none of those that work; the other has been forgotten.
    let events = format!("/events?view=tasks&status=working&row=t-{id}&row=t-forgotten-1&row=odd");
    let answer = browser.get(&events).await;
    let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
    let first = hear(&mut pieces, "event: listed").await;
    assert!(first.contains("event: left\ndata: {\"id\":\"t-forgotten-1\"}"), "{first}");
    let row = format!("\"id\":\"t-{id}\"");
    let told = first.lines().find(|line| line.contains(&row)).unwrap();
    assert!(told.contains("needs input") && told.contains("\"asks\":true"), "{told}");
    assert_eq!(browser.submit(&format!("{place}/cancel"), "").await.status(), StatusCode::SEE_OTHER);
    let then = hear(&mut pieces, &row).await;
    assert!(!then.contains("event: left"), "{then}");
}

#[tokio::test]
async fn processes_are_shown_while_their_supervisor_lives_and_no_longer() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    browser.until(&place, "It asks").await;
    let id = place.strip_prefix("/tasks/").unwrap();
    let living =
        Processes { supervisor: 41, command: Some(43) }.play(&scene.runs.path().join("runs").join(id));
    let answer = browser.get(&format!("/events?view=task&id={id}")).await;
    let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
    hear(&mut pieces, "supervisor 41, whose session it is; command 43").await;
    // The task is as it was, and its numbers may be anybody's from now on.
    drop(living);
    let heard = tokio::time::timeout(Duration::from_secs(60), hear(&mut pieces, "\"id\":\"facts\"")).await;
    let heard = heard.expect("it is said at once");
    assert!(!heard.contains("supervisor"), "{heard}");
}

/// Counts the rows that are read.
#[derive(Debug)]
struct Counting {
    store: Arc<Memory>,
    rows: Arc<AtomicUsize>,
}

impl Overlay for Counting {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        self.rows.fetch_add(1, Ordering::Relaxed);
        TaskStore::get(self.below(), scope, id)
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            let page = TaskStore::list(self.below(), scope, filter, after, limit).await?;
            self.rows.fetch_add(page.tasks.len(), Ordering::Relaxed);
            Ok(page)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn who_follows_a_list_reads_about_as_much_as_it_shows() {
    let (store, rows) = (Arc::new(Memory::new()), Arc::new(AtomicUsize::new(0)));
    let server =
        Server::new("ci", "1.0.0").store(Counting { store: Arc::clone(&store), rows: Arc::clone(&rows) });
    let scene = Scene::serving(server, Arc::clone(&store)).await;
    for number in 0..3000 {
        // No worker has this tool, so they stay as they are.
        let owner = Owner::principal(format!("owner-{}", number % 10)).unwrap();
        let id = TaskId::new(format!("t-{number}")).unwrap();
        let task = NewTask::new(id, owner, "other", Json::parse("{}").unwrap());
        TaskStore::create(&*store, task).await.unwrap();
    }
    let admin = &scene.dashboard.0.admin;
    for (typed, first) in [("", 3000 + PAGE), ("nothing-has-this", 3000 + 2000)] {
        let (find, mut pace) = (Find::read(typed, None).unwrap(), Pace::default());
        rows.store(0, Ordering::Relaxed);
        let listing = admin.list_again(&Viewer::operator(), &find, None, PAGE, &mut pace).await.unwrap();
        let page = if typed.is_empty() { PAGE } else { 0 };
        assert_eq!((listing.tasks.len(), rows.load(Ordering::Relaxed)), (page, first), "{typed:?}");
        for _ in 0..300 {
            tokio::time::advance(Duration::from_secs(1)).await;
            admin.list_again(&Viewer::operator(), &find, None, PAGE, &mut pace).await.unwrap();
        }
        let a_second = (rows.load(Ordering::Relaxed) - first) / 300;
        assert!(a_second <= 2 * PAGE + PAGE / 10, "{typed:?}: {a_second}");
    }
}
