//! APIs of jobs on their bad days, and servers that are killed at theirs: one job a call, and its end is told.
//!
//! The configuration is the one of `examples/http-job`, but for where its renderer is.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::rig::eventually;
use crate::rig::http::{request, send};
use crate::rig::modern::{begin, call, cancel, ended, task, text};
use crate::rig::place::Place;
use crate::rig::server::Server;

#[path = "../../../../examples/http-job/api.rs"]
mod api;
mod aside;

use api::Api;

const CONFIGURATION: &str = include_str!("../../../../examples/http-job/longhaul.toml");
const TOKEN: (&str, &str) = ("RENDERER_TOKEN", "sesame");

fn api() -> Api {
    let api = Api::serve(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    api.state().token = Some(TOKEN.1.to_owned());
    api
}

/// A place with the renderer's tool; `more` stands among the keys of the job.
fn place(api: &Api, more: &str) -> Place {
    let configuration = CONFIGURATION.replace("127.0.0.1:8430", &api.address().to_string());
    let configuration = configuration.replace("[server]\nname = \"renderer\"\n", "");
    let configuration = configuration.replace("every = \"1s\"", "every = \"200ms\"");
    Place::new(&configuration.replace("limit = 4\n", &format!("limit = 4\ntask = \"always\"\n{more}\n")))
}

fn start(place: &Place) -> Server {
    Server::start_with(place, &[], &[TOKEN])
}

/// Starts a film and waits until the renderer has it.
fn begin_film(server: &Server, api: &Api) -> String {
    let task = begin(server.address(), "render", json!({"scene": "harbour", "frames": 3}));
    eventually("the job", || (api.state().jobs.len() == 1).then_some(()));
    task
}

fn end(api: &Api, state: &str) {
    let mut api = api.state();
    let job = api.job("job-1").unwrap();
    (job.state, job.frame) = (state.to_owned(), 3);
}

/// How many starts and cancels have come.
fn counts(api: &Api) -> (usize, usize) {
    let state = api.state();
    (state.starts, state.cancels)
}

fn says(server: &Server, id: &str, what: &str) {
    eventually(what, || {
        let message = task(server.address(), id)["statusMessage"].as_str().unwrap_or_default().to_owned();
        message.contains(what).then_some(())
    });
}

fn is_film(task: &Value) {
    assert_eq!(task["status"], "completed", "{task}");
    let result = &task["result"];
    assert_eq!(result["structuredContent"], json!({"film": "job-1.mp4", "frames": 3}), "{task}");
    assert_eq!(result["_meta"]["dev.longhaul/job"]["jobId"], "job-1", "{task}");
}

#[test]
fn a_job_is_started_followed_and_its_result_told() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    assert_eq!(api.state().jobs[0].order, json!({"scene": "harbour", "frames": 3}), "a number is a number");
    assert_eq!(api.state().jobs[0].key.as_deref(), Some(id.as_str()));
    api.state().job("job-1").unwrap().frame = 2;
    says(&server, &id, "frame 2 of 3");
    end(&api, "succeeded");
    is_film(&ended(server.address(), &id));
    assert_eq!(counts(&api), (1, 0));
    server.kill();
}

/// K22.
#[test]
fn a_server_killed_between_a_start_and_its_record_has_one_job() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    api.state().holds_starts = true;
    let id = begin_film(&server, &api);
    server.kill();
    api.state().holds_starts = false;
    let mut server = start(&place);
    eventually("the start again", || (api.state().starts == 2).then_some(()));
    end(&api, "succeeded");
    is_film(&ended(server.address(), &id));
    assert_eq!(api.state().jobs.len(), 1, "one job under one key");
    server.kill();
}

#[test]
fn a_start_that_an_earlier_process_sent_may_have_begun() {
    let api = api();
    let place = place(&api, "start_within = \"1s\"");
    let mut server = start(&place);
    api.state().holds_starts = true;
    let id = begin_film(&server, &api);
    server.kill();
    {
        let mut state = api.state();
        (state.holds_starts, state.is_down) = (false, true);
    }
    let mut server = start(&place);
    let task = ended(server.address(), &id);
    assert_eq!(task["error"]["data"]["reason"], "worker_lost", "{task}");
    assert!(task["error"]["message"].as_str().unwrap().contains("503"), "{task}");
    server.kill();
}

#[test]
fn a_start_that_must_not_be_sent_twice_is_in_doubt_after_a_crash() {
    let api = api();
    let place = place(&api, "idempotent = false");
    let mut server = start(&place);
    api.state().holds_starts = true;
    let id = begin_film(&server, &api);
    assert_eq!(api.state().jobs[0].key, None, "there is no key to know it by");
    server.kill();
    api.state().holds_starts = false;
    let mut server = start(&place);
    let task = ended(server.address(), &id);
    assert_eq!(
        (&task["status"], &task["error"]["data"]["reason"]),
        (&json!("failed"), &json!("worker_lost")),
        "{task}"
    );
    assert!(task["error"]["message"].as_str().unwrap().contains("may have been started"), "{task}");
    assert_eq!(api.state().starts, 1);
    server.kill();
}

#[test]
fn a_job_that_is_called_by_no_text_cannot_be_followed_and_says_where_its_name_was_looked_for() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    api.state().names = Some(json!({"uuid": "job-1"}));
    let id = begin_film(&server, &api);
    let task = ended(server.address(), &id);
    assert_eq!(task["error"]["data"]["reason"], "worker_lost", "{task}");
    let message = task["error"]["message"].as_str().unwrap();
    assert!(message.contains("an object") && message.contains("`/id`"), "{message}");
    server.kill();
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again_under_its_key() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    api.state().loses = 1;
    let id = begin_film(&server, &api);
    eventually("the start again", || (api.state().starts == 2).then_some(()));
    end(&api, "succeeded");
    is_film(&ended(server.address(), &id));
    assert_eq!(api.state().jobs.len(), 1);
    server.kill();
}

#[test]
fn a_start_that_a_proxy_answers_may_have_begun() {
    let api = api();
    let place = place(&api, "start_within = \"1s\"");
    let mut server = start(&place);
    api.state().hides_starts = true;
    let id = begin_film(&server, &api);
    let task = ended(server.address(), &id);
    assert_eq!(task["error"]["data"]["reason"], "worker_lost", "{task}");
    assert!(task["error"]["message"].as_str().unwrap().contains("502"), "{task}");
    server.kill();
}

#[test]
fn a_job_goes_on_while_its_server_is_killed_again_and_again() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    says(&server, &id, "frame 0 of 3");
    for _ in 0..6 {
        server.kill();
        server = start(&place);
        assert_eq!(task(server.address(), &id)["status"], "working");
    }
    server.kill();
    end(&api, "succeeded");
    let mut server = start(&place);
    is_film(&ended(server.address(), &id));
    assert_eq!(counts(&api), (1, 0));
    server.kill();
}

#[test]
fn a_job_that_fails_says_why_and_one_that_is_refused_too() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    end(&api, "failed");
    let failed = ended(server.address(), &id);
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    assert!(
        text(&failed["result"]).starts_with("render failed (failed): the scene has no light"),
        "{failed}"
    );

    let id = begin(server.address(), "render", json!({"scene": "missing"}));
    let refused = ended(server.address(), &id);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(text(&refused["result"]).contains("422") && text(&refused["result"]).contains("no such scene"));
    let wrong = call(server.address(), "render", json!({"scene": "harbour", "frames": "many"}));
    assert!(wrong.to_string().contains("`frames` must be an integer"), "{wrong}");
    assert_eq!(api.state().cancels, 0, "there was nothing to cancel");
    server.kill();
}

#[test]
fn an_api_that_is_down_is_waited_for() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    api.state().is_down = true;
    says(&server, &id, "the API does not answer: the API answered 503");
    end(&api, "succeeded");
    assert_eq!(task(server.address(), &id)["status"], "working", "nobody knows better");
    api.state().is_down = false;
    is_film(&ended(server.address(), &id));
    server.kill();
}

#[test]
fn a_job_that_the_api_forgets_ends_its_task() {
    let api = api();
    let place = place(&api, "gone_after = \"1s\"");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    api.state().jobs.clear();
    let task = ended(server.address(), &id);
    assert_eq!(task["result"]["isError"], true, "{task}");
    assert!(text(&task["result"]).contains("no longer knows the job job-1"), "{task}");
    server.kill();
}

#[test]
fn a_job_whose_status_cannot_be_read_is_given_up_and_cancelled() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    api.state().garbles = true;
    let task = ended(server.address(), &id);
    assert_eq!(task["result"]["isError"], true, "{task}");
    assert!(text(&task["result"]).contains("the answer is not JSON"), "{task}");
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));
    server.kill();
}

#[test]
fn a_result_that_is_to_be_json_and_is_none_is_no_success() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    api.state().garbles_results = true;
    end(&api, "succeeded");
    let task = ended(server.address(), &id);
    assert_eq!(task["result"]["isError"], true, "{task}");
    assert_eq!(task["result"]["structuredContent"], Value::Null, "{task}");
    let said = "render is done, and its result cannot be read: the answer is not JSON";
    assert!(text(&task["result"]).starts_with(said), "{task}");
    assert_eq!(api.state().cancels, 0, "it has ended");
    server.kill();
}

/// rmcp's CVE-2026-64684 and its kin: what an API says must not choose where our credentials go.
#[test]
fn s40_a_redirect_is_not_followed() {
    let (api, elsewhere) = (api(), api());
    let place = place(&api, "");
    let mut server = start(&place);
    api.state().redirects = Some(elsewhere.address());
    let id = begin_film(&server, &api);
    let task = ended(server.address(), &id);
    let there = format!("302 Found: it redirects to http://{}/jobs/job-1", elsewhere.address());
    assert!(text(&task["result"]).contains(&there), "{task}");
    assert_eq!(elsewhere.state().requests, 0);
    server.kill();
}

#[test]
fn a_job_that_outlives_its_timeout_is_cancelled() {
    let api = api();
    let place = place(&api, "");
    let text_of = std::fs::read_to_string(place.path("longhaul.toml")).unwrap();
    std::fs::write(place.path("longhaul.toml"), text_of.replace("timeout = \"1h\"", "timeout = \"2s\""))
        .unwrap();
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    let task = ended(server.address(), &id);
    assert!(text(&task["result"]).contains("longer than its timeout of 2s"), "{task}");
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));
    server.kill();
}

#[test]
fn a_cancel_reaches_an_api_that_is_down_and_a_server_that_is_killed() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    says(&server, &id, "frame 0 of 3");
    api.state().is_down = true;
    assert_eq!(cancel(server.address(), &id)["status"], "cancelled", "at once, whatever the API says");
    server.kill();
    let server = start(&place);
    assert_eq!(api.state().jobs[0].state, "running");
    api.state().is_down = false;
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));
    assert_eq!(task(server.address(), &id)["status"], "cancelled");
    drop(server);
}

/// A cancel that is refused says nothing of whether there is anything to cancel.
#[test]
fn a_cancel_that_is_refused_is_sent_again_until_the_job_has_ended() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    api.state().keeps_jobs = true;
    assert_eq!(cancel(server.address(), &id)["status"], "cancelled");
    let said = "the API refuses the cancel with a 409, and says that the job is `running`";
    eventually("a word of it", || server.said().contains(said).then_some(()));
    api.state().keeps_jobs = false;
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));

    // One that has ended by itself is let go.
    let id = begin(server.address(), "render", json!({"scene": "moor", "frames": 2}));
    eventually("the job", || (api.state().jobs.len() == 2).then_some(()));
    api.state().keeps_jobs = true;
    assert_eq!(cancel(server.address(), &id)["status"], "cancelled");
    // Not as soon as it was sent: how the job stands is asked for after that.
    eventually("a word of this one", || (server.said().matches("with a 409").count() == 2).then_some(()));
    let last = {
        let mut state = api.state();
        state.job("job-2").unwrap().state = "succeeded".to_owned();
        state.cancels + 1
    };
    eventually("another", || (api.state().cancels == last).then_some(()));
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(api.state().cancels, last, "there is nothing to cancel any more");
    server.kill();
}

#[test]
fn a_cancel_while_the_start_is_on_its_way_ends_the_job_that_comes_of_it() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    api.state().holds_starts = true;
    let id = begin_film(&server, &api);
    assert_eq!(cancel(server.address(), &id)["status"], "cancelled");
    assert_eq!(api.state().cancels, 0, "nobody knows yet what to cancel");
    api.state().holds_starts = false;
    eventually("the cancel", || (api.state().jobs[0].state == "cancelled").then_some(()));
    server.kill();
}

#[test]
fn jobs_come_change_and_go_while_they_are_served_and_what_they_have_begun_is_followed() {
    let api = api();
    let place = place(&api, "");
    let mut server = start(&place);
    let file = place.path("longhaul.toml");
    let reload = |text: &str, said: &str| {
        std::fs::write(&file, text).unwrap();
        let said = format!("longhaul.toml was read again: {said}");
        eventually(&said, || server.said().contains(&said).then_some(()));
    };
    let begun = |tool: &str| {
        let known = api.state().jobs.len();
        let id = begin(server.address(), tool, json!({"scene": "harbour", "frames": 3}));
        eventually("the job", || (api.state().jobs.len() == known + 1).then_some(()));
        id
    };
    let follows = |id: &str, frame: u64| {
        api.state().job("job-1").unwrap().frame = frame;
        says(&server, id, &format!("frame {frame} of 3"));
    };
    let before = begun("render");

    let first = std::fs::read_to_string(&file).unwrap();
    let changed = first.replace("body = { scene", "body = { quality = \"high\", scene");
    reload(&changed, "job changed: render");
    let after = begun("render");
    let quality = |job: usize| api.state().jobs[job].order["quality"].clone();
    assert_eq!((quality(0), quality(1)), (Value::Null, json!("high")));
    follows(&before, 1);

    let (rest, render) = changed.split_at(changed.find("[jobs.render]").unwrap());
    let film = render.replace("[jobs.render", "[jobs.film");
    reload(&format!("{changed}\n{film}"), "job added: film");
    let added = begun("film");

    reload(&format!("{rest}{film}"), "job removed: render");
    let refused = call(server.address(), "render", json!({"scene": "moor", "frames": 2}));
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("render")), "{refused}");
    follows(&before, 2);
    assert_eq!(cancel(server.address(), &after)["status"], "cancelled");
    eventually("the cancel", || (api.state().jobs[1].state == "cancelled").then_some(()));
    end(&api, "succeeded");
    is_film(&ended(server.address(), &before));
    api.state().job("job-3").unwrap().state = "succeeded".to_owned();
    assert_eq!(ended(server.address(), &added)["status"], "completed");
    assert_eq!(api.state().jobs.len(), 3, "one job a call");
    server.kill();
}

/// A place whose renderer is told where it can call back, and is asked by itself only once an hour. `body` is what of a
/// call is believed.
fn place_with_callback(api: &Api, body: &str) -> Place {
    let place = place(api, &format!("callback = {{ url = \"http://127.0.0.1:1\", body = \"{body}\" }}"));
    let file = place.path("longhaul.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("every = \"200ms\"", "every = \"1h\"");
    let order = "body = { scene = \"{scene}\", frames = \"{frames}\"";
    std::fs::write(file, text.replace(order, &format!("{order}, callback = \"{{callback}}\""))).unwrap();
    place
}

/// The path that the renderer was told to call back at.
fn callback(api: &Api) -> String {
    let state = api.state();
    let address = state.jobs.last().unwrap().order["callback"].as_str().unwrap();
    address.strip_prefix("http://127.0.0.1:1").unwrap().to_owned()
}

fn call_back(server: &Server, verb: &str, path: &str, body: &[u8]) -> (u16, String) {
    let answer = send(server.address(), &request(verb, path, &[("connection", "close")], body));
    (answer.status, answer.text())
}

#[test]
fn an_api_that_calls_back_is_asked_at_once_whichever_node_it_calls() {
    let api = api();
    let place = place_with_callback(&api, "ignored");
    let mut server = start(&place);
    let mut other = start(&place);
    let id = begin_film(&server, &api);
    let path = callback(&api);
    eventually("the first look", || (api.state().requests >= 2).then_some(()));
    end(&api, "succeeded");
    let (_, unknown) = call_back(&other, "POST", "/callbacks/none", b"");
    let cut = &path[..path.len() - 1];
    for wrong in ["/callbacks/", cut, &format!("{path}A"), &format!("{path}/")] {
        assert_eq!(call_back(&other, "POST", wrong, b""), (404, unknown.clone()), "{wrong}");
    }
    assert_eq!(call_back(&other, "GET", &path, b"").0, 405);
    assert_eq!(call_back(&other, "POST", &path, &[b' '; 40 << 10]).0, 413, "and it is not used up");
    assert_eq!(task(server.address(), &id)["status"], "working");
    let lie = br#"{"state": "failed"}"#;
    assert_eq!(call_back(&other, "POST", &path, lie), (204, String::new()));
    is_film(&ended(server.address(), &id));
    assert_eq!(call_back(&server, "POST", &path, b""), (404, unknown.clone()), "it has ended");

    // Of a call that is over nobody can tell that it ever was.
    let id = begin(server.address(), "render", json!({"scene": "moor", "frames": 2}));
    eventually("the job", || (api.state().jobs.len() == 2).then_some(()));
    let path = callback(&api);
    assert_eq!(cancel(server.address(), &id)["status"], "cancelled");
    assert_eq!(call_back(&server, "POST", &path, b""), (404, unknown));
    server.kill();
    other.kill();
}

#[test]
fn what_an_api_says_as_it_calls_back_is_believed_where_that_is_configured() {
    let api = api();
    let place = place_with_callback(&api, "status");
    let mut server = start(&place);
    api.state().holds_starts = true;
    let id = begin_film(&server, &api);
    let path = callback(&api);
    // A server that dies between a start and its record starts with the same words, to the letter.
    server.kill();
    api.state().holds_starts = false;
    let mut server = start(&place);
    eventually("the start again", || (api.state().starts == 2).then_some(()));
    api.state().is_down = true;
    let status = br#"{"state": "failed", "message": "the scene has no light"}"#;
    assert_eq!(call_back(&server, "POST", &path, status).0, 204);
    let failed = ended(server.address(), &id);
    let words = text(&failed["result"]);
    assert!(words.starts_with("render failed (failed): the scene has no light"), "{failed}");
    server.kill();
}

/// Some say how far they are, or call for each part of their work: only what ends the job is the last that is heard.
#[test]
fn an_api_may_call_back_as_often_as_it_likes_until_its_job_has_ended() {
    let api = api();
    let place = place_with_callback(&api, "status");
    let mut server = start(&place);
    let id = begin_film(&server, &api);
    let path = callback(&api);
    for frame in 1..=3 {
        api.state().job("job-1").unwrap().frame = frame;
        let message = format!("frame {frame} of 3");
        let status = json!({"state": "running", "frame": frame, "frames": 3, "message": message});
        assert_eq!(call_back(&server, "POST", &path, status.to_string().as_bytes()).0, 204, "{message}");
        says(&server, &id, &message);
    }
    end(&api, "succeeded");
    assert_eq!(call_back(&server, "POST", &path, br#"{"state": "succeeded"}"#).0, 204);
    is_film(&ended(server.address(), &id));
    assert_eq!(call_back(&server, "POST", &path, br#"{"state": "succeeded"}"#).0, 404);
    server.kill();
}
