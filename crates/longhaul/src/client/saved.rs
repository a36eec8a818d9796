//! A task written down, to come back to it in another process.

use serde::{Deserialize, Serialize, Serializer};

use super::Client;
use super::error::Error;
use super::task::TaskHandle;

/// What a [`TaskHandle`] is saved as, in any format of serde's: whose task it is, and what was answered already.
///
/// Whoever reads it can come to the task, where the server knows no callers: keep it as you keep a token.
///
/// ```no_run
/// # async fn run(client: longhaul::client::Client, task: longhaul::client::TaskHandle) -> Result<(), Box<dyn std::error::Error>> {
/// use longhaul::client::SavedTask;
///
/// let text = serde_json::to_string(&task)?;
/// let saved: SavedTask = serde_json::from_str(&text)?;
/// let result = client.resume(&saved)?.wait().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SavedTask {
    /// Whose task it is: [`Client::server`].
    pub server: String,
    /// Its id.
    pub task_id: String,
    /// The tool that was called, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// When it was created, RFC 3339, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<String>,
    /// How long it is kept, in milliseconds from its creation, as its server said then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// It is one as SEP-1686 drafted them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drafted: bool,
    /// The keys of the questions that were answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
}

impl TaskHandle {
    /// What to write down to come back to the task: [`Client::resume`].
    pub fn save(&self) -> SavedTask {
        let created = self.created_as();
        SavedTask {
            server: self.client().server().to_owned(),
            task_id: self.id().to_owned(),
            tool: self.tool().map(str::to_owned),
            created_at: created.map(|task| task.created_at.clone()),
            ttl_ms: created.and_then(|task| task.ttl_ms),
            drafted: self.is_drafted(),
            answered: self.answered().keys(),
        }
    }
}

impl Serialize for TaskHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save().serialize(serializer)
    }
}

impl Client {
    /// The task that was saved. Asks nothing yet; what was answered is not asked of anybody again.
    ///
    /// # Errors
    ///
    /// [`Error::Target`] when it is another server's: an id may be all that keeps others from a task, and is not shown around.
    /// A server that has moved is asked by [`task`](Self::task). [`Error::NotOffered`] when it is a drafted one, and those cannot
    /// be asked after here.
    pub fn resume(&self, saved: &SavedTask) -> Result<TaskHandle, Error> {
        if saved.server != self.server() {
            let reason = format!("task {} is of {}", saved.task_id, saved.server);
            return Err(Error::Target { target: self.server().to_owned(), reason });
        }
        let mut task = self.task_again(&saved.task_id, saved.drafted)?;
        task.answered().note_taken(&saved.answered);
        if let Some(tool) = &saved.tool {
            task = task.of(tool);
        }
        Ok(task)
    }
}
