//! A self-describing request: answered where it stands.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use longhaul_proto::dialect::Dialect;
use longhaul_proto::http::{Accept, HeaderText, MirroredHeaders};
use longhaul_proto::jsonrpc::{ErrorObject, Request};
use longhaul_proto::method::Method;
use longhaul_proto::model::RequestMeta;

use super::answer::{Reply, Sent, Source, answer_with, events, json, refusal, status_for, text};
use super::head::Head;
use super::waiting::Standing;
use super::{Endpoint, Place};
use crate::server::{Answered, Caller, Client, Dispatched, Exchange, Outlet, Principal};
use crate::wire;

pub(super) fn answer<'a>(
    endpoint: &'a Arc<Endpoint>,
    caller: Caller,
    head: &Head<'_>,
    accept: Accept,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
) -> Reply<'a> {
    let mut accept = accept;
    let mut standing = None;
    match Dialect::claimed(meta.protocol_version.as_deref()).request(&request.method) {
        // A poll is answered by one object, however long it takes.
        Some(Method::GetTask) => accept.events = false,
        Some(Method::Listen) if !accept.events => {
            let advice = "a subscription is a stream: send Accept: application/json, text/event-stream";
            return Reply::Now(text(StatusCode::NOT_ACCEPTABLE, advice.into()));
        }
        // Callers without a principal cannot be told apart.
        Some(Method::Listen) => {
            standing = Some(Standing(caller.principal.as_ref().map_or("", Principal::as_str).into()));
        }
        _ => {}
    }
    let mut out = Vec::with_capacity(512);
    let is_found_again = meta.idempotency_key.is_some();
    match start(endpoint, caller, head, request, meta, &mut out) {
        Ok((Dispatched::Answered(Answered::Result), _))
            if accept.events && endpoint.options.always_stream =>
        {
            let answer = Sent { id: None, message: out, answered: Some(Answered::Result) };
            Reply::Now(events(&endpoint.options, Source::Apart(None), Some(answer)))
        }
        Ok((Dispatched::Answered(answered), _)) => Reply::Now(json(&endpoint.options, answered, out)),
        Ok((Dispatched::Pending(pending), place)) => {
            let source = Source::own(pending, place, is_found_again);
            Reply::later(async move {
                let mut response = answer_with(&endpoint.options, accept, source).await;
                if let Some(stream) = standing {
                    response.extensions_mut().insert(stream);
                }
                response
            })
        }
        Err(error) => Reply::Now(refusal(status_for(error.code), Some(&request.id), &error)),
    }
}

/// Checks in the order the conformance suite asks for: headers, `_meta`, revision, method.
fn start(
    endpoint: &Endpoint,
    mut caller: Caller,
    head: &Head<'_>,
    request: &Request<'_>,
    meta: RequestMeta<'_>,
    out: &mut Vec<u8>,
) -> Result<(Dispatched, Option<Place>), ErrorObject> {
    let known = Dialect::claimed(meta.protocol_version.as_deref()).request(&request.method);
    let mirrored = MirroredHeaders::new(head.version.text(), head.mcp_method.text(), head.mcp_name.text());
    mirrored.check(meta.protocol_version.as_deref(), &request.method, known, &request.params)?;
    if known == Some(Method::CallTool) {
        endpoint.dispatcher.check_mirrored(&request.params, |name| header(head.headers, name))?;
    }
    let dialect = Dialect::of_request(&meta, None, "")?;
    let own = || endpoint.dispatcher.has_own_method(&request.method).then_some(Method::Own);
    let method = dialect.request(&request.method).or_else(own);
    let method = method.ok_or_else(|| ErrorObject::method_not_found(&request.method))?;
    wire::asked(dialect, Some(&request.id), &request.method, request.params.as_str());
    caller.client = Client::of_request(method, &meta);
    caller.capabilities = meta.client_capabilities.unwrap_or_default();
    caller.log_level = meta.log_level;
    caller.trace_parent = meta.trace_parent;
    let mut exchange = Exchange::new(&request.id, dialect, method, &request.params, caller);
    exchange.name = &request.method;
    exchange.progress_token = meta.progress_token;
    exchange.idempotency_key = meta.idempotency_key.map(Into::into);
    exchange.outlet = Outlet::own();
    let place = endpoint.place(method)?;
    Ok((endpoint.dispatcher.dispatch(exchange, out), place))
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> HeaderText<'h> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => HeaderText::Absent,
        (Some(value), None) => value.to_str().map_or(HeaderText::Unreadable, HeaderText::Is),
        (Some(_), Some(_)) => HeaderText::Unreadable,
    }
}
