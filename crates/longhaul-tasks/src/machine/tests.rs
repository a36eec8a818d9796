//! Each path by name, and then every path at random against the promises.

use longhaul_store::Json;
use proptest::prelude::*;

use super::*;

fn done() -> Outcome {
    Outcome::result(Json::parse("{}").unwrap(), false)
}

fn run(plan: Plan, events: impl IntoIterator<Item = Event>) -> (Machine, Vec<Effect>) {
    let (mut machine, mut effects) = Machine::begin(plan);
    for event in events {
        effects.extend(machine.handle(event));
    }
    (machine, effects)
}

const TAKES: Plan = plan(Caller::TakesTask, false);
const ASKS: Plan = plan(Caller::AsksForTask, true);
const WAITS: Plan = plan(Caller::Waits, false);

const fn plan(caller: Caller, row_first: bool) -> Plan {
    Plan { caller, row_first, tells_at_once: row_first, may_be_kept: true, hands_over: true, is_asked: false }
}

const LOOSE: Effect = Effect::Start { durable: false };
const DURABLE: Effect = Effect::Start { durable: true };

#[test]
fn a_quick_call_leaves_no_trace() {
    let (machine, effects) = run(TAKES, [Event::Admitted, Event::Started, Event::Ended(done())]);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Answer(Reply::Outcome(done()))]);
    assert!(machine.is_over());
}

#[test]
fn who_is_told_of_a_task_is_told_within_a_known_time() {
    let (after, hold) = (Some(Duration::from_secs(2)), Some(Duration::from_secs(50)));
    let within = |plan: Plan| plan.tells_within(after, hold);
    assert_eq!((within(ASKS), within(TAKES), within(WAITS)), (Some(Duration::ZERO), after, hold));
    assert_eq!(within(Plan::new(Caller::TakesTask, false).with_row_first()), after, "a row tells nobody");
    assert_eq!(WAITS.tells_within(after, None), None, "it waits to the end");
    for plan in [Plan::in_place(), Plan::in_place_once()] {
        assert_eq!(within(plan), None);
    }
}

#[test]
fn a_long_call_is_a_task_once_the_work_knows() {
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::Committed];
    let (mut machine, effects) = run(TAKES, begin);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Commit, Effect::Tell], "not answered yet");
    assert_eq!(machine.handle(Event::Told), [Effect::Answer(Reply::Task)]);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Finish(done())]);
    assert!(!machine.is_over(), "until the outcome is on disk");
    assert_eq!(machine.handle(Event::Recorded(done())), []);
    assert!(machine.is_over());
}

#[test]
fn a_call_asked_for_as_a_task_starts_after_its_row_and_knows_of_it() {
    let (_, effects) = run(ASKS, [Event::Committed, Event::Admitted, Event::Started]);
    assert_eq!(effects, [Effect::Commit, Effect::Answer(Reply::Task), Effect::Admit, DURABLE]);
    let refusal = Refusal::new("full", true);
    let (machine, effects) = run(ASKS, [Event::CommitFailed(refusal.clone())]);
    assert_eq!(effects, [Effect::Commit, Effect::Answer(Reply::Refused(refusal))], "and nothing ran");
    assert!(machine.is_over());
}

#[test]
fn a_row_that_comes_first_for_the_works_sake_is_not_told_of_before_the_call_has_run_long() {
    let first = TAKES.with_row_first();
    let (mut machine, effects) = run(first, [Event::Committed, Event::Admitted, Event::Started]);
    assert_eq!(effects, [Effect::Commit, Effect::Admit, DURABLE]);
    assert_eq!(machine.handle(Event::AfterElapsed), [Effect::Answer(Reply::Task)]);
    let quick =
        [Event::Committed, Event::Admitted, Event::Started, Event::Ended(done()), Event::Recorded(done())];
    let (_, effects) = run(first, quick);
    assert_eq!(effects.last(), Some(&Effect::Answer(Reply::Outcome(done()))));
}

#[test]
fn work_for_which_there_is_no_room_is_refused_or_waits_as_a_task() {
    let refusal = Refusal::new("no room", true);
    let refused = || Event::Refused(refusal.clone());
    let (machine, effects) = run(TAKES, [Event::Admitted, refused()]);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Answer(Reply::Refused(refusal.clone()))]);
    assert!(machine.is_over());
    let (mut machine, effects) = run(ASKS, [Event::Committed, Event::Admitted, refused()]);
    assert_eq!(effects.last(), Some(&Effect::StartLater(refusal.clone())));
    assert_eq!(machine.handle(Event::Admitted), [DURABLE]);
    assert_eq!(machine.handle(refused()), [Effect::StartLater(refusal.clone())]);
    let cancelled = Event::Recorded(Outcome::cancelled(None));
    assert_eq!(machine.handle(cancelled), [Effect::Stop], "while it waits it can be cancelled");
}

#[test]
fn a_refusal_that_comes_after_a_cancel_starts_nothing_again() {
    let begin = [Event::Committed, Event::Admitted, Event::CallerCancelled];
    let (mut machine, effects) = run(TAKES.with_row_first(), begin);
    assert_eq!(effects, [Effect::Commit, Effect::Admit, DURABLE, Effect::Cancel, Effect::Stop]);
    assert_eq!(machine.handle(Event::Refused(Refusal::new("no room", true))), []);
    assert_eq!(machine.handle(Event::Admitted), []);
}

#[test]
fn a_call_that_waits_for_a_place_is_a_task_that_has_not_started() {
    let (mut machine, effects) = run(TAKES, [Event::AfterElapsed, Event::Committed]);
    assert_eq!(effects, [Effect::Admit, Effect::Commit, Effect::Answer(Reply::Task)]);
    assert_eq!(machine.handle(Event::Admitted), [DURABLE]);
}

#[test]
fn work_that_starts_while_its_row_is_written_is_told() {
    let begin = [Event::AfterElapsed, Event::Admitted, Event::Committed, Event::Started, Event::Told];
    let (_, effects) = run(TAKES, begin);
    assert_eq!(effects, [Effect::Admit, Effect::Commit, LOOSE, Effect::Tell, Effect::Answer(Reply::Task)]);
}

#[test]
fn a_waiting_caller_is_handed_over_once() {
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::Committed, Event::Told];
    let (mut machine, effects) = run(WAITS, begin);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Answer(_))));
    assert_eq!(machine.handle(Event::HoldElapsed), [Effect::Answer(Reply::HandOver)]);
    assert_eq!(machine.handle(Event::HoldElapsed), []);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Finish(done())]);
    assert_eq!(machine.handle(Event::Recorded(done())), []);
}

#[test]
fn a_waiting_caller_that_can_be_asked_is_handed_over_with_the_question() {
    let begin = || [Event::Admitted, Event::Started, Event::Asks, Event::Committed, Event::Told];
    let (mut machine, effects) = run(WAITS.with_questions(), begin());
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Commit, Effect::Tell], "there is no question yet");
    assert_eq!(machine.handle(Event::Asked), [Effect::Answer(Reply::HandOver)]);
    assert_eq!(machine.handle(Event::Asked), []);
    for other in [WAITS, TAKES, Plan::in_place_once().with_questions()] {
        let (mut machine, _) = run(other, begin());
        assert_eq!(machine.handle(Event::Asked), [], "{other:?}");
    }
}

#[test]
fn a_caller_that_has_waited_long_enough_is_handed_over_though_the_task_asks_meanwhile() {
    let begin =
        [Event::Admitted, Event::Started, Event::Asks, Event::HoldElapsed, Event::Committed, Event::Asked];
    let (mut machine, effects) = run(WAITS.with_questions(), begin);
    assert_eq!(
        effects,
        [Effect::Admit, LOOSE, Effect::Commit, Effect::Tell],
        "the work does not know of its row"
    );
    assert_eq!(machine.handle(Event::Told), [Effect::Answer(Reply::HandOver)]);
}

#[test]
fn a_waiting_caller_gets_the_result_if_it_comes_in_time() {
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::Committed, Event::Told];
    let (mut machine, _) = run(WAITS, begin);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Finish(done())]);
    assert_eq!(machine.handle(Event::Recorded(done())), [Effect::Answer(Reply::Outcome(done()))]);
}

#[test]
fn a_waiting_caller_does_not_wait_for_a_full_disk() {
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::Committed, Event::Told];
    let (mut machine, _) = run(WAITS, begin);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Finish(done())]);
    assert_eq!(machine.handle(Event::HoldElapsed), [Effect::Answer(Reply::HandOver)]);
}

#[test]
fn a_caller_whose_time_was_up_before_the_end_does_not_wait_for_a_full_disk_either() {
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::Committed, Event::HoldElapsed];
    let (mut machine, _) = run(WAITS, begin);
    let effects = machine.handle(Event::Ended(done()));
    assert_eq!(effects, [Effect::Finish(done()), Effect::Answer(Reply::HandOver)]);
}

#[test]
fn a_caller_that_cancels_ends_its_call_until_it_is_answered() {
    let (machine, effects) = run(TAKES, [Event::Admitted, Event::Started, Event::CallerCancelled]);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Stop]);
    assert!(machine.is_over());
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed];
    let (mut machine, _) = run(TAKES, begin.clone());
    assert_eq!(machine.handle(Event::CallerCancelled), [], "what is being written decides first");
    assert_eq!(machine.handle(Event::Committed), [Effect::Cancel, Effect::Stop]);
    let (mut machine, _) = run(TAKES, begin);
    machine.handle(Event::Committed);
    assert_eq!(machine.handle(Event::Told), [Effect::Answer(Reply::Task)]);
    assert_eq!(machine.handle(Event::CallerCancelled), [], "after the answer it lives on");
    assert!(!machine.is_over());
}

#[test]
fn a_caller_that_leaves_ends_what_is_not_durable_and_nothing_else() {
    let (machine, effects) = run(WAITS, [Event::Admitted, Event::Started, Event::CallerLeft]);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Stop]);
    assert!(machine.is_over());
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::CallerLeft];
    let (mut machine, _) = run(WAITS, begin.clone());
    assert_eq!(machine.handle(Event::Committed), [Effect::Tell], "it was becoming a task");
    assert_eq!([machine.handle(Event::Told), machine.handle(Event::HoldElapsed)], [vec![], vec![]]);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Finish(done())]);
    let (mut machine, _) = run(WAITS, begin);
    let failed = Event::CommitFailed(Refusal::new("disk full", false));
    assert_eq!(machine.handle(failed), [Effect::Stop], "it never was one");
    assert!(machine.is_over());
}

#[test]
fn a_row_that_cannot_be_written_keeps_the_call_as_it_was() {
    let failed = Event::CommitFailed(Refusal::new("disk full", false));
    let (mut machine, effects) = run(TAKES, [Event::Admitted, Event::Started, Event::AfterElapsed, failed]);
    assert_eq!(effects[3..], [Effect::CommitLater]);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Answer(Reply::Outcome(done()))]);
}

#[test]
fn a_row_that_can_never_be_written_is_not_tried_again() {
    let refused = Event::CommitFailed(Refusal::new("too large", false).lasting());
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, refused, Event::Draining];
    let (_, effects) = run(TAKES, begin);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Commit]);
}

#[test]
fn a_cancel_from_elsewhere_stops_the_work() {
    let begin = [Event::Admitted, Event::Started, Event::AfterElapsed, Event::Committed, Event::Told];
    let (mut machine, _) = run(TAKES, begin);
    assert_eq!(machine.handle(Event::Recorded(Outcome::cancelled(None))), [Effect::Stop]);
    assert!(machine.is_over());
}

#[test]
fn a_takeover_leaves_the_work_alone() {
    let mut machine = Machine::resume();
    assert_eq!(machine.handle(Event::TakenOver), []);
    assert!(machine.is_over());
}

#[test]
fn work_of_an_earlier_process_that_never_started_starts_durably() {
    let (mut machine, first) = Machine::restart();
    assert_eq!(first, [Effect::Admit]);
    assert_eq!(machine.handle(Event::Admitted), [DURABLE]);
}

#[test]
fn a_plan_says_what_may_become_of_its_call() {
    let may = |plan: Plan| (plan.row_first, plan.tells_at_once, plan.may_be_kept, plan.hands_over);
    assert_eq!(may(Plan::new(Caller::TakesTask, false)), (false, false, true, true));
    assert_eq!(may(Plan::new(Caller::AsksForTask, true)), (true, true, true, true));
    assert_eq!(may(TAKES.with_row_first()), (true, false, true, true));
    assert_eq!(may(Plan::in_place()), (false, false, false, false));
    assert_eq!(may(Plan::in_place_once()), (true, true, true, false));
}

#[test]
fn draining_keeps_the_work_and_lets_the_callers_go() {
    let (mut machine, effects) = run(WAITS, [Event::Admitted, Event::Started, Event::Draining]);
    assert_eq!(effects, [Effect::Admit, LOOSE, Effect::Commit]);
    assert_eq!(machine.handle(Event::Committed), [Effect::Tell]);
    assert_eq!(machine.handle(Event::Told), [Effect::Answer(Reply::HandOver)]);
}

#[test]
fn draining_leaves_a_call_that_may_not_be_kept_to_end_in_place() {
    let begin = [Event::Admitted, Event::Started, Event::Draining];
    let (mut machine, effects) = run(Plan::in_place(), begin);
    assert_eq!(effects, [Effect::Admit, LOOSE]);
    assert_eq!(machine.handle(Event::Ended(done())), [Effect::Answer(Reply::Outcome(done()))]);
}

/// What has been asked of the outside and not yet reported: only those events can come.
#[derive(Default)]
struct Outside {
    admitting: bool,
    starting: bool,
    running: bool,
    /// The work outlives this process, or has not begun.
    durable: bool,
    begun: bool,
    committing: bool,
    telling: bool,
    finishing: bool,
    rows: usize,
    starts: usize,
    answers: Vec<Reply>,
    finished: Vec<Outcome>,
}

impl Outside {
    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Admit => self.admitting = true,
                Effect::Start { durable } => {
                    (self.starting, self.begun, self.durable) = (true, true, durable);
                    self.starts += 1;
                }
                Effect::Commit => self.committing = true,
                Effect::Tell => self.telling = true,
                Effect::Finish(outcome) => {
                    self.finishing = true;
                    self.finished.push(outcome);
                }
                Effect::Cancel => self.finishing = true,
                Effect::Stop => (self.running, self.starting, self.admitting) = (false, false, false),
                Effect::Answer(reply) => self.answers.push(reply),
                Effect::StartLater(_) => self.admitting = true,
                Effect::CommitLater => {}
            }
        }
    }

    /// Whether a crash now would lose neither row nor work.
    fn is_safe(&self) -> bool {
        self.rows > 0 && (!self.begun || self.durable || !(self.running || self.starting))
    }

    /// The event that `choice` picks among those that can come now.
    fn next(&mut self, choice: usize) -> Event {
        let mut possible = vec![
            Event::AfterElapsed,
            Event::HoldElapsed,
            Event::CallerCancelled,
            Event::CallerLeft,
            Event::Draining,
        ];
        if self.admitting {
            possible.push(Event::Admitted);
        }
        if self.starting {
            let refused = Event::Refused(Refusal::new("no room", true));
            possible.extend([Event::Started, Event::Ended(Outcome::lost("could not start")), refused]);
        }
        if self.running {
            possible.push(Event::Ended(done()));
        }
        if self.committing {
            possible.extend([Event::Committed, Event::CommitFailed(Refusal::new("full", true))]);
        }
        if self.telling {
            possible.push(Event::Told);
        }
        if self.finishing {
            possible.push(Event::Recorded(self.finished.last().cloned().unwrap_or_else(done)));
        } else if self.rows > 0 {
            possible.extend([Event::Recorded(Outcome::cancelled(None)), Event::TakenOver, Event::Asked]);
        }
        let event = possible.swap_remove(choice % possible.len());
        match &event {
            Event::Admitted => self.admitting = false,
            Event::Started => (self.starting, self.running) = (false, true),
            Event::Refused(_) => {
                (self.starting, self.begun) = (false, false);
                self.starts -= 1;
            }
            Event::Ended(_) => (self.starting, self.running, self.telling) = (false, false, false),
            Event::Committed => {
                self.committing = false;
                self.rows += 1;
            }
            Event::CommitFailed(_) => self.committing = false,
            Event::Told => (self.telling, self.durable) = (false, true),
            _ => {}
        }
        event
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn every_path_keeps_the_promises(
        caller in prop_oneof![Just(Caller::AsksForTask), Just(Caller::TakesTask), Just(Caller::Waits)],
        row_first: bool,
        in_place: bool,
        quietly: bool,
        is_asked: bool,
        choices in prop::collection::vec(any::<usize>(), 1..24),
    ) {
        let row_first = row_first || caller == Caller::AsksForTask;
        let plan = if in_place { Plan::in_place() } else { Plan::new(caller, row_first) };
        let plan = if quietly && !in_place { plan.with_row_first() } else { plan };
        let plan = if is_asked { plan.with_questions() } else { plan };
        let row_first = plan.row_first;
        let (mut machine, effects) = Machine::begin(plan);
        let mut outside = Outside::default();
        outside.carry_out(effects);
        let mut gone = false;
        for choice in choices {
            let event = outside.next(choice);
            gone |= matches!(event, Event::CallerCancelled | Event::CallerLeft);
            let taken_over = event == Event::TakenOver;
            let over = machine.is_over();
            let effects = machine.handle(event);
            prop_assert!(!over || effects.is_empty(), "something follows the end");
            for effect in &effects {
                match effect {
                    Effect::Answer(Reply::Task | Reply::HandOver) => {
                        prop_assert!(outside.rows > 0, "a task is acknowledged after its row");
                        let ended = machine.is_over() || taken_over;
                        prop_assert!(ended || outside.is_safe(), "a crash now would lose the work");
                    }
                    Effect::Start { durable } => {
                        prop_assert!(!row_first || *durable, "a row that comes first comes first");
                        prop_assert!(!durable || outside.rows > 0);
                    }
                    Effect::Commit | Effect::CommitLater => prop_assert!(!in_place, "what may not be kept is not"),
                    _ => {}
                }
            }
            outside.carry_out(effects);
            prop_assert!(outside.answers.len() <= 1, "a caller is answered once");
            prop_assert!(outside.starts <= 1, "work starts once");
            prop_assert!(outside.finished.len() <= 1, "an outcome is written once");
            if machine.is_over() {
                prop_assert!(outside.answers.len() == 1 || gone, "nobody is left without an answer");
            }
        }
    }
}
