//! The same rules with a revision registered that this repository does not have: in it, and in all others beside it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../legs/mod.rs"]
mod legs;

use std::sync::Once;

use legs::hold_over;
use longhaul::proto::dialect::{Dialect, Era, Revision};
use longhaul_test::transcript::Over;
use longhaul_transcripts::v2099_01_01;

/// What only speaks 2026-07-28 when this process begins speaks 2099-01-01 from here on.
fn arrive() {
    static ARRIVED: Once = Once::new();
    ARRIVED.call_once(|| v2099_01_01::register().unwrap());
}

#[test]
fn a_dialect_is_registered_once_and_spoken_everywhere() {
    arrive();
    assert!(v2099_01_01::register().is_err());
    let future = Revision::from_date("2099-01-01").unwrap();
    assert!(Revision::ALL.into_iter().all(|known| known < future));
    assert_eq!(Dialect::spoken().next().unwrap().revision(), future);
    let dialect = Dialect::of(future);
    assert_eq!((dialect.era(), future.as_str()), (Era::Modern, "2099-01-01"));
    assert!(dialect.request("server/introduce").is_some());
    assert!(Dialect::newest_modern().request("server/introduce").is_none());
}

#[tokio::test(start_paused = true)]
async fn every_rule_holds_in_the_stepped_core() {
    arrive();
    hold_over(Over::Core, &["--future"]).await;
}

#[tokio::test(start_paused = true)]
async fn every_rule_holds_between_two_pipes() {
    arrive();
    hold_over(Over::Pair, &["--future"]).await;
}

#[tokio::test]
async fn every_rule_holds_over_standard_streams() {
    arrive();
    hold_over(Over::Stdio, &["--future"]).await;
}

#[tokio::test]
async fn every_rule_holds_over_http() {
    arrive();
    hold_over(Over::Http, &["--future"]).await;
}

#[tokio::test]
async fn every_rule_holds_over_http_with_sse() {
    arrive();
    hold_over(Over::Sse, &["--future"]).await;
}
