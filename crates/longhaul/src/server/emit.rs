//! Giving parts of a result before its end.

use std::sync::Arc;

use longhaul_proto::model::LoggingLevel;
use longhaul_tasks::store::{Part, PartContent};
use serde::Serialize;

use super::context::Cx;
use super::failure::in_words;
use super::tool_result::{Json, ToolError};

impl Cx {
    /// Gives a part of the result before its end: text, or a [`Json`] value. When this returns, a crash does not lose it.
    ///
    /// It makes a task of its call. Whoever owns that reads its parts while it runs, and afterwards for as long as it is
    /// kept, from any server on the store: by the resource `longhaul://tasks/ID/parts?after=N`, to which `tasks/get` and the
    /// result point, or by `task_output`. What was read says where to go on.
    ///
    /// A part is given once. In a handler that is entered again those that were given are passed over, by their number
    /// in the [scope](Self::scope) or the step in which they are given, whatever they are by then. So branches that run at
    /// the same time have a scope each, and so has what a step spawns.
    ///
    /// A caller that waits for its call is told of each part as well, where it wants log messages of the level `info`. Where
    /// a call can be no task, as in a prompt or a tool whose calls become none, that is all: nothing is kept.
    ///
    /// ```
    /// # use longhaul::{Cx, server::{Json, ToolError}};
    /// # async fn search(place: &str) -> Result<Vec<String>, std::io::Error> { Ok(vec![place.to_owned()]) }
    /// async fn find(cx: Cx, places: Vec<String>) -> Result<String, ToolError> {
    ///     let mut found = 0;
    ///     for place in &places {
    ///         let hits = cx.step("search", || search(place)).await?;
    ///         found += hits.len();
    ///         cx.emit(Json(hits)).await?;
    ///     }
    ///     Ok(format!("{found} hits"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// When the part is no JSON, or larger than a part may be; when its task has given as much as one may
    /// ([`Limits`](longhaul_tasks::store::Limits)); when its call could not become a task. Nothing of it is kept then, and
    /// the call may go on, whatever comes of it: nobody remembers, so that a handler that is entered again may be able to
    /// give what it could not before.
    pub async fn emit(&self, part: impl IntoPart) -> Result<(), ToolError> {
        let content = part.into_part()?;
        let mut is_kept = false;
        if let Some(keeper) = self.keeper() {
            if keeper.is_undoing() {
                // It was given when the handler was here before, or it never got here.
                return Ok(());
            }
            let part = Part::new(self.next_part(), content.clone());
            is_kept = keeper.give(&part).await.map_err(|error| {
                ToolError::new(format!("a part of the result is not kept: {}", in_words(&error)))
            })?;
        }
        if !is_kept || self.is_waited_for() {
            self.tell_part(&content, is_kept).await;
        }
        Ok(())
    }

    /// Tells who waits. What is kept need not be heard.
    async fn tell_part(&self, content: &PartContent, is_kept: bool) {
        let now = self.now();
        let Some(message) = now.log_message(LoggingLevel::Info, Some(LOGGER), &Shown(content)) else {
            return;
        };
        if is_kept {
            now.outlet().try_notify(message);
        } else {
            now.outlet().notify(message).await;
        }
    }
}

/// Who says so in the log messages that tell of parts.
const LOGGER: &str = "dev.longhaul/parts";

/// What can be given as a part of a result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a result",
    label = "give text, or `Json(value)` for a value that serde can write"
)]
pub trait IntoPart: Send {
    /// Turns it into the part.
    ///
    /// # Errors
    ///
    /// When it is no JSON.
    fn into_part(self) -> Result<PartContent, ToolError>;
}

impl IntoPart for PartContent {
    fn into_part(self) -> Result<PartContent, ToolError> {
        Ok(self)
    }
}

impl IntoPart for String {
    fn into_part(self) -> Result<PartContent, ToolError> {
        Ok(PartContent::Text(Arc::from(self)))
    }
}

impl IntoPart for &str {
    fn into_part(self) -> Result<PartContent, ToolError> {
        Ok(PartContent::Text(Arc::from(self)))
    }
}

impl<T: Serialize + Send> IntoPart for Json<T> {
    fn into_part(self) -> Result<PartContent, ToolError> {
        let json = serde_json::value::to_raw_value(&self.0);
        let json =
            json.map_err(|error| ToolError::new(format!("a part of the result is no JSON: {error}")))?;
        Ok(PartContent::Json(json.into()))
    }
}

/// A part as log messages carry it.
struct Shown<'p>(&'p PartContent);

impl Serialize for Shown<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            PartContent::Text(text) => serializer.serialize_str(text),
            PartContent::Json(json) => json.serialize(serializer),
        }
    }
}
