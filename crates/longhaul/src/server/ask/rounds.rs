//! Calls in rounds: answered with their questions, and made again with the answers (2026-07-28, Multi Round-Trip
//! Requests).
//!
//! A handler that may be entered again is: its journal travels in `requestState`. Any other waits in memory, and the
//! state says where.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_proto::dialect::ResultWriter;
use longhaul_proto::jsonrpc::{ErrorObject, Params};
use longhaul_proto::model::{InputRequest, Retry};
use longhaul_tasks::journal::Journal;
use longhaul_tasks::store::Owner;

use super::super::answer::{
    Answered, Dispatched, Envelope, Write, at_once, now_or_later, poll_contained, refused, started, written,
};
use super::super::context::{CancelOnDrop, Cx};
use super::binding::Binding;
use super::chain::{Chain, millis};
use super::desk::Desk;
use super::elsewhere;
use super::held::{Found, Nonce, Place, Running, Suspended};
use super::interview::Turn;
use super::spent::{Spending, Spent};
use crate::seal::{self, random};

/// How an answer is written, which may be asked for more than once.
pub(in super::super) type Reply = Arc<dyn Fn(&Envelope, &mut Vec<u8>) -> Answered + Send + Sync>;

/// A handler at work.
pub(in super::super) type Handler = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// What a request is about, by which its rounds are told from others'.
#[derive(Clone, Copy)]
pub(in super::super) struct Topic<'t> {
    pub(in super::super) method: &'static str,
    pub(in super::super) name: &'t str,
    /// JSON text.
    pub(in super::super) arguments: &'t str,
    /// Its handler may be run again from its start.
    pub(in super::super) reentrant: bool,
    /// It has said that it asks: it finds room to wait before it runs, or does not run.
    pub(in super::super) asks: bool,
}

/// What becomes of a request that may be asked back.
pub(in super::super) enum Begun {
    /// Its handler is to be run, from the start; it may have a place to wait in.
    Run(Option<Place>),
    /// Its handler waits where the last round left it.
    GoOn(GoOn),
}

/// A call in rounds.
pub(in super::super) struct Rounds {
    desk: Arc<Desk>,
    subject: Subject,
    reentrant: bool,
    place: Option<Place>,
}

/// What its states are bound to, worked out once there is a state.
pub(super) struct Subject {
    pub(super) owner: Owner,
    pub(super) method: &'static str,
    about: About,
}

/// What a call is about.
enum About {
    /// This name, and these arguments: JSON text.
    Text(String, String),
    /// What its owner, its method and those come to, as another node has worked it out.
    Bound(Binding),
}

impl Subject {
    pub(super) fn new(cx: &Cx, topic: &Topic<'_>) -> Self {
        let Topic { method, name, arguments, .. } = *topic;
        Self { owner: cx.owner(), method, about: About::Text(name.to_owned(), arguments.to_owned()) }
    }

    /// That of a call of which no more is known here.
    pub(super) fn bound(owner: Owner, method: &'static str, binding: Binding) -> Self {
        Self { owner, method, about: About::Bound(binding) }
    }

    pub(super) fn binding(&self) -> Binding {
        match &self.about {
            About::Text(name, arguments) => Binding::new(&self.owner, self.method, name, arguments),
            About::Bound(binding) => *binding,
        }
    }
}

/// A call that waits in memory, and what its caller has brought for it.
pub(in super::super) struct GoOn {
    rounds: Rounds,
    nonce: Nonce,
    answers: HashMap<String, String>,
}

/// What a state holds: when its questions were put, its chain and a journal; or where a call waits.
const JOURNAL: u8 = 3;
const HELD: u8 = 1;

impl Rounds {
    /// Begins a request of the caller of `cx`: for the first time, or again with what it brings.
    ///
    /// # Errors
    ///
    /// `-32602` for what it brings if that is not good for this request, and an overload when there is no room for it
    /// to wait.
    pub(in super::super) fn begin(
        desk: &Arc<Desk>,
        cx: &Cx,
        topic: &Topic<'_>,
        params: &Params<'_>,
    ) -> Result<Begun, ErrorObject> {
        let (mut journal, mut spending) = (Journal::new(), None);
        if let Some(retry) = Retry::read(params)? {
            let answers = retry.answers.into_iter();
            let answers = answers.map(|(key, answer)| (key.into_owned(), answer.get().to_owned())).collect();
            if let Some(state) = retry.state {
                let rounds = Self::new(desk, cx, *topic, None);
                let binding = rounds.subject.binding();
                let content = desk.open(&state, &rounds.subject.owner, &binding)?;
                let damaged = || ErrorObject::internal("the state that was sealed here cannot be read");
                match content.split_first().ok_or_else(damaged)? {
                    (&JOURNAL, bytes) => {
                        let (at, bytes) = bytes.split_first_chunk::<8>().ok_or_else(damaged)?;
                        let put = Duration::from_millis(u64::from_le_bytes(*at));
                        let (chain, bytes) = Chain::decode(bytes).ok_or_else(damaged)?;
                        cx.interview().was_put_before(seal::now().saturating_sub(put));
                        journal = Journal::decode(bytes).map_err(|_| damaged())?;
                        spending = Some(Spending::new(desk, cx.owner(), binding, chain));
                    }
                    (_, bytes) => {
                        let nonce = Nonce::try_from(bytes).map_err(|_| damaged())?;
                        return Ok(Begun::GoOn(GoOn { rounds, nonce, answers }));
                    }
                }
            }
            cx.interview().offer(answers);
        }
        let waits = topic.asks && !topic.reentrant;
        let place = waits.then(|| desk.held.place(cx.caller())).transpose()?;
        cx.interview().open_rounds(journal, spending);
        Ok(Begun::Run(place))
    }

    /// The rounds of a request whose handler has been [begun](Self::begin) and is not ready at once.
    pub(in super::super) fn new(desk: &Arc<Desk>, cx: &Cx, topic: Topic<'_>, place: Option<Place>) -> Self {
        let subject = Subject::new(cx, &topic);
        Self { desk: Arc::clone(desk), subject, reentrant: topic.reentrant, place }
    }

    /// The rounds of a call that waits here, which goes on.
    pub(super) fn of(desk: &Arc<Desk>, subject: Subject) -> Self {
        Self { desk: Arc::clone(desk), subject, reentrant: false, place: None }
    }

    /// Asks, of a call that begins anew with the answers; `None` if what it has learnt is too long to travel.
    pub(in super::super) fn ask(&self, cx: &Cx, questions: Vec<(String, InputRequest)>) -> Option<Write> {
        let chain = cx.interview().spending().map_or_else(Chain::begin, |spending| spending.chain());
        let state = self.seal_journal(cx, chain)?;
        Some(answer_with(ask(questions, state), None))
    }

    /// Runs a handler until its answer is known, or it asks.
    pub(in super::super) async fn run(self, cx: Cx, handler: Handler) -> Write {
        let guard = cx.cancel_on_drop();
        self.drive(cx, handler, guard, None).await
    }

    async fn drive(
        mut self,
        cx: Cx,
        mut handler: Handler,
        guard: CancelOnDrop,
        running: Option<Running>,
    ) -> Write {
        let turn = take_turn(&cx, &mut handler).await;
        let spending = cx.interview().take_spending();
        let spent = spending.as_ref().and_then(|spending| spending.settle());
        let questions = match turn {
            Turn::Done(reply) => {
                guard.defuse();
                return self.answer(&cx, reply, spent, running).await;
            }
            Turn::Refused(error) => return self.answer(&cx, error_reply(error), spent, running).await,
            Turn::Elsewhere => {
                drop((handler, guard));
                return told_elsewhere(spending).await;
            }
            Turn::Asked(questions) => questions,
        };
        // What is asked again is asked of who asks now.
        let now = cx.now();
        let askable = questions
            .iter()
            .try_for_each(|(_, question)| question.check(now.dialect(), &now.caller().capabilities));
        if self.reentrant && running.is_none() {
            if let Err(error) = askable {
                return self.answer(&cx, error_reply(error), spent, None).await;
            }
            let chain = spending.as_ref().filter(|_| spent.is_none());
            let chain = chain.map_or_else(Chain::begin, |spending| spending.chain());
            if let Some(state) = self.seal_journal(&cx, chain) {
                return self.answer(&cx, ask(questions, state), spent, None).await;
            }
            // What is too long to travel waits here.
        }
        let place = match self.place.take().map_or_else(|| self.desk.held.place(cx.caller()), Ok) {
            Ok(place) => place,
            Err(error) => return self.answer(&cx, error_reply(error), spent, None).await,
        };
        // It stands still in one place from here on: what it came from counts no more.
        let spent = match (spent, spending) {
            (None, Some(spending)) => match spending.spend().await {
                Ok(true) => spending.settle(),
                Ok(false) => {
                    drop((handler, guard));
                    return spending.outcome().await;
                }
                Err(error) => return refused(error),
            },
            (spent, _) => spent,
        };
        let nonce = running.as_ref().map_or_else(random, Running::nonce);
        let lasting = self.desk.options.patience;
        let Some(state) = self.seal(&[&[HELD], &nonce[..]].concat(), lasting) else {
            return refused(ErrorObject::internal("the state could not be sealed"));
        };
        let reply = askable.map_or_else(error_reply, |()| ask(questions, state));
        let suspended = Suspended { handler, cx: cx.clone(), guard, place };
        match running {
            Some(running) => running.suspend(suspended),
            None => self.desk.held.suspend(nonce, suspended),
        }
        elsewhere::listen(&self.desk);
        self.answer(&cx, reply, spent, None).await
    }

    /// Answers so, and keeps the answer if the call was held, or has spent a state.
    async fn answer(&self, cx: &Cx, reply: Reply, spent: Option<Spent>, running: Option<Running>) -> Write {
        if let Some(spent) = spent {
            spent.came_to(&reply, cx.dialect(), self.subject.method).await;
        }
        answer_with(reply, running)
    }

    /// A state with all that the call has learnt, if it is not too long.
    fn seal_journal(&self, cx: &Cx, chain: Chain) -> Option<String> {
        let mut content = [&[JOURNAL], &millis(seal::now()).to_le_bytes()[..]].concat();
        chain.encode(&mut content);
        cx.interview().journal().encode(&mut content);
        self.seal(&content, chain.lasting(self.desk.options.patience))
    }

    fn seal(&self, content: &[u8], lasting: Duration) -> Option<String> {
        self.desk.sealer.seal(content, &self.subject.binding().0, lasting)
    }
}

impl GoOn {
    pub(super) fn new(rounds: Rounds, nonce: Nonce, answers: HashMap<String, String>) -> Self {
        Self { rounds, nonce, answers }
    }

    /// Hands the answers to the handler that waits for them, wherever that is, for a caller that now hears of it through `cx`.
    pub(in super::super) async fn run(self, cx: Cx) -> Write {
        if self.rounds.desk.registry().is_none() || self.rounds.desk.held.has(&self.nonce) {
            return self.run_here(cx).await;
        }
        let Self { rounds, nonce, answers } = self;
        let guard = cx.cancel_on_drop();
        let write = elsewhere::forward(&rounds.desk, &rounds.subject, nonce, answers, &cx).await;
        guard.defuse();
        write
    }

    /// The same to one that waits in this process.
    pub(super) async fn run_here(self, cx: Cx) -> Write {
        let Self { mut rounds, nonce, answers } = self;
        loop {
            match rounds.desk.held.take(nonce) {
                Found::Suspended(suspended, running) => {
                    let Suspended { handler, cx: its, guard, place } = *suspended;
                    its.succeed(cx);
                    its.interview().offer(answers);
                    rounds.place = Some(place);
                    return rounds.drive(its, handler, guard, Some(running)).await;
                }
                Found::Running(mut ended) => {
                    // An error says that it has ended, which is what is waited for.
                    let _ = ended.changed().await;
                }
                Found::Ended(reply) => return answer_with(reply, None),
                Found::Gone => return refused(worker_lost()),
            }
        }
    }
}

/// Answers with what `start` begins, which may ask, in rounds or on the line of its session, once it is done, as `write`
/// writes it. A panic on the way becomes an answer too.
pub(in super::super) fn when_answered<T: Send + Sync + 'static, F>(
    desk: &Arc<Desk>,
    envelope: Envelope,
    (cx, params): (Cx, &Params<'_>),
    topic: Topic<'_>,
    start: impl FnOnce() -> Result<F, ErrorObject>,
    write: fn(&T, &mut ResultWriter<'_>),
    out: &mut Vec<u8>,
) -> Dispatched
where
    F: Future<Output = Result<T, ErrorObject>> + Send + Unpin + 'static,
{
    let in_rounds = !envelope.dialect.asks_by_request();
    let place = if in_rounds {
        match Rounds::begin(desk, &cx, &topic, params) {
            Ok(Begun::Run(place)) => place,
            Ok(Begun::GoOn(held)) => return now_or_later(envelope, cx.clone(), None, held.run(cx), out),
            Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
        }
    } else {
        None
    };
    let mut working = match started(start) {
        Ok(working) => working,
        Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
    };
    // What may spend a state is kept, even if it is ready at once.
    if cx.interview().spending().is_none()
        && let Poll::Ready(outcome) =
            poll_contained(Pin::new(&mut working), &mut Context::from_waker(Waker::noop()), Err)
    {
        return at_once(envelope, cx, outcome, write, out);
    }
    if !in_rounds {
        let its = cx.clone();
        let answered =
            async move { written(its.interview().to_the_end(working).await.and_then(|done| done), write) };
        return now_or_later(envelope, cx, None, answered, out);
    }
    let handler = Box::pin(async move { reply(working.await, write) });
    let rounds = Rounds::new(desk, &cx, topic, place);
    now_or_later(envelope, cx.clone(), None, rounds.run(cx, handler), out)
}

/// What a request has come to, to be written as often as it is asked for.
pub(in super::super) fn reply<T: Send + Sync + 'static>(
    outcome: Result<T, ErrorObject>,
    write: fn(&T, &mut ResultWriter<'_>),
) -> Reply {
    Arc::new(move |envelope, out| match &outcome {
        Ok(done) => envelope.result(out, |result| write(done, result)),
        Err(error) => envelope.error(out, error),
    })
}

/// Drives a call as far as it goes. Meanwhile other nodes are told that what it has spent is under way.
async fn take_turn(cx: &Cx, handler: &mut Handler) -> Turn<Reply> {
    let spending = cx.interview().spending();
    let turn = poll_fn(|task| cx.interview().poll_turn(handler, task));
    match spending {
        Some(spending) => tokio::select! {
            biased;
            turn = turn => turn,
            never = spending.keep_renewing() => match never {},
        },
        None => turn.await,
    }
}

/// Answers with what came of the use that was first.
async fn told_elsewhere(spending: Option<Arc<Spending>>) -> Write {
    match spending {
        Some(spending) => spending.outcome().await,
        None => refused(worker_lost()),
    }
}

/// Writes the answer, which is kept if the call was held.
pub(super) fn answer_with(reply: Reply, running: Option<Running>) -> Write {
    Box::new(move |envelope, out| {
        let start = out.len();
        let answered = reply(envelope, out);
        if let Some(running) = running {
            running.ended(reply, out.len() - start);
        }
        answered
    })
}

fn ask(questions: Vec<(String, InputRequest)>, state: String) -> Reply {
    Arc::new(move |envelope, out| envelope.result(out, |result| result.input_required(&questions, &state)))
}

fn error_reply(error: ErrorObject) -> Reply {
    Arc::new(move |envelope, out| envelope.error(out, &error))
}

/// The call that waited is gone, with the process or because its time was up; nothing of it is run again.
pub(super) fn worker_lost() -> ErrorObject {
    #[derive(serde::Serialize)]
    struct Data {
        reason: &'static str,
    }
    ErrorObject::internal(
        "the call that waited for these answers is gone, and is not run again by itself; whether to make it anew, \
         without `requestState` and `inputResponses`, depends on what it may have done",
    )
    .with_data(&Data { reason: "worker_lost" })
}
