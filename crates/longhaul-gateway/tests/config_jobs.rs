//! From the arguments of a call to the request that starts its job: each value is one part of it, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test, and what it is built of, fails by panicking")]

use std::{ffi::OsString, io, path::Path};

use longhaul_gateway::config::{BoundRequest, HttpJob, Sources, check};

const JOB: &str = r#"
    [jobs.render]
    description = "Render a scene"
    input.queue = { default = "night" }
    input.scene = {}
    input.frames = { type = "integer", required = false }
    input.tags = { type = "array", required = false }
    input.note = { required = false }
    headers.Authorization = { from = "env:TOKEN", prefix = "Bearer " }
    headers.X-Team = "film"
    id = "/id"
    [jobs.render.start]
    url = "https://renderer.example/queues/{queue}/jobs?for={scene}"
    headers.X-Note = "says: {note}"
    headers.X-Team = "{queue}"
    body = { scene = "{scene}", frames = "{frames}", tags = "{tags}", title = "Film of {scene}", deep = [{ n = 1, t = true, of = "{frames}" }] }
    [jobs.render.status]
    url = "https://renderer.example/jobs/{job}"
    state = "/state"
    done = "ok"
    [jobs.render.cancel]
    url = "https://renderer.example/jobs/{job}/cancel"
    body = { id = "{job}" }
"#;

fn job() -> HttpJob {
    let checked = check("/longhaul.toml", JOB).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    checked.config.jobs.into_iter().next().unwrap()
}

fn start(arguments: &str) -> BoundRequest {
    job().bind(arguments).unwrap_or_else(|errors| panic!("{errors}")).start
}

/// A machine with one variable.
struct With(&'static str);

impl Sources for With {
    fn variable(&self, name: &str) -> Option<OsString> {
        (name == "TOKEN").then(|| self.0.into())
    }

    fn variables(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn file(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn header(request: &BoundRequest, name: &str, token: &'static str) -> Option<String> {
    let mut headers = request.headers.iter().filter(|header| header.name() == name);
    let header = headers.next()?;
    assert!(headers.next().is_none(), "{name} is sent once");
    header.value(&With(token)).ok().map(|value| value.to_str().unwrap().to_owned())
}

#[test]
fn every_value_is_one_part_of_its_request() {
    let request = start(r#"{"queue": "a/../b?c", "scene": "x\"},{&=é", "frames": 7, "tags": ["a", "\"b"]}"#);
    assert_eq!(request.method, "POST");
    assert_eq!(
        request.url.as_str(),
        "https://renderer.example/queues/a%2F..%2Fb%3Fc/jobs?for=x%22%7D%2C%7B%26%3D%C3%A9"
    );
    let body: serde_json::Value = serde_json::from_str(request.body.as_deref().unwrap()).unwrap();
    let expected = serde_json::json!({
        "scene": "x\"},{&=é",
        "frames": 7,
        "tags": ["a", "\"b"],
        "title": "Film of x\"},{&=é",
        "deep": [{"n": 1, "t": true, "of": 7}],
    });
    assert_eq!(body, expected);
}

#[test]
fn what_is_left_out_takes_its_place_with_it() {
    let request = start(r#"{"scene": "x"}"#);
    assert_eq!(request.url.as_str(), "https://renderer.example/queues/night/jobs?for=x");
    assert_eq!(
        request.body.as_deref(),
        Some(r#"{"deep":[{"n":1,"t":true}],"scene":"x","title":"Film of x"}"#)
    );
    assert_eq!(header(&request, "x-note", ""), None);
}

#[test]
fn a_header_is_one_line_and_its_secret_is_read_when_it_is_sent() {
    let request = start(r#"{"scene": "x", "note": "hello"}"#);
    assert_eq!(header(&request, "x-note", "").as_deref(), Some("says: hello"));
    assert_eq!(header(&request, "x-team", "").as_deref(), Some("night"), "the request's own comes first");
    assert_eq!(header(&request, "authorization", "s3cret").as_deref(), Some("Bearer s3cret"));
    assert_eq!(header(&request, "authorization", "two\nlines"), None);
    assert!(!format!("{request:?} {:?}", job()).contains("film"), "texts may be secrets");
    for note in [r"a\r\nX-Evil: 1", r"a\n", r"\u0007"] {
        let errors = job().bind(&format!(r#"{{"scene": "x", "note": "{note}"}}"#)).unwrap_err().to_string();
        assert!(errors.contains("`note` cannot stand in a header"), "{errors}");
    }
}

#[test]
fn what_an_api_says_chooses_no_host() {
    let job = job();
    let url = |id: &str| job.status_request(id, None).unwrap().url.to_string();
    assert_eq!(url("a/../../admin?x"), "https://renderer.example/jobs/a%2F..%2F..%2Fadmin%3Fx");
    for id in ["", ".", ".."] {
        assert!(job.status_request(id, None).is_err(), "{id:?}");
        assert!(job.cancel_request(id).is_err(), "{id:?}");
    }
    assert_eq!(job.near_start("/jobs/7").unwrap().as_str(), "https://renderer.example/jobs/7");
    for elsewhere in [
        "https://evil.example/jobs/7",
        "//evil.example/jobs/7",
        "http://renderer.example/jobs/7",
        "https://renderer.example:444/jobs/7",
        "https://renderer.example@evil.example/jobs/7",
        "file:///etc/passwd",
    ] {
        assert!(job.near_start(elsewhere).is_err(), "{elsewhere}");
    }
    assert_eq!(job.cancel_request("7").unwrap().unwrap().body.as_deref(), Some(r#"{"id":"7"}"#));
}

#[test]
fn a_job_is_never_without_a_task() {
    let with = |mode: &str| {
        check("/longhaul.toml", &JOB.replace("id = \"/id\"", &format!("id = \"/id\"\ntask = \"{mode}\"")))
    };
    for mode in ["always", "required", "after 10s"] {
        assert!(with(mode).is_ok(), "{mode}");
    }
    let shown = with("never").unwrap_err().to_string();
    assert!(shown.contains("`task = \"never\"` is not for job `render`"), "{shown}");
    assert!(shown.contains("write \"after 10s\""), "{shown}");
}
