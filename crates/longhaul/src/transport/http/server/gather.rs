//! A body of a request, made one piece of those that it comes in.

use std::pin::pin;

use bytes::{Buf, Bytes};
use http_body_util::BodyExt as _;

use super::reading;
use super::route::RequestBody;

/// Why a body is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lacking {
    /// It is longer than it may be.
    TooLong,
    /// It ended early.
    CutOff,
}

/// The whole body, of so many bytes at most. What comes in many pieces is copied as it comes: however small they are, and
/// whatever each keeps in memory, no more is kept than they say.
pub(super) async fn gather(
    body: impl RequestBody,
    limit: usize,
    reading: &reading::Body<'_>,
) -> Result<Bytes, Lacking> {
    let mut body = pin!(body);
    let (mut only, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame.map_err(|_| Lacking::CutOff)?.into_data() else { continue };
        let length = data.remaining();
        if length > limit - only.len() - all.len() {
            return Err(Lacking::TooLong);
        }
        reading.grow(length);
        if only.is_empty() && all.is_empty() {
            only = data.copy_to_bytes(length);
            continue;
        }
        let there = only.len() + all.len() + length;
        let to_come = body.size_hint().lower();
        if to_come > 0 && all.capacity() < there {
            all.reserve_exact(room(there, to_come, limit) - all.len());
        }
        all.extend_from_slice(&std::mem::take(&mut only));
        while data.has_remaining() {
            let chunk = data.chunk();
            all.extend_from_slice(chunk);
            let taken = chunk.len();
            data.advance(taken);
        }
    }
    // Room for more is not kept for as long as the request is.
    all.shrink_to_fit();
    Ok(if all.is_empty() { only } else { all.into() })
}

/// How much room is made for a body of which so much is there and so much is still to come, by its own word: so that it is not moved
/// again and again, and yet nobody who says much and sends little has the memory for it.
fn room(there: usize, to_come: u64, limit: usize) -> usize {
    let to_come = usize::try_from(to_come).unwrap_or(usize::MAX);
    there + to_come.min(limit - there).min(3 * there)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use http_body::{Body, Frame, SizeHint};

    use super::*;

    /// A piece that keeps much more than it is, as what was read of a connection does.
    struct Piece {
        text: [u8; 1],
        kept: Arc<()>,
    }

    impl AsRef<[u8]> for Piece {
        fn as_ref(&self) -> &[u8] {
            assert!(Arc::strong_count(&self.kept) <= 4, "no more than the first and the last are kept");
            &self.text
        }
    }

    /// A body that comes in pieces of one byte.
    struct Crumbs(VecDeque<u8>, Arc<()>);

    impl Body for Crumbs {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = self.0.pop_front().map(|byte| Piece { text: [byte], kept: Arc::clone(&self.1) });
            Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_owner(piece)))))
        }
    }

    async fn read(text: &str, limit: usize) -> Result<Bytes, Lacking> {
        let all = reading::Reading::new(100);
        gather(Crumbs(text.bytes().collect(), Arc::default()), limit, &all.begin()).await
    }

    #[tokio::test]
    async fn a_body_in_crumbs_keeps_none_of_them() {
        let long = "0123456789".repeat(10);
        for text in ["", "a", "ab", &long] {
            assert_eq!(read(text, 100).await.unwrap(), text);
        }
        assert_eq!(read(&long, 99).await, Err(Lacking::TooLong));
    }

    /// A body that says how long it will be, and ends after some pieces of so many bytes.
    struct Promising {
        said: u64,
        pieces: usize,
        bytes: usize,
    }

    impl Body for Promising {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.pieces == 0 {
                return Poll::Ready(None);
            }
            self.pieces -= 1;
            self.said = self.said.saturating_sub(self.bytes as u64);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; self.bytes])))))
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.said)
        }
    }

    #[tokio::test]
    async fn a_body_that_says_its_length_is_read_whole_whatever_it_says() {
        let all = reading::Reading::new(100_000_000);
        for (said, pieces) in [(64_000, 64), (64_000, 2), (u64::MAX, 9), (1, 9)] {
            let body = Promising { said, pieces, bytes: 1_000 };
            let whole = gather(body, 10_000_000, &all.begin()).await.unwrap();
            assert_eq!(whole.len(), pieces * 1_000);
        }
    }

    #[test]
    fn what_is_promised_has_room_for_thrice_what_has_come() {
        assert_eq!((room(8, 2, 100), room(8, 92, 100), room(30, 70, 100)), (10, 32, 100));
        assert_eq!(room(30, u64::MAX, 100), 100, "nobody has more than is allowed");
    }
}
