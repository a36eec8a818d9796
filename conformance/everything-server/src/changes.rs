//! The tools that change what is offered: named and behaving as the suite asks.

use longhaul::server::{Catalogue, ChangeError, Prompt, ToolError};
use longhaul::{Cx, Tool};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

/// What is added and taken away again.
const PASSING: &str = "test_passing";

/// Both of them. What is offered is afterwards as it was.
pub(crate) fn tools(catalogue: &Catalogue) -> Vec<Tool> {
    let (tools, prompts) = (catalogue.clone(), catalogue.clone());
    vec![
        Tool::typed("test_trigger_tool_change", "Change the tools", move |_: Cx, NoArguments {}| {
            let changed = change_tools(&tools);
            async move { changed.map(|()| "changed").map_err(ToolError::from) }
        }),
        Tool::typed("test_trigger_prompt_change", "Change the prompts", move |_: Cx, NoArguments {}| {
            let changed = change_prompts(&prompts);
            async move { changed.map(|()| "changed").map_err(ToolError::from) }
        }),
    ]
}

fn change_tools(catalogue: &Catalogue) -> Result<(), ChangeError> {
    catalogue.put(Tool::typed(PASSING, "Here for a moment", |_, NoArguments {}| async { "here" }))?;
    catalogue.remove::<Tool>(PASSING).map(drop)
}

fn change_prompts(catalogue: &Catalogue) -> Result<(), ChangeError> {
    catalogue.put(Prompt::typed(PASSING, "Here for a moment", |_, NoArguments {}| async { "here" }))?;
    catalogue.remove::<Prompt>(PASSING).map(drop)
}
