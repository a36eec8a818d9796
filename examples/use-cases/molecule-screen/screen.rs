//! The tools: one screens a library of molecules, and makes a task of each of its shards for the other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::server::{Json, State, ToolError};
use longhaul::{Cx, Server, tool};
use rusqlite::{Connection, TransactionBehavior};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of a shard, or of all of them.
#[derive(Default, Deserialize, JsonSchema, Serialize)]
struct Screened {
    /// How many molecules were scored.
    molecules: usize,
    /// Those with the highest scores, the best first.
    best: Vec<Scored>,
}

/// A molecule and its score.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Scored {
    molecule: String,
    score: u32,
}

impl Screened {
    fn add(&mut self, scored: Vec<Scored>) {
        self.best.extend(scored);
        self.best.sort_unstable_by(|a, b| (b.score, &a.molecule).cmp(&(a.score, &b.molecule)));
        self.best.truncate(5);
    }
}

/// Score every molecule of one shard of the library.
#[tool(task = "always", rerun = "resumable", limit = 4)]
async fn screen_shard(cx: Cx, lab: State<Lab>, shard: usize) -> Result<Json<Screened>, ToolError> {
    let key = cx.effect_key("score");
    Ok(Json(cx.step("score", || lab.score(shard, key)).await?))
}

/// Score every molecule of the library, and say which are the best.
#[tool(task = "always", rerun = "resumable")]
async fn screen(cx: Cx, lab: State<Lab>) -> Result<Json<Screened>, ToolError> {
    let shards = cx.step("count", || lab.shards()).pure().await?;
    let mut tasks = Vec::new();
    for shard in 0..shards {
        tasks.push(cx.spawn("screen_shard", serde_json::json!({ "shard": shard })).await?);
    }
    let mut all = Screened::default();
    for task in &tasks {
        let shard: Screened = task.join_as().await?;
        // Who follows the screen reads the best of each shard now, hours before its end.
        cx.emit(Json(&shard)).await?;
        all.molecules += shard.molecules;
        all.add(shard.best);
    }
    Ok(Json(all))
}

/// The library, a file `library/NNN` for each shard with a molecule a line, and a database of scores.
#[derive(Clone)]
struct Lab(PathBuf);

impl Lab {
    async fn shards(&self) -> io::Result<usize> {
        Ok(fs::read_dir(self.0.join("library"))?.count())
    }

    async fn score(&self, shard: usize, key: String) -> Result<Screened, ToolError> {
        let lab = self.clone();
        tokio::task::spawn_blocking(move || lab.score_now(shard, &key)).await?
    }

    /// The scores of a shard and the key of this effect are in the database together or not at all: asked twice under a
    /// key, it has them once.
    fn score_now(&self, shard: usize, key: &str) -> Result<Screened, ToolError> {
        let molecules = fs::read_to_string(self.0.join(format!("library/{shard:03}")))?;
        let mut scores = self.scores()?;
        let writing = scores.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let is_new = writing.execute("INSERT OR IGNORE INTO done (key) VALUES (?1)", [key])? == 1;
        let mut insert = writing.prepare("INSERT INTO score (molecule, score) VALUES (?1, ?2)")?;
        let mut screened = Screened::default();
        for molecule in molecules.lines() {
            let score = model(molecule);
            if is_new {
                insert.execute((molecule, score))?;
            }
            screened.molecules += 1;
            screened.add(vec![Scored { molecule: molecule.to_owned(), score }]);
        }
        drop(insert);
        writing.commit()?;
        Ok(screened)
    }

    fn scores(&self) -> rusqlite::Result<Connection> {
        let scores = Connection::open(self.0.join("scores.db"))?;
        scores.busy_timeout(Duration::from_secs(60))?;
        scores.execute_batch(
            "CREATE TABLE IF NOT EXISTS score (molecule TEXT NOT NULL, score INTEGER NOT NULL);
             CREATE TABLE IF NOT EXISTS done (key TEXT PRIMARY KEY);",
        )?;
        Ok(scores)
    }
}

/// Stands for a model that takes a while for each molecule.
fn model(molecule: &str) -> u32 {
    molecule.bytes().fold(2_166_136_261, |score, byte| (score ^ u32::from(byte)).wrapping_mul(16_777_619))
        >> 8
}

/// The server, whose library and scores are here.
pub(crate) fn server(folder: &Path) -> Server {
    Server::new("lab", "1.0.0").state(Lab(folder.to_owned())).tool(screen).tool(screen_shard)
}
