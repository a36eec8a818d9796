//! What the pages say of tools.

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
