//! A tool that says nothing of itself.

use longhaul::tool;

#[tool]
async fn add(a: i64) -> i64 { a }

fn main() {}
