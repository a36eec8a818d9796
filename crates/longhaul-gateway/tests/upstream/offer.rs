//! Prompts, resources and completions of other servers.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use longhaul::client::{CallOptions, Client, Error, Options};
use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::proto::method::Method;
use longhaul::proto::model::{CompletionReference, ElicitResult, LoggingLevel, Meta};
use longhaul::server::Principal;
use longhaul::service::{BoxError, Level, Next, Request, Response};
use longhaul::transport::memory;
use longhaul::{Server, Tool};
use longhaul_gateway::upstream::Seen;
use serde_json::json;
use serde_json::value::to_raw_value;
use tower_layer::layer_fn;
use tower_service::Service;

use super::rig::{Front, Heard, Nothing, ODD, as_a_program, at, both_eras, one_of_each, over_http, strange};

async fn read(client: &Client, uri: &str) -> Result<String, Code> {
    match client.read_resource(uri).await {
        Ok(read) => Ok(read.contents[0].text.clone().unwrap_or_default()),
        Err(Error::Answer(error)) => Err(error.code),
        Err(error) => panic!("{error}"),
    }
}

/// Looks at all that a server has beside tools.
async fn look_around(client: &Client, name: &str) {
    let listed = client.resources().collect().await.unwrap();
    let [today] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!((today.uri.as_str(), today.name.as_str()), ("notes://today", "today"));
    assert_eq!((today.title.as_deref(), today.mime_type.as_deref()), (Some("Today"), Some("text/x-note")));
    let templates = client.resource_templates().collect().await.unwrap();
    let templates: Vec<_> = templates.iter().map(|template| template.uri_template.as_str()).collect();
    assert!(["rows://{id}", "any://{path*}"].iter().all(|known| templates.contains(known)), "{templates:?}");
    assert_eq!(read(client, "notes://today").await.as_deref(), Ok(name));
    assert_eq!(read(client, "rows://7").await.as_deref(), Ok("row 7"));
    assert_eq!(read(client, &format!("hidden://{name}")).await.as_deref(), Ok("hidden"));
    let not_found = client.dialect().code(Code::RESOURCE_NOT_FOUND);
    for gone in ["notes://tomorrow", "rows://x", "longhaul://tasks/x/stdout"] {
        assert_eq!(read(client, gone).await, Err(not_found), "{gone}");
    }
    let prompts = client.prompts().collect().await.unwrap();
    let [greet] = &prompts[..] else { panic!("{prompts:?}") };
    assert_eq!((greet.name.as_str(), greet.title.as_deref()), ("greet", Some("A greeting")));
    assert!(greet.arguments.iter().any(|argument| argument.name == "name" && argument.required));
    let greeting = client.get_prompt("greet", &json!({"name": "ann"})).await.unwrap();
    assert_eq!(greeting.messages[0].content.as_text(), Some("Hello, ann!"));
    assert!(matches!(client.get_prompt("greet", &json!({})).await, Err(Error::Answer(_))));
    let none = BTreeMap::new();
    for (of, argument, values) in [
        (CompletionReference::prompt("greet"), ("name", "b"), ["bob"]),
        (CompletionReference::resource("rows://{id}"), ("id", "1"), ["10"]),
    ] {
        assert_eq!(client.complete(&of, argument, &none).await.unwrap().values, values);
    }
}

#[tokio::test]
async fn what_a_server_has_beside_tools_is_served_on_in_both_eras() {
    for behind in both_eras() {
        let (server, _catalogue) = one_of_each("one");
        let url = over_http(server.dispatcher().unwrap()).await;
        let front = Front::before(vec![at("one", &url, "")], behind).await;
        for revision in both_eras() {
            look_around(&front.caller(Options::default().revision(revision)).await, "one").await;
        }
        assert_eq!(front.notes(0), [""; 0]);
    }
}

#[tokio::test]
async fn a_program_is_served_on_as_a_server_over_http_is() {
    for behind in both_eras() {
        let front = Front::before(vec![as_a_program("behind", "")], behind).await;
        let heard = Heard::default();
        let client = front.caller(heard.options(LoggingLevel::Warning)).await;
        look_around(&client, "program").await;
        client.call("logs", &json!({})).await.unwrap();
        assert_eq!(heard.lines(), [r#"error Some("behind") "trouble""#], "{behind}");
        for upstream in front.upstreams.iter() {
            upstream.close().await;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_held_to_a_revision_is_spoken_to_in_that_alone() {
    let (server, _catalogue) = one_of_each("one");
    let url = over_http(server.dispatcher().unwrap()).await;
    let [legacy, modern] = both_eras();
    let held = format!("revision = \"{legacy}\"");
    for (more, program, spoken) in [("", "", modern), (&*held, &*held, legacy)] {
        let servers = vec![at("one", &url, more), as_a_program("behind", program)];
        let front = Front::before(servers, modern).await;
        for upstream in front.upstreams.iter() {
            let seen = upstream.seen().borrow().clone();
            let Seen::Listed { revision, .. } = seen else { panic!("{seen:?}") };
            assert_eq!(revision, spoken.as_str(), "{more}");
        }
        // What a server asks in the middle of a call is another matter in each era.
        let form = |_| async { ElicitResult::accepted(to_raw_value(&json!({"name": "ann"})).unwrap()) };
        let client = front.caller(Options::default().on_form(form)).await;
        let said = client.call("asks", &json!({})).await.unwrap();
        assert_eq!(said.content[0].as_text(), Some("ann"), "{more}");
        front.upstreams.close().await;
    }
}

/// Knows no method that it is asked for.
#[derive(Clone)]
struct Unknown;

impl Service<Request> for Unknown {
    type Response = Response;
    type Error = BoxError;
    type Future = Ready<Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        ready(Err(ErrorObject::new(Code::METHOD_NOT_FOUND, "no such method").into()))
    }
}

#[tokio::test]
async fn a_server_that_cannot_list_templates_has_none() {
    for behind in both_eras() {
        for (unknown, notes) in [(Method::ListResourceTemplates, 0), (Method::ListPrompts, 1)] {
            let (server, _catalogue) = one_of_each("one");
            let server = server.layer(Level::Method(unknown), layer_fn(|_: Next| Unknown));
            let url = over_http(server.dispatcher().unwrap()).await;
            let front = Front::before(vec![at("one", &url, "")], behind).await;
            assert_eq!(front.notes(0).len(), notes, "{behind}: {:?}", front.notes(0));
            let client = front.caller(Options::default()).await;
            assert_eq!(read(&client, "notes://today").await.as_deref(), Ok("one"));
        }
    }
}

#[tokio::test]
async fn what_a_server_logs_reaches_who_called_and_wants_to_read_it() {
    for behind in both_eras() {
        let (server, _catalogue) = one_of_each("one");
        let url = over_http(server.dispatcher().unwrap()).await;
        // What a task logs nobody hears whose call was answered with the task.
        let front = Front::before(vec![at("one", &url, "task = \"never\"\n")], behind).await;
        let idle = Heard::default();
        let _idle = front.caller(idle.options(LoggingLevel::Debug)).await;
        for revision in both_eras() {
            let (little, all) = (Heard::default(), Heard::default());
            let client = front.caller(little.options(LoggingLevel::Error).revision(revision)).await;
            client.call("logs", &json!({})).await.unwrap();
            let client = front.caller(all.options(LoggingLevel::Debug).revision(revision)).await;
            client.call("logs", &json!({})).await.unwrap();
            let (detail, trouble) = (r#"debug Some("one") "detail""#, r#"error Some("one") "trouble""#);
            assert_eq!(little.lines(), [trouble], "{behind} {revision}");
            assert_eq!(all.lines(), [detail, trouble], "{behind} {revision}");
        }
        assert_eq!(idle.lines(), [""; 0], "it has called nothing");
    }
}

#[tokio::test]
async fn two_servers_that_have_the_same_are_told_apart() {
    let (one, _its) = one_of_each("one");
    let (two, _theirs) = one_of_each("two");
    let (one, two) = (over_http(one.dispatcher().unwrap()).await, over_http(two.dispatcher().unwrap()).await);
    for behind in both_eras() {
        // The file says who is first, not who starts faster.
        let front = Front::before(vec![at("one", &one, ""), at("two", &two, "")], behind).await;
        let client = front.caller(Options::default()).await;
        for (tool, name) in [("who", "one"), ("two_who", "two")] {
            let said = client.call(tool, &json!({})).await.unwrap();
            assert_eq!(said.content[0].as_text(), Some(name));
        }
        let prompts = client.prompts().collect().await.unwrap();
        let prompts: Vec<_> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
        assert_eq!(prompts, ["greet", "two_greet"]);
        let greeting = client.get_prompt("two_greet", &json!({"name": "ann"})).await.unwrap();
        assert_eq!(greeting.messages[0].content.as_text(), Some("Hello, ann!"));
        // A URI is the first one's. What neither lists is found at whichever has it.
        assert_eq!(read(&client, "notes://today").await.as_deref(), Ok("one"));
        assert_eq!(read(&client, "hidden://two").await.as_deref(), Ok("hidden"));
        let notes = front.notes(1).join("\n");
        assert!(notes.contains("the prompt `greet` is served as `two_greet`"), "{notes}");
        assert!(notes.contains("`notes://today` is not served: another server has it"), "{notes}");
    }
}

#[tokio::test]
async fn an_operator_leaves_out_what_is_not_to_be_served() {
    let (one, _its) = one_of_each("one");
    let url = over_http(one.dispatcher().unwrap()).await;
    let without = "prompts = false\nresources = false\n[servers.one.tools.who]\nenabled = false\n";
    let front = Front::before(vec![at("one", &url, without)], both_eras()[1]).await;
    let client = front.caller(Options::default()).await;
    assert_eq!(client.prompts().collect().await.unwrap().len(), 0);
    assert_eq!(client.resources().collect().await.unwrap().len(), 0);
    assert!(read(&client, "notes://today").await.is_err() && read(&client, "hidden://one").await.is_err());
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "logs") && tools.iter().all(|tool| tool.name != "who"));
}

#[tokio::test]
async fn what_no_revision_has_is_passed_on_as_it_came() {
    let (one, _its) = one_of_each("one");
    let url = over_http(one.dispatcher().unwrap()).await;
    for behind in both_eras() {
        // Kept by the store, and not.
        for task in ["always", "never"] {
            let front = Front::before(vec![at("one", &url, &format!("task = {task:?}\n"))], behind).await;
            for revision in both_eras() {
                let client = front.caller(Options::default().revision(revision)).await;
                let mut result = client.call("odd", &json!({})).await.unwrap();
                result.meta = Meta::new();
                assert_eq!(serde_json::to_string(&result).unwrap(), ODD, "{behind} {revision} {task}");
            }
        }
    }
}

#[tokio::test]
async fn what_no_revision_has_of_a_definition_is_passed_on_as_it_came() {
    let (server, _its) = Server::new("strange", "1.0.0").dynamic();
    let (tool, prompt, resource, template) = strange();
    let server = server.tool(tool).prompt(prompt).resource(resource).resource_template(template);
    let url = over_http(server.dispatcher().unwrap()).await;
    let cost = |others: &Meta| others.find("cost").map(|cost| cost.get().to_owned());
    let is_its = |others: &Meta| cost(others).as_deref() == Some("1.50");
    for behind in both_eras() {
        let front = Front::before(vec![at("one", &url, "")], behind).await;
        for revision in both_eras() {
            let client = front.caller(Options::default().revision(revision)).await;
            let tools = client.list_tools().await.unwrap();
            let tool = tools.iter().find(|tool| tool.name == "strange").unwrap();
            let hints = tool.annotations.as_ref().unwrap();
            assert!(is_its(&tool.others), "{behind} {revision}: {tool:?}");
            assert_eq!(hints.title.as_deref(), Some("Strange"));
            assert_eq!(hints.others.find("calm").map(|calm| calm.get()), Some("[true]"));
            let prompts = client.prompts().collect().await.unwrap();
            assert!(is_its(&prompts[0].others), "{prompts:?}");
            assert!(prompts[0].arguments[0].others.find("kind").is_some(), "{prompts:?}");
            let resources = client.resources().collect().await.unwrap();
            assert!(is_its(&resources[0].others), "{resources:?}");
            assert!(resources[0].annotations.as_ref().unwrap().others.find("calm").is_some());
            let templates = client.resource_templates().collect().await.unwrap();
            assert!(templates.iter().any(|template| is_its(&template.others)), "{templates:?}");
        }
    }
}

#[tokio::test]
async fn who_has_given_up_a_call_is_asked_by_the_next_one() {
    // Where a question does not say to which call it belongs.
    let front = Front::before(vec![as_a_program("behind", "")], both_eras()[0]).await;
    let options = Options::default()
        .on_form(|_| async { ElicitResult::accepted(to_raw_value(&json!({"name": "ann"})).unwrap()) });
    let client = front.caller(options).await;
    let given_up = CallOptions::default().timeout(std::time::Duration::from_millis(100));
    assert!(client.call_with("endless", &json!({}), given_up).await.is_err());
    let said = client.call("asks", &json!({})).await.unwrap();
    assert_eq!(said.content[0].as_text(), Some("ann"), "{said:?}");
    for upstream in front.upstreams.iter() {
        upstream.close().await;
    }
}

#[tokio::test]
async fn what_asks_after_a_call_went_silent_is_put_to_nobody_else() {
    let mut behind = as_a_program("behind", "");
    behind.defaults.idle = Some(std::time::Duration::from_millis(200));
    let front = Front::before(vec![behind], both_eras()[0]).await;
    let of = |name: &str| memory::serve(front.dispatcher.clone(), Principal::new(name.to_owned()).unwrap());
    let ann = Client::connect_with(of("ann"), Options::default()).await.unwrap();
    let silent = ann.call("endless", &json!({})).await.unwrap();
    assert!(silent.is_error, "{silent:?}");
    // For all that can be told, it is her call that asks now.
    let options = Options::default()
        .on_form(|_| async { ElicitResult::accepted(to_raw_value(&json!({"name": "bob"})).unwrap()) });
    let bob = Client::connect_with(of("bob"), options).await.unwrap();
    let said = bob.call("asks", &json!({})).await;
    let said =
        said.map_or_else(|error| error.to_string(), |said| said.content[0].as_text().unwrap().to_owned());
    assert!(said.contains("somebody else's call was given up"), "{said}");
    for upstream in front.upstreams.iter() {
        upstream.close().await;
    }
}

#[tokio::test]
async fn a_name_is_pointed_out_that_is_longer_than_hosts_take() {
    let (fits, long) = ("f".repeat(50), "l".repeat(51));
    let tool = |name: &str| Tool::typed(name, "Its name is long", |_, Nothing {}| async { "here" });
    let server = Server::new("one", "1.0.0").tool(tool(&fits)).tool(tool(&long));
    let url = over_http(server.dispatcher().unwrap()).await;
    // What counts is what it is called here.
    for (prefix, named) in [("", vec![long.clone()]), ("p-", vec![format!("p-{fits}"), format!("p-{long}")])]
    {
        let front =
            Front::before(vec![at("one", &url, &format!("prefix = {prefix:?}\n"))], both_eras()[1]).await;
        let notes = front.notes(0);
        let of = |name: &String| {
            let note = format!("the name `{name}` is {} characters long", name.len());
            notes.iter().filter(|its| its.starts_with(&note)).count()
        };
        assert!(notes.len() == named.len() && named.iter().all(|name| of(name) == 1), "{prefix}: {notes:?}");
        let client = front.caller(Options::default()).await;
        for name in named {
            let said = client.call(&name, &json!({})).await.unwrap();
            assert_eq!(said.content[0].as_text(), Some("here"), "it is served all the same");
        }
    }
}
