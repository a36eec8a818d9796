//! The APIs of jobs that a server has, which can become others while it serves.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use longhaul::store::{Registry, TaskStore};

use super::{Http, JobOverHttp, Ledger, Tokens};
use crate::config::HttpJob;

/// The APIs of jobs that a server has. Clones are the same.
#[derive(Clone, Debug)]
pub struct Jobs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Made for the first.
    http: OnceLock<Http>,
    ledger: Ledger,
    store: Arc<dyn TaskStore>,
    tokens: Tokens,
    all: RwLock<Arc<[Arc<JobOverHttp>]>>,
}

impl Jobs {
    /// None yet. What is known of theirs is kept in `registry`, which is of the same store as their tasks, as `tokens` are.
    pub fn new(registry: Arc<dyn Registry>, store: Arc<dyn TaskStore>, tokens: Tokens) -> Self {
        let (ledger, all) = (Ledger::new(registry, Arc::clone(&store)), RwLock::default());
        Self(Arc::new(Inner { http: OnceLock::new(), ledger, store, tokens, all }))
    }

    /// One more, or another in place of the one of its name. One that is served no longer stays: what it has begun is ended by
    /// it, and its API may call back.
    ///
    /// # Errors
    ///
    /// When the system's certificates cannot be used.
    pub fn put(&self, job: &HttpJob) -> Result<Arc<JobOverHttp>, reqwest::Error> {
        let Inner { ledger, store, tokens, .. } = &*self.0;
        let http = match self.0.http.get() {
            Some(http) => http.clone(),
            None => {
                let made = Http::new()?;
                self.0.http.get_or_init(|| made).clone()
            }
        };
        let job =
            JobOverHttp::new(Arc::new(job.clone()), http, ledger.clone(), Arc::clone(store), tokens.clone());
        let job = Arc::new(job);
        let mut all = self.0.all.write().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter(|other| other.job().name != job.job().name).cloned();
        *all = others.chain([Arc::clone(&job)]).collect();
        Ok(job)
    }

    /// Those that there are or were.
    pub(super) fn now(&self) -> Arc<[Arc<JobOverHttp>]> {
        Arc::clone(&self.0.all.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub(super) fn store(&self) -> &Arc<dyn TaskStore> {
        &self.0.store
    }
}
