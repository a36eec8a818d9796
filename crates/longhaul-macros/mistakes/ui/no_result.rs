//! A result that no caller can be given.

use longhaul::tool;

struct Money;

/// Pay.
#[tool]
async fn pay() -> Money { Money }

fn main() {}
