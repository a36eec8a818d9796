//! SQLite without us: the rows that durable creates write, inserted in groups by one thread. Also counts
//! the rows of a store.
#![expect(clippy::print_stdout, reason = "figures are printed")]

mod cpu;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use longhaul_store::{Sqlite, TaskId, Time};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

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
        Command::Count { file } => println!("{}", count(&open(&file)?)?),
    }
    Ok(())
}

/// What the rows that count took: by the clock, and of a processor.
struct Took {
    seconds: f64,
    cpu_seconds: f64,
}

fn insert(like: &Path, file: &Path, warm_up: usize, rows: usize, group: usize) -> Result<Took> {
    ensure!(!file.exists(), "{} is there already", file.display());
    // The format is the store's own.
    drop(Sqlite::open(file)?);
    let (columns, row) = pattern(&open(like)?)?;
    let conn = open(file)?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    ensure!(mode == "wal", "the journal mode is {mode}");
    conn.pragma_update(None, "synchronous", "full")?;
    let rows = numbered(&columns, &row, warm_up + rows)?;
    let places = vec!["?"; columns.len()].join(", ");
    let sql = format!("INSERT INTO tasks ({}) VALUES ({places})", columns.join(", "));
    let mut statement = conn.prepare(&sql)?;
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

/// The columns of a task, and one task.
fn pattern(conn: &Connection) -> Result<(Vec<String>, Vec<Value>)> {
    let mut statement = conn.prepare("SELECT * FROM tasks LIMIT 1")?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let row = statement
        .query_row([], |row| (0..columns.len()).map(|index| row.get(index)).collect())
        .context("the store has no task to be like")?;
    Ok((columns, row))
}

/// The same task so many times, each with an id and a place of its own.
fn numbered(columns: &[String], row: &[Value], rows: usize) -> Result<Vec<Vec<Value>>> {
    let at = |name: &str| columns.iter().position(|column| column == name).context("an unknown format");
    let (ord, nth, seq, id) = (at("ord")?, at("nth")?, at("seq")?, at("id")?);
    let Value::Text(pattern) = &row[id] else { anyhow::bail!("an id is no text") };
    let (name, _) = pattern.rsplit_once('-').context("an unknown form of id")?;
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let one = |number: usize| {
        let mut row = row.to_vec();
        for place in [ord, nth, seq] {
            row[place] = Value::Integer(number as i64);
        }
        let at = Time::from_unix_ms((number / A_MILLISECOND) as i64);
        row[id] = Value::Text(TaskId::minted(name, at, dice.roll()).to_string());
        row
    };
    Ok((1..=rows).map(one).collect())
}

/// How many ids have the same time, at about the pace that is measured.
const A_MILLISECOND: usize = 20;

/// Random enough to spread ids over an index as the store's do.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> [u8; 16] {
        let mut bits = [0; 16];
        for bytes in bits.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.copy_from_slice(&self.0.to_le_bytes()[..bytes.len()]);
        }
        bits
    }
}

fn count(conn: &Connection) -> Result<usize> {
    let count: i64 = conn.query_row("SELECT count(*) FROM tasks", [], |row| row.get(0))?;
    Ok(usize::try_from(count)?)
}

fn open(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(file, flags).with_context(|| format!("cannot open {}", file.display()))
}
