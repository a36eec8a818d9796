//! A duration in words.

use longhaul::tool;

/// Add.
#[tool(task = "after two seconds")]
async fn add(a: i64) -> i64 { a }

fn main() {}
