//! `longhaul tasks answer`: what a task asks, answered with words of the command line, or field by field at a terminal.

use std::sync::Arc;
use std::time::Duration;

use longhaul::client::TaskHandle;
use longhaul::proto::dialect::StoredQuestion;
use longhaul::proto::model::{ElicitAction, ElicitResult, TaskStatus};
use longhaul::store::{Answered, Reply, Scope};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::super::call::unless_asked;
use super::origin::{Local, Origin, OriginArgs, Remote};
use super::watch::asked_of;
use crate::ask::{Given, Question, Questions};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::{Interrupt, Waited};
use crate::term::{Manner, Show, clean, is_watched, note, print};

/// Answer what a task asks.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without words the questions are put to you field by field; where no terminal is, they are shown (exit code 6).
A field that is not named keeps what it is filled in with. FIELD:=JSON gives exactly this JSON.

Examples:
  longhaul tasks answer deploy-8k2
  longhaul tasks answer deploy-8k2 go=yes shards=8
  longhaul tasks answer deploy-8k2 --decline")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
    /// Which question, by its key, if there are several; then what its form is filled in with.
    #[arg(value_name = "KEY|FIELD=VALUE")]
    words: Vec<String>,
    /// Say yes: to a page that you have visited, or to a form as it is filled in.
    #[arg(long, group = "action")]
    accept: bool,
    /// Say no.
    #[arg(long, group = "action")]
    decline: bool,
    /// Say neither.
    #[arg(long, group = "action")]
    cancel: bool,
}

impl Args {
    /// The key of the question that is meant, and the answer, as far as they are given.
    fn given(&self) -> Outcome<(Option<&str>, Option<Given>)> {
        let (key, fields) = match self.words.split_first() {
            Some((key, fields)) if !key.contains('=') => (Some(key.as_str()), fields),
            _ => (None, &self.words[..]),
        };
        let action = match (self.decline, self.cancel) {
            (true, _) => ElicitAction::Decline,
            (_, true) => ElicitAction::Cancel,
            _ => ElicitAction::Accept,
        };
        if action != ElicitAction::Accept && !fields.is_empty() {
            return Err(Failure::usage("who declines or cancels fills in nothing"));
        }
        let is_given = self.accept || self.decline || self.cancel || !fields.is_empty();
        Ok((key, is_given.then(|| Given { action, words: fields.to_vec() })))
    }
}

pub(super) async fn run(place: &OriginArgs, args: &Args, manner: Manner) -> Outcome {
    let (key, given) = args.given()?;
    let show = Arc::new(Show::quiet(&args.id));
    let mut questions = None;
    let asks = manner == Manner::Words;
    let by = |server: String| match &given {
        Some(given) => Questions::given(&show, server, given.clone()),
        None => Questions::new(&show, server, asks),
    };
    let origin = place.open(Some(&args.id), manner.is_json(), |server, options| {
        questions.insert(by(server.name())).answering(options)
    });
    let origin = origin.await?;
    let interrupt = Interrupt::listen();
    let answering = async {
        match &origin {
            Origin::Store(local) => {
                let answers = Answers { questions: by(local.name()), given: given.as_ref(), key };
                on_store(local, &args.id, &answers).await
            }
            Origin::Server(remote) => {
                let questions = questions.clone().unwrap_or_else(|| by(remote.name.clone()));
                questions.introduce(remote.client.server_info().map(|info| info.name.as_str()));
                let answers = Answers { questions, given: given.as_ref(), key };
                at_server(remote, &args.id, &answers).await
            }
        }
    };
    let done = match interrupt.unless_left(None, Box::pin(answering)).await {
        Waited::For(done) => done,
        Waited::Left | Waited::TimeUp => {
            note("\nNothing is answered.");
            Err(Failure::silent(Exit::Detached))
        }
    };
    origin.close().await;
    let (id, answered) = done?;
    if manner.is_json() {
        print(&clean::json(&json!({ "taskId": id, "answered": answered }).to_string()))?;
    } else {
        let next = match &origin {
            Origin::Store(local) => local.command("watch", &id),
            Origin::Server(remote) => remote.command("watch", &id),
        };
        note(&format!("{} is answered", clean::line(&id, 128)));
        if is_watched() {
            note(&format!("follow it: {next}"));
        }
    }
    Ok(Exit::Done)
}

/// How the questions of one task are answered.
struct Answers<'a> {
    questions: Questions,
    given: Option<&'a Given>,
    key: Option<&'a str>,
}

/// The task, and the keys of what was answered.
type Done = Outcome<(String, Vec<String>)>;

impl Answers<'_> {
    /// Those that are to be answered now.
    fn choose(&self, id: &str, mut asked: Vec<Question>) -> Outcome<Vec<Question>> {
        if let Some(key) = self.key {
            asked.retain(|question| question.key.as_deref().is_some_and(|known| known.starts_with(key)));
            if asked.is_empty() {
                return Err(Failure::new(
                    Exit::NotFound,
                    "no_such_question",
                    format!("{id} does not ask `{key}` now"),
                )
                .next("without a key it is shown what it asks"));
            }
        }
        if asked.len() > 1 && !self.questions.asks_a_person() {
            let lines: String = asked
                .iter()
                .map(|question| {
                    let key = clean::line(question.key.as_deref().unwrap_or_default(), 64);
                    format!("\n  {key}  {}", question.line())
                })
                .collect();
            return Err(Failure::usage(format!("{id} asks more than one question"))
                .next(format!("say which, by the beginning of its key:{lines}")));
        }
        Ok(asked)
    }

    /// The answer to one; `command` is how it is answered otherwise.
    async fn answer(&self, id: &str, question: &Question, command: String) -> Outcome<ElicitResult> {
        if let Some(given) = self.given {
            // What is wrong with it is said at once.
            return given.answer(question);
        }
        let answering = self.questions.answer(question.clone());
        unless_asked(answering, &self.questions)
            .await
            .map_err(|question| question.failure(id, command + &question.usage()))
    }
}

fn raw(answer: &ElicitResult) -> Outcome<Box<RawValue>> {
    Ok(to_raw_value(answer).map_err(anyhow::Error::from)?)
}

fn asks_nothing(id: &str, ended: bool, asks_another: bool) -> Failure {
    let why = match (ended, asks_another) {
        (true, _) => "it has ended",
        (false, true) => "what it asks is no person's to answer",
        (false, false) => "it asks nothing now",
    };
    Failure::new(Exit::Failed, "asks_nothing", format!("task {id} cannot be answered: {why}"))
}

async fn on_store(local: &Local, given: &str, answers: &Answers<'_>) -> Done {
    let record = local.find(given).await?;
    let id = record.id.as_str();
    let asked = asked_of(&record);
    if asked.is_empty() {
        return Err(asks_nothing(id, record.is_terminal(), !record.questions.is_empty()));
    }
    let mut answered = Vec::new();
    for question in answers.choose(id, asked)? {
        let answer = raw(&answers.answer(id, &question, local.command("answer", id)).await?)?;
        let key = question.key.unwrap_or_default();
        if let Some(stored) = record.questions.iter().find(|stored| *stored.key == *key) {
            let stored = StoredQuestion::read(&stored.request).map_err(anyhow::Error::from)?;
            stored.check(&answer).map_err(|wrong| {
                Failure::usage(format!("the answer does not fit: {}", clean::line(&wrong, 300)))
            })?;
        }
        let reply = [Reply::new(key.as_str(), answer.into())];
        match local.store.answer(Scope::Operator, &record.id, &reply).await? {
            Answered::Recorded { taken: 0, .. } => return Err(too_late(id)),
            Answered::Recorded { .. } => answered.push(key),
            Answered::NotFound => {
                return Err(Failure::new(
                    Exit::NotFound,
                    "no_such_task",
                    format!("task {id} has been forgotten"),
                ));
            }
        }
    }
    Ok((id.to_owned(), answered))
}

fn too_late(id: &str) -> Failure {
    Failure::new(Exit::Failed, "answered_already", format!("{id} was answered before, and that answer stays"))
}

async fn at_server(remote: &Remote, given: &str, answers: &Answers<'_>) -> Done {
    let task = remote.task(given);
    let seen = task.get().await?;
    let id = clean::line(task.id(), 128);
    if seen.status != TaskStatus::InputRequired {
        return Err(asks_nothing(&id, seen.status.is_terminal(), false));
    }
    if remote.client.dialect().asks_by_request() {
        if answers.key.is_some() {
            return Err(Failure::usage("the questions of this revision have no keys")
                .next("leave the key out: it is answered what is asked first"));
        }
        return by_request(remote, &task, answers).await;
    }
    let asked = Question::of_task(&seen);
    if asked.is_empty() {
        return Err(asks_nothing(&id, false, true));
    }
    let mut answered = Vec::new();
    for question in answers.choose(&id, asked)? {
        let answer = answers.answer(&id, &question, remote.command("answer", &id)).await?;
        let key = question.key.unwrap_or_default();
        task.answer([(&key, &answer)]).await?;
        answered.push(key);
    }
    Ok((task.id().to_owned(), answered))
}

/// Where questions are requests of the server's, they come to who waits for the result.
async fn by_request(remote: &Remote, task: &TaskHandle, answers: &Answers<'_>) -> Done {
    let id = task.id();
    let waiting = unless_asked(task.wait(), &answers.questions);
    let answered = async {
        answers.questions.answered().await;
        // The answer is on its way. A task that asks once more is answered again, if a person is there.
        for _ in 0..LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            let asks = task.get().await.is_ok_and(|task| task.status == TaskStatus::InputRequired);
            if !asks {
                return;
            }
        }
        if answers.questions.asks_a_person() {
            std::future::pending().await
        }
    };
    tokio::select! {
        biased;
        () = answered => {}
        // However it has ended, it was answered if it was asked.
        ended = waiting => if let Err(question) = ended {
            let next = remote.command("answer", id) + &question.usage();
            return Err(match answers.given.map(|given| given.answer(&question)) {
                Some(Err(wrong)) => wrong,
                _ => question.failure(&clean::line(id, 128), next),
            });
        },
    }
    Ok((id.to_owned(), Vec::new()))
}

/// How often and how long it is looked whether an answer has reached its task.
const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(100);
