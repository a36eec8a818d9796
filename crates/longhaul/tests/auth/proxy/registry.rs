//! What stands in the store: what is over is not kept, and what two nodes do to it at once goes well.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use longhaul::auth::{Protection, Proxy, Resource, Upstream};
use longhaul::server::Scopes;
use longhaul::store::{Entry, EntryKey, Holder, Memory, Registry, StoreFuture, Swap, Value, Version};
use longhaul::transport::http::server::Options;
use tokio::sync::Semaphore;

use crate::rig::{APP, Browser, Front, Host, LocalUpstream, RESOURCE};

#[tokio::test]
async fn what_is_over_is_removed_from_the_store() {
    let upstream = LocalUpstream::start().await;
    let registry: Arc<dyn Registry> = Arc::new(Memory::new());
    let before = Upstream::new(upstream.url(), "longhaul", "s3cret").unwrap();
    let proxy = Proxy::new(before, Arc::clone(&registry)).registration(true).grant(Duration::from_secs(1));
    let protection = Protection::new()
        .resource(Resource::parse(RESOURCE).unwrap())
        .require(Scopes::parse("mcp").unwrap())
        .proxy(proxy);
    // It tidies as often as sessions may lie idle.
    let options = Options::default().session_idle(Duration::from_secs(1)).guard(protection.guard().unwrap());
    let front = Front { host: Host::with(options).await, upstream, registry };
    front.tokens(APP).await;
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    assert_eq!(front.registry.sweep_entries(10).await.unwrap(), 0, "the grant has been removed");
}

#[tokio::test]
async fn a_code_that_is_redeemed_again_before_its_grant_is_written_gives_nothing() {
    let upstream = LocalUpstream::start().await;
    let slow = Arc::new(Slow::default());
    let registry: Arc<dyn Registry> = Arc::<Slow>::clone(&slow);
    let host = Front::host(&upstream, &registry, RESOURCE, |proxy| proxy).await;
    let front = Front { host, upstream, registry };
    let client = front.register("App", APP).await;
    let code = front.code(&mut Browser::default(), &client, APP).await;
    let again = async {
        slow.about_to_grant.acquire().await.unwrap().forget();
        let again = front.redeem(&client, APP, &code, &[]).await;
        slow.may_grant.add_permits(1);
        again
    };
    let (first, again) = tokio::join!(front.redeem(&client, APP, &code, &[]), again);
    for answer in [&first, &again] {
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
        assert_eq!(answer.json()["error"], "invalid_grant");
    }
}

/// A store that writes no grant before it is told to.
#[derive(Debug)]
struct Slow {
    memory: Memory,
    about_to_grant: Semaphore,
    may_grant: Semaphore,
}

impl Default for Slow {
    fn default() -> Self {
        Self { memory: Memory::new(), about_to_grant: Semaphore::new(0), may_grant: Semaphore::new(0) }
    }
}

impl Registry for Slow {
    fn entry<'a>(&'a self, key: EntryKey<'a>) -> StoreFuture<'a, Option<Entry>> {
        self.memory.entry(key)
    }

    fn put<'a>(&'a self, key: EntryKey<'a>, value: Value<'a>) -> StoreFuture<'a, Entry> {
        Registry::put(&self.memory, key, value)
    }

    fn compare_and_set<'a>(
        &'a self,
        key: EntryKey<'a>,
        expected: Option<Version>,
        value: Option<Value<'a>>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            if key.kind == "auth-grant" && expected.is_none() && value.is_some() {
                self.about_to_grant.add_permits(1);
                self.may_grant.acquire().await.unwrap().forget();
            }
            self.memory.compare_and_set(key, expected, value).await
        })
    }

    fn names<'a>(
        &'a self,
        holder: Holder<'a>,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> StoreFuture<'a, Vec<String>> {
        self.memory.names(holder, kind, after, limit)
    }

    fn sweep_entries(&self, limit: usize) -> StoreFuture<'_, usize> {
        self.memory.sweep_entries(limit)
    }
}
