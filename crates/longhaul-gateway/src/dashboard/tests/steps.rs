//! The steps of a task, on its page and for scripts.

use longhaul::server::ToolError;
use longhaul::store::{Json, Owner, Reply, Scope, TaskId};

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

#[tokio::test]
async fn a_question_that_was_answered_says_by_whom_and_not_what() {
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    let scene = scene_of_questions(policy).await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    let (id, engine) = (TaskId::new(&place["/tasks/".len()..]).unwrap(), scene.dispatcher.engine());
    browser.until(&place, "It asks").await;
    let record = engine.find(Scope::Operator, &id).await.unwrap().unwrap();
    let Owner::Principal(owner) = &record.owner else { panic!("whose is it?") };
    let answer = json!({ "action": "accept", "content": { "to": "secret of the answer" } });
    let answer = Json::parse(answer.to_string()).unwrap();
    let reply = Reply::new(Arc::clone(&record.questions[0].key), answer);
    engine.answer(Scope::Owner(&record.owner), &id, &[reply]).await.unwrap();
    // The next one is asked, and answered on its page.
    let page = browser.until(&place, "waits for an answer").await;
    let (_, key) = page.split_once("name=\"key\" value=\"").unwrap();
    let key = key.split_once('"').unwrap().0;
    let form = format!("key={key}&action=accept&f.to=secret+of+the+operator");
    assert_eq!(browser.submit(&format!("{place}/answer"), &form).await.status(), StatusCode::SEE_OTHER);
    let page = browser.until(&place, "asked twice").await;
    let shown = rows(&page);
    for (name, by) in [("elicit", owner.as_str()), ("second", "the operator")] {
        let told = format!("- Question {name} answered by {by} ");
        let says_when = |row: &String| row.contains(" ago") || row.contains("just now");
        assert!(shown.iter().any(|row| row.starts_with(&told) && says_when(row)), "{told}: {shown:?}");
    }
    assert!(!page.contains("secret of"), "{page}");
    let (_, told) = browser.api(Method::GET, &format!("{}/steps", &place[1..]), &Value::Null).await;
    let of = |nth: usize| (told["steps"][nth]["state"].clone(), told["steps"][nth]["answeredBy"].clone());
    assert_eq!(of(0), (json!("answered"), json!(owner.as_str())), "{told}");
    assert_eq!(of(1), (json!("answered"), json!("the operator")), "{told}");
}

/// A server whose tool asks twice.
async fn scene_of_questions(policy: TaskPolicy) -> Scene {
    async fn ask(cx: Cx, _: Deploy) -> Result<String, ToolError> {
        let form = || Form::new().with("to", Field::text());
        cx.elicit_form("Where?", form()).await?;
        cx.elicit_form("Really?", form()).key("second").await?;
        Ok("asked twice".to_owned())
    }
    Scene::of(Tool::typed("deploy", "Asks", ask).task(policy).reentrant(true)).await
}
