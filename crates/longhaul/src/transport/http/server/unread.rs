//! What is left of a body whose request has its answer. A connection that ends while its client still writes is reset, and
//! the answer is lost with it: so the rest is taken in, and nothing of it is kept.

use std::time::Duration;

use http::header::EXPECT;
use http::{HeaderMap, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::runtime::Handle;

use super::waiting::TakenIn;

/// How many bytes more are taken in, and for how long. Whoever writes on then is not told.
const MOST: usize = 64 << 20;
const LONGEST: Duration = Duration::from_secs(5);

/// How the rest of a body is taken in, if it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unread {
    /// For how long. Over HTTP/2 no answer is lost.
    within: Option<Duration>,
    /// Its client sends it only once it is asked to.
    waits_to_be_asked: bool,
}

impl Unread {
    /// Of a request with this head, whose body may take so long.
    pub(super) fn of(version: Version, headers: &HeaderMap, within: Duration) -> Self {
        let within = (version < Version::HTTP_2).then_some(within.min(LONGEST));
        Self { within, waits_to_be_asked: headers.contains_key(EXPECT) }
    }

    /// Somebody has looked for the body, by which its client is asked to send it.
    pub(super) fn is_asked_for(&mut self) {
        self.waits_to_be_asked = false;
    }

    /// Takes in the rest of `body`, unless none comes. Its connection is not quiet meanwhile.
    pub(super) fn take_in(self, mut body: Incoming, taken_in: TakenIn) {
        let (Some(within), Ok(runtime)) = (self.within, Handle::try_current()) else { return };
        if self.waits_to_be_asked {
            return;
        }
        runtime.spawn(async move {
            let all = async {
                let mut left = MOST;
                while let Some(Ok(frame)) = body.frame().await {
                    match left.checked_sub(frame.data_ref().map_or(0, bytes::Bytes::len)) {
                        Some(less) => left = less,
                        None => return,
                    }
                }
            };
            // The connection of who is slower ends.
            let _ = tokio::time::timeout(within, all).await;
            drop(taken_in);
        });
    }
}
