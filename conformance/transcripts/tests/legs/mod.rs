//! What transcripts go over, and holding a server to all of them.

mod clients;
mod core;
mod pipes;
mod web;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use longhaul::proto::dialect::Dialect;
use longhaul::server::Dispatcher;
use longhaul::transport::http::server::Options;
use longhaul_test::transcript::{Book, Breach, Leg, Over, Row, breaches, play};

use self::clients::{Beside, Clients};
use self::core::Core;
use self::pipes::Pipes;
use self::web::Web;

/// How long nothing comes before it is taken for silence.
pub(crate) const SILENCE: Duration = Duration::from_secs(120);

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
pub(crate) fn all(over: Over) -> Vec<(Row, &'static Dialect)> {
    let of = |row: Row| {
        let dialects = Dialect::spoken().filter(|dialect| row.goes(over, dialect));
        dialects.map(|dialect| (row.clone(), dialect)).collect::<Vec<_>>()
    };
    rows().into_iter().flat_map(of).collect()
}

/// How many conversations go on at once where time is real.
const AT_ONCE: usize = 16;

fn dispatcher(row: &Row) -> Dispatcher {
    longhaul_transcripts::server(&row.server).unwrap().dispatcher().unwrap()
}

/// Holds a server to every row over `over`. A process that is started for it gets these arguments.
pub(crate) async fn hold_over(over: Over, arguments: &[&str]) {
    match over {
        Over::Core => {
            hold_servers(over, 1, async |row, dialect| Core::new(dispatcher(row), dialect, row.room)).await;
        }
        Over::Pair => hold_servers(over, 1, async |row, _| Pipes::pair(dispatcher(row))).await,
        Over::Stdio => {
            hold_servers(over, AT_ONCE, async |row, _| Pipes::child(&row.server, arguments)).await;
        }
        Over::Http => {
            let start = async |row: &Row, _| {
                let options = Options::default().max_running(row.room);
                Web::start_for(&row.clients, dispatcher(row), row.opened, options).await
            };
            hold_servers(over, AT_ONCE, start).await;
        }
        Over::Sse => hold_servers(over, AT_ONCE, async |row, _| Web::paired(dispatcher(row)).await).await,
    }
}

/// Holds a server to every row of servers over `over`, so many at once.
async fn hold_servers<L: Beside>(
    over: Over,
    at_once: usize,
    start: impl AsyncFn(&Row, &'static Dialect) -> L,
) {
    let mut rows = all(over);
    rows.retain(|(row, _)| row.client.is_none());
    hold(rows, at_once, async |row, dialect| Clients::of(&row.clients, start(row, dialect).await)).await;
}

/// Holds what is at the other end of a leg to every row, so many at once.
pub(crate) async fn hold<L: Leg>(
    rows: Vec<(Row, &'static Dialect)>,
    at_once: usize,
    start: impl AsyncFn(&Row, &'static Dialect) -> L,
) {
    static BOOK: LazyLock<Book> = LazyLock::new(|| Book::load().unwrap());
    let book = &*BOOK;
    let held = stream::iter(rows).map(async |(row, dialect)| {
        let mut leg = start(&row, dialect).await;
        let heard = play(&row, dialect, &mut leg, book).await?;
        breaches(&row, dialect, &heard, book).await
    });
    let outcomes: Vec<Result<usize, Breach>> = held.buffer_unordered(at_once).collect().await;
    let wrong: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let told = wrong.iter().map(|breach| format!("\n{breach}")).collect::<String>();
    assert!(wrong.is_empty(), "{} of {}:{told}", wrong.len(), outcomes.len());
    assert!(!outcomes.is_empty(), "nothing was held to anything");
}
