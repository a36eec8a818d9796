//! A server on rmcp for our client, over standard input and output: `rmcp-rig --stdio`.
//!
//! It offers what the rigs in other languages do, in the modern era and in sessions; its tasks are those of the extension.

use std::error::Error;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams,
    GetTaskResult, Implementation, InputRequest, InputRequests, InputRequiredResult, ListPromptsResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, from_value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Rig::default().serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}

#[derive(Default)]
struct Rig {
    tasks: TaskManager,
}

type Context = RequestContext<RoleServer>;

impl ServerHandler for Rig {
    fn get_info(&self) -> ServerConfig {
        let offered = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_tasks()
            .build();
        ServerConfig::new(offered).with_server_info(Implementation::new("rig", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &str, fields: Value| json!({ "name": name, "inputSchema": { "type": "object", "properties": fields } });
        let gives = |mut tool: Value, field: &str| {
            let number = json!({ "type": "object", "properties": { field: { "type": "number" } }, "required": [field] });
            tool["outputSchema"] = number;
            tool
        };
        let numbers = json!({ "a": { "type": "number" }, "b": { "type": "number" } });
        complete(json!({ "tools": [
            tool("echo", json!({ "message": { "type": "string" } })),
            gives(tool("add", numbers), "sum"),
            tool("count", json!({ "steps": { "type": "integer" } })),
            tool("fail", json!({})),
            tool("sample", json!({ "prompt": { "type": "string" } })),
            tool("ask", json!({})),
            tool("visit", json!({})),
            tool("roots", json!({})),
            gives(tool("work", json!({ "seconds": { "type": "number" } })), "worked"),
            tool("work_and_ask", json!({})),
        ] }))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
        let answer = request.input_responses.as_ref().and_then(|answers| answers.get("asked"));
        let answer = answer.map(|answer| json!(answer));
        Ok(match request.name.as_ref() {
            "echo" => said(text(&arguments["message"])),
            "add" => {
                let whole = |value: &Value| value.as_i64().unwrap_or_default();
                let sum = whole(&arguments["a"]) + whole(&arguments["b"]);
                gave(sum.to_string(), json!({ "sum": sum })).into()
            }
            "count" => count(&context, number(&arguments["steps"])).await?,
            "fail" => CallToolResult::error(vec![ContentBlock::text("failed on purpose")]).into(),
            "sample" => match answer {
                None => {
                    let asked =
                        json!({ "role": "user", "content": { "type": "text", "text": arguments["prompt"] } });
                    let params = json!({ "messages": [asked], "maxTokens": 9 });
                    asks(json!({ "method": "sampling/createMessage", "params": params }))?
                }
                Some(sampled) => {
                    said(format!("{}: {}", text(&sampled["model"]), text(&sampled["content"]["text"])))
                }
            },
            "ask" => match answer {
                None => asks(form("Who are you?"))?,
                Some(answer) => said(format!("hello {}", text(&answer["content"]["name"]))),
            },
            "visit" => match answer {
                None => {
                    let params = json!({
                        "mode": "url", "message": "Look here", "url": "https://pages.example/asked",
                        "elicitationId": "page",
                    });
                    asks(json!({ "method": "elicitation/create", "params": params }))?
                }
                Some(answer) => said(format!("visited: {}", text(&answer["action"]))),
            },
            "roots" => match answer {
                None => asks(json!({ "method": "roots/list" }))?,
                Some(answer) => said(text(&answer["roots"][0]["uri"])),
            },
            "work" => {
                let seconds = number(&arguments["seconds"]);
                self.task(move |task| Box::pin(work(task, seconds)))
            }
            "work_and_ask" => self.task(|task| Box::pin(work_and_ask(task))),
            unknown => return Err(ErrorData::invalid_params(format!("unknown tool: {unknown}"), None)),
        })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        complete(json!({ "resources": [{ "uri": TOUCHED, "name": "touched", "mimeType": "text/plain" }] }))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if request.uri != TOUCHED {
            return Err(ErrorData::invalid_params("no such resource", None));
        }
        let contents: ReadResourceResult =
            complete(json!({ "contents": [{ "uri": TOUCHED, "text": "untouched" }] }))?;
        Ok(contents.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        complete(
            json!({ "prompts": [{ "name": "greet", "arguments": [{ "name": "name", "required": true }] }] }),
        )
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let name = request.arguments.as_ref().and_then(|arguments| arguments.get("name"));
        let name = name.ok_or_else(|| ErrorData::invalid_params("whom to greet?", None))?;
        let greeting = format!("Greet {}.", text(&json!(name)));
        let message = json!({ "role": "user", "content": { "type": "text", "text": greeting } });
        let result: GetPromptResult = complete(json!({ "messages": [message] }))?;
        Ok(result.into())
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

impl Rig {
    fn task(&self, work: impl FnOnce(TaskContext) -> TaskFuture) -> CallToolResponse {
        let task = self.tasks.spawn(TaskOptions::new().with_poll_interval_ms(50), work);
        CallToolResponse::Task(CreateTaskResult::new(task))
    }
}

async fn work(task: TaskContext, seconds: f64) -> Result<CallToolResult, TaskExit> {
    task.set_status_message("half of it");
    tokio::select! {
        () = task.cancelled() => Err(TaskExit::Cancelled),
        () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {
            Ok(gave(format!("worked {seconds} s"), json!({ "worked": seconds })))
        }
    }
}

async fn work_and_ask(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let asked: InputRequest = read(form("Who is working?"))?;
    let answer = task.request_input("who", asked).await?;
    let name = text(&answer["content"]["name"]);
    Ok(CallToolResult::success(vec![ContentBlock::text(format!("{name} worked"))]))
}

async fn count(context: &Context, steps: f64) -> Result<CallToolResponse, ErrorData> {
    let token = context.meta.get_progress_token();
    let mut step = 0.0;
    while step < steps {
        step += 1.0;
        tokio::select! {
            () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        if let Some(token) = &token {
            let progress = ProgressNotificationParam::new(token.clone(), step).with_total(steps);
            let told = context.peer.notify_progress(progress).await;
            told.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        }
    }
    Ok(said(format!("counted to {steps}")))
}

/// The resource that there is.
const TOUCHED: &str = "rig://touched";

fn form(message: &str) -> Value {
    let schema =
        json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    json!({ "method": "elicitation/create", "params": params })
}

/// Asks before it answers: the call is to be made again.
fn asks(question: Value) -> Result<CallToolResponse, ErrorData> {
    let mut questions = InputRequests::new();
    questions.insert("asked".to_owned(), read(question)?);
    Ok(InputRequiredResult::new(Some(questions), Some("asked".to_owned())).into())
}

fn said(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}

fn gave(text: String, structure: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structure);
    result
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// A result that its JSON says.
fn complete<T: serde::de::DeserializeOwned>(mut json: Value) -> Result<T, ErrorData> {
    json["resultType"] = "complete".into();
    read(json)
}

/// What its JSON says.
fn read<T: serde::de::DeserializeOwned>(json: Value) -> Result<T, ErrorData> {
    from_value(json).map_err(|error| ErrorData::new(ErrorCode::INTERNAL_ERROR, error.to_string(), None))
}
