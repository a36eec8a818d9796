//! Calls that join one another.

use std::future::Future as _;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use longhaul_store::{Memory, Outcome, Owner, Scope, Settings, TaskStore as _};
use longhaul_tasks::environment::BoxFuture;
use longhaul_tasks::machine::{Caller, Plan};
use longhaul_tasks::runner::{Answer, Observed, Observer, Ticket};

use super::rig::{Outside, engine, joinable, open, success, task};

#[tokio::test(start_paused = true)]
async fn draining_waits_for_calls_that_joined_and_hands_them_over_whatever_their_hold() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = |hold| {
        let mut call = joinable(&outside);
        call.hold = hold;
        call
    };
    let first = engine.call(call(Some(Duration::from_secs(50))));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second = engine.call(call(None));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = tokio::time::Instant::now();
    engine.drain(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let now = |ticket: Ticket| {
        let mut ticket = Box::pin(ticket);
        match ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => task(answer),
            Poll::Pending => panic!("not answered when draining was over"),
        }
    };
    assert_eq!(now(first), now(second));
}

#[tokio::test(start_paused = true)]
async fn a_second_call_joins_the_first_while_that_is_open() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || joinable(&outside);
    let first = engine.call(call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = engine.call(call());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let id = outside.only();
    assert_eq!(task(first.await), id, "handed over after its hold");
    assert_eq!(task(second.await), id, "and so is the second, to the same task");
    let third = engine.call(call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    outside.end(&id, success());
    assert!(matches!(third.await, Answer::Outcome(outcome) if outcome == success()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _fourth = engine.call(call());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(outside.0.lock().unwrap().len(), 2, "once it has ended, a call runs anew");
}

/// What a caller is told of the task that its call is: which it is, and whether it is its own.
#[derive(Clone, Debug, Default)]
struct Told(Arc<Mutex<Vec<(String, bool)>>>);

impl Observer for Told {
    fn observe<'a>(&'a self, observed: Observed<'a>) -> BoxFuture<'a, ()> {
        if let Observed::Kept { record, is_own } = observed {
            self.0.lock().unwrap().push((record.id.to_string(), is_own));
        }
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn who_joins_a_call_is_told_of_the_task_that_it_is_whenever_it_becomes_one() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let callers: [Told; 3] = Default::default();
    let mut tickets = Vec::new();
    for told in &callers {
        let mut call = joinable(&outside);
        (call.hold, call.observer) = (None, Arc::new(told.clone()));
        tickets.push(engine.call(call));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let id = outside.only().to_string();
    for (nth, told) in callers.iter().enumerate() {
        assert_eq!(*told.0.lock().unwrap(), [(id.clone(), nth == 0)]);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_made_a_call_at_a_server_that_is_gone_does_not_end_it_for_who_has_joined_it_here() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || {
        let mut call = joinable(&outside);
        call.hold = None;
        call
    };
    // Its run is here by now, and somebody has joined it.
    let (first, joined) = (engine.call(call()), engine.call(call()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let id = outside.only();
    let (finds, named) = (engine.clone(), id.clone());
    let found = async move {
        let found = finds.find(Scope::Operator, &named).await.unwrap();
        found.ok_or_else(|| Outcome::lost("it is not there"))
    };
    let gone_on = engine.wait_on(found, Plan::new(Caller::Waits, true), None, Arc::new(Told::default()));
    let canceller = gone_on.canceller();
    let gone_on = tokio::spawn(gone_on);
    tokio::time::sleep(Duration::from_secs(1)).await;
    canceller.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    outside.end(&id, success());
    assert!(matches!(joined.await, Answer::Outcome(outcome) if outcome == success()));
    drop((first, gone_on));
}

#[tokio::test(start_paused = true)]
async fn strangers_never_join_each_other() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || {
        let mut call = joinable(&outside);
        call.owner = Owner::Anonymous;
        call
    };
    let (_first, _second) = (engine.call(call()), engine.call(call()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(outside.0.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_for_a_call_that_others_joined_does_not_end_it() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let call = || joinable(&outside);
    let (first, second) = (engine.call(call()), engine.call(call()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let id = outside.only();
    assert_eq!(outside.outcome(&id), None, "the other one waits for it");
    outside.end(&id, success());
    assert!(matches!(second.await, Answer::Outcome(outcome) if outcome == success()));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_when_the_last_of_its_callers_cancels() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let settle = || tokio::time::sleep(Duration::from_secs(1));
    // Cancelled in every order, before and after it became a task.
    for (order, after) in [([0, 1, 2], 1), ([1, 2, 0], 1), ([1, 0, 2], 10), ([0, 2, 1], 60)] {
        let patient = || {
            let mut call = joinable(&outside);
            call.hold = Some(Duration::from_secs(if after == 60 { 50 } else { 3600 }));
            call
        };
        let mut tickets = [engine.call(patient()), engine.call(patient()), engine.call(patient())].map(Some);
        settle().await;
        let id = outside.only();
        tickets[order[0]].take().unwrap().cancel();
        tokio::time::sleep(Duration::from_secs(after)).await;
        if after == 60 {
            for ticket in tickets.iter_mut().filter_map(Option::take) {
                assert_eq!(task(ticket.await), id);
                // Whoever was handed over comes back to the task by its id.
            }
            assert_eq!(outside.outcome(&id), None);
            engine.cancel(Scope::Operator, &id, None).await.unwrap();
        } else {
            tickets[order[1]].take().unwrap().cancel();
            settle().await;
            assert_eq!(outside.outcome(&id), None, "{order:?}: one still wants it");
            tickets[order[2]].take().unwrap().cancel();
        }
        settle().await;
        assert_eq!(outside.outcome(&id), Some(Outcome::cancelled(None)), "{order:?}");
        assert_eq!(open(&engine).await, 0);
        outside.0.lock().unwrap().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn who_lost_its_connection_still_wants_the_call_it_joined() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let (first, second) = (engine.call(joinable(&outside)), engine.call(joinable(&outside)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(second);
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.cancel();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((open(&engine).await, outside.outcome(&outside.only())), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_no_task_ends_when_the_last_of_its_callers_leaves() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let settle = || tokio::time::sleep(Duration::from_millis(100));
    for (order, seconds) in [([0, 1], 1), ([1, 0], 1), ([0, 1], 10), ([1, 0], 10)] {
        let tickets = [engine.call(joinable(&outside)), engine.call(joinable(&outside))];
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let id = outside.only();
        tickets[order[0]].canceller().leave();
        settle().await;
        assert_eq!(outside.outcome(&id), None, "{order:?}: one is still there");
        tickets[order[1]].canceller().leave();
        tokio::time::sleep(Duration::from_secs(10)).await;
        if seconds < 2 {
            assert_eq!(outside.outcome(&id), Some(Outcome::cancelled(None)), "{order:?}");
        } else {
            assert_eq!(outside.outcome(&id), None, "{order:?}: they may come back for it");
            engine.cancel(Scope::Operator, &id, None).await.unwrap();
            settle().await;
        }
        assert_eq!(open(&engine).await, 0);
        outside.0.lock().unwrap().clear();
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_a_call_that_is_being_cancelled() {
    let outside = Outside::default();
    let engine = engine(Memory::new(), &outside);
    let first = engine.call(joinable(&outside));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let dying = outside.only();
    outside.0.lock().unwrap().get_mut(&dying).unwrap().takes = Duration::from_secs(30);
    first.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = engine.call(joinable(&outside));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let anew = outside.0.lock().unwrap().keys().find(|id| **id != dying).cloned().expect("it runs anew");
    outside.end(&anew, success());
    assert!(matches!(second.await, Answer::Outcome(outcome) if outcome == success()));
}

#[tokio::test(start_paused = true)]
async fn who_joined_a_task_that_another_node_takes_over_is_handed_over() {
    let outside = Outside::default();
    let clock =
        Arc::new(longhaul_store::StepClock::at(longhaul_store::Time::from_unix_ms(1_800_000_000_000)));
    let store = Memory::with(Settings::default(), Arc::clone(&clock) as Arc<dyn longhaul_store::Clock>);
    let next = store.another_node();
    let engine = engine(store, &outside);
    let (first, second) = (engine.call(joinable(&outside)), engine.call(joinable(&outside)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let id = outside.only();
    // This node's machine slept, and the next claimed what it held.
    clock.advance(Duration::from_secs(600));
    assert!(next.claim_one(&id).await.unwrap().is_some());
    assert_eq!(task(first.await), id);
    assert_eq!(task(second.await), id);
}
