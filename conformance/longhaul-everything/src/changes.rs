//! The tool that changes what is offered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use longhaul::proto::model;
use longhaul::server::{Catalogue, ChangeError, Prompt, Resource, ToolError};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::resources::{COUNTER, Count};

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum What {
    Tools,
    Prompts,
    Resources,
    /// What stands in the resource `everything://counter`.
    Counter,
}

#[derive(Deserialize, JsonSchema)]
struct Change {
    /// What to change.
    what: What,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Adds something that passes and takes it away again, or counts.
pub(crate) fn change(catalogue: &Catalogue, count: &Count) -> Tool {
    let (catalogue, count) = (catalogue.clone(), Arc::clone(count));
    Tool::inline("change", "Change what is offered", move |_: Cx, Change { what }| {
        make(&catalogue, &count, what).map(|()| "changed").map_err(ToolError::from)
    })
}

fn make(catalogue: &Catalogue, count: &Count, what: What) -> Result<(), ChangeError> {
    const PASSING: &str = "passing";
    match what {
        What::Tools => {
            catalogue.put(Tool::inline(PASSING, "Here for a moment", |_, Nothing {}| "here"))?;
            catalogue.remove::<Tool>(PASSING).map(drop)
        }
        What::Prompts => {
            catalogue.put(Prompt::raw(model::Prompt::new(PASSING), |_, _| async { "here" }))?;
            catalogue.remove::<Prompt>(PASSING).map(drop)
        }
        What::Resources => {
            const URI: &str = "everything://passing";
            catalogue.put(Resource::text(URI, PASSING, "here"))?;
            catalogue.remove::<Resource>(URI).map(drop)
        }
        What::Counter => {
            count.fetch_add(1, Ordering::Relaxed);
            catalogue.resource_updated(COUNTER)
        }
    }
}
