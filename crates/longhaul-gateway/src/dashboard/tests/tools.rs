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

/// Inputs of every kind, each of them secret.
const SECRET: &str = r#"
    input.token = { secret = true }
    input.pin = { secret = true, type = "integer" }
    input.words = { secret = true, type = "array" }
    input.scene = {}
    start.body = { token = "{token}", pin = "{pin}", words = "{words}", scene = "{scene}" }
"#;

#[tokio::test]
async fn what_is_secret_is_typed_as_a_password_and_shown_to_nobody() {
    let configured = JOB
        .replace("    id = ", &format!("{SECRET}\n    id = "))
        .replace("[jobs.deploy.start]\n    url", "start.url");
    let config = check("/longhaul.toml", &configured).unwrap_or_else(|mistakes| panic!("{mistakes}")).config;
    let store = Arc::new(Memory::new());
    let jobs = Jobs::new(Arc::<Memory>::clone(&store), store as Arc<dyn TaskStore>, Tokens::default());
    let scene = Scene::of(job_tool(&jobs.put(&config.jobs[0]).unwrap())).await;
    let browser = scene.enter().await;
    let page = browser.page("/tools/deploy").await;
    let field = |page: &str, name: &str| {
        let (before, after) = page.split_once(&format!("name=\"a.{name}\"")).expect(name);
        let tag = format!("{}{}", before.rsplit_once('<').unwrap().1, after.split_once('>').unwrap().0);
        (
            tag.contains("type=\"password\"") || tag.contains("class=\"secret\""),
            tag.contains("autocomplete=\"off\""),
        )
    };
    for (name, is_secret) in [("token", true), ("pin", true), ("words", true), ("scene", false)] {
        assert_eq!(field(&page, name), (is_secret, is_secret), "{name}: {page}");
    }
    // What was typed is shown again where something is wrong, but for this.
    let wrong =
        browser.submit("/tools/deploy", "a.token=hunter2&a.pin=hunter2&a.words=hunter2&a.scene=sea").await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let wrong = text(wrong).await;
    assert!(wrong.contains("value=\"sea\"") && !wrong.contains("hunter2"), "{wrong}");

    // A function's schema may say so as well.
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct SignIn {
        to: String,
        #[schemars(extend("writeOnly" = true))]
        token: String,
        #[schemars(extend("format" = "password"))]
        pin: String,
    }
    async fn sign_in(_: Cx, SignIn { to, token, pin }: SignIn) -> Result<String, ToolError> {
        Ok(format!("{to}, {} letters", token.len() + pin.len()))
    }
    let sign_in = Tool::typed("deploy", "Deploys", sign_in).task(TaskPolicy::always());
    let scene = Scene::of(sign_in.reentrant(true)).await;
    let browser = scene.enter().await;
    let made = browser.submit("/tools/deploy", "a.to=stage&a.token=hunter2&a.pin=hunter3").await;
    let place = made.headers()[LOCATION].to_str().unwrap().to_owned();
    let page = browser.until(&place, "stage, 14 letters").await;
    let (_, told) = browser.api(Method::GET, &place[1..], &Value::Null).await;
    let (_, list) = browser.api(Method::GET, "tasks", &Value::Null).await;
    for shown in [page, told.to_string(), list.to_string(), browser.page("/").await] {
        assert!(!shown.contains("hunter"), "{shown}");
    }
    assert_eq!(told["arguments"], json!({ "to": "stage", "token": "[hidden]", "pin": "[hidden]" }));
}

/// Is done at once.
async fn quick(_: Cx, Deploy { to }: Deploy) -> Result<String, ToolError> {
    Ok(to)
}

#[tokio::test]
async fn a_call_that_fails_at_once_leaves_what_was_filled_in() {
    async fn lost(_: Cx, Deploy { to }: Deploy) -> Result<String, ToolError> {
        Err(ToolError::new(format!("nobody knows {to}")))
    }
    let scene = Scene::of(Tool::typed("deploy", "Deploys", lost)).await;
    let failed = scene.enter().await.submit("/tools/deploy", "a.to=sea").await;
    assert_eq!(failed.status(), StatusCode::OK);
    let page = text(failed).await;
    assert!(page.contains("nobody knows sea") && page.contains("value=\"sea\""), "{page}");
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
