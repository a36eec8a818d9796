//! Every rule of the transcripts, over every transport it applies to, in every revision it holds in; and what would
//! break it, found out.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod core;
mod pipes;
mod web;

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::server::Dispatcher;
use longhaul::transport::http::server::Options;
use longhaul_test::transcript::{Book, Breach, Leg, Over, Row, breaches, play};

use crate::core::Core;
use crate::pipes::Pipes;
use crate::web::Web;

/// How long nothing comes before it is taken for silence.
const SILENCE: Duration = Duration::from_secs(3600);

/// Every row: each file of `rules` and of `hosts`.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for folder in ["rules", "hosts"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            rows.push(Row::parse(name, &text).unwrap_or_else(|what| panic!("{what}")));
        }
    }
    rows
}

/// Every row that is shown over `over`, in each revision that it holds in.
fn all(over: Over) -> Vec<(Row, &'static Dialect)> {
    let dialects = Revision::ALL.map(Dialect::of);
    let rows = rows().into_iter().filter(|row| row.over.contains(&over));
    rows.flat_map(|row| {
        dialects
            .into_iter()
            .filter(|dialect| row.holds_in(dialect))
            .map(|d| (row.clone(), d))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// How many conversations go on at once where time is real.
const AT_ONCE: usize = 16;

fn dispatcher(row: &Row) -> Dispatcher {
    longhaul_transcripts::server(&row.server).unwrap().dispatcher().unwrap()
}

/// Holds a server to every row over `over`, so many at once.
async fn hold<L: Leg>(over: Over, at_once: usize, start: impl AsyncFn(&Row, &'static Dialect) -> L) {
    let book = Book::load().unwrap();
    let held = stream::iter(all(over)).map(async |(row, dialect)| {
        let mut leg = start(&row, dialect).await;
        let heard = play(&row, dialect, &mut leg, &book).await?;
        breaches(&row, dialect, &heard, &book).await
    });
    let outcomes: Vec<Result<usize, Breach>> = held.buffer_unordered(at_once).collect().await;
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let told = wrong.iter().map(|breach| format!("\n{breach}")).collect::<String>();
    assert!(wrong.is_empty(), "{} of {}:{told}", wrong.len(), outcomes.len());
    assert!(!outcomes.is_empty(), "nothing was held to anything");
}

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
    hold(Over::Stdio, AT_ONCE, async |row, _| Pipes::child(&row.server)).await;
}

#[tokio::test]
async fn every_rule_holds_over_http() {
    hold(Over::Http, AT_ONCE, async |row, _| {
        Web::start(dispatcher(row), row.opened, Options::default()).await
    })
    .await;
}
