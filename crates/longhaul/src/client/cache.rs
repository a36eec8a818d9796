//! Answers that may be used again: for as long as their server says, until it says that they have changed.
//!
//! (2026-07-28, Utilities, Caching.) Everything here is of one client, so of one authorization, whatever `cacheScope` says.

use std::collections::HashMap;
use std::time::Duration;

use longhaul_proto::method::{Method, Notice};
use serde::Deserialize;
use tokio::time::Instant;

/// The answers of one server.
#[derive(Debug)]
pub(super) struct Cache {
    answers: HashMap<(Method, String), Answer>,
    bytes: usize,
    /// How many answers are kept at most, and how many bytes of them. One that does not fit is not kept.
    most: (usize, usize),
    /// How often the server has said that something changed.
    changes: u64,
}

#[derive(Debug)]
struct Answer {
    result: String,
    until: Instant,
}

/// What was known when a request was made: what changed meanwhile is not in its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked(u64);

/// For how long an answer is kept at most, whatever its server says.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

impl Cache {
    /// Keeps as many answers, and as many bytes of them.
    pub(super) fn new(max_answers: usize, max_bytes: usize) -> Self {
        Self { answers: HashMap::new(), bytes: 0, most: (max_answers, max_bytes), changes: 0 }
    }

    /// The answer to a request of that method about `what`, if it may still be used.
    pub(super) fn find(&self, method: Method, what: &str, now: Instant) -> Result<String, Asked> {
        match self.answers.get(&(method, what.to_owned())) {
            Some(answer) if now < answer.until => Ok(answer.result.clone()),
            _ => Err(Asked(self.changes)),
        }
    }

    /// Keeps an answer for as long as it says, unless something has changed since it was `asked` for.
    pub(super) fn keep(&mut self, method: Method, what: &str, result: &str, asked: Asked, now: Instant) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hint {
            #[serde(default)]
            ttl_ms: Option<f64>,
        }
        let hint = serde_json::from_str::<Hint>(result).ok().and_then(|hint| hint.ttl_ms);
        let ttl = hint.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()).unwrap_or_default();
        if ttl.is_zero() || asked.0 != self.changes {
            return;
        }
        self.answers.retain(|_, answer| now < answer.until);
        self.bytes = self.answers.values().map(|answer| answer.result.len()).sum();
        let (max_answers, max_bytes) = self.most;
        if self.answers.len() >= max_answers || self.bytes + result.len() > max_bytes {
            return;
        }
        self.bytes += result.len();
        let answer = Answer { result: result.to_owned(), until: now + ttl.min(LONGEST_TTL) };
        self.answers.insert((method, what.to_owned()), answer);
    }

    /// Drops what a notification says has changed; `uri` is the resource it is about.
    pub(super) fn handle(&mut self, notice: Notice, uri: Option<&str>) {
        match notice {
            Notice::ToolsChanged => self.forget(&[Method::ListTools]),
            Notice::PromptsChanged => self.forget(&[Method::ListPrompts]),
            Notice::ResourcesChanged => self.forget(&[Method::ListResources, Method::ListResourceTemplates]),
            Notice::ResourceUpdated => {
                self.changes += 1;
                // What changed may be a part of what was read.
                let is_of = |read: &str| uri.is_none_or(|uri| uri.starts_with(read));
                self.answers.retain(|(method, what), _| *method != Method::ReadResource || !is_of(what));
            }
            _ => {}
        }
    }

    /// Drops every answer to requests of these methods.
    pub(super) fn forget(&mut self, methods: &[Method]) {
        self.changes += 1;
        self.answers.retain(|(method, _), _| !methods.contains(method));
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::super::table::Table;
    use super::*;

    const MAX_ANSWERS: usize = 8;
    const MAX_BYTES: usize = 1 << 20;
    const LISTED: &str = r#"{"tools":[],"ttlMs":1000}"#;

    fn ask(cache: &Cache, method: Method, what: &str, now: Instant) -> Asked {
        cache.find(method, what, now).unwrap_err()
    }

    #[test]
    fn an_answer_is_used_for_as_long_as_it_says() {
        let (mut cache, now) = (Cache::new(MAX_ANSWERS, MAX_BYTES), Instant::now());
        let asked = ask(&cache, Method::ListTools, "", now);
        cache.keep(Method::ListTools, "", LISTED, asked, now);
        assert_eq!(cache.find(Method::ListTools, "", now).unwrap(), LISTED);
        assert!(
            cache.find(Method::ListTools, "2", now).is_err()
                && cache.find(Method::ListPrompts, "", now).is_err()
        );
        assert!(cache.find(Method::ListTools, "", now + Duration::from_secs(1)).is_err());
        for unhinted in [r#"{"tools":[]}"#, r#"{"ttlMs":0}"#, r#"{"ttlMs":-5}"#] {
            cache.keep(Method::ListTools, "3", unhinted, asked, now);
            assert!(cache.find(Method::ListTools, "3", now).is_err(), "{unhinted}");
        }
    }

    #[test]
    fn what_has_changed_is_asked_for_again() {
        let (mut cache, now) = (Cache::new(MAX_ANSWERS, MAX_BYTES), Instant::now());
        let asked = ask(&cache, Method::ListTools, "", now);
        for (method, what) in
            [(Method::ListTools, ""), (Method::ReadResource, "a:x"), (Method::ReadResource, "a:y")]
        {
            cache.keep(method, what, LISTED, asked, now);
        }
        cache.handle(Notice::ResourceUpdated, Some("a:x/1"));
        assert!(cache.find(Method::ReadResource, "a:x", now).is_err());
        assert!(cache.find(Method::ReadResource, "a:y", now).is_ok());
        cache.handle(Notice::ToolsChanged, None);
        assert!(cache.find(Method::ListTools, "", now).is_err());
        // It was asked for before the change: nobody knows whether it has it.
        cache.keep(Method::ListTools, "", LISTED, asked, now);
        assert!(cache.find(Method::ListTools, "", now).is_err());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut cache, now) = (Cache::new(MAX_ANSWERS, MAX_BYTES), Instant::now());
        let asked = ask(&cache, Method::ListTools, "", now);
        for n in 0..2 * MAX_ANSWERS {
            cache.keep(Method::ReadResource, &n.to_string(), LISTED, asked, now);
        }
        assert_eq!(cache.answers.len(), MAX_ANSWERS);
        let later = now + Duration::from_secs(2);
        let large = format!(r#"{{"ttlMs":1000,"text":"{}"}}"#, "x".repeat(MAX_BYTES / 2));
        for n in 0..3 {
            cache.keep(Method::ReadResource, &n.to_string(), &large, asked, later);
        }
        assert_eq!(cache.answers.len(), 1, "what has run out makes room");
    }

    #[tokio::test]
    async fn a_client_keeps_as_many_as_its_options_say() {
        for most in [0, 1] {
            let table = Table::new(Options::default().max_cached(most, 1 << 10));
            let (mut cache, now) = (table.cache(), Instant::now());
            let asked = ask(&cache, Method::ListTools, "", now);
            cache.keep(Method::ListTools, "", LISTED, asked, now);
            assert_eq!(cache.answers.len(), most);
        }
    }
}
