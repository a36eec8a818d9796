//! Commands as jobs of a node whose configuration lacks their tool, or that has none: it follows, ends and records what
//! others have started.

use std::sync::Arc;

use longhaul::store::{HostId, Json, Outcome, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::job::{Attached, ExternalJob, FoundJobs, JobError, JobRun, NotStarted};
use longhaul::tasks::report::Reporter;

use super::copies::Copies;
use super::result::Terms;
use super::run::{Follower, blocking, cancel, find};
use crate::command::{RunsDir, State};

/// The runs of a directory, whichever tool they belong to. It starts none: how many of a tool may run at once is
/// for its server to know.
#[derive(Debug)]
pub struct FoundRuns {
    runs: RunsDir,
    copies: Copies,
}

impl FoundRuns {
    /// Those in `runs`, what they write copied for the nodes of other hosts.
    pub fn new(runs: RunsDir, copies: Copies) -> Self {
        Self { runs, copies }
    }
}

impl ExternalJob for FoundRuns {
    fn host(&self) -> Option<&HostId> {
        self.runs.host()
    }

    fn start<'a>(
        &'a self,
        _key: &'a TaskId,
        _arguments: &'a Json,
        _durable: bool,
        _reporter: Reporter,
    ) -> BoxFuture<'a, Result<Arc<dyn JobRun>, NotStarted>> {
        let outcome = Outcome::lost("only a server that has its configuration starts a command");
        Box::pin(std::future::ready(Err(outcome.into())))
    }

    fn attach<'a>(&'a self, key: &'a TaskId, _begun: bool, reporter: Reporter) -> BoxFuture<'a, Attached> {
        Box::pin(async move {
            match find(&self.runs, key).await {
                Ok(run) => {
                    let (runs, copies) = (&self.runs, &self.copies);
                    Follower { runs, copies, terms: Terms::of_any(), reporter }.attached(run)
                }
                Err(error) => Attached::Lost { reason: error.to_string().into() },
            }
        })
    }

    fn cancel<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<(), JobError>> {
        Box::pin(async move { cancel(&self.runs, key.as_str()).await.map_err(JobError::new) })
    }

    /// A call of which no task came is its own server's.
    fn discard<'a>(&'a self, _key: &'a TaskId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl FoundJobs for FoundRuns {
    fn has_begun<'a>(&'a self, key: &'a TaskId) -> BoxFuture<'a, Result<bool, JobError>> {
        let id = key.as_str().to_owned();
        Box::pin(async move {
            let state = blocking(&self.runs, move |runs| runs.state(&id)).await.map_err(JobError::new)?;
            Ok(!matches!(state, State::Absent | State::Fresh))
        })
    }
}
