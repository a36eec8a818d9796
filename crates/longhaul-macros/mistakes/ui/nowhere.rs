//! A resource that is nowhere.

use longhaul::resource;

/// A row.
#[resource]
async fn row() -> String {
    String::new()
}

fn main() {}
