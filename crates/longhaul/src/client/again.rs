//! Sending a request: not at all where its answer is known, and once more where that is safe, because its session was
//! forgotten or it does nothing but ask.

use longhaul_proto::method::Method;
use tokio::time::Instant;

use super::error::Error;
use super::link::Outgoing;
use super::table::Answered;
use super::{Client, connect};

impl Client {
    /// Sends a request and waits for its answer. Dropping the future gives the request up.
    pub(super) async fn ask(&self, request: Outgoing<'_>) -> Result<Answered, Error> {
        let link = &self.0.link;
        self.begin_anew_if_lost().await?;
        match link.ask(&request).await {
            // A server that does not know the session has done nothing.
            Err(Error::SessionLost { .. }) => {}
            Err(Error::Lost { .. })
                if request.only_asks() && link.outlives_loss() && self.0.table.ended().is_none() => {}
            answered => return answered,
        }
        self.begin_anew_if_lost().await?;
        link.ask(&request).await
    }

    /// The answer to a request of that method about `what`: one from before, while it may be used, or else what `ask`
    /// gives.
    pub(super) async fn ask_or_remember(
        &self,
        method: Method,
        what: &str,
        ask: impl Future<Output = Result<String, Error>>,
    ) -> Result<String, Error> {
        let table = &self.0.table;
        if !self.options().cache {
            return ask.await;
        }
        let remembered = table.cache().find(method, what, Instant::now());
        match remembered {
            Ok(result) => Ok(result),
            Err(asked) => {
                let result = ask.await?;
                table.cache().keep(method, what, &result, asked, Instant::now());
                Ok(result)
            }
        }
    }

    /// Opens another session where the server has forgotten the one there was (2025-11-25, Streamable HTTP, Session
    /// Management), once for all who miss it.
    async fn begin_anew_if_lost(&self) -> Result<(), Error> {
        let link = &self.0.link;
        if !link.has_lost_session() {
            return Ok(());
        }
        let _one_at_a_time = self.0.renewing.lock().await;
        if !link.has_lost_session() {
            return Ok(());
        }
        tracing::debug!("the session was forgotten: another is opened");
        let declaration = self.declaration();
        // Rare, and no part of each request.
        Box::pin(connect::begin_anew(link, &self.0.table, &declaration, &self.0.welcome)).await?;
        for uri in self.0.table.all_held() {
            let mut request = self.prepare(Method::Subscribe, |params| {
                params.field("uri", &uri);
            })?;
            request.idle = Some(self.options().request_timeout);
            link.ask(&request).await?;
        }
        Ok(())
    }
}
