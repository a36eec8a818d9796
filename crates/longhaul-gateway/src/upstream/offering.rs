//! What a server has, listed and listed again, and the catalogue kept like it.

use std::sync::Arc;
use std::time::Duration;

use longhaul::client::{Change, Client, Error};
use longhaul::proto::model::{self, SubscriptionFilter};
use longhaul::server::{Catalogue, ChangeError, Prompt, Resource, ResourceTemplate, Tool};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::{Reached, Upstream};
use super::kept::{Kept, Renewed};
use super::known::{Lists, Nature, Shelf};
use super::names::Names;
use super::pins::{self, Pinned};
use super::seen::{Away, Seen};
use crate::causes::in_words;
use crate::config::{UpstreamServer, UpstreamStart, format_duration};

/// Serves what a server has on, for as long as the runtime lives: listed as soon as it can be reached, and again whenever
/// it says that it is something else, or was connected to again. Those `before` it in the file are given a moment to be first
/// where two want one name. Which server that is comes by `orders`: none, and what it had is offered no longer. One that is started by
/// its first call is listed then; before, what the `shelf` has of it is offered.
pub(super) async fn keep_offered(
    mut orders: watch::Receiver<Option<Arc<Upstream>>>,
    catalogue: Catalogue,
    names: Arc<Names>,
    shelf: Option<Shelf>,
    before: Vec<watch::Receiver<Seen>>,
) {
    let Some(first) = orders.borrow_and_update().clone() else { return };
    let mut offered = Offered::new(first, catalogue, names, shelf);
    let (mut before, mut serves) = (Some(before), true);
    loop {
        let (stale_until, upstream) = (offered.stale_until, Arc::clone(&offered.upstream));
        let pinned = Arc::clone(&offered.pinned);
        tokio::select! {
            biased;
            Ok(()) = orders.changed() => {
                let order = orders.borrow_and_update().clone();
                serves = order.is_some();
                match order {
                    Some(upstream) => offered.succeed(upstream),
                    None => offered.withdraw(),
                }
            }
            () = at(stale_until) => offered.drop_stale(),
            // What is served next goes by what it says now.
            () = rewritten(upstream.config(), &pinned), if serves => {}
            () = offered.serve(&mut before), if serves => {}
            else => return,
        }
    }
}

/// Lets those before one in the file be first, once.
async fn wait_for_turn(before: &mut Option<Vec<watch::Receiver<Seen>>>) {
    let Some(before) = before.take() else { return };
    let all = async {
        for mut other in before {
            // One that is gone is not waited for.
            let _ = other.wait_for(|seen| !matches!(seen, Seen::Nothing)).await;
        }
    };
    // Who takes longer has later names.
    let _ = timeout(TURN, all).await;
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

async fn rewritten(server: &UpstreamServer, pinned: &Pinned) {
    match &server.pins {
        Some(pins) => pins::rewritten(pins, &server.name, pinned).await,
        None => std::future::pending().await,
    }
}

/// Between two tries to reach a server that nobody calls, or to hear of its changes again; it doubles with each that fails.
const PAUSE: Duration = Duration::from_secs(3);

/// How long it becomes.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long to wait after so many failures in a row.
fn pause_after(failures: u32) -> Duration {
    PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(LONGEST_PAUSE)
}

/// How long a server waits for those before it in the file, so that names do not depend on who starts faster.
const TURN: Duration = Duration::from_secs(3);

/// How long what a server had is offered while the one in its place has not said what it has.
const STALE: Duration = Duration::from_secs(5);

/// How long a server that tells of a change is let tell of more before it is heard again.
const SETTLE: Duration = Duration::from_secs(1);

/// How many notes are kept of one list.
const MOST_NOTES: usize = 20;

/// Why what a server has is not known.
enum Unlisted {
    Failed(Error),
    /// It has not said so within its `start_within`.
    Late(Duration),
}

impl From<Error> for Unlisted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Unlisted {
    fn why(&self) -> String {
        match self {
            Self::Failed(error) => in_words(error),
            Self::Late(within) => {
                format!("it has not said within {} what it has", format_duration(*within))
            }
        }
    }

    fn is_timeout(&self) -> bool {
        match self {
            Self::Failed(error) => error.is_timeout(),
            Self::Late(_) => true,
        }
    }
}

/// What was heard of the changes of a server, which is heard no more.
enum Heard {
    Changes,
    /// It tells of none.
    Nothing,
    /// It is left alone until it is needed: what it has is known.
    Enough,
}

/// A list of a server's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Listed {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Listed {
    const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];
}

/// What one server has as it is offered.
pub(super) struct Offered {
    pub(super) upstream: Arc<Upstream>,
    pub(super) catalogue: Catalogue,
    pub(super) names: Arc<Names>,
    pub(super) tools: Kept<model::Tool>,
    pub(super) prompts: Kept<model::Prompt>,
    pub(super) resources: Kept<model::Resource>,
    pub(super) templates: Kept<model::ResourceTemplate>,
    /// What its file of pins said when its tools were compared with that.
    pub(super) pinned: Arc<Pinned>,
    /// What it says of itself, once it has.
    pub(super) nature: Option<Nature>,
    /// The connection over which it is listed.
    pub(super) over: u64,
    /// What it listed last, where it is to be offered without it being there.
    pub(super) listed: Lists,
    /// Which of its lists that has: once it has all, it is known what the server has.
    came: [bool; Listed::ALL.len()],
    /// Where that outlives this process.
    shelf: Option<Shelf>,
    /// By what is known what was put there last.
    kept: Option<String>,
    /// When what one before it had is offered no longer.
    stale_until: Option<Instant>,
    /// What is to be known of each list.
    notes: [Vec<String>; Listed::ALL.len()],
    /// How often in a row it was reached and has not said what it has, at once or when it was asked once more.
    failures: u32,
}

impl Offered {
    fn new(upstream: Arc<Upstream>, catalogue: Catalogue, names: Arc<Names>, shelf: Option<Shelf>) -> Self {
        Self {
            upstream,
            catalogue,
            names,
            tools: Kept::default(),
            prompts: Kept::default(),
            resources: Kept::default(),
            templates: Kept::default(),
            pinned: Arc::default(),
            nature: None,
            over: 0,
            listed: Lists::default(),
            came: Default::default(),
            shelf,
            kept: None,
            stale_until: None,
            notes: Default::default(),
            failures: 0,
        }
    }

    /// Reaches the server, lists what it has and follows that, until it is to be reached again.
    async fn serve(&mut self, before: &mut Option<Vec<watch::Receiver<Seen>>>) {
        let openings = self.upstream.openings();
        if self.rests().await {
            wait_for_turn(before).await;
            self.offer_known().await;
            self.upstream.opened_after(openings).await;
            return;
        }
        let reached = match self.upstream.reach().await {
            Ok(reached) => reached,
            Err(error) => {
                self.failed(error.for_operator());
                let upstream = Arc::clone(&self.upstream);
                tokio::select! {
                    _ = upstream.opened_after(openings) => {}
                    () = sleep(PAUSE) => {}
                }
                return;
            }
        };
        wait_for_turn(before).await;
        let client = &reached.client;
        self.over = reached.number;
        match self.follow(client).await {
            Ok(Heard::Enough) => {}
            Ok(heard) => {
                if matches!(heard, Heard::Nothing) {
                    self.wait_for_doubt(&reached).await;
                }
                if client.has_ended() {
                    self.upstream.miss_ended();
                    // It is started again by the next call, if there is one, or has been by now.
                    self.upstream.opened_after(reached.number).await;
                } else {
                    // There may have been changes since.
                    sleep(PAUSE).await;
                }
            }
            Err(unlisted) => {
                let why = unlisted.why();
                // Once: it is asked again, if less and less often.
                if self.failures == 0 {
                    tracing::warn!(
                        server = self.upstream.config().name,
                        why,
                        "what a server has is not known"
                    );
                }
                self.failures += 1;
                self.failed(why.into());
                if unlisted.is_timeout() {
                    self.upstream.is_over(&reached, false).await;
                }
                let upstream = Arc::clone(&self.upstream);
                tokio::select! {
                    _ = upstream.opened_after(reached.number) => {}
                    () = sleep(pause_after(self.failures)) => {}
                }
            }
        }
    }

    /// Whether it is left alone until something needs it: it is to be, nobody has a connection, and what it has is known.
    async fn rests(&mut self) -> bool {
        if !self.is_for_a_call() || self.upstream.is_open().await {
            return false;
        }
        if !self.is_known()
            && let Some(shelf) = &self.shelf
            && let Some((nature, lists)) = shelf.recall(self.upstream.config()).await
        {
            (self.nature, self.listed, self.came) = (Some(nature), lists, [true; Listed::ALL.len()]);
        }
        self.is_known()
    }

    /// Whether all that it has is known, where that is to be offered without it being there.
    fn is_known(&self) -> bool {
        self.is_for_a_call() && self.came == [true; Listed::ALL.len()]
    }

    /// Whether it is to be started by what needs it first.
    pub(super) fn is_for_a_call(&self) -> bool {
        self.upstream.config().start == UpstreamStart::FirstCall
    }

    /// Offers what it had when it was last connected.
    async fn offer_known(&mut self) {
        let Some(nature) = self.nature else { return };
        let Lists { tools, prompts, resources, templates } = self.listed.clone();
        self.upstream.be(nature.kinds);
        self.offer_tools(tools, Vec::new()).await;
        self.offer_prompts(prompts);
        self.offer_resources(resources);
        self.offer_templates(templates);
        self.drop_stale();
        self.tell(nature, Some(self.upstream.rests()));
    }

    /// Waits until a server that tells of nothing may have been away, has ended, or is connected to anew.
    async fn wait_for_doubt(&self, reached: &Reached) {
        while !reached.client.has_ended() {
            tokio::select! {
                () = self.upstream.doubted.notified() => return,
                _ = self.upstream.opened_after(reached.number) => return,
                () = sleep(PAUSE) => {}
            }
        }
    }

    /// Another server is in its place: what it has is offered in place of what this one had, which goes if it says nothing.
    fn succeed(&mut self, upstream: Arc<Upstream>) {
        self.upstream = upstream;
        self.notes = Default::default();
        self.pinned = Arc::default();
        (self.nature, self.listed, self.came) = (None, Lists::default(), Default::default());
        (self.over, self.failures) = (0, 0);
        self.be_stale();
        self.stale_until = Some(Instant::now() + STALE);
    }

    /// Offers nothing any more.
    fn withdraw(&mut self) {
        self.be_stale();
        self.drop_stale();
    }

    fn be_stale(&mut self) {
        self.tools.be_stale();
        self.prompts.be_stale();
        self.resources.be_stale();
        self.templates.be_stale();
    }

    /// Offers no longer what one before this server had.
    fn drop_stale(&mut self) {
        self.stale_until = None;
        let dropped = [
            self.tools.drop_stale::<Tool>(&self.catalogue),
            self.prompts.drop_stale::<Prompt>(&self.catalogue),
            self.resources.drop_stale::<Resource>(&self.catalogue),
            self.templates.drop_stale::<ResourceTemplate>(&self.catalogue),
        ];
        if let Some(error) = dropped.into_iter().find_map(Result::err) {
            tracing::debug!(%error, "what a server had is offered to nobody any more");
        }
    }

    fn failed(&mut self, why: Arc<str>) {
        if self.stale_until.is_some() {
            self.drop_stale();
        }
        self.upstream.miss(why);
    }

    /// Lists what there is now and whenever it changes, until the connection has ended.
    async fn follow(&mut self, client: &Client) -> Result<Heard, Unlisted> {
        let was_known = self.is_known();
        self.renew_in_time(client, &Listed::ALL).await?;
        self.drop_stale();
        // While something of it is not known it is not left alone.
        if !was_known && self.is_known() && self.upstream.close_if_unused().await {
            self.failures = 0;
            return Ok(Heard::Enough);
        }
        let filter = SubscriptionFilter::default().lists();
        let Ok(mut changes) = client.subscribe(filter).await else {
            // It tells of nothing. That it ends is found out by whoever calls it.
            self.failures = 0;
            return Ok(Heard::Nothing);
        };
        // It may have changed before it was asked to tell.
        self.renew_in_time(client, &Listed::ALL).await?;
        self.failures = 0;
        loop {
            let lists: &[Listed] = match changes.next().await {
                Ok(Some(Change::Tools)) => &[Listed::Tools],
                Ok(Some(Change::Prompts)) => &[Listed::Prompts],
                Ok(Some(Change::Resources)) => &[Listed::Resources, Listed::Templates],
                Ok(Some(_)) => &[],
                Ok(None) | Err(_) => return Ok(Heard::Changes),
            };
            self.renew_in_time(client, lists).await?;
            // What it tells meanwhile is told once. One that forgets each session at once would be listed without a pause.
            sleep(SETTLE).await;
        }
    }

    /// Lists these anew, within the time that a server has for that.
    async fn renew_in_time(&mut self, client: &Client, lists: &[Listed]) -> Result<(), Unlisted> {
        let within = self.upstream.config().start_within;
        let listed = timeout(within, self.renew(client, lists)).await;
        listed.map_err(|_| Unlisted::Late(within))??;
        // What could not be listed may be there: it is not kept for having been left out.
        if self.is_known()
            && let (Some(shelf), Some(nature)) = (&self.shelf, &self.nature)
        {
            shelf.keep(self.upstream.config(), nature, &self.listed, &mut self.kept).await;
        }
        Ok(())
    }

    /// Lists these anew. A list that its server does not give stays as it was, but for that of the tools without which there is
    /// little to offer.
    async fn renew(&mut self, client: &Client, lists: &[Listed]) -> Result<(), Error> {
        let nature = Nature::of(client, self.upstream.config().resources);
        if self.nature.replace(nature).is_some_and(|before| before != nature) {
            // What becomes of calls goes by that.
            self.tools.be_stale();
        }
        self.upstream.be(nature.kinds);
        for list in lists {
            let renewed = match list {
                Listed::Tools => self.renew_tools(client).await,
                Listed::Prompts => self.renew_prompts(client).await,
                Listed::Resources => self.renew_resources(client).await,
                Listed::Templates => self.renew_templates(client).await,
            };
            match renewed {
                Ok(()) => self.came[*list as usize] = true,
                Err(error) if *list == Listed::Tools || client.has_ended() => return Err(error),
                Err(error) => {
                    let why = format!("its {list:?} cannot be listed: {}", in_words(&error)).to_lowercase();
                    self.notes[*list as usize] = vec![why];
                }
            }
        }
        self.tell(nature, None);
        Ok(())
    }

    /// Tells whoever looks what is offered; why, if it is not connected.
    fn tell(&self, nature: Nature, away: Option<Away>) {
        for note in self.notes.iter().flatten() {
            tracing::debug!(server = self.upstream.config().name, note, "of what a server has");
        }
        self.upstream.seen.send_replace(Seen::Listed {
            tools: self.tools.keys().cloned().collect(),
            prompts: self.prompts.len(),
            resources: self.resources.len(),
            templates: self.templates.len(),
            revision: nature.revision.as_str(),
            notes: self.notes.iter().flatten().cloned().collect(),
            away,
        });
    }

    /// Notes what is to be known of a list, and gives what has changed in it.
    pub(super) fn note(
        &mut self,
        list: Listed,
        mut notes: Vec<String>,
        renewed: Result<Renewed, ChangeError>,
    ) -> Vec<String> {
        let changed = match renewed {
            Ok(Renewed { changed, refused, repeated }) => {
                let why =
                    |(key, why): (String, String)| format!("`{}` is not served: {why}", key.escape_debug());
                notes.extend(refused.into_iter().map(why));
                let twice = |key: String| {
                    format!(
                        "`{}` is listed more than once, and served as it is listed first",
                        key.escape_debug()
                    )
                };
                notes.extend(repeated.into_iter().map(twice));
                changed
            }
            Err(error) => {
                tracing::debug!(%error, "what a server has is offered to nobody any more");
                Vec::new()
            }
        };
        if notes.len() > MOST_NOTES {
            let more = notes.len() - MOST_NOTES;
            notes.truncate(MOST_NOTES);
            notes.push(format!("and {more} more of the kind"));
        }
        self.notes[list as usize] = notes;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<u64> = (0..8).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [3, 3, 6, 12, 24, 48, 60, 60]);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }
}
