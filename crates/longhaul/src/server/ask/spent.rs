//! A state counts once where an effect follows: the first step that has one spends it, and whoever brings it again, or an
//! older one of the same call, is told what came of that.
//!
//! A call that may become a task is made one instead, under the name of its states: its row is the only one of that name.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{ErrorObject, RequestId};
use longhaul_tasks::key;
use longhaul_tasks::store::{Digest, Once, Owner, StoreError, Version};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::super::answer::{Envelope, Write, refused};
use super::super::context::Cx;
use super::binding::Binding;
use super::chain::Chain;
use super::desk::Desk;
use super::held::{Found, Running};
use super::ledger::{Came, Hearing, RENEWAL, Use};
use super::rounds::{Reply, answer_with, worker_lost};
use crate::hex::hex;
use crate::seal::random;
use crate::wire::By;

/// The state that a request has brought, until an effect follows.
pub(in super::super) struct Spending {
    desk: Arc<Desk>,
    by: Use,
    binding: Binding,
    /// That this use has spent it.
    standing: Mutex<Option<Spent>>,
}

/// A state that this use has spent, until it is known what came of it. Dropped before, it is lost.
pub(super) struct Spent {
    desk: Arc<Desk>,
    by: Use,
    version: Version,
    running: Option<Running>,
}

impl Cx {
    /// Spends the state that the request has brought, if it has, before an effect. Where another use of it was first, this
    /// goes no further: the call is answered with what came of that.
    pub(in super::super) async fn spend_state(&self) {
        let Some(spending) = self.interview().spending() else { return };
        if let Some(keeper) = self.keeper() {
            // Its row bears the name of the state.
            if let Err(error) = keeper.become_durable(false).await {
                self.end(error).await;
            }
            return;
        }
        match spending.spend().await {
            Ok(true) => {}
            Ok(false) => {
                self.interview().leave_elsewhere();
                pending().await
            }
            Err(error) => {
                self.interview().end(error);
                pending().await
            }
        }
    }
}

impl Spending {
    pub(super) fn new(desk: &Arc<Desk>, owner: Owner, binding: Binding, chain: Chain) -> Arc<Self> {
        let by = Use { owner, chain, usage: random() };
        Arc::new(Self { desk: Arc::clone(desk), by, binding, standing: Mutex::default() })
    }

    /// As what a task is made once that the call becomes.
    pub(in super::super) fn once(&self) -> Option<Once> {
        let key = key::state(&hex(&self.by.chain.nonce)).ok()?;
        Some(Once::new(key, Digest::new(self.binding.digest())))
    }

    pub(super) fn chain(&self) -> Chain {
        self.by.chain
    }

    /// Spends the state; says whether this use has, or another before it.
    ///
    /// # Errors
    ///
    /// When that cannot be written: there is to be no effect.
    pub(super) async fn spend(&self) -> Result<bool, ErrorObject> {
        let mut standing = self.standing.lock().await;
        if standing.is_some() {
            return Ok(true);
        }
        let Some(running) = self.desk.held.begin(self.by.chain.nonce) else { return Ok(false) };
        let version = self.desk.ledger.spend(&self.by).await.map_err(|error| unwritten(&error))?;
        *standing = version.map(|version| Spent {
            desk: Arc::clone(&self.desk),
            by: self.by.clone(),
            version,
            running: Some(running),
        });
        Ok(standing.is_some())
    }

    /// That this use has spent the state, if it has.
    pub(super) fn settle(&self) -> Option<Spent> {
        self.standing.try_lock().ok()?.take()
    }

    /// Tells other nodes, again and again, that this use is at work.
    pub(super) async fn keep_renewing(&self) -> Infallible {
        if !self.desk.ledger.is_shared {
            return pending().await;
        }
        loop {
            sleep(RENEWAL).await;
            if let Some(spent) = &mut *self.standing.lock().await {
                match self.desk.ledger.renew(&self.by, spent.version).await {
                    Ok(version) => spent.version = version.unwrap_or(spent.version),
                    Err(error) => tracing::warn!(%error, "other nodes cannot be told of a call under way"),
                }
            }
        }
    }

    /// What came of the use that has spent the state, once that is known.
    pub(super) async fn outcome(&self) -> Write {
        loop {
            match self.desk.held.look(self.by.chain.nonce) {
                Found::Running(mut ended) => {
                    // An error says that it has ended, which is what is waited for.
                    let _ = ended.changed().await;
                }
                Found::Ended(reply) => return answer_with(reply, None),
                Found::Suspended(..) | Found::Gone => break,
            }
        }
        let (mut pause, mut heard) = (FIRST_PAUSE, Hearing::new());
        loop {
            match self.desk.ledger.find(&self.by, &mut heard).await {
                Ok(Some(Came::UnderWay)) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                Ok(Some(Came::Result(result))) => {
                    return Box::new(move |envelope, out| envelope.result_again(out, &result));
                }
                Ok(Some(Came::Error(error))) => return refused(error),
                Ok(Some(Came::NotKept)) => return refused(not_kept()),
                Ok(Some(Came::Lost)) => return refused(worker_lost()),
                // Whoever was about to spend it could not.
                Ok(None) => return refused(ErrorObject::overloaded(COME_BACK, RETRY_AFTER)),
                Err(error) => return refused(unwritten(&error)),
            }
        }
    }
}

impl Spent {
    /// Keeps what came of it, for whoever brings the state again. Dropping the future loses nothing.
    pub(super) async fn came_to(mut self, reply: &Reply, dialect: &'static Dialect, method: &'static str) {
        let envelope = Envelope {
            by: By::Server,
            id: RequestId::from(0),
            dialect,
            method: Some(method),
            server_info: Arc::clone(&self.desk.server_info),
        };
        let mut message = Vec::new();
        reply(&envelope, &mut message);
        if let Some(running) = self.running.take() {
            running.ended(Arc::clone(reply), message.len());
        }
        let is_shared = self.desk.ledger.is_shared;
        let came = if is_shared { Came::of_answer(&message) } else { Came::NotKept };
        let (desk, by) = (Arc::clone(&self.desk), self.by.clone());
        let kept = tokio::spawn(async move { keep(&desk, &by, came).await });
        if kept.await.is_err() {
            tracing::warn!("the runtime went before the outcome of a call could be kept");
        }
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        // Without a runtime there is nobody left to tell: its time runs out.
        if self.running.take().is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (desk, by) = (Arc::clone(&self.desk), self.by.clone());
            runtime.spawn(async move { keep(&desk, &by, Came::Lost).await });
        }
    }
}

async fn keep(desk: &Desk, by: &Use, came: Came) {
    if let Err(error) = desk.ledger.keep(by, came).await {
        tracing::warn!(%error, "what came of a call in rounds could not be kept for other nodes");
    }
}

/// The state could not be spent, so nothing was done.
pub(super) fn unwritten(error: &StoreError) -> ErrorObject {
    match error {
        StoreError::Overloaded { .. } => ErrorObject::overloaded(
            format!("too many calls in rounds have had an effect lately; nothing was done: {error}"),
            RETRY_AFTER,
        ),
        error => {
            tracing::error!(%error, "a call in rounds cannot have an effect");
            ErrorObject::internal(
                "it cannot be kept that this state was used, so nothing was done: try again",
            )
        }
    }
}

pub(super) fn not_kept() -> ErrorObject {
    ErrorObject::internal(
        "what was asked for with this state is done, and is not done again; what came of it is not kept any more",
    )
    .with_data(&serde_json::json!({ "reason": "state_spent" }))
}

const COME_BACK: &str = "a call with this state was about to begin, and did not: bring it again";

/// When to come back with a state that was not spent.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long to wait before looking again what came of a call at another node: first, and at last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);
