//! What is asked of a server on behalf of a caller beside calls: resources, prompts and completions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use longhaul::Cx;
use longhaul::client::{Client, Error};
use longhaul::proto::jsonrpc::{Code, ErrorObject};
use longhaul::proto::model::{Completion, CompletionReference, GetPromptResult, ReadResourceResult};
use longhaul::server::Typed;

use super::call::is_gone;
use super::caller::Caller;
use super::connection::{Unreached, Upstream};

impl Upstream {
    pub(super) async fn read(
        self: &Arc<Self>,
        cx: &Cx,
        uri: &str,
    ) -> Result<ReadResourceResult, ErrorObject> {
        self.ask(cx, "a resource", |client| async move {
            client.read_resource(uri).await.map_err(|error| match error {
                // Each era has a code of its own for that.
                Error::Answer(mut answer)
                    if answer.code == client.dialect().code(Code::RESOURCE_NOT_FOUND) =>
                {
                    answer.code = Code::RESOURCE_NOT_FOUND;
                    Error::Answer(answer)
                }
                error => error,
            })
        })
        .await
    }

    pub(super) async fn prompt(
        self: &Arc<Self>,
        cx: &Cx,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<GetPromptResult, ErrorObject> {
        self.ask(cx, "a prompt", |client| async move { client.get_prompt(name, arguments).await }).await
    }

    /// What could be typed next; nothing where its server completes nothing.
    pub(super) async fn complete(
        self: &Arc<Self>,
        cx: &Cx,
        of: &CompletionReference,
        argument: &str,
        typed: &Typed,
    ) -> Result<Completion, ErrorObject> {
        self.ask(cx, "a completion", |client| async move {
            if client.capabilities().completions {
                client.complete(of, (argument, &typed.value), &typed.others).await
            } else {
                Ok(Completion::default())
            }
        })
        .await
    }

    /// Asks, once more if the server has ended meanwhile: what only asks may be asked again.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        self: &Arc<Self>,
        cx: &Cx,
        what: &'static str,
        ask: impl Fn(Client) -> F,
    ) -> Result<T, ErrorObject> {
        let needed = &self.config().defaults.scopes;
        if cx.grant().is_some_and(|grant| !grant.allows(needed)) {
            return Err(ErrorObject::forbidden(needed));
        }
        let begun = Instant::now();
        let asked = self.ask_until_answered(cx, ask).await;
        let (server, is_error) = (&self.config().name, asked.is_err());
        tracing::debug!(server, what, is_error, took = ?begun.elapsed(), "another server was asked");
        asked
    }

    /// Makes a call once there is a place for it; what is asked meanwhile is put to its caller. The call is large and
    /// handed on several times, so it comes boxed.
    pub(super) async fn in_turn<F: Future + Unpin>(&self, cx: &Cx, calling: F) -> F::Output {
        self.in_turn_of(&Caller::of(cx), calling).await
    }

    pub(super) async fn in_turn_of<F: Future + Unpin>(&self, caller: &Arc<Caller>, calling: F) -> F::Output {
        // Who waits for a place wants the connection to stay.
        let _using = self.callers.using();
        let say = |at_it| {
            let calls = if at_it == 1 { "call" } else { "calls" };
            caller.cx.status(format!("waiting for its turn: its server takes {at_it} {calls} at once"));
        };
        let _place = self.line.enter(say).await;
        self.callers.calling(caller, calling).await
    }

    async fn ask_until_answered<T, F: Future<Output = Result<T, Error>>>(
        self: &Arc<Self>,
        cx: &Cx,
        ask: impl Fn(Client) -> F,
    ) -> Result<T, ErrorObject> {
        let mut is_again = false;
        loop {
            let asking = Box::pin(async {
                // In its turn, for whoever is before it may find that the server hangs.
                let reached = self.reach().await?;
                self.log.ask_for(cx, &reached.client).await;
                let asked = self.waiting(ask(reached.client.clone())).await;
                Ok::<_, Unreached>((reached, asked))
            });
            let asked = self.in_turn(cx, asking).await;
            let asked = asked.map_err(|error| ErrorObject::internal(error.to_string()));
            let (reached, asked) = asked?;
            let is_lost = match &asked {
                Err(error) if error.is_timeout() => self.is_over(&reached, false).await,
                Err(error) => is_gone(error),
                Ok(_) => false,
            };
            return match asked {
                Ok(answer) => Ok(answer),
                // The server's own word, which the caller gets as it is.
                Err(Error::Answer(error)) => Err(error),
                Err(_) if is_lost && !is_again => {
                    is_again = true;
                    continue;
                }
                Err(error) => {
                    self.callers.give_up(cx);
                    self.doubted.notify_one();
                    let (server, why) = (&self.config().name, self.why(&error));
                    tracing::warn!(server, why, "a request to another server failed");
                    Err(ErrorObject::internal(format!("the server {server}: {why}")))
                }
            };
        }
    }
}
