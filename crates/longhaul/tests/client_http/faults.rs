//! A client whose connections go through what fails: every call ends in its result or an error, and none is done twice.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longhaul::client::{CallOptions, Client, FileJournal, Options};
use longhaul::proto::dialect::Revision;
use longhaul::server::TaskPolicy;
use longhaul::transport::http::server;
use longhaul::{Cx, Server, Tool};
use longhaul_test::Random;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What befalls a connection.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is closed at once.
    Refused,
    /// It is cut after so many bytes of the client's.
    CutRequest(usize),
    /// It is cut after so many bytes of the server's.
    CutAnswer(usize),
    /// The server's side ends in order after so many bytes, though they are not all.
    Truncated(usize),
    /// Everything waits for so many milliseconds.
    Delayed(u64),
    /// What the server says comes byte by byte.
    Trickles,
    /// What the server says comes twice.
    AnsweredTwice,
    /// What the client says comes twice, as a proxy that tries again sends it.
    AskedTwice,
    /// Somebody else answers with this status, before the server has heard anything.
    Status(u16),
    /// Somebody else answers with 502, after the server has done what it was asked.
    AnswerLost,
    /// What the server says is called something else.
    Mislabelled,
    /// Nobody says anything.
    Silent,
}

impl Fault {
    /// Whoever sends a request twice may find it refused in a session, where its id is open already; elsewhere its key
    /// makes it once.
    fn any(random: &mut Random, may_ask_twice: bool) -> Self {
        let len = random.below(700) as usize;
        match random.below(if may_ask_twice { 14 } else { 13 }) {
            0 => Self::Refused,
            1 => Self::CutRequest(len),
            2 => Self::CutAnswer(len),
            3 => Self::Truncated(len),
            4 => Self::Delayed(random.below(200)),
            5 => Self::Trickles,
            6 => Self::AnsweredTwice,
            7 => Self::Status(500),
            8 => Self::Status(502),
            9 => Self::Status(503),
            10 => Self::AnswerLost,
            11 => Self::Mislabelled,
            12 => Self::Silent,
            _ => Self::AskedTwice,
        }
    }
}

/// What stands between a client and a server. Each new connection meets the next fault, until there is none left.
struct Proxy {
    address: SocketAddr,
    faults: Arc<Mutex<VecDeque<Fault>>>,
    /// Counts storms: each cuts every connection there is.
    storm: watch::Sender<usize>,
}

impl Proxy {
    async fn before(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let faults = Arc::<Mutex<VecDeque<Fault>>>::default();
        let storm = watch::Sender::new(0);
        let (queue, storms) = (Arc::clone(&faults), storm.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (fault, mut over) = (queue.lock().unwrap().pop_front(), storms.subscribe());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = over.changed() => {}
                        _ = pass(client, upstream, fault) => {}
                    }
                });
            }
        });
        Self { address, faults, storm }
    }

    fn storm(&self, faults: &[Fault]) {
        *self.faults.lock().unwrap() = faults.iter().copied().collect();
        self.storm.send_modify(|storms| *storms += 1);
    }
}

async fn answer_in_its_place(client: &mut OwnedWriteHalf, status: u16) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {status} Sorry\r\nContent-Type: text/html\r\nContent-Length: 5\r\n");
    client.write_all(format!("{head}Connection: close\r\n\r\nsorry").as_bytes()).await
}

async fn pass(client: TcpStream, upstream: SocketAddr, fault: Option<Fault>) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    match fault {
        Some(Fault::Refused) => return Ok(()),
        Some(Fault::Status(status)) => {
            let _heard = from_client.read(&mut [0; 4096]).await?;
            return answer_in_its_place(&mut to_client, status).await;
        }
        Some(Fault::Silent) => {
            std::future::pending::<()>().await;
        }
        Some(Fault::Delayed(ms)) => sleep(Duration::from_millis(ms)).await,
        _ => {}
    }
    let (from_server, to_server) = TcpStream::connect(upstream).await?.into_split();
    let twice = match fault {
        Some(Fault::AskedTwice) => Some(TcpStream::connect(upstream).await?),
        _ => None,
    };
    let up = up(from_client, to_server, fault, twice);
    let down = down(from_server, to_client, fault);
    // Whichever side ends, all of it does: nobody here closes half of a connection.
    tokio::select! {
        ended = up => ended,
        ended = down => ended,
    }
}

async fn up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    fault: Option<Fault>,
    mut twice: Option<TcpStream>,
) -> std::io::Result<()> {
    let (mut passed, mut buffer) = (0, vec![0; 4096]);
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        let bytes = &buffer[..len];
        if let Some(other) = &mut twice {
            other.write_all(bytes).await?;
        }
        match fault {
            Some(Fault::CutRequest(at)) if passed + len >= at => {
                return to.write_all(&bytes[..at.saturating_sub(passed).min(len)]).await;
            }
            _ => to.write_all(bytes).await?,
        }
        passed += len;
    }
}

async fn down(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, fault: Option<Fault>) -> std::io::Result<()> {
    let (mut passed, mut buffer) = (0, vec![0; 4096]);
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        let bytes = &buffer[..len];
        match fault {
            Some(Fault::CutAnswer(at) | Fault::Truncated(at)) if passed + len >= at => {
                to.write_all(&bytes[..at.saturating_sub(passed).min(len)]).await?;
                if matches!(fault, Some(Fault::Truncated(_))) {
                    to.shutdown().await?;
                    sleep(Duration::from_millis(50)).await;
                }
                return Ok(());
            }
            Some(Fault::Trickles) => {
                to.as_ref().set_nodelay(true)?;
                for byte in bytes {
                    to.write_all(&[*byte]).await?;
                    sleep(Duration::from_millis(1)).await;
                }
            }
            Some(Fault::AnsweredTwice) => {
                to.write_all(bytes).await?;
                to.write_all(bytes).await?;
            }
            Some(Fault::AnswerLost) => return answer_in_its_place(&mut to, 502).await,
            Some(Fault::Mislabelled) => {
                let text = String::from_utf8_lossy(bytes).replace("application/json", "application/jpeg");
                to.write_all(text.replace("text/event-stream", "text/event-screen").as_bytes()).await?;
            }
            _ => to.write_all(bytes).await?,
        }
        passed += len;
    }
}

/// Which faults there are. Another number is another weather.
const SEED: u64 = 20;

type Done = Arc<Mutex<BTreeMap<String, usize>>>;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Job {
    job: String,
}

/// A server whose tools count what they do: one answers at once, one is a task.
async fn serve() -> (SocketAddr, Done) {
    let done = Done::default();
    let counting = |done: &Done| {
        let done = Arc::clone(done);
        move |_: Cx, Job { job }| {
            let done = Arc::clone(&done);
            async move {
                *done.lock().unwrap().entry(job.clone()).or_default() += 1;
                sleep(Duration::from_millis(10)).await;
                format!("did {job}")
            }
        }
    };
    let mut policy = TaskPolicy::always();
    policy.poll_interval = Duration::from_millis(20);
    let server = Server::new("counting", "1")
        .tool(Tool::typed("now", "Do it", counting(&done)))
        .tool(Tool::typed("task", "Do it", counting(&done)).task(policy));
    let dispatcher = server.dispatcher().unwrap();
    dispatcher.start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(dispatcher, listener, server::Options::default(), std::future::pending()));
    (address, done)
}

/// One call in a storm; what it came to.
async fn weather(
    upstream: SocketAddr,
    revision: Revision,
    tool: &str,
    job: &str,
    faults: &[Fault],
    journal: Option<FileJournal>,
) -> Option<String> {
    let proxy = Proxy::before(upstream).await;
    let mut options = Options::default().revision(revision).retry_for(Duration::from_secs(5));
    options = options.request_timeout(Duration::from_secs(1)).close_grace(Duration::from_millis(100));
    let is_kept = journal.is_some();
    if let Some(journal) = journal {
        options = options.journal(journal);
    }
    let client =
        Client::connect_with(format!("http://{}/mcp", proxy.address).as_str(), options).await.unwrap();
    client.list_tools().await.unwrap();
    proxy.storm(faults);
    let limits = CallOptions::default().idle(Duration::from_secs(1)).timeout(Duration::from_secs(20));
    let arguments = json!({ "job": job });
    let call = client.call_with(tool, &arguments, limits);
    let called = timeout(Duration::from_secs(60), call).await.expect("a call ends within its timeout");
    // Fair weather.
    proxy.storm(&[]);
    let said =
        |result: longhaul::proto::model::CallToolResult| result.content[0].as_text().unwrap().to_owned();
    let said = match called {
        Ok(result) => Some(said(result)),
        Err(_) if !is_kept => None,
        // What was left open is brought to its end once the weather is fair.
        Err(error) => {
            let recovered =
                timeout(Duration::from_secs(60), client.recover()).await.expect("it ends").unwrap();
            match recovered.into_iter().next() {
                Some(recovered) => Some(said(recovered.outcome.unwrap())),
                None => panic!("{job}: it is nowhere: {error:?}"),
            }
        }
    };
    client.close().await;
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_befalls_a_connection_a_call_ends_and_is_done_once() {
    let (upstream, done) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let (random, room, mut calls) = (Random::new(SEED), Arc::new(Semaphore::new(12)), JoinSet::new());
    let mut nth = 0;
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        for tool in ["now", "task"] {
            for is_kept in [false, true] {
                for _ in 0..14 {
                    nth += 1;
                    let (room, mut random) = (Arc::clone(&room), random.part(nth));
                    let path = folder.path().join(format!("journal-{nth}"));
                    let done = Arc::clone(&done);
                    calls.spawn(async move {
                        let _room = room.acquire().await.unwrap();
                        let count = 1 + random.below(3);
                        let may_ask_twice = is_kept && revision == Revision::V2026_07_28;
                        let faults: Vec<_> =
                            (0..count).map(|_| Fault::any(&mut random, may_ask_twice)).collect();
                        let job = format!("{nth}: {revision} {tool}, kept: {is_kept}, {faults:?}");
                        let journal = is_kept.then(|| FileJournal::open(path).unwrap());
                        let said = weather(upstream, revision, tool, &job, &faults, journal).await;
                        let times = done.lock().unwrap().get(&job).copied().unwrap_or_default();
                        assert!(times <= 1, "{job}: {times} times");
                        if let Some(said) = said {
                            assert_eq!((said, times), (format!("did {job}"), 1));
                        } else {
                            assert!(!is_kept, "{job}");
                        }
                    });
                }
            }
        }
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
}

/// Whoever hears of it may be on another thread than what has driven the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_was_left_open_can_be_recovered_once_its_error_is_told() {
    let (upstream, _) = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let mut clients = JoinSet::new();
    for nth in 0..8 {
        let journal = FileJournal::open(folder.path().join(format!("journal-{nth}"))).unwrap();
        clients.spawn(async move {
            let proxy = Proxy::before(upstream).await;
            let options = Options::default().revision(Revision::V2026_07_28).journal(journal);
            let url = format!("http://{}/mcp", proxy.address);
            let client = Client::connect_with(url.as_str(), options).await.unwrap();
            client.list_tools().await.unwrap();
            for call in 0..60 {
                proxy.storm(&[Fault::Status(500)]);
                let job = json!({ "job": format!("{nth}, {call}") });
                client.call_with("now", &job, CallOptions::default()).await.unwrap_err();
                proxy.storm(&[]);
                assert_eq!(client.recover().await.unwrap().len(), 1, "{job}");
            }
            client.close().await;
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}
