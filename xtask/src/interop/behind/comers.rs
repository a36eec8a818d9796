//! Clients that come to one server of ours over HTTP and go, in every way: what it holds while it lives does not grow with them.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::front::{Front, Held, PATIENCE};
use super::sessions::{self, INITIALIZE, INITIALIZED, LONG, UNDER_WAY};
use crate::interop::Rigs;
use crate::site::Site;
use crate::tally::Tally;

/// How many there are at once.
const AT_ONCE: usize = 4;

/// How many come before what is held is counted: it keeps some connections to its store, as many as were used at once.
const BEFORE: usize = 4 * WAYS.len();

/// How many more descriptors it may have than before: less than any way to go would leave, if it left one.
const SPARE: usize = 4;

/// In how many steps of 20 ms a call is done that goes on without its client.
const SHORT: usize = 50;

/// A way to come and go.
type Way = fn(Comer) -> Result<()>;

const WAYS: [(&str, Way); 6] = [
    ("a session that is ended", Comer::ends),
    ("a session that is left", Comer::leaves),
    ("a session that is ended in the middle of a call", Comer::ends_in_a_call),
    ("a session that is left in the middle of a call", Comer::leaves_in_a_call),
    ("a session that is left with its stream open", Comer::leaves_a_stream),
    ("a modern call that is left", Comer::leaves_a_modern_call),
];

/// So many sessions with one server, which holds no more after them than before.
pub(in crate::interop) fn come_and_go(site: &Site, rigs: &Rigs, count: usize) -> Result<Tally> {
    println!("# {count} sessions over HTTP, which end in every way");
    let mut front = Front::start(site, &sessions::servers(site, rigs)?)?;
    front.lists(site, ["echo", "tree_"])?;
    come(front.address(), BEFORE)?;
    let before = at_rest(&front)?;
    come(front.address(), count)?;
    let mut tally = Tally::one(has_no_more(&front, &before)?);
    tally += front.kill()?;
    Ok(tally)
}

/// So many sessions with the server at this address.
fn come(address: SocketAddr, count: usize) -> Result<()> {
    let some = |first: usize| {
        for number in (first..count).step_by(AT_ONCE) {
            let (name, way) = WAYS[number % WAYS.len()];
            // The servers in turn, for each of the ways.
            let tree = if number / WAYS.len() % 2 == 1 { "tree_" } else { "" };
            way(Comer { address, tree }).with_context(|| format!("session {number}, {name}"))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let some = &some;
        let clients: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(move || some(first))).collect();
        let mut clients = clients.into_iter();
        clients.try_for_each(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")))
    })
}

/// What it holds once that does not change any more.
fn at_rest(front: &Front) -> Result<Held> {
    let until = Instant::now() + PATIENCE;
    let (mut held, mut since) = (front.held()?, Instant::now());
    while since.elapsed() < Duration::from_secs(2) && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
        let now = front.held()?;
        if now != held {
            (held, since) = (now, Instant::now());
        }
    }
    Ok(held)
}

/// Whether it comes to hold no more than before.
fn has_no_more(front: &Front, before: &Held) -> Result<bool> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = front.held()?;
        if now.processes.len() == before.processes.len() && now.descriptors <= before.descriptors + SPARE {
            println!("# {before}, and {now} after the sessions");
            return Ok(true);
        }
        if Instant::now() > until {
            let more: Vec<_> = now.processes.iter().filter(|it| !before.processes.contains(it)).collect();
            println!("not ok - it holds no more than before: {before}, and {now} after the sessions");
            more.iter().for_each(|line| println!("#   {line}"));
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// A client of one session. Each request has a connection of its own.
#[derive(Clone, Copy)]
struct Comer {
    address: SocketAddr,
    /// What the names of the tools begin with that it calls.
    tree: &'static str,
}

impl Comer {
    fn ends(self) -> Result<()> {
        let session = self.begin()?;
        self.call(&session)?;
        self.end(&session)
    }

    fn leaves(self) -> Result<()> {
        let session = self.begin()?;
        self.call(&session)
    }

    fn ends_in_a_call(self) -> Result<()> {
        let session = self.begin()?;
        let call = self.post(&session, &sessions::long_call(self.tree, LONG), UNDER_WAY)?;
        self.end(&session)?;
        drop(call);
        Ok(())
    }

    fn leaves_in_a_call(self) -> Result<()> {
        let session = self.begin()?;
        self.post(&session, &sessions::long_call(self.tree, SHORT), UNDER_WAY).map(drop)
    }

    fn leaves_a_stream(self) -> Result<()> {
        let session = self.begin()?;
        let asked = format!("GET /mcp HTTP/1.1\r\n{session}Accept: text/event-stream\r\n");
        self.ask(&asked, "", "text/event-stream").map(drop)
    }

    fn leaves_a_modern_call(self) -> Result<()> {
        let call = sessions::long_call(self.tree, LONG);
        let of_era = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken""#;
        let call = call.replace(r#""progressToken""#, of_era);
        let name = format!("{}count", self.tree);
        let headers =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\n");
        self.post(&headers, &call, UNDER_WAY).map(drop)
    }

    /// Opens a session; the headers that its requests have.
    fn begin(&self) -> Result<String> {
        let (_, said) = self.post(REVISION, INITIALIZE, r#""id":1"#)?;
        let id = said.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        let headers = format!("{REVISION}Mcp-Session-Id: {}\r\n", id.context("it has opened no session")?);
        self.post(&headers, INITIALIZED, "HTTP/1.1 202")?;
        Ok(headers)
    }

    fn call(&self, session: &str) -> Result<()> {
        self.post(session, &sessions::quick_call(self.tree), r#""text":"here""#).map(drop)
    }

    fn end(&self, session: &str) -> Result<()> {
        self.ask(&format!("DELETE /mcp HTTP/1.1\r\n{session}"), "", "HTTP/1.1 204").map(drop)
    }

    fn post(&self, headers: &str, body: &str, until: &str) -> Result<(TcpStream, String)> {
        let accepts = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        self.ask(&format!("POST /mcp HTTP/1.1\r\n{headers}{accepts}"), body, until)
    }

    /// Asks, and reads the answer until a line has the text; the connection, which is left with what it is given to, and what was read.
    fn ask(&self, head: &str, body: &str, until: &str) -> Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect(self.address).context("it is not reached")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        let address = self.address;
        let request =
            format!("{head}Host: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes())?;
        let (mut said, mut reader) = (String::new(), BufReader::new(stream.try_clone()?));
        loop {
            let before = said.len();
            let read = reader.read_line(&mut said).with_context(|| format!("it says no {until}: {said}"))?;
            ensure!(read > 0, "it says no {until}: {said}");
            if said[before..].contains(until) {
                return Ok((stream, said));
            }
        }
    }
}

/// What a session is opened in.
const REVISION: &str = "MCP-Protocol-Version: 2025-11-25\r\n";
