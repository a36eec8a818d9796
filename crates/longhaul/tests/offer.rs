//! Prompts, resources, templates and completions, in both eras.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod host;

use host::{Host, both_eras};
use longhaul::proto::model::{
    Annotations, CallToolResult, Content, Icon, PromptArgument, PromptMessage, ResourceContents, Role,
};
use longhaul::proto::{dialect::Era, model};
use longhaul::server::{
    BuildError, Failure, Json, Prompt, Resource, ResourceTemplate, ToolFuture, ToolHandler,
};
use longhaul::{Cx, Server, Tool};
use serde_json::value::RawValue;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Review {
    /// The language it is written in.
    language: String,
    /// How many remarks at most.
    most: Option<u8>,
}

async fn review(_: Cx, Review { language, most }: Review) -> String {
    format!("Review this {language} with {} remarks.", most.unwrap_or(3))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Row {
    table: String,
    id: u64,
}

fn server() -> Server {
    let bare =
        model::Prompt::new("bare").with_description("Bare").with_argument(PromptArgument::required("x"));
    let languages = ["C", "Perl", "Python", "Rust"];
    Server::new("test", "1.0.0")
        .prompt(
            Prompt::typed("review", "Review code", review)
                .title("Review")
                .icon(Icon::new("https://example.com/r.png"))
                .meta("dev.longhaul/x", &1)
                .complete("language", move |_, typed| async move {
                    let found = languages.into_iter().filter(|name| name.starts_with(&typed.value));
                    found.map(|name| format!("{name}{}", typed.others.len())).collect::<Vec<_>>()
                }),
        )
        .prompt(Prompt::raw(bare, |_, arguments| async move {
            vec![
                PromptMessage::user(Content::text(arguments["x"].clone())),
                PromptMessage::assistant(Content::image("aGk=", "image/png")),
                PromptMessage::user(Content::resource(ResourceContents::text("a:b", "text/plain", "c"))),
            ]
        }))
        .prompt(Prompt::raw(model::Prompt::new("broken"), |_, _| async {
            Err::<String, _>(Failure::new("no"))
        }))
        .resource(Resource::text("test://static-text", "text", "words").description("Words"))
        .resource(
            Resource::blob("test://static-binary", "binary", *b"hi")
                .mime_type("image/png")
                .title("B")
                .annotations(Annotations::for_audience([Role::User]).with_priority(0.5)),
        )
        .resource(Resource::new("test://gone", "gone", |_| async { None::<String> }))
        .resource(Resource::new("test://locked", "locked", |_| async {
            std::fs::read_to_string("/nowhere/at/all")
        }))
        .resource_template(
            ResourceTemplate::typed("test://{table}/{id}", "rows", |_, Row { table, id }| async move {
                Json(json!({"table": table, "id": id}))
            })
            .description("Rows")
            .complete("table", |_, _| async { (0..130).map(|n| format!("t{n}")).collect::<Vec<_>>() }),
        )
}

async fn hosts() -> Vec<Host> {
    let mut hosts = Vec::new();
    for dialect in both_eras() {
        hosts.push(Host::new(server().dispatcher().unwrap(), dialect).await);
    }
    hosts
}

#[tokio::test]
async fn prompts_are_listed_as_their_types_describe_them() {
    for mut host in hosts().await {
        let list = host.result("prompts/list", json!({}), "ListPromptsResult").await;
        let review = &list["prompts"][0];
        let arguments = json!([
            {"name": "language", "description": "The language it is written in.", "required": true},
            {"name": "most", "description": "How many remarks at most."},
        ]);
        assert_eq!((&review["arguments"], &review["title"]), (&arguments, &json!("Review")));
        assert_eq!(review["_meta"], json!({"dev.longhaul/x": 1}));
        assert_eq!(list["prompts"][1]["name"], "bare");
    }
}

#[tokio::test]
async fn a_prompt_is_filled_in_with_what_its_arguments_say() {
    for mut host in hosts().await {
        let params = json!({"name": "review", "arguments": {"language": "Rust", "most": "7"}});
        let prompt = host.result("prompts/get", params, "GetPromptResult").await;
        let text = json!({"type": "text", "text": "Review this Rust with 7 remarks."});
        assert_eq!(prompt["messages"], json!([{"role": "user", "content": text}]));
        let params = json!({"name": "bare", "arguments": {"x": "hello", "more": "ignored"}});
        let prompt = host.result("prompts/get", params, "GetPromptResult").await;
        assert_eq!(prompt["messages"][0]["content"]["text"], "hello");
        assert_eq!(prompt["messages"][1]["role"], "assistant");
        assert_eq!(prompt["messages"][2]["content"]["resource"]["uri"], "a:b");
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_be_filled_in_says_why() {
    for mut host in hosts().await {
        let cases = [
            (json!({"name": "revue"}), -32602, "unknown prompt: revue"),
            (json!({}), -32602, "invalid params: `name` is missing"),
            (json!({"name": "review"}), -32602, "missing arguments of prompt review: `language`"),
            (json!({"name": "bare", "arguments": {}}), -32602, "missing arguments of prompt bare: `x`"),
            (
                json!({"name": "review", "arguments": {"language": "C", "most": "lots"}}),
                -32602,
                "invalid arguments: `most`: invalid value: string \\\"lots\\\", expected a whole number",
            ),
            (
                json!({"name": "bare", "arguments": {"x": 7}}),
                -32602,
                "invalid arguments: `x`: invalid type: integer `7`, expected a string",
            ),
            (json!({"name": "broken"}), -32603, "no"),
        ];
        for (params, code, message) in cases {
            let (found, words) = host.error("prompts/get", params).await;
            assert_eq!(found, code);
            assert!(words.contains(message), "{words}");
        }
    }
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    for mut host in hosts().await {
        let list = host.result("resources/list", json!({}), "ListResourcesResult").await;
        let binary = json!({
            "uri": "test://static-binary", "name": "binary", "title": "B", "mimeType": "image/png", "size": 2,
            "annotations": {"audience": ["user"], "priority": 0.5},
        });
        assert_eq!((list["resources"].as_array().unwrap().len(), &list["resources"][1]), (4, &binary));
        let templates =
            host.result("resources/templates/list", json!({}), "ListResourceTemplatesResult").await;
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "test://{table}/{id}");

        let cases = [
            ("test://static-text", json!({"mimeType": "text/plain", "text": "words"})),
            ("test://static-binary", json!({"mimeType": "image/png", "blob": "aGk="})),
            (
                "test://users/7",
                json!({"mimeType": "application/json", "text": r#"{"id":7,"table":"users"}"#}),
            ),
        ];
        for (uri, mut contents) in cases {
            contents["uri"] = uri.into();
            let read = host.result("resources/read", json!({"uri": uri}), "ReadResourceResult").await;
            assert_eq!(read["contents"], json!([contents]));
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_in_the_code_of_the_revision() {
    for mut host in hosts().await {
        let absent = if host.dialect.era() == Era::Legacy { -32002 } else { -32602 };
        for uri in ["test://nothing", "test://users/seven", "test://gone", "other:"] {
            let answer = host.ask("resources/read", json!({"uri": uri})).await;
            let expected = json!({"code": absent, "message": "resource not found", "data": {"uri": uri}});
            assert_eq!(answer["error"], expected);
        }
        let (code, words) = host.error("resources/read", json!({"uri": "test://locked"})).await;
        assert_eq!(code, -32603);
        assert!(words.contains("No such file"), "{words}");
        assert_eq!(host.error("resources/read", json!({})).await.0, -32602);
    }
}

fn completing(reference: Value, argument: &str, value: &str) -> Value {
    json!({
        "ref": reference, "argument": {"name": argument, "value": value},
        "context": {"arguments": {"other": "known"}},
    })
}

#[tokio::test]
async fn arguments_and_variables_are_completed() {
    for mut host in hosts().await {
        let prompt = json!({"type": "ref/prompt", "name": "review"});
        let template = json!({"type": "ref/resource", "uri": "test://{table}/{id}"});
        let plain = json!({"type": "ref/resource", "uri": "test://static-text"});
        let ask = completing(prompt.clone(), "language", "P");
        let found = host.result("completion/complete", ask, "CompleteResult").await;
        let expected = json!({"values": ["Perl1", "Python1"], "total": 2, "hasMore": false});
        assert_eq!(found["completion"], expected, "with what else is known");
        let ask = completing(template.clone(), "table", "");
        let many = host.result("completion/complete", ask, "CompleteResult").await;
        assert_eq!(many["completion"]["values"].as_array().unwrap().len(), 100);
        assert_eq!(
            (&many["completion"]["total"], &many["completion"]["hasMore"]),
            (&json!(130), &json!(true))
        );
        for (reference, argument) in [(prompt.clone(), "most"), (template.clone(), "id"), (plain, "x")] {
            let none =
                host.result("completion/complete", completing(reference, argument, ""), "CompleteResult");
            assert_eq!(none.await["completion"]["values"], json!([]));
        }
        let unknown = [
            (json!({"type": "ref/prompt", "name": "x"}), "x", "unknown prompt: x"),
            (json!({"type": "ref/resource", "uri": "x:"}), "x", "unknown resource: x:"),
            (prompt, "x", "unknown argument of prompt review: x"),
            (template, "x", "unknown variable of test://{table}/{id}: x"),
            (json!({"type": "ref/what"}), "x", "`ref`"),
        ];
        for (reference, argument, message) in unknown {
            let (code, words) = host.error("completion/complete", completing(reference, argument, "")).await;
            assert_eq!(code, -32602);
            assert!(words.contains(message), "{words}");
        }
    }
}

#[tokio::test]
async fn lists_come_in_pages_whose_cursors_are_held_to() {
    for dialect in both_eras() {
        let mut host = Host::new(server().page_size(3).dispatcher().unwrap(), dialect).await;
        let first = host.result("resources/list", json!({}), "ListResourcesResult").await;
        assert_eq!(first["resources"].as_array().unwrap().len(), 3);
        let params = json!({"cursor": first["nextCursor"]});
        let second = host.result("resources/list", params.clone(), "ListResourcesResult").await;
        assert_eq!(second["resources"][0]["name"], "locked");
        assert_eq!(second.get("nextCursor"), None);
        for cursor in [json!("x"), json!(7), json!("r+1")] {
            assert_eq!(host.error("resources/list", json!({"cursor": cursor})).await.0, -32602);
        }
        assert_eq!(host.error("prompts/list", params).await.0, -32602, "it is another list's");
    }
}

#[tokio::test]
async fn only_what_is_offered_is_declared_and_answered() {
    for dialect in both_eras() {
        let mut host = Host::new(Server::new("bare", "1").dispatcher().unwrap(), dialect).await;
        let methods = [
            "prompts/list",
            "prompts/get",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "completion/complete",
            "resources/subscribe",
            "subscriptions/listen",
        ];
        for method in methods {
            assert_eq!(host.error(method, json!({})).await.0, -32601, "{method}");
        }
    }
    let mut host = Host::new(server().dispatcher().unwrap(), both_eras()[1]).await;
    let discovered = host.result("server/discover", json!({}), "DiscoverResult").await;
    let expected = json!({"prompts": {}, "resources": {}, "completions": {}, "logging": {}});
    assert_eq!(discovered["capabilities"], expected);
}

#[test]
fn what_cannot_be_offered_is_refused_when_the_server_is_built() {
    let server = || Server::new("test", "1");
    let hello = || Prompt::raw(model::Prompt::new("hello"), |_, _| async { "hello" });
    let rows = |uri: &str| {
        ResourceTemplate::typed(uri, "rows", |_, Row { table, id }| async move { format!("{table}{id}") })
    };
    let text = || Resource::text("a:b", "b", "b");
    let refused = [
        server().prompt(hello()).prompt(hello()),
        server().resource(text()).resource(text()),
        server().prompt(hello().complete("x", |_, _| async { vec!["x"] })),
        server().resource_template(rows("db://{table}/{ID}")),
        server().resource_template(rows("db://{table}/{id*}")),
    ];
    let words: Vec<String> = refused.map(|server| server.dispatcher().unwrap_err().to_string()).to_vec();
    assert_eq!(
        words,
        [
            "two prompts have the name \"hello\": rename one",
            "two resources have the name \"a:b\": rename one",
            "prompt \"hello\" has no argument \"x\": check how it is spelt",
            "template \"db://{table}/{ID}\" has no argument \"id\": check how it is spelt",
            "template \"db://{table}/{id*}\" cannot be read: `{id*}`: neither `*` nor `:` can be read back",
        ]
    );
    assert!(matches!(
        server().prompt(hello()).prompt(hello()).dispatcher(),
        Err(BuildError::Duplicate { .. })
    ));
}

#[test]
fn a_tool_whose_arguments_are_no_object_is_refused_when_the_server_is_built() {
    struct Unused;
    impl ToolHandler for Unused {
        fn call(&self, _: Cx, _: &str) -> Result<ToolFuture, CallToolResult> {
            Err(CallToolResult::text("unused"))
        }
    }
    let built = |schema: &str| {
        let definition = model::Tool::new("t", RawValue::from_string(schema.to_owned()).unwrap());
        Server::new("test", "1").tool(Tool::raw(definition, Unused)).dispatcher()
    };
    for schema in ["{}", "true", r#"{"type":"string"}"#, r#"{"type":["object","null"]}"#] {
        assert!(matches!(built(schema), Err(BuildError::InputSchema { .. })), "{schema}");
    }
    assert!(built(r#"{"oneOf":[{}],"type":"object"}"#).is_ok());
}

#[test]
fn s65_no_client_is_told_to_fetch_an_icon_from_anywhere() {
    let server = || Server::new("test", "1");
    let icon = |src: &str| Icon::new(src);
    for src in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://example.com/a.png",
        "https://a:b@c.example/",
        "",
    ] {
        let tool = Tool::typed("t", "T", |_, _: Review| async { "unused" }).icon(icon(src));
        let template =
            ResourceTemplate::typed("db://{table}/{id}", "row", |_, row: Row| async move { row.table });
        let refused = [
            server().tool(tool),
            server().prompt(Prompt::raw(model::Prompt::new("p"), |_, _| async { "p" }).icon(icon(src))),
            server().resource(Resource::text("a:b", "b", "b").icon(icon(src))),
            server().resource_template(template.icon(icon(src))),
        ];
        for refused in refused {
            let refused = refused.dispatcher().unwrap_err();
            assert!(matches!(refused, BuildError::Icon { .. }), "{src}: {refused}");
        }
    }
    for src in ["data:image/png;base64,aGk=", "https://example.com/a.png", "http://localhost:3000/a.png"] {
        assert!(server().resource(Resource::text("a:b", "b", "b").icon(icon(src))).dispatcher().is_ok());
    }
}

#[tokio::test]
async fn a_method_of_ones_own_is_answered_in_every_era() {
    let server = || {
        Server::new("own", "1").method("weather/now", |_, params: Value| async move {
            let city = params["city"].as_str().ok_or_else(|| Failure::invalid("`city` is missing"))?;
            Ok::<_, Failure>(json!({"city": city, "_meta": {"dev.longhaul/x": 1}, "resultType": "ours"}))
        })
    };
    for dialect in both_eras() {
        let mut host = Host::new(server().dispatcher().unwrap(), dialect).await;
        let result = host.result("weather/now", json!({"city": "Oslo"}), "Result").await;
        assert_eq!((&result["city"], &result["_meta"]["dev.longhaul/x"]), (&json!("Oslo"), &json!(1)));
        let kind = if dialect.era() == Era::Legacy { Value::Null } else { json!("complete") };
        assert_eq!(result["resultType"], kind);
        assert_eq!(host.error("weather/now", json!({})).await.0, -32602);
        assert_eq!(host.error("weather/then", json!({})).await.0, -32601);
    }
}

#[tokio::test]
async fn r3_56_a_method_of_ones_own_has_a_name_of_its_own() {
    for taken in ["tools/list", "tasks/get", "tasks/of-ours", "notifications/tasks/of-ours"] {
        let server = Server::new("own", "1");
        let server = server.method(taken, |_, _: Value| async { Ok::<_, Failure>(json!({})) });
        assert!(matches!(server.dispatcher(), Err(BuildError::KnownMethod { .. })), "{taken}");
    }
}
