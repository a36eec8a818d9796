//! Jobs whose next look is far away: their tasks are put aside until then, and no node has them meanwhile.

use std::fs;

use longhaul_store::{Phase, Record, Scope, SpellOver, Sqlite, TaskId, TaskStore as _};
use serde_json::json;

use super::*;

/// Who looks into a place's store.
struct Eye {
    runtime: tokio::runtime::Runtime,
    store: Sqlite,
}

impl Eye {
    fn new(place: &Place) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, store: Sqlite::open(place.path("tasks.db")).unwrap() }
    }

    fn record(&self, id: &str) -> Record {
        let id = TaskId::new(id).unwrap();
        self.runtime.block_on(self.store.get(Scope::Operator, &id)).unwrap().unwrap()
    }

    /// Waits until the task is put aside.
    fn aside(&self, id: &str) -> Record {
        eventually("a task put aside", || {
            Some(self.record(id)).filter(|record| matches!(record.phase, Phase::Parked { until: Some(_) }))
        })
    }
}

/// The same place, where as many may run as want to, each asked after so often.
fn every(wait: &str, place: Place) -> Place {
    let file = place.path("longhaul.toml");
    let text = fs::read_to_string(&file).unwrap().replace("limit = 4\n", "");
    let text = text.replace("every = \"200ms\"", &format!("every = \"{wait}\""));
    fs::write(file, text.replace("every = \"1h\"", &format!("every = \"{wait}\""))).unwrap();
    place
}

/// Every attempt that is over was put aside: none was lost, and none was charged.
fn lost_nothing(record: &Record) {
    assert!(record.attempt <= 1, "{record:?}");
    let aside =
        record.spells.iter().rev().skip(1).filter(|spell| matches!(spell.over, Some(SpellOver::Aside(_))));
    assert_eq!(aside.count(), record.spells.len() - 1, "{:?}", record.spells);
}

#[test]
fn a_job_is_followed_over_parks_and_kills_and_started_once() {
    let api = api();
    let place = every("10s", place(&api, ""));
    let mut server = start(&place);
    let eye = Eye::new(&place);
    let id = begin_film(&server, &api);
    for look in 1..3 {
        let aside = eye.aside(&id);
        lost_nothing(&aside);
        let requests = api.state().requests;
        assert_eq!(requests, 1 + look, "the start, and a look each time");
        server.kill();
        assert_eq!(eye.record(&id), aside, "a node that is gone had nothing of it");
        server = start(&place);
        let told = task(server.address(), &id);
        assert_eq!((&told["status"], &told["statusMessage"]), (&json!("working"), &json!("frame 0 of 3")));
        eventually("the next look", || (api.state().requests > requests).then_some(()));
    }
    eye.aside(&id);
    end(&api, "succeeded");
    is_film(&ended(server.address(), &id));
    lost_nothing(&eye.record(&id));
    assert_eq!(counts(&api), (1, 0));
    server.kill();
}

#[test]
fn another_node_goes_on_with_what_was_put_aside_and_waits_for_no_lease() {
    let api = api();
    let place = every("12s", place(&api, ""));
    let mut first = start(&place);
    let mut second = start(&place);
    let eye = Eye::new(&place);
    let id = begin_film(&first, &api);
    let before = eye.aside(&id);
    first.kill();
    end(&api, "succeeded");
    is_film(&ended(second.address(), &id));
    let record = eye.record(&id);
    lost_nothing(&record);
    let [.., last] = &*record.spells else { panic!("{record:?}") };
    let Phase::Parked { until: Some(until) } = before.phase else { unreachable!() };
    assert!(last.from >= until && last.node != before.spells[0].node, "{record:?}");
    second.kill();
}

#[test]
fn an_api_that_calls_back_is_heard_whether_the_task_is_put_aside_or_not() {
    let api = api();
    let place = every("1h", place_with_callback(&api, "ignored"));
    let mut first = start(&place);
    let mut other = start(&place);
    let eye = Eye::new(&place);
    let id = begin_film(&first, &api);
    eye.aside(&id);
    first.kill();
    // It calls before it knows itself, and is asked again and again then.
    assert_eq!(call_back(&other, "POST", &callback(&api), b""), (204, String::new()));
    eventually("a second look", || (api.state().requests > 3).then_some(()));
    end(&api, "succeeded");
    is_film(&ended(other.address(), &id));
    lost_nothing(&eye.record(&id));
    other.kill();
}

#[test]
fn what_an_api_says_as_it_calls_ends_a_task_that_was_put_aside() {
    let api = api();
    let place = every("1h", place_with_callback(&api, "status"));
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    Eye::new(&place).aside(&id);
    api.state().is_down = true;
    let status = br#"{"state": "failed", "message": "the scene has no light"}"#;
    assert_eq!(call_back(&server, "POST", &callback(&api), status).0, 204);
    let failed = ended(server.address(), &id);
    assert!(
        text(&failed["result"]).starts_with("render failed (failed): the scene has no light"),
        "{failed}"
    );
    server.kill();
}

#[test]
fn a_cancel_of_what_was_put_aside_reaches_an_api_that_is_down_and_a_server_that_is_killed() {
    let api = api();
    let place = every("1h", place(&api, ""));
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    Eye::new(&place).aside(&id);
    api.state().is_down = true;
    assert_eq!(cancel(server.address(), &id)["status"], "cancelled", "at once, whatever the API says");
    server.kill();
    let mut server = start(&place);
    assert_eq!(api.state().jobs[0].state, "running");
    api.state().is_down = false;
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));
    server.kill();
}

/// What went wrong before is known to whoever looks next.
#[test]
fn a_job_that_the_api_forgets_is_given_up_though_its_task_is_put_aside_each_time() {
    let api = api();
    let place = every("10s", place(&api, "gone_after = \"1s\""));
    let mut server = start(&place);
    let eye = Eye::new(&place);
    let id = begin_film(&server, &api);
    api.state().jobs.clear();
    eye.aside(&id);
    server.kill();
    let mut server = start(&place);
    let task = ended(server.address(), &id);
    assert!(text(&task["result"]).contains("no longer knows the job job-1"), "{task}");
    assert!(eye.record(&id).spells.len() >= 2, "it was put aside meanwhile");
    server.kill();
}

#[test]
fn the_timeout_of_a_job_is_kept_though_its_task_is_put_aside() {
    let api = api();
    let place = every("1h", place(&api, ""));
    let file = place.path("longhaul.toml");
    let configured = fs::read_to_string(&file).unwrap().replace("timeout = \"1h\"", "timeout = \"8s\"");
    fs::write(file, configured).unwrap();
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    Eye::new(&place).aside(&id);
    let task = ended(server.address(), &id);
    assert!(text(&task["result"]).contains("longer than its timeout of 8s"), "{task}");
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));
    server.kill();
}
