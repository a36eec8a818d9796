//! Which tasks a list is of, as a person writes it: `tool:test status:failed since:2h api`.

use std::time::Duration;

use longhaul::proto::jsonrpc::clip;
use longhaul::proto::model::TaskStatus;
use longhaul::store::{Filter, Owner, Record, Time};
use longhaul::tasks::{calling_conversation, shown_arguments};

use super::state_of;
use crate::config::parse_duration;

/// Where a task stands, in the words that people know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    Input,
    Working,
    Completed,
    Failed,
    Cancelled,
}

impl State {
    pub(crate) const ALL: [Self; 5] =
        [Self::Input, Self::Working, Self::Completed, Self::Failed, Self::Cancelled];

    /// As it stands in a URL and in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Input => "input_required",
            Self::Working => "working",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// As people read it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Input => "needs input",
            other => other.word(),
        }
    }

    /// The one of that name.
    ///
    /// # Errors
    ///
    /// That there is none, and which there are.
    pub(crate) fn of_word(word: &str) -> Result<Self, String> {
        // `status:input` is what one types.
        let name = if word == "input" { "input_required" } else { word };
        let found = Self::ALL.into_iter().find(|state| state.word() == name);
        found.ok_or_else(|| {
            let word = clip(word);
            format!("there is no status `{word}`: it is input, working, completed, failed or cancelled")
        })
    }

    /// The one of that name, if any is named.
    ///
    /// # Errors
    ///
    /// As of [`of_word`](Self::of_word).
    pub(crate) fn named(word: Option<&str>) -> Result<Option<Self>, String> {
        word.filter(|word| !word.is_empty()).map(Self::of_word).transpose()
    }

    pub(crate) fn of(status: TaskStatus) -> Self {
        match status {
            TaskStatus::InputRequired => Self::Input,
            TaskStatus::Completed => Self::Completed,
            TaskStatus::Failed => Self::Failed,
            TaskStatus::Cancelled => Self::Cancelled,
            _ => Self::Working,
        }
    }

    /// Whether a task that stands so has not ended.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Input | Self::Working)
    }
}

/// Which tasks a list is of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Find {
    pub(crate) state: Option<State>,
    tool: Option<String>,
    owner: Option<String>,
    since: Option<Duration>,
    conversation: Option<String>,
    words: Vec<String>,
}

impl Find {
    /// Reads what was typed; `state` wins over a word for it.
    ///
    /// # Errors
    ///
    /// What of it is not understood.
    pub(crate) fn read(typed: &str, state: Option<State>) -> Result<Self, String> {
        let mut find = Self::default();
        for word in typed.split_whitespace().take(MOST_WORDS) {
            match word.split_once(':') {
                Some(("tool", tool)) => find.tool = Some(tool.to_owned()),
                Some(("owner", owner)) => find.owner = Some(owner.to_lowercase()),
                Some(("conversation", name)) => find.conversation = Some(name.to_owned()),
                Some(("status", word)) => find.state = Some(State::of_word(word)?),
                Some(("since", time)) => {
                    find.since = Some(
                        parse_duration(time)
                            .map_err(|_| format!("`since:{time}` is no time: try since:2h"))?,
                    );
                }
                _ => find.words.push(word.to_lowercase()),
            }
        }
        find.state = state.or(find.state);
        Ok(find)
    }

    /// As far as a store looks for it.
    pub(super) fn filter(&self) -> Filter {
        let filter = if self.state.is_some_and(State::is_open) { Filter::open() } else { Filter::all() };
        match &self.tool {
            Some(tool) => filter.of_tool(tool.as_str()),
            None => filter,
        }
    }

    /// The same of those that have not ended.
    pub(super) fn filter_open(&self) -> Filter {
        match &self.tool {
            Some(tool) => Filter::open().of_tool(tool.as_str()),
            None => Filter::open(),
        }
    }

    /// Whether it leaves any task out.
    pub(crate) fn is_of_some(&self) -> bool {
        let Self { state, tool, owner, since, conversation, words } = self;
        let is_any = state.is_some() || tool.is_some() || owner.is_some() || since.is_some();
        is_any || conversation.is_some() || !words.is_empty()
    }

    /// Whether everything that comes behind `record` is too old.
    pub(super) fn ends_before(&self, record: &Record, now: Time) -> bool {
        self.since.is_some_and(|since| now.since(record.created_at) > since)
    }

    /// Whether a task is one of them.
    pub(super) fn admits(&self, record: &Record) -> bool {
        self.state.is_none_or(|state| state == state_of(record))
            && self.owner.as_ref().is_none_or(|owner| match &record.owner {
                Owner::Principal(principal) => principal.as_str().to_lowercase().contains(owner),
                Owner::Anonymous => "anonymous".contains(owner.as_str()),
            })
            && self
                .conversation
                .as_deref()
                .is_none_or(|name| calling_conversation(record).as_deref() == Some(name))
            && self.words.iter().all(|word| says(record, word))
    }
}

/// The most words that are looked for.
const MOST_WORDS: usize = 16;

fn says(record: &Record, word: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(word);
    has(record.id.as_str())
        || has(&record.tool)
        || record.status_message.as_deref().is_some_and(has)
        || has(shown_arguments(record).as_str())
}

#[cfg(test)]
mod tests {
    use longhaul::store::{Json, Outcome, Phase, TaskId};

    use super::*;

    #[test]
    fn words_find_what_they_say() {
        let at = Time::from_unix_ms(10_000_000);
        let owner = Owner::principal("token:Alice").unwrap();
        let arguments = Json::parse(r#"{"crate":"Api"}"#).unwrap();
        let id = TaskId::new("build-1").unwrap();
        let mut record = Record::new(id, owner, "test", arguments, Json::null(), at);
        let finds = |typed: &str, record: &Record| {
            let find = Find::read(typed, None).unwrap();
            find.filter().admits(record) && find.admits(record)
        };
        for typed in ["", "api", "tool:test BUILD", "owner:alice", "status:working", "since:1s"] {
            assert!(finds(typed, &record), "{typed}");
        }
        for typed in ["web", "tool:tes", "owner:bob", "status:failed", "status:input", "conversation:c-1"] {
            assert!(!finds(typed, &record), "{typed}");
        }
        record.caller = Json::parse(r#"{"begun":true,"conversation":"c-1"}"#).unwrap();
        assert!(finds("conversation:c-1", &record) && !finds("conversation:c", &record));
        assert!(Find::read("conversation:c-1", None).unwrap().is_of_some());
        record.phase = Phase::Done(Outcome::lost("gone"));
        assert!(finds("status:failed", &record) && !finds("status:working", &record));
        assert!(Find::read("status:odd", None).is_err() && Find::read("since:long", None).is_err());
        let find = Find::read("since:1m", None).unwrap();
        assert!(find.ends_before(&record, at.after(Duration::from_secs(61))));
        assert!(!find.ends_before(&record, at.after(Duration::from_secs(59))));
    }
}
