//! A word that is no option.

use longhaul::tool;

/// Add.
#[tool(tsak = "never")]
async fn add(a: i64) -> i64 { a }

fn main() {}
