//! The contracts as suites that every backend, and every wrapper around one, must pass.
//!
//! A backend says in [`Backend`] how an empty store is made and in [`Deployment`] how nodes join it; [`run_all`] does
//! the rest and panics at the first broken promise. What says nothing else is about a [`TaskStore`]; an
//! [`EventStore`] has [`run_events`], a [`Registry`] [`run_registry`]. None needs a particular runtime. Not covered by
//! semantic versioning: a promise a suite forgot may be added at any time.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! use longhaul_store::{Memory, Settings, StepClock, TaskStore, Time, conformance};
//!
//! struct InMemory;
//! struct Shared(Memory, StepClock);
//!
//! impl conformance::Backend for InMemory {
//!     fn deploy(&self, settings: Settings) -> Box<dyn conformance::Deployment> {
//!         let clock = StepClock::at(Time::from_unix_ms(1_800_000_000_000));
//!         Box::new(Shared(Memory::with(settings, Arc::new(clock.clone())), clock))
//!     }
//! }
//! impl conformance::Deployment for Shared {
//!     fn join(&self) -> Arc<dyn TaskStore> {
//!         Arc::new(self.0.another_node())
//!     }
//!     fn advance(&self, by: Duration) {
//!         self.1.advance(by);
//!     }
//! }
//! # async fn f() {
//! conformance::run_all(&InMemory).await;
//! # }
//! ```

#![expect(clippy::unwrap_used, reason = "the suite is a test: what a store refuses here breaks a promise")]

mod aging;
mod asking;
mod cancelling;
mod claiming;
mod creation;
mod drive;
mod ending;
mod giving;
mod limits;
mod orphaning;
mod reading;
mod registry;
mod reporting;
mod seeing;
mod spawning;
mod spells;
mod stepping;
mod streaming;
mod undoing;
mod watching;
mod weighing;

use std::{pin::Pin, sync::Arc, time::Duration};

use crate::{
    Batch, EventStore, Json, NewTask, Outcome, Owner, Record, Registry, Scope, Settings, Start, TaskId,
    TaskStore,
};

/// Makes empty stores.
pub trait Backend<S: ?Sized = dyn TaskStore> {
    /// A store that holds nothing, on a clock that stands still.
    fn deploy(&self, settings: Settings) -> Box<dyn Deployment<S>>;

    /// How many bytes a payload takes where it is kept that is so many bytes long: as many, unless the store keeps it in
    /// another form. Limits are of what is kept.
    fn kept(&self, payload: Payload, bytes: usize) -> usize {
        let _ = payload;
        bytes
    }
}

/// What a store keeps and does not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Payload {
    /// JSON: arguments, outcomes, steps, parts.
    Json,
    /// Words for people, parts that are text, and the texts of events, if there is anything in them.
    Text,
    /// The bytes of an entry.
    Entry,
}

/// One store, which nodes can join. Its clock moves only when told; if it cannot stand still, its ordinary pace is
/// slow enough not to matter.
pub trait Deployment<S: ?Sized = dyn TaskStore> {
    /// Opens a handle: a node of its own. Dropping it is that node's death.
    fn join(&self) -> Arc<S>;

    /// Lets time pass for the store and all its nodes.
    fn advance(&self, by: Duration);
}

/// A check under way.
pub type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One promise: what it is called, and how it is tried on stores of a backend.
pub type Check<S = dyn TaskStore> = (&'static str, for<'a> fn(&'a dyn Backend<S>) -> Running<'a>);

/// Lists async functions by their names.
macro_rules! checks {
    (dyn $contract:ident: $($module:ident :: { $($check:ident),+ $(,)? })+) => {
        &[$($((
            stringify!($check),
            (|backend| Box::pin($module::$check(backend)))
                as for<'a> fn(&'a dyn Backend<dyn $contract>) -> Running<'a>,
        ),)+)+]
    };
}

/// Every promise of a [`TaskStore`].
pub const CHECKS: &[Check] = checks! {
    dyn TaskStore:
    creation::{
        a_created_task_is_there_for_every_node_at_once,
        a_task_is_born_claimed_by_the_node_that_made_it,
        a_queued_task_has_not_been_started,
        payloads_come_back_byte_for_byte,
        an_id_is_used_once,
        the_same_call_joins_the_task_that_is_open,
        strangers_never_join,
        a_create_given_up_midway_is_whole_or_nothing,
        creates_racing_under_one_id_make_one_task,
        creates_racing_under_one_digest_make_one_task,
        a_call_under_a_key_is_made_once,
        a_key_stands_for_one_call_of_one_owner,
        a_key_is_spent_until_the_tombstone_goes,
        creates_racing_under_one_key_make_one_task,
    }
    limits::{
        open_tasks_of_one_owner_are_bounded,
        open_tasks_of_strangers_are_bounded_together,
        open_tasks_of_each_stranger_are_bounded,
        strangers_are_not_told_apart_where_one_may_have_every_place,
        a_stranger_has_its_place_back_however_a_task_ends,
        whoever_ends_a_strangers_task_is_told_whose_it_was,
        what_a_strangers_task_makes_is_counted_with_it,
        strangers_that_race_make_no_more_than_they_may,
        open_tasks_in_all_are_bounded,
        tasks_kept_are_bounded,
        a_full_store_still_joins,
        a_full_store_still_knows_a_key,
        what_is_too_large_is_refused,
    }
    weighing::{
        bytes_kept_for_one_owner_are_bounded,
        what_a_task_makes_is_among_its_owners_bytes,
        what_the_work_of_a_task_keeps_is_among_its_owners_bytes,
        an_owner_has_its_bytes_back_however_a_task_is_forgotten,
    }
    reading::{
        a_foreign_task_is_not_there,
        the_operator_sees_every_task,
        strangers_have_their_ids_and_no_list,
        a_list_goes_from_the_newest_to_the_oldest,
        a_list_can_be_of_open_tasks_or_of_one_tool,
        a_list_can_be_of_what_a_claim_could_take,
        a_list_of_what_a_claim_could_take_goes_in_pages,
        a_list_in_pages_meets_every_lasting_task_once,
        a_store_that_says_how_large_it_is_takes_room,
        a_cursor_outlives_the_task_it_points_at,
        a_cursor_of_another_list_is_refused,
        counts_follow_every_change,
    }
    claiming::{
        a_queued_task_is_claimed_once_when_it_is_due,
        only_tasks_of_known_tools_are_claimed,
        only_tasks_of_accepted_versions_are_claimed,
        a_bound_task_is_claimed_on_its_host_alone,
        a_claim_takes_no_more_than_asked,
        many_that_are_due_at_once_are_each_claimed_once,
        a_lease_holds_while_it_lasts_and_no_longer,
        a_renewed_lease_holds_on,
        the_leases_of_a_dead_node_are_void_at_once,
        a_worker_that_lost_its_task_is_fenced,
        a_released_task_is_queued_and_not_charged,
        an_attempt_that_has_yet_to_begin_is_not_charged,
        nodes_that_race_to_claim_share_nothing,
    }
    reporting::{
        progress_only_rises,
        a_report_that_says_nothing_new_changes_nothing,
        changes_at_one_instant_have_dates_of_their_own,
        every_change_has_a_greater_number,
        a_renewal_changes_nothing_anyone_can_see,
    }
    stepping::{
        steps_come_back_in_the_order_in_which_they_began,
        another_node_that_takes_over_finds_every_step,
        who_learns_a_step_is_the_first_of_a_new_row_of_attempts,
        what_was_learnt_never_changes,
        who_lost_a_task_learns_nothing_of_it,
        last_steps_come_with_the_outcome,
        a_call_that_joins_brings_no_steps,
        a_forgotten_task_leaves_no_steps,
        steps_are_bounded,
        what_is_forgotten_makes_room_and_is_learnt_anew,
    }
    seeing::{
        a_step_has_the_times_at_which_it_began_and_was_learnt,
        a_worker_knows_better_when_what_it_tells_late_was_done,
        a_child_is_a_step_from_when_it_is_made_until_it_ends,
        what_is_undone_began_when_that_did,
        steps_are_seen_whoever_works_on_them_and_when_nobody_does,
        a_foreign_task_shows_no_steps,
        many_steps_are_seen_in_stretches,
        who_has_answered_is_seen,
        words_in_what_was_learnt_are_not_taken_for_its_steps,
    }
    giving::{
        parts_are_read_in_the_order_in_which_they_were_given,
        a_part_is_given_once_under_its_key,
        who_lost_a_task_gives_nothing,
        last_parts_come_with_the_outcome,
        a_foreign_task_shows_no_parts,
        parts_are_kept_as_long_as_their_task,
        parts_are_bounded,
        many_parts_are_read_in_stretches,
        parts_that_race_each_have_a_number,
        a_part_wakes_who_watches_on_any_node,
    }
    asking::{
        a_question_is_answered_by_any_node_and_once,
        questions_stand_in_the_order_in_which_they_were_asked,
        what_is_not_asked_is_not_answered,
        a_foreign_task_takes_no_answers,
        a_task_that_waits_takes_no_node_and_is_due_when_answered,
        a_task_that_waits_for_a_time_is_due_then,
        who_waits_for_what_has_come_is_due_at_once,
        what_has_ended_asks_nothing,
        open_questions_are_bounded,
        answers_that_race_have_one_winner,
        what_waits_for_a_time_is_due_before_it_when_that_is_told,
        an_answer_that_meets_a_park_is_never_lost,
    }
    spawning::{
        a_child_is_made_once_and_is_its_parents_owners,
        a_step_that_is_a_task_is_made_with_it_alone,
        who_lost_a_task_makes_no_children_of_it,
        a_child_that_ends_is_learnt_and_wakes_its_parent,
        every_end_of_a_child_is_told,
        a_task_that_ends_ends_its_children_and_theirs,
        a_task_that_cannot_do_without_a_child_fails_with_it,
        children_are_bounded,
        bytes_below_a_task_are_bounded,
        a_parent_that_is_forgotten_leaves_what_outlives_it,
        a_child_whose_step_is_forgotten_is_a_child_still,
        an_end_that_meets_a_park_is_never_lost,
        a_task_waits_for_answers_and_children_alike,
    }
    ending::{
        every_kind_of_outcome_comes_back_as_it_was,
        an_outcome_is_recorded_once,
        a_last_report_comes_with_the_outcome,
        a_task_that_has_ended_never_changes,
        a_cancel_holds_at_once_and_fences_the_worker,
        a_queued_task_can_be_cancelled,
        a_cancel_with_a_long_reason_still_cancels,
        a_task_that_is_finished_and_cancelled_at_once_ends_once,
    }
    cancelling::{
        a_task_whose_work_is_asked_to_end_is_open_until_it_has_decided,
        work_that_is_asked_to_end_has_its_time_and_no_more,
        what_has_no_time_or_never_began_is_cancelled_at_once,
        what_was_put_aside_is_due_to_hear_that_it_is_to_end,
        a_cancel_at_once_does_not_wait_for_who_was_asked,
    }
    undoing::{
        a_task_that_failed_is_undone_and_nobody_sees_it,
        what_ends_well_or_owes_nothing_is_not_undone,
        what_is_cancelled_or_expires_or_says_it_failed_is_undone,
        nothing_is_undone_while_it_may_still_be_done,
        one_node_at_a_time_undoes_a_task,
        undoing_that_gets_on_is_charged_anew,
        undoing_that_is_put_aside_is_charged_and_due_at_its_time,
        a_task_that_is_undone_takes_only_what_it_owes,
        what_is_erased_or_expires_is_undone_all_the_same,
        a_task_is_kept_until_it_is_undone_and_not_for_ever,
    }
    spells::{
        each_spell_of_work_is_kept_with_how_it_was_over,
        work_that_began_with_its_task_is_written_down_when_it_is_put_aside,
        the_first_spell_and_the_latest_are_kept,
    }
    orphaning::{
        a_task_for_which_nobody_comes_is_an_orphan_once,
        an_orphan_is_cancelled_if_it_is_to_be,
        a_task_whose_owner_came_back_is_no_orphan,
        whoever_could_not_come_to_a_node_that_died_has_as_long_again,
        what_ends_before_or_is_asked_to_is_no_orphan,
        what_a_task_has_made_is_no_orphan,
    }
    aging::{
        an_open_task_ends_with_an_error_when_its_time_is_up,
        an_outcome_can_be_read_for_a_while_however_late_it_came,
        a_finished_task_is_forgotten_in_two_steps,
        a_task_whose_time_is_up_meets_whatever_comes_then_once,
        a_task_kept_for_ever_is_kept,
        an_expired_task_is_not_claimed,
        a_sweep_takes_no_more_than_asked,
        sweeps_that_race_do_each_thing_once,
        a_sweep_of_many_does_to_each_what_time_demands,
        what_is_erased_is_forgotten_at_once,
        what_is_erased_leaves_room_if_nobody_can_ask_for_it,
    }
    watching::{
        a_change_wakes_who_watches_on_any_node,
        a_change_before_the_first_look_is_not_missed,
        a_change_is_noticed_amid_ones_own,
        a_wait_given_up_loses_no_change,
    }
};

/// Every promise of an [`EventStore`].
pub const EVENT_CHECKS: &[Check<dyn EventStore>] = checks! {
    dyn EventStore:
    streaming::{
        what_was_missed_is_replayed_in_order_by_any_node,
        a_long_stream_is_replayed_in_pages,
        a_foreign_stream_is_not_there,
        what_was_never_sent_was_never_seen,
        a_full_stream_loses_its_oldest_events,
        a_large_event_takes_the_room_of_many,
        bytes_of_events_are_bounded,
        a_stream_that_turns_over_takes_no_more_room,
        a_stream_is_forgotten_when_its_time_is_up,
        a_stream_that_is_prolonged_lasts_longer_and_loses_nothing,
        a_session_that_ended_takes_its_streams_along,
        a_sweep_takes_no_more_streams_than_asked,
        events_that_race_each_have_a_number,
    }
};

/// Every promise of a [`Registry`].
pub const REGISTRY_CHECKS: &[Check<dyn Registry>] = checks! {
    dyn Registry:
    registry::{
        an_entry_is_there_for_every_node_at_once,
        a_put_replaces_what_was_there,
        a_foreign_entry_is_not_there,
        names_are_told_in_their_order_and_of_one_kind_and_holder,
        an_entry_past_its_time_is_gone_swept_or_not,
        a_swap_happens_only_from_what_was_seen,
        swaps_that_race_have_one_winner,
        entries_are_bounded,
        entries_that_can_be_spared_take_no_room_of_others,
        an_entry_too_large_is_refused,
        a_sweep_takes_no_more_entries_than_asked,
    }
};

/// Tries every promise of a [`TaskStore`] on stores of this backend.
///
/// # Panics
///
/// At the first broken one, by an assertion in the function that bears the promise's name.
pub async fn run_all(backend: &dyn Backend) {
    run(CHECKS, backend).await;
}

/// Tries every promise of an [`EventStore`] on stores of this backend.
///
/// # Panics
///
/// As [`run_all`].
pub async fn run_events(backend: &dyn Backend<dyn EventStore>) {
    run(EVENT_CHECKS, backend).await;
}

/// Tries every promise of a [`Registry`] on stores of this backend.
///
/// # Panics
///
/// As [`run_all`].
pub async fn run_registry(backend: &dyn Backend<dyn Registry>) {
    run(REGISTRY_CHECKS, backend).await;
}

async fn run<S: ?Sized + 'static>(checks: &[Check<S>], backend: &dyn Backend<S>) {
    for (name, check) in checks {
        tracing::debug!(name, "checking");
        check(backend).await;
    }
}

/// A store and one node on it.
struct One<S: ?Sized> {
    deployment: Box<dyn Deployment<S>>,
    store: Arc<S>,
}

fn one<S: ?Sized>(backend: &dyn Backend<S>) -> One<S> {
    one_with(backend, Settings::default())
}

fn one_with<S: ?Sized>(backend: &dyn Backend<S>, settings: Settings) -> One<S> {
    let deployment = backend.deploy(settings);
    let store = deployment.join();
    One { deployment, store }
}

/// The length of the longest payload that takes no more than so many bytes.
fn fitting<S: ?Sized>(backend: &dyn Backend<S>, payload: Payload, bytes: usize) -> usize {
    (0..=bytes)
        .rev()
        .find(|length| backend.kept(payload, *length) <= bytes)
        .expect("there is room for something")
}

fn ann() -> Owner {
    Owner::principal("https://issuer|ann|client").unwrap()
}

fn bob() -> Owner {
    Owner::principal("https://issuer|bob|client").unwrap()
}

fn id(text: &str) -> TaskId {
    TaskId::new(text).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Ann's task, claimed by whoever creates it.
fn task(name: &str) -> NewTask {
    NewTask::new(id(name), ann(), "build", json(r#"{"crate":"core"}"#))
}

/// Ann's task, queued and due.
fn queued(name: &str, store: &dyn TaskStore) -> NewTask {
    let mut task = task(name);
    task.start = Start::Queued { not_before: store.now() };
    task
}

async fn create(store: &dyn TaskStore, task: NewTask) -> Record {
    store.create(task).await.expect("the task is created").into_record()
}

async fn get(store: &dyn TaskStore, id: &TaskId) -> Option<Record> {
    store.get(Scope::Operator, id).await.expect("the task can be read")
}

async fn finish(store: &dyn TaskStore, task: &Record) -> Record {
    let outcome = Outcome::result(json(r#"{"content":[]}"#), false);
    store.finish(&task.id, task.epoch, outcome, Batch::new()).await.expect("the task ends").into_record()
}
