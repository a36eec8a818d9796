//! Answers that come to another node than the one in whose memory the call waits. They are left as a letter in what nodes
//! share; the node that has the call takes it, once, and leaves there what came of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::jsonrpc::{ErrorObject, RequestId};
use longhaul_tasks::store::{Entry, EntryKey, Holder, Owner, Registry, StoreError, Swap, Value};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::super::answer::{Envelope, Write, refused};
use super::super::context::Cx;
use super::super::resumed;
use super::binding::Binding;
use super::desk::Desk;
use super::held::Nonce;
use super::ledger::{Came, Hearing, LEASE};
use super::rounds::{GoOn, Rounds, Subject, worker_lost};
use super::spent::{not_kept, unwritten};
use crate::hex::hex;
use crate::seal::random;
use crate::wire::By;

/// What is brought for a call that another node has.
#[derive(Deserialize, Serialize)]
struct Letter {
    method: String,
    /// What the call is about, as its states are [bound](Subject::binding) to it: its arguments may be longer than what
    /// nodes can share.
    binding: [u8; 32],
    owner: Option<String>,
    answers: HashMap<String, String>,
    /// Who brings it, and what can be asked there.
    caller: Box<RawValue>,
}

/// What the entries are: letters, and what came of them.
const LETTERS: &str = "held-letter";
const REPLIES: &str = "held-reply";

/// How often letters are looked for while calls wait, and a reply while somebody waits for that.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a letter waits to be taken: whoever has the call looks more often.
const UNTAKEN: Duration = Duration::from_secs(3);

/// How long a letter and its reply are kept.
const KEPT: Duration = Duration::from_secs(120);

/// The longest reply that other nodes are told, in bytes.
const LONGEST_REPLY: usize = 40 << 10;

/// The methods of calls that can wait.
const METHODS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// Hands answers to whichever node has the call, and waits for what comes of it. Dropping the future ends the call.
pub(super) async fn forward(
    desk: &Desk,
    subject: &Subject,
    nonce: Nonce,
    answers: HashMap<String, String>,
    cx: &Cx,
) -> Write {
    let Some((registry, caller)) = desk.registry().zip(resumed::written(cx)) else {
        return refused(worker_lost());
    };
    let letter = Letter {
        method: subject.method.to_owned(),
        binding: subject.binding().digest(),
        owner: cx.principal().map(|principal| principal.as_str().to_owned()),
        answers,
        caller,
    };
    let letter = serde_json::to_vec(&letter).expect("texts and JSON are JSON");
    let name = format!("{}.{}", hex(&nonce), hex(&random::<16>()));
    let mut waiting = Waiting { registry: Arc::clone(registry), name, heard: Hearing::new(), is_over: false };
    let left = registry.put(letters(&waiting.name), Value::lasting(&letter, KEPT)).await;
    if let Err(error) = left {
        // What was refused is not there. Anything else may be.
        waiting.is_over = matches!(error, StoreError::TooLarge { .. } | StoreError::Overloaded { .. });
        return refused(not_handed_on(&error));
    }
    waiting.reply().await
}

/// The answers did not get to the call, as far as can be told. Whoever brings them again finds it as it is.
fn not_handed_on(error: &StoreError) -> ErrorObject {
    match error {
        StoreError::TooLarge { .. } => ErrorObject::invalid_params(format!(
            "invalid params: `inputResponses` cannot be handed to the server where the call waits ({error}): give \
             shorter answers"
        )),
        StoreError::Overloaded { .. } => unwritten(error),
        error => {
            tracing::error!(%error, "answers cannot be handed to the node that has their call");
            ErrorObject::internal(
                "the answers could not be handed to the server where the call waits: bring them again",
            )
        }
    }
}

/// Who waits for a reply. Once nobody does, whoever is at work is told.
struct Waiting {
    registry: Arc<dyn Registry>,
    name: String,
    heard: Hearing,
    /// Nobody is at work any more.
    is_over: bool,
}

impl Waiting {
    /// What came of it. That the store cannot be read for a while says nothing of the call, which may be at its effect.
    async fn reply(&mut self) -> Write {
        let begun = Instant::now();
        let mut looked = begun;
        loop {
            sleep(LOOK_EVERY).await;
            match self.look(begun).await {
                Ok(Some(write)) => return write,
                Ok(None) => looked = Instant::now(),
                Err(error) if looked.elapsed() > LEASE => {
                    tracing::warn!(%error, "what came of a call at another node cannot be read");
                    return refused(worker_lost());
                }
                Err(error) => {
                    tracing::debug!(%error, "what came of a call at another node is looked for again");
                }
            }
        }
    }

    /// What there is to be told by now; `None` if it is to be looked for again.
    async fn look(&mut self, begun: Instant) -> Result<Option<Write>, StoreError> {
        let reply = self.registry.entry(replies(&self.name)).await?;
        let version = reply.as_ref().map(|entry| entry.version);
        let reply = reply.map(|entry| serde_json::from_slice(&entry.value).unwrap_or(Came::Lost));
        let write: Write = match reply {
            Some(Came::UnderWay) if version.is_some_and(|word| self.heard.believes(word)) => return Ok(None),
            // Should it be at work all the same, it is to end.
            Some(Came::UnderWay) => return Ok(Some(refused(worker_lost()))),
            Some(Came::Result(result)) => Box::new(move |envelope, out| envelope.result_again(out, &result)),
            Some(Came::Error(error)) => refused(error),
            Some(Came::NotKept) => refused(not_kept()),
            Some(Came::Lost) => refused(worker_lost()),
            None if begun.elapsed() < UNTAKEN => return Ok(None),
            // Whoever takes it away first decides whether it is taken.
            None if remove(&*self.registry, letters(&self.name)).await? => refused(worker_lost()),
            None if begun.elapsed() > LEASE => return Ok(Some(refused(worker_lost()))),
            None => return Ok(None),
        };
        self.is_over = true;
        Ok(Some(write))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (registry, is_over) = (Arc::clone(&self.registry), self.is_over);
        let name = std::mem::take(&mut self.name);
        runtime.spawn(async move {
            let begun = Instant::now();
            while let Err(error) = leave(&*registry, &name, is_over).await {
                if begun.elapsed() > LEASE {
                    return tracing::warn!(%error, "a call goes on at another node for a caller that is gone");
                }
                sleep(LOOK_EVERY).await;
            }
        });
    }
}

/// Takes away what is left of a letter and its reply; where somebody may be at work, leaves word that nobody waits.
async fn leave(registry: &dyn Registry, name: &str, is_over: bool) -> Result<(), StoreError> {
    let was_taken = !remove(registry, letters(name)).await?;
    if is_over {
        return remove(registry, replies(name)).await.map(drop);
    }
    // Any word but its own tells whoever is at work, be it before it has said its first.
    if was_taken { put(registry, name, &Came::Lost).await } else { Ok(()) }
}

/// Takes letters for the calls that wait here, for as long as there are any.
pub(super) fn listen(desk: &Arc<Desk>) {
    if desk.registry().is_none() || !desk.begins_to_listen() {
        return;
    }
    let desk = Arc::downgrade(desk);
    tokio::spawn(async move {
        loop {
            sleep(LOOK_EVERY).await;
            let Some(desk) = desk.upgrade() else { return };
            if let Err(error) = take_letters(&desk).await {
                tracing::warn!(%error, "answers that came to other nodes cannot be looked for");
            }
            if desk.held.is_empty() && desk.ends_to_listen() {
                return;
            }
        }
    });
}

async fn take_letters(desk: &Arc<Desk>) -> Result<(), StoreError> {
    let Some(registry) = desk.registry() else { return Ok(()) };
    let mut after: Option<String> = None;
    loop {
        let names =
            registry.names(Holder::Server, LETTERS, after.as_deref(), EntryKey::LONGEST_NAMES).await?;
        for name in &names {
            let Some(nonce) = nonce_of(name).filter(|nonce| desk.held.has(nonce)) else { continue };
            let Some(entry) = registry.entry(letters(name)).await? else { continue };
            let taken = registry.compare_and_set(letters(name), Some(entry.version), None).await?;
            if taken.is_done()
                && let Ok(letter) = serde_json::from_slice::<Letter>(&entry.value)
            {
                tokio::spawn(answer(Arc::clone(desk), name.clone(), nonce, letter));
            }
        }
        if names.len() < EntryKey::LONGEST_NAMES {
            return Ok(());
        }
        after = names.last().cloned();
    }
}

/// Goes on with a call as if its answers had come here, and leaves what came of it for whoever waits.
async fn answer(desk: Arc<Desk>, name: String, nonce: Nonce, letter: Letter) {
    let Some(registry) = desk.registry().cloned() else { return };
    let owner = letter.owner.map_or(Ok(Owner::Anonymous), Owner::principal);
    let cx = owner.ok().and_then(|owner| resumed::read(&letter.caller, owner));
    let method = METHODS.into_iter().find(|method| *method == letter.method);
    let Some((cx, method)) = cx.zip(method) else {
        return tracing::warn!("answers of another release's node cannot be read");
    };
    let dialect = cx.dialect();
    let rounds = Rounds::of(&desk, Subject::bound(cx.owner(), method, Binding(letter.binding)));
    let server_info = Arc::clone(&desk.server_info);
    let done = GoOn::new(rounds, nonce, letter.answers).run_here(cx);
    let written = async {
        let write = done.await;
        let id = RequestId::from(0);
        let envelope = Envelope { by: By::Server, id, dialect, method: Some(method), server_info };
        let mut message = Vec::new();
        write(&envelope, &mut message);
        message
    };
    let message = tokio::select! {
        message = written => message,
        () = stay_at_work(&*registry, &name) => return,
    };
    let came = Came::of_answer_within(&message, LONGEST_REPLY);
    let ended = Instant::now();
    while let Err(error) = put(&*registry, &name, &came).await {
        if ended.elapsed() > LEASE {
            return tracing::warn!(%error, "another node cannot be told what came of a call");
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Says again and again that the call is at work, until nobody waits for it any more: then its last word is gone, or
/// there is another's.
async fn stay_at_work(registry: &dyn Registry, name: &str) {
    let mut last = None;
    loop {
        let word = bytes_of(&Came::UnderWay);
        let word = Value::lasting(&word, KEPT);
        match registry.compare_and_set(replies(name), last, Some(word)).await {
            // One that is found is its own, of which it did not hear that it was written.
            Ok(Swap::Done(Some(entry)) | Swap::Found(Some(entry))) if is_at_work(&entry) => {
                last = Some(entry.version);
            }
            Ok(_) => return,
            Err(error) => tracing::warn!(%error, "another node cannot be told of a call under way"),
        }
        sleep(LEASE / 30).await;
    }
}

fn is_at_work(entry: &Entry) -> bool {
    matches!(serde_json::from_slice(&entry.value), Ok(Came::UnderWay))
}

/// The call that a letter is for.
fn nonce_of(name: &str) -> Option<Nonce> {
    let digits = name.get(..2 * size_of::<Nonce>())?;
    Some(u128::from_str_radix(digits, 16).ok()?.to_be_bytes())
}

async fn put(registry: &dyn Registry, name: &str, came: &Came) -> Result<(), StoreError> {
    registry.put(replies(name), Value::lasting(&bytes_of(came), KEPT)).await.map(drop)
}

fn bytes_of(came: &Came) -> Vec<u8> {
    serde_json::to_vec(came).expect("numbers and JSON are JSON")
}

/// Removes an entry; says whether this did.
async fn remove(registry: &dyn Registry, key: EntryKey<'_>) -> Result<bool, StoreError> {
    let Some(entry) = registry.entry(key).await? else { return Ok(false) };
    Ok(registry.compare_and_set(key, Some(entry.version), None).await?.is_done())
}

fn letters(name: &str) -> EntryKey<'_> {
    EntryKey::of_server(LETTERS, name)
}

fn replies(name: &str) -> EntryKey<'_> {
    EntryKey::of_server(REPLIES, name)
}
