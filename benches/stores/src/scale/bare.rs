//! The same rows without us: read by their keys, one column after the other, with nothing made of them, and written.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use longhaul_store::TaskId;
use redis::aio::MultiplexedConnection;
use rusqlite::{Connection, OpenFlags};
use tokio_postgres::{Client, NoTls, Statement};

use crate::{Kind, held};

/// A connection of the database's own driver.
#[derive(Debug)]
pub(crate) enum Bare {
    Sqlite(Mutex<Connection>),
    Postgres(Client, Statement),
    /// And how the keys of its tasks begin.
    Redis(MultiplexedConnection, String),
}

impl Bare {
    /// One to the database at this URL.
    pub(crate) async fn open(kind: Kind, url: &str) -> Result<Arc<Self>> {
        Ok(Arc::new(match kind {
            Kind::Sqlite => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = Connection::open_with_flags(url, flags)?;
                // As much as the store gives each of its readers, and what it acknowledges is on disk.
                connection.pragma_update(None, "cache_size", -1024)?;
                connection.pragma_update(None, "synchronous", "full")?;
                Self::Sqlite(Mutex::new(connection))
            }
            Kind::Postgres => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
                tokio::spawn(connection);
                let statement = client.prepare("SELECT * FROM longhaul.tasks WHERE id = $1").await?;
                Self::Postgres(client, statement)
            }
            Kind::Redis => {
                let store = url.rsplit_once("name=").context("the URL names the store")?.1;
                let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
                Self::Redis(connection, format!("{{{store}}}:task:"))
            }
        }))
    }

    /// Reads the row of a task.
    pub(crate) async fn read(&self, id: &TaskId) -> Result<()> {
        let columns = match self {
            Self::Sqlite(connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                let mut statement = connection.prepare_cached("SELECT * FROM tasks WHERE id = ?1")?;
                let columns = statement.column_count();
                statement.query_row([id.as_str()], |row| {
                    for column in 0..columns {
                        row.get_ref(column)?;
                    }
                    Ok(columns)
                })?
            }
            Self::Postgres(client, statement) => client.query_one(statement, &[&id.as_str()]).await?.len(),
            Self::Redis(connection, tasks) => {
                let mut asked = redis::cmd("HVALS");
                asked.arg(format!("{tasks}{id}"));
                asked.query_async::<Vec<redis::Value>>(&mut connection.clone()).await?.len()
            }
        };
        ensure!(columns > 0, "the row of {id} is not there");
        Ok(())
    }
}

/// Writes rows that are as those of these tasks, one of each in a transaction, until there are as many more as those numbers;
/// [`remove`] takes them away again.
pub(crate) fn write(connection: &Mutex<Connection>, like: &[TaskId], numbers: Range<u32>) -> Result<()> {
    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    let columns: Vec<String> = {
        let mut asked = connection.prepare("SELECT name FROM pragma_table_info('tasks')")?;
        asked.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
    };
    let values = columns.iter().map(|column| match column.as_str() {
        "ord" => "NULL".to_owned(),
        "id" => "?1".to_owned(),
        "nth" => format!("nth + {BEYOND} + ?2"),
        other => other.to_owned(),
    });
    let sql = format!(
        "INSERT INTO tasks SELECT {} FROM tasks WHERE id = ?3",
        values.collect::<Vec<_>>().join(", ")
    );
    let mut numbers = numbers.peekable();
    while numbers.peek().is_some() {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(&sql)?;
            for (task, number) in like.iter().zip(numbers.by_ref()) {
                insert.execute((held::name(BEYOND + number).as_str(), number, task.as_str()))?;
            }
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Takes away what [`write`] has written.
pub(crate) fn remove(connection: &Mutex<Connection>, numbers: Range<u32>) -> Result<()> {
    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
    let transaction = connection.transaction()?;
    for number in numbers {
        let removed =
            transaction.execute("DELETE FROM tasks WHERE id = ?1", [held::name(BEYOND + number).as_str()])?;
        ensure!(removed == 1, "row {number} is not there");
    }
    Ok(transaction.commit()?)
}

/// Numbers from which on no task of a store is.
const BEYOND: u32 = 1 << 31;
