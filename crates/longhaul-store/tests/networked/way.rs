//! The way from a node to its server, whose weather can be bad.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// What becomes of bytes on their way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Weather {
    /// They arrive.
    Clear,
    /// Every connection is broken, and none can be made.
    Cut,
    /// None arrives until it is otherwise, and no connection is broken.
    Silent,
    /// The same of answers alone: what is asked for is done.
    Unanswered,
}

/// A way, which ends with its handle.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

/// A connection, from the node and to the server.
type Pair = (TcpStream, UnixStream);

#[derive(Debug)]
struct State {
    /// No weather once it is over.
    weather: Mutex<(Option<Weather>, Vec<Pair>)>,
    changed: Condvar,
    asked: AtomicU64,
}

impl Way {
    /// A way to the server at this socket.
    pub(crate) fn to(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let weather = Mutex::new((Some(Weather::Clear), Vec::new()));
        let state = Arc::new(State { weather, changed: Condvar::new(), asked: AtomicU64::new(0) });
        let (its, socket) = (Arc::clone(&state), PathBuf::from(socket));
        thread::spawn(move || {
            for node in listener.incoming().flatten() {
                if !its.begin(node, &socket) {
                    return;
                }
            }
        });
        Self { address, state }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.state.set(Some(weather));
    }

    /// How often something has come from nodes: no more often than they have asked.
    pub(crate) fn asked(&self) -> u64 {
        self.state.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.state.set(None);
        // Whoever waits for the next to come sees that it is over.
        let _came = TcpStream::connect(self.address);
    }
}

impl State {
    fn set(&self, weather: Option<Weather>) {
        let mut state = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = weather;
        if matches!(weather, None | Some(Weather::Cut)) {
            for (node, server) in state.1.drain(..) {
                let _ended_before = (node.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            }
        }
        self.changed.notify_all();
    }

    /// Carries one more connection; whether there may be others.
    fn begin(self: &Arc<Self>, node: TcpStream, socket: &Path) -> bool {
        let mut state = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        match state.0 {
            None => return false,
            Some(Weather::Cut) => return true,
            Some(_) => {}
        }
        // Without a server there is nobody to carry to, which the node sees by the end of its connection.
        let Ok(server) = UnixStream::connect(socket) else { return true };
        let again = |node: &TcpStream, server: &UnixStream| {
            (node.try_clone().expect("a second handle"), server.try_clone().expect("a second handle"))
        };
        let (asking, answering) = (again(&node, &server), again(&node, &server));
        state.1.push((node, server));
        let (one, other) = (Arc::clone(self), Arc::clone(self));
        thread::spawn(move || one.pump(asking.0, asking.1, false));
        thread::spawn(move || other.pump(answering.1, answering.0, true));
        true
    }

    fn pump(&self, mut from: impl Read, mut to: impl Write + Closes, is_answer: bool) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            self.asked.fetch_add(u64::from(!is_answer), Ordering::Relaxed);
            if !self.lets_through(is_answer) || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        to.close();
    }

    /// Waits as long as the weather says; whether the way is still there.
    fn lets_through(&self, is_answer: bool) -> bool {
        let state = self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |state: &mut (Option<Weather>, _)| match state.0 {
            Some(Weather::Silent) => true,
            Some(Weather::Unanswered) => is_answer,
            _ => false,
        };
        let state = self.changed.wait_while(state, holds).unwrap_or_else(PoisonError::into_inner);
        !matches!(state.0, None | Some(Weather::Cut))
    }
}

trait Closes {
    fn close(&self);
}

impl Closes for TcpStream {
    fn close(&self) {
        let _ended_before = self.shutdown(Shutdown::Both);
    }
}

impl Closes for UnixStream {
    fn close(&self) {
        let _ended_before = self.shutdown(Shutdown::Both);
    }
}
