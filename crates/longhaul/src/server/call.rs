//! `tools/call`: which way a call goes, and what its caller is told.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::{Code, ErrorObject, Params, clip};
use longhaul_proto::model::{
    CONVERSATION, CallToolParams, CallToolResult, InputKind, RequestMeta, TASKS_EXTENSION,
};
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::machine::{Caller as Stance, Plan, Refusal};
use longhaul_tasks::project;
use longhaul_tasks::report::Reporter;
use longhaul_tasks::runner::{Answer, Call, Keeper, Ticket, Work};
use longhaul_tasks::store::{Dialect as Door, Digest, Json, Once, Outcome, Record};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::answer::{self, Dispatched, Envelope, Write, at_once, later, now_or_later, refused};
use super::ask::{Back, Begun, Rounds, TaskRounds, Topic, Turn, courier, reply};
use super::by_hand::ByHand;
use super::caught::Caught;
use super::companion::{Companion, beats};
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange, Shared};
use super::drafted::{self, Drafted};
use super::hand_over::hand_over;
use super::observer::{Afterwards, CallObserver};
use super::once::once;
use super::outlet::HeldPush;
use super::parts;
use super::policy::TaskMode;
use super::resumed::written as written_of_caller;
use super::tasks::stopping;
use super::tool::{Kind, Tool, ToolHandler};
use crate::hosted::{self, created, is_seen};

pub(super) fn call_tool(
    dispatcher: &Dispatcher,
    envelope: Envelope,
    exchange: Exchange<'_, '_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    let refuse = |out: &mut Vec<u8>, error| Dispatched::Answered(envelope.error(out, &error));
    let params = match CallToolParams::read(exchange.params) {
        Ok(params) => params,
        Err(error) => return refuse(out, error),
    };
    if dispatcher.0.capabilities.tasks
        && let Some(companion) = Companion::named(&params.name)
    {
        return companion.answer(dispatcher, envelope, exchange, params.arguments, out);
    }
    let Some(tool) = dispatcher.0.offer.tools.find(&params.name) else {
        return refuse(out, ErrorObject::invalid_params(format!("unknown tool: {}", clip(&params.name))));
    };
    // Whoever may begin a task may follow it: only here are a tool's scopes asked for.
    if exchange.caller.grant.as_ref().is_some_and(|grant| !grant.allows(&tool.scopes)) {
        return Dispatched::Answered(envelope.forbidden(out, &tool.scopes));
    }
    if let Err(refusal) = dispatcher.0.calls.admit(&exchange.caller) {
        return refuse(out, refusal);
    }
    // A model that may answer forms can always be asked them.
    let mut asks = tool.asks.iter().filter(|what| !(tool.answer_by_model && **what == InputKind::Form));
    let able = |what: &InputKind| what.check(envelope.dialect, &exchange.caller.capabilities);
    if let Err(lacking) = asks.try_for_each(able) {
        return refuse(out, lacking);
    }
    let offers = dispatcher.0.capabilities.tasks;
    let asks = params.asks_for_task && envelope.dialect.asks_for_tasks();
    if !asks && drafted::concerns(dispatcher, envelope.dialect) {
        let drafted = Drafted::of(&tool, &exchange.caller.owner(), &exchange, params.arguments);
        match drafted {
            Err(error) => return refuse(out, error),
            Ok(None) => {}
            Ok(Some(drafted)) => {
                let once = Some(drafted.once.clone());
                let begin =
                    Begin { dispatcher, tool: &tool, stance: Stance::Waits, once, drafted: Some(drafted) };
                return begin.begin(envelope, exchange, params.arguments, out);
            }
        }
    }
    let key = exchange.idempotency_key.as_deref().filter(|_| offers);
    let once = match once(&tool, &exchange.caller.owner(), key, params.arguments) {
        Ok(once) => once,
        Err(error) => return refuse(out, error),
    };
    let is_front = dispatcher.0.engine.is_front();
    match Way::choose(&tool, &envelope, &exchange, params.asks_for_task, offers) {
        Err(error) => refuse(out, error),
        Ok(Way::InPlace(_)) if once.is_some() || is_front => {
            Begin { dispatcher, tool: &tool, stance: Stance::Waits, once, drafted: None }.begin(
                envelope,
                exchange,
                params.arguments,
                out,
            )
        }
        Ok(Way::InPlace(handler)) => InPlace { dispatcher, tool: &tool, handler: &**handler }.answer(
            envelope,
            exchange,
            params.arguments,
            out,
        ),
        Ok(Way::ByHand(handler, stance)) => {
            let by_hand = ByHand { dispatcher, tool: &tool, handler: &**handler, stance };
            by_hand.answer(envelope, exchange, once, params.arguments, out)
        }
        Ok(Way::Engine(stance)) => {
            let arguments = params.arguments;
            Begin { dispatcher, tool: &tool, stance, once, drafted: None }
                .begin(envelope, exchange, arguments, out)
        }
    }
}

/// Which way a call goes.
enum Way<'t> {
    /// It runs and is answered; nothing more.
    InPlace(&'t Arc<dyn ToolHandler>),
    /// It runs, and its function opens what tasks there are to be.
    ByHand(&'t Arc<dyn ToolHandler>, Stance),
    /// It may become a task, or has to wait for its turn.
    Engine(Stance),
}

impl<'t> Way<'t> {
    /// By what the tool, the revision and the caller say (2025-11-25, Tasks, Tool-Level Negotiation; the
    /// tasks extension, Capabilities).
    fn choose(
        tool: &'t Tool,
        envelope: &Envelope,
        exchange: &Exchange<'_, '_>,
        asked: bool,
        offers: bool,
    ) -> Result<Self, ErrorObject> {
        let dialect = envelope.dialect;
        let (asks, takes) = (
            offers && dialect.asks_for_tasks() && asked,
            dialect.has_tasks_extension() && exchange.caller.capabilities.extensions.tasks,
        );
        let stance = match (asks, takes) {
            (true, _) => Stance::AsksForTask,
            (false, true) => Stance::TakesTask,
            (false, false) => Stance::Waits,
        };
        let name = &tool.definition.name;
        match tool.policy.mode {
            TaskMode::Never if asks => Err(ErrorObject::new(
                Code::METHOD_NOT_FOUND,
                format!("tool {name} cannot be called as a task: call it without `task`"),
            )),
            TaskMode::Never => Ok(match &tool.kind {
                Kind::Function(handler) if tool.policy.limit.is_none() => Self::InPlace(handler),
                Kind::Function(_) | Kind::Job(_) => Self::Engine(Stance::Waits),
            }),
            TaskMode::ByHand => Ok(match &tool.kind {
                Kind::Function(handler) => Self::ByHand(handler, stance),
                Kind::Job(_) => Self::Engine(stance),
            }),
            TaskMode::Required if !asks && !takes => Err(if dialect.has_tasks_extension() {
                missing_tasks()
            } else {
                ErrorObject::new(
                    Code::METHOD_NOT_FOUND,
                    format!("tool {name} can only be called as a task: call it with `task`"),
                )
            }),
            _ => Ok(Self::Engine(stance)),
        }
    }
}

/// `-32021`: the request does not declare the tasks extension.
pub(super) fn missing_tasks() -> ErrorObject {
    ErrorObject::missing_capability(&format!(r#"{{"extensions":{{"{TASKS_EXTENSION}":{{}}}}}}"#))
}

/// A call that runs and is answered; nothing more.
struct InPlace<'s> {
    dispatcher: &'s Dispatcher,
    tool: &'s Tool,
    handler: &'s dyn ToolHandler,
}

impl InPlace<'_> {
    /// The hot path: the call is polled once where it stands.
    fn answer(
        &self,
        envelope: Envelope,
        exchange: Exchange<'_, '_>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let params = exchange.params;
        let cx = Cx::new(
            self.dispatcher.0.states(),
            exchange.dialect,
            exchange.caller,
            exchange.progress_token,
            exchange.outlet,
            None,
        );
        if !envelope.dialect.asks_by_request() {
            return self.in_rounds(envelope, cx, params, arguments, out);
        }
        let mut future = match Caught::start(|| self.handler.call(cx.clone(), arguments)) {
            Ok(future) => future,
            Err(refusal) => {
                return Dispatched::Answered(envelope.result(out, |result| refusal.write(result)));
            }
        };
        if let Poll::Ready(outcome) = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            return at_once(envelope, cx, outcome, CallToolResult::write, out);
        }
        let (guard, its) = (cx.cancel_on_drop(), cx.clone());
        let answered = async move {
            let outcome = its.interview().to_the_end(future).await.and_then(|outcome| outcome);
            guard.defuse();
            written(outcome)
        };
        now_or_later(envelope, cx, None, answered, out)
    }

    /// The same, of a call that may be answered with questions and made again.
    fn in_rounds(
        &self,
        envelope: Envelope,
        cx: Cx,
        params: &Params<'_>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let topic = topic(self.tool, arguments);
        let desk = &self.dispatcher.0.desk;
        let place = match Rounds::begin(desk, &cx, &topic, params) {
            Ok(Begun::Run(place)) => place,
            Ok(Begun::GoOn(held)) => return now_or_later(envelope, cx.clone(), None, held.run(cx), out),
            Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
        };
        let mut future = match Caught::start(|| self.handler.call(cx.clone(), arguments)) {
            Ok(future) => future,
            Err(refusal) => {
                return Dispatched::Answered(envelope.result(out, |result| refusal.write(result)));
            }
        };
        // What may spend a state is kept, even if it is ready at once.
        if cx.interview().spending().is_none()
            && let Poll::Ready(outcome) = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
        {
            return at_once(envelope, cx, outcome, CallToolResult::write, out);
        }
        let handler = Box::pin(async move { reply(future.await, CallToolResult::write) });
        let rounds = Rounds::new(desk, &cx, topic, place);
        now_or_later(envelope, cx.clone(), None, rounds.run(cx, handler), out)
    }
}

/// What a call of the tool is about.
pub(super) fn topic<'t>(tool: &'t Tool, arguments: &'t str) -> Topic<'t> {
    let (name, reentrant) = (&tool.definition.name, tool.is_reentrant());
    Topic { method: "tools/call", name, arguments, reentrant, asks: !tool.asks.is_empty() }
}

/// In which conversation of its user's a client says that it calls.
pub(super) fn conversation(params: &Params<'_>) -> Option<Arc<str>> {
    // Few say so, and what the others say of themselves is not read once more.
    params.member("_meta").filter(|meta| meta.contains(CONVERSATION))?;
    let meta = params.read::<RequestMeta<'_>>("_meta").ok().flatten()?;
    meta.conversation.map(Arc::from)
}

/// A call that goes to the engine.
struct Begin<'s> {
    dispatcher: &'s Dispatcher,
    tool: &'s Tool,
    stance: Stance,
    /// Under which key it is made once.
    once: Option<Once>,
    /// The drafted task that it is to be, which its caller waits for all the same.
    drafted: Option<Drafted>,
}

impl Begin<'_> {
    fn begin(
        &self,
        envelope: Envelope,
        exchange: Exchange<'_, '_>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let (reporter, reports) = Reporter::new();
        let Exchange { caller, progress_token, outlet, push, params, .. } = exchange;
        let engine = &self.dispatcher.0.engine;
        let keeper = engine.keeper(Arc::clone(&self.tool.name), self.tool.is_entered_again());
        let cx = Cx::of_task(
            (self.dispatcher.0.states(), &self.dispatcher.0.offer.tools),
            envelope.dialect,
            caller,
            progress_token,
            outlet,
            reporter.clone(),
            keeper.clone(),
        );
        if let Some(drafted) = &self.drafted {
            cx.be_drafted(Arc::clone(&drafted.id));
        }
        if self.tool.answer_by_model {
            cx.interview().let_model_answer();
        }
        cx.be_waited_for(self.stance == Stance::Waits);
        let asks = self.stance == Stance::AsksForTask;
        let push = push.filter(|_| asks).map(|push| Arc::new(HeldPush::new(push)));
        if asks {
            cx.be_asked_for(push.clone());
        }
        let (desk, topic) = (&self.dispatcher.0.desk, topic(self.tool, arguments));
        let is_front = engine.is_front();
        let asks_as_task = self.drafted.is_none()
            && self.tool.policy.mode != TaskMode::Never
            && matches!(self.tool.kind, Kind::Function(_));
        if asks_as_task && TaskRounds::may_be_back(&cx, params) {
            let rounds = TaskRounds::new(desk, &cx, &topic);
            match rounds.back(params) {
                Ok(Some(back)) => return self.go_on(envelope, cx, rounds, back, out),
                Ok(None) => {}
                Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
            }
        }
        let asks_in_rounds = asks_as_task && self.stance == Stance::Waits && TaskRounds::may_ask(&cx);
        if self.is_followed(&cx) || asks_in_rounds {
            cx.interview().be_followed();
        }
        match self.asking(envelope.dialect) {
            Asking::OnItsLine => {}
            Asking::InRounds => match Rounds::begin(desk, &cx, &topic, params) {
                Ok(Begun::Run(_)) => {}
                Ok(Begun::GoOn(held)) => return now_or_later(envelope, cx.clone(), None, held.run(cx), out),
                Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
            },
            Asking::InTask => cx.interview().leave_to_task(),
        }
        let (work, stored) = match self.work(&cx, arguments) {
            Ok(Prepared::Pending(work, arguments)) => (work, arguments),
            Ok(Prepared::Ready(answer)) => {
                return if cx.outlet().was_used() {
                    later(envelope, cx, answer)
                } else {
                    Dispatched::Answered(answer(&envelope, out))
                };
            }
            // Whoever asked for a task can read no other result.
            Err(refusal) if self.stance == Stance::AsksForTask => {
                let text = refusal.content.first().and_then(|content| content.as_text()).unwrap_or_default();
                let error = ErrorObject::invalid_params(text.to_owned());
                return Dispatched::Answered(envelope.error(out, &error));
            }
            Err(refusal) => {
                return Dispatched::Answered(envelope.result(out, |result| refusal.write(result)));
            }
        };
        let mut call = Call::new(cx.caller().owner(), Arc::clone(&self.tool.name), stored, work);
        (call.share, call.client) = (cx.caller().share(), cx.caller().client_line());
        call.conversation = conversation(params);
        self.lay_out(&mut call);
        if call.once.is_none() {
            // A state that was brought makes one task, however often it is.
            call.once = cx.interview().spending().and_then(|spending| spending.once());
        }
        let task_rounds = asks_in_rounds.then(|| TaskRounds::new(desk, &cx, &topic));
        if let Some(rounds) = &task_rounds {
            call.plan = call.plan.with_questions();
            cx.interview().be_asked_within(rounds.patience());
        }
        (call.reports, call.keeper) = ((reporter, reports), keeper);
        // What stands in line is begun by whoever has its task then.
        let may_wait = self.tool.policy.limit.is_some() && matches!(self.tool.kind, Kind::Function(_));
        if self.tool.is_entered_again() || may_wait || is_front || cx.trace_parent().is_some() {
            call.context = written_of_caller(&cx);
        }
        if is_front {
            // What works on it cannot ask on this caller's line: who is handed over can be asked.
            call.plan = call.plan.with_questions();
        }
        self.hand_in(envelope, cx, call, push, task_rounds, out)
    }

    /// Gives the call to the engine, and its caller what comes of it.
    fn hand_in(
        &self,
        envelope: Envelope,
        cx: Cx,
        mut call: Call,
        push: Option<Arc<HeldPush>>,
        task_rounds: Option<TaskRounds>,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let (mut observer, afterwards) = CallObserver::new(cx.clone(), push.clone());
        let kept = self.drafted.is_some().then(|| observer.kept());
        call.observer = Arc::new(observer);
        let ticket = self.dispatcher.0.engine.call(call);
        let canceller = ticket.canceller();
        let began = Instant::now();
        let (waiting, shared) = (cx.clone(), Arc::clone(&self.dispatcher.0));
        // A job asks nothing, and is never put aside.
        let asks = push.clone().filter(|_| matches!(self.tool.kind, Kind::Function(_)));
        let outlives_its_run =
            self.tool.is_entered_again() || self.once.is_some() || shared.engine.is_front();
        let afterwards = afterwards.filter(|_| outlives_its_run);
        let meanwhile = self.tool.immediate_response.clone();
        let answered = async move {
            // Nobody waits then whom the work could ask: whoever follows the task is asked.
            let _left = LeftToTask(waiting.clone());
            let answer = match kept {
                Some(kept) => Box::pin(drafted::answered(ticket, &waiting, &shared.engine, kept)).await,
                None if waiting.hears_progress() => Box::pin(in_company(ticket, &waiting)).await,
                None => ticket.await,
            };
            if let Answer::Task(record) = &answer {
                attend(&shared, &waiting, record, asks, afterwards);
            }
            match answer {
                Answer::Task(record) if is_seen(waiting.dialect(), &record) => created(record, meanwhile),
                answer => told(&shared, &waiting, answer, began.elapsed(), task_rounds.as_ref()),
            }
        };
        match now_or_later(envelope, cx, Some(canceller), answered, out) {
            Dispatched::Pending(answer) => Dispatched::Pending(answer.with_push(push)),
            answered @ Dispatched::Answered(_) => {
                if let Some(push) = push {
                    push.release();
                }
                answered
            }
        }
    }

    /// Goes on with the task that the call is by now, for its caller who comes back with answers.
    fn go_on(
        &self,
        envelope: Envelope,
        cx: Cx,
        rounds: TaskRounds,
        back: Back,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let engine = &self.dispatcher.0.engine;
        let (observer, _) = CallObserver::new(cx.clone(), None);
        let plan = Plan::new(Stance::Waits, true);
        let plan = if TaskRounds::may_ask(&cx) { plan.with_questions() } else { plan };
        let answering = back.answer(engine.clone(), cx.clone());
        let ticket = engine.come_back(answering, plan, self.tool.policy.hold, Arc::new(observer));
        let canceller = ticket.canceller();
        let (waiting, shared, began) = (cx.clone(), Arc::clone(&self.dispatcher.0), Instant::now());
        let answered = async move {
            let answer =
                if waiting.hears_progress() { in_company(ticket, &waiting).await } else { ticket.await };
            told(&shared, &waiting, answer, began.elapsed(), Some(&rounds))
        };
        now_or_later(envelope, cx, Some(canceller), answered, out)
    }

    fn row_first(&self) -> bool {
        let at_once = match self.tool.policy.mode {
            TaskMode::After(after) => after.is_zero(),
            TaskMode::Never | TaskMode::ByHand => false,
            TaskMode::Required => true,
        };
        at_once || self.stance == Stance::AsksForTask || self.once.is_some()
    }

    /// How its calls can ask. Before the engine has it, a function that may be entered again asks in rounds.
    fn asking(&self, dialect: &Dialect) -> Asking {
        if self.dispatcher.0.engine.is_front() {
            return Asking::InTask;
        }
        let polled_first = !self.row_first() && self.tool.policy.limit.is_none();
        match (dialect.asks_by_request(), self.stance) {
            (true, Stance::Waits) if self.drafted.is_none() => Asking::OnItsLine,
            (false, _) if polled_first && self.tool.is_reentrant() => Asking::InRounds,
            _ => Asking::InTask,
        }
    }

    /// Whether somebody follows the task that the call is or becomes, and can be asked there. Who waits to the end never
    /// hears of it, whatever its key finds later.
    fn is_followed(&self, cx: &Cx) -> bool {
        if self.tool.policy.mode == TaskMode::Never {
            return false;
        }
        let caller = cx.caller();
        if cx.dialect().asks_by_request() {
            caller.line.is_some()
        } else {
            caller.capabilities.extensions.tasks
        }
    }

    /// What is to run. A function that is polled and ready needs no engine.
    fn work(&self, cx: &Cx, arguments: &str) -> Result<Prepared, CallToolResult> {
        match &self.tool.kind {
            Kind::Job(job) => {
                let arguments = job.check(arguments)?;
                Ok(Prepared::Pending(Work::Job(Arc::clone(job) as _), arguments))
            }
            Kind::Function(_) if self.dispatcher.0.engine.is_front() => {
                let nothing = Work::Future(Box::pin(std::future::pending()));
                Ok(Prepared::Pending(nothing, arguments_of(arguments)?))
            }
            Kind::Function(handler) => {
                let mut future = Caught::start(|| handler.call(cx.clone(), arguments))?;
                if !self.row_first() && self.tool.policy.limit.is_none() {
                    let mut task = Context::from_waker(Waker::noop());
                    match cx.interview().poll_turn(&mut future, &mut task) {
                        Poll::Ready(Turn::Done(outcome)) => return Ok(Prepared::Ready(written(outcome))),
                        Poll::Ready(Turn::Refused(error)) => return Ok(Prepared::Ready(refused(error))),
                        Poll::Ready(Turn::Asked(questions)) => {
                            let topic = topic(self.tool, arguments);
                            let rounds = Rounds::new(&self.dispatcher.0.desk, cx, topic, None);
                            // It goes no further than where it asks: made again it begins anew.
                            if let Some(answer) = rounds.ask(cx, questions) {
                                drop((future, cx.cancel_on_drop()));
                                return Ok(Prepared::Ready(answer));
                            }
                            // What is too long to travel is asked as a task, for its row is where the state is spent.
                        }
                        // Only a row spends the state of such a call.
                        Poll::Ready(Turn::Elsewhere) | Poll::Pending => {}
                    }
                }
                if !cx.dialect().asks_by_request() {
                    cx.interview().leave_to_task();
                }
                if let Some(keeper) = cx.keeper() {
                    keeper.adopt(&cx.interview().journal());
                }
                let arguments = arguments_of(arguments)?;
                let work = Work::Future(work_of(cx.clone(), &self.tool.definition.name, 1, future));
                Ok(Prepared::Pending(work, arguments))
            }
        }
    }

    fn lay_out(&self, call: &mut Call) {
        let policy = &self.tool.policy;
        call.secret = self.tool.secret();
        call.plan = match policy.mode {
            TaskMode::Never if self.once.is_some() => Plan::in_place_once(),
            TaskMode::Never => Plan::in_place(),
            TaskMode::After(_) | TaskMode::Required | TaskMode::ByHand => {
                let plan = Plan::new(self.stance, self.row_first());
                if self.tool.starts_with_row() { plan.with_row_first() } else { plan }
            }
        };
        call.dialect = match self.stance {
            Stance::AsksForTask => Door::D2,
            Stance::TakesTask => Door::D3,
            Stance::Waits if self.drafted.is_some() => Door::D1,
            Stance::Waits => Door::Held,
        };
        (call.rerun, call.cancel_grace) = (self.tool.rerun(), self.tool.cancel_grace());
        call.orphan = Some(policy.orphan);
        (call.version, _) = self.tool.versions().unwrap_or_default();
        let keep = self.drafted.as_ref().and_then(|drafted| drafted.keep);
        call.retention = policy.retention(&call.owner, keep);
        call.poll_interval_ms = u64::try_from(policy.poll_interval.as_millis()).ok();
        let may_hand_over =
            self.stance == Stance::Waits && policy.mode != TaskMode::Never && self.drafted.is_none();
        call.hold = policy.hold.filter(|_| may_hand_over);
        call.after = match policy.mode {
            // A caller is handed over only to what is durable.
            TaskMode::After(after) => Some(call.hold.map_or(after, |hold| after.min(hold / 2))),
            TaskMode::Required => Some(Duration::ZERO),
            TaskMode::Never | TaskMode::ByHand => None,
        };
        // Only who is handed over needs to find its call again: whoever has a task has its id.
        // A key says more of which call is which than its arguments.
        let joins = policy.join && may_hand_over && self.once.is_none();
        call.join = joins.then(|| digest(&call.tool, &call.arguments));
        call.once.clone_from(&self.once);
    }
}

/// Goes on telling the session that asked for a task of it once its run is over, and puts to it what the task asks.
pub(super) fn attend(
    shared: &Shared,
    cx: &Cx,
    record: &Arc<Record>,
    asks: Option<Arc<HeldPush>>,
    afterwards: Option<Afterwards>,
) {
    let (engine, owner, id) = (&shared.engine, cx.owner(), &record.id);
    if let Some(afterwards) = afterwards {
        tokio::spawn(afterwards.tell(engine.clone(), Arc::clone(record)));
    }
    let can = &cx.caller().capabilities;
    if can.roots || can.elicitation.is_some() || can.sampling.is_some() {
        let asked = cx.caller().line.clone().zip(asks);
        if let Some((line, push)) = asked {
            tokio::spawn(courier::attend(line, cx.dialect(), push, engine.clone(), owner, id.clone()));
        }
    }
}

/// Leaves what a call asks to its task once it is dropped.
struct LeftToTask(Cx);

impl Drop for LeftToTask {
    fn drop(&mut self) {
        self.0.interview().leave_to_task();
    }
}

/// Waits for the answer and shows whoever else waits that the call goes on.
pub(super) async fn in_company(ticket: Ticket, cx: &Cx) -> Answer {
    tokio::select! {
        answer = ticket => answer,
        never = beats(cx) => match never {},
    }
}

/// The work of a call that goes to the engine, in a span that says for whom it is done: the same trace as the request that
/// began it, whichever process does it, and for the how-manieth time.
pub(super) fn work_of(cx: Cx, tool: &str, attempt: u32, future: Caught) -> BoxFuture<'static, Outcome> {
    let guard = cx.cancel_on_drop();
    let span = tracing::info_span!(
        target: "longhaul::task",
        "work",
        task = cx.keeper().and_then(Keeper::id).map(tracing::field::display),
        tool,
        attempt,
        traceparent = cx.trace_parent().map(tracing::field::display),
    );
    let work = async move {
        let outcome = cx.interview().to_the_end(future).await.and_then(|outcome| outcome);
        guard.defuse();
        let failed = outcome.as_ref().map_or(true, |result| result.is_error);
        match cx.keeper().and_then(Keeper::given_up) {
            Some(cancelled) if failed => cancelled,
            _ => outcome_of(outcome.map(|result| parts::linked(&cx, result))),
        }
    };
    Box::pin(work.instrument(span))
}

fn arguments_of(arguments: &str) -> Result<Json, CallToolResult> {
    Json::parse(arguments).map_err(|error| CallToolResult::error(format!("invalid arguments: {error}")))
}

/// What two calls must share for one to join the other.
fn digest(tool: &str, arguments: &Json) -> Digest {
    let mut hash = Sha256::new();
    hash.update((tool.len() as u64).to_le_bytes());
    hash.update(tool);
    hash.update(arguments.as_str());
    Digest::new(hash.finalize().into())
}

/// How a call that goes to the engine can ask.
enum Asking {
    /// In a session, while its caller waits.
    OnItsLine,
    /// Until the engine has it.
    InRounds,
    /// As a task, of whoever follows it.
    InTask,
}

enum Prepared {
    /// It is answered, be it with what it asks, and the engine never has it.
    Ready(Write),
    Pending(Work, Json),
}

/// A tool's outcome as the store keeps it.
fn outcome_of(outcome: Result<CallToolResult, ErrorObject>) -> Outcome {
    match outcome {
        Ok(result) => project::stored(&result),
        Err(error) => Outcome::error(error.code.0, error.message.as_ref(), error.data.map(Json::from)),
    }
}

/// What the caller of a call that went to the engine is told, which has waited this long; in `rounds` what its task asks.
pub(super) fn told(
    shared: &Shared,
    cx: &Cx,
    answer: Answer,
    waited: Duration,
    rounds: Option<&TaskRounds>,
) -> Write {
    let drafted = cx.drafted().cloned();
    match answer {
        Answer::Outcome(outcome) if let Some(id) = drafted => match project::answer(&outcome, Some(&id)) {
            Ok(result) => Box::new(move |envelope, out| {
                envelope.result(out, |writer| {
                    writer.drafted_task(&id);
                    result.write(writer);
                })
            }),
            Err(error) => refused(error),
        },
        Answer::HandOver(_) if drafted.is_some() => refused(stopping()),
        Answer::Outcome(outcome) => written(project::answer(&outcome, None)),
        // One that is seen is its caller's to have.
        Answer::Task(_) => refused(
            ErrorObject::invalid_params(
                "this key was used in a later revision, whose tasks this one does not see",
            )
            .with_data(&serde_json::json!({ "reason": "idempotency_conflict" })),
        ),
        Answer::HandOver(record) => {
            let asked = rounds.and_then(|rounds| rounds.ask(cx, &record));
            asked.unwrap_or_else(|| {
                cx.interview().know_of_task();
                written(Ok(hand_over(shared, &record, Some(waited))))
            })
        }
        Answer::Refused(refusal) => refused(match (refusal.reason, drafted) {
            (Some(reason), Some(id)) => hosted::taken(&id, reason),
            _ => not_begun(refusal),
        }),
    }
}

/// Why a call was not begun.
pub(crate) fn not_begun(refusal: Refusal) -> ErrorObject {
    let message = refusal.message.to_string();
    match refusal.reason {
        Some(reason) => {
            ErrorObject::invalid_params(message).with_data(&serde_json::json!({ "reason": reason }))
        }
        None if refusal.overloaded => ErrorObject::overloaded(message, RETRY_AFTER),
        None if refusal.again => {
            ErrorObject::internal(message).for_now(hosted::UNAVAILABLE, hosted::RETRY_AFTER)
        }
        None => ErrorObject::internal(message),
    }
}

/// When to try again what was not begun for want of room.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Writes what a tool gave, or the error.
pub(super) fn written(outcome: Result<CallToolResult, ErrorObject>) -> Write {
    answer::written(outcome, CallToolResult::write)
}
