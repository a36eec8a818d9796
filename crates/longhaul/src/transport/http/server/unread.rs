//! What is left of a body whose request has its answer. A connection that ends while its client still writes is reset, and
//! the answer is lost with it: so the rest is taken in, and nothing of it is kept.

use std::time::Duration;

use http::header::EXPECT;
use http::{HeaderMap, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::runtime::Handle;

/// How many bytes more are taken in, and for how long. Whoever writes on then is not told.
const MOST: usize = 64 << 20;
const LONGEST: Duration = Duration::from_secs(5);

/// For how long the rest of a body is taken in, if it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unread(Option<Duration>);

impl Unread {
    /// Of a request with this head, whose body may take so long.
    pub(super) fn of(version: Version, headers: &HeaderMap, within: Duration) -> Self {
        // Who asks first whether to send it sends none once it has an answer, and over HTTP/2 no answer is lost.
        let comes = version < Version::HTTP_2 && !headers.contains_key(EXPECT);
        Self(comes.then_some(within.min(LONGEST)))
    }

    /// Takes in the rest of `body`.
    pub(super) fn take_in(self, mut body: Incoming) {
        let (Some(within), Ok(runtime)) = (self.0, Handle::try_current()) else { return };
        runtime.spawn(async move {
            let taken_in = async {
                let mut left = MOST;
                while let Some(Ok(frame)) = body.frame().await {
                    match left.checked_sub(frame.data_ref().map_or(0, bytes::Bytes::len)) {
                        Some(less) => left = less,
                        None => return,
                    }
                }
            };
            // The connection of who is slower ends.
            let _ = tokio::time::timeout(within, taken_in).await;
        });
    }
}
