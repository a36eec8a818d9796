//! The way from a node to the database: a proxy, whose weather can be bad.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// What becomes of bytes on their way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Weather {
    /// They arrive.
    #[default]
    Clear,
    /// Every connection is broken, and none can be made.
    Cut,
    /// None arrives, and no connection is broken: in both directions, or only answers.
    Silent { only_answers: bool },
    /// They arrive so much later.
    Slow(Duration),
}

/// The way of one node. What is on it is forgotten when it is dropped.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: SocketAddr,
    way: Arc<Way>,
}

#[derive(Debug, Default)]
struct Way {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    weather: Weather,
    open: Vec<TcpStream>,
    is_over: bool,
}

/// In which direction bytes go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Direction {
    Asking,
    Answering,
}

impl Link {
    /// A way to the database.
    pub(super) fn to(database: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, way) = (listener.local_addr()?, Arc::new(Way::default()));
        let its = Arc::clone(&way);
        thread::spawn(move || {
            for incoming in listener.incoming() {
                if its.lock().is_over {
                    return;
                }
                // Whoever is on a way that is closed is sent off by the end of the connection.
                if let Ok(incoming) = incoming {
                    let its = Arc::clone(&its);
                    thread::spawn(move || its.carry(&incoming, database));
                }
            }
        });
        Ok(Self { address, way })
    }

    /// Changes the weather.
    pub(super) fn set(&self, weather: Weather) {
        let mut state = self.way.lock();
        state.weather = weather;
        if matches!(weather, Weather::Cut) {
            state.break_all();
        }
        self.way.changed.notify_all();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut state = self.way.lock();
        state.is_over = true;
        state.break_all();
        drop(state);
        self.way.changed.notify_all();
        // Wakes whoever accepts, to find that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn break_all(&mut self) {
        for stream in self.open.drain(..) {
            // It may be broken already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Way {
    /// Carries one connection until either side ends it.
    fn carry(&self, node: &TcpStream, database: SocketAddr) {
        if matches!(self.lock().weather, Weather::Cut) {
            return;
        }
        let Ok(database) = TcpStream::connect(database) else { return };
        for stream in [node, &database] {
            let _ = stream.set_nodelay(true);
            if let Ok(stream) = stream.try_clone() {
                self.lock().open.push(stream);
            }
        }
        thread::scope(|scope| {
            scope.spawn(|| self.pump(node, &database, Direction::Asking));
            self.pump(&database, node, Direction::Answering);
        });
        let mut state = self.lock();
        // A handle of an ended connection keeps its number from whoever comes next.
        state.open.retain(|stream| stream.peer_addr().is_ok());
    }

    fn pump(&self, mut from: &TcpStream, mut to: &TcpStream, direction: Direction) {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if !self.lets_through(direction) || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits as long as the weather says; whether the way is still there.
    fn lets_through(&self, direction: Direction) -> bool {
        let is_silent = |state: &mut State| match state.weather {
            Weather::Silent { only_answers } => {
                !state.is_over && (!only_answers || direction == Direction::Answering)
            }
            _ => false,
        };
        let state = self.changed.wait_while(self.lock(), is_silent).unwrap_or_else(PoisonError::into_inner);
        let slow = if let Weather::Slow(slow) = state.weather { Some(slow) } else { None };
        let is_over = state.is_over;
        drop(state);
        if let Some(slow) = slow {
            thread::sleep(slow);
        }
        !is_over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    /// Somebody who answers each byte with itself.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut byte = [0];
                    while let Ok(1) = stream.read(&mut byte) {
                        stream.write_all(&byte).unwrap();
                    }
                });
            }
        });
        address
    }

    #[test]
    fn a_way_carries_is_silent_and_breaks() {
        let link = Link::to(echo()).unwrap();
        let mut stream = TcpStream::connect(link.address).unwrap();
        let mut byte = [0];
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"a");
        link.set(Weather::Silent { only_answers: true });
        stream.write_all(b"b").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let waits = stream.read(&mut byte).unwrap_err().kind();
        assert!(matches!(waits, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{waits}");
        stream.set_read_timeout(None).unwrap();
        link.set(Weather::Slow(Duration::from_millis(1)));
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"b");
        link.set(Weather::Cut);
        assert!(matches!(stream.read(&mut byte), Ok(0) | Err(_)));
        let mut refused = TcpStream::connect(link.address).unwrap();
        assert!(matches!(refused.read(&mut byte), Ok(0) | Err(_)));
        link.set(Weather::Clear);
        let mut stream = TcpStream::connect(link.address).unwrap();
        stream.write_all(b"c").unwrap();
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"c");
    }
}
