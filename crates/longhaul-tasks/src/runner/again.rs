//! A task made again: the same call, from its beginning.

use longhaul_store::{NewTask, Record, Rerun, Start, StoreError};

use super::Engine;
use crate::note::Note;

impl Engine {
    /// Creates another task that does what `record`'s was to do, for the same owner and with the same arguments, and tells
    /// which it is; [it says](crate::made_again_of) of which task. It waits in the queue for a node that runs its tool. It bears
    /// no key and joins no other: whoever wants it again wants it done again. `None` where nothing is kept to begin it with: work that [never](Rerun::Never) runs
    /// twice, and was no other task's.
    ///
    /// # Errors
    ///
    /// What [`TaskStore::create`](longhaul_store::TaskStore::create) gives.
    pub async fn again(&self, record: &Record) -> Result<Option<Record>, StoreError> {
        let note = Note::of(record);
        if record.rerun == Rerun::Never && note.caller.is_none() {
            return Ok(None);
        }
        let inner = &self.0;
        let id = inner.mint(&record.tool);
        let mut task = NewTask::new(id, record.owner.clone(), record.tool.clone(), record.arguments.clone());
        task.version = record.version.clone();
        // Nothing of this one has begun.
        task.caller = Note { begun: false, again: true, again_of: Some(record.id.clone()), ..note }.json();
        task.rerun = record.rerun;
        task.dialect = record.dialect;
        task.retention = record.retention;
        task.cancel_grace = record.cancel_grace;
        task.poll_interval_ms = record.poll_interval_ms;
        task.start = Start::Queued { not_before: inner.store.now() };
        Ok(Some(inner.store.create(task).await?.into_record()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longhaul_store::{Json, Memory, Owner, Scope, TaskId, TaskStore};

    use super::*;
    use crate::environment::Tokio;
    use crate::note::made_again_of;
    use crate::runner::Pace;

    async fn created(store: &Arc<dyn TaskStore>, task: NewTask) -> Record {
        store.create(task).await.unwrap().into_record()
    }

    #[tokio::test]
    async fn a_task_is_made_again_as_it_was_before_it_began() {
        let store: Arc<dyn TaskStore> = Arc::new(Memory::new());
        let engine = Engine::new(Arc::clone(&store), Arc::new(Tokio), Pace::default(), []);
        let arguments = Json::parse(r#"{"key":"s3cret"}"#).unwrap();
        let owner = Owner::principal("ann").unwrap();
        let mut first = NewTask::new(TaskId::new("t-1").unwrap(), owner, "t", arguments.clone());
        first.caller = Note { begun: true, secret: vec!["key".to_owned()], ..Note::default() }.json();
        assert_eq!(
            engine.again(&created(&store, first.clone()).await).await.unwrap(),
            None,
            "it never runs twice"
        );
        (first.rerun, first.id) = (Rerun::Restart, TaskId::new("t-2").unwrap());
        let first = created(&store, first).await;
        let again = engine.again(&first).await.unwrap().unwrap();
        assert_ne!(again.id, first.id);
        let again = store.get(Scope::Operator, &again.id).await.unwrap().unwrap();
        assert_eq!((&again.owner, &again.arguments, &*again.tool), (&first.owner, &arguments, "t"));
        let note = Note::of(&again);
        assert_eq!((note.begun, note.again, note.secret), (false, true, vec!["key".to_owned()]));
        assert!(!again.started && again.once.is_none());
        assert_eq!((made_again_of(&again), made_again_of(&first)), (Some(first.id), None));
        let third = engine.again(&again).await.unwrap().unwrap();
        assert_eq!(made_again_of(&third), Some(again.id), "of the one that was made again, and no other");
    }
}
