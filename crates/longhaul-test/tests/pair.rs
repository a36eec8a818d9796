//! Whole conversations between two connection machines, stepped.

use std::time::Duration;

use longhaul_proto::dialect::Dialect;
use longhaul_proto::jsonrpc::RequestId;
use longhaul_test::{Heard, Pair, Side};

const MS: Duration = Duration::from_millis(1);

fn legacy() -> Pair {
    let mut pair = Pair::new(Dialect::newest_legacy(), 10 * MS, 4);
    let hello = pair.request("initialize", None);
    pair.run_until(Duration::MAX);
    assert_eq!(pair.heard.drain(..).collect::<Vec<_>>(), [Heard::Result(hello)]);
    pair
}

fn modern() -> Pair {
    Pair::new(Dialect::newest_modern(), 10 * MS, 4)
}

fn both(check: impl Fn(Pair)) {
    check(legacy());
    check(modern());
}

#[test]
fn a_request_is_admitted_answered_and_heard() {
    both(|mut pair| {
        let id = pair.request("tools/list", Some(1000 * MS));
        assert!(pair.step());
        let (running, serial) = pair.running[0].clone();
        assert_eq!(running, id);
        pair.answer(&id, serial);
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard, [Heard::Result(id)]);
        assert_eq!((pair.client.pending(), pair.server.open()), (0, 0));
    });
}

#[test]
fn answers_may_come_in_any_order() {
    both(|mut pair| {
        let ids: Vec<_> = (0..3).map(|_| pair.request("tools/list", None)).collect();
        pair.run_until(pair.now + 20 * MS);
        let running = pair.running.clone();
        for (id, serial) in running.iter().rev() {
            pair.answer(id, *serial);
        }
        pair.run_until(Duration::MAX);
        let backwards: Vec<_> = ids.into_iter().rev().map(Heard::Result).collect();
        assert_eq!(pair.heard, backwards);
    });
}

#[test]
fn a_cancel_that_crosses_the_answer_harms_nobody() {
    both(|mut pair| {
        let id = pair.request("tools/list", None);
        assert!(pair.step());
        let (_, serial) = pair.running[0];
        pair.answer(&id, serial);
        pair.cancel(&id);
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard, [Heard::Dropped], "the answer comes to nobody");
        assert_eq!(pair.server.open(), 0);
        let next = pair.request("tools/list", None);
        assert!(pair.step());
        assert_eq!(pair.running[0].0, next);
    });
}

#[test]
fn a_cancelled_request_is_not_answered() {
    both(|mut pair| {
        let id = pair.request("tools/list", None);
        assert!(pair.step());
        let (_, serial) = pair.running[0];
        pair.cancel(&id);
        assert!(pair.step());
        assert_eq!((pair.server.open(), pair.running.len()), (0, 0));
        pair.answer(&id, serial);
        assert!(!pair.step(), "nothing is on the wire");
    });
}

#[test]
fn silence_ends_the_wait_and_frees_the_server() {
    both(|mut pair| {
        let began = pair.now;
        let id = pair.request("tools/list", Some(100 * MS));
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard, [Heard::Expired(id)]);
        assert_eq!(pair.now, began + 110 * MS, "the deadline, and the cancel's way");
        assert_eq!(pair.server.open(), 0, "the server was told");
    });
}

#[test]
fn progress_keeps_a_slow_request_alive() {
    both(|mut pair| {
        let id = pair.request("tools/list", Some(100 * MS));
        assert!(pair.step());
        for value in 1..=5 {
            let until = pair.now + 60 * MS;
            pair.progress(&id, f64::from(value));
            pair.run_until(until);
        }
        assert_eq!(pair.heard, vec![Heard::Progress(id.clone()); 5]);
        let (_, serial) = pair.running[0];
        pair.answer(&id, serial);
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard.last(), Some(&Heard::Result(id)));
    });
}

#[test]
fn a_server_with_no_place_left_says_so() {
    for (mut pair, code) in [(legacy(), -32603), (modern(), -31001)] {
        let ids: Vec<_> = (0..5).map(|_| pair.request("tools/list", None)).collect();
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard, [Heard::Error(ids[4].clone(), code)]);
        assert_eq!(pair.running.len(), 4);
    }
}

#[test]
fn garbage_is_answered_and_changes_nothing() {
    both(|mut pair| {
        for bytes in [&b"{"[..], b"[]", b"null", b"\xff", br#"{"jsonrpc":"2.0","id":{},"method":"x"}"#] {
            pair.send(Side::Client, bytes.to_vec());
        }
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard.len(), 5);
        pair.heard.clear();
        let id = pair.request("tools/list", None);
        assert!(pair.step());
        let (_, serial) = pair.running[0];
        pair.answer(&id, serial);
        pair.run_until(Duration::MAX);
        assert_eq!(pair.heard, [Heard::Result(id)]);
    });
}

#[test]
fn a_session_is_needed_only_where_requests_do_not_describe_themselves() {
    let mut pair = Pair::new(Dialect::newest_legacy(), MS, 4);
    let id = pair.request("tools/list", None);
    pair.run_until(Duration::MAX);
    assert_eq!(pair.heard, [Heard::Error(id, -32602)]);
    let mut pair = modern();
    let id = pair.request("initialize", None);
    pair.run_until(Duration::MAX);
    assert_eq!(pair.heard, [Heard::Error(id, -32601)]);
    assert_eq!(RequestId::from(1), RequestId::Number(1));
}
