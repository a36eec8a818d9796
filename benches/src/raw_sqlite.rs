//! SQLite without us: the rows that durable creates write, inserted in groups by one thread. Also counts
//! the rows of a store.
#![expect(clippy::print_stdout, reason = "figures are printed")]

mod cpu;
mod rows;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use rusqlite::Connection;
use rusqlite::types::Value;

use self::rows::Rows;

/// SQLite without us.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Insert rows like the one in a store into a new file of the same format
    Insert {
        /// A store with at least one task, which nobody has open
        #[arg(long)]
        like: PathBuf,
        /// The new file
        file: PathBuf,
        /// How many rows before those that count
        #[arg(long)]
        warm_up: usize,
        /// How many rows
        #[arg(long)]
        rows: NonZeroU32,
        /// How many rows a commit
        #[arg(long)]
        group: NonZeroU32,
    },
    /// Count the tasks of a store
    Count {
        /// The store
        file: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Insert { like, file, warm_up, rows, group } => {
            let Took { seconds, cpu_seconds } =
                insert(&like, &file, warm_up, rows.get() as usize, group.get() as usize)?;
            println!(r#"{{"calls":{rows},"seconds":{seconds},"cpu_seconds":{cpu_seconds}}}"#);
        }
        Command::Count { file } => println!("{}", count(&rows::open(&file)?)?),
    }
    Ok(())
}

/// What the rows that count took: by the clock, and of a processor.
struct Took {
    seconds: f64,
    cpu_seconds: f64,
}

fn insert(like: &Path, file: &Path, warm_up: usize, rows: usize, group: usize) -> Result<Took> {
    let mut pattern = Rows::like(like)?;
    let conn = rows::create(file)?;
    let rows: Vec<_> = (0..warm_up + rows).map(|_| pattern.next()).collect();
    let mut statement = conn.prepare(&pattern.insert())?;
    let mut begin = conn.prepare("BEGIN IMMEDIATE")?;
    let mut commit = conn.prepare("COMMIT")?;
    let mut write = |rows: &[Vec<Value>]| -> Result<()> {
        for group in rows.chunks(group) {
            begin.execute([])?;
            for row in group {
                statement.execute(rusqlite::params_from_iter(row))?;
            }
            commit.execute([])?;
        }
        Ok(())
    };
    let (first, counted) = rows.split_at(warm_up);
    write(first)?;
    let (cpu, began) = (cpu::seconds()?, Instant::now());
    write(counted)?;
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu::seconds()? - cpu);
    ensure!(count(&conn)? == rows.len(), "rows are missing");
    Ok(Took { seconds, cpu_seconds })
}

fn count(conn: &Connection) -> Result<usize> {
    let count: i64 = conn.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))?;
    Ok(usize::try_from(count)?)
}
