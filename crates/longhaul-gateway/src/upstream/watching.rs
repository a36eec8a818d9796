//! Telling of the resources of other servers that callers watch.

use std::time::Duration;

use longhaul::client::{Change, Client};
use longhaul::proto::model::SubscriptionFilter;
use longhaul::server::{Catalogue, OUTPUT_SCHEME, ToWatch};
use tokio::time::sleep;

use super::All;
use super::names::Names;

/// Tells of the resource for as long as this runs, and of a change whenever there may have been one unheard. `None`: this client
/// would hear of none, for nobody has such a resource, its server tells nothing, or the client may not ask that server.
pub(super) fn tell(
    all: &All,
    names: &Names,
    catalogue: &Catalogue,
    what: ToWatch<'_>,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    let teller = match whose(names, &what)? {
        Whose::Own => None,
        Whose::Of(server) => {
            let upstream = all.find(&server)?;
            let needed = upstream.config().defaults.scopes.clone();
            let may_ask = what.grant.is_none_or(|grant| grant.allows(&needed));
            Some((server, needed)).filter(|_| may_ask && upstream.kinds().resource_updates).map(Some)?
        }
    };
    let (uri, all, catalogue) = (what.uri.to_owned(), all.clone(), catalogue.clone());
    Some(async move {
        let Some((server, needed)) = teller else {
            // Whoever writes it tells of it.
            return std::future::pending().await;
        };
        let (mut may_have_changed, mut pause) = (false, PAUSE);
        loop {
            // It may be another by now, and who may ask it may be somebody else.
            let upstream = all.find(&server).filter(|upstream| upstream.config().defaults.scopes == needed);
            if let Some(upstream) = upstream
                && let Ok(client) = upstream.client().await
                && hear(&client, &uri, &catalogue, may_have_changed).await
            {
                (may_have_changed, pause) = (true, PAUSE);
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    })
}

/// Whose a resource is.
enum Whose {
    /// This server's own.
    Own,
    /// The server's of that name.
    Of(String),
}

/// Whose it is, if anybody has said that they have it. No server is asked to tell of what a client only guesses.
fn whose(names: &Names, what: &ToWatch<'_>) -> Option<Whose> {
    match what.offered_as {
        Some(by) => Some(names.server_of(by).map_or(Whose::Own, Whose::Of)),
        None if what.uri.starts_with(OUTPUT_SCHEME) => Some(Whose::Own),
        None => names.finder_of(what.uri).map(Whose::Of),
    }
}

/// Hears of it until that ends; `false` when its server does not tell of it at all.
async fn hear(client: &Client, uri: &str, catalogue: &Catalogue, may_have_changed: bool) -> bool {
    let filter = SubscriptionFilter::default().resource(uri);
    let Ok(mut changes) = client.subscribe(filter).await else { return false };
    if !changes.agreed().resource_subscriptions.iter().any(|agreed| agreed == uri) {
        return false;
    }
    let tell = || catalogue.resource_updated(uri);
    if may_have_changed && tell().is_err() {
        return true;
    }
    while let Ok(Some(change)) = changes.next().await {
        if matches!(change, Change::Resource(_)) && tell().is_err() {
            break;
        }
    }
    true
}

/// Before a server is asked again to tell, and before it is asked again and again.
const PAUSE: Duration = Duration::from_secs(3);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
