//! The companions: tools by which a caller that cannot take tasks follows the one it was handed over to.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::StoredQuestion;
use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::{self, CallToolResult, Content, Progress, ToolAnnotations};
use longhaul_tasks::project::{self, PARTS, output_uri};
use longhaul_tasks::store::{Answered, Cancellation, Question, Record, Reply, Scope, StoreError, TaskId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

#[cfg(feature = "http")]
use super::again::Again;
use super::answer::{Dispatched, Envelope, Write, now_or_later, refused, unheard};
use super::ask::courier::deliver;
use super::ask::{Back, TaskRounds, Topic};
use super::call::written;
use super::context::Cx;
use super::dispatch::{Dispatcher, Exchange};
use super::hand_over::hand_over;
use super::polls::Poll;
use super::schema;
use super::tool::problem_with;

/// One of the companions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Companion {
    Wait,
    Output,
    Answer,
    Cancel,
}

/// How long `task_wait` waits unless it is told otherwise: within every known client's clock.
const WAIT: Duration = Duration::from_secs(50);

/// How long it waits at most.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[derive(Deserialize, JsonSchema)]
#[cfg_attr(feature = "http", derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
struct Wait {
    /// The task's id, from the result that handed it over.
    id: String,
    /// How many seconds to wait at most; 50 if left out.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3600.0))]
    up_to: Option<f64>,
}

#[cfg(feature = "http")]
impl Wait {
    /// Any process that the store is shared with can wait in the place of this one.
    fn note_again(&self, cx: &Cx) {
        let call = json!({ "name": Companion::Wait.name(), "arguments": self });
        cx.outlet().found_again(Again::asked("tools/call", &call));
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Output {
    /// The task's id, from the result that handed it over.
    id: String,
    /// From which byte on, or behind how many parts; the last read says where to go on. The beginning if left out.
    #[serde(default)]
    from: u64,
    /// Read standard error instead of standard output.
    #[serde(default)]
    stderr: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// The task's id, from the result that handed it over.
    id: String,
    /// Which question, by its key; it may be left out while only one is open.
    #[serde(default)]
    question: Option<String>,
    /// What its form is filled in with; left out, the question is declined.
    #[serde(default)]
    content: Option<Map<String, Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Cancel {
    /// The task's id, from the result that handed it over.
    id: String,
}

impl Companion {
    const ALL: [Self; 4] = [Self::Wait, Self::Output, Self::Answer, Self::Cancel];

    /// The companion of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|companion| companion.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Wait => "task_wait",
            Self::Output => "task_output",
            Self::Answer => "task_answer",
            Self::Cancel => "task_cancel",
        }
    }

    /// What the list shows of each: of the one that `answers` only where a model may.
    pub(super) fn definitions(answers: bool) -> Vec<model::Tool> {
        let shown = Self::ALL.into_iter().filter(|companion| answers || !matches!(companion, Self::Answer));
        shown.map(Self::definition).collect()
    }

    fn definition(self) -> model::Tool {
        let (schema, description) = match self {
            Self::Wait => (
                schema::of_arguments::<Wait>(),
                "Wait for a task that another tool handed over, and get its result. If it is still running \
                 when the time is up, this says so: call it again.",
            ),
            Self::Output => (
                schema::of_arguments::<Output>(),
                "Read what a running or finished task has written or given so far.",
            ),
            Self::Answer => (
                schema::of_arguments::<Answer>(),
                "Answer what a task asks. Its result or task_wait says what that is, and what the answer must fit.",
            ),
            Self::Cancel => (schema::of_arguments::<Cancel>(), "Stop a task that another tool handed over."),
        };
        let mut definition = model::Tool::new(self.name(), schema);
        definition.description = Some(description.to_owned());
        let reads = !matches!(self, Self::Answer | Self::Cancel);
        let annotations = ToolAnnotations::new().with_read_only(reads).with_open_world(false);
        definition.annotations = Some(annotations);
        definition
    }

    /// It as one calls it.
    fn usage(self) -> &'static str {
        match self {
            Self::Wait => "task_wait(id: string, up_to?: number)",
            Self::Output => "task_output(id: string, from?: integer, stderr?: boolean)",
            Self::Answer => "task_answer(id: string, question?: string, content?: object)",
            Self::Cancel => "task_cancel(id: string)",
        }
    }

    fn refuse(self, envelope: &Envelope, problem: &str, out: &mut Vec<u8>) -> Dispatched {
        let refusal = CallToolResult::error(format!("{problem}\nusage: {}", self.usage()));
        Dispatched::Answered(envelope.result(out, |result| refusal.write(result)))
    }

    pub(super) fn answer(
        self,
        dispatcher: &Dispatcher,
        envelope: Envelope,
        exchange: Exchange<'_, '_>,
        arguments: &str,
        out: &mut Vec<u8>,
    ) -> Dispatched {
        let poll = match dispatcher.0.polls.admit(&exchange.caller, 1) {
            Ok(poll) => poll,
            Err(refusal) => return Dispatched::Answered(envelope.error(out, &refusal)),
        };
        let params = exchange.params;
        let cx = Cx::new(
            dispatcher.0.states(),
            exchange.dialect,
            exchange.caller,
            exchange.progress_token,
            exchange.outlet,
            None,
        );
        let topic =
            Topic { method: "tools/call", name: self.name(), arguments, reentrant: true, asks: false };
        let rounds = TaskRounds::of(&dispatcher.0.desk, &cx, &topic, params);
        let back = match rounds.as_ref().map(|rounds| rounds.back(params)).transpose() {
            Ok(back) => back.flatten(),
            Err(error) => return Dispatched::Answered(envelope.error(out, &error)),
        };
        let call = Companions { dispatcher: dispatcher.clone(), cx: cx.clone(), poll, rounds };
        match self {
            Self::Wait => match read::<Wait>(arguments) {
                Ok(wait) => {
                    #[cfg(feature = "http")]
                    wait.note_again(&cx);
                    now_or_later(envelope, cx, None, async move { call.wait(wait, back).await }, out)
                }
                Err(problem) => self.refuse(&envelope, &problem, out),
            },
            Self::Output => match read::<Output>(arguments) {
                Ok(output) => now_or_later(envelope, cx, None, async move { call.output(output).await }, out),
                Err(problem) => self.refuse(&envelope, &problem, out),
            },
            Self::Answer => match read::<Answer>(arguments) {
                Ok(answer) => now_or_later(envelope, cx, None, async move { call.reply(answer).await }, out),
                Err(problem) => self.refuse(&envelope, &problem, out),
            },
            Self::Cancel => match read::<Cancel>(arguments) {
                Ok(cancel) => now_or_later(envelope, cx, None, async move { call.cancel(cancel).await }, out),
                Err(problem) => self.refuse(&envelope, &problem, out),
            },
        }
    }
}

fn read<A: DeserializeOwned>(arguments: &str) -> Result<A, String> {
    serde_json::from_str(arguments).map_err(|_| problem_with::<A>(arguments))
}

/// A call of a companion.
struct Companions {
    dispatcher: Dispatcher,
    cx: Cx,
    poll: Poll,
    /// How its caller is asked what the task asks, if it can be.
    rounds: Option<TaskRounds>,
}

impl Companions {
    async fn wait(&self, Wait { id, up_to }: Wait, back: Option<Back>) -> Write {
        if let Some(back) = back
            && let Err(outcome) = back.answer(self.dispatcher.0.engine.clone(), self.cx.clone()).await
        {
            return written(project::answer(&outcome, None));
        }
        let up_to = up_to.map_or(WAIT, |seconds| {
            Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
        });
        let (began, mut seen) = (Instant::now(), None);
        let ended = async {
            loop {
                let record = self.find(&id, seen).await?;
                if record.is_terminal() || self.model_is_asked(&record) {
                    return Ok(self.result_of(&record));
                }
                if let Some(asked) = self.rounds.as_ref().and_then(|rounds| rounds.ask(&self.cx, &record)) {
                    return Ok(asked);
                }
                self.report(&record).await;
                seen = Some(record.seq);
            }
        };
        tokio::select! {
            biased;
            answer = ended => answer.unwrap_or_else(written),
            never = beats(&self.cx) => match never {},
            never = self.deliver(&id) => match never {},
            () = self.cx.outlet().abandoned() => refused(unheard()),
            () = time_is_up(&self.dispatcher.0.engine, up_to) => match self.find(&id, None).await {
                Ok(record) if record.is_terminal() => self.result_of(&record),
                Ok(record) => written(Ok(hand_over(&self.dispatcher.0, &record, Some(began.elapsed())))),
                Err(refusal) => written(refusal),
            },
        }
    }

    /// Puts what the task asks to who waits for it.
    async fn deliver(&self, id: &str) -> Infallible {
        match TaskId::new(id) {
            Ok(id) => deliver(&self.cx, &self.dispatcher.0.engine, &self.cx.owner(), &id).await,
            Err(_) => std::future::pending().await,
        }
    }

    async fn output(&self, Output { id, from, stderr }: Output) -> Write {
        let record = match self.find(&id, None).await {
            Ok(record) => record,
            Err(refusal) => return written(refusal),
        };
        let stream = match (self.dispatcher.0.engine.runs_as_job(&record.tool), stderr) {
            (true, true) => "stderr",
            (true, false) => "stdout",
            (false, _) => PARTS,
        };
        let uri = output_uri(&id, stream, from);
        let Some(resources) = self.dispatcher.0.offer.family_of(&uri) else {
            return written(Ok(CallToolResult::error("this task writes no output that could be read")));
        };
        match resources.read(self.cx.clone(), &uri).await {
            Ok(read) => written(Ok(as_result(read))),
            Err(error) => written(Ok(CallToolResult::error(error.message.into_owned()))),
        }
    }

    /// Whether the task asks, and only the model can answer.
    fn model_is_asked(&self, record: &Record) -> bool {
        let asks_user = self.cx.caller().capabilities.elicitation.is_some();
        !asks_user && !record.questions.is_empty() && self.model_may_answer(record)
    }

    fn model_may_answer(&self, record: &Record) -> bool {
        self.dispatcher.0.offer.tools.find(&record.tool).is_some_and(|tool| tool.answer_by_model)
    }

    /// Answers a form in the place of a user.
    async fn reply(&self, answer: Answer) -> Write {
        let record = match self.find(&answer.id, None).await {
            Ok(record) => record,
            Err(refusal) => return written(refusal),
        };
        let (key, reply) = match self.read_reply(&record, &answer) {
            Ok(reply) => reply,
            Err(problem) => return written(Ok(CallToolResult::error(problem))),
        };
        let (owner, engine) = (self.cx.owner(), &self.dispatcher.0.engine);
        let answered =
            engine.answer(Scope::Owner(&owner), &record.id, &[Reply::new(key, reply.into())]).await;
        match answered {
            Ok(Answered::Recorded { taken: 0, .. }) => {
                written(Ok(CallToolResult::text("It was answered already. Call `task_wait` for the result.")))
            }
            Ok(Answered::Recorded { .. }) => {
                written(Ok(CallToolResult::text("Answered. Call `task_wait` for the result.")))
            }
            Ok(Answered::NotFound) => written(unknown(&answer.id)),
            Err(error @ (StoreError::TooLarge { .. } | StoreError::Overloaded { .. })) => {
                written(Ok(CallToolResult::error(format!("the answer is not taken: {error}"))))
            }
            Err(error) => written(failed(&error)),
        }
    }

    /// The key of the question that is answered, and the answer as a client would give it.
    fn read_reply(&self, record: &Record, answer: &Answer) -> Result<(Arc<str>, Box<RawValue>), String> {
        if !self.model_may_answer(record) {
            return Err("what this task asks is its user's to answer".to_owned());
        }
        let question = match (&answer.question, &record.questions[..]) {
            (_, []) => None,
            (None, [only]) => Some(only),
            (None, _) => return Err(format!("say which question:{}", asked(record))),
            (Some(key), all) => all.iter().find(|question| *question.key == **key),
        };
        let question =
            question.ok_or_else(|| format!("the task asks no such question now:{}", asked(record)))?;
        if Form::of(question).is_none() {
            return Err("only a form can be answered so".to_owned());
        }
        let reply = match &answer.content {
            Some(content) => json!({ "action": "accept", "content": content }),
            None => json!({ "action": "decline" }),
        };
        let reply = to_raw_value(&reply).map_err(|error| error.to_string())?;
        let asked = StoredQuestion::read(&question.request).map_err(|error| error.to_string());
        let fits = asked.and_then(|asked| asked.check(&reply));
        fits.map_err(|wrong| format!("the answer does not fit, and it is asked still: {wrong}"))?;
        Ok((Arc::from(&*question.key), reply))
    }

    async fn cancel(&self, Cancel { id }: Cancel) -> Write {
        let Ok(task) = TaskId::new(id.as_str()) else {
            self.poll.missed(1);
            return written(unknown(&id));
        };
        let owner = self.cx.owner();
        let engine = &self.dispatcher.0.engine;
        let cancelled = engine.cancel(Scope::Owner(&owner), &task, Some("cancelled on request")).await;
        self.poll.missed(usize::from(matches!(cancelled, Ok(Cancellation::NotFound))));
        match cancelled {
            Ok(Cancellation::Cancelled(_)) => {
                written(Ok(CallToolResult::text(format!("Task {id} is cancelled."))))
            }
            Ok(Cancellation::AlreadyTerminal(_)) => {
                let text = format!("Task {id} had ended already: task_wait gives its result.");
                written(Ok(CallToolResult::text(text)))
            }
            Ok(Cancellation::NotFound) => written(unknown(&id)),
            Err(error) => written(failed(&error)),
        }
    }

    /// The task as it is, or once it has changed since `seen`.
    async fn find(&self, id: &str, seen: Option<u64>) -> Result<Record, Result<CallToolResult, ErrorObject>> {
        let Ok(task) = TaskId::new(id) else {
            self.poll.missed(1);
            return Err(unknown(id));
        };
        let owner = self.cx.owner();
        let (engine, scope) = (&self.dispatcher.0.engine, Scope::Owner(&owner));
        let found = match seen {
            Some(seen) => engine.changed(scope, &task, seen).await,
            None => engine.find(scope, &task).await,
        };
        // What it waits for may be forgotten meanwhile: only whether it was there counts.
        self.poll.missed(usize::from(matches!(found, Ok(None))));
        match found {
            Ok(Some(record)) => {
                engine.came_back(&record);
                Ok(record)
            }
            Ok(None) => Err(unknown(id)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// What the call would have been answered with. For a task that was cancelled or lost a sentence: the
    /// model is to read it.
    fn result_of(&self, record: &Record) -> Write {
        self.dispatcher.0.tells(record, &self.cx.owner());
        written(Ok(match project::outcome(record) {
            Some(Ok(result)) => result,
            Some(Err(error)) => CallToolResult::error(error.message.into_owned()),
            None => hand_over(&self.dispatcher.0, record, None),
        }))
    }

    async fn report(&self, record: &Record) {
        if let Some(progress) = &record.progress {
            let mut point = Progress::new(progress.value);
            point.total = progress.total;
            point.message =
                progress.message.as_deref().or(record.status_message.as_deref()).map(str::to_owned);
            self.cx.notify_progress(&point).await;
        }
    }
}

/// A form that a task asks to be filled in.
struct Form {
    message: String,
    schema: String,
}

impl Form {
    fn of(question: &Question) -> Option<Self> {
        let asked: Value = serde_json::from_str(question.request.get()).ok()?;
        let (message, schema) = (&asked["params"]["message"], &asked["params"]["requestedSchema"]);
        let form = Self { message: message.as_str()?.to_owned(), schema: schema.to_string() };
        schema.is_object().then_some(form)
    }
}

/// What a task asks that a model may answer, a line each.
pub(super) fn asked(record: &Record) -> String {
    let line = |question: &Question| {
        let Form { message, schema } = Form::of(question)?;
        Some(format!("\n- `{}`: {message} `content` is to fit {schema}", question.key))
    };
    record.questions.iter().filter_map(line).collect()
}

/// Completes when the wait is over, or the process is about to go.
async fn time_is_up(engine: &longhaul_tasks::runner::Engine, up_to: Duration) {
    tokio::select! {
        () = tokio::time::sleep(up_to) => {}
        () = engine.draining() => {}
    }
}

/// Shows who waits that the wait goes on, for as long as this is polled.
pub(super) async fn beats(cx: &Cx) -> Infallible {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        cx.heartbeat().await;
    }
}

/// How often a caller that is held hears of it.
const HEARTBEAT: Duration = Duration::from_secs(10);

fn unknown(id: &str) -> Result<CallToolResult, ErrorObject> {
    let id = longhaul_proto::jsonrpc::clip(id);
    Ok(CallToolResult::error(format!("task {id:?} not found: the id is unknown, or the task has expired")))
}

fn failed(error: &StoreError) -> Result<CallToolResult, ErrorObject> {
    tracing::error!(%error, "the store failed");
    Ok(CallToolResult::error("the task store could not be used: try again"))
}

/// What was read, as a result; `_meta` of the contents becomes structured, for it says where to go on.
fn as_result(read: model::ReadResourceResult) -> CallToolResult {
    let mut blocks = Vec::new();
    let mut position = None;
    for contents in read.contents {
        blocks.push(Content::text(match (contents.text, contents.blob) {
            (Some(part), _) => part,
            (None, Some(_)) => "(these bytes are not text: read the resource instead)".to_owned(),
            (None, None) => String::new(),
        }));
        position = contents.meta.iter().next().map(|(_, value)| value.to_owned());
    }
    let result = CallToolResult::new(blocks);
    match position {
        Some(position) => result.with_structured(position),
        None => result,
    }
}
