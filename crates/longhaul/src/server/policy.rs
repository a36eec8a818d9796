//! When a tool's calls become tasks, and for how long a task is kept.

use std::time::Duration;

use longhaul_proto::model::TaskSupport;
use longhaul_tasks::store::{OrphanRule, Owner, Rerun, Retention};

/// How a tool's calls and tasks relate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskPolicy {
    /// When a call becomes a task.
    pub mode: TaskMode,
    /// What becomes of a task whose process is gone. Default [`Rerun::Never`]: it ends as lost, unless its tool's
    /// annotations say that it only reads or is idempotent. A job outside the process may be [`Rerun::Reattach`]: it goes
    /// on. A function may be [`Rerun::Resumable`] or [`Rerun::Restart`]: it is entered again, and finds what its
    /// [steps](super::Cx::step) have done. A server refuses any other when it is
    /// [put together](super::Server::dispatcher).
    pub rerun: Rerun,
    /// How a task ends that is cancelled. Default [`CancelPolicy::Immediate`].
    pub cancel: CancelPolicy,
    /// When a task for which its caller never comes back is an orphan, and what becomes of it then: the answer that told of it
    /// may have been lost. Counted from when its caller is told of it at the latest, and never before its caller was to ask
    /// ten times. Default: after 60 s, and it is kept. A task whose caller waits for its end is none.
    pub orphan: OrphanRule,
    /// How long a task is kept after it has ended, or was created if [`ttl_from`](Self::ttl_from) says so. Default 24 h, at
    /// most seven days, and no more than 24 h for a caller without a principal. A caller that wants another time is told this one.
    pub ttl: Duration,
    /// From when that counts. Default [`TtlFrom::End`].
    pub ttl_from: TtlFrom,
    /// How long a caller that cannot take a task is kept waiting before it is handed over; `None` is as
    /// long as it takes. Default 50 s, which is within every known client's clock.
    pub hold: Option<Duration>,
    /// A second call by the same principal with the same arguments joins a task that is open.
    pub join: bool,
    /// How many calls may run at once on this node; the next waits. `None`, the default, for any number.
    pub limit: Option<usize>,
    /// How often a task should be asked after. Default 1 s.
    pub poll_interval: Duration,
}

/// When a call becomes a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the configuration's words")]
pub enum TaskMode {
    /// Never: the answer comes in place, however long it takes.
    Never,
    /// Once it has run this long; at once if the caller asks.
    After(Duration),
    /// At once, and a caller that cannot take a task is refused.
    Required,
    /// The function decides, call by call: see [`Cx::open_task`](super::Cx::open_task).
    ByHand,
}

/// From when the [`ttl`](TaskPolicy::ttl) of a task counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a task has these two moments")]
pub enum TtlFrom {
    /// From its end: a task that is open never expires, however long its work takes or waits for somebody.
    #[default]
    End,
    /// From its creation. A task that is open when its time is up fails then (`-32603`, `task expired`), at the next
    /// [sweep](crate::tasks::runner::Pace::sweep_every): its work is dropped or ended, what it asks is no longer asked, and
    /// what its steps did is undone. Its outcome can be read for another five minutes at least
    /// ([`Settings::min_result_retention`](crate::store::Settings::min_result_retention)), and its `ttl` says so. A call has
    /// no time before it is written down, and none at all where it is [never](TaskMode::Never) a task.
    Creation,
}

/// How a task ends that is cancelled.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the configuration's words")]
pub enum CancelPolicy {
    /// At once, whatever its work does.
    #[default]
    Immediate,
    /// Its work is [asked to end](super::Cx::cancelled), and decides how: with another outcome, or by
    /// [giving up](super::Cx::give_up). Once `grace` is over, of at most an hour, the task is cancelled. So it is for a
    /// `tasks/cancel` of the tasks extension; any other cancel ends it at once, as its revision demands. Jobs have their own
    /// rules.
    Cooperative {
        /// How long its work may take for that.
        grace: Duration,
    },
}

impl CancelPolicy {
    /// Its work decides, within ten seconds.
    pub fn cooperative() -> Self {
        Self::Cooperative { grace: Duration::from_secs(10) }
    }

    /// How long work may go on that is asked to end.
    pub(super) fn grace(self) -> Option<Duration> {
        match self {
            Self::Immediate => None,
            Self::Cooperative { grace } => Some(grace.min(LONGEST_GRACE)),
        }
    }
}

/// How long work may go on that is asked to end.
const LONGEST_GRACE: Duration = Duration::from_secs(60 * 60);

impl TaskPolicy {
    /// Calls become tasks as `mode` says; everything else by default.
    pub fn new(mode: TaskMode) -> Self {
        Self {
            mode,
            rerun: Rerun::Never,
            cancel: CancelPolicy::Immediate,
            orphan: OrphanRule::default(),
            ttl: Duration::from_secs(24 * 60 * 60),
            ttl_from: TtlFrom::End,
            hold: Some(Duration::from_secs(50)),
            join: false,
            limit: None,
            poll_interval: Duration::from_secs(1),
        }
    }

    /// A call is a task at once.
    pub fn always() -> Self {
        Self::new(TaskMode::After(Duration::ZERO))
    }

    /// A call is answered with what its function returns, or with the task that the function has
    /// [opened](super::Cx::open_task) and handed back. Of the rest of the policy, [`ttl`](Self::ttl),
    /// [`ttl_from`](Self::ttl_from), [`orphan`](Self::orphan), [`cancel`](Self::cancel) and [`poll_interval`](Self::poll_interval) matter.
    pub fn by_hand() -> Self {
        Self::new(TaskMode::ByHand)
    }

    /// Gives each task this time from its [creation](TtlFrom::Creation): one that is open afterwards fails.
    ///
    /// ```
    /// use std::time::Duration;
    /// use longhaul::server::TaskPolicy;
    ///
    /// let policy = TaskPolicy::always().with_ttl_from_creation(Duration::from_secs(3600));
    /// ```
    #[must_use]
    pub fn with_ttl_from_creation(mut self, ttl: Duration) -> Self {
        (self.ttl, self.ttl_from) = (ttl, TtlFrom::Creation);
        self
    }

    /// What a revision that says it per tool says of this one.
    pub fn support(&self) -> TaskSupport {
        match self.mode {
            TaskMode::Never => TaskSupport::Forbidden,
            TaskMode::After(_) | TaskMode::ByHand => TaskSupport::Optional,
            TaskMode::Required => TaskSupport::Required,
        }
    }

    /// How long a task of `owner` is kept.
    ///
    /// `wanted` is how long its caller wants it kept after its end, if it says so.
    pub(super) fn retention(&self, owner: &Owner, wanted: Option<Duration>) -> Retention {
        let longest = match owner {
            Owner::Principal(_) => LONGEST,
            Owner::Anonymous => LONGEST_ANONYMOUS,
        };
        match self.ttl_from {
            // There may be a row of what is no task, by which it is found again.
            TtlFrom::Creation if self.mode != TaskMode::Never => {
                Retention::FromCreation(self.ttl.min(longest))
            }
            TtlFrom::End | TtlFrom::Creation => {
                Retention::AfterTerminal(wanted.unwrap_or(self.ttl).min(longest))
            }
        }
    }
}

/// How long a task is kept at most.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The same, of a caller that nobody knows: strangers share one bound on how much is kept.
const LONGEST_ANONYMOUS: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for TaskPolicy {
    fn default() -> Self {
        Self::new(TaskMode::Never)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_tasks::store::Principal;

    use super::*;

    #[test]
    fn a_time_from_creation_is_the_tools_to_say_and_bounded_as_any_other() {
        let ann = Owner::Principal(Principal::new("ann").unwrap());
        let policy =
            |hours: u64| TaskPolicy::always().with_ttl_from_creation(Duration::from_secs(hours * 3600));
        let kept = |hours, owner| policy(hours).retention(owner, Some(Duration::ZERO));
        assert_eq!(kept(1, &ann), Retention::FromCreation(Duration::from_secs(3600)));
        assert_eq!(kept(1000, &ann), Retention::FromCreation(LONGEST));
        assert_eq!(kept(1000, &Owner::Anonymous), Retention::FromCreation(LONGEST_ANONYMOUS));
        let wanted = TaskPolicy::always().retention(&ann, Some(Duration::ZERO));
        assert_eq!(wanted, Retention::AfterTerminal(Duration::ZERO), "an open task has no time by itself");
        let mut never = policy(1);
        never.mode = TaskMode::Never;
        assert_eq!(never.retention(&ann, None), Retention::AfterTerminal(Duration::from_secs(3600)));
    }
}
