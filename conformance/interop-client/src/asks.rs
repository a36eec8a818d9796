//! The set `asks`: what a rig asks of its client while it is called.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::tap::Check;
use crate::visit::{Visit, noted};

/// The page that the rigs name.
const PAGE: &str = "https://pages.example/asked";

pub(crate) fn checks(visit: &Visit) -> Vec<Check<'_>> {
    vec![
        Check::new("has a model asked", samples(visit)),
        Check::new("has a form filled in", asks(visit)),
        Check::new("has a page visited", sends_to_a_page(visit)),
        Check::new("is told where to work", lists_roots(visit)),
    ]
}

/// The checks of the set `refuses`: servers that answer with an error until a page was visited (2025-11-25).
pub(crate) fn refusing(visit: &Visit) -> Vec<Check<'_>> {
    vec![Check::new("refuses until a page was visited", must_be_visited(visit))]
}

async fn must_be_visited(visit: &Visit) -> Result<()> {
    let said = visit.text_of("must_visit", &json!({ "key": "k1" })).await?;
    ensure!(said == "let in", "{said}");
    let asked = noted(&visit.user.pages);
    ensure!(asked.iter().filter(|page| page.ends_with("/k1")).count() == 1, "{asked:?}");
    Ok(())
}

async fn samples(visit: &Visit) -> Result<()> {
    let said = visit.text_of("sample", &json!({ "prompt": "why" })).await?;
    ensure!(said == "a-model: a sample", "{said}");
    let asked = noted(&visit.user.samples);
    ensure!(asked.iter().filter(|prompt| *prompt == "why").count() == 1, "{asked:?}");
    Ok(())
}

async fn asks(visit: &Visit) -> Result<()> {
    let said = visit.text_of("ask", &json!({})).await?;
    ensure!(said == "hello Ada", "{said}");
    let asked = noted(&visit.user.forms);
    ensure!(asked.iter().filter(|form| *form == "Who are you?").count() == 1, "{asked:?}");
    Ok(())
}

async fn sends_to_a_page(visit: &Visit) -> Result<()> {
    let said = visit.text_of("visit", &json!({})).await?;
    ensure!(said == "visited: accept", "{said}");
    ensure!(noted(&visit.user.pages).iter().filter(|page| *page == PAGE).count() == 1);
    Ok(())
}

async fn lists_roots(visit: &Visit) -> Result<()> {
    let said = visit.text_of("roots", &json!({})).await?;
    ensure!(said == "file:///work", "{said}");
    Ok(())
}
