//! What servers ask while a verb runs: put to the person at this terminal, or left for whoever answers it later.

mod field;
mod fill;
mod keyboard;
mod page;
mod question;

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use longhaul::client::Options;
use longhaul::proto::model::{ElicitParams, ElicitResult, Task, TaskStatus};
use tokio::sync::watch;

pub(crate) use keyboard::is_there;
pub(crate) use question::{Given, Question};

use crate::browser;
use crate::term::{Show, clean, note};
use keyboard::Keyboard;

/// Who answers what servers ask. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Questions(Arc<Inner>);

struct Inner {
    show: Arc<Show>,
    /// Which server asks, as the command line names it; and as it names itself, once that is known.
    server: String,
    name: OnceLock<String>,
    answers: By,
    /// One question is put after the other: there is one person.
    keyboard: tokio::sync::Mutex<Keyboard>,
    /// The first question that nobody here answers.
    left: watch::Sender<Option<Question>>,
    /// How many were answered.
    answered: watch::Sender<usize>,
}

/// By whom they are answered.
enum By {
    /// The person at this terminal.
    Person,
    /// The command line, once.
    Words(Mutex<Option<Given>>),
    /// Nobody here.
    Nobody,
}

impl Questions {
    /// Puts what `server` asks to the person at this terminal, if there is one and `asks`; else leaves it.
    pub(crate) fn new(show: &Arc<Show>, server: String, asks: bool) -> Self {
        let answers = if asks && is_there() { By::Person } else { By::Nobody };
        Self::by(show, server, answers)
    }

    /// Answers the first question with what was `given` on the command line, and leaves the others.
    pub(crate) fn given(show: &Arc<Show>, server: String, given: Given) -> Self {
        Self::by(show, server, By::Words(Mutex::new(Some(given))))
    }

    fn by(show: &Arc<Show>, server: String, answers: By) -> Self {
        let (left, answered) = (watch::Sender::new(None), watch::Sender::new(0));
        let (keyboard, name) = (tokio::sync::Mutex::default(), OnceLock::new());
        Self(Arc::new(Inner { show: Arc::clone(show), server, name, answers, keyboard, left, answered }))
    }

    /// What the server calls itself.
    pub(crate) fn introduce(&self, name: Option<&str>) {
        if let Some(name) = name {
            let _known_already = self.0.name.set(clean::line(name, 80));
        }
    }

    /// Whether a person is asked.
    pub(crate) fn asks_a_person(&self) -> bool {
        matches!(self.0.answers, By::Person)
    }

    /// Options of a client that is asked so. What nobody here answers can be asked as well, for a task can wait for whoever
    /// does.
    pub(crate) fn answering(&self, options: Options) -> Options {
        let (form, page) = (self.clone(), self.clone());
        options
            .on_form(move |asked| {
                let this = form.clone();
                async move { this.answer(Question::of(ElicitParams::Form(asked))).await }
            })
            .on_page(move |asked| {
                let this = page.clone();
                async move { this.answer(Question::of(ElicitParams::Url(asked))).await.action }
            })
    }

    /// The answer to a question; never, if it is left.
    pub(crate) async fn answer(&self, question: Question) -> ElicitResult {
        let answer = match &self.0.answers {
            By::Person => self.put(&question).await,
            By::Words(given) => {
                let given = given.lock().unwrap_or_else(PoisonError::into_inner).take();
                given.and_then(|given| given.answer(&question).ok())
            }
            By::Nobody => None,
        };
        match answer {
            Some(answer) => {
                self.0.answered.send_modify(|answered| *answered += 1);
                answer
            }
            None => {
                self.leave(question);
                pending().await
            }
        }
    }

    /// Puts a question to the person; `None` if they are there no more.
    async fn put(&self, question: &Question) -> Option<ElicitResult> {
        let mut keyboard = self.0.keyboard.lock().await;
        let mut turn = keyboard.turn(&self.0.show);
        let name = self.0.show.name();
        match &question.asked {
            ElicitParams::Form(form) => {
                note(&format!("\n? {name} asks: {}", words(&form.message)));
                self.say_from();
                fill::fill_in(form, &mut turn).await
            }
            ElicitParams::Url(page) => {
                note(&format!("\n? {name} asks you to visit a page: {}", words(&page.message)));
                self.say_from();
                page::visit(page, &mut turn, browser::open).await.map(ElicitResult::of)
            }
        }
    }

    fn say_from(&self) {
        let known_as =
            self.0.name.get().map(|name| format!(", which calls itself {name}")).unwrap_or_default();
        note(&format!("  from {}{known_as}", self.0.server));
    }

    /// A task is seen to ask what nobody here answers.
    pub(crate) fn see(&self, task: &Task) {
        if matches!(self.0.answers, By::Nobody) && task.status == TaskStatus::InputRequired {
            let message = task.status_message.as_deref();
            self.leave(
                Question::of_task(task).into_iter().next().unwrap_or_else(|| Question::unseen(message)),
            );
        }
    }

    fn leave(&self, question: Question) {
        self.0.left.send_if_modified(|left| {
            let is_first = left.is_none();
            left.get_or_insert(question);
            is_first
        });
    }

    /// The first question that nobody here answers, when it is asked.
    pub(crate) async fn left(&self) -> Question {
        let mut left = self.0.left.subscribe();
        match left.wait_for(Option::is_some).await {
            Ok(question) => question.clone().unwrap_or_else(|| Question::unseen(None)),
            Err(_) => pending().await,
        }
    }

    /// When at least one question was answered here.
    pub(crate) async fn answered(&self) {
        let mut answered = self.0.answered.subscribe();
        if answered.wait_for(|answered| *answered > 0).await.is_err() {
            pending().await
        }
    }
}

/// What a server says when it asks, of several lines at most.
fn words(message: &str) -> String {
    let message = clean::text(message);
    let lines: Vec<&str> = message.trim().lines().take(LINES).collect();
    lines.iter().map(|line| clean::line(line, 400)).collect::<Vec<_>>().join("\n  ")
}

/// How many lines a message may have.
const LINES: usize = 40;

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Questions").field("server", &self.server).finish_non_exhaustive()
    }
}
