//! What survives whom: servers and supervisors are killed here, and found again.

use std::{
    fs,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_gateway::command::{Cause, Run, RunError, State, Stream};
use rustix::process::Signal;

use super::{
    scene::{
        SUPERVISOR, Scene, bytes_of, end_of, eventually, expect_nothing_left, file_appears, is_alive, kill,
        lives, loss_of, processes_with, sh, soon, supervisor_pid,
    },
    server::Server,
};

fn runs_path(scene: &Scene) -> PathBuf {
    scene.root.path().join("runs")
}

#[tokio::test]
async fn a_server_killed_before_the_commit_takes_its_command_along() {
    let scene = Scene::new();
    let script = format!("echo $$ > {0}; setsid sleep 600 & sleep 600", scene.file("ready").display());
    let mut server = Server::new(&runs_path(&scene), "run", &script, &["start", "hang"]);
    assert!(server.hear("start"));
    file_appears(&scene.file("ready")).await;
    server.kill();
    let dir = scene.runs.dir("run").unwrap();
    let exit = eventually("the end of the run", || match scene.runs.state("run").unwrap() {
        State::Exited(exit) => Some(exit),
        _ => None,
    });
    assert_eq!(exit.cause, Cause::Abandoned);
    expect_nothing_left(&dir);
}

/// K23 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_committed_command_does_not_notice_that_its_server_was_killed() {
    let scene = Scene::new();
    let (copy, go) = (scene.file("copy"), scene.file("go"));
    let script = format!(
        "head -c 100000 /dev/urandom | tee {copy}; echo $$ > {ready}; while [ ! -e {go} ]; do sleep 0.02; done; \
         head -c 100000 /dev/urandom | tee -a {copy}; echo end >&2; exit 9",
        copy = copy.display(),
        ready = scene.file("ready").display(),
        go = go.display(),
    );
    let mut server = Server::new(&runs_path(&scene), "run", &script, &["start", "commit", "hang"]);
    assert!(server.hear("commit"));
    let pid = file_appears(&scene.file("ready")).await;
    server.kill();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(scene.runs.state("run").unwrap(), State::Alive { committed: true });
    assert!(lives(pid.trim().parse().unwrap()), "the command goes on");
    let processes = scene.runs.processes("run").unwrap().expect("it lives");
    assert_eq!(processes.command, Some(pid.trim().parse().unwrap()));
    assert!(lives(processes.supervisor) && scene.runs.processes("none").unwrap().is_none());

    let run = Run::attach(&scene.runs, "run").await.unwrap();
    fs::write(go, "").unwrap();
    let exit = end_of(&run).await;
    assert_eq!((exit.cause, exit.code), (Cause::Exited, Some(9)));
    assert_eq!(scene.runs.processes("run").unwrap(), None, "a number may be another's by now");
    let copied = fs::read(copy).unwrap();
    assert_eq!((copied.len(), exit.stdout.total), (200_000, 200_000));
    assert!(bytes_of(run.dir(), Stream::Stdout) == copied, "byte for byte");
    assert_eq!(bytes_of(run.dir(), Stream::Stderr), b"end\n");
}

#[tokio::test]
async fn whenever_its_server_is_killed_a_command_runs_at_most_once_and_is_never_lost() {
    let scene = Scene::new();
    for turn in 0..24_u64 {
        let (id, effects) = (format!("run-{turn}"), scene.file(&format!("effects-{turn}")));
        let script = format!("echo ran >> {}; sleep 600", effects.display());
        let server = Server::new(&runs_path(&scene), &id, &script, &["start", "commit", "hang"]);
        tokio::time::sleep(Duration::from_micros(turn * 1300)).await;
        server.kill();
        // Whatever was on its way has come to an end, or was committed and lives on. Who is coming is looked at first:
        // a supervisor that is seen no more has said by then what it began.
        let dir = scene.runs.dir(&id).unwrap().display().to_string();
        let state = soon("an end of what the server began", || {
            let coming = processes_with(&dir).iter().any(|(_, line)| line.contains("supervise"));
            match scene.runs.state(&id).unwrap() {
                State::Alive { committed: false } => None,
                State::Absent | State::Fresh if coming => None,
                state => Some(state),
            }
        })
        .await;
        match &state {
            State::Absent | State::Fresh => assert!(!effects.exists(), "turn {turn}: {state:?}"),
            State::Alive { .. } => {
                let run = Run::attach(&scene.runs, &id).await.unwrap();
                run.cancel().await.unwrap();
                assert_eq!(end_of(&run).await.cause, Cause::Cancelled, "turn {turn}");
            }
            State::Exited(exit) => assert_eq!(exit.cause, Cause::Abandoned, "turn {turn}"),
            other => panic!("turn {turn}: {other:?}"),
        }
        let ran = fs::read_to_string(&effects).unwrap_or_default().lines().count();
        assert!(ran <= 1, "turn {turn}: ran {ran} times");
    }
}

#[tokio::test]
async fn limits_hold_without_a_server() {
    let scene = Scene::new();
    let spec =
        sh("yes | head -c 100000; sleep 600").with_timeout(Duration::from_millis(700)).with_max_output(1000);
    let run = Run::start(&scene.runs, "run", &spec).await.unwrap();
    run.commit().await.unwrap();
    drop(run);
    let exit = eventually("the end of the run", || match scene.runs.state("run").unwrap() {
        State::Exited(exit) => Some(exit),
        _ => None,
    });
    assert_eq!((exit.cause, exit.stdout.total, exit.stdout.kept), (Cause::TimedOut, 100_000, 1000));
    expect_nothing_left(&scene.runs.dir("run").unwrap());
}

/// K23 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_run_that_ended_unseen_is_found() {
    let scene = Scene::new();
    let mut server =
        Server::new(&runs_path(&scene), "run", "sleep 0.3; echo alone", &["start", "commit", "hang"]);
    assert!(server.hear("commit"));
    server.kill();
    let run = Run::attach(&scene.runs, "run").await.unwrap();
    assert!(end_of(&run).await.is_success());
    assert_eq!(bytes_of(run.dir(), Stream::Stdout), b"alone\n");
}

#[test]
fn of_six_supervisors_one_runs() {
    let scene = Scene::new();
    for turn in 0..25 {
        let id = format!("run-{turn}");
        let effects = scene.file(&format!("effects-{turn}"));
        let dir = scene.runs.prepare(&id, &sh(&format!("echo ran >> {}", effects.display()))).unwrap();
        let mut owners = Vec::new();
        let supervisors: Vec<_> = (0..6)
            .map(|_| {
                let (ours, theirs) = UnixStream::pair().unwrap();
                owners.push(ours);
                Command::new(SUPERVISOR)
                    .arg("supervise")
                    .arg(&dir)
                    .stdin(Stdio::from(OwnedFd::from(theirs)))
                    .spawn()
                    .unwrap()
            })
            .collect();
        let mut codes: Vec<_> =
            supervisors.into_iter().map(|mut supervisor| supervisor.wait().unwrap().code()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(3), Some(3), Some(3), Some(3), Some(3)], "turn {turn}");
        assert_eq!(fs::read_to_string(effects).unwrap(), "ran\n", "turn {turn}");
    }
}

#[tokio::test]
async fn of_six_launches_one_starts_the_command() {
    let scene = Scene::new();
    let effects = scene.file("effects");
    scene.runs.prepare("run", &sh(&format!("echo ran >> {}; sleep 600", effects.display()))).unwrap();
    let launches = (0..6).map(|_| {
        let runs = scene.runs.clone();
        tokio::spawn(async move { Run::launch(&runs, "run").await })
    });
    let mut started = Vec::new();
    for launch in launches.collect::<Vec<_>>() {
        started.extend(launch.await.unwrap().ok());
    }
    assert_eq!(started.len(), 1);
    file_appears(&effects).await;
    started[0].cancel().await.unwrap();
    end_of(&started[0]).await;
    assert_eq!(fs::read_to_string(effects).unwrap(), "ran\n");
}

/// What stays, what leaves the session, what drops the mark, and what ignores SIGTERM. Each says its number.
const FAMILY: &str = "
    sh -c 'echo $$ >> $PIDS; exec sleep 600' &
    setsid sh -c 'echo $$ >> $PIDS; exec sleep 601' &
    env -i /bin/sh -c 'echo $$ >> $PIDS; exec /bin/sleep 602' &
    setsid sh -c 'echo $$ >> $PIDS; trap \"\" TERM; while :; do sleep 0.1; done' &
    while [ $(wc -l < $PIDS) -lt 4 ]; do sleep 0.02; done
    echo $$ > $READY
    wait";

/// A committed run of it, and the numbers.
async fn family(scene: &Scene) -> (Run, Vec<i32>) {
    let (ready, pids) = (scene.file("ready"), scene.file("pids"));
    fs::write(&pids, "").unwrap();
    let script =
        FAMILY.replace("$READY", &ready.display().to_string()).replace("$PIDS", &pids.display().to_string());
    let run = Run::start(&scene.runs, "run", &sh(&script)).await.unwrap();
    run.commit().await.unwrap();
    file_appears(&ready).await;
    let pids: Vec<i32> = fs::read_to_string(pids).unwrap().lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() == 4 && pids.iter().all(|pid| lives(*pid)));
    (run, pids)
}

fn expect_dead(pids: &[i32]) {
    let left: Vec<&i32> = pids.iter().filter(|pid| lives(**pid)).collect();
    assert!(left.is_empty(), "still there: {left:?} of {pids:?}");
}

#[tokio::test]
async fn a_killed_supervisor_is_a_lost_run_and_nothing_is_left_of_it() {
    let scene = Scene::new();
    let (run, pids) = family(&scene).await;
    kill(supervisor_pid(run.dir()), Signal::KILL);
    let loss = loss_of(&run).await;
    assert!(matches!(loss, RunError::Lost { survivors: 0, .. }), "{loss:?}");
    assert!(run.commit().await.is_err() && run.cancel().await.is_err());
    assert_eq!(scene.runs.state("run").unwrap(), State::Lost);
    expect_dead(&pids);
    expect_nothing_left(run.dir());
}

/// K23 of `conformance/REQUIREMENTS.md`.
#[tokio::test]
async fn a_loss_is_noticed_by_who_comes_later() {
    let scene = Scene::new();
    let (run, pids) = family(&scene).await;
    let dir = run.dir().to_owned();
    let supervisor = supervisor_pid(&dir);
    drop(run);
    kill(supervisor, Signal::KILL);
    eventually("the loss", || (scene.runs.state("run").unwrap() == State::Lost).then_some(()));
    let loss = Run::attach(&scene.runs, "run").await.unwrap_err();
    assert!(matches!(loss, RunError::Lost { .. }), "{loss:?}");
    expect_dead(&pids);
    expect_nothing_left(&dir);
    assert!(Run::launch(&scene.runs, "run").await.is_err(), "it does not run again");
    assert!(scene.runs.remove("run").unwrap());
}

#[tokio::test]
async fn leftovers_of_another_run_are_left_alone() {
    let scene = Scene::new();
    let (run, pids) = family(&scene).await;
    let bystander = Run::start(&scene.runs, "bystander", &sh("sleep 600")).await.unwrap();
    kill(supervisor_pid(run.dir()), Signal::KILL);
    loss_of(&run).await;
    expect_dead(&pids);
    assert!(is_alive(&scene.runs, "bystander"));
    bystander.cancel().await.unwrap();
    assert_eq!(end_of(&bystander).await.cause, Cause::Cancelled);
}

#[tokio::test]
async fn what_is_not_there_or_not_started_is_said_to_be() {
    let scene = Scene::new();
    assert!(matches!(Run::attach(&scene.runs, "none").await, Err(RunError::Absent { .. })));
    scene.runs.prepare("run", &sh("true")).unwrap();
    assert!(matches!(Run::attach(&scene.runs, "run").await, Err(RunError::NotStarted { .. })));
    let run = Run::launch(&scene.runs, "run").await.unwrap();
    assert!(end_of(&run).await.is_success());
}

#[tokio::test]
async fn a_directory_of_a_later_release_is_refused() {
    let scene = Scene::new();
    let dir = scene.runs.prepare("run", &sh("true")).unwrap();
    let spec = fs::read_to_string(dir.join("spec.json")).unwrap();
    fs::write(dir.join("spec.json"), spec.replace("\"format\":1", "\"format\":2")).unwrap();
    let error = Run::launch(&scene.runs, "run").await.unwrap_err();
    assert!(error.to_string().contains("format 2"), "{error}");
    assert_eq!(scene.runs.state("run").unwrap(), State::Fresh, "the release that knows it may start it");
}
