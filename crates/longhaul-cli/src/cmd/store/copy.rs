//! `longhaul store copy`: all of a store into another one, of any kind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul::store::StoreError;
use longhaul_gateway::config::StoreUrl;
use longhaul_store::SqliteOptions;
use longhaul_store::transfer::{Copied, Place, Progress, Transfer, TransferError, abandon, copy};
use serde_json::json;

use super::Copy;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::store::{self, out_of_service};
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
    let one = from.open().await?;
    let one = Place { name: &from.name, store: &*one };
    if args.abandon {
        let is_given_up = abandon(one, &to.name).await.map_err(|error| failure(error, args))?;
        return given_up(is_given_up, args, &from, &to);
    }
    let other = to.open().await?;
    let other = Place { name: &to.name, store: &*other };
    let mut told = Instant::now();
    let mut tell = |progress: Progress| {
        if is_watched() && !args.json && told.elapsed() >= TOLD_EACH {
            told = Instant::now();
            note(&progress.to_string());
        }
    };
    let copied = copy(one, other, &mut tell).await.map_err(|error| failure(error, args))?;
    show(copied, args, &from, &to)?;
    Ok(Exit::Done)
}

fn given_up(is_given_up: bool, args: &Copy, from: &Side<'_>, to: &Side<'_>) -> Outcome {
    let said = if is_given_up {
        format!("{} can be served again; {} is an unfinished copy, to be thrown away", from.name, to.name)
    } else {
        format!("{} is not being copied and can be served; there is nothing to give up", from.name)
    };
    print(&if args.json { json!({"abandoned": is_given_up}).to_string() } else { said })?;
    Ok(Exit::Done)
}

fn show(
    Copied { tasks, entries, streams, events, .. }: Copied,
    args: &Copy,
    from: &Side<'_>,
    to: &Side<'_>,
) -> Outcome<()> {
    if args.json {
        let said = json!({"from": args.from.to_string(), "to": args.to.to_string(), "tasks": tasks, "entries": entries, "streams": streams, "events": events});
        return print(&clean::json(&said.to_string()));
    }
    print(&format!("from      {}", from.name))?;
    print(&format!("to        {}", to.name))?;
    print(&format!("tasks     {tasks} copied, and held against what they were"))?;
    print(&format!("entries   {entries} copied"))?;
    print(&format!("streams   {streams} copied, of {events} events"))?;
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
        Ok(Self { url, name: store::place(url) })
    }

    async fn open(&self) -> Outcome<Arc<dyn Transfer>> {
        let opened: Result<Arc<dyn Transfer>, StoreError> = match self.url {
            StoreUrl::Memory => return Err(Failure::usage("a store in memory cannot be copied")),
            StoreUrl::Sqlite(path) => {
                SqliteOptions::new().open_to_copy(path).map(|store| Arc::new(store) as _)
            }
            StoreUrl::Postgres(url) => {
                let opened = store::postgres().open_to_copy(url.expose()).await;
                opened.map(|store| Arc::new(store) as _)
            }
            StoreUrl::Redis(url) => {
                store::redis().open_to_copy(url.expose()).await.map(|store| Arc::new(store) as _)
            }
        };
        opened.map_err(|error| Failure::from(error).of(&self.name))
    }
}

/// What went wrong, and what to do next.
fn failure(error: TransferError, args: &Copy) -> Failure {
    let copy = format!("longhaul store copy {} {}", args.from, args.to);
    let this = if args.abandon { format!("{copy} --abandon") } else { copy.clone() };
    let said = error.to_string();
    let of = |code| Failure::new(Exit::Failed, code, said);
    match error {
        TransferError::Store(error) if args.abandon => Failure::from(error).next(format!("again: {this}")),
        TransferError::Store(error) => Failure::from(error).next(format!(
            "begin it again: {copy}; or give it up and use the old store again: {copy} --abandon"
        )),
        TransferError::OutOfService { place, mark } => out_of_service(&place, &mark),
        TransferError::InUse { .. } => {
            of("in_use").next(format!("then {this}; one that was killed may count for a minute"))
        }
        TransferError::Differs { .. } => {
            of("differs").next(format!("{copy} --abandon, then copy into a store in which nothing is"))
        }
        TransferError::Overtaken { .. } => of("overtaken").next(this),
        _ => of("not_copied"),
    }
}

/// How often it is told how far a copy is.
const TOLD_EACH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use longhaul_store::transfer::Mark;

    use super::*;

    #[test]
    fn whoever_is_left_with_a_copy_that_is_not_whole_is_told_how_to_give_it_up() {
        let (from, to) = ("sqlite:a.db".to_owned(), "sqlite:b.db".to_owned());
        let args = Copy { from: from.parse().unwrap(), to: to.parse().unwrap(), abandon: false, json: false };
        let of_mark = |place: &str, mark| TransferError::OutOfService { place: place.to_owned(), mark };
        for error in [
            TransferError::Store(StoreError::Closed),
            TransferError::Differs { place: to.clone(), what: "task t".to_owned() },
            of_mark(&from, Mark::Copying(to.clone())),
            of_mark(&to, Mark::CopyOf(from.clone())),
        ] {
            let failure = failure(error, &args);
            let next = failure.next_step().unwrap();
            assert!(next.contains("longhaul store copy sqlite:a.db sqlite:b.db --abandon"), "{next}");
        }
    }
}
