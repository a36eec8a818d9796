//! What a server asks about the tasks that this client hosts for it.

use std::sync::Arc;

use longhaul_proto::jsonrpc::{ErrorObject, Request, Text};
use longhaul_proto::method::Method;
use longhaul_tasks::project::{self, View};
use longhaul_tasks::store::{Cursor, Dialect as Door, Json, TaskId};

use super::{Host, RETRY_AFTER, drafted, written};
use crate::client::owed::Owing;
use crate::client::table::{Reply, Said};
use crate::hosted::{Hosted, WriteResult, is_seen, listed_as, not_found, result_of, shown, view};
use crate::server::{Envelope, Write, refused};

impl Host {
    /// Answers what is asked about tasks.
    pub(super) fn about(
        &self,
        hosted: Hosted,
        owing: Owing,
        envelope: Envelope,
        method: Method,
        request: &Request<'_>,
    ) -> Reply {
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            let why = "too many requests about tasks wait for their answers here: ask again later";
            let mut out = Vec::new();
            envelope.error(&mut out, &ErrorObject::overloaded(why, RETRY_AFTER));
            return Reply::Now(out);
        };
        let (asked, drafted) = (Asked::read(method, request), self.has_drafted(hosted.dialect));
        let limit = self.hosting.page_size;
        Reply::Later(Box::pin(async move {
            let answered = match asked {
                Ok(asked) => owing.while_wanted(asked.answered(&hosted, drafted, limit)).await,
                Err(error) => Ok(Err(error)),
            };
            drop(place);
            let Ok(answered) = answered else { return Said::nothing() };
            written(&envelope, answered.unwrap_or_else(refused)).into()
        }))
    }
}

/// What is asked about tasks.
enum Asked {
    List(Option<Cursor>),
    /// About this one; there may be none of that id.
    One(Method, String),
}

impl Asked {
    fn read(method: Method, request: &Request<'_>) -> Result<Self, ErrorObject> {
        if method == Method::ListTasks {
            let after = request.params.read::<Text<'_>>("cursor")?;
            return Ok(Self::List(after.map(|Text(text)| Cursor::from_text(text))));
        }
        let Text(id) = request.params.require("taskId")?;
        Ok(Self::One(method, id.into_owned()))
    }

    async fn answered(self, hosted: &Hosted, has_drafted: bool, limit: usize) -> Result<Write, ErrorObject> {
        let has_agreed = hosted.dialect.asks_for_tasks();
        let view = if has_agreed { view(hosted.dialect) } else { View::D1 };
        let (method, id) = match self {
            Self::List(after) => {
                let listed = hosted.list(after.as_ref(), limit, |record| {
                    let is_listed = match record.dialect {
                        Door::D1 => has_drafted,
                        _ => has_agreed && is_seen(hosted.dialect, record),
                    };
                    is_listed.then(|| listed_as(record, view))
                });
                return listed.await;
            }
            Self::One(method, id) => (method, id),
        };
        if has_drafted
            && let Some(record) = hosted.drafted(&id).await?
            && let Some(answer) = hosted.about_drafted(method, &id, record, drafted::result).await?
        {
            return Ok(answer);
        }
        let id = TaskId::new(id).ok().filter(|_| has_agreed).ok_or_else(not_found)?;
        match method {
            Method::GetTask => {
                let record = hosted.find(&id).await?.ok_or_else(not_found)?;
                Ok(shown(project::task(&record, view)))
            }
            Method::CancelTask => hosted.cancel(&id).await,
            // It is the draft's alone.
            Method::DeleteTask => Err(not_found()),
            _ => {
                // Seen before it is waited for.
                hosted.find(&id).await?.ok_or_else(not_found)?;
                let record = hosted.ended(&id).await?;
                let outcome = record.outcome().ok_or_else(not_found)?;
                let result = project::value(outcome, Some(id.as_str()))?.clone();
                Ok(result_of(id.as_str().to_owned(), whole(result)))
            }
        }
    }
}

/// What writes what a question came to.
pub(super) fn whole(value: Json) -> WriteResult {
    Box::new(move |writer| {
        if let Err(error) = writer.whole(value.as_str()) {
            tracing::error!(%error, "what a question came to is no object");
        }
    })
}
