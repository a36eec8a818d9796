//! A state without a type.

use longhaul::tool;

/// Count.
#[tool]
fn count(_state: State) -> u32 {
    1
}

fn main() {}
