//! A sealed store in a file: what whoever steals the file can read, and what happens when it is changed.

use std::{fs, path::Path, time::Duration};

use longhaul_store::{
    Batch, EntryKey, EventStore, Fingerprint, Json, NewChild, NewTask, Outcome, Part, PartContent, Progress,
    Question, Record, Registry, Reply, Scope, Sqlite, Step, StepState, StoreError, Stream, TaskStore, Value,
    sealed::{Sealed, SealingKeys, is_sealed, written_before},
};

use super::{ann, id, open};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const NEWER: &str = "//////////////////////////////////////////8=";

fn keys(key: &str) -> SealingKeys {
    SealingKeys::new(key).unwrap()
}

async fn sealed(path: &Path) -> Sealed<Sqlite> {
    Sealed::open(open(path), keys(KEY)).await.unwrap()
}

fn secret(what: &str) -> Json {
    Json::parse(format!(r#"{{"secret":"{what}"}}"#)).unwrap()
}

fn step(key: &str, state: StepState) -> Step {
    Step::new(key, Fingerprint::new([7; Fingerprint::LEN]), state)
}

/// A task that carries a secret wherever one can be.
async fn carry(store: &Sealed<Sqlite>, name: &str) -> Record {
    let mut task = NewTask::new(id(name), ann(), "build", secret("argument"));
    (task.caller, task.status_message) = (secret("caller"), Some("secret status".into()));
    task.steps = vec![step("before", StepState::learnt(secret("before")))];
    let made = store.create(task).await.unwrap().into_record();
    let asked = StepState::Asked(Question::new(format!("q-{name}"), secret("question")));
    let child = NewTask::new(id(&format!("{name}-child")), ann(), "test", secret("child"));
    let mut batch = Batch::new()
        .with_progress(Progress::new(1.0, None, Some("secret progress".into())))
        .with_step(step("asked", asked))
        .with_step(step("learnt", StepState::learnt(secret("step"))))
        .with_part(Part::new("one", PartContent::Text("secret part".into())))
        .with_part(Part::new("two", PartContent::Json(secret("part"))));
    batch.child = Some(NewChild::new("made", Fingerprint::new([8; Fingerprint::LEN]), child));
    store.write(&made.id, made.epoch, batch.clone()).await.unwrap();
    batch.child = None;
    store.write(&made.id, made.epoch, batch).await.expect("the same write may be made again");
    let replies = [Reply::new(format!("q-{name}"), secret("answer"))];
    store.answer(Scope::Operator, &made.id, &replies).await.unwrap();
    let child = store.get(Scope::Operator, &id(&format!("{name}-child"))).await.unwrap().unwrap();
    assert_eq!(child.arguments, secret("child"));
    let error = Outcome::error(-1, "secret error", Some(secret("data")));
    store.finish(&child.id, child.epoch, error, Batch::new()).await.unwrap();
    made
}

#[tokio::test]
async fn a7_whoever_steals_the_file_reads_no_payload() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = sealed(&path).await;
    let made = carry(&store, "t").await;
    let entry = EntryKey::of_server("kind", "name");
    store.put(entry, Value::lasting(b"secret entry", Duration::from_secs(60))).await.unwrap();
    let (owner, text) = (ann(), "secret event");
    let stream = Stream::new(&owner, "s", "t");
    store.append(stream, text).await.unwrap();

    let steps = store.steps(&made.id, made.epoch).await.unwrap();
    let learnt = |key: &str| {
        let step = steps.iter().find(|step| &*step.key == key).unwrap();
        let StepState::Learnt { value, .. } = &step.state else { panic!("{step:?}") };
        value.as_str().to_owned()
    };
    for (key, what) in [("before", "before"), ("asked", "answer"), ("learnt", "step")] {
        assert_eq!(learnt(key), secret(what).as_str());
    }
    let end = learnt("made");
    assert!(end.contains(r#""why":"secret error""#) && end.contains(r#"{"secret":"data"}"#), "{end}");
    let parts = store.parts(Scope::Owner(&owner), &made.id, 0, 10).await.unwrap().unwrap();
    assert_eq!(parts.parts, [PartContent::Text("secret part".into()), PartContent::Json(secret("part"))]);
    let finish = store.finish(&made.id, made.epoch, Outcome::result(secret("result"), false), Batch::new());
    let done = finish.await.unwrap().into_record();
    assert_eq!(done.outcome(), Some(&Outcome::result(secret("result"), false)));
    assert_eq!((done.arguments, done.caller), (secret("argument"), secret("caller")));
    assert_eq!(done.status_message.as_deref(), Some("secret status"));
    assert_eq!(done.progress.unwrap().message.as_deref(), Some("secret progress"));
    assert_eq!(&*store.entry(entry).await.unwrap().unwrap().value, b"secret entry");
    assert_eq!(&*store.replay(stream, 0, 10).await.unwrap().unwrap()[0].text, text);
    drop(store);

    let mut seen = 0;
    for file in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap_or_default();
        assert!(!bytes.windows(6).any(|bytes| bytes == b"secret"));
        seen += bytes.windows(8).filter(|bytes| *bytes == b"sealed1.").count();
    }
    assert!(seen > 10, "it was looked for where it is");
}

#[tokio::test]
async fn a_failure_that_is_told_to_a_parent_is_read_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = sealed(&folder.path().join("tasks.db")).await;
    let parent =
        store.create(NewTask::new(id("p"), ann(), "build", secret("p"))).await.unwrap().into_record();
    let child = NewTask::new(id("c"), ann(), "test", secret("c"));
    let mut child = NewChild::new("c", Fingerprint::new([8; Fingerprint::LEN]), child);
    child.essential = true;
    store.write(&parent.id, parent.epoch, Batch::new().with_child(child)).await.unwrap();
    let child = store.get(Scope::Operator, &id("c")).await.unwrap().unwrap();
    store.finish(&child.id, child.epoch, Outcome::lost("secret reason"), Batch::new()).await.unwrap();
    let parent = store.get(Scope::Operator, &parent.id).await.unwrap().unwrap();
    let Some(Outcome::Error { message, data: Some(data), .. }) = parent.outcome() else {
        panic!("{parent:?}")
    };
    assert_eq!(&**message, "its task c of test has failed: secret reason");
    assert!(data.as_str().contains("child_failed"));
}

#[tokio::test]
async fn a_key_that_is_wrong_or_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    assert!(!is_sealed(&open(&path)).await.unwrap());
    let made = carry(&sealed(&path).await, "t").await;
    assert!(is_sealed(&open(&path)).await.unwrap());
    let wrong = Sealed::open(open(&path), keys(NEWER)).await.unwrap_err();
    assert!(matches!(&wrong, StoreError::NoKey { what, .. } if what == "the store"), "{wrong}");
    let wrong = Sealed::new(open(&path), keys(NEWER));
    let refusal = wrong.get(Scope::Operator, &made.id).await.unwrap_err();
    assert!(refusal.to_string().starts_with("arguments of task t is sealed with the key "), "{refusal}");
    assert!(wrong.claim(10, None).await.unwrap().is_empty(), "it is left alone");

    // The newest seals, older ones open.
    let both = Sealed::open(open(&path), keys(NEWER).or(keys(KEY))).await.unwrap();
    assert_eq!(both.get(Scope::Operator, &made.id).await.unwrap().unwrap().arguments, secret("argument"));
    let after = carry(&both, "u").await;
    assert!(matches!(Sealed::open(open(&path), keys(KEY)).await, Err(StoreError::NoKey { .. })));
    let newest = Sealed::open(open(&path), keys(NEWER)).await.unwrap();
    assert_eq!(newest.get(Scope::Operator, &after.id).await.unwrap().unwrap().arguments, secret("argument"));
    let listed = newest.list(Scope::Operator, &longhaul_store::Filter::all(), None, 10).await.unwrap();
    assert!(listed.tasks.iter().all(|task| task.id.as_str().starts_with('u')) && listed.tasks.len() == 2);
}

#[tokio::test]
async fn what_was_written_before_is_read_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let plain = open(&path);
    plain.create(NewTask::new(id("t"), ann(), "build", secret("argument"))).await.unwrap();
    let (entry, brief) = (EntryKey::of_server("kind", "name"), EntryKey::of_server("kind", "brief"));
    plain.put(entry, Value::for_ever(b"entry")).await.unwrap();
    plain.put(brief, Value::lasting(b"brief", Duration::from_secs(60))).await.unwrap();
    let store = Sealed::new(open(&path), keys(KEY));
    let refusal = store.get(Scope::Operator, &id("t")).await.unwrap_err();
    assert!(matches!(refusal, StoreError::NotSealed { .. }), "{refusal}");
    assert!(refusal.to_string().contains("read_plain = true"), "{refusal}");
    assert!(store.entry(entry).await.is_err());
    let page = store.list(Scope::Operator, &longhaul_store::Filter::all(), None, 10).await.unwrap();
    assert_eq!((page.tasks.len(), page.unopened), (0, 1));
    drop((plain, store));
    let store = Sealed::open_reading_plain(open(&path), keys(KEY)).await.unwrap();
    let plain = open(&path);
    assert_eq!(store.get(Scope::Operator, &id("t")).await.unwrap().unwrap().arguments, secret("argument"));
    assert_eq!(&*store.entry(entry).await.unwrap().unwrap().value, b"entry");
    let ends = plain.entry(brief).await.unwrap().unwrap().expires_at;
    assert!(ends.is_some_and(|at| at <= plain.now().after(Duration::from_secs(60))), "{ends:?}");

    // By then what nodes share is sealed, and the task alone is left.
    assert!(!plain.entry(entry).await.unwrap().unwrap().value.ends_with(b"entry"));
    assert_eq!(written_before(&plain).await.unwrap().as_deref(), Some("task t"));
    let store = sealed(&path).await;
    assert_eq!(&*store.entry(entry).await.unwrap().unwrap().value, b"entry");
    assert_eq!(&*store.entry(brief).await.unwrap().unwrap().value, b"brief");
    assert!(store.get(Scope::Operator, &id("t")).await.is_err());
}

#[tokio::test]
async fn a_store_that_was_used_without_keys_is_not_sealed_unasked() {
    let folder = tempfile::tempdir().unwrap();
    for (name, what) in [("entry.db", "an entry of kind"), ("task.db", "task t")] {
        let path = folder.path().join(name);
        let plain = open(&path);
        if name == "entry.db" {
            plain.put(EntryKey::of_server("kind", "name"), Value::for_ever(b"entry")).await.unwrap();
        } else {
            plain.create(NewTask::new(id("t"), ann(), "build", secret("argument"))).await.unwrap();
        }
        for key in [KEY, NEWER] {
            let refusal = Sealed::open(open(&path), keys(key)).await.unwrap_err();
            assert!(matches!(&refusal, StoreError::NotSealed { what: found } if found == what), "{refusal}");
            let refusal = Sealed::look(open(&path), keys(key)).await.unwrap_err();
            assert!(matches!(&refusal, StoreError::NotSealed { what } if what == "the store"), "{refusal}");
            assert!(!is_sealed(&plain).await.unwrap(), "it is as it was, and anybody's to seal");
        }
    }
    // Nothing is left of a forgotten one that would have to be read.
    let path = folder.path().join("task.db");
    let plain = open(&path);
    let held = plain.get(Scope::Operator, &id("t")).await.unwrap().unwrap();
    plain.finish(&held.id, held.epoch, Outcome::lost("over"), Batch::new()).await.unwrap();
    plain.erase(Scope::Operator, &held.id).await.unwrap();
    plain.sweep(10).await.unwrap();
    assert_eq!(written_before(&plain).await.unwrap(), None);
    drop(plain);
    sealed(&path).await;
}

#[tokio::test]
async fn a_payload_that_is_changed_or_of_another_task_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tasks.db");
    let store = sealed(&path).await;
    for name in ["t", "u"] {
        store.create(NewTask::new(id(name), ann(), "build", secret(name))).await.unwrap();
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let of = |name: &str| {
        let arguments = "SELECT arguments FROM tasks WHERE id = ?1";
        file.query_row(arguments, [name], |row| row.get::<_, String>(0)).unwrap()
    };
    let (ours, theirs) = (of("t"), of("u"));
    let mut changed = vec![theirs];
    for at in 0..ours.len() {
        let mut bytes = ours.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        changed.push(String::from_utf8(bytes).unwrap());
    }
    for arguments in changed {
        file.execute("UPDATE tasks SET arguments = ?1 WHERE id = 't'", [&arguments]).unwrap();
        let refusal = store.get(Scope::Operator, &id("t")).await;
        let is_found = matches!(
            refusal,
            Err(StoreError::Corrupt { .. } | StoreError::NoKey { .. } | StoreError::NotSealed { .. })
        );
        assert!(is_found, "{arguments}");
    }
}
