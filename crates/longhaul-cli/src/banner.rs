//! What `serve` says when it is ready: on standard error, for a person.

use std::net::SocketAddr;
use std::path::Path;

use longhaul::store::Counts;
use longhaul_gateway::config::Config;

use crate::systemd;

/// Says where the server listens, what it offers, which store it has, and what to do next.
pub(crate) fn show(
    config: &Config,
    file: &Path,
    address: Option<SocketAddr>,
    counts: Counts,
    taken_up: usize,
) {
    let tools: Vec<&str> = config.tools.iter().map(|tool| tool.name.as_str()).collect();
    let name = &config.server.name;
    anstream::eprintln!("longhaul {}   {name} {}", env!("CARGO_PKG_VERSION"), config.server.version);
    anstream::eprintln!("  config   {}", file.display());
    anstream::eprintln!("  store    {}   {}", config.store.url, open_tasks(counts.open, taken_up));
    anstream::eprintln!("  tools    {}", if tools.is_empty() { "none".to_owned() } else { tools.join(" ") });
    if let Some(note) = systemd::note() {
        anstream::eprintln!("  note     {note}");
    }
    match address {
        Some(address) => {
            let url = format!("http://{address}/mcp");
            anstream::eprintln!("  mcp      {url}   2025-11-25 and 2026-07-28");
            anstream::eprintln!("ready    next: claude mcp add --transport http {name} {url}");
        }
        None => {
            anstream::eprintln!("  mcp      standard input and output   2025-11-25 and 2026-07-28");
            anstream::eprintln!("ready");
        }
    }
}

fn open_tasks(open: u64, taken_up: usize) -> String {
    match (open, taken_up) {
        (0, 0) => "no open tasks".to_owned(),
        (1, 0) => "1 open task".to_owned(),
        (open, 0) => format!("{open} open tasks"),
        (open, 1) => format!("{open} open, 1 taken up"),
        (open, taken_up) => format!("{open} open, {taken_up} taken up"),
    }
}
