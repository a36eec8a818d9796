//! The servers that are attached, the one that started this supervisor among them.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    time::Duration,
};

use rustix::event::PollFlags;

use crate::command::protocol::{Event, MAX_LINE, Request, line};

/// Everybody who listens, and the socket where others come.
#[derive(Debug)]
pub(super) struct Peers {
    listener: UnixListener,
    attached: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    stream: UnixStream,
    is_owner: bool,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    gone: bool,
}

impl Peers {
    pub(super) fn new(owner: Option<UnixStream>, listener: UnixListener) -> Self {
        let owner = owner.filter(|stream| stream.set_nonblocking(true).is_ok());
        Self { listener, attached: owner.map(|stream| Peer::new(stream, true)).into_iter().collect() }
    }

    pub(super) const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Each peer's number for this turn, its socket, and what to wait for.
    pub(super) fn waits(&self) -> impl Iterator<Item = (usize, &UnixStream, PollFlags)> {
        self.attached.iter().enumerate().map(|(number, peer)| {
            let write = if peer.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            (number, &peer.stream, PollFlags::IN | write)
        })
    }

    /// Whether the server that started this supervisor is still there.
    pub(super) fn has_owner(&self) -> bool {
        self.attached.iter().any(|peer| peer.is_owner && !peer.gone)
    }

    /// Lets new peers in and greets them.
    pub(super) fn accept(&mut self, greeting: &[Event]) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.attached.len() >= MAX_PEERS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let mut peer = Peer::new(stream, false);
            greeting.iter().for_each(|event| peer.send(&line(event)));
            self.attached.push(peer);
        }
    }

    /// Reads what a peer sent.
    pub(super) fn receive(&mut self, number: usize) -> Vec<Request> {
        self.attached.get_mut(number).map(Peer::receive).unwrap_or_default()
    }

    pub(super) fn send(&mut self, number: usize, event: &Event) {
        if let Some(peer) = self.attached.get_mut(number) {
            peer.send(&line(event));
        }
    }

    pub(super) fn flush(&mut self, number: usize) {
        if let Some(peer) = self.attached.get_mut(number) {
            peer.flush();
        }
    }

    /// Tells everybody.
    pub(super) fn broadcast(&mut self, event: &Event) {
        let bytes = line(event);
        self.attached.iter_mut().for_each(|peer| peer.send(&bytes));
    }

    /// Tells everybody, but leaves out who has not taken the last news yet: the next will be newer.
    pub(super) fn broadcast_news(&mut self, event: &Event) {
        let bytes = line(event);
        self.attached.iter_mut().filter(|peer| peer.outgoing.is_empty()).for_each(|peer| peer.send(&bytes));
    }

    /// Forgets who is gone. Numbers of peers change.
    pub(super) fn forget_gone(&mut self) {
        self.attached.retain(|peer| !peer.gone);
    }

    /// Says the last word to everybody, those who wait at the door included, and waits a moment for who is slow.
    pub(super) fn say_last(mut self, event: &Event) {
        self.accept(&[]);
        self.broadcast(event);
        for peer in self.attached.iter_mut().filter(|peer| !peer.gone) {
            // Whoever misses it finds the same in the run directory.
            let _in_the_files_too = peer
                .stream
                .set_nonblocking(false)
                .and_then(|()| peer.stream.set_write_timeout(Some(LAST_WORD)))
                .and_then(|()| peer.stream.write_all(&peer.outgoing));
        }
    }
}

impl Peer {
    const fn new(stream: UnixStream, is_owner: bool) -> Self {
        Self { stream, is_owner, incoming: Vec::new(), outgoing: Vec::new(), gone: false }
    }

    fn receive(&mut self) -> Vec<Request> {
        let mut buffer = [0; 1024];
        for _read in 0..16 {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.gone = true,
                Ok(length) => {
                    self.incoming.extend_from_slice(&buffer[..length]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.gone = error.kind() != io::ErrorKind::WouldBlock,
            }
            break;
        }
        let mut requests = Vec::new();
        while let Some(end) = self.incoming.iter().position(|byte| *byte == b'\n') {
            let request: Vec<u8> = self.incoming.drain(..=end).collect();
            requests.push(serde_json::from_slice(&request).unwrap_or(Request::Unknown));
        }
        self.gone |= self.incoming.len() > MAX_LINE;
        requests
    }

    fn send(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
        self.flush();
        self.gone |= self.outgoing.len() > MAX_WAITING;
    }

    fn flush(&mut self) {
        while !self.outgoing.is_empty() && !self.gone {
            match self.stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.gone = true,
            }
        }
    }
}

/// How many servers may be attached at once. Each is a file descriptor; more are turned away and read the files.
const MAX_PEERS: usize = 64;
/// How much may wait for a peer that does not read before it is dropped, in bytes.
const MAX_WAITING: usize = 4 * MAX_LINE;
const LAST_WORD: Duration = Duration::from_millis(500);
