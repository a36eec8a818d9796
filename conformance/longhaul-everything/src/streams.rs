//! The tools that say something while they work.

use std::time::Duration;

use longhaul::proto::model::{LoggingLevel, Progress};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

/// Each of them.
pub(crate) fn tools() -> [Tool; 2] {
    [log(), leave()]
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Logs a message of each kind.
fn log() -> Tool {
    Tool::typed("log", "Log a message of each level", |cx: Cx, Nothing {}| async move {
        cx.log(LoggingLevel::Debug, "a detail").await;
        cx.log(LoggingLevel::Info, "a word").await;
        cx.log(LoggingLevel::Warning, &serde_json::json!({ "disk": "almost full" })).await;
        cx.log(LoggingLevel::Error, "a failure").await;
        "logged"
    })
}

/// Lets go of the connection before it goes on, where its client can come back.
fn leave() -> Tool {
    Tool::typed("leave", "Close the stream before the answer", |cx: Cx, Nothing {}| async move {
        cx.progress(Progress::new(1.0).of(3.0)).await;
        cx.close_stream().await;
        cx.progress(Progress::new(2.0).of(3.0)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        cx.progress(Progress::new(3.0).of(3.0)).await;
        "for who came back"
    })
}
