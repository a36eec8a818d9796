//! Commands that will not end, leave others behind, or end in their own ways.

use std::fs;

use serde_json::{Value, json};

use crate::rig::eventually;
use crate::rig::modern::{begin, cancel, ended, output, text};
use crate::rig::place::Place;
use crate::rig::scene::Scene;

fn tool(name: &str, script: &str, more: &str) -> String {
    format!(
        "[tools.{name}]\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", '''{script}''']\ntask = \"always\"\n\
         grace = \"200ms\"\n{more}\n"
    )
}

fn facts(task: &Value) -> &Value {
    &task["result"]["_meta"]["dev.longhaul/run"]
}

/// The processes of the place whose command line holds this text.
fn running(place: &Place, text: &str) -> usize {
    place.processes().iter().filter(|(_, line)| line.contains(text)).count()
}

#[test]
fn cancel_ends_the_whole_tree_whatever_it_does() {
    let attacks = [
        ("deaf", "trap '' TERM INT HUP; touch begun; while :; do sleep 7001; done", "sleep 7001"),
        ("forks", "for i in 1 2 3 4 5; do sleep 7002 & done; touch begun; wait", "sleep 7002"),
        ("session", "setsid sleep 7003 & setsid setsid sleep 7003 & touch begun; sleep 7003", "sleep 7003"),
        (
            "daemon",
            "(setsid sh -c 'trap \"\" TERM; sleep 7004 & sleep 7004' </dev/null >/dev/null 2>&1 &); sleep 0.3; touch begun; sleep 7004",
            "sleep 7004",
        ),
        ("closed", "exec >&- 2>&-; touch begun; sleep 7005", "sleep 7005"),
        ("stopped", "touch begun; kill -STOP $$; sleep 7006", "touch begun; kill -STOP"),
        (
            "breeds",
            "touch begun; while :; do setsid sh -c 'trap \"\" TERM; sleep 7007' & sleep 0.05; done",
            "sleep 7007",
        ),
    ];
    let tools: String = attacks.iter().map(|(name, script, _)| tool(name, script, "")).collect();
    let scene = Scene::new(&tools);
    for (name, _, left) in attacks {
        let _ = fs::remove_file(scene.place.path("begun"));
        let task = begin(scene.server.address(), name, json!({}));
        eventually(name, || {
            (scene.place.path("begun").exists() && running(&scene.place, left) > 0).then_some(())
        });
        let answer = cancel(scene.server.address(), &task);
        assert_eq!(answer["status"], "cancelled", "{name}: {answer}");
        eventually(&format!("the end of {name}"), || (running(&scene.place, left) == 0).then_some(()));
    }
    scene.ends_well();
}

#[test]
fn a_command_that_closes_its_output_runs_on_to_its_end() {
    let scene = Scene::new(&tool(
        "closed",
        "echo before; exec >&- 2>&-; while [ ! -e go ]; do sleep 0.05; done; exit 3",
        "",
    ));
    let address = scene.server.address();
    let task = begin(address, "closed", json!({}));
    eventually("its output", || {
        output(address, &task, "stdout")[0]["text"]
            .as_str()
            .is_some_and(|text| text == "before\n")
            .then_some(())
    });
    scene.is_unharmed();
    fs::write(scene.place.path("go"), "").unwrap();
    let result = ended(address, &task);
    assert_eq!((facts(&result)["exitCode"].as_i64(), text(&result["result"])), (Some(3), "before\n"));
    scene.ends_well();
}

#[test]
fn a_command_that_ends_by_a_signal_says_which() {
    let scene =
        Scene::new(&[tool("killed", "kill -9 $$", ""), tool("aborted", "kill -ABRT $$", "")].concat());
    for (name, signal) in [("killed", 9), ("aborted", 6)] {
        let task = begin(scene.server.address(), name, json!({}));
        let result = ended(scene.server.address(), &task);
        assert_eq!(result["result"]["isError"], true);
        assert_eq!(
            (facts(&result)["signal"].as_i64(), &facts(&result)["exitCode"]),
            (Some(signal), &Value::Null)
        );
        assert!(result["result"]["content"].to_string().contains("signal"), "{result}");
    }
    scene.ends_well();
}

#[test]
fn a_command_past_its_timeout_is_ended_with_its_tree() {
    let script =
        "echo begun; setsid sh -c 'trap \"\" TERM; sleep 7010' & trap '' TERM; sleep 7010; sleep 7010";
    let scene = Scene::new(&tool("long", script, "timeout = \"1s\""));
    let task = begin(scene.server.address(), "long", json!({}));
    let result = ended(scene.server.address(), &task);
    assert_eq!(result["result"]["isError"], true);
    let said = result["result"]["content"].to_string();
    assert!(said.contains("ran longer than its timeout of 1s"), "{said}");
    assert_eq!(text(&result["result"]), "begun\n");
    eventually("the end of the tree", || (running(&scene.place, "sleep 7010") == 0).then_some(()));
    scene.ends_well();
}

#[test]
fn what_a_command_leaves_behind_is_ended_with_it() {
    let script = "setsid sleep 7011 </dev/null >/dev/null 2>&1 & echo done";
    let silent = "setsid sleep 7014 </dev/null >/dev/null 2>&1 & true";
    let tools =
        [tool("leaves", script, ""), tool("silent", silent, ""), tool("holds", "sleep 7012 & echo done", "")];
    let scene = Scene::new(&tools.concat());
    let task = begin(scene.server.address(), "leaves", json!({}));
    let result = ended(scene.server.address(), &task);
    assert_eq!(text(&result["result"]), "done\n");
    let said = "(1 process that it left in the background was ended)";
    assert_eq!(result["result"]["content"][1]["text"], said, "{result}");
    assert_eq!(
        (&facts(&result)["left"], &result["result"]["structuredContent"]["left"]),
        (&json!(1), &json!(1))
    );
    eventually("the end of what was left", || (running(&scene.place, "sleep 7011") == 0).then_some(()));
    // Where nothing was written no block could be taken for the output.
    let task = begin(scene.server.address(), "silent", json!({}));
    let result = ended(scene.server.address(), &task);
    assert_eq!((&result["result"]["content"], &facts(&result)["left"]), (&json!([]), &json!(1)), "{result}");
    // The child that holds the output open does not hold the result.
    let task = begin(scene.server.address(), "holds", json!({}));
    assert_eq!(text(&ended(scene.server.address(), &task)["result"]), "done\n");
    eventually("the end of what held the output", || {
        (running(&scene.place, "sleep 7012") == 0).then_some(())
    });
    scene.ends_well();
}

#[test]
fn a_supervisor_that_is_killed_loses_its_task_honestly_and_leaves_nothing() {
    let scene = Scene::new(&tool("orphan", "setsid sleep 7013 & touch begun; sleep 7013", ""));
    let address = scene.server.address();
    let task = begin(address, "orphan", json!({}));
    eventually("the command", || (running(&scene.place, "sleep 7013") == 3).then_some(()));
    let supervisor = scene
        .place
        .processes()
        .into_iter()
        .find(|(_, line)| line.contains("supervise") && line.contains(&task));
    let pid = rustix::process::Pid::from_raw(supervisor.unwrap().0).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let result = ended(address, &task);
    assert_eq!(result["status"], "failed", "{result}");
    assert!(result["statusMessage"].as_str().is_some_and(|text| text.starts_with("worker_lost")), "{result}");
    eventually("the end of the orphans", || (running(&scene.place, "sleep 7013") == 0).then_some(()));
    scene.ends_well();
}
