//! The pages of a server in this process, asked as browsers and scripts do.

mod entering;
mod facts;
mod following;
mod many;
mod nodes;
mod reading;
mod steps;
mod tools;
mod waiting;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, RETRY_AFTER, SET_COOKIE};
use http::{Method, Request, StatusCode};
use longhaul::auth::{Protection, StaticTokens};
use longhaul::proto::model::{CallToolResult, Content, Field, Form, Meta};
use longhaul::server::{Caller, Dispatcher, Grant, PollOptions, Principal, Scopes, TaskPolicy};
use longhaul::store::{Memory, Registry, Rerun};
use longhaul::transport::http::server::{PageBody, Pages as _};
use longhaul::{Cx, Server, Tool};
use serde_json::{Value, json};

use super::respond::Answer;
use super::{Dashboard, Facts};
use crate::admin::{Admin, new_key};
use crate::command::RunsDir;
use crate::config::Role;
use crate::fleet::Fleet;
use crate::tool::{Copies, Streams};

const HERE: &str = "127.0.0.1:8420";

/// A server, its pages, and the cookie of its operator.
struct Scene {
    dashboard: Dashboard,
    dispatcher: Dispatcher,
    registry: Arc<dyn Registry>,
    fleet: Fleet,
    runs: tempfile::TempDir,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Deploy {
    to: String,
}

/// Asks before it does anything.
async fn deploy(cx: Cx, Deploy { to }: Deploy) -> Result<String, longhaul::server::ToolError> {
    let form = Form::new()
        .with("shards", Field::integer().within(1.0, 64.0).defaulting_to(8))
        .with("go", Field::flag());
    let answer = cx.elicit_form("<b>Deploy</b> now?", form).await?;
    Ok(format!("{to}: {answer:?}<script>alert(1)</script>"))
}

impl Scene {
    async fn new() -> Self {
        Self::of(Tool::typed("deploy", "Deploys", deploy).task(TaskPolicy::always()).reentrant(true)).await
    }

    async fn of(tool: Tool) -> Self {
        Self::polled(tool, PollOptions::default()).await
    }

    async fn polled(tool: Tool, polls: PollOptions) -> Self {
        let store = Arc::new(Memory::new());
        let server = Server::new("ci", "1.0.0").store(Arc::<Memory>::clone(&store)).tool(tool).polls(polls);
        Self::serving(server, store).await
    }

    /// The pages of this server, who is let in kept in this store.
    async fn serving(server: Server, store: Arc<Memory>) -> Self {
        let dispatcher = server.dispatcher().unwrap();
        dispatcher.start().await.unwrap();
        let runs = tempfile::tempdir().unwrap();
        let registry: Arc<dyn Registry> = store;
        let dir = RunsDir::open(runs.path().join("runs")).unwrap();
        let fleet = Fleet::new(Arc::clone(&registry), dispatcher.engine().clone(), Role::Worker);
        let streams = Streams::new(dir, Copies::none());
        let admin = Admin::new(dispatcher.clone(), Arc::clone(&registry), streams, fleet.clone());
        let facts = Facts { name: "ci <1>".to_owned(), ..Facts::default() };
        Self { dashboard: Dashboard::new(admin, facts), dispatcher, registry, fleet, runs }
    }

    async fn ask(&self, request: http::request::Builder, body: &str) -> Answer {
        let request = request.header(HOST, HERE).body(Bytes::copy_from_slice(body.as_bytes())).unwrap();
        self.dashboard.answer(None, request).await
    }

    async fn as_caller(&self, caller: Caller, path: &str) -> Answer {
        let request = Request::get(path).header(HOST, HERE).body(Bytes::new()).unwrap();
        self.dashboard.answer(Some(caller), request).await
    }

    /// Sends JSON with a credential; what is answered.
    async fn post_as(&self, caller: Caller, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::post(path).header(HOST, HERE).header(CONTENT_TYPE, "application/json");
        let request = request.body(body.to_string().into()).unwrap();
        let answer = self.dashboard.answer(Some(caller), request).await;
        (answer.status(), serde_json::from_str(&text(answer).await).unwrap())
    }

    /// Opens the pages with a key.
    async fn enter(&self) -> Browser<'_> {
        let key = new_key(&*self.registry).await.unwrap();
        let answer = self.ask(Request::get(format!("/?key={key}")), "").await;
        assert_eq!(
            (answer.status(), &answer.headers()[LOCATION]),
            (StatusCode::SEE_OTHER, &"/".parse().unwrap())
        );
        let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        Browser { scene: self, cookie: cookie.split(';').next().unwrap().to_owned() }
    }
}

/// A browser that is signed in.
struct Browser<'s> {
    scene: &'s Scene,
    cookie: String,
}

impl Browser<'_> {
    async fn get(&self, path: &str) -> Answer {
        self.scene.ask(Request::get(path).header(COOKIE, &self.cookie), "").await
    }

    async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        text(answer).await
    }

    async fn submit(&self, path: &str, form: &str) -> Answer {
        let request = Request::post(path).header(COOKIE, &self.cookie);
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.scene.ask(request.header("sec-fetch-site", "same-origin"), form).await
    }

    async fn api(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(format!("/admin/api/{path}"));
        let request = request.header(COOKIE, &self.cookie).header(CONTENT_TYPE, "application/json");
        let answer = self.scene.ask(request, &body.to_string()).await;
        let status = answer.status();
        (status, serde_json::from_str(&text(answer).await).unwrap())
    }

    /// Calls the tool by its form; the path of the task.
    async fn deploy(&self) -> String {
        let called = self.submit("/tools/deploy", "a.to=stage").await;
        assert_eq!(called.status(), StatusCode::SEE_OTHER, "{}", text(called).await);
        called.headers()[LOCATION].to_str().unwrap().to_owned()
    }

    /// Asks for the page until it has the words.
    async fn until(&self, path: &str, words: &str) -> String {
        for _ in 0..2000 {
            let page = self.page(path).await;
            if page.contains(words) {
                return page;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} never has {words:?}: {}", self.page(path).await);
    }
}

async fn text(answer: Answer) -> String {
    match answer.into_body() {
        PageBody::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        PageBody::Pieces(mut pieces) => {
            let mut all = String::new();
            while let Some(piece) = pieces.recv().await {
                all += std::str::from_utf8(&piece).unwrap();
            }
            all
        }
        _ => panic!("another kind of body"),
    }
}

fn caller(name: &str, scopes: &str) -> Caller {
    let mut caller = Caller::new(Some(Principal::new(name).unwrap()));
    caller.grant = Some(Arc::new(Grant::new(Some(Scopes::parse(scopes).unwrap()), serde_json::Map::new())));
    caller
}

#[tokio::test]
async fn nobody_sees_anything_without_a_key_which_is_good_once() {
    let scene = Scene::new().await;
    for path in ["/", "/tasks/x", "/tools", "/nodes", "/connect", "/events?view=tasks", "/admin/api/tasks"] {
        let answer = scene.ask(Request::get(path), "").await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert!(!text(answer).await.contains("deploy"), "{path}");
    }
    let key = new_key(&*scene.registry).await.unwrap();
    let open = || Request::get(format!("/?key={key}"));
    let ahead = scene.ask(open().header("sec-purpose", "prefetch;prerender"), "").await;
    assert_eq!(ahead.status(), StatusCode::SERVICE_UNAVAILABLE, "a look ahead spends nothing");
    assert_eq!(scene.ask(open(), "").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(scene.ask(open(), "").await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(scene.ask(Request::get("/?key="), "").await.status(), StatusCode::UNAUTHORIZED);

    let browser = scene.enter().await;
    assert!(browser.page("/").await.contains("No tasks here"));
    let left = browser.submit("/sign-out", "").await;
    assert_eq!(left.status(), StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/").await.status(), StatusCode::UNAUTHORIZED, "the session is over");
}

#[tokio::test]
async fn every_answer_has_the_headers_that_hold_a_page_in() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    for path in [
        "/",
        "/tools",
        "/tools/deploy",
        "/nodes",
        "/connect",
        "/tasks/none",
        "/page.css",
        "/live.js",
        "/find.js",
    ] {
        let answer = browser.get(path).await;
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; ") && policy.contains("frame-ancestors 'none'"),
            "{path}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers()["referrer-policy"], "same-origin", "{path}");
        let page = text(answer).await;
        assert!(
            !page.contains("style=") && !page.contains("onclick") && !page.contains("<script>"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_page_of_somebody_elses_changes_nothing() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let form = "application/x-www-form-urlencoded";
    for (name, value) in [
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "none"),
        ("origin", "http://127.0.0.1:3000"),
        ("origin", "null"),
        ("x-nothing", "said"),
    ] {
        let request = Request::post("/tools/deploy").header(COOKIE, &browser.cookie);
        let answer = scene.ask(request.header(CONTENT_TYPE, form).header(name, value), "a.to=x").await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{name}: {value}");
    }
    for kind in ["text/plain", form, "multipart/form-data"] {
        let request = Request::post("/admin/api/tools/deploy").header(COOKIE, &browser.cookie);
        let request = request.header(CONTENT_TYPE, kind).header("sec-fetch-site", "same-origin");
        assert_eq!(scene.ask(request, "{}").await.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    assert!(browser.page("/").await.contains("No tasks here"));
}

#[tokio::test]
async fn a_task_is_begun_asked_answered_and_done_by_forms() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let place = browser.deploy().await;
    let page = browser.until(&place, "It asks").await;
    assert!(page.contains("&lt;b&gt;Deploy&lt;/b&gt; now?") && !page.contains("<b>"), "{page}");
    assert!(!page.contains("http-equiv"), "nothing takes away what is being typed: {page}");
    let list = browser.page("/").await;
    assert!(list.contains("1 needs input") && list.contains(&format!("href=\"{place}\"")), "{list}");

    let key = page.split_once("name=\"key\" value=\"").unwrap().1.split('"').next().unwrap();
    let answer = format!("{place}/answer");
    let wrong = browser.submit(&answer, &format!("key={key}&action=accept&f.shards=65&f.go=yes")).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let wrong = text(wrong).await;
    assert!(wrong.contains("does not fit") && wrong.contains("value=\"65\""), "{wrong}");
    assert!(!wrong.contains("data-follow="), "nothing takes away what was typed: {wrong}");
    assert!(page.contains("data-follow="), "{page}");
    let right = browser.submit(&answer, &format!("key={key}&action=accept&f.shards=4&f.go=yes")).await;
    assert_eq!(right.status(), StatusCode::SEE_OTHER, "{}", text(right).await);
    let done = browser.until(&place, "&lt;script&gt;").await;
    assert!(done.contains("completed") && !done.contains("<script>"), "{done}");
    let late = browser.submit(&answer, &format!("key={key}&action=accept&f.shards=4&f.go=yes")).await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
}

#[tokio::test]
async fn a_script_has_all_that_a_page_has() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    let (status, made) = browser.api(Method::POST, "tools/deploy", &json!({ "to": "prod" })).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let task = format!("tasks/{}", made["taskId"].as_str().unwrap());
    browser.until(&format!("/{task}"), "It asks").await;
    let (_, shown) = browser.api(Method::GET, &task, &Value::Null).await;
    assert_eq!((&shown["status"], &shown["arguments"]["to"]), (&json!("input_required"), &json!("prod")));
    let (_, list) = browser.api(Method::GET, "tasks?status=input", &Value::Null).await;
    assert_eq!((list["tasks"].as_array().unwrap().len(), &list["counts"]["inputRequired"]), (1, &json!(1)));
    for (odd, said) in [
        ("tasks?status=odd", "it is input, working, completed, failed or cancelled"),
        ("tasks?q=status:odd", "it is input, working, completed, failed or cancelled"),
        ("tasks?after=odd", "the `next` of the page before"),
        ("tasks?limit=odd", "`limit` is a number, from 0 on, and not `odd`"),
        ("tasks?staus=failed", "no `staus` here, but `q`, `status`, `after`, `limit`"),
        ("tools?status=failed", "no `status` here, but nothing"),
        ("nodes?after=odd", "no `after` here, but nothing"),
        (&*format!("{task}?after=1"), "no `after` here, but nothing"),
        (&*format!("{task}/output?after=odd"), "`after` is a number"),
        (&*format!("{task}/steps?after=-1"), "`after` is a number"),
        (&*format!("{task}/steps?stream=stdout"), "but `after`, `limit`"),
    ] {
        let (status, answer) = browser.api(Method::GET, odd, &Value::Null).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{odd}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(said), "{odd}: {answer}");
    }
    for odd in ["/?status=odd", "/?after=odd", "/?q=status:odd"] {
        let page = browser.get(odd).await;
        assert_eq!(page.status(), StatusCode::BAD_REQUEST, "{odd}");
        assert!(text(page).await.contains("role=\"alert\""), "{odd}");
    }
    for odd in ["/events?view=tasks&status=odd", "/events?view=tasks&q=status:odd"] {
        assert_eq!(browser.get(odd).await.status(), StatusCode::BAD_REQUEST, "{odd}");
    }
    // What is not understood leaves nothing out that is to be cancelled.
    let all = browser.submit("/cancel", "q=tool:deploy&status=odd&until=9999999999999").await;
    assert_eq!(all.status(), StatusCode::BAD_REQUEST);
    let which = json!({ "q": "tool:deploy", "status": "odd" });
    assert_eq!(browser.api(Method::POST, "cancel", &which).await.0, StatusCode::BAD_REQUEST);

    let question = &shown["questions"][0]["key"];
    let wrong = json!({ "key": question, "content": { "shards": "many" } });
    assert_eq!(browser.api(Method::POST, &format!("{task}/answer"), &wrong).await.0, StatusCode::BAD_REQUEST);
    let (status, ended) = browser.api(Method::POST, &format!("{task}/cancel"), &Value::Null).await;
    assert_eq!((status, &ended["status"]), (StatusCode::OK, &json!("cancelled")));
    assert_eq!(
        browser.api(Method::POST, &format!("{task}/cancel"), &Value::Null).await.0,
        StatusCode::CONFLICT
    );
    let (status, again) = browser.api(Method::POST, &format!("{task}/again"), &Value::Null).await;
    assert_eq!(status, StatusCode::CREATED, "{again}");
    assert_ne!(again["taskId"], made["taskId"]);
}

#[tokio::test]
async fn a_task_that_is_run_again_and_the_one_before_lead_to_each_other() {
    let mut policy = TaskPolicy::always();
    policy.rerun = Rerun::Resumable;
    let scene = Scene::of(Tool::typed("deploy", "Deploys", deploy).task(policy).reentrant(true)).await;
    let browser = scene.enter().await;
    let first = browser.deploy().await;
    assert!(browser.page(&first).await.contains("Called"));
    browser.submit(&format!("{first}/cancel"), "").await;
    let again = browser.submit(&format!("{first}/again"), "").await;
    let again = again.headers()[LOCATION].to_str().unwrap().to_owned();
    let link = |to: &str| format!("<a href=\"{to}\">");
    let page = browser.page(&again).await;
    assert!(page.contains(&format!("Run again, as {}an earlier task</a> was", link(&first))), "{page}");
    let page = browser.page(&first).await;
    assert!(page.contains(&format!("It was run again as {}", link(&again))), "{page}");
    assert!(!page.contains("Run again, as"), "{page}");
    let (_, told) = browser.api(Method::GET, &again[1..], &Value::Null).await;
    assert_eq!(told["againOfTaskId"], first["/tasks/".len()..], "{told}");
}

#[tokio::test]
async fn a_list_hides_nothing_that_waits_for_an_answer() {
    let scene = Scene::new().await;
    let browser = scene.enter().await;
    for _ in 0..3 {
        let place = browser.deploy().await;
        browser.until(&place, "It asks").await;
    }
    for limit in [0, 1, 2, 1000] {
        let (mut shown, mut after) = (HashSet::new(), String::new());
        loop {
            let (_, list) =
                browser.api(Method::GET, &format!("tasks?limit={limit}&after={after}"), &Value::Null).await;
            assert_eq!(list["counts"]["inputRequired"], 3);
            let ids = list["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].to_string());
            let ids: Vec<String> = ids.collect();
            assert_eq!(HashSet::<&String>::from_iter(&ids).len(), ids.len(), "twice on a page: {list}");
            shown.extend(ids);
            let Some(next) = list["next"].as_str() else { break };
            after = super::form::encoded(next);
        }
        assert_eq!(shown.len(), 3, "{limit} at once");
    }
}

#[tokio::test]
async fn what_a_command_took_is_how_long_it_ran() {
    async fn ran(_: Cx, _: Deploy) -> Result<CallToolResult, longhaul::server::ToolError> {
        let meta = Meta::new().with("dev.longhaul/run", &json!({ "durationMs": 7_200_000 }));
        Ok(CallToolResult::new(vec![Content::text("it ran for long")]).with_meta(meta))
    }
    let scene = Scene::of(Tool::typed("deploy", "Deploys", ran).task(TaskPolicy::always())).await;
    let browser = scene.enter().await;
    let task = browser.deploy().await;
    browser.until(&task, "it ran for long").await;
    let list = browser.page("/").await;
    assert!(list.contains("<td>2h</td>"), "{list}");
    let (_, tasks) = browser.api(Method::GET, "tasks", &Value::Null).await;
    assert_eq!(tasks["tasks"][0]["tookMs"], 7_200_000, "{tasks}");
}

#[tokio::test]
async fn what_is_asked_on_the_page_counts_as_what_is_asked_otherwise() {
    let tool = || Tool::typed("deploy", "Deploys", deploy).task(TaskPolicy::always()).reentrant(true);
    let scene = Scene::polled(tool(), PollOptions::default().in_vain(2)).await;
    let browser = scene.enter().await;
    let task = browser.deploy().await;
    let api = async |path: &str| browser.api(Method::GET, path, &Value::Null).await;
    for guess in ["tasks/none", "tasks/none/output"] {
        assert_eq!(api(guess).await.0, StatusCode::NOT_FOUND, "{guess}");
    }
    let (status, answer) = api(&task[1..]).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{answer}");
    assert!(answer["error"]["retryAfterMs"].is_u64(), "{answer}");
    let page = browser.get(&task).await;
    assert_eq!(page.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(page.headers().contains_key(RETRY_AFTER));
    assert_eq!(api("tasks").await.0, StatusCode::OK, "it asks after no task in vain");

    let scene = Scene::polled(tool(), PollOptions::default().each(1)).await;
    let browser = scene.enter().await;
    for path in ["/", "/nodes", "/admin/api/tasks"].iter().cycle().take(5) {
        assert_eq!(browser.get(path).await.status(), StatusCode::OK, "{path}");
    }
    for path in ["/", "/nodes", "/tasks/none", "/admin/api/tasks", "/admin/api/tasks/none"] {
        assert_eq!(browser.get(path).await.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
    }
}

#[tokio::test]
async fn a_caller_sees_its_own_and_an_operator_everything() {
    let tokens = StaticTokens::new();
    let tokens = tokens.token("ann", ANNS, Some(Scopes::parse("call").unwrap())).unwrap();
    let tokens = tokens.token("op", OPS, Some(Scopes::parse("call operate").unwrap())).unwrap();
    let tokens = tokens.token("all", ALLS, None).unwrap();
    let guard = Protection::new().tokens(tokens).guard().unwrap();
    let mut scene = Scene::new().await;
    let browser = scene.enter().await;
    let (place, cookie) = (browser.deploy().await, browser.cookie.clone());
    let key = new_key(&*scene.registry).await.unwrap();
    scene.dashboard = scene.dashboard.clone().guarded(guard, Some(Scopes::parse("operate").unwrap()));

    // What a key opened is shut, and no key opens it.
    let old = scene.ask(Request::get("/").header(COOKIE, cookie), "").await;
    assert_eq!(old.status(), StatusCode::UNAUTHORIZED);
    let keyed = scene.ask(Request::get(format!("/?key={key}")), "").await;
    assert_eq!((keyed.status(), keyed.headers().get(SET_COOKIE)), (StatusCode::UNAUTHORIZED, None));

    let status = async |name: &str, scopes: &str, path: &str| {
        scene.as_caller(caller(name, scopes), path).await.status()
    };
    assert_eq!(status("token:op", "call operate", &place).await, StatusCode::OK);
    let id = place.strip_prefix("/tasks/").unwrap();
    for path in [
        place.clone(),
        format!("/admin/api/tasks/{id}"),
        format!("{place}/output/parts"),
        format!("/events?view=task&id={id}"),
    ] {
        assert_eq!(status("token:ann", "call", &path).await, StatusCode::NOT_FOUND, "{path}");
    }
    let foreign =
        text(scene.as_caller(caller("token:ann", "call"), &format!("/admin/api/tasks/{id}")).await).await;
    let none = text(scene.as_caller(caller("token:ann", "call"), "/admin/api/tasks/none-1").await).await;
    assert_eq!(foreign, none, "somebody else's task cannot be told from one that never was");
    assert_eq!(status("token:ann", "call", "/nodes").await, StatusCode::FORBIDDEN);
    let list = text(scene.as_caller(caller("token:ann", "call"), "/").await).await;
    assert!(
        !list.contains(id) && !list.contains("href=\"/nodes\""),
        "no link leads to what is refused: {list}"
    );

    // A browser signs in with a token, and is as its token is.
    let sign_in = async |token: &str| {
        let request = Request::post("/sign-in").header("sec-fetch-site", "same-origin");
        scene.ask(request, &format!("token={token}")).await
    };
    assert_eq!(sign_in("odd").await.status(), StatusCode::UNAUTHORIZED);
    for is_https in [false, true] {
        let mut facts = (*scene.dashboard.facts()).clone();
        facts.is_https = is_https;
        scene.dashboard.tell(facts);
        let entered = sign_in(ANNS).await;
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap();
        assert_eq!(cookie.contains("; Secure;"), is_https, "{cookie}");
    }
    for (token, sees) in [(ANNS, false), (OPS, true), (ALLS, false)] {
        let entered = sign_in(token).await;
        assert_eq!(entered.status(), StatusCode::SEE_OTHER);
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        assert!(!cookie.contains(token));
        let browser = Browser { scene: &scene, cookie };
        assert_eq!(browser.get(&place).await.status() == StatusCode::OK, sees, "{token}");
    }
}

#[tokio::test]
async fn who_may_not_call_a_tool_may_not_run_it_again() {
    let guard = Protection::new().tokens(StaticTokens::new().token("ann", ANNS, None).unwrap());
    let mut policy = TaskPolicy::always();
    // Enough is kept of it to begin it again without a call.
    policy.rerun = Rerun::Restart;
    let tool = Tool::typed("deploy", "Deploys", deploy).task(policy).reentrant(true);
    let mut scene = Scene::of(tool.scopes(Scopes::parse("write").unwrap())).await;
    let operators = Some(Scopes::parse("operate").unwrap());
    scene.dashboard = scene.dashboard.clone().guarded(guard.guard().unwrap(), operators);
    let post = async |scopes: &str, path: &str, body: Value| {
        scene.post_as(caller("ann", scopes), &format!("/admin/api/{path}"), &body).await
    };
    let (status, made) = post("read write", "tools/deploy", json!({ "to": "stage" })).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let task = format!("tasks/{}", made["taskId"].as_str().unwrap());
    assert_eq!(post("read write", &format!("{task}/cancel"), Value::Null).await.0, StatusCode::OK);

    let (status, refused) = post("read", &format!("{task}/again"), Value::Null).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    assert_eq!(scene.dispatcher.engine().counts().await.unwrap().retained, 1, "nothing was made");
    for scopes in ["read write", "operate"] {
        let (status, again) = post(scopes, &format!("{task}/again"), Value::Null).await;
        assert_eq!(status, StatusCode::CREATED, "{again}");
    }
}

const ANNS: &str = "anns-0123456789abcdef0123456789abcdef";
const OPS: &str = "ops-0123456789abcdef0123456789abcdef";
const ALLS: &str = "alls-0123456789abcdef0123456789abcdef";
