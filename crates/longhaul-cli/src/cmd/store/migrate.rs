//! `longhaul store migrate`: the format of this release, before its servers start.

use longhaul_store::{Sqlite, StoreError};
use serde_json::json;

use super::{Kept, Which};
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::store;
use crate::term::{clean, print};

pub(super) async fn run(which: &Which) -> Outcome {
    let kept = which.kept()?;
    let before = kept.format().await?;
    // To open it is to migrate it: one process at a time does, and others wait for it.
    let opened: Result<(), StoreError> = match &kept {
        Kept::File(path) => Sqlite::open(path).map(drop),
        Kept::Database(url) => store::postgres().open(url.expose()).await.map(drop),
        Kept::Server(url) => store::redis().open(url.expose()).await.map(drop),
    };
    opened?;
    let after = kept.format().await?;
    if which.json {
        let said = json!({"store": which.store.to_string(), "from": before.found, "to": after.found});
        print(&clean::json(&said.to_string()))?;
        return Ok(Exit::Done);
    }
    let store = &which.store;
    print(&match (before.found, after.found) {
        (None, Some(to)) => format!("{store} is a store now, of format {to}"),
        (Some(from), Some(to)) if from != to => {
            format!("{store} was of format {from}, and is of format {to} now")
        }
        (_, Some(to)) => format!("{store} is of format {to} already: nothing was changed"),
        (_, None) => format!("{store} could not be looked at again"),
    })?;
    Ok(Exit::Done)
}
