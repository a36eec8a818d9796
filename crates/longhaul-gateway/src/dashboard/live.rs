//! Pages that follow what happens: a stream of events, each a piece of a page that is new, or lines of output.
//!
//! Whoever connects is sent all that the page shows, and from then on what is another. So nothing is kept for those who
//! were away, and any node can go on where another was. Output begins where the page ends, which it says.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use longhaul::store::Record;
use maud::Markup;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::SendTimeoutError};
use tokio::time::sleep;

use super::colour::Painter;
use super::facts::{self, Known};
use super::paces::Paces;
use super::respond::{self, Answer};
use super::route::{Asked, Look};
use super::tasks::{self, Wanted};
use super::{Facts, frame, question, result, task, timeline};
use crate::admin::{Admin, AdminError, Ends, From, PAGE, PARTS, Pace, State, Stretch, Viewer, state_of};
use crate::command::{Processes, Stream};

/// How often a list is looked at.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// How often the output of an open task is looked at.
const OUTPUT_EVERY: Duration = Duration::from_millis(250);

/// How often something is said, so that nobody takes the silence for an end.
const BEAT: Duration = Duration::from_secs(15);

/// How long a reader may leave what it was sent.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one stream lasts: whoever is not let in any more hears nothing after that.
const LONGEST: Duration = Duration::from_secs(10 * 60);

pub(super) async fn follow(look: Look<'_>, asked: &Asked<'_>) -> Result<Answer, AdminError> {
    // Who comes back for what is new takes no place from those that stay.
    let once = asked.says("once").is_some();
    let place = (!once).then(|| look.inner.followers.place(look.viewer.owner()));
    if let Some(None) = place {
        return Ok(respond::sentence(
            StatusCode::SERVICE_UNAVAILABLE,
            "as many pages follow as may: come back later",
        ));
    }
    let (sender, pieces) = mpsc::channel(16);
    let (admin, viewer) = (look.inner.admin.clone(), look.viewer.clone());
    let told = Told { sender, last: HashMap::new(), rows: BTreeSet::new(), silent: Duration::ZERO, once };
    let draining = look.inner.admin.engine().clone();
    match asked.says("view").as_deref() {
        Some("tasks") => {
            let wanted = Wanted::of(asked);
            wanted.find()?;
            let rows =
                asked.all("row").into_iter().filter_map(|row| tasks::id_of_row(&row).map(str::to_owned));
            let told = Told { rows: rows.take(PAGE).collect(), ..told };
            let paces = Arc::clone(&look.inner.paces);
            tokio::spawn(async move {
                let _place = place;
                tokio::select! {
                    () = follow_list(admin, viewer, wanted, told, &paces) => {}
                    () = draining.draining() => {}
                    () = sleep(LONGEST) => {}
                }
            });
        }
        Some("task") => {
            let record = admin.task(&viewer, &asked.says("id").unwrap_or_default()).await?;
            let mut offsets = HashMap::new();
            for stream in admin.streams(&record).await {
                offsets.insert(
                    stream,
                    (asked.says(stream).and_then(|next| next.parse().ok()).unwrap_or(0), Painter::default()),
                );
            }
            let followed = Followed { admin, viewer, server: look.inner.facts() };
            tokio::spawn(async move {
                let _place = place;
                tokio::select! {
                    () = follow_task(followed, record, offsets, told) => {}
                    () = draining.draining() => {}
                    () = sleep(LONGEST) => {}
                }
            });
        }
        _ => return Err(AdminError::Unreadable("`view` is tasks or task".to_owned())),
    }
    Ok(respond::events(pieces))
}

/// What one page was told.
struct Told {
    sender: mpsc::Sender<Bytes>,
    /// Its pieces as they were sent last, by their ids.
    last: HashMap<String, u64>,
    /// The tasks that it has rows of, as long as those may change: no more than a list has, and than it names.
    rows: BTreeSet<String>,
    silent: Duration,
    /// It is told what there is now, and comes back for more.
    once: bool,
}

/// The reader is gone.
struct Gone;

impl Told {
    async fn send(&mut self, text: String) -> Result<(), Gone> {
        self.silent = Duration::ZERO;
        match self.sender.send_timeout(text.into(), PATIENCE).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(_) | SendTimeoutError::Closed(_)) => Err(Gone),
        }
    }

    /// An event.
    async fn event(&mut self, name: &str, data: &Value) -> Result<(), Gone> {
        self.send(format!("event: {name}\ndata: {data}\n\n")).await
    }

    /// A piece of the page, unless it is as it was.
    async fn piece(&mut self, id: &str, html: &Markup) -> Result<(), Gone> {
        if self.is_new(id, html) {
            self.event("swap", &json!({ "id": id, "html": html.0 })).await
        } else {
            Ok(())
        }
    }

    fn is_new(&mut self, id: &str, html: &Markup) -> bool {
        let digest = digest(&html.0);
        self.last.insert(id.to_owned(), digest) != Some(digest)
    }

    /// A row of the list, unless it is as it was; with what tells whether one that the page does not have is news.
    async fn row(&mut self, admin: &Admin, viewer: &Viewer, record: &Record) -> Result<(), Gone> {
        let now = admin.now();
        let (id, html) =
            (tasks::row_id(record.id.as_str()), tasks::row(record, &admin.why(viewer, record, now), now));
        if !self.is_new(&id, &html) {
            return Ok(());
        }
        let asks = state_of(record) == State::Input;
        let data = json!({ "id": id, "html": html.0, "created": record.created_at.unix_ms(), "asks": asks });
        self.event("swap", &data).await
    }

    /// Waits, and says that it does if that has been long enough.
    async fn wait(&mut self, pause: Duration) -> Result<(), Gone> {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.sender.closed() => return Err(Gone),
        }
        self.silent += pause;
        if self.silent < BEAT { Ok(()) } else { self.send(":\n\n".to_owned()).await }
    }
}

/// Of what a piece says, but for the words of its times, which change by themselves.
fn digest(html: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let mut rest = html;
    while let Some((before, time)) = rest.split_once("<time ") {
        before.hash(&mut hasher);
        let (tag, after) = time.split_once('>').unwrap_or((time, ""));
        tag.hash(&mut hasher);
        rest = after.split_once("</time>").map_or("", |(_, after)| after);
    }
    rest.hash(&mut hasher);
    hasher.finish()
}

async fn follow_list(admin: Admin, viewer: Viewer, wanted: Wanted, mut told: Told, paces: &Paces) {
    if !told.once {
        let _gone = list(&admin, &viewer, &wanted, &mut told, &mut Pace::default()).await;
        return;
    }
    let query = wanted.own_query();
    let mut pace = paces.take(&viewer, &query);
    let _gone = list(&admin, &viewer, &wanted, &mut told, &mut pace).await;
    paces.keep(&viewer, &query, pace);
}

async fn list(
    admin: &Admin,
    viewer: &Viewer,
    wanted: &Wanted,
    told: &mut Told,
    pace: &mut Pace,
) -> Result<(), Gone> {
    told.send("retry: 1000\n\n".to_owned()).await?;
    let mut is_first = true;
    loop {
        match wanted.list_again(admin, viewer, pace).await {
            Ok(listing) => {
                told.piece("counts", &tasks::counts(wanted, &listing)).await?;
                let shown = || listing.asking.iter().chain(&listing.tasks);
                for record in shown() {
                    told.row(admin, viewer, record).await?;
                }
                let listed: BTreeSet<&str> = shown().map(|record| record.id.as_str()).collect();
                // Those that come later wait for who loads the page anew.
                if is_first {
                    told.rows.extend(listed.iter().map(|id| (*id).to_owned()));
                }
                others(admin, viewer, &listed, told).await?;
                if is_first {
                    told.event("listed", &json!({})).await?;
                }
                is_first = false;
            }
            Err(error) => tracing::debug!(?error, "a page cannot follow the list for now"),
        }
        if told.once {
            return told.event("later", &json!({ "more": false })).await;
        }
        told.wait(LIST_EVERY).await?;
    }
}

/// Tells of the rows that the page has and the list has not any more: their tasks have moved on, or are too old for it.
async fn others(
    admin: &Admin,
    viewer: &Viewer,
    listed: &BTreeSet<&str>,
    told: &mut Told,
) -> Result<(), Gone> {
    let left: Vec<String> = told.rows.iter().filter(|id| !listed.contains(id.as_str())).cloned().collect();
    for id in left {
        match admin.task_again(viewer, &id).await {
            Ok(record) => {
                told.row(admin, viewer, &record).await?;
                // How it ended stays so.
                if record.is_terminal() {
                    told.rows.remove(&id);
                }
            }
            Err(AdminError::NoTask) => {
                told.rows.remove(&id);
                told.event("left", &json!({ "id": tasks::row_id(&id) })).await?;
            }
            Err(error) => tracing::debug!(?error, "a page cannot follow a task for now"),
        }
    }
    Ok(())
}

/// What a page follows a task with.
struct Followed {
    admin: Admin,
    viewer: Viewer,
    server: Arc<Facts>,
}

/// Where each stream was left, and who paints it from there.
type Offsets = HashMap<&'static str, (u64, Painter)>;

async fn follow_task(followed: Followed, record: Record, offsets: Offsets, mut told: Told) {
    let _gone = one(&followed, record, offsets, &mut told).await;
}

async fn one(followed: &Followed, record: Record, mut offsets: Offsets, told: &mut Told) -> Result<(), Gone> {
    let Followed { admin, viewer, .. } = followed;
    told.send("retry: 1000\n\n".to_owned()).await?;
    let (mut record, mut done) = (record, false);
    // There may be thousands: they are read again only when there are others.
    let (mut steps, mut steps_of) = (None, None);
    loop {
        // Read before its output: what an ended task has written is there.
        let ended = record.is_terminal();
        let gave = give(followed, &record, &mut offsets, told).await?;
        let waits = (record.questions.len(), record.children.ended);
        let are = Some((record.epoch, record.steps, record.step_bytes, record.owed, waits, ended));
        if are != steps_of || steps.is_none() {
            (steps, steps_of) = (timeline::steps(admin, viewer, &record).await, are);
        }
        // Asked for each time: once their supervisor is gone, their numbers may be given to others.
        let is_command = offsets.contains_key(Stream::Stdout.name());
        let processes = if is_command { admin.processes(viewer, &record).await } else { None };
        show(followed, &record, steps.as_ref(), processes, told).await?;
        if ended && !gave && !done {
            // A page that has all of it needs nobody to follow.
            done = true;
            told.event("end", &json!({ "status": state_of(&record).word() })).await?;
        }
        if told.once {
            return told.event("later", &json!({ "more": gave })).await;
        }
        let mut watch = admin.store().watch(&record.id);
        if !gave {
            tokio::select! {
                waited = told.wait(if ended { BEAT } else { OUTPUT_EVERY }) => waited?,
                () = watch.changed() => {}
            }
        }
        match admin.task_again(viewer, record.id.as_str()).await {
            Ok(found) => record = found,
            Err(AdminError::NoTask) => {
                return told.event("gone", &json!({})).await;
            }
            Err(error) => tracing::debug!(?error, "a page cannot follow its task for now"),
        }
    }
}

/// What is new of the output; whether anything is.
async fn give(
    followed: &Followed,
    record: &Record,
    offsets: &mut Offsets,
    told: &mut Told,
) -> Result<bool, Gone> {
    let Followed { admin, viewer, .. } = followed;
    // A command that waited for its place had no streams.
    for stream in admin.streams(record).await {
        offsets.entry(stream).or_default();
    }
    let mut gave = false;
    for (stream, (next, painter)) in offsets.iter_mut() {
        match admin.output(viewer, record, stream, From::After(*next)).await {
            Ok(Some(stretch)) if stretch.next > *next => {
                let from = std::mem::replace(next, stretch.next);
                let (html, next) = painted(painter, &stretch, told.once);
                let data = json!({
                    "stream": stream, "from": from, "next": next, "missing": stretch.missing, "html": html,
                });
                told.event("append", &data).await?;
                gave |= next > from;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(?error, "a page cannot follow the output for now"),
        }
    }
    Ok(gave)
}

/// A stretch as a page has it, and from where on it is given more.
fn painted(painter: &mut Painter, stretch: &Stretch, once: bool) -> (String, u64) {
    let html = painter.paint(&stretch.written).into_string();
    // Who comes back is given a colour that it is cut in once more, for nobody keeps its beginning till then.
    let cut = if once && stretch.stream != PARTS { painter.left() as u64 } else { 0 };
    (html, stretch.next - cut)
}

/// What is new of the task.
async fn show(
    followed: &Followed,
    record: &Record,
    steps: Option<&Ends>,
    processes: Option<Processes>,
    told: &mut Told,
) -> Result<(), Gone> {
    let Followed { admin, viewer, server } = followed;
    let (now, known) = (admin.now(), Known { server, viewer, processes });
    told.piece("title", &frame::titled(&task::title(record), server)).await?;
    told.piece("state", &task::state(record, &admin.why(viewer, record, now))).await?;
    told.piece("questions", &question::section(record, now, None)).await?;
    told.piece("actions", &task::actions(server, record)).await?;
    told.piece("timeline", &timeline::timeline(record, steps, now)).await?;
    told.piece("result", &result::section(record)).await?;
    told.piece("facts", &facts::section(&known, record, now)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_though_time_goes_by() {
        let piece =
            |words: &str, at: &str| digest(&format!("<p>a <time data-at=\"{at}\">{words}</time> b</p>"));
        assert_eq!(piece("1s ago", "5"), piece("2s ago", "5"));
        assert_ne!(piece("1s ago", "5"), piece("1s ago", "6"));
        assert_ne!(digest("<p>a</p>"), digest("<p>b</p>"));
    }

    /// What is there of a stream from `start` on, when `total` bytes of it are.
    fn stretch(stream: &'static str, written: &str, start: u64) -> Stretch {
        let total = written.len() as u64;
        let written = written.get(usize::try_from(start).unwrap()..).unwrap().to_owned();
        let (text, next) = (String::new(), total);
        Stretch { stream, start, next, total, missing: 0, text, written, done: false }
    }

    #[test]
    fn a_colour_that_is_cut_in_two_is_whole_for_who_stays_and_for_who_comes_back() {
        let written = "a\u{1b}[1;31mb";
        for at in 0..=written.len() {
            for once in [false, true] {
                let mut painter = Painter::default();
                let (first, next) = painted(&mut painter, &stretch("stdout", &written[..at], 0), once);
                // Nobody keeps the painter of who has gone.
                let mut painter = if once { Painter::default() } else { painter };
                let (second, next) = painted(&mut painter, &stretch("stdout", written, next), once);
                let shown = first + &second;
                // Behind a colour that is whole, who comes back has lost it, as on a page that is loaded then.
                let whole = if once && at + 1 == written.len() {
                    "ab"
                } else {
                    "a<span class=\"ink-red ink-bold\">b</span>"
                };
                assert_eq!((shown.as_str(), next), (whole, written.len() as u64), "{at}, once: {once}");
            }
        }
    }

    #[test]
    fn parts_are_counted_and_none_is_given_twice() {
        let (_, next) = painted(&mut Painter::default(), &stretch(PARTS, "a\u{1b}[1;3", 0), true);
        assert_eq!(next, 6);
    }
}
