//! Calls of tools whose functions open their tasks by hand.

use std::sync::Arc;

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_tasks::machine::Caller as Stance;
use longhaul_tasks::store::{Json, Once};

use super::answer::{Dispatched, Envelope, Write, now_or_later, refused};
use super::ask::{Begun, Reply, Rounds};
use super::call::{conversation, topic};
use super::caught::Caught;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::opened::{Opening, plain};
use super::outlet::HeldPush;
use super::tool::{Tool, ToolHandler};

/// A call that runs where it stands, and is answered with what its function returns or hands back.
pub(super) struct ByHand<'s> {
    pub(super) dispatcher: &'s Dispatcher,
    pub(super) tool: &'s Tool,
    pub(super) handler: &'s dyn ToolHandler,
    pub(super) stance: Stance,
}

impl ByHand<'_> {
    /// `once`: as what it is made once.
    pub(super) fn answer(
        &self,
        envelope: Envelope,
        exchange: Exchange<'_, '_>,
        once: Option<Once>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let shared = &self.dispatcher.0;
        let Exchange { caller, progress_token, outlet, push, params, dialect, .. } = exchange;
        let refuse =
            |out: &mut Vec<u8>, error: &ErrorObject| Dispatched::Answered(envelope.error(out, error));
        let cx = Cx::new(shared.states(), dialect, caller, progress_token, outlet, None);
        let push =
            push.filter(|_| self.stance == Stance::AsksForTask).map(|push| Arc::new(HeldPush::new(push)));
        let stored = match Json::parse(arguments) {
            Ok(stored) => stored,
            Err(error) => return refuse(out, &ErrorObject::invalid_params(error.to_string())),
        };
        cx.may_open(Opening {
            shared: Arc::clone(shared),
            name: Arc::clone(&self.tool.name),
            arguments: stored,
            conversation: conversation(params),
            policy: self.tool.policy.clone(),
            stance: Some(self.stance),
            push: push.clone(),
            state: Arc::default(),
        });
        let (desk, topic) = (&shared.desk, topic(self.tool, arguments));
        let in_rounds = !dialect.asks_by_request();
        let place = match in_rounds.then(|| Rounds::begin(desk, &cx, &topic, params)).transpose() {
            Ok(Some(Begun::GoOn(held))) => {
                return now_or_later(envelope, cx.clone(), None, held.run(cx), out);
            }
            Ok(Some(Begun::Run(place))) => place,
            Ok(None) => None,
            Err(error) => return refuse(out, &error),
        };
        let call = match Caught::start(|| self.handler.call(cx.clone(), arguments)) {
            Ok(call) => call,
            // Whoever asked for a task can read no other result.
            Err(refusal) if self.stance == Stance::AsksForTask => {
                let text = refusal.content.first().and_then(|content| content.as_text()).unwrap_or_default();
                return refuse(out, &ErrorObject::invalid_params(text.to_owned()));
            }
            Err(refusal) => {
                return Dispatched::Answered(envelope.result(out, |result| refusal.write(result)));
            }
        };
        let replied = replied(cx.clone(), call, once, self.tool.immediate_response.clone());
        let dispatched = if in_rounds {
            let rounds = Rounds::new(desk, &cx, topic, place);
            now_or_later(envelope, cx.clone(), None, rounds.run(cx, Box::pin(replied)), out)
        } else {
            let (guard, its) = (cx.cancel_on_drop(), cx.clone());
            let answered = async move {
                let replied = its.interview().to_the_end(Box::pin(replied)).await;
                guard.defuse();
                match replied {
                    Ok(reply) => {
                        Box::new(move |envelope: &Envelope, out: &mut Vec<u8>| reply(envelope, out)) as Write
                    }
                    Err(error) => refused(error),
                }
            };
            now_or_later(envelope, cx, None, answered, out)
        };
        match (dispatched, push) {
            (Dispatched::Pending(answer), push) => Dispatched::Pending(answer.with_push(push)),
            (answered @ Dispatched::Answered(_), push) => {
                if let Some(push) = push {
                    push.release();
                }
                answered
            }
        }
    }
}

/// What the call is answered with, as often as it is asked for.
async fn replied(cx: Cx, call: Caught, once: Option<Once>, meanwhile: Option<Arc<str>>) -> Reply {
    let outcome = match cx.opening() {
        Some(opening) => match opening.make_ready(&cx, once).await {
            Ok(()) => {
                let outcome = call.await;
                opening.settle(&outcome).await;
                outcome
            }
            Err(error) => Err(error),
        },
        None => call.await,
    };
    Arc::new(move |envelope, out| match cx.opening() {
        Some(opening) => opening.write(&cx, envelope, out, &outcome, meanwhile.as_deref()),
        None => plain(envelope, out, &outcome),
    })
}
