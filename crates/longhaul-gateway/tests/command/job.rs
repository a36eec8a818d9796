//! A configured command as the engine starts it and reads its end.

use std::sync::Arc;

use longhaul::store::{Json, Memory, TaskId};
use longhaul::tasks::job::{Attached, ExternalJob, JobRun};
use longhaul::tasks::report::Reporter;
use longhaul_gateway::command::{Run, Spec, State};
use longhaul_gateway::config::check;
use longhaul_gateway::tool::{CommandJob, janitor};
use serde_json::Value;
use tokio::time::timeout;

use crate::scene::{HANG, Scene, end_of, sh, soon};

fn job(scene: &Scene, lines: &str) -> CommandJob {
    let text = format!("[tools.t]\ndescription = \"d\"\n{lines}");
    let checked = check("/longhaul.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let tool = checked.config.tools.into_iter().next().unwrap();
    CommandJob::new(Arc::new(tool), scene.runs.clone())
}

async fn start(job: &CommandJob, id: &str) -> Arc<dyn JobRun> {
    let (key, arguments) = (TaskId::new(id).unwrap(), Json::parse("{}").unwrap());
    let (reporter, _reports) = Reporter::new();
    job.start(&key, &arguments, true, reporter).await.unwrap()
}

/// A server was killed, or had too much open, between the two.
#[tokio::test]
async fn a_run_prepared_for_less_is_committed_when_its_call_is_durable() {
    let scene = Scene::new();
    let go = scene.file("go");
    let script = format!("until [ -e {} ]; do sleep 0.02; done; echo ran", go.display());
    let job = job(&scene, &format!("command = [\"sh\", \"-c\", \"{script}\"]\n"));
    scene.runs.prepare("t-1", &sh(&script)).unwrap();

    let run = start(&job, "t-1").await;
    assert_eq!(scene.runs.state("t-1").unwrap(), State::Alive { committed: true });
    drop((run, job));
    std::fs::write(&go, "").unwrap();
    let exit = soon("its end", || match scene.runs.state("t-1").unwrap() {
        State::Exited(exit) => Some(exit),
        _ => None,
    });
    assert!(exit.await.is_success(), "its server's going does not end it");
}

/// As those that an earlier release has started.
#[tokio::test]
async fn a_run_that_notes_nothing_is_read_by_the_terms_of_its_tool() {
    let scene = Scene::new();
    let job = job(&scene, "command = [\"true\"]\noutput = \"json\"\n");
    let spec: Spec = sh("echo '{\"answer\":42}'");
    end_of(&Run::start(&scene.runs, "t-1", &spec).await.unwrap()).await;

    let (reporter, _reports) = Reporter::new();
    let Attached::Ended(run) = job.attach(&TaskId::new("t-1").unwrap(), true, reporter).await else {
        panic!("it is not found");
    };
    let outcome = timeout(HANG, run.outcome(true)).await.unwrap();
    let longhaul::store::Outcome::Result { value, .. } = outcome else { panic!("{outcome:?}") };
    let result: Value = serde_json::from_str(value.as_str()).unwrap();
    assert_eq!(result["structuredContent"]["answer"], 42, "{result}");
}

/// Its host was away for so long that its task was lost, and forgotten.
#[tokio::test]
async fn what_still_runs_of_a_forgotten_task_is_ended_and_what_may_become_one_is_not() {
    let scene = Scene::new();
    let job = job(&scene, "command = [\"sleep\", \"600\"]\n");
    let _forgotten = start(&job, "forgotten").await;
    let call = Run::start(&scene.runs, "call", &sh("sleep 600")).await.unwrap();
    let tidied = timeout(HANG, janitor::tidy(&Memory::new(), &scene.runs)).await.unwrap().unwrap();
    assert_eq!((tidied.ended, tidied.removed), (1, 0));
    assert!(matches!(scene.runs.state("forgotten").unwrap(), State::Exited(_)));
    assert_eq!(scene.runs.state("call").unwrap(), State::Alive { committed: false });
    call.cancel().await.unwrap();
    end_of(&call).await;
}
