//! The tools: named and behaving as the suite asks.

use std::time::Duration;

use longhaul::proto::model::{self, CallToolResult, Content, LoggingLevel, Progress, ResourceContents};
use longhaul::server::{ToolError, ToolFuture, ToolHandler};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::samples::{PNG, WAV};

/// Every tool. The first can be called with nothing.
pub(crate) fn all() -> Vec<Tool> {
    vec![
        answering("test_simple_text", "Answer with text", || vec![Content::text("A simple text.")]),
        answering("test_image_content", "Answer with a picture", || vec![Content::image(PNG, "image/png")]),
        answering("test_audio_content", "Answer with a sound", || vec![Content::audio(WAV, "audio/wav")]),
        answering("test_embedded_resource", "Answer with a resource", || vec![embedded()]),
        answering("test_multiple_content_types", "Answer with text, a picture and a resource", || {
            vec![Content::text("Several kinds:"), Content::image(PNG, "image/png"), embedded()]
        }),
        failing(),
        reporting(),
        logging("test_tool_with_logging"),
        logging("test_logging_tool"),
        Tool::raw(schema_tool(), Nothing),
        mirroring(),
        reconnecting(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

fn answering(name: &str, description: &str, content: fn() -> Vec<Content>) -> Tool {
    Tool::typed(name, description, move |_, NoArguments {}| async move { content() })
}

fn embedded() -> Content {
    Content::resource(ResourceContents::text(
        "test://embedded-resource",
        "text/plain",
        "An embedded resource.",
    ))
}

fn failing() -> Tool {
    let fail = |_, NoArguments {}| async { Err::<(), _>(ToolError::new("this tool fails on purpose")) };
    Tool::typed("test_error_handling", "Fail", fail)
}

/// How long the tools that take steps wait between them.
const STEP: Duration = Duration::from_millis(50);

fn reporting() -> Tool {
    Tool::typed("test_tool_with_progress", "Report progress", |cx: Cx, NoArguments {}| async move {
        for done in [0.0, 50.0, 100.0] {
            cx.progress(Progress::new(done).of(100.0)).await;
            tokio::time::sleep(STEP).await;
        }
        "done"
    })
}

fn logging(name: &str) -> Tool {
    Tool::typed(name, "Send log messages", |cx: Cx, NoArguments {}| async move {
        for message in ["began", "goes on", "ends"] {
            cx.log(LoggingLevel::Info, message).await;
            tokio::time::sleep(STEP).await;
        }
        "logged"
    })
}

#[derive(Deserialize, JsonSchema)]
struct Mirrored {
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

fn mirroring() -> Tool {
    let echo = |_, Mirrored { value }| async move { value };
    Tool::typed("test_custom_header", "Say again what stands in a header, too", echo)
}

fn reconnecting() -> Tool {
    let answer = |cx: Cx, NoArguments {}| async move {
        cx.close_stream().await;
        tokio::time::sleep(STEP).await;
        "delivered to who came back"
    };
    Tool::typed("test_reconnection", "Close the stream before the answer", answer)
}

/// A tool whose schema uses what JSON Schema 2020-12 has.
fn schema_tool() -> model::Tool {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
            }
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" }
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false
    });
    let schema = serde_json::value::to_raw_value(&schema).unwrap_or_default();
    let mut tool = model::Tool::new("json_schema_2020_12_tool", schema);
    tool.description = Some("A tool described with JSON Schema 2020-12".to_owned());
    tool
}

/// Answers whatever it is called with.
struct Nothing;

impl ToolHandler for Nothing {
    fn call(&self, _cx: Cx, _arguments: &str) -> Result<ToolFuture, CallToolResult> {
        Ok(Box::pin(async { Ok(CallToolResult::text("called")) }))
    }
}
