//! Hearing of what changes on a server: on a stream of its own in the modern era, in the session in the legacy era.

use std::sync::Arc;

use longhaul_proto::method::Method;
use longhaul_proto::model::SubscriptionFilter;
use tokio::task::AbortHandle;

use super::Client;
use super::error::Error;
use super::told::{Change, Told};

/// What changes on a server, as it happens. Dropping it ends it.
///
/// What is not read waits, one change of each kind: whoever reads slowly hears later, not of more. In a session that its server
/// has forgotten there may have been changes that nobody heard of: then every list and resource that was asked for counts as changed.
#[derive(Debug)]
pub struct Subscription {
    told: Arc<Told>,
    agreed: SubscriptionFilter,
    kept: Kept,
}

/// What keeps it.
#[derive(Debug)]
enum Kept {
    /// The request that it is.
    Request(AbortHandle),
    /// The session, in which these resources were asked for.
    Session(Client),
}

impl Client {
    /// Subscribes to what `filter` asks for. [`Subscription::agreed`] says what of it the server tells.
    ///
    /// ```no_run
    /// # async fn run(client: longhaul::client::Client) -> Result<(), longhaul::client::Error> {
    /// use longhaul::proto::model::SubscriptionFilter;
    ///
    /// let mut changes = client.subscribe(SubscriptionFilter::default().lists().resource("file:///report")).await?;
    /// while let Some(change) = changes.next().await? {
    ///     println!("{change:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Tasks are told of by the streams of the modern era, and in a session (2025-11-25) as its server likes: it agrees
    /// to nothing. Dropping the future subscribes to nothing.
    ///
    /// # Errors
    ///
    /// When the server tells of nothing, or knows no such resource.
    pub async fn subscribe(&self, filter: SubscriptionFilter) -> Result<Subscription, Error> {
        let told = Arc::new(Told::new(self.dialect(), self.options().max_unread));
        if self.dialect().name_of(Method::Listen).is_some() {
            self.listen(told, filter).await
        } else {
            self.hear_in_session(told, filter).await
        }
    }

    async fn listen(&self, told: Arc<Told>, filter: SubscriptionFilter) -> Result<Subscription, Error> {
        let (client, its) = (self.clone(), Arc::clone(&told));
        let running = tokio::spawn(async move {
            let over = async {
                let mut request = client.prepare(Method::Listen, |params| {
                    params.field("notifications", &filter);
                })?;
                // It is answered when the server ends it.
                request.idle = None;
                request.told = Some(Arc::clone(&its));
                client.ask(request).await
            };
            its.end(over.await.err());
        });
        // Whoever does not wait for it ends it.
        let kept = Kept::Request(running.abort_handle());
        let mut subscription = Subscription { told, agreed: SubscriptionFilter::default(), kept };
        let agreed = tokio::time::timeout(self.options().request_timeout, subscription.told.agreed());
        let after = self.options().request_timeout;
        subscription.agreed = agreed.await.unwrap_or(Err(Error::TimedOut { after }))?;
        Ok(subscription)
    }

    async fn hear_in_session(
        &self,
        told: Arc<Told>,
        filter: SubscriptionFilter,
    ) -> Result<Subscription, Error> {
        let offered = self.capabilities();
        let mut agreed = filter.clone();
        agreed.tools_list_changed &= offered.tools && offered.list_changes;
        agreed.prompts_list_changed &= offered.prompts && offered.list_changes;
        agreed.resources_list_changed &= offered.resources && offered.list_changes;
        agreed.task_ids.clear();
        agreed.resource_subscriptions.clear();
        self.0.table.hear(&told, filter.clone());
        self.0.link.listen(self.dialect()).await;
        let mut subscription = Subscription { told, agreed, kept: Kept::Session(self.clone()) };
        if offered.resource_updates {
            for uri in &filter.resource_subscriptions {
                // What was asked for so far is given back when this is dropped.
                subscription.agreed.resource_subscriptions.push(uri.clone());
                if self.0.table.hold(uri) {
                    self.about(Method::Subscribe, uri).await?;
                }
            }
        }
        Ok(subscription)
    }

    /// A request about one resource.
    async fn about(&self, method: Method, uri: &str) -> Result<(), Error> {
        let request = self.prepare(method, |params| {
            params.field("uri", uri);
        })?;
        self.ask(request).await.map(drop)
    }
}

impl Subscription {
    /// What of that which was asked for the server tells.
    pub fn agreed(&self) -> &SubscriptionFilter {
        &self.agreed
    }

    /// The next change; `None` when the server has ended the subscription in order. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// When the connection ended, after which there may have been changes: subscribe again, and look.
    pub async fn next(&mut self) -> Result<Option<Change>, Error> {
        self.told.next().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.kept {
            Kept::Request(running) => running.abort(),
            Kept::Session(client) => {
                let table = &client.0.table;
                let resources = std::mem::take(&mut self.agreed.resource_subscriptions);
                let given_back: Vec<String> =
                    resources.into_iter().filter(|uri| table.give_back(uri)).collect();
                if given_back.is_empty() || table.ended().is_some() {
                    return;
                }
                let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
                let client = client.clone();
                runtime.spawn(async move {
                    for uri in given_back {
                        // Somebody may have asked for it again meanwhile.
                        if client.0.table.holds(&uri) {
                            continue;
                        }
                        if let Err(error) = client.about(Method::Unsubscribe, &uri).await {
                            tracing::debug!(%error, uri, "a resource was not given back");
                        }
                    }
                });
            }
        }
    }
}
