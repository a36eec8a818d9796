//! `tasks/list`: the tasks that its caller can ask after, in pages.

use std::sync::Arc;

use longhaul_proto::jsonrpc::Text;
use longhaul_tasks::project::View;
use longhaul_tasks::store::{Cursor, Dialect as Door};

use super::answer::{Dispatched, Envelope, now_or_later, refused};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::drafted;
use super::slots::asked;
use crate::hosted::{Hosted, is_seen, listed, listed_as};

pub(super) fn answer(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    if let Err(refusal) = dispatcher.0.polls.admit(&exchange.caller, 0) {
        return Dispatched::Answered(envelope.error(out, &refusal));
    }
    let (engine, owner) = (dispatcher.0.engine.clone(), exchange.caller.owner());
    let (dialect, limit) = (exchange.dialect, dispatcher.0.page_size);
    let drafted = drafted::concerns(dispatcher, dialect);
    let view = if dialect.asks_for_tasks() { View::D2 } else { View::D1 };
    let after =
        exchange.params.read::<Text<'_>>("cursor").map(|text| text.map(|Text(text)| text.into_owned()));
    let cx = Cx::new(dispatcher.0.states(), dialect, exchange.caller, None, exchange.outlet, None);
    let (shared, its) = (Arc::clone(&dispatcher.0), cx.clone());
    let hosted = Hosted { engine, owner, dialect };
    let answered = async move {
        let after = after?;
        // A draft's caller knows its tasks by ids of its own.
        if view == View::D2
            && let Some(page) = asked(&shared.slots.list, &its, || after.clone()).await?
        {
            return Ok(listed(page.tasks, page.next));
        }
        let after = after.map(Cursor::from_text);
        let page = hosted.list(after.as_ref(), limit, |record| {
            let is_listed = match record.dialect {
                Door::D1 => drafted,
                _ => view == View::D2 && is_seen(dialect, record),
            };
            is_listed.then(|| listed_as(record, view))
        });
        page.await
    };
    now_or_later(envelope, cx, None, async { answered.await.unwrap_or_else(refused) }, out)
}
