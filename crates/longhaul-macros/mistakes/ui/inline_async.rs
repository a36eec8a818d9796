//! What is polled in place already.

use longhaul::tool;

/// Count.
#[tool(inline)]
async fn count() -> u32 {
    1
}

fn main() {}
