//! The configuration here, its store, and what the system allows.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longhaul::store::Durability;
use longhaul_gateway::config::{self, Colour, Config, Listen, StoreUrl};
use longhaul_store::Sqlite;
use rustix::fs::{Access, access};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};

use super::{behind, report::Report};
use crate::cmd::serve;
use crate::failure::Outcome;
use crate::target::Server;
use crate::{store, systemd, upstreams};

/// Looks at it; the server to look at next, if it runs.
pub(super) async fn examine(file: &Path, report: &mut Report) -> Outcome<Option<Server>> {
    let config = match config::load(file) {
        Ok(checked) => {
            let name = file.display();
            let count = checked.config.names().count();
            let tools = if count == 1 { "1 tool".to_owned() } else { format!("{count} tools") };
            match checked.warnings.render(Colour::Never).lines().find(|line| line.starts_with("warning")) {
                None => report.ok("config", format!("{name}: {tools}, no mistakes"))?,
                Some(first) => {
                    report.warn(
                        "config",
                        format!("{name}: {first}"),
                        format!("`longhaul check {name}` shows all"),
                    )?;
                }
            }
            checked.config
        }
        Err(_) if !file.exists() => {
            let found = format!("there is no {} here", file.display());
            report.fail("config", found, "go where it is, name it with --config, or name a server")?;
            return Ok(None);
        }
        Err(_) => {
            let found = format!("{} has mistakes", file.display());
            report.fail("config", found, format!("`longhaul check {}` shows them", file.display()))?;
            return Ok(None);
        }
    };
    look_at_store(&config, report).await?;
    look_at_folders(&config, report)?;
    look_at_system(report)?;
    // What may not be inherited is not known otherwise.
    match upstreams::withholding(config.clone()).await {
        Ok(config) => behind::examine(&config, report).await?,
        Err(failure) => report.failure("servers", &failure)?,
    }
    if let Some(refusal) = serve::exposes_anonymously(&config, false, false) {
        report.warn("address", refusal.line(), refusal.next_step().unwrap_or_default())?;
    }
    look_at_address(&config, report).await
}

async fn look_at_store(config: &Config, report: &mut Report) -> Outcome<()> {
    let path = match &config.store.url {
        StoreUrl::Memory => {
            if let Some(refusal) = serve::has_no_part(config, false) {
                return report.failure("store", &refusal);
            }
            let found = "tasks are kept in memory, and are gone with the server";
            return report.warn("store", found, "keep them in a file: [store] url = \"sqlite:longhaul.db\"");
        }
        StoreUrl::Sqlite(path) => {
            if let Some(problem) = store::no_file(path).or_else(|| unwritable_file(path)) {
                let next =
                    "serve as somebody who may write there, or keep tasks elsewhere: [store] url, or --store";
                return report.fail("store", problem, next);
            }
            if !path.exists() {
                if Sqlite::is_in_use(path) {
                    let found = format!(
                        "{} is not there, and a server has it open: it was removed or moved meanwhile, and nothing is accepted until \
                         it is back",
                        path.display()
                    );
                    return report.fail(
                        "store",
                        found,
                        "move it back, or restart the server to begin a new one",
                    );
                }
                let found = format!("{} will be made when the server starts", path.display());
                return report.ok("store", found);
            }
            Some(path)
        }
        StoreUrl::Postgres(_) | StoreUrl::Redis(_) => None,
    };
    let (opened, survives) = match store::look(&config.store).await {
        Ok(opened) => (opened.tasks, opened.survives),
        Err(failure) => return report.failure("store", &failure),
    };
    let counts = match opened.counts().await {
        Ok(counts) => counts,
        Err(error) => return report.failure("store", &error.into()),
    };
    let (place, size) = match path {
        Some(path) => {
            let size = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            (path.display().to_string(), format!(", about {}", config::format_size(size)))
        }
        None => (config.store.url.to_string(), String::new()),
    };
    let survives = survives.unwrap_or_else(|| opened.durability().to_string());
    let found = format!("{place}: {} open of {} tasks{size}, {survives}", counts.open, counts.retained);
    match opened.durability() {
        Durability::Disk | Durability::Replicated => report.ok("store", found)?,
        _ => report.warn("store", found, "a power cut may take back what was acknowledged")?,
    }
    look_at_sealing(&config.store, report).await?;
    // The store goes by the latest time that it has seen, so that nothing expires twice.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let theirs = Duration::from_millis(u64::try_from(opened.now().unix_ms()).unwrap_or_default());
    let apart = now.abs_diff(theirs);
    if apart > Duration::from_secs(60) {
        let found = format!("the store's is {} s from the system's", apart.as_secs());
        return report.warn("clock", found, "was the clock set back? the store waits until it has caught up");
    }
    report.ok("clock", "the store's agrees with the system's")
}

/// Whether what was written without a key still has to be read. Of a store that nobody has sealed it was said that it cannot be opened.
async fn look_at_sealing(store: &config::Store, report: &mut Report) -> Outcome<()> {
    if !store.sealing.as_ref().is_some_and(|sealing| sealing.reads_plain) {
        return Ok(());
    }
    match store::unsealed(store).await {
        Ok(None) => {
            let found = "all of the store is sealed, and `read_plain` of `[store]` is still there";
            report.warn(
                "sealing",
                found,
                "take `read_plain` out: whoever can write to the store could put anything there",
            )
        }
        Ok(Some(what)) => {
            report.ok("sealing", format!("`read_plain` is still needed: {what}, for one, is not sealed"))
        }
        Err(failure) => report.failure("sealing", &failure),
    }
}

/// The folders, besides that of its store, without which a server does not start.
fn look_at_folders(config: &Config, report: &mut Report) -> Outcome<()> {
    let runs = store::runs_folder(&config.store).map(|path| ("runs", path, "[store] state, or --state"));
    let audit = config.audit.as_ref().map(|audit| ("audit", audit.path.clone(), "[audit] path"));
    for (check, path, said) in runs.into_iter().chain(audit) {
        match unwritable(&path) {
            None => report.ok(check, format!("{} can be written", path.display()))?,
            Some(problem) => {
                let next = format!("serve as somebody who may write there, or name another folder: {said}");
                report.fail(check, problem, next)?;
            }
        }
    }
    Ok(())
}

/// What keeps files from being made in this folder, if anything does. One that is not there is made in the nearest that is.
fn unwritable(folder: &Path) -> Option<String> {
    let there = folder.ancestors().find(|place| place.exists())?;
    if !there.is_dir() {
        return Some(format!("{} is no folder", there.display()));
    }
    refused(there, Access::WRITE_OK | Access::EXEC_OK)
}

/// What keeps a store from being in this file, if anything does: its log and its locks are files beside it.
fn unwritable_file(file: &Path) -> Option<String> {
    let own = if file.exists() { refused(file, Access::READ_OK | Access::WRITE_OK) } else { None };
    own.or_else(|| unwritable(file.parent()?))
}

fn refused(place: &Path, wanted: Access) -> Option<String> {
    let error = access(place, wanted).err()?;
    Some(format!("{} cannot be written: {}", place.display(), std::io::Error::from(error)))
}

/// How many files a server with its default bounds may need.
const FILES: u64 = 4096;

fn look_at_system(report: &mut Report) -> Outcome<()> {
    let most = getrlimit(Resource::Nofile).current;
    match most {
        Some(most) if most < FILES => {
            let found = format!("{most} files may be open: too few for 1024 connections and their commands");
            report.warn(
                "files",
                found,
                format!("raise it to {FILES}: `ulimit -n`, or LimitNOFILE of its unit"),
            )?;
        }
        Some(most) => report.ok("files", format!("{most} may be open"))?,
        None => report.ok("files", "any number may be open")?,
    }
    match systemd::note() {
        Some(note) => report.warn("systemd", note, "else commands do not outlive their server"),
        None => Ok(()),
    }
}

async fn look_at_address(config: &Config, report: &mut Report) -> Outcome<Option<Server>> {
    let address = match &config.http.listen {
        Listen::Address(address) => *address,
        place @ Listen::Socket(path) => {
            if !path.exists() {
                report.ok("address", format!("{place} is free; nothing is served there now"))?;
                return Ok(None);
            }
            return Ok(Some(Server::url(&place.to_string())));
        }
    };
    let mut there = address;
    if there.ip().is_unspecified() {
        there.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    if matches!(tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(there)).await, Ok(Ok(_))) {
        report.ok("address", format!("somebody listens at {address}"))?;
        return Ok(Some(Server::url(&format!("http://{there}/mcp"))));
    }
    match TcpListener::bind(address).await {
        Ok(_) => report.ok("address", format!("{address} is free; nothing is served there now"))?,
        Err(error) => {
            let found = format!("{address} cannot be served at: {error}");
            report.fail("address", found, "choose another: [http] listen, or --http")?;
        }
    }
    Ok(None)
}
