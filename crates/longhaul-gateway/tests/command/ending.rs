//! How runs are ended: cancel, timeout, signals; and that nothing is left of them.

use std::{fs, time::Duration};

use longhaul_gateway::command::{Cause, Noted, Run, State, Stream};
use rustix::process::Signal;

use super::scene::{
    HANG, Scene, bytes_of, end_of, expect_nothing_left, file_appears, kill, lives, sh, soon, supervisor_pid,
    text_of,
};

/// Starts a script and waits until it says that it is ready, in the file that its `$READY` names.
async fn ready(scene: &Scene, script: &str) -> Run {
    let ready = scene.file("ready");
    let script = script.replace("$READY", &ready.display().to_string());
    let run = Run::start(&scene.runs, "run", &sh(&script)).await.unwrap();
    file_appears(&ready).await;
    run
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_after_its_grace() {
    let scene = Scene::new();
    let run = ready(&scene, "trap '' TERM; echo > $READY; while :; do sleep 600; done").await;
    run.cancel().await.unwrap();
    let exit = end_of(&run).await;
    assert_eq!((exit.cause, exit.code, exit.signal), (Cause::Cancelled, None, Some(9)));
    assert!(exit.duration_ms >= 400, "the grace was given");
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn a_command_may_use_its_grace() {
    let scene = Scene::new();
    let script = "trap 'echo tidied; exit 3' TERM; echo > $READY; while :; do sleep 0.05; done";
    let run = ready(&scene, script).await;
    run.cancel().await.unwrap();
    let exit = end_of(&run).await;
    assert_eq!((exit.cause, exit.code), (Cause::Cancelled, Some(3)));
    assert_eq!(text_of(&run, Stream::Stdout), "tidied\n");
}

#[tokio::test]
async fn sigterm_is_sent_once() {
    let scene = Scene::new();
    let script = "trap 'echo term' TERM; echo > $READY; while :; do sleep 0.05; done";
    let run = ready(&scene, script).await;
    run.cancel().await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(end_of(&run).await.signal, Some(9));
    assert_eq!(text_of(&run, Stream::Stdout), "term\n");
}

#[tokio::test]
async fn a_stopped_command_gets_to_see_the_signal() {
    let scene = Scene::new();
    let run = ready(&scene, "trap 'echo woke; exit 0' TERM; echo > $READY; kill -STOP $$; sleep 600").await;
    run.cancel().await.unwrap();
    assert_eq!(end_of(&run).await.code, Some(0));
    assert_eq!(text_of(&run, Stream::Stdout), "woke\n");
}

/// Twenty children, and everything that tries to leave: a session of its own, a double fork, an emptied environment.
const CROWD: &str = "
    trap '' TERM
    for n in $(seq 1 20); do sleep 600.$n & done
    setsid sleep 601 &
    setsid sh -c 'sleep 602 & setsid sleep 603 & exit 0'
    (setsid env -i /bin/sh -c 'echo $$ > $READY.escaped; exec /bin/sleep 604' >/dev/null 2>&1 </dev/null &)
    setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &
    sleep 0.3
    echo > $READY
    while :; do sleep 600; done";

#[tokio::test]
async fn cancel_ends_the_whole_tree() {
    let scene = Scene::new();
    let run = ready(&scene, CROWD).await;
    let escaped: i32 = file_appears(&scene.file("ready.escaped")).await.trim().parse().unwrap();
    assert!(lives(escaped));
    run.cancel().await.unwrap();
    let exit = end_of(&run).await;
    assert_eq!((exit.cause, exit.survivors), (Cause::Cancelled, 0));
    expect_nothing_left(run.dir());
    assert!(!lives(escaped), "with no mark, by descent");
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_it() {
    let scene = Scene::new();
    let script = CROWD.replace("while :; do sleep 600; done", "exit 6");
    let run = ready(&scene, &script).await;
    let exit = end_of(&run).await;
    assert_eq!((exit.cause, exit.code, exit.survivors), (Cause::Exited, Some(6), 0));
    // The shell that loops may be between two of its sleeps.
    let most = if cfg!(target_os = "linux") { 25..=26 } else { 0..=0 };
    assert!(most.contains(&exit.left), "{exit:?}");
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn what_was_ending_by_itself_was_not_left() {
    let scene = Scene::new();
    let spec = sh("(exec >&- 2>&-; sleep 0.02) & echo done");
    // On a machine that is busy what ends takes longer now and then, and so does who looks.
    let mut left = Vec::new();
    for attempt in 0..9 {
        let run = Run::start(&scene.runs, &format!("run-{attempt}"), &spec).await.unwrap();
        let exit = end_of(&run).await;
        assert!(exit.is_success(), "{exit:?}");
        left.push(exit.left);
    }
    assert!(
        left.iter().filter(|left| **left == 0).count() >= 5,
        "what ends a moment later was not left: {left:?}"
    );
}

#[tokio::test]
async fn a_tree_that_keeps_forking_is_ended() {
    let scene = Scene::new();
    let script = "trap '' TERM; echo > $READY; fork() { trap '' TERM; while :; do sleep 0.02 & sleep 0.01; done; }; \
                  fork & fork & fork & setsid sh -c 'trap \"\" TERM; while :; do sleep 0.02 & sleep 0.01; done' & wait";
    let run = ready(&scene, script).await;
    run.cancel().await.unwrap();
    assert_eq!(end_of(&run).await.survivors, 0);
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn a_timeout_ends_the_command() {
    let scene = Scene::new();
    let spec = sh("echo begun; sleep 600").with_timeout(Duration::from_millis(300));
    let (exit, run) = scene.run_spec(&spec).await;
    assert_eq!((exit.cause, exit.signal), (Cause::TimedOut, Some(15)));
    assert!(exit.duration_ms >= 300);
    assert_eq!(text_of(&run, Stream::Stdout), "begun\n");
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn a_timeout_beyond_all_clocks_is_no_timeout() {
    let scene = Scene::new();
    let (exit, _run) =
        scene.run_spec(&sh("exit 7").with_timeout(Duration::MAX).with_grace(Duration::MAX)).await;
    assert_eq!((exit.cause, exit.code), (Cause::Exited, Some(7)));
}

#[tokio::test]
async fn a_grace_of_nothing_kills_at_once() {
    let scene = Scene::new();
    let run = Run::start(&scene.runs, "run", &sh("sleep 600").with_grace(Duration::ZERO)).await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(end_of(&run).await.signal, Some(9));
}

#[tokio::test]
async fn a_person_may_end_the_run_through_its_supervisor() {
    let scene = Scene::new();
    let run = ready(&scene, "echo > $READY; sleep 600").await;
    let supervisor = supervisor_pid(run.dir());
    for ignored in [Signal::HUP, Signal::INT, Signal::QUIT] {
        kill(supervisor, ignored);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        super::scene::is_alive(&scene.runs, "run"),
        "signals for a terminal's group are not meant for it"
    );
    kill(supervisor, Signal::TERM);
    let exit = end_of(&run).await;
    assert_eq!((exit.cause, exit.signal), (Cause::Cancelled, Some(15)));
}

#[tokio::test]
async fn without_a_socket_a_cancel_goes_by_file() {
    let scene = Scene::new();
    let run = ready(&scene, "echo > $READY; sleep 600").await;
    run.commit().await.unwrap();
    drop(run);
    fs::remove_file(scene.runs.dir("run").unwrap().join("control.sock")).unwrap();
    let run = Run::attach(&scene.runs, "run").await.unwrap();
    run.cancel().await.unwrap();
    assert_eq!(end_of(&run).await.cause, Cause::Cancelled);
    expect_nothing_left(run.dir());
}

#[tokio::test]
async fn everybody_attached_hears_of_the_end() {
    let scene = Scene::new();
    let run = ready(&scene, "echo > $READY; sleep 600").await;
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(Run::attach(&scene.runs, "run").await.unwrap());
    }
    others[3].cancel().await.unwrap();
    let exit = end_of(&run).await;
    for other in &others {
        assert_eq!(end_of(other).await, exit);
        other.cancel().await.expect("what is over needs no cancel");
        other.commit().await.expect("what is over needs no commit");
    }
}

#[tokio::test]
async fn who_is_turned_away_for_the_crowd_learns_of_the_end_all_the_same() {
    let scene = Scene::new();
    let run = ready(&scene, "echo > $READY; sleep 600").await;
    let mut others = Vec::new();
    for _ in 0..70 {
        others.push(Run::attach(&scene.runs, "run").await.unwrap());
    }
    // The last of them may have no connection; its cancel goes by file then.
    others.last().unwrap().cancel().await.unwrap();
    let exit = end_of(&run).await;
    assert_eq!(exit.cause, Cause::Cancelled);
    for other in &others {
        assert_eq!(end_of(other).await, exit);
    }
}

#[tokio::test]
async fn dropping_what_is_not_committed_ends_it() {
    let scene = Scene::new();
    let run = ready(&scene, "echo > $READY; echo kept; sleep 600").await;
    let attached = Run::attach(&scene.runs, "run").await.unwrap();
    let dir = run.dir().to_owned();
    drop(run);
    let exit = end_of(&attached).await;
    assert_eq!((exit.cause, exit.signal), (Cause::Abandoned, Some(15)));
    assert_eq!(bytes_of(&dir, Stream::Stdout), b"kept\n");
    expect_nothing_left(&dir);
}

#[tokio::test]
async fn dropping_what_is_committed_changes_nothing() {
    let scene = Scene::new();
    let go = scene.file("go");
    let script = format!("echo > $READY; while [ ! -e {} ]; do sleep 0.02; done; echo on", go.display());
    let run = ready(&scene, &script).await;
    run.commit().await.unwrap();
    run.commit().await.expect("a second commit is as good");
    drop(run);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let run = Run::attach(&scene.runs, "run").await.unwrap();
    fs::write(go, "").unwrap();
    let exit = end_of(&run).await;
    assert!(exit.is_success());
    assert_eq!(text_of(&run, Stream::Stdout), "on\n");
}

#[tokio::test]
async fn what_a_task_was_given_is_forgotten_when_it_has_ended() {
    let scene = Scene::new();
    let spec = sh("cat; sleep 0.1; echo \"$TOKEN $0\"").with_note(serde_json::json!({"tool": "t"}));
    let spec = spec.with_env([("TOKEN", "hunter2")]).with_stdin("hunter2\n").with_timeout(HANG);
    let dir = scene.runs.prepare_committed("run", &spec).unwrap();
    let run = Run::launch(&scene.runs, "run").await.unwrap();
    assert!(end_of(&run).await.is_success());
    assert!(text_of(&run, Stream::Stdout).starts_with("hunter2\nhunter2 "));
    soon("a spec without secrets", || {
        let spec = fs::read_to_string(dir.join("spec.json")).unwrap();
        (!spec.contains("hunter2") && !spec.contains("/bin/sh")).then_some(())
    })
    .await;
    assert!(!dir.join("stdin").exists() && !dir.join("spec.json.new").exists());
    let noted = Noted::read(&dir).unwrap();
    assert_eq!((noted.timeout, noted.note), (Some(HANG), spec.note));
    assert!(matches!(scene.runs.state("run").unwrap(), State::Exited(_)));
    expect_nothing_left(&dir);
}
