//! What no reader can be given.

use longhaul::resource;

struct Money;

/// A purse.
#[resource(uri = "purse://{owner}")]
async fn purse(owner: String) -> Option<Money> {
    let _ = owner;
    None
}

fn main() {}
