//! The steps of a task, on its page and for scripts.

use longhaul::server::ToolError;

use super::*;

/// Takes two steps, and one that does not end on a stage.
async fn build(cx: Cx, Deploy { to }: Deploy) -> Result<String, ToolError> {
    let fetched = async || Ok::<_, ToolError>("secret of the step".to_owned());
    cx.step("fetch <b>/one", fetched).await?;
    cx.scope("mirror").step("upload", fetched).pure().await?;
    cx.step("hang", || async move {
        if to == "stage" {
            std::future::pending::<()>().await;
        }
        Err::<(), _>(ToolError::new("secret of the failure"))
    })
    .await
    .unwrap_err();
    Ok("built".to_owned())
}

async fn scene(work: Tool) -> Scene {
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    Scene::of(work.task(policy).reentrant(true)).await
}

/// The rows of the timeline, each as its text, with a dash before those that are parts of another and a bar behind those that
/// have one.
fn rows(page: &str) -> Vec<String> {
    let timeline = page.split_once("id=\"timeline\"").unwrap().1.split_once("</section>").unwrap().0;
    let row = |row: &str| {
        let (tag, cells) = row.split_once('>').unwrap();
        let mut text = String::new();
        let mut rest = cells;
        while let Some((before, after)) = rest.split_once('<') {
            text += before;
            rest = after.split_once('>').unwrap().1;
            text += " ";
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let bar = if cells.contains("<svg") { " ▬" } else { "" };
        format!("{}{}{bar}", if tag.contains("step") { "- " } else { "" }, words.join(" "))
    };
    timeline.split("<tr").skip(2).map(row).collect()
}

/// A step as scripts are told of it, its times held against one another and taken out.
fn timed(step: &Value) -> Value {
    let mut step = step.clone();
    let members = step.as_object_mut().unwrap();
    let began = members.remove("beganAt").unwrap().as_i64().unwrap();
    if let Some(ended) = members.remove("endedAt") {
        assert!(ended.as_i64().unwrap() >= began, "{ended} {began}");
    }
    step
}

#[tokio::test]
async fn steps_stand_under_their_attempt_while_it_is_worked_on_and_when_it_has_ended() {
    let scene = scene(Tool::typed("deploy", "Builds", build)).await;
    let browser = scene.enter().await;
    let steps = async |place: &str| {
        let (status, told) = browser.api(Method::GET, &format!("{}/steps", &place[1..]), &Value::Null).await;
        assert_eq!((status, &told["recorded"], &told["next"]), (StatusCode::OK, &json!(3), &Value::Null));
        told["steps"].as_array().unwrap().iter().map(timed).collect::<Vec<_>>()
    };
    let step = |name: &str, state: &str| json!({ "name": name, "state": state, "attempt": 1 });
    let done = [step("fetch <b>/one", "recorded"), step("mirror › upload", "recorded")];

    let place = browser.deploy().await;
    let page = browser.until(&place, "hang").await;
    assert!(!page.contains("secret of"), "what was learnt is its work's alone: {page}");
    let shown = rows(&page);
    let at = shown.iter().position(|row| row.starts_with("Attempt 1")).unwrap();
    assert!(shown[at + 1].starts_with("- fetch &lt;b&gt;/one recorded "), "{shown:?}");
    assert!(shown[at + 2].starts_with("- mirror › upload recorded "), "{shown:?}");
    assert!(shown[at + 3].starts_with("- hang running "), "{shown:?}");
    assert!(shown[at..at + 4].iter().all(|row| row.ends_with(" ▬")), "{shown:?}");
    assert_eq!(steps(&place).await, [&done[..], &[step("hang", "running")]].concat());
    browser.submit(&format!("{place}/cancel"), "").await;
    let shown = rows(&browser.until(&place, "cut off").await);
    assert!(shown[at + 3].starts_with("- hang cut off"), "{shown:?}");

    let called = browser.submit("/tools/deploy", "a.to=prod").await;
    let place = called.headers()[LOCATION].to_str().unwrap().to_owned();
    let page = browser.until(&place, "built").await;
    let shown = rows(&page);
    assert!(shown.iter().any(|row| row.starts_with("- hang failed ")), "{shown:?}");
    assert!(!page.contains("secret of"), "{page}");
    assert_eq!(steps(&place).await, [&done[..], &[step("hang", "failed")]].concat());
}

#[tokio::test]
async fn of_very_many_steps_the_first_and_the_last_are_shown() {
    async fn count(cx: Cx, _: Deploy) -> Result<String, ToolError> {
        for nth in 0..1_234 {
            cx.step(("count", nth), || async move { Ok::<_, ToolError>(nth) }).pure().await?;
        }
        Ok("counted".to_owned())
    }
    let scene = scene(Tool::typed("deploy", "Counts", count)).await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    let page = browser.until(&place, "counted").await;
    let shown: Vec<String> = rows(&page).into_iter().filter(|row| row.starts_with("- ")).collect();
    assert_eq!(shown.len(), 51);
    for (at, name) in [(0, "count[0]"), (19, "count[19]"), (21, "count[1204]"), (50, "count[1233]")] {
        assert!(shown[at].starts_with(&format!("- {name} recorded ")), "{at}: {}", shown[at]);
    }
    assert_eq!(shown[20], "- … 1,184 steps between");
    let (_, link) = page.split_once("… <a href=\"/admin/api/").unwrap();
    let (rest, _) = link.split_once('"').unwrap();
    let (_, told) = browser.api(Method::GET, rest, &Value::Null).await;
    let names = |told: &Value| {
        let steps = told["steps"].as_array().unwrap();
        (steps.len(), steps[0]["name"].clone(), steps.last().unwrap()["name"].clone(), told["next"].clone())
    };
    assert_eq!(names(&told), (1000, json!("count[20]"), json!("count[1019]"), json!(1020)));
    let (_, told) =
        browser.api(Method::GET, &format!("{}/steps?after=1020&limit=5000", &place[1..]), &Value::Null).await;
    assert_eq!(names(&told), (214, json!("count[1020]"), json!("count[1233]"), Value::Null));
    let (status, _) = browser.api(Method::GET, &format!("{}/steps?after=x", &place[1..]), &Value::Null).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
