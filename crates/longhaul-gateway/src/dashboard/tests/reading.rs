//! How much one look at tasks reads of a store, whatever that has.

use std::sync::atomic::{AtomicUsize, Ordering};

use longhaul::store::{
    Cursor, Filter, Json, NewTask, Overlay, Owner, Page, Scope, StoreFuture, TaskId, TaskStore,
};

use super::*;
use crate::admin::{Find, PAGE, Pace, State, Viewer};

/// Looks at no more tasks for a list than it may give of them, and than `most`: as a store on a disk that has passed over many,
/// or given long ones, and says where to go on.
#[derive(Debug)]
struct Passing {
    store: Arc<Memory>,
    most: usize,
    lists: Arc<AtomicUsize>,
}

impl Overlay for Passing {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.store
    }

    fn list<'a>(
        &'a self,
        scope: Scope<'a>,
        filter: &'a Filter,
        after: Option<&'a Cursor>,
        limit: usize,
    ) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            // The engine looks through the open ones for itself.
            self.lists.fetch_add(usize::from(!filter.open_only), Ordering::Relaxed);
            let mut page =
                TaskStore::list(self.below(), scope, &Filter::all(), after, limit.min(self.most)).await?;
            page.tasks.retain(|record| filter.admits(record));
            Ok(page)
        })
    }
}

/// Pages over a store that has so many tasks with such arguments and looks at so many at once; and how often it was asked for
/// a list of more than the open ones.
async fn over(tasks: usize, arguments: &str, most: usize) -> (Scene, Arc<AtomicUsize>) {
    let (store, lists) = (Arc::new(Memory::new()), Arc::new(AtomicUsize::new(0)));
    let passing = Passing { store: Arc::clone(&store), most, lists: Arc::clone(&lists) };
    let server = Server::new("ci", "1.0.0").store(passing);
    let scene = Scene::serving(server, Arc::clone(&store)).await;
    let arguments = Json::parse(arguments).unwrap();
    for number in 0..tasks {
        // No worker has this tool, so they stay as they are.
        let owner = Owner::principal(format!("owner-{}", number % 10)).unwrap();
        let id = TaskId::new(format!("t-{number}")).unwrap();
        TaskStore::create(&*store, NewTask::new(id, owner, "other", arguments.clone())).await.unwrap();
    }
    (scene, lists)
}

#[tokio::test]
async fn a_tool_that_has_few_tasks_among_many_is_looked_for_among_the_newest_alone() {
    let (scene, lists) = over(2500, "{}", PAGE).await;
    let admin = &scene.dashboard.0.admin;
    lists.store(0, Ordering::Relaxed);
    let runs = admin.runs(&Viewer::operator(), Some("rare")).await.unwrap();
    assert_eq!((lists.load(Ordering::Relaxed), runs.newest_only), (20, Some(0)));
    assert!(runs.of("rare").is_none());
    let runs = admin.runs(&Viewer::operator(), Some("other")).await.unwrap();
    assert_eq!((runs.of("other").unwrap().tasks, runs.newest_only), (1000, Some(1000)));
}

#[tokio::test]
async fn a_look_ends_when_it_has_read_many_bytes() {
    // Four of them are as much as a store gives at once.
    let (scene, lists) = over(40, &json!({ "text": "x".repeat(1 << 20) }).to_string(), 4).await;
    let (admin, viewer, find) = (&scene.dashboard.0.admin, Viewer::operator(), Find::read("", None).unwrap());
    lists.store(0, Ordering::Relaxed);
    let runs = admin.runs(&viewer, None).await.unwrap();
    assert_eq!((lists.load(Ordering::Relaxed), runs.newest_only), (4, Some(16)), "16 MiB");
    assert_eq!(runs.of("other").unwrap().tasks, 16);
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let listing = admin.list(&viewer, &find, after.as_ref(), PAGE).await.unwrap();
        assert!(listing.counts.of(State::Working) == 16 && listing.counts.has_more(State::Working));
        pages.push(listing.tasks.len());
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [16, 16, 8], "what one page has not is on the next");
}

#[tokio::test(start_paused = true)]
async fn who_follows_what_is_rare_asks_the_later_the_more_was_passed_over() {
    let (scene, lists) = over(2500, "{}", PAGE).await;
    let (admin, viewer) = (&scene.dashboard.0.admin, Viewer::operator());
    let (find, mut pace) = (Find::read("tool:rare", None).unwrap(), Pace::default());
    let listing = admin.list_again(&viewer, &find, None, PAGE, &mut pace).await.unwrap();
    assert!(listing.tasks.is_empty() && listing.next.is_some());
    // The counts are read again meanwhile, whose tasks are not passed over.
    let mut found = 0;
    for _ in 0..900 {
        tokio::time::advance(Duration::from_secs(1)).await;
        let before = lists.load(Ordering::Relaxed);
        let listing = admin.list_again(&viewer, &find, None, PAGE, &mut pace).await.unwrap();
        found += usize::from(listing.next.is_some());
        let looked = if listing.next.is_some() { 20 } else { 0 };
        assert!(
            lists.load(Ordering::Relaxed) <= before + 10 + looked,
            "but for the counts, nothing is looked for"
        );
    }
    assert_eq!(
        found, 15,
        "20 calls that passed over tasks cost as much as 100,000 rows: once a minute, and no sooner"
    );
}

#[tokio::test]
async fn who_comes_back_for_a_list_reads_it_no_faster_than_who_stays() {
    let (scene, lists) = over(2500, "{}", PAGE).await;
    let browser = scene.enter().await;
    let mut asked = Vec::new();
    for query in ["q=tool%3Arare", "q=tool%3Arare", "q=tool%3Aother"] {
        lists.store(0, Ordering::Relaxed);
        let answer = browser.get(&format!("/events?view=tasks&{query}&once=")).await;
        let PageBody::Pieces(mut pieces) = answer.into_body() else { panic!("no stream") };
        let mut heard = String::new();
        while let Some(piece) = pieces.recv().await {
            heard += std::str::from_utf8(&piece).unwrap();
        }
        assert!(heard.contains("\"id\":\"counts\"") && heard.contains("2,000+ working"), "{heard}");
        asked.push(lists.load(Ordering::Relaxed));
    }
    assert_eq!(asked, [10 + 20, 0, 10 + 1]);
}
