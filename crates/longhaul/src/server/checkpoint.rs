//! Checkpoints: the state of a loop, in the place of all that its rounds have recorded.

use std::fmt;
use std::ops::{Deref, DerefMut};

use longhaul_tasks::journal::{Fingerprint, Known};
use longhaul_tasks::runner::StepError;
use longhaul_tasks::store::{Json, Step, StepState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::Cx;
use super::step::fingerprint;
use super::tool_result::ToolError;

impl Cx {
    /// The state of a loop, which begins as `init`; or, in a handler that is entered again, as it was
    /// [saved](Checkpoint::save) last.
    ///
    /// A round does what it does in steps, changes the state, and saves it. Saving puts the state in the place of all
    /// that was recorded in this scope since, so that a loop of any length takes no more room than one round. A
    /// round that a crash has cut off is made again, and finds its own steps.
    ///
    /// What depends on nothing but the state belongs into the loop; what is made before it stays recorded.
    ///
    /// ```
    /// # use longhaul::{Cx, server::ToolError};
    /// # async fn copy(row: u64) -> Result<u64, std::io::Error> { Ok(row) }
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Copied {
    ///     rows: u64,
    ///     bytes: u64,
    /// }
    ///
    /// async fn import(cx: Cx, rows: u64) -> Result<String, ToolError> {
    ///     let mut copied = cx.checkpointed(Copied { rows: 0, bytes: 0 }).await;
    ///     while copied.rows < rows {
    ///         copied.bytes += cx.step("copy", || copy(copied.rows)).await?;
    ///         copied.rows += 1;
    ///         copied.save().await?;
    ///     }
    ///     Ok(format!("{} bytes", copied.bytes))
    /// }
    /// ```
    ///
    /// A state that can no longer be read as an `S` ends the call, as such a [step](Self::step) does.
    pub async fn checkpointed<S: DeserializeOwned + Send>(&self, init: S) -> Checkpoint<S> {
        let key = self.reserve("checkpoint");
        let (round, state) = match self.saved(&key) {
            Ok(Some(saved)) => (saved.round, saved.state),
            Ok(None) => (1, init),
            Err(error) => self.end(error).await,
        };
        let this = Checkpoint { cx: self.clone(), key, round, state };
        this.cx.current_scope().enter(&this.prefix(round));
        this
    }

    fn saved<S: DeserializeOwned>(&self, key: &str) -> Result<Option<Saved<S>>, StepError> {
        let read = |json: &Json| serde_json::from_str::<Saved<S>>(json.as_str());
        match self.keeper().filter(|keeper| keeper.is_entered_again()) {
            Some(keeper) => match keeper.find(key, of())? {
                Some(StepState::Learnt { value, .. }) => {
                    read(&value).map(Some).map_err(|why| keeper.changed(key, why))
                }
                _ => Ok(None),
            },
            None => Ok(match self.interview().known(key, of()) {
                Known::Learnt(json) => read(&json).ok(),
                _ => None,
            }),
        }
    }
}

/// The state of a loop: [`Cx::checkpointed`].
#[must_use = "a state that is not saved is lost with its process"]
pub struct Checkpoint<S> {
    cx: Cx,
    key: String,
    /// Which round this is, from 1 on: it stands in the keys of the round's steps, and so in those of their effects.
    round: u64,
    state: S,
}

impl<S: Serialize + Send + Sync> Checkpoint<S> {
    /// Ends the round: when this returns, a crash does not lose the state, and what the round has recorded is gone.
    ///
    /// No step or question that was made since may still be under way. What the round did is no longer
    /// [undone](super::StepCall::compensate).
    ///
    /// # Errors
    ///
    /// When the state is no JSON, or larger than a step may be.
    pub async fn save(&mut self) -> Result<(), ToolError> {
        let (round, next) = (self.prefix(self.round), self.round + 1);
        let saved = serde_json::value::to_raw_value(&Saved { round: next, state: &self.state });
        let saved = saved.map_err(|error| ToolError::new(format!("a checkpoint is no JSON: {error}")))?;
        let saved = Json::from(saved);
        if let Some(keeper) = self.cx.keeper().filter(|keeper| keeper.is_entered_again()) {
            let step = Step::new(self.key.as_str(), of(), StepState::learnt(saved.clone()));
            match keeper.replace(&round, step).await {
                Ok(()) => {}
                Err(StepError::Refused(error)) => {
                    return Err(ToolError::new(format!("{} is not saved: {error}", self.key)));
                }
                Err(error) => self.cx.end(error).await,
            }
        }
        self.cx.interview().forget(&round);
        self.cx.interview().learn(&self.key, of(), saved);
        self.round = next;
        self.cx.current_scope().enter(&self.prefix(next));
        Ok(())
    }
}

impl<S> Checkpoint<S> {
    /// What the keys of a round begin with.
    fn prefix(&self, round: u64) -> String {
        format!("{}@{round}/", self.key)
    }

    /// The state, of a loop that is over.
    pub fn into_inner(self) -> S {
        self.state
    }
}

impl<S> Deref for Checkpoint<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S> DerefMut for Checkpoint<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.state
    }
}

impl<S: fmt::Debug> fmt::Debug for Checkpoint<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, round, state, .. } = self;
        f.debug_struct("Checkpoint").field("key", key).field("round", round).field("state", state).finish()
    }
}

/// A state as it is kept.
#[derive(Deserialize, Serialize)]
struct Saved<S> {
    round: u64,
    state: S,
}

fn of() -> Fingerprint {
    fingerprint("checkpoint")
}
