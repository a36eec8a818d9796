//! How the server is set, and what follows from that.

use std::collections::HashMap;

use ::redis::{ServerErrorKind, pipe};

use super::{fault::Fault, link::Link};
use crate::Durability;

/// What the server says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) version: String,
    pub(super) policy: String,
    pub(super) role: String,
    /// Whether what is written goes to a log.
    pub(super) is_logged: bool,
    /// When that is synced, if it may be known.
    pub(super) synced: Option<String>,
}

impl Found {
    /// Whether it is of a version that this store works with.
    pub(super) fn is_new_enough(&self) -> bool {
        self.version
            .split('.')
            .next()
            .and_then(|major| major.parse::<u32>().ok())
            .is_some_and(|major| major >= OLDEST)
    }

    /// Why it may throw away what it keeps, if it does so rather than refuse what it has no memory for.
    pub(super) fn throws_away(&self) -> Option<String> {
        let policy = &self.policy;
        (policy != "noeviction").then(|| {
            format!(
                "its maxmemory-policy is {policy}, by which it may throw tasks away; set it to noeviction"
            )
        })
    }

    /// What an acknowledged write survives, and the settings that say so. It is never the loss of the machine: a replica that
    /// takes over need not have it.
    pub(super) fn durability(&self, replicas: usize) -> (Durability, String) {
        let synced = self.synced.as_deref().unwrap_or("unknown");
        let (level, mut words) = match synced {
            _ if !self.is_logged => (Durability::Volatile, "appendonly = no".to_owned()),
            "always" => (Durability::Disk, "appendfsync = always".to_owned()),
            other => (Durability::Process, format!("appendfsync = {other}")),
        };
        if replicas > 0 {
            words.push_str(&format!(", WAIT {replicas}"));
        }
        (level, words)
    }
}

/// Asks the server. What it may not tell is not known, and nothing is promised for it.
pub(super) async fn look(link: &Link) -> Result<Found, Fault> {
    let doing = "reading the server's settings";
    let mut asked = pipe();
    asked.cmd("INFO");
    let (info,): (String,) = link.ask(doing, &asked).await?;
    let facts: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
    let fact = |name: &str| facts.get(name).map_or_else(String::new, |fact| (*fact).to_owned());
    let mut asked = pipe();
    asked.cmd("CONFIG").arg("GET").arg("appendfsync");
    let synced = match link.ask::<(HashMap<String, String>,)>(doing, &asked).await {
        Ok((mut settings,)) => settings.remove("appendfsync"),
        // Whoever hosts it has taken the command away.
        Err(Fault::Redis { error, .. })
            if error.code().is_some_and(|code| code == "NOPERM" || code == "ERR")
                || error.kind() == ServerErrorKind::NoPerm.into() =>
        {
            None
        }
        Err(fault) => return Err(fault),
    };
    Ok(Found {
        version: fact("redis_version"),
        policy: fact("maxmemory_policy"),
        role: fact("role"),
        is_logged: fact("aof_enabled") == "1",
        synced,
    })
}

/// The oldest major version.
const OLDEST: u32 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    /// N6 of `conformance/REQUIREMENTS.md`.
    #[test]
    fn the_level_is_what_the_settings_say_and_never_more_than_one_disk() {
        let found =
            |is_logged, synced: &str| Found { is_logged, synced: Some(synced.into()), ..Found::default() };
        let level = |found: Found, replicas| found.durability(replicas).0;
        assert_eq!(level(found(true, "always"), 0), Durability::Disk);
        assert_eq!(level(found(true, "always"), 2), Durability::Disk);
        assert_eq!(level(found(true, "everysec"), 2), Durability::Process);
        assert_eq!(level(found(true, "no"), 0), Durability::Process);
        assert_eq!(level(Found { is_logged: true, ..Found::default() }, 0), Durability::Process);
        assert_eq!(level(found(false, "always"), 0), Durability::Volatile);
        assert_eq!(found(true, "always").durability(2).1, "appendfsync = always, WAIT 2");
    }

    #[test]
    fn an_old_server_is_told_from_a_new_one() {
        let is_good = |version: &str| Found { version: version.into(), ..Found::default() }.is_new_enough();
        assert!(is_good("7.0.15") && is_good("7.2.4") && is_good("10.1"));
        assert!(!is_good("6.2.14") && !is_good(""));
    }
}
