//! What the client does that transcripts are held against.

use longhaul::client::{AsTask, CallOptions, Client, Error, Options, Started, Target};
use longhaul::proto::dialect::Revision;
use longhaul::proto::model::{CallToolResult, ElicitResult};
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// What it has come to.
#[derive(Serialize)]
struct Report {
    text: String,
}

/// Does what `story` names: `call` calls the tool `build`, `cancel` cancels the task that this becomes, `list` lists the tools;
/// with `answering` behind it a form is filled in that is asked meanwhile. What came of it, `report` is called with: so it shows
/// what the client made of what it was told.
///
/// # Errors
///
/// When there is no server to speak to, or it takes no report.
pub async fn act(story: &str, target: Target, revision: Revision) -> Result<(), Error> {
    let (what, answering) = story.split_once(' ').unwrap_or((story, ""));
    let mut options = Options::default().revision(revision);
    if answering == "answering" {
        options = options.on_form(|_| async { filled_in() });
    }
    let client = Client::connect_with(target, options).await?;
    let came_to = match what {
        "list" => client.list_tools().await.map(|tools| format!("{} tools", tools.len())),
        "cancel" => cancel(&client).await,
        _ => client.call("build", &json!({})).await.map(|result| words(&result)),
    };
    let report = Report { text: came_to.unwrap_or_else(|error| error.to_string()) };
    let in_place = CallOptions::default().as_task(AsTask::Never);
    client.call_with("report", &report, in_place).await.map(drop)
}

async fn cancel(client: &Client) -> Result<String, Error> {
    match client.start("build", &json!({}), CallOptions::default()).await? {
        Started::Task(task) => task.cancel().await.map(|()| "cancelled".to_owned()),
        Started::Result(result) => Ok(words(&result)),
    }
}

fn words(result: &CallToolResult) -> String {
    result.content.first().and_then(|first| first.as_text()).unwrap_or("nothing").to_owned()
}

fn filled_in() -> ElicitResult {
    let content: Box<RawValue> = to_raw_value(&json!({"go": true})).unwrap_or_default();
    ElicitResult::accepted(content)
}
