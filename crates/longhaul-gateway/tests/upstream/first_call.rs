//! A server that is started by its first call: what it had is offered before.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{Client, Options};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::SubscriptionFilter;
use longhaul::store::Memory;
use longhaul_gateway::config::{UpstreamServer, check};
use longhaul_gateway::upstream::Seen;
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

use super::changes::told;
use super::rig::{Front, both_eras, eventually};
use super::wrong::that_is_wrong;

/// The server of this program, which writes down that it is started, and has one more tool, so described: by a file, for it is the same
/// server that says something else by and by.
fn counted(folder: &Path, description: &str, more: &str) -> UpstreamServer {
    let program = std::env::current_exe().unwrap();
    let script = "echo $$ >> starts; LATE=$(cat late); export LATE; exec \"$@\"";
    std::fs::write(folder.join("late"), description).unwrap();
    let text = format!(
        "[servers.one]\ntask = \"never\"\nstart = \"first-call\"\ncwd = {folder:?}\ncommand = [\"sh\", \"-c\", {script:?}, \"sh\", \
         {program:?}, \"rig::serves_on_its_standard_streams\", \"--exact\", \"--ignored\", \"--nocapture\"]\n\
         env = {{ SERVES = \"yes\" }}\n{more}\n"
    );
    check("longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}")).config.servers.remove(0)
}

/// The processes that were started.
fn starts(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_to_string(folder.join("starts")).unwrap_or_default();
    pids.lines().map(str::to_owned).collect()
}

fn lives(pid: &str) -> bool {
    test_kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap()).is_ok()
}

/// A front of a process of its own, which knows what the others on that store do.
async fn front(server: UpstreamServer, behind: Revision, memory: &Memory) -> Front {
    let known = Arc::new(memory.another_node());
    Front::with(vec![server], behind, |upstreams| upstreams.known_by(known), |server| server)
        .once_listed()
        .await
}

/// Learns what the server has, which does not go on for that.
async fn learn(folder: &Path, more: &str, behind: Revision, memory: &Memory) {
    let before = starts(folder).len();
    let front = front(counted(folder, "It came", more), behind, memory).await;
    eventually("it goes on, though nobody needs it", async || {
        starts(folder).len() == before + 1 && !starts(folder).iter().any(|pid| lives(pid))
    })
    .await;
    front.upstreams.close().await;
}

async fn description(client: &Client) -> Option<String> {
    let tools = client.list_tools().await.unwrap();
    tools.into_iter().find(|tool| tool.name == "late").and_then(|late| late.description)
}

async fn call(client: &Client, tool: &str) -> (bool, String) {
    let said = client.call(tool, &json!({})).await.unwrap();
    (said.is_error, said.content[0].as_text().unwrap().to_owned())
}

#[tokio::test]
async fn what_a_server_had_is_offered_until_something_needs_it_and_what_it_has_from_then_on() {
    for behind in both_eras() {
        let (folder, memory) = (tempfile::tempdir().unwrap(), Memory::new());
        let folder = folder.path();
        learn(folder, "", behind, &memory).await;
        for (needs, before) in ["a call", "a resource", "a prompt"].into_iter().zip(1..) {
            let description_then = if before == 1 { "It came" } else { "It turned" };
            let front = front(counted(folder, "It turned", ""), behind, &memory).await;
            let client = front.caller(Options::default()).await;
            let mut changes = client.subscribe(SubscriptionFilter::default().lists()).await.unwrap();
            assert_eq!(description(&client).await.as_deref(), Some(description_then), "{behind}");
            assert_eq!(client.prompts().collect().await.unwrap()[0].name, "greet");
            assert_eq!(client.resources().collect().await.unwrap()[0].uri, "notes://today");
            assert!(!client.resource_templates().collect().await.unwrap().is_empty());
            match &*front.upstreams.iter().next().unwrap().seen().borrow() {
                Seen::Listed { away: Some(away), .. } => {
                    assert!(away.why.contains("nothing has needed it yet"), "{}", away.why);
                }
                seen => panic!("{seen:?}"),
            }
            assert_eq!(starts(folder).len(), before, "{behind}: nothing needs it");
            match needs {
                "a call" => assert_eq!(call(&client, "who").await, (false, "program".to_owned())),
                "a resource" => {
                    let read = client.read_resource("notes://today").await.unwrap();
                    assert_eq!(read.contents[0].text.as_deref(), Some("program"));
                }
                _ => {
                    let greeting = client.get_prompt("greet", &json!({"name": "ann"})).await.unwrap();
                    assert_eq!(greeting.messages[0].content.as_text(), Some("Hello, ann!"));
                }
            }
            let turned =
                |late: &longhaul::proto::model::Tool| late.description.as_deref() == Some("It turned");
            if description_then == "It came" {
                told(&client, &mut changes, |tools| tools.iter().any(turned)).await;
            }
            eventually("it is not connected", async || {
                let seen = front.upstreams.iter().next().unwrap().seen();
                matches!(&*seen.borrow(), Seen::Listed { away: None, .. })
            })
            .await;
            assert_eq!(call(&client, "late").await, (false, "late".to_owned()));
            assert_eq!(starts(folder).len(), before + 1, "{behind} {needs}: it is started once");
            front.upstreams.close().await;
        }
    }
}

#[tokio::test]
async fn a_tool_that_turned_before_the_first_call_is_not_called_by_that() {
    for behind in both_eras() {
        let (folder, memory) = (tempfile::tempdir().unwrap(), Memory::new());
        let folder = folder.path();
        let pins = format!("pins = {:?}", folder.join("pins"));
        learn(folder, &pins, behind, &memory).await;
        let front = front(counted(folder, "It turned", &pins), behind, &memory).await;
        let client = front.caller(Options::default()).await;
        assert_eq!(description(&client).await.as_deref(), Some("It came"), "{behind}");
        let (is_error, why) = call(&client, "late").await;
        assert!(is_error && why.contains("says something else of itself"), "{behind}: {why}");
        eventually("it is offered still", async || description(&client).await.is_none()).await;
        assert_eq!(call(&client, "who").await, (false, "program".to_owned()));
        front.upstreams.close().await;
    }
}

#[tokio::test]
async fn a_tool_that_somebody_agrees_to_while_its_server_rests_is_offered_and_starts_nothing() {
    let (folder, memory, behind) = (tempfile::tempdir().unwrap(), Memory::new(), both_eras()[1]);
    let folder = folder.path();
    let file = folder.join("pins");
    let pins = format!("pins = {file:?}");
    std::fs::write(&file, format!("{}  one/late\n", "0".repeat(64))).unwrap();
    learn(folder, &pins, behind, &memory).await;
    let front = front(counted(folder, "It came", &pins), behind, &memory).await;
    let client = front.caller(Options::default()).await;
    assert_eq!(description(&client).await, None, "it is held back");
    std::fs::write(&file, "").unwrap();
    eventually("it is held back still", async || description(&client).await.is_some()).await;
    assert_eq!(starts(folder).len(), 1);
    assert_eq!(call(&client, "late").await, (false, "late".to_owned()));
    front.upstreams.close().await;
}

/// Whether one is connected, once that has settled, and how many prompts of it are served.
async fn connected(front: &Front) -> (bool, usize) {
    // Long enough for it to be asked twice, and left alone.
    tokio::time::sleep(Duration::from_secs(2)).await;
    match &*front.upstreams.iter().next().unwrap().seen().borrow() {
        Seen::Listed { away, prompts, .. } => (away.is_none(), *prompts),
        seen => panic!("{seen:?}"),
    }
}

#[tokio::test]
async fn a_list_that_did_not_come_is_not_taken_for_one_of_nothing() {
    let legacy = both_eras()[0];
    for (lists, is_known) in [("no prompts", false), ("prompts at last", true)] {
        let (memory, prompts) = (Memory::new(), usize::from(is_known));
        let server = || that_is_wrong(lists, "start = \"first-call\"");
        let first = front(server(), legacy, &memory).await;
        assert_eq!(connected(&first).await, (true, prompts), "{lists}: it is not left alone without one");
        first.upstreams.close().await;
        let next = front(server(), legacy, &memory).await;
        assert_eq!(connected(&next).await, (!is_known, prompts), "{lists}: what is known is whole");
        next.upstreams.close().await;
    }
}
