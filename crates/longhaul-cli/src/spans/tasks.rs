//! Spans of what is done with tasks, made where all of it goes by: at the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul::service::trace_of;
use longhaul::store::{
    Batch, Cancellation, Created, Epoch, Finished, NewTask, Outcome, Overlay, Record, Runnable, Scope,
    StoreError, StoreFuture, TaskId, TaskStore,
};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry_sdk::trace::{SdkTracer, Span};

/// A store around another that makes spans: of each task's creation and of each attempt at it. Which trace they are of stands
/// in the task's row, so another process goes on in the same.
pub(super) struct Spanned {
    store: Arc<dyn TaskStore>,
    tracer: SdkTracer,
    /// The attempts of this node that are under way.
    attempts: Mutex<HashMap<TaskId, Attempt>>,
}

/// What one is of.
struct Attempt {
    epoch: Epoch,
    span: Span,
    /// Its task has ended, and is undone.
    undoes: bool,
}

impl Spanned {
    pub(super) fn new(store: Arc<dyn TaskStore>, tracer: SdkTracer) -> Self {
        Self { store, tracer, attempts: Mutex::default() }
    }

    /// A span of a task, below the request that it comes from.
    fn span(&self, what: &str, kind: SpanKind, task: &Record) -> Span {
        let said = [
            KeyValue::new("mcp.task.id", task.id.to_string()),
            KeyValue::new("mcp.tool.name", task.tool.to_string()),
            KeyValue::new("mcp.task.attempt", i64::from(task.attempt)),
        ];
        let span =
            self.tracer.span_builder(format!("{what} {}", task.tool)).with_kind(kind).with_attributes(said);
        span.start_with_context(&self.tracer, &super::below(trace_of(task)))
    }

    /// This node is at work on it from now on.
    fn begins(&self, task: &Record) {
        let span = self.span("work", SpanKind::Consumer, task);
        let attempt = Attempt { epoch: task.epoch, span, undoes: task.is_terminal() };
        self.attempts().insert(task.id.clone(), attempt);
    }

    /// This node is at work on it no more, by an attempt that is no later than this one.
    fn ends(&self, id: &TaskId, at: Epoch, how: &'static str, outcome: Option<&Outcome>) {
        let mut attempts = self.attempts();
        if attempts.get(id).is_none_or(|attempt| attempt.epoch > at) {
            return;
        }
        let Some(Attempt { mut span, .. }) = attempts.remove(id) else { return };
        drop(attempts);
        span.set_attribute(KeyValue::new("mcp.task.outcome", how));
        if outcome.is_some_and(|outcome| !outcome.is_success()) {
            span.set_status(Status::error(how));
        }
        span.end();
    }

    /// What another node has made of it is seen by its row alone.
    fn sees(&self, task: &Record) {
        let own = self.attempts().get(&task.id).map(|attempt| (attempt.epoch, attempt.undoes));
        match own {
            Some((own, true)) if own == task.epoch && task.is_undoing() => {}
            Some((own, true)) if own == task.epoch => self.ends(&task.id, own, "undone", None),
            Some((_, false)) if task.is_terminal() => {
                self.ends(&task.id, task.epoch, "ended", task.outcome());
            }
            Some((own, _)) if own < task.epoch => self.ends(&task.id, own, "lost", None),
            _ => {}
        }
    }

    /// What the store said to the attempt of this node, which may be one no more.
    fn heard<T>(&self, id: &TaskId, at: Epoch, said: Result<T, StoreError>) -> Result<T, StoreError> {
        if said.as_ref().is_err_and(StoreError::is_fenced) {
            self.ends(id, at, "lost", None);
        }
        said
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<TaskId, Attempt>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Spanned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spanned").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Overlay for Spanned {
    type Below = dyn TaskStore;

    fn below(&self) -> &(dyn TaskStore + 'static) {
        &*self.store
    }

    fn create(&self, task: NewTask) -> StoreFuture<'_, Created> {
        Box::pin(async move {
            let created = self.below().create(task).await?;
            if let Created::New(task) = &created {
                self.span("create", SpanKind::Producer, task).end();
                if task.attempt > 0 {
                    self.begins(task);
                }
            }
            Ok(created)
        })
    }

    /// Whatever asks after a task links to its trace.
    fn get<'a>(&'a self, scope: Scope<'a>, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let found = self.below().get(scope, id).await?;
            found.iter().for_each(|task| self.sees(task));
            if let (Some(parent), true) =
                (found.as_ref().and_then(trace_of), matches!(scope, Scope::Owner(_)))
            {
                let asks = opentelemetry::Context::current();
                asks.span()
                    .add_link(super::context_of(parent), vec![KeyValue::new("mcp.task.id", id.to_string())]);
            }
            Ok(found)
        })
    }

    fn claim<'a>(&'a self, limit: usize, runs: Option<&'a [Runnable]>) -> StoreFuture<'a, Vec<Record>> {
        Box::pin(async move {
            let claimed = self.below().claim(limit, runs).await?;
            claimed.iter().for_each(|task| self.begins(task));
            Ok(claimed)
        })
    }

    fn claim_one<'a>(&'a self, id: &'a TaskId) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let claimed = self.below().claim_one(id).await?;
            claimed.iter().for_each(|task| self.begins(task));
            Ok(claimed)
        })
    }

    fn renew<'a>(&'a self, held: &'a [(TaskId, Epoch)]) -> StoreFuture<'a, Vec<TaskId>> {
        Box::pin(async move {
            let lost = self.below().renew(held).await?;
            for (id, epoch) in held.iter().filter(|(id, _)| lost.contains(id)) {
                self.ends(id, *epoch, "lost", None);
            }
            Ok(lost)
        })
    }

    fn release<'a>(&'a self, id: &'a TaskId, epoch: Epoch) -> StoreFuture<'a, Record> {
        Box::pin(async move {
            let released = self.below().release(id, epoch).await;
            self.ends(id, epoch, "given back", None);
            released
        })
    }

    fn write<'a>(&'a self, id: &'a TaskId, epoch: Epoch, batch: Batch) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let is_parked = batch.park.is_some();
            let written = self.heard(id, epoch, self.below().write(id, epoch, batch).await)?;
            if is_parked {
                self.ends(id, epoch, "parked", None);
            }
            let undoes = self.attempts().get(id).is_some_and(|attempt| attempt.undoes);
            // Nothing more is said of it by who has undone the last step; its row says so to `sees`.
            if undoes && let Err(error) = TaskStore::get(self, Scope::Operator, id).await {
                tracing::debug!(%error, "whether a task is undone cannot be read");
            }
            Ok(written)
        })
    }

    fn finish<'a>(
        &'a self,
        id: &'a TaskId,
        epoch: Epoch,
        outcome: Outcome,
        last: Batch,
    ) -> StoreFuture<'a, Finished> {
        Box::pin(async move {
            let finished = self.heard(id, epoch, self.below().finish(id, epoch, outcome, last).await)?;
            let (Finished::Recorded(task) | Finished::AlreadyTerminal(task)) = &finished;
            self.ends(id, epoch, "ended", task.outcome());
            Ok(finished)
        })
    }

    fn request_cancel<'a>(
        &'a self,
        scope: Scope<'a>,
        id: &'a TaskId,
        reason: Option<&'a str>,
    ) -> StoreFuture<'a, Cancellation> {
        Box::pin(async move {
            let cancelled = self.below().request_cancel(scope, id, reason).await?;
            if let Cancellation::Cancelled(task) = &cancelled {
                self.ends(id, task.epoch, "cancelled", None);
            }
            Ok(cancelled)
        })
    }
}

#[cfg(test)]
mod tests {
    use longhaul::store::{
        Fingerprint, Json, Memory, NewTask, Owner, Settings, Step, StepClock, StepState, Time,
    };
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    #[tokio::test]
    async fn a_task_is_at_work_while_it_is_undone() {
        let memory = Memory::with(Settings::default(), Arc::new(StepClock::at(Time::from_unix_ms(0))));
        let spanned = Spanned::new(Arc::new(memory), SdkTracerProvider::default().tracer("longhaul"));
        let (id, of) = (TaskId::new("t1").unwrap(), Fingerprint::new([7; Fingerprint::LEN]));
        let mut task = NewTask::new(id.clone(), Owner::Anonymous, "build", Json::parse("{}").unwrap());
        task.steps = vec![Step::new("undo", of, StepState::Owed)];
        let Created::New(made) = TaskStore::create(&spanned, task).await.unwrap() else {
            panic!("it was there")
        };
        let failed = Outcome::error(-32603, "broke", None);
        TaskStore::finish(&spanned, &id, made.epoch, failed, Batch::new()).await.unwrap();
        assert!(!spanned.attempts().contains_key(&id), "it has ended");
        let held = TaskStore::claim_one(&spanned, &id).await.unwrap().expect("it is to be undone");
        TaskStore::get(&spanned, Scope::Operator, &id).await.unwrap();
        TaskStore::write(&spanned, &id, made.epoch, Batch::new()).await.unwrap_err();
        assert!(
            spanned.attempts().contains_key(&id),
            "neither who asks nor what comes late ends this attempt"
        );
        let learnt = StepState::Learnt { value: Json::parse("null").unwrap(), is_error: false };
        let last = Batch::new().with_step(Step::new("undo", of, learnt));
        TaskStore::write(&spanned, &id, held.epoch, last).await.unwrap();
        assert!(!spanned.attempts().contains_key(&id), "it is undone");
    }

    #[tokio::test]
    async fn an_attempt_is_over_once_its_node_sees_that_another_has_ended_its_task() {
        let memory = Memory::new();
        let other = memory.another_node();
        let spanned = Spanned::new(Arc::new(memory), SdkTracerProvider::default().tracer("longhaul"));
        for (name, looks) in [("looks", true), ("writes", false)] {
            let id = TaskId::new(name).unwrap();
            let task = NewTask::new(id.clone(), Owner::Anonymous, "build", Json::parse("{}").unwrap());
            let Created::New(task) = TaskStore::create(&spanned, task).await.unwrap() else {
                panic!("it was there before")
            };
            assert!(spanned.attempts().contains_key(&id), "it is claimed");
            TaskStore::request_cancel(&other, Scope::Operator, &id, None).await.unwrap();
            assert!(spanned.attempts().contains_key(&id), "nobody has said so here yet");
            if looks {
                TaskStore::get(&spanned, Scope::Operator, &id).await.unwrap();
            } else {
                TaskStore::write(&spanned, &id, task.epoch, Batch::default()).await.unwrap_err();
            }
            assert!(!spanned.attempts().contains_key(&id), "{name}");
        }
    }
}
