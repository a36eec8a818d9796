//! `longhaul tasks watch`: following a task to its end.

use std::sync::Arc;

use longhaul::proto::model::{CallToolResult, Task, TaskStatus};
use longhaul::store::{Outcome as Ended, Record, TaskId};
use longhaul::tasks::project::{self, View};
use serde_json::json;

use super::super::call::unless_asked;
use super::node::{LOOK_EVERY, Node};
use super::origin::{Local, Origin, OriginArgs};
use super::view::progress;
use crate::ask::{self, Question, Questions};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::interrupt::{Interrupt, Waited};
use crate::result;
use crate::term::{Manner, Show, note};

/// Follow a task to its end and print its result.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  longhaul tasks watch test-3q9v

What a task of a server asks is put to you; of one in a store it is shown, with how to answer it. Where no terminal is, or \
with --no-input, a task that asks goes on waiting (exit code 6). Ctrl-C leaves the task running.")]
pub(crate) struct Args {
    /// The task's id, or its beginning.
    pub(super) id: String,
    /// Print each event as a line of JSON.
    #[arg(long)]
    pub(super) events: bool,
    /// Ask nobody, even at a terminal: a task that asks goes on waiting (exit code 6).
    #[arg(long)]
    no_input: bool,
}

pub(super) async fn run(place: &OriginArgs, args: &Args, manner: Manner) -> Outcome {
    let show = Arc::new(Show::new(manner, &args.id));
    let asks = manner == Manner::Words && !args.no_input;
    let mut questions = None;
    let origin = place.open(Some(&args.id), manner.is_json(), |server, options| {
        let questions = questions.insert(Questions::new(&show, server.name(), asks));
        questions.answering(options)
    });
    let origin = origin.await?;
    let done = follow(&origin, args, manner, &show, questions.as_ref()).await;
    show.end();
    origin.close().await;
    done
}

async fn follow(
    origin: &Origin,
    args: &Args,
    manner: Manner,
    show: &Show,
    questions: Option<&Questions>,
) -> Outcome {
    let interrupt = Interrupt::listen();
    let watching = async {
        match (origin, questions) {
            (Origin::Store(local), _) => {
                let asks = manner == Manner::Words && !args.no_input && ask::is_there();
                let asked = if asks { Asked::Waits } else { Asked::Leaves };
                watch(local, &args.id, show, asked).await
            }
            (Origin::Server(remote), questions) => {
                let task = remote.task(&args.id);
                if let Some(questions) = questions {
                    questions.introduce(remote.client.server_info().map(|info| info.name.as_str()));
                    let changed = |task: &Task| {
                        show.task(&task.id, task.status, task.status_message.as_deref());
                        questions.see(task);
                    };
                    return match unless_asked(task.watch(changed), questions).await {
                        Ok(ended) => Ok(ended?),
                        Err(question) => Err(remote.left(task.id(), &question)),
                    };
                }
                Ok(task.wait().await?)
            }
        }
    };
    match interrupt.unless_left(None, Box::pin(watching)).await {
        Waited::For(ended) => {
            show.end();
            result::show(&ended?, manner)
        }
        Waited::Left | Waited::TimeUp => {
            show.end();
            if manner != Manner::Words {
                return Err(origin.detached("watch", &args.id));
            }
            note(&format!("\nDetached; {} keeps running.", args.id));
            Err(Failure::silent(Exit::Detached))
        }
    }
}

/// What becomes of the watch when the task asks somebody.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is shown what is asked, and whoever answers it is waited for.
    Waits,
    /// The same, and of what is asked it is noted only that it is.
    Notes,
    /// Nobody is here who would see that: it ends with what is asked.
    Leaves,
}

pub(super) async fn watch(
    local: &Local,
    given: &str,
    show: &Show,
    at_question: Asked,
) -> Outcome<CallToolResult> {
    let found = local.find(given).await?;
    let id = &found.id;
    let mut helper = Helper::new(local);
    // Watched before it is looked at, so that no change is missed in between.
    let mut watch = local.store.watch(id);
    let (mut last, mut asked) = (None, None);
    loop {
        let record = local.look(id).await?;
        if let Some(ended) = ended(&record) {
            return ended;
        }
        let task = project::task(&record, View::D3);
        if let Some(progress) = progress(&record) {
            show.progress(&progress);
        }
        let seen = Some((task.status, task.status_message.clone()));
        if last != seen {
            show.task(&task.id, task.status, task.status_message.as_deref());
            last = seen;
        }
        let question = asked_of(&record).into_iter().next();
        let asks = question.as_ref().and_then(|question| question.key.clone());
        if asks != asked {
            if let Some(question) = &question {
                let answer = local.command("answer", id.as_str()) + &question.usage();
                match at_question {
                    Asked::Leaves => return Err(question.failure(id.as_str(), answer)),
                    Asked::Notes => note(&format!("note: {id} waits for an answer: {answer}")),
                    Asked::Waits => {
                        show.say("question", &format!("{id} asks: {}", question.line()));
                        show.say("question", &answer);
                    }
                }
            }
            asked = asks;
        }
        helper.help(id).await;
        let _ = tokio::time::timeout(LOOK_EVERY, watch.changed()).await;
    }
}

/// Goes on with the watched task if nobody else is there to see its end. Where it cannot, it says so, and the task is
/// watched all the same: a living server needs no help.
struct Helper {
    node: Option<Node>,
    said: Option<String>,
}

impl Helper {
    fn new(local: &Local) -> Self {
        let mut this = Self { node: None, said: None };
        match Node::new(local) {
            Ok(node) => this.node = Some(node),
            Err(failure) => this.say(&failure),
        }
        this
    }

    async fn help(&mut self, id: &TaskId) {
        if let Some(node) = &self.node {
            match node.take_up(id).await {
                Ok(()) => self.said = None,
                Err(failure) => self.say(&failure),
            }
        }
    }

    /// Once, until it is something else.
    fn say(&mut self, failure: &Failure) {
        let line = format!("note: the end is not seen here unless a server records it: {}", failure.line());
        if self.said.as_ref() != Some(&line) {
            note(&line);
            self.said = Some(line);
        }
    }
}

/// What a task asks of its user.
pub(super) fn asked_of(record: &Record) -> Vec<Question> {
    let asked = record.questions.iter();
    asked.filter_map(|question| Question::read(&question.key, &question.request)).collect()
}

/// What a task that has ended came to.
pub(super) fn ended(record: &Record) -> Option<Outcome<CallToolResult>> {
    let outcome = record.outcome()?;
    if let Ended::Cancelled { reason } = outcome {
        let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = format!("task {} was cancelled{reason}", record.id);
        return Some(Err(Failure::new(Exit::Cancelled, "cancelled", message)));
    }
    let answer = project::answer(outcome, Some(record.id.as_str()));
    Some(answer.map_err(|error| Failure::from(&error)))
}

/// What is said of a task when it was to be cancelled.
pub(super) fn status_event(id: &str, status: TaskStatus) -> serde_json::Value {
    json!({ "taskId": id, "status": status.as_str() })
}
