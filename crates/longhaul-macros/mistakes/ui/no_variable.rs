//! An argument that is not among the variables of the URI.

use longhaul::resource;

/// A row.
#[resource(uri = "db://{table}")]
async fn row(tabel: String) -> String {
    tabel
}

fn main() {}
