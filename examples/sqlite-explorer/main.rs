//! A SQLite file for a model to look into, and not to change. See README.md.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use longhaul::server::{Failure, Json, Resource, ToolError};
use longhaul::{Server, Tool};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many rows a query gives at most.
const MAX_ROWS: usize = 100;

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// One SELECT statement.
    sql: String,
}

#[derive(Serialize, JsonSchema)]
struct Rows {
    /// The names of the columns.
    columns: Vec<String>,
    /// The values, row by row.
    rows: Vec<Vec<serde_json::Value>>,
    /// There are more rows than these.
    more: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let file: PathBuf = std::env::args_os().nth(1).context("which file? usage: sqlite-explorer FILE")?.into();
    open(&file)?;
    let file = Arc::new(file);

    let schema = Resource::new("schema://main", "schema", {
        let file = Arc::clone(&file);
        move |_| {
            let file = Arc::clone(&file);
            async move { Ok::<_, Failure>(tokio::task::spawn_blocking(move || schema(&file)).await??) }
        }
    })
    .description("The statements that made the tables")
    .mime_type("application/sql");
    let query = Tool::typed("query", "Run a SELECT statement on the file", move |_, Query { sql }| {
        let file = Arc::clone(&file);
        async move { Ok::<_, ToolError>(Json(tokio::task::spawn_blocking(move || query(&file, &sql)).await??)) }
    });
    Ok(Server::new("sqlite-explorer", "1.0.0").resource(schema).tool(query).serve_stdio().await?)
}

/// Opens the file so that nothing can change it.
fn open(file: &PathBuf) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

fn schema(file: &PathBuf) -> rusqlite::Result<String> {
    let connection = open(file)?;
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")?;
    let statements: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(statements.join(";\n"))
}

fn query(file: &PathBuf, sql: &str) -> Result<Rows, rusqlite::Error> {
    let connection = open(file)?;
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = Rows { rows: Vec::new(), more: false, columns };
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if found.rows.len() == MAX_ROWS {
            found.more = true;
            break;
        }
        let values = (0..found.columns.len()).map(|column| row.get_ref(column).map(value));
        found.rows.push(values.collect::<Result<_, _>>()?);
    }
    Ok(found)
}

fn value(value: ValueRef<'_>) -> serde_json::Value {
    match value {
        ValueRef::Null => serde_json::Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()).into(),
    }
}
