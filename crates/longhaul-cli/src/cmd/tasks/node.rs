//! A verb as a node of the store: while it runs, it records what commands have come to that no server sees.
//!
//! Tasks that a living node works on are never touched, and what has not begun is left to a server, which knows how
//! much may run at once. When the verb ends its leases are void, and the next node goes on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use longhaul::store::{Record, Scope, TaskId};
use longhaul::tasks::environment::Tokio;
use longhaul::tasks::runner::{Engine, Pace};
use longhaul_gateway::command::{RunsDir, State};
use longhaul_gateway::tool::FoundRuns;

use super::origin::Local;
use crate::failure::Outcome;
use crate::term::{clean, note};

/// How long the end of a command may take to be recorded. Of a lost one, what is left has its grace first.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often to look whether a task has lost its node.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Records the ends of those of `records` whose commands have ended, or were lost, with nobody there to see it.
///
/// What cannot be recorded is said and passed over: the verb shows what the store has.
pub(super) async fn settle(local: &Local, records: &[Record]) {
    if let Err(error) = try_settle(local, records).await {
        note(&format!("note: what commands have come to could not be recorded: {}", error.line()));
    }
}

/// The record of one task, settled.
pub(super) async fn settled(local: &Local, record: Record) -> Outcome<Record> {
    if record.is_terminal() {
        return Ok(record);
    }
    settle(local, std::slice::from_ref(&record)).await;
    local.look(&record.id).await
}

async fn try_settle(local: &Local, records: &[Record]) -> Outcome<()> {
    let open: Vec<&Record> = records.iter().filter(|record| !record.is_terminal()).collect();
    if open.is_empty() {
        return Ok(());
    }
    let node = Node::new(local)?;
    let mut taken = Vec::new();
    for record in open {
        if node.is_over(&record.id).await? && node.engine.take_up(&record.id).await? {
            taken.push(&record.id);
        }
    }
    let ends = async {
        for id in taken {
            node.engine.ended(Scope::Operator, id).await?;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, ends).await.unwrap_or(Ok(()))
}

/// This process, working on tasks whose commands have begun.
pub(super) struct Node {
    engine: Engine,
    runs: RunsDir,
}

impl Node {
    pub(super) fn new(local: &Local) -> Outcome<Self> {
        let runs = local.runs()?;
        let engine = Engine::new(Arc::clone(&local.store), Arc::new(Tokio::new()), Pace::default(), []);
        engine.reach_others(Arc::new(FoundRuns::new(runs.clone(), local.copies())));
        engine.keep_leases();
        Ok(Self { engine, runs })
    }

    /// Goes on with a task whose command has begun, if nobody works on it.
    pub(super) async fn take_up(&self, id: &TaskId) -> Outcome<()> {
        self.engine.take_up(id).await?;
        Ok(())
    }

    /// Whether a task's command has ended, or was lost.
    async fn is_over(&self, id: &TaskId) -> Outcome<bool> {
        let (runs, run) = (self.runs.clone(), id.as_str().to_owned());
        let looked = tokio::task::spawn_blocking(move || runs.state(&run)).await;
        let state = looked.context("looking was cut short")?;
        let state = state
            .with_context(|| format!("the run files of {} cannot be read", clean::line(id.as_str(), 128)))?;
        Ok(matches!(state, State::Exited(_) | State::Lost))
    }
}
