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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use http_body::{Body, Frame};

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
}
