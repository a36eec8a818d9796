//! `longhaul store copy`: all of a store into another one, of any kind.

use std::sync::Arc;

use longhaul::store::StoreError;
use longhaul_gateway::config::StoreUrl;
use longhaul_store::transfer::{Copied, Place, Transfer, TransferError, abandon, copy, settings};
use longhaul_store::{RedisOptions, SqliteOptions};
use serde_json::json;

use super::{Copy, options};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::term::{clean, is_watched, note, print};

pub(super) async fn run(args: &Copy) -> Outcome {
    let (from, to) = (Side::of(&args.from)?, Side::of(&args.to)?);
    if from.name == to.name {
        return Err(
            Failure::usage("a store cannot be copied into itself").next("name another one to copy into")
        );
    }
    if let StoreUrl::Sqlite(path) = &args.from
        && !path.is_file()
    {
        return Err(Failure::usage(format!("there is no file {}", path.display()))
            .next("name the store that is there: sqlite:FILE, postgres://HOST/DATABASE or redis://HOST"));
    }
    let (one, other) = (from.open().await?, to.open().await?);
    let (one, other) = (Place { name: &from.name, store: &*one }, Place { name: &to.name, store: &*other });
    if args.abandon {
        abandon(one, other).await.map_err(|error| failure(error, args))?;
        let said = format!("{} can be served again; {} is an unfinished copy", from.name, to.name);
        print(&if args.json { json!({"abandoned": true}).to_string() } else { said })?;
        return Ok(Exit::Done);
    }
    let mut shown = 0;
    let mut tell = |done: u64, of: u64| {
        let percent = (done * 100).checked_div(of).unwrap_or(100).min(100);
        if is_watched() && !args.json && percent >= shown + 10 {
            shown = percent;
            note(&format!("{percent} %"));
        }
    };
    let copied = copy(one, other, &mut tell).await.map_err(|error| failure(error, args))?;
    show(copied, args, &from, &to)?;
    Ok(Exit::Done)
}

fn show(
    Copied { tasks, entries, streams, .. }: Copied,
    args: &Copy,
    from: &Side<'_>,
    to: &Side<'_>,
) -> Outcome<()> {
    if args.json {
        let said = json!({"from": args.from.to_string(), "to": args.to.to_string(), "tasks": tasks, "entries": entries, "streams": streams});
        return print(&clean::json(&said.to_string()));
    }
    print(&format!("from      {}", from.name))?;
    print(&format!("to        {}", to.name))?;
    print(&format!("tasks     {tasks} copied, and held against what they were"))?;
    print(&format!("entries   {entries} copied"))?;
    print(&format!("streams   {streams} copied"))?;
    note("servers start on the new store from now on, and on the old one no more");
    Ok(())
}

/// One of the two stores.
struct Side<'a> {
    url: &'a StoreUrl,
    /// The same name wherever the program is started.
    name: String,
}

impl<'a> Side<'a> {
    fn of(url: &'a StoreUrl) -> Outcome<Self> {
        if *url == StoreUrl::Memory {
            return Err(Failure::usage(
                "a store in memory ends with its server: nothing is copied from there or to there",
            )
            .next("name others: sqlite:FILE, postgres://HOST/DATABASE or redis://HOST"));
        }
        Ok(Self { url, name: crate::store::place(url) })
    }

    async fn open(&self) -> Outcome<Arc<dyn Transfer>> {
        let opened: Result<Arc<dyn Transfer>, StoreError> = match self.url {
            StoreUrl::Memory => return Err(Failure::usage("a store in memory cannot be copied")),
            StoreUrl::Sqlite(path) => {
                SqliteOptions::new().with_settings(settings()).open(path).map(|store| Arc::new(store) as _)
            }
            StoreUrl::Postgres(url) => {
                let opened = options().with_settings(settings()).open(url.expose()).await;
                opened.map(|store| Arc::new(store) as _)
            }
            StoreUrl::Redis(url) => {
                let mut options = RedisOptions::new().with_settings(settings());
                if let Ok(password) = std::env::var("REDISCLI_AUTH") {
                    options = options.with_password(password);
                }
                options.open(url.expose()).await.map(|store| Arc::new(store) as _)
            }
        };
        opened.map_err(|error| Failure::from(error).of(&self.name))
    }
}

/// What went wrong, and what to do next.
fn failure(error: TransferError, args: &Copy) -> Failure {
    let again = format!("longhaul store copy {} {}", args.from, args.to);
    let said = error.to_string();
    match error {
        TransferError::Store(error) => Failure::from(error).next(format!("it can be begun again: {again}")),
        TransferError::Unfinished { from, place } => Failure::new(Exit::Failed, "unfinished_copy", said)
            .next(format!("longhaul store copy {from} {place}")),
        TransferError::Moved { .. } => Failure::new(Exit::Failed, "moved", said),
        TransferError::InUse { .. } => {
            Failure::new(Exit::Failed, "in_use", said).next(format!("then {again}"))
        }
        _ => Failure::new(Exit::Failed, "not_copied", said),
    }
}
