//! A process on a store kills itself before and after the commit of each kind of write: the next finds all of it or
//! nothing of it.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use longhaul_store::{
    Batch, Fingerprint, Json, NewTask, OrphanRule, Outcome, Owner, Park, Phase, Question, Record, Reply,
    Retention, Scope, Sqlite, Start, Step, StepState, TaskId, TaskStore as _, Time, crash_point::POINTS,
};

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn task(name: &str) -> NewTask {
    NewTask::new(id(name), Owner::Anonymous, "build", Json::parse("{}").unwrap())
}

fn success() -> Outcome {
    Outcome::result(Json::parse("{}").unwrap(), false)
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path).unwrap()
}

/// Every kind of write once, on a task of its own where it needs one.
async fn write_everything(store: &Sqlite) {
    let claimed = store.create(task("worked-on")).await.unwrap().into_record();
    let mut queued = task("queued");
    queued.start = Start::Queued { not_before: Time::from_unix_ms(0) };
    store.create(queued).await.unwrap();
    let taken = store.claim(1, None).await.unwrap().pop().unwrap();
    store.renew(&[(taken.id.clone(), taken.epoch)]).await.unwrap();
    store.release(&taken.id, taken.epoch).await.unwrap();
    let report = Batch::new().with_status_message("half way");
    store.write(&claimed.id, claimed.epoch, report).await.unwrap();
    let asking = store.create(task("asking")).await.unwrap().into_record();
    let question = Question::new("q", Json::parse("\"how?\"").unwrap());
    let asks = Step::new("ask", Fingerprint::new([1; 16]), StepState::Asked(question));
    let asks = Batch::new().with_step(asks).with_park(Park::new(vec!["q".into()], None));
    store.write(&asking.id, asking.epoch, asks).await.unwrap();
    let reply = Reply::new("q", Json::parse("\"so\"").unwrap());
    store.answer(Scope::Operator, &asking.id, &[reply]).await.unwrap();
    store.finish(&claimed.id, claimed.epoch, success(), Batch::new()).await.unwrap();
    store.create(task("cancelled")).await.unwrap();
    store.request_cancel(Scope::Operator, &id("cancelled"), None).await.unwrap();
    let mut awaited = task("awaited");
    awaited.orphan = Some(OrphanRule::default());
    store.create(awaited).await.unwrap();
    store.came_back(Scope::Operator, &id("awaited")).await.unwrap();
    let aside = store.create(task("put-aside")).await.unwrap().into_record();
    let park = Park::new(vec![], Some(store.now().after(Duration::from_secs(3600))));
    store.write(&aside.id, aside.epoch, Batch::new().with_park(park)).await.unwrap();
    assert!(store.make_due(&aside.id).await.unwrap());
    let mut brief = task("forgotten-at-once");
    brief.retention = Retention::AfterTerminal(Duration::ZERO);
    let brief = store.create(brief).await.unwrap().into_record();
    store.finish(&brief.id, brief.epoch, success(), Batch::new()).await.unwrap();
    while store.sweep(10).await.unwrap().total() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    store.erase(Scope::Operator, &id("cancelled")).await.unwrap();
}

/// Not a test of its own: what [`all_of_a_write_is_found_again_or_nothing`] starts and lets die.
#[tokio::test]
#[ignore = "started by the test of crashes, in a process of its own"]
async fn a_process_that_writes() {
    let path = std::env::var_os("TEST_STORE").expect("the store's file is named");
    write_everything(&open(Path::new(&path))).await;
}

/// Which writes a point has seen committed when the process dies at it, in the order of [`write_everything`].
fn expect(point: &str, rows: &[(&str, Option<Record>)]) {
    let find = |name| rows.iter().find(|(row, _)| *row == name).and_then(|(_, record)| record.as_ref());
    let (worked_on, queued, asking) = (find("worked-on"), find("queued"), find("asking"));
    let (cancelled, awaited, forgotten) = (find("cancelled"), find("awaited"), find("forgotten-at-once"));
    let aside = find("put-aside");
    let is_running =
        |record: Option<&Record>| record.is_some_and(|record| matches!(record.phase, Phase::Running { .. }));
    let is_queued =
        |record: Option<&Record>| record.is_some_and(|record| matches!(record.phase, Phase::Queued { .. }));
    let message = worked_on.and_then(|record| record.status_message.as_deref());
    let order = [
        ("store.open.before", rows.iter().all(|(_, record)| record.is_none())),
        ("store.open.after", rows.iter().all(|(_, record)| record.is_none())),
        ("store.migrate.statement", rows.iter().all(|(_, record)| record.is_none())),
        ("store.create.before", worked_on.is_none()),
        ("store.create.after", is_running(worked_on) && queued.is_none()),
        ("store.claim.before", is_queued(queued) && queued.is_some_and(|record| record.attempt == 0)),
        ("store.claim.after", is_running(queued)),
        ("store.renew.before", is_running(queued)),
        ("store.renew.after", is_running(queued)),
        ("store.release.before", is_running(queued)),
        ("store.release.after", is_queued(queued)),
        ("store.write.before", message.is_none() && is_running(worked_on)),
        ("store.write.after", message == Some("half way")),
        (
            "store.answer.before",
            asking.is_some_and(|record| record.questions.len() == 1 && !is_queued(asking)),
        ),
        ("store.answer.after", asking.is_some_and(|record| record.questions.is_empty()) && is_queued(asking)),
        ("store.finish.before", is_running(worked_on)),
        ("store.finish.after", worked_on.and_then(Record::outcome) == Some(&success())),
        ("store.cancel.before", is_running(cancelled)),
        (
            "store.cancel.after",
            matches!(cancelled.and_then(Record::outcome), Some(Outcome::Cancelled { .. })),
        ),
        ("store.came_back.before", awaited.is_some_and(|record| record.came_back_at.is_none())),
        ("store.came_back.after", awaited.is_some_and(|record| record.came_back_at.is_some())),
        ("store.make_due.before", aside.is_some_and(|record| matches!(record.phase, Phase::Parked { .. }))),
        ("store.make_due.after", is_queued(aside)),
        // Forgotten or not, nobody sees what has had its time.
        ("store.sweep.before", forgotten.is_none() && cancelled.is_some()),
        ("store.sweep.after", forgotten.is_none() && cancelled.is_some()),
        ("store.erase.before", cancelled.is_some()),
        ("store.erase.after", cancelled.is_none()),
    ];
    assert_eq!(order.map(|(name, _)| name).as_slice(), POINTS, "every point is expected of");
    let (_, holds) = order.into_iter().find(|(name, _)| *name == point).unwrap();
    assert!(holds, "{point}: {rows:#?}");
}

#[tokio::test]
async fn all_of_a_write_is_found_again_or_nothing() {
    for point in POINTS {
        let folder = tempfile::tempdir().unwrap();
        let (path, report) = (folder.path().join("tasks.db"), folder.path().join("report"));
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_writes", "--ignored"])
            .env("TEST_STORE", &path)
            .env("LONGHAUL_CRASH_POINT", point)
            .env("LONGHAUL_CRASH_REPORT", &report)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(!status.success(), "{point}: it died");
        assert_eq!(fs::read_to_string(&report).unwrap_or_default(), format!("{point}\n"), "reached, once");

        let store = Arc::new(open(&path));
        let mut rows = Vec::new();
        for name in
            ["worked-on", "queued", "asking", "cancelled", "awaited", "put-aside", "forgotten-at-once"]
        {
            rows.push((name, store.get(Scope::Operator, &id(name)).await.unwrap()));
        }
        expect(point, &rows);
        // The dead hold nothing back.
        let open_rows =
            rows.iter().filter_map(|(_, record)| record.as_ref()).filter(|record| !record.is_terminal());
        let count = open_rows.clone().count();
        let waits = open_rows.filter(|record| matches!(record.phase, Phase::Parked { .. })).count();
        assert_eq!(store.claim(10, None).await.unwrap().len(), count - waits, "{point}");
        assert_eq!(store.counts().await.unwrap().open, count as u64, "{point}");
    }
}
