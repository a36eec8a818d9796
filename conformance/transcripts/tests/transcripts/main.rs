//! Every rule of the transcripts, over every transport it applies to, in every revision it holds in; and what would
//! break it, found out.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../legs/mod.rs"]
mod legs;

use legs::{AT_ONCE, Core, Pipes, Web, dispatcher, hold};
use longhaul::transport::http::server::Options;
use longhaul_test::transcript::Over;

#[tokio::test(start_paused = true)]
async fn every_rule_holds_in_the_stepped_core() {
    hold(Over::Core, 1, async |row, dialect| Core::new(dispatcher(row), dialect)).await;
}

#[tokio::test(start_paused = true)]
async fn every_rule_holds_between_two_pipes() {
    hold(Over::Pair, 1, async |row, _| Pipes::pair(dispatcher(row))).await;
}

#[tokio::test]
async fn every_rule_holds_over_standard_streams() {
    hold(Over::Stdio, AT_ONCE, async |row, _| Pipes::child(&[&row.server])).await;
}

#[tokio::test]
async fn every_rule_holds_over_http() {
    hold(Over::Http, AT_ONCE, async |row, _| {
        Web::start(dispatcher(row), row.opened, Options::default()).await
    })
    .await;
}

#[tokio::test]
async fn every_rule_holds_over_http_with_sse() {
    hold(Over::Sse, AT_ONCE, async |row, _| Web::paired(dispatcher(row)).await).await;
}
