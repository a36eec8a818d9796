//! An API calls back, as often as it likes until the job has ended, with a token that was made for that job.
//!
//! A token is sealed and not only signed: it travels in an address, which stands in logs, and the id of a task may be
//! the key to it. Nodes share the key.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longhaul::seal::{Sealer, Unopened};
use longhaul::store::{Registry, StoreError, TaskId};
use longhaul::tasks::environment::BoxFuture;
use longhaul::tasks::runner::Engine;
use longhaul::transport::http::server::{Callbacks, NotTaken};

use super::jobs::Jobs;

/// Makes and reads the tokens of one store. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<Sealer>);

impl Tokens {
    /// Those of the nodes that have this registry in common.
    ///
    /// # Errors
    ///
    /// When the store cannot be read or written.
    pub async fn of(registry: &dyn Registry) -> Result<Self, StoreError> {
        let tokens = Self::default();
        tokens.0.share_through(registry, "http-job-callback").await?;
        Ok(tokens)
    }

    /// A token for one job, for so long.
    pub(super) fn make(&self, job: &str, key: &TaskId, lasting: Duration) -> Option<String> {
        self.0.seal(format!("{key} {job}").as_bytes(), BINDING, lasting)
    }

    /// The task and the job's name that a token was made for, unless it has expired.
    fn read(&self, token: &str) -> Result<(TaskId, String), NotTaken> {
        let content = self.0.open(token, BINDING).map_err(|why| match why {
            Unopened::NotOurs => NotTaken::Forged,
            Unopened::Expired => NotTaken::Unknown,
        })?;
        named(content).ok_or(NotTaken::Unknown)
    }
}

fn named(content: Vec<u8>) -> Option<(TaskId, String)> {
    let content = String::from_utf8(content).ok()?;
    let (key, job) = content.split_once(' ')?;
    Some((TaskId::new(key).ok()?, job.to_owned()))
}

/// Takes the calls of all APIs of one server.
#[derive(Debug)]
pub struct Called {
    jobs: Jobs,
    engine: Engine,
}

impl Called {
    /// Takes those for these jobs, whose tasks `engine` works on.
    #[must_use]
    pub fn new(jobs: Jobs, engine: Engine) -> Self {
        Self { jobs, engine }
    }
}

impl Callbacks for Called {
    fn called<'a>(&'a self, token: &'a str, body: Bytes) -> BoxFuture<'a, Result<(), NotTaken>> {
        Box::pin(async move {
            let (key, name) = self.jobs.tokens().read(token)?;
            let jobs = self.jobs.now();
            let job = jobs.iter().find(|job| job.job().name == name).ok_or(NotTaken::Unknown)?;
            match job.called(&key, token, &body).await {
                Ok(true) => {
                    // Its task may have been put aside until the next look.
                    self.engine.go_on(&key).await;
                    Ok(())
                }
                Ok(false) => Err(NotTaken::Unknown),
                Err(error) => {
                    tracing::warn!(task = %key, %error, "a call of a job's API cannot be recorded");
                    Err(NotTaken::NotNow)
                }
            }
        })
    }
}

const BINDING: &[u8] = b"longhaul job callback";

#[cfg(test)]
mod tests {
    use longhaul::store::Memory;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_token_is_of_one_job_and_of_the_nodes_of_one_store() {
        let store = Memory::new();
        let (one, two) = (Tokens::of(&store).await.unwrap(), Tokens::of(&store).await.unwrap());
        let key = TaskId::new("task-1").unwrap();
        let token = one.make("render", &key, HOUR).unwrap();
        assert_eq!(two.read(&token), Ok((key.clone(), "render".to_owned())));
        assert_eq!(Tokens::default().read(&token), Err(NotTaken::Forged), "another store's key");
        let late = one.make("render", &key, Duration::ZERO).unwrap();
        assert_eq!(one.read(&late), Err(NotTaken::Unknown), "it has expired, and is none that was made up");
        assert_eq!(one.read(&format!("{token}A")), Err(NotTaken::Forged));
        assert_eq!(one.read(""), Err(NotTaken::Forged));
    }
}
