//! What the pages say of tools.

use longhaul::server::ToolError;
use longhaul::store::TaskStore;

use super::*;
use crate::config::check;
use crate::http_job::{Jobs, Tokens};
use crate::tool::job_tool;

/// A job of an API that nobody calls here.
const JOB: &str = r#"
    [jobs.deploy]
    description = "Renders a scene"
    task = "after 3s"
    limit = 2
    id = "/id"
    [jobs.deploy.start]
    url = "https://renderer.example/jobs"
    [jobs.deploy.status]
    url = "https://renderer.example/jobs/{job}"
    state = "/state"
    done = "ok"
"#;

/// Is done at once.
async fn quick(_: Cx, Deploy { to }: Deploy) -> Result<String, ToolError> {
    Ok(to)
}

#[tokio::test]
async fn what_a_tool_has_done_lately_is_told_with_it() {
    let quick = Tool::typed("deploy", "Deploys", quick);
    let scene = Scene::of(quick.task(TaskPolicy::always()).reentrant(true)).await;
    let browser = scene.enter().await;
    assert!(browser.page("/tools").await.contains("no tasks"));
    assert!(!browser.page("/tools/deploy").await.contains("Its latest tasks"));
    for _ in 0..7 {
        let place = browser.deploy().await;
        browser.until(&place, "completed").await;
    }
    let list = browser.page("/tools").await;
    let (_, lately) = list.split_once("<a href=\"/?q=tool%3Adeploy\">7 tasks</a>, the latest ").expect(&list);
    assert!(lately.contains("; median "), "{lately}");
    let page = browser.page("/tools/deploy").await;
    assert_eq!(page.matches("<a href=\"/tasks/deploy-").count(), 5, "{page}");
    let (_, told) = browser.api(Method::GET, "tools", &Value::Null).await;
    let runs = &told["tools"][0]["runs"];
    assert_eq!(runs["tasks"], 7, "{told}");
    assert!(runs["medianMs"].as_u64().is_some_and(|median| median < 60_000), "{told}");
    assert!(runs["latestMsAgo"].is_u64(), "{told}");
}

#[tokio::test]
async fn what_becomes_of_calls_is_told_of_jobs_and_functions_too() {
    let config = check("/longhaul.toml", JOB).unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
    let store = Arc::new(Memory::new());
    let jobs = Jobs::new(Arc::<Memory>::clone(&store), store as Arc<dyn TaskStore>, Tokens::default());
    let job = job_tool(&jobs.put(&config.jobs[0]).unwrap());
    let of = |policy| Tool::typed("deploy", "Deploys", deploy).task(policy).reentrant(true);
    let (mut once, mut again) = (TaskPolicy::always(), TaskPolicy::always());
    (once.rerun, again.rerun) = (Rerun::Never, Rerun::Resumable);
    again.limit = Some(7);
    for (tool, told) in [
        (job, "after 3s; goes on if this server dies, 2 at once"),
        (Tool::typed("deploy", "Deploys", deploy).task(once), "at once; is lost if this server dies"),
        (of(again), "at once; goes on from its last step if this server dies, 7 at once"),
    ] {
        let scene = Scene::of(tool).await;
        let browser = scene.enter().await;
        let list = browser.page("/tools").await;
        assert!(list.contains(&format!("<td>{told}</td>")), "{told}: {list}");
        let page = browser.page("/tools/deploy").await;
        assert!(page.contains(&format!("as a task: {told}")), "{told}: {page}");
    }
}
