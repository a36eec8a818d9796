//! What a command has written, as a resource that can be read while it runs.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul::Cx;
use longhaul::proto::jsonrpc::ErrorObject;
use longhaul::proto::model::{ReadResourceResult, ResourceContents, ResourceTemplate};
use longhaul::server::{OUTPUT_SCHEME as SCHEME, ReadFuture, Resources, not_found, output_uri, store_failed};
use longhaul::store::{Scope, TaskId, TaskStore};
use longhaul::tasks::project::{OutputAddress, OutputGap, OutputPosition};

use super::result::written;
use super::streams::{StreamError, Streams};
use crate::command::{Chunk, Stream};

/// How much one read gives, in bytes.
const READ: usize = 256 << 10;

/// The URI of a stream of a task's output.
pub(super) fn uri(id: &str, stream: Stream) -> String {
    output_uri(id, stream.name(), 0)
}

/// The output of commands, each readable by whoever owns its task.
#[derive(Debug)]
pub struct Outputs {
    store: Arc<dyn TaskStore>,
    streams: Streams,
}

impl Outputs {
    /// The output of the tasks in `store`.
    pub fn new(store: Arc<dyn TaskStore>, streams: Streams) -> Self {
        Self { store, streams }
    }

    async fn read_output(&self, cx: &Cx, uri: &str) -> Result<ReadResourceResult, ErrorObject> {
        let address = Address::parse(uri).ok_or_else(|| not_found(uri))?;
        let owner = cx.owner();
        let found = self.store.get(Scope::Owner(&owner), &address.task).await;
        let found = found.map_err(|error| store_failed(&error))?;
        // Unknown, expired and somebody else's are the same to whoever asks.
        let record = found.ok_or_else(|| not_found(uri))?;
        let (stream, after) = (address.stream, address.after);
        match self.streams.read(&record, stream, after, READ).await {
            Ok(Some(chunk)) => Ok(ReadResourceResult::fresh(contents(uri, chunk))),
            Ok(None) => {
                let position = match record.outcome() {
                    // What waits for a place has written nothing, and has nowhere to. Whoever asks is to ask again.
                    None => OutputPosition::new(after, after, after, false),
                    // Of what has ended the files may be gone.
                    ended => gone(after, written(ended, stream)),
                };
                let nothing = ResourceContents::text(uri, "text/plain", "").with_meta(position.meta());
                Ok(ReadResourceResult::fresh(nothing))
            }
            Err(StreamError::Ending) => {
                Err(ErrorObject::internal("internal error: the server is ending; ask the next one"))
            }
            Err(error) => {
                tracing::error!(%error, uri, "a command's output cannot be read");
                Err(ErrorObject::internal("internal error: the output cannot be read; see the server's log"))
            }
        }
    }
}

impl Resources for Outputs {
    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = |stream: Stream| {
            let name = stream.name();
            ResourceTemplate::new(format!("{SCHEME}{{id}}/{name}{{?after}}"), name).with_description(format!(
                "What the command of a task has written to {name}, from byte `after` on. \
                 Readable while it runs; `_meta` says where to go on."
            ))
        };
        vec![template(Stream::Stdout), template(Stream::Stderr)]
    }

    fn has(&self, uri: &str) -> bool {
        uri.starts_with(SCHEME)
    }

    fn read<'a>(&'a self, cx: Cx, uri: &'a str) -> ReadFuture<'a> {
        Box::pin(async move { self.read_output(&cx, uri).await })
    }
}

/// Which bytes a URI means.
#[derive(Debug)]
struct Address {
    task: TaskId,
    stream: Stream,
    after: u64,
}

impl Address {
    fn parse(uri: &str) -> Option<Self> {
        let OutputAddress { task, stream, after, .. } = OutputAddress::parse(uri)?;
        let stream = [Stream::Stdout, Stream::Stderr].into_iter().find(|known| known.name() == stream)?;
        Some(Self { task, stream, after })
    }
}

/// Where who asked stands in a stream of which nothing is kept any more.
fn gone(after: u64, total: u64) -> OutputPosition {
    let mut position = OutputPosition::new(total, total, total, true);
    position.gap = (after < total).then_some(OutputGap { from: after, to: total });
    position
}

/// Text where the bytes are text, base64 where they are not; and where to go on.
fn contents(uri: &str, chunk: Chunk) -> ResourceContents {
    let mut position = OutputPosition::new(chunk.start, chunk.next, chunk.total, chunk.done);
    position.gap = chunk.gap.map(|gap| OutputGap { from: gap.from, to: gap.to });
    let contents = match String::from_utf8(chunk.bytes) {
        Ok(text) => ResourceContents::text(uri, "text/plain", text),
        Err(bytes) => {
            ResourceContents::blob(uri, "application/octet-stream", STANDARD.encode(bytes.as_bytes()))
        }
    };
    contents.with_meta(position.meta())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul::client::{Client, Error};
    use longhaul::proto::dialect::Dialect;
    use longhaul::server::local_user;
    use longhaul::store::{Memory, StoreError};
    use longhaul::transport::memory;
    use longhaul::{Server, client::Options};
    use longhaul_store::wrap::{Fault, Faults, Moment, Wrapped};

    use super::*;
    use crate::command::RunsDir;
    use crate::tool::Copies;

    #[tokio::test]
    async fn who_reads_while_the_store_cannot_be_used_is_told_when_to_ask_again() {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::new();
        let busy = || StoreError::Busy { by: "somebody".to_owned(), source: Arc::new(std::fmt::Error) };
        for (number, error) in [busy(), busy(), StoreError::Closed].into_iter().enumerate() {
            faults.plan(number + 1, Moment::Before, Fault::Fail(error));
        }
        let streams = Streams::new(RunsDir::open(folder.path().join("runs")).unwrap(), Copies::none());
        let store = Arc::new(Wrapped::new(Memory::new(), faults));
        let server = Server::new("front", "1.0.0").resources(Arc::new(Outputs::new(store, streams)));
        let dispatcher = server.dispatcher().unwrap();
        let mut told = Vec::new();
        for dialect in [Dialect::newest_legacy(), Dialect::newest_modern(), Dialect::newest_modern()] {
            let options = Options::default().revision(dialect.revision()).retry_for(Duration::ZERO);
            let target = memory::serve(dispatcher.clone(), local_user());
            let client = Client::connect_with(target, options).await.unwrap();
            match client.read_resource("longhaul://tasks/build-1/stdout").await.unwrap_err() {
                Error::Answer(error) => told.push((error.retry_after(), error.message.into_owned())),
                error => panic!("{error}"),
            }
        }
        let after: Vec<_> = told.iter().map(|(after, _)| *after).collect();
        let second = Some(Duration::from_secs(1));
        assert_eq!(after, [second, second, None], "{told:?}");
        assert!(
            told.iter().all(|(_, message)| message.contains("the task store could not be used")),
            "{told:?}"
        );
    }

    #[test]
    fn an_address_is_a_task_a_stream_and_a_byte() {
        let address = Address::parse("longhaul://tasks/build-1/stderr?after=42").unwrap();
        assert_eq!((address.task.as_str(), address.stream.name(), address.after), ("build-1", "stderr", 42));
        assert_eq!(Address::parse("longhaul://tasks/build-1/stdout").unwrap().after, 0);
        for bad in [
            "longhaul://tasks/build-1",
            "longhaul://tasks//stdout",
            "longhaul://tasks/a/b/stdout",
            "longhaul://tasks/a/exit",
            "longhaul://tasks/a/stdout?after=-1",
            "longhaul://tasks/a/stdout?before=1",
            "file:///etc/passwd",
        ] {
            assert!(Address::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn s41_no_address_leaves_the_folder_of_its_run() {
        for escape in [
            "../../etc/passwd",
            "..",
            ".",
            "...",
            "a/..",
            "..%2f..%2fetc",
            "%2e%2e",
            "a\\..\\b",
            "/etc/passwd",
            "a\0b",
            "a b",
            ".hidden",
            "a\nb",
            "~root",
            "$HOME",
            "a/../b",
            "\u{202e}a",
            "C:",
        ] {
            for stream in ["stdout", "stderr"] {
                let uri = format!("longhaul://tasks/{escape}/{stream}");
                let task = Address::parse(&uri).map(|address| address.task);
                let strange = |task: &TaskId| task.as_str().contains(['/', '\\', '\0', '%', '$', ' ', '\n']);
                assert!(
                    task.as_ref().is_none_or(|task| !strange(task) && !task.as_str().starts_with('.')),
                    "{uri}: {task:?}"
                );
            }
        }
    }
}
