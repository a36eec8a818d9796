//! What is written in each revision is what the schema of that revision says.

#![expect(clippy::unwrap_used, reason = "what fails to unwrap fails the test")]

use std::sync::LazyLock;

use longhaul_proto::dialect::{Dialect, ResultWriter, Revision};
use longhaul_proto::jsonrpc::RequestId;
use longhaul_proto::model::{
    Annotations, CacheScope, CallToolResult, ClientCapabilities, Completion, Content, CreateMessageParams,
    ElicitForm, ElicitParams, ElicitUrl, Field, Form, GetPromptResult, Icon, Implementation, InputRequest,
    Meta, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource, ResourceContents,
    ResourceLink, ResourceTemplate, Role, SamplingMessage, ServerCapabilities, Tool, ToolAnnotations,
    ToolChoice,
};
use longhaul_test::transcript::Book;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The schema that its authors published with a revision.
struct Schema(Revision);

impl Schema {
    #[track_caller]
    fn check(&self, definition: &str, value: &Value) {
        static BOOK: LazyLock<Book> = LazyLock::new(|| Book::load().unwrap());
        BOOK.check_as(self.0.as_str(), definition, value).unwrap();
    }
}

fn dialects() -> impl Iterator<Item = (&'static Dialect, Schema)> {
    Revision::ALL.into_iter().map(|revision| (Dialect::of(revision), Schema(revision)))
}

fn result(dialect: &'static Dialect, write: impl FnOnce(&mut ResultWriter<'_>)) -> Value {
    let mut out = Vec::new();
    dialect.write_result(&mut out, &RequestId::from(1), r#"{"name":"s","version":"1"}"#, write);
    serde_json::from_slice::<Value>(&out).unwrap()["result"].take()
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

/// A tool that says all there is to say of a tool.
fn tool() -> Tool {
    let mut tool = Tool::new("t", raw(r#"{"type":"object"}"#));
    tool.title = Some("T".to_owned());
    tool.output_schema = Some(raw(r#"{"type":"object"}"#));
    tool.annotations = Some(ToolAnnotations::default());
    tool.icons = vec![Icon::new("https://example.com/t.png").with_size("any")];
    tool.meta = Meta::new().with("dev.longhaul/x", &1);
    tool
}

fn blocks() -> Vec<Content> {
    let annotations = Annotations::for_audience([Role::User]).with_priority(7.0);
    vec![
        Content::text("words").with_annotations(annotations),
        Content::image("aGk=", "image/png"),
        Content::audio("aGk=", "audio/wav"),
        ResourceLink::new("file:///a", "a").with_description("A").into(),
        Content::resource(ResourceContents::text("file:///a", "text/plain", "a")),
    ]
}

fn list<T>(
    dialect: &'static Dialect,
    name: &str,
    items: &[T],
    write: impl Fn(&Dialect, &T, &mut Vec<u8>),
) -> Value {
    result(dialect, |out| {
        out.list(name, items, write);
        out.cacheable(1, CacheScope::Private);
    })
}

#[test]
fn lists_are_what_their_schema_says() {
    for (dialect, schema) in dialects() {
        let mut resource = Resource::new("file:///a", "a").with_title("A").with_mime_type("text/plain");
        resource.annotations = Some(Annotations::for_audience([Role::Assistant]));
        resource.size = Some(3);
        let template = ResourceTemplate::new("file:///{a}", "a").with_title("A");
        let prompt = Prompt::new("p")
            .with_argument(PromptArgument::required("x"))
            .with_argument(PromptArgument::optional("y"));
        let templates = list(dialect, "resourceTemplates", &[template], Dialect::write_resource_template);
        let tools = list(dialect, "tools", &[tool()], Dialect::write_tool);
        schema.check("ListToolsResult", &tools);
        schema.check("ListResourceTemplatesResult", &templates);
        schema
            .check("ListResourcesResult", &list(dialect, "resources", &[resource], Dialect::write_resource));
        schema.check("ListPromptsResult", &list(dialect, "prompts", &[prompt], Dialect::write_prompt));

        let has = |member: &str| tools["tools"][0].get(member).is_some();
        assert_eq!(has("title"), dialect.titles());
        assert_eq!(has("outputSchema"), dialect.structures_results());
        assert_eq!(has("annotations"), dialect.annotates_tools());
        assert_eq!(has("icons"), dialect.shows_icons());
    }
}

#[test]
fn a_member_of_any_kind_leaves_a_tool_valid() {
    let mut tool = Tool::new("t", raw(r#"{"type":"object","properties":{"any":true,"none":false}}"#));
    tool.output_schema = Some(tool.input_schema.clone());
    for (dialect, schema) in dialects() {
        schema.check("ListToolsResult", &list(dialect, "tools", &[tool.clone()], Dialect::write_tool));
    }
}

#[test]
fn content_that_a_revision_lacks_is_said_in_words() {
    for (dialect, schema) in dialects() {
        let value = result(dialect, |out| CallToolResult::new(blocks()).write(out));
        schema.check("CallToolResult", &value);
        let content = value["content"].as_array().unwrap();
        let kinds: Vec<&str> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
        let expected = match dialect.revision().as_str() {
            "2024-11-05" => ["text", "image", "text", "text", "resource"],
            "2025-03-26" => ["text", "image", "audio", "text", "resource"],
            _ => ["text", "image", "audio", "resource_link", "resource"],
        };
        assert_eq!(kinds, expected, "{}", dialect.revision());
        if !dialect.has_audio() {
            assert_eq!(content[2]["text"], "[sound: audio/wav, 2 bytes]");
        }
        if !dialect.links_resources() {
            assert_eq!(content[3]["text"], "[resource: a, file:///a]\nA");
        }

        let messages = blocks().into_iter().map(PromptMessage::user).collect();
        let prompt = result(dialect, |out| GetPromptResult::new(messages).with_description("d").write(out));
        schema.check("GetPromptResult", &prompt);
    }
}

#[test]
fn a_result_without_words_says_its_structure_where_results_have_none() {
    for (dialect, schema) in dialects() {
        let answer = CallToolResult::new(Vec::new()).with_structured(raw(r#"{"n":1}"#));
        let value = result(dialect, |out| answer.write(out));
        schema.check("CallToolResult", &value);
        if dialect.structures_results() {
            assert_eq!((&value["structuredContent"], &value["content"]), (&json!({"n": 1}), &json!([])));
        } else {
            assert_eq!(value["content"], json!([{"type": "text", "text": r#"{"n":1}"#}]));
            assert_eq!(value.get("structuredContent"), None);
        }
    }
}

#[test]
fn what_a_server_says_of_itself_is_what_its_schema_says() {
    let mut offer = ServerCapabilities::default().with_tools(true).with_resources(true).with_logging(true);
    (offer.prompts, offer.completions, offer.list_changes, offer.resource_updates) = (true, true, true, true);
    offer.tasks = true;
    offer.extensions = Meta::new().with("dev.example/x", &json!({"y": 1}));
    let mut info = Implementation::new("s", "1");
    info.title = Some("S".to_owned());
    info.icons = vec![Icon::new("https://example.com/s.png")];
    for (dialect, schema) in dialects() {
        let words = Some("use it");
        let (definition, value) = if dialect.asks_by_request() {
            ("InitializeResult", result(dialect, |out| dialect.write_initialize(out, &offer, &info, words)))
        } else {
            ("DiscoverResult", result(dialect, |out| dialect.write_discover(out, &offer, words)))
        };
        schema.check(definition, &value);
        let offered = &value["capabilities"];
        assert_eq!(offered["resources"], json!({"subscribe": true, "listChanged": true}));
        assert_eq!(offered.get("completions").is_some(), dialect.declares_completions());
        assert_eq!(offered.get("tasks").is_some(), dialect.asks_for_tasks());
        let extensions = json!({"io.modelcontextprotocol/tasks": {}, "dev.example/x": {"y": 1}});
        assert_eq!(offered.get("extensions"), dialect.has_extensions().then_some(&extensions));
    }
}

#[test]
fn reads_and_completions_are_what_their_schema_says() {
    for (dialect, schema) in dialects() {
        let read = ReadResourceResult::fresh(ResourceContents::blob("file:///a", "image/png", "aGk="));
        schema.check("ReadResourceResult", &result(dialect, |out| read.write(out)));
        let completion = Completion::new(["a", "b"]);
        schema.check("CompleteResult", &result(dialect, |out| completion.write(out)));
    }
}

fn able() -> ClientCapabilities {
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}});
    serde_json::from_value(all).unwrap()
}

fn form(form: Form) -> InputRequest {
    InputRequest::Elicit(ElicitParams::Form(ElicitForm::new("well?", form)))
}

#[test]
fn questions_are_what_their_schema_says_or_are_not_asked() {
    let fields = Form::new()
        .with("name", Field::text().defaulting_to("John"))
        .with("one", Field::choice(["x"]))
        .with("named", Field::named_choice([("a", "A")]))
        .with_optional("age", Field::integer().within(0.0, 150.0))
        .with_optional("sure", Field::flag().defaulting_to(true));
    let many = Form::new().with("many", Field::named_choices([("a", "A")]));
    let page = ElicitParams::Url(ElicitUrl::new("go", "https://example.com/", "e1"));
    let plain =
        CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10).with_system_prompt("be brief");
    let tools = CreateMessageParams::new(vec![SamplingMessage::user("hi")], 10);
    let tools = tools.with_tools(vec![tool()], ToolChoice::Required);
    let questions = [
        (form(fields), "ElicitRequest", "2025-06-18"),
        (form(many), "ElicitRequest", "2025-11-25"),
        (InputRequest::Elicit(page), "ElicitRequest", "2025-11-25"),
        (InputRequest::Sample(Box::new(plain)), "CreateMessageRequest", "2024-11-05"),
        (InputRequest::Sample(Box::new(tools)), "CreateMessageRequest", "2025-11-25"),
        (InputRequest::ListRoots, "ListRootsRequest", "2024-11-05"),
    ];
    for (dialect, schema) in dialects() {
        for (question, definition, since) in &questions {
            let refused = question.check(dialect, &ClientCapabilities::default()).unwrap_err();
            assert_eq!(refused.code.0, -32021);
            let asked = question.check(dialect, &able());
            assert_eq!(asked.is_ok(), dialect.revision().as_str() >= *since, "{question:?}");
            if asked.is_err() {
                continue;
            }
            let mut out = Vec::new();
            if dialect.asks_by_request() {
                dialect.write_question(&mut out, &RequestId::from(1), question);
            } else {
                dialect.write_input_request(&mut out, question);
            }
            schema.check(definition, &serde_json::from_slice(&out).unwrap());
        }
    }
}

#[test]
fn names_of_choices_stand_apart_where_the_revision_has_them_so() {
    let question = form(Form::new().with("named", Field::named_choice([("a", "A")])));
    for (dialect, _) in dialects().filter(|(dialect, _)| question.check(dialect, &able()).is_ok()) {
        let mut out = Vec::new();
        dialect.write_input_request(&mut out, &question);
        let written: Value = serde_json::from_slice(&out).unwrap();
        let field = &written["params"]["requestedSchema"]["properties"]["named"];
        let expected = if dialect.names_choices() {
            json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]})
        } else {
            json!({"type": "string", "enum": ["a"], "enumNames": ["A"]})
        };
        assert_eq!(*field, expected, "{}", dialect.revision());
    }
}

#[test]
fn a_result_that_asks_is_of_its_own_type() {
    let (modern, name) = (Dialect::newest_modern(), "InputRequiredResult");
    let questions = [
        ("who".to_owned(), InputRequest::Elicit(ElicitParams::Form(ElicitForm::new("Who?", Form::new())))),
        ("roots".to_owned(), InputRequest::ListRoots),
    ];
    let written = result(modern, |out| out.input_required(&questions, "sealed"));
    Schema(modern.revision()).check(name, &written);
    assert_eq!(
        (&written["resultType"], &written["requestState"]),
        (&json!("input_required"), &json!("sealed"))
    );
    assert_eq!(written["inputRequests"]["roots"]["method"], "roots/list");
    assert_eq!(written["inputRequests"]["who"]["params"]["message"], "Who?");
}

#[test]
fn an_answer_that_is_none_is_refused_in_words() {
    for (dialect, _) in dialects() {
        let said = dialect.read_call("3").unwrap_err().message;
        assert!(said.contains("expected the result of a call"), "{said}");
    }
}

#[test]
fn what_is_said_of_a_task_besides_is_read() {
    let parts = json!({"uri": "longhaul://tasks/t1/parts", "total": 3});
    let time = "2026-11-20T10:00:00Z";
    let task = json!({
        "taskId": "t1", "status": "working", "createdAt": time, "lastUpdatedAt": time,
        "ttl": null, "ttlMs": null, "_meta": {"dev.longhaul/parts": parts},
    });
    for (dialect, _) in dialects() {
        let read = dialect.read_task(&task.to_string()).unwrap();
        let said = read.meta.find("dev.longhaul/parts").expect("it is there").get();
        assert_eq!(serde_json::from_str::<Value>(said).unwrap(), parts);
    }
}
