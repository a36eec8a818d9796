//! Callers of older revisions: in sessions of 2025-11-25, which ask for tasks, and of 2025-06-18, whose tasks are as they were
//! drafted. A session ends with its process, and its client opens another and asks again.

use std::time::Duration;

use longhaul::proto::dialect::Revision;
use longhaul::server::TaskPolicy;
use longhaul::store::Rerun;
use serde_json::{Value, json};

use super::ends::{asking, long};
use super::questions::order;
use super::{resumable, tool};
use crate::client::Client;
use crate::explore::{Often, Scenario, explore};
use crate::fleet::Speaks;

const CORE: Revision = Revision::V2025_11_25;

/// The last that knows nothing of tasks but the draft.
const DRAFT: Revision = Revision::V2025_06_18;

/// A yes to whatever is asked.
fn yes() -> Value {
    json!({"go": true})
}

/// Asks for a task of 2025-11-25; its id.
fn begin(client: &mut Client) -> String {
    let meta = json!({"dev.longhaul/idempotencyKey": "the-call"});
    let params = json!({"name": "tool", "arguments": {}, "task": {}, "_meta": meta});
    let created = client.ask_in(CORE, "tools/call", &params, None);
    client.created("the-call", &created)
}

/// Waits for what a task of 2025-11-25 comes to, and says yes meanwhile if it may: what it came to, and its status, which
/// whoever comes later is told too.
fn end(client: &mut Client, id: &str, content: Option<&Value>) -> Value {
    let params = json!({"taskId": id});
    let told = |client: &mut Client| {
        let result = client.ask_in(CORE, "tasks/result", &params, content);
        let task = client.ask_in(CORE, "tasks/get", &params, None);
        json!([result["result"], result["error"], task["result"]])
    };
    let first = told(client);
    client.switch_off(Duration::from_secs(1));
    let later = told(client);
    if first != later {
        client.complain(format!("I2: it had ended as {first}, and is {later}"));
    }
    json!([first[0]["content"], first[1]["message"], first[2]["status"]])
}

#[test]
fn k02_k10_k11_k13_n8_a_task_of_a_session_asks_in_the_next() {
    static SCENARIO: Scenario = Scenario {
        name: "k02_k10_k11_k13_n8 a question in a session",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let id = begin(client);
            end(client, &id, Some(&yes()))
        },
        comes_to: r#"[[{"text":"shipped","type":"text"}],null,"completed"]"#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k18_a_task_of_a_session_is_cancelled_in_the_next() {
    static SCENARIO: Scenario = Scenario {
        name: "k18 cancelled in a session",
        tools: |hands| resumable(hands, long),
        play: |client| {
            let id = begin(client);
            client.pass(Duration::from_secs(5));
            let told = client.ask_in(CORE, "tasks/cancel", &json!({"taskId": id}), None);
            let refused = told["error"]["message"].as_str();
            // One that was answered to nobody has cancelled it.
            if refused.is_some_and(|why| !why.contains("cancelled already")) {
                client.complain(format!("a cancel is not taken: {told}"));
            }
            end(client, &id, None)
        },
        comes_to: r#","cancelled"]"#,
        or_else: &[],
        effects: &[("before", Often::AtLeastOnce), ("long", Often::AtLeastOnce), ("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[test]
fn t4_a_task_of_a_session_expires_unanswered() {
    static SCENARIO: Scenario = Scenario {
        name: "t4 expired in a session",
        tools: |hands| {
            let mut policy = TaskPolicy::always().with_ttl_from_creation(Duration::from_secs(20));
            policy.rerun = Rerun::Resumable;
            vec![tool(hands, "tool", Rerun::Resumable, asking).task(policy)]
        },
        play: |client| {
            let id = begin(client);
            // Who waits for it is told, whoever ends it.
            end(client, &id, None)
        },
        comes_to: r#"[null,"task expired","failed"]"#,
        or_else: &[],
        effects: &[("after", Often::Never)],
    };
    explore(&SCENARIO);
}

#[test]
fn x1_k13_a_task_of_a_session_is_answered_as_one_of_the_extension() {
    static SCENARIO: Scenario = Scenario {
        name: "x1_k13 begun in a session, answered in none",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let id = begin(client);
            client.accept(&id, "Ship it?", &yes());
            let end_there = client.end(&id);
            json!([end(client, &id, None), end_there["status"]])
        },
        comes_to: r#"[[[{"text":"shipped","type":"text"}],null,"completed"],"completed"]"#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}

#[test]
fn k02_k10_k11_k13_a_drafted_task_is_found_by_its_name() {
    static SCENARIO: Scenario = Scenario {
        name: "k02_k10_k11_k13 a drafted task",
        tools: |hands| resumable(hands, order),
        play: |client| {
            let call = Speaks::drafted(json!({"name": "tool", "arguments": {}}), "the-task");
            let answer = client.ask_in(DRAFT, "tools/call", &call, Some(&yes()));
            client.never_told_of_one();
            let asked = json!({"taskId": "the-task"});
            let told = |client: &mut Client| {
                let task = client.ask_in(DRAFT, "tasks/get", &asked, None);
                let result = client.ask_in(DRAFT, "tasks/result", &asked, None);
                json!([task["result"], result["result"]])
            };
            let first = told(client);
            client.switch_off(Duration::from_secs(1));
            let later = told(client);
            if first != later {
                client.complain(format!("I2: it had ended as {first}, and is {later}"));
            }
            json!([answer["result"]["content"], first[1]["content"], first[0]["status"]])
        },
        comes_to: r#"[[{"text":"shipped","type":"text"}],[{"text":"shipped","type":"text"}],"completed"]"#,
        or_else: &[],
        effects: &[("charge", Often::AtLeastOnce), ("ship", Often::AtLeastOnce)],
    };
    explore(&SCENARIO);
}
