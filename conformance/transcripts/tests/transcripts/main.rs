//! Every rule of the transcripts, over every transport it applies to, in every revision it holds in; and what would
//! break it, found out. Servers are held to theirs, and our client to its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clients;
#[path = "../legs/mod.rs"]
mod legs;

use clients::hold_clients;
use legs::hold_over;
use longhaul_test::transcript::Over;

#[tokio::test(start_paused = true)]
async fn every_rule_holds_in_the_stepped_core() {
    hold_over(Over::Core, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn every_rule_holds_between_two_pipes() {
    hold_over(Over::Pair, &[]).await;
}

#[tokio::test]
async fn every_rule_holds_over_standard_streams() {
    hold_over(Over::Stdio, &[]).await;
}

#[tokio::test]
async fn every_rule_holds_over_http() {
    hold_over(Over::Http, &[]).await;
}

#[tokio::test]
async fn every_rule_holds_over_http_with_sse() {
    hold_over(Over::Sse, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn every_rule_of_clients_holds_between_two_pipes() {
    hold_clients(Over::Pair).await;
}

#[tokio::test]
async fn every_rule_of_clients_holds_over_http() {
    hold_clients(Over::Http).await;
}
