//! Server and supervisor kill themselves at every named point, and the next server finds what there is to find.

use std::fs;

use longhaul_gateway::command::{CRASH_POINTS, Cause, Cut, Output, Run, RunError, StartError, State, Stream};

use super::{
    scene::{HANG, Scene, bytes_of, end_of, expect_nothing_left},
    server::Server,
};

/// What the next server made of it.
#[derive(Debug, Eq, PartialEq)]
enum Found {
    Nothing,
    Ended(Cause),
    Lost,
}

async fn recover(scene: &Scene) -> Found {
    let run = match scene.runs.state("run").unwrap() {
        State::Absent => return Found::Nothing,
        State::Fresh => match Run::launch(&scene.runs, "run").await {
            Ok(run) => run,
            // The supervisor of the server that died was about to begin.
            Err(StartError::AlreadyStarted) => return Box::pin(recover(scene)).await,
            Err(error) => panic!("{error}: {error:?}"),
        },
        _ => {
            match tokio::time::timeout(HANG, Run::attach(&scene.runs, "run")).await.expect("found in time") {
                Ok(run) => run,
                Err(RunError::Lost { survivors: 0, .. }) => return Found::Lost,
                Err(error) => panic!("{error}: {error:?}"),
            }
        }
    };
    match tokio::time::timeout(HANG, run.wait()).await.expect("ends in time") {
        Ok(exit) => Found::Ended(exit.cause),
        Err(RunError::Lost { survivors: 0, .. }) => Found::Lost,
        Err(error) => panic!("{error}: {error:?}"),
    }
}

/// Where a supervisor has not begun.
const BEFORE_STARTED: [&str; 5] = [
    "supervisor.lock.before",
    "supervisor.lock.after",
    "supervisor.socket.before",
    "supervisor.socket.after",
    "supervisor.started.before",
];

async fn crash_at(point: &'static str) {
    let scene = Scene::new();
    let (effects, report) = (scene.file("effects"), scene.file("report"));
    let overwrites = point.starts_with("supervisor.overwrite");
    let last = if overwrites { "seq 2000" } else { "echo out" };
    let script = format!("echo ran >> {}; setsid sleep 0.4; {last}", effects.display());
    let steps: &[&str] = if point.starts_with("run.cancel") {
        &["start", "commit", "unplug", "cancel", "wait"]
    } else if overwrites {
        &["little", "start", "commit", "wait"]
    } else {
        &["start", "commit", "wait", "remove"]
    };
    let env = [("LONGHAUL_CRASH_POINT", point), ("LONGHAUL_CRASH_REPORT", report.to_str().unwrap())];
    let mut server = Server::with_env(&scene.root.path().join("runs"), "run", &script, steps, &env);
    let heard = steps.iter().take_while(|step| server.hear(step)).count();
    let status = server.wait();
    // Once the end is published nobody needs the supervisor any more.
    let unnoticed = point == "supervisor.publish.after";
    assert_eq!(status.success(), unnoticed, "{point}: whether the server noticed");
    // A supervisor that dies before it has begun is replaced, by one that dies there too.
    let times = if BEFORE_STARTED.contains(&point) { 3 } else { 1 };
    let reached = fs::read_to_string(&report).unwrap_or_default();
    assert_eq!(reached, format!("{point}\n").repeat(times), "{point}: reached");

    let acknowledged = steps[..heard].contains(&"commit");
    let found = recover(&scene).await;
    let ran = fs::read_to_string(&effects).unwrap_or_default().lines().count();
    assert!(ran <= 1, "{point}: ran {ran} times");
    match &found {
        Found::Ended(Cause::Exited) => {
            assert_eq!(ran, 1, "{point}");
            assert_eq!(bytes_of(&scene.runs.dir("run").unwrap(), Stream::Stdout), b"out\n", "{point}");
        }
        Found::Ended(cause) => assert!(!acknowledged || *cause == Cause::Cancelled, "{point}: {cause:?}"),
        Found::Lost => {
            assert!(point.starts_with("supervisor."), "{point}: a server cannot lose a run");
            if overwrites {
                // Before, nothing was said of what had been stored.
                let read = expect_numbers(&scene);
                assert!(read >= 512 || point.ends_with("before"), "{point}: the head stays: {read} bytes");
            }
        }
        Found::Nothing => {
            assert!(!acknowledged || point.starts_with("run.remove") || unnoticed, "{point}");
            assert!(acknowledged || ran == 0, "{point}");
        }
    }
    if found != Found::Nothing {
        expect_nothing_left(&scene.runs.dir("run").unwrap());
        assert_eq!(recover(&scene).await, found, "{point}: what was found stays");
        assert!(scene.runs.remove("run").unwrap(), "{point}");
    }
}

/// What is left of the output of `seq` is what it wrote there. Gives back how much that is.
fn expect_numbers(scene: &Scene) -> usize {
    let written: String = (1..=2000).map(|number| format!("{number}\n")).collect();
    let output = Output::open(&scene.runs.dir("run").unwrap(), Stream::Stdout).unwrap();
    let (mut cursor, mut read) = (0, 0);
    loop {
        let chunk = output.read(cursor, 1 << 20, Cut::Anywhere).unwrap();
        let start = usize::try_from(chunk.start).unwrap();
        assert_eq!(written.as_bytes()[start..][..chunk.bytes.len()], chunk.bytes, "at {start}");
        read += chunk.bytes.len();
        if chunk.next == cursor {
            return read;
        }
        cursor = chunk.next;
    }
}

#[tokio::test]
async fn a_crash_at_any_point_runs_nothing_twice_and_loses_nothing_acknowledged() {
    for point in CRASH_POINTS {
        crash_at(point).await;
    }
}

/// A crash point with a number is reached only the given time.
#[tokio::test]
async fn a_point_may_be_passed_before_it_kills() {
    let scene = Scene::new();
    let report = scene.file("report");
    let env =
        [("LONGHAUL_CRASH_POINT", "run.commit.after@2"), ("LONGHAUL_CRASH_REPORT", report.to_str().unwrap())];
    let steps = ["start", "commit", "commit"];
    let mut server = Server::with_env(&scene.root.path().join("runs"), "run", "echo out", &steps, &env);
    assert!(server.hear("start") && server.hear("commit") && !server.hear("commit"));
    assert!(!server.wait().success());
    let run = Run::attach(&scene.runs, "run").await.unwrap();
    assert!(end_of(&run).await.is_success());
}
