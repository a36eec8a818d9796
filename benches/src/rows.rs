//! The rows that durable creates write, made after one of them, and the file they are put into.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use longhaul_store::{Sqlite, TaskId, Time};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

/// Tasks, each like the first one of a store but for its id and its place.
pub(crate) struct Rows {
    columns: Vec<String>,
    row: Vec<Value>,
    /// Where its id is in a row.
    pub(crate) id: usize,
    /// Where the numbers are that are its own.
    numbers: [usize; 3],
    name: String,
    dice: Dice,
    made: usize,
}

impl Rows {
    /// Like that of a store, which nobody has open.
    pub(crate) fn like(store: &Path) -> Result<Self> {
        let conn = open(store)?;
        let mut statement = conn.prepare("SELECT * FROM tasks LIMIT 1")?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let row: Vec<Value> = statement
            .query_row([], |row| (0..columns.len()).map(|index| row.get(index)).collect())
            .context("the store has no task to be like")?;
        let at = |name: &str| columns.iter().position(|column| column == name).context("an unknown format");
        let (numbers, id) = ([at("ord")?, at("nth")?, at("seq")?], at("id")?);
        let Value::Text(pattern) = &row[id] else { anyhow::bail!("an id is no text") };
        let (name, _) = pattern.rsplit_once('-').context("an unknown form of id")?;
        let name = name.to_owned();
        Ok(Self { columns, row, id, numbers, name, dice: Dice(0x9e37_79b9_7f4a_7c15), made: 0 })
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Vec<Value> {
        self.made += 1;
        let mut row = self.row.clone();
        for place in self.numbers {
            row[place] = Value::Integer(self.made as i64);
        }
        let at = Time::from_unix_ms((self.made / A_MILLISECOND) as i64);
        row[self.id] = Value::Text(TaskId::minted(&self.name, at, self.dice.roll()).to_string());
        row
    }

    /// The statement that inserts one.
    pub(crate) fn insert(&self) -> String {
        let places = vec!["?"; self.columns.len()].join(", ");
        format!("INSERT INTO tasks ({}) VALUES ({places})", self.columns.join(", "))
    }
}

/// A new file of the store's own format, each commit to which reaches the disk.
pub(crate) fn create(file: &Path) -> Result<Connection> {
    ensure!(!file.exists(), "{} is there already", file.display());
    drop(Sqlite::open(file)?);
    let conn = open(file)?;
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    ensure!(mode == "wal", "the journal mode is {mode}");
    conn.pragma_update(None, "synchronous", "full")?;
    Ok(conn)
}

/// Opens a file that is there.
pub(crate) fn open(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(file, flags).with_context(|| format!("cannot open {}", file.display()))
}

/// How many ids have the same time, at about the pace that is measured.
const A_MILLISECOND: usize = 20;

/// Random enough to spread ids over an index as the store's do.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> [u8; 20] {
        let mut bits = [0; 20];
        for bytes in bits.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.copy_from_slice(&self.0.to_le_bytes()[..bytes.len()]);
        }
        bits
    }
}
