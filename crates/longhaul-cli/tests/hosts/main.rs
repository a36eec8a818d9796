//! Hosts that cannot be installed here, as they are known to go, on a long command of the real program: over the transport
//! that each uses, with its clock, and with what it does when that runs out. In the end each has the right result, and the
//! command has run once.
//!
//! Clocks are scaled, so that nobody waits for minutes, and run: every clock that a host is known to have becomes
//! [`CLOCK`], and `hold` a fifth of it, where the default is fifty seconds of the shortest clock's sixty. That leaves a busy
//! machine twelve seconds.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod host;
mod place;
mod wire;

use std::time::Duration;

use longhaul::server::TaskPolicy;
use serde_json::{Value, json};

use self::host::{GivesUp, Habits, Host, handed_over, text};
use self::place::Place;

/// What the clock of every host is scaled to.
const CLOCK: Duration = Duration::from_secs(15);

/// For how long a call is held that may take [`CLOCK`].
const HOLD: &str = "3s";

/// Codex: 60 s a call (`tool_timeout_sec`), whatever is heard of it. It sends a token and shows no progress, takes no tasks and
/// lists nothing but tools. What takes too long it cancels.
const CODEX: Habits = Habits {
    revision: "2025-06-18",
    client: (
        r#"{"name": "codex-mcp-client", "title": "Codex", "version": "0.147.0"}"#,
        r#"{"elicitation": {}}"#,
    ),
    lists: &["tools/list"],
    sends_token: true,
    clock: Some(Duration::from_secs(60)),
    progress_resets: false,
    gives_up: GivesUp::Cancels("request timeout"),
};

/// Claude Desktop: four minutes, which nothing moves. It asks for everything there may be, declared or not.
const CLAUDE_DESKTOP: Habits = Habits {
    revision: "2025-06-18",
    client: (r#"{"name": "claude-ai", "version": "0.1.0"}"#, "{}"),
    lists: &["tools/list", "resources/list", "prompts/list"],
    sends_token: false,
    clock: Some(Duration::from_secs(240)),
    progress_resets: false,
    gives_up: GivesUp::Cancels("McpError: MCP error -32001: Request timed out"),
};

/// Cursor: it sends a token and lists tools, prompts and resources. Its clock is not known: the one that SDKs have by default
/// is taken for it, and silence for what it does then.
const CURSOR: Habits = Habits {
    revision: "2025-06-18",
    client: (
        r#"{"name": "cursor-vscode", "version": "1.0.0"}"#,
        r#"{"roots": {"listChanged": false}, "elicitation": {}}"#,
    ),
    lists: &["tools/list", "prompts/list", "resources/list"],
    sends_token: true,
    clock: Some(Duration::from_secs(60)),
    progress_resets: false,
    gives_up: GivesUp::HangsUp,
};

/// Claude Code where it takes no tasks: a server that it starts itself, up to 2.1.289, or with tasks switched off. Its
/// watchdog looks for silence, of thirty minutes on a pipe and of five over HTTP; the clock of a call as such is a day.
const CLAUDE_CODE_WITHOUT_TASKS: Habits = Habits {
    revision: "2025-11-25",
    client: (
        r#"{"name": "claude-code", "version": "2.1.289"}"#,
        r#"{"roots": {}, "elicitation": {"form": {}, "url": {}}}"#,
    ),
    lists: &["tools/list", "prompts/list", "resources/list"],
    sends_token: true,
    clock: Some(Duration::from_secs(300)),
    progress_resets: true,
    gives_up: GivesUp::Cancels("AbortError: The operation was aborted"),
};

/// The same over HTTP, where requests are known to be cut after 352 s, whatever is heard of them and with every clock of its own off.
const CLAUDE_CODE_CUT: Habits = Habits {
    clock: Some(Duration::from_secs(352)),
    progress_resets: false,
    gives_up: GivesUp::HangsUp,
    ..CLAUDE_CODE_WITHOUT_TASKS
};

/// VS Code: no clock at all, and tasks of 2025-11-25.
const VS_CODE: Habits = Habits {
    revision: "2025-11-25",
    client: (
        r#"{"name": "Visual Studio Code", "version": "1.108.0"}"#,
        r#"{"roots": {"listChanged": true}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}},
            "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}}}"#,
    ),
    lists: &["tools/list", "prompts/list"],
    sends_token: true,
    clock: None,
    progress_resets: false,
    gives_up: GivesUp::HangsUp,
};

/// Claude Code as it is: tasks of the extension, which it declares in every request.
const CLAUDE_CODE: Habits = Habits {
    revision: "2026-07-28",
    client: (
        r#"{"name": "claude-code", "version": "2.1.319"}"#,
        r#"{"roots": {}, "elicitation": {"form": {}, "url": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}"#,
    ),
    lists: &["server/discover", "tools/list"],
    sends_token: true,
    clock: None,
    progress_resets: true,
    gives_up: GivesUp::HangsUp,
};

/// A long call of a host without tasks: held, handed over, waited for twice, and done.
fn is_held_and_handed_over(place: &Place, mut host: Host) {
    let (held, real) = (TaskPolicy::default().hold.unwrap(), host.habits.clock.unwrap());
    assert!(held < real, "a call is held for {held:?} by default, and given up after {real:?}");
    host.begin();
    let tools = host.tools();
    assert!(tools.contains(&"task_wait".to_owned()), "a model that is handed over cannot go on: {tools:?}");

    let first = host.call("build", json!({})).expect("it is handed over before the host gives it up");
    let id = handed_over(&first).expect("it goes on");
    assert!(text(&first).contains("Do not start it again"), "{first}");
    // The model does as it was told.
    let waited = host.call("task_wait", json!({ "id": id, "up_to": 3 })).expect("it is told in time");
    assert_eq!(handed_over(&waited), Some(id.clone()), "it goes on: {waited}");
    place.open();
    let ended = host.until_over(&id);
    assert_eq!((text(&ended), ended["isError"].as_bool().unwrap_or(false)), ("built", false), "{ended}");
    assert_eq!(place.begun(), 1);
}

#[test]
fn codex_is_handed_over_within_its_minute() {
    let place = Place::new(HOLD);
    is_held_and_handed_over(&place, Host::over_stdio(&place, CODEX, CLOCK));
}

#[test]
fn claude_desktop_is_handed_over_within_its_four_minutes() {
    let place = Place::new(HOLD);
    is_held_and_handed_over(&place, Host::over_stdio(&place, CLAUDE_DESKTOP, CLOCK));
}

#[test]
fn cursor_is_handed_over_within_what_sdks_allow() {
    let place = Place::new(HOLD);
    let server = place.serve();
    is_held_and_handed_over(&place, Host::over_http(&server, CURSOR, CLOCK));
}

#[test]
fn claude_code_without_tasks_is_handed_over() {
    let place = Place::new(HOLD);
    is_held_and_handed_over(&place, Host::over_stdio(&place, CLAUDE_CODE_WITHOUT_TASKS, CLOCK));
}

#[test]
fn claude_code_without_tasks_is_handed_over_over_http_within_its_five_minutes_and_before_it_is_cut() {
    for habits in [CLAUDE_CODE_WITHOUT_TASKS, CLAUDE_CODE_CUT] {
        let place = Place::new(HOLD);
        let server = place.serve();
        is_held_and_handed_over(&place, Host::over_http(&server, habits, CLOCK));
    }
}

/// Its watchdog counts silence alone: as long as a command says how far it is, its call may be held for longer.
#[test]
fn claude_code_without_tasks_waits_for_what_is_not_silent() {
    let place = Place::new("1h");
    waits_for_what_is_not_silent(&place, |idle| Host::over_stdio(&place, CLAUDE_CODE_WITHOUT_TASKS, idle));
}

#[test]
fn claude_code_without_tasks_waits_over_http_for_what_is_not_silent() {
    let place = Place::new("1h");
    let server = place.serve();
    waits_for_what_is_not_silent(&place, |idle| Host::over_http(&server, CLAUDE_CODE_WITHOUT_TASKS, idle));
}

fn waits_for_what_is_not_silent(place: &Place, host: impl FnOnce(Duration) -> Host) {
    let idle = Duration::from_secs(4);
    let mut host = host(idle);
    host.begin();
    host.opens_after(idle + Duration::from_secs(1), place);
    let answer = host.call("build", json!({})).expect("it was never silent for long");
    assert_eq!(text(&answer), "built");
    assert!(host.progress.len() > 2, "{:?}", host.progress);
    assert!(host.progress.windows(2).all(|pair| pair[0] < pair[1]), "it falls: {:?}", host.progress);
    assert_eq!(place.begun(), 1);
}

/// An operator lets calls be held for longer than the host's clock. What then runs out is the host's patience, and its cancel
/// is a cancel: the command ends, its server does not, and the next call is answered.
#[test]
fn what_codex_and_claude_desktop_cancel_ends_and_nothing_else_does() {
    for habits in [CODEX, CLAUDE_DESKTOP] {
        let place = Place::new("1h");
        let mut host = Host::over_stdio(&place, habits, Duration::from_secs(3));
        host.begin();
        assert_eq!(host.call("build", json!({})), None, "it is held for too long");
        place.ended();
        host.takes_its_time();
        assert_eq!(text(&host.call("quick", json!({})).unwrap()), "hello", "the server is as it was");
        place.open();
        assert_eq!(text(&host.call("build", json!({})).unwrap()), "built");
        assert_eq!(place.begun(), 2, "one was cancelled and one was not");
    }
}

/// The same of a host that says nothing: nobody has cancelled, so the command goes on, and a model that calls again finds
/// the call that its user has made already. Strangers share no calls, so the user is known.
#[test]
fn what_cursor_leaves_goes_on_and_is_joined_by_its_next_call() {
    let place = Place::where_ann_signs_in("1h");
    let server = place.serve();
    let mut host = Host::of_ann(&server, CURSOR, Duration::from_secs(3));
    host.begin();
    assert_eq!(host.call("build", json!({})), None, "it is held for too long");
    host.takes_its_time();
    host.opens_after(Duration::from_secs(1), &place);
    assert_eq!(text(&host.call("build", json!({})).unwrap()), "built");
    assert_eq!(place.begun(), 1);
}

/// It fetches the result once a status says that there is one, and after a failure shows what the status says.
#[test]
fn vs_code_takes_a_task_and_fetches_its_result_when_it_is_told_to() {
    let place = Place::new(HOLD);
    let server = place.serve();
    let mut host = Host::over_http(&server, VS_CODE, CLOCK);
    host.begin();
    host.listen();
    let tools = host.tools();
    assert!(!tools.contains(&"task_wait".to_owned()), "it has tasks of its own: {tools:?}");

    let meta = json!({ "vscode.conversationId": "c-1", "vscode.requestId": "r-1" });
    let call = |tool: &str| json!({ "name": tool, "arguments": {}, "task": {}, "_meta": meta });
    let created = host.ask("tools/call", call("build")).unwrap();
    let task = &created["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &Value::Null), "{created}");
    let id = task["taskId"].as_str().unwrap().to_owned();
    // It looks once an interval has passed, which it never changes.
    std::thread::sleep(Duration::from_millis(task["pollInterval"].as_u64().unwrap()));
    let looked = host.ask("tasks/get", json!({ "taskId": id })).unwrap();
    assert_eq!(looked["result"]["status"], "working", "{looked}");
    place.open();
    host.hears(|message| is_status(message, &id, "completed"));
    let fetched = host.ask("tasks/result", json!({ "taskId": id })).unwrap();
    assert_eq!(text(&fetched["result"]), "built", "{fetched}");
    assert_eq!(place.begun(), 1);

    let created = host.ask("tools/call", call("fails")).unwrap();
    let id = created["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let failed = host.hears(|message| is_status(message, &id, "failed"));
    let shown = failed["params"]["statusMessage"].as_str().unwrap_or_default();
    assert!(shown.contains("no such crate"), "all that is shown of it is {shown:?}");
}

fn is_status(message: &Value, id: &str, status: &str) -> bool {
    let params = &message["params"];
    message["method"] == "notifications/tasks/status" && params["taskId"] == id && params["status"] == status
}

/// It opens without a handshake, obeys the poll interval, and follows its tasks again after it was closed; the server dies
/// meanwhile.
#[test]
fn claude_code_follows_its_task_over_the_death_of_the_server_and_its_own() {
    let place = Place::new(HOLD);
    let mut server = place.serve();
    let mut host = Host::over_http(&server, CLAUDE_CODE, CLOCK);
    host.begin();
    let tools = host.tools();
    assert!(!tools.contains(&"task_wait".to_owned()), "it has tasks of its own: {tools:?}");
    let meta = json!({ "claudecode/toolUseId": "toolu_01" });
    let quick = host.ask("tools/call", json!({ "name": "quick", "arguments": {}, "_meta": meta })).unwrap();
    assert_eq!(text(&quick["result"]), "hello", "what is quick is answered in place: {quick}");
    let made = host.ask("tools/call", json!({ "name": "build", "arguments": {}, "_meta": meta })).unwrap();
    let task = made["result"].clone();
    assert_eq!(task["resultType"], "task", "{made}");
    let id = task["taskId"].as_str().unwrap();
    let poll = |host: &mut Host| {
        std::thread::sleep(Duration::from_millis(task["pollIntervalMs"].as_u64().unwrap()));
        host.ask("tasks/get", json!({ "taskId": id })).unwrap()["result"].clone()
    };
    assert_eq!(poll(&mut host)["status"], "working");
    drop(host);
    server.kill();
    let server = place.serve_at(server.address);
    let mut host = Host::over_http(&server, CLAUDE_CODE, CLOCK);
    host.begin();
    assert_eq!(poll(&mut host)["status"], "working");
    place.open();
    let ended = host.eventually("the end of the task", |host| {
        Some(poll(host)).filter(|task| task["status"] != "working")
    });
    assert_eq!((&ended["status"], text(&ended["result"])), (&json!("completed"), "built"), "{ended}");
    assert_eq!(place.begun(), 1);
}
