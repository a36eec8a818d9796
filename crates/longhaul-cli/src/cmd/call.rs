//! `longhaul call`: one tool called to its end, whatever it becomes on the way.

use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{AsTask, CallOptions, Client, Error, Options, Started, TaskHandle, handed_over};
use longhaul::proto::model::{CallToolResult, LoggingLevel, Task};
use longhaul_gateway::config::{format_duration, parse_duration};
use longhaul_gateway::shell;
use tokio::time::Instant;

use super::tools::find;
use crate::arguments;
use crate::ask::{Question, Questions};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::handles::{self, Handle};
use crate::interrupt::{Interrupt, Waited};
use crate::result;
use crate::signature::Signature;
use crate::target::{Server, TargetArgs};
use crate::term::{Manner, Show, clean, note};

/// Call a tool of a server and print what it answers.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "longhaul call [OPTIONS] SERVER TOOL [ARGUMENT]...\n       \
                      longhaul call [OPTIONS] TOOL [ARGUMENT]... -- COMMAND...",
    after_help = help()
)]
pub(crate) struct Args {
    /// The server, its URL or a name such as vscode:ci, unless a command follows after `--`; the tool; its arguments.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Print the result as one JSON object, and failures as one JSON line.
    #[arg(long)]
    json: bool,
    /// Print each event as a line of JSON.
    #[arg(long)]
    events: bool,
    /// Wait at most so long (such as 90s or 1h30m); then leave the task running (exit code 7). A call that is none by then has 5s
    /// more to become one, where the server has tasks, and is then cancelled (exit code 8).
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Take no task: wait on the connection, until the server answers or hands the call over (exit code 7).
    #[arg(long)]
    no_task: bool,
    /// Ask nobody, even at a terminal: a task that asks goes on waiting (exit code 6).
    #[arg(long)]
    no_input: bool,
    #[command(flatten)]
    target: TargetArgs,
}

fn help() -> String {
    format!(
        "\
Examples:
  longhaul call http://127.0.0.1:8420/mcp test crate=api release=true
  longhaul call http://127.0.0.1:8420/mcp report rows:='[1, 2]' text=@notes.md
  longhaul call vscode:ci test crate=api
  longhaul call test crate=api -- longhaul serve longhaul.toml --stdio

{}

What the server asks is put to you field by field. Where no terminal is, or with --no-input, a task that asks \
goes on waiting: `longhaul tasks answer` answers it.

Ctrl-C leaves a task running and says how to come back to it; what is no task is cancelled.",
        arguments::HELP
    )
}

pub(crate) fn run(args: &Args) -> Exit {
    let manner = Manner::new(args.json, args.events);
    crate::runtime::run(manner.is_json(), call(args, manner))
}

async fn call(args: &Args, manner: Manner) -> Outcome {
    let (server, rest) = args.target.server(&args.words, "call")?;
    let Some((name, words)) = rest.split_first() else {
        return Err(Failure::usage("no tool is named").next("`longhaul tools` shows what there is"));
    };
    let show = Arc::new(Show::new(manner, name));
    let until = args.wait.map(|wait| Instant::now() + wait);
    let interrupt = Interrupt::listen();
    let asks = manner == Manner::Words && !args.no_input;
    let questions = Questions::new(&show, server.name(), asks);
    let options = questions.answering(options(args, &server, &show)?);
    let connecting = Box::pin(server.connect(options, manner.is_json()));
    let client = match interrupt.unless_left(until, connecting).await {
        Waited::For(client) => client?,
        Waited::Left => return Err(Failure::silent(Exit::Detached)),
        Waited::TimeUp => return Err(too_early(args)),
    };
    questions.introduce(client.server_info().map(|info| info.name.as_str()));
    let call =
        Call { client: &client, server: &server, show: &show, manner, args, until, interrupt, questions };
    let ended = call.run(name, words).await;
    show.end();
    client.close().await;
    ended
}

/// The time was up before anything was called.
fn too_early(args: &Args) -> Failure {
    let wait = args.wait.map(format_duration).unwrap_or_default();
    let message = format!("the server has not said within {wait} what it offers; nothing was called");
    Failure::new(Exit::Unreachable, "timed_out", message).next("a longer --wait may do")
}

/// The time was up before the call had ended or become a task.
fn late(args: &Args) -> Failure {
    let wait = args.wait.map(format_duration).unwrap_or_default();
    Failure::new(Exit::Cancelled, "timed_out", format!("no answer within {wait}; the call was cancelled"))
        .next("a call that becomes a task is left running instead; a longer --wait may do")
}

/// How much longer than --wait a call may take to become a task, which when to make its server decides. A call that is
/// cancelled for want of a moment is lost, and a task can be left.
const TO_BECOME_A_TASK: Duration = Duration::from_secs(5);

/// What the server says besides its answers is shown as it comes.
fn options(args: &Args, server: &Server, show: &Arc<Show>) -> Outcome<Options> {
    let (log, words) = (Arc::clone(show), Arc::clone(show));
    let on_log = move |message: longhaul::client::LogMessage| {
        let text = serde_json::from_str::<String>(message.data.get());
        let text = text.unwrap_or_else(|_| message.data.get().to_owned());
        log.say("log", &format!("{}: {text}", message.level));
    };
    let options = args.target.options(server)?.on_log(LoggingLevel::Notice, on_log);
    let server = server.clone();
    Ok(options.on_stderr(move |line| {
        if !server.is_unstarted(&line) {
            words.say("stderr", &line);
        }
    }))
}

/// Waits for `future`, unless something is asked first that nobody here answers.
pub(super) async fn unless_asked<T>(
    future: impl Future<Output = T>,
    questions: &Questions,
) -> Result<T, Question> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        question = questions.left() => Err(question),
    }
}

/// One call under way.
struct Call<'a> {
    client: &'a Client,
    server: &'a Server,
    show: &'a Arc<Show>,
    manner: Manner,
    args: &'a Args,
    until: Option<Instant>,
    interrupt: Interrupt,
    questions: Questions,
}

impl Call<'_> {
    async fn run(&self, name: &str, words: &[String]) -> Outcome {
        let listing = Box::pin(self.client.list_tools());
        let tools = match self.interrupt.unless_left(self.until, listing).await {
            Waited::For(tools) => tools?,
            Waited::Left => return Err(Failure::silent(Exit::Detached)),
            Waited::TimeUp => return Err(too_early(self.args)),
        };
        let signature = Signature::of(find(&tools, name)?);
        let arguments = arguments::read(words, &signature)?;
        let starting = self.client.start(name, &arguments, self.options());
        let starting = unless_asked(starting, &self.questions);
        let started = match self.started(Box::pin(starting)).await {
            Waited::For(Ok(started)) => started.map_err(|error| self.failure(error))?,
            // Its future is dropped by now, which cancels it.
            Waited::For(Err(question)) => {
                let next = "run it at a terminal to answer; a call that becomes a task can be answered later";
                return Err(question.failure(name, next.to_owned()));
            }
            // Its future is dropped by now, which cancels it.
            Waited::Left => {
                let failure = Failure::new(Exit::Detached, "cancelled", "the call was cancelled");
                return Err(self.leave(failure, "Cancelled: the call had not become a task."));
            }
            Waited::TimeUp => return Err(late(self.args)),
        };
        match started {
            Started::Result(result) => {
                self.show.end();
                match handed_over(&result) {
                    Some(id) => {
                        self.remember(&id, &signature, &arguments);
                        self.left_running(&result, &id)
                    }
                    None => result::show(&result, self.manner),
                }
            }
            Started::Task(task) => {
                self.remember(task.id(), &signature, &arguments);
                self.follow(&task).await
            }
        }
    }

    /// Waits until a call has ended or become a task, for which it has longer than for its end.
    async fn started<T>(&self, mut starting: impl Future<Output = T> + Unpin) -> Waited<T> {
        let waited = self.interrupt.unless_left(self.until, &mut starting).await;
        let may_be_task = !self.args.no_task && self.client.capabilities().tasks;
        match (waited, self.until) {
            (Waited::TimeUp, Some(until)) if may_be_task => {
                self.interrupt.unless_left(Some(until + TO_BECOME_A_TASK), starting).await
            }
            (waited, _) => waited,
        }
    }

    /// Later verbs find the task by its id. A secret is kept in no file, so that such a call is not made again from one.
    fn remember(
        &self,
        id: &str,
        signature: &Signature,
        arguments: &serde_json::Map<String, serde_json::Value>,
    ) {
        let Some(server) = self.server.place() else { return };
        let is_secret =
            |name: &String| signature.parameter(name).is_some_and(|parameter| parameter.is_secret);
        let has_secrets = arguments.keys().any(is_secret);
        handles::note(Handle {
            task: id.to_owned(),
            server,
            revision: self.args.target.revision.map(|revision| revision.as_str().to_owned()),
            token_env: self.args.target.token_env.clone(),
            tool: signature.tool.clone(),
            arguments: serde_json::value::to_raw_value(arguments).ok().filter(|_| !has_secrets),
            started: handles::now(),
        });
    }

    async fn follow(&self, task: &TaskHandle) -> Outcome {
        if !self.client.dialect().reports_progress_of_tasks() {
            self.show.forget_progress();
        }
        let changed = |task: &Task| {
            self.show.task(&task.id, task.status, task.status_message.as_deref());
            self.questions.see(task);
        };
        let watching = unless_asked(task.watch(changed), &self.questions);
        match self.interrupt.unless_left(self.until, Box::pin(watching)).await {
            Waited::For(Ok(ended)) => {
                self.show.end();
                result::show(&ended.map_err(|error| self.failure(error))?, self.manner)
            }
            Waited::For(Err(question)) => {
                self.show.end();
                let id = clean::line(task.id(), 128);
                Err(question.failure(&id, self.command("answer", &id) + &question.usage()))
            }
            Waited::Left => {
                let id = clean::line(task.id(), 128);
                let words = format!("Detached; {id} keeps running.\n{}", self.way_back(&id));
                let failure = Failure::new(Exit::Detached, "detached", format!("{id} keeps running"));
                Err(self.leave(failure.next(self.command("watch", &id)), &words))
            }
            Waited::TimeUp => Err(self.still_running(task.id())),
        }
    }

    /// The server has answered that the work goes on. What it says of that is for a model; a person is told how to
    /// come back.
    fn left_running(&self, result: &CallToolResult, id: &str) -> Outcome {
        if self.manner != Manner::Words {
            result::show(result, self.manner)?;
        }
        Err(self.still_running(id))
    }

    fn still_running(&self, id: &str) -> Failure {
        let id = clean::line(id, 128);
        let message = format!("task {id} is still running");
        Failure::new(Exit::StillRunning, "still_running", message).next(self.command("watch", &id))
    }

    /// What is said last to a user who leaves; a program is told of a failure.
    fn leave(&self, failure: Failure, words: &str) -> Failure {
        self.show.end();
        if self.manner != Manner::Words {
            return failure;
        }
        note(&format!("\n{words}"));
        Failure::silent(Exit::Detached)
    }

    fn way_back(&self, id: &str) -> String {
        format!("  {}\n  {}", self.command("watch", id), self.command("cancel", id))
    }

    /// A command line about the task. A server that was a command is asked through its store, where its
    /// `longhaul.toml` is.
    fn command(&self, verb: &str, id: &str) -> String {
        let id = shell::word(id);
        match self.server.named() {
            Some(url) => format!("longhaul tasks {verb} {id} --url {}", shell::word(&clean::line(url, 400))),
            None => format!("longhaul tasks {verb} {id}"),
        }
    }

    fn failure(&self, error: Error) -> Failure {
        let task = match &error {
            Error::InputRequired { task: Some(id), .. } => Some(clean::line(id, 128)),
            _ => None,
        };
        let lost = matches!(&error, Error::Lost { .. } | Error::Died { .. } | Error::SessionLost { .. });
        let failure = Failure::from(error);
        match task {
            Some(id) => failure.next(format!("the task goes on waiting: {}", self.command("get", &id))),
            None if lost => {
                let listed = "where its store is, `longhaul tasks` lists what goes on or has ended";
                failure.next(format!(
                    "the call may have run all the same, so look before calling again: {listed}"
                ))
            }
            None => failure,
        }
    }

    fn options(&self) -> CallOptions {
        let show = Arc::clone(self.show);
        let as_task = if self.args.no_task { AsTask::Never } else { AsTask::Allowed };
        CallOptions::default().as_task(as_task).on_progress(move |progress| show.progress(&progress))
    }
}
