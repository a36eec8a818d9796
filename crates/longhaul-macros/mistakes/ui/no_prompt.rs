//! What no prompt can be.

use longhaul::prompt;

struct Money;

/// Pay.
#[prompt]
async fn pay() -> Money {
    Money
}

fn main() {}
