//! What is served to people and scripts beside the endpoint: pages of somebody else's making, at paths of their own.
//!
//! Host and Origin are checked before, as for everything here. Whether a stranger sees anything is for the pages to say:
//! a person at a browser has no header to show.

use std::fmt;

use bytes::Bytes;
use http::header::{AUTHORIZATION, SET_COOKIE};
use http::{Method, Request, Response};
use longhaul_tasks::environment::BoxFuture;
use tokio::sync::mpsc;

use super::answer::Body;
use super::head::Head;
use super::peer::Known;
use super::route::RequestBody;
use super::waiting::Standing;
use super::{Endpoint, door, post};
use crate::server::Caller;

/// The longest body of a request for a page, in bytes.
pub const LONGEST_FORM: usize = 1 << 20;

/// Serves pages at paths of their own. The endpoint and whatever signs callers in come before them.
pub trait Pages: fmt::Debug + Send + Sync + 'static {
    /// Whether one of them answers this method at `path`. What is not theirs is answered as if there were none.
    fn has(&self, method: &Method, path: &str) -> bool;

    /// Answers a request of `visitor`: who it is proven to be, by its credential or by the socket that it came by. `None`
    /// proves nothing, and is not let in by that alone.
    ///
    /// The request is for one of our names and from no foreign page of the web, which another origin of this machine may
    /// pass for; its body has [`LONGEST_FORM`] bytes at most. Dropping the future is that the visitor is gone. Whoever shows
    /// a credential in a place of the pages' own that lets nobody in is answered with [`WrongCredential`].
    fn answer(&self, visitor: Option<Caller>, request: Request<Bytes>) -> BoxFuture<'_, Response<PageBody>>;
}

/// Among the extensions of an answer: what its visitor showed, in a form or a cookie, does not count. Where callers sign in
/// it is counted with the tokens that do not, by address, and answered as those are (429) when there were too many; what the
/// answer sets as cookies is set then, too.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it is a mark and nothing else")]
pub struct WrongCredential;

/// What a page is.
#[derive(Debug)]
#[non_exhaustive]
pub enum PageBody {
    /// All of it.
    Whole(Bytes),
    /// Pieces as they come, until the sender is gone. It finds its channel closed once the visitor is. A server with no
    /// place left for others may end such a stream: its reader opens it again.
    Pieces(mpsc::Receiver<Bytes>),
}

/// The pages that a request is for.
pub(super) fn at<'a>(endpoint: &'a Endpoint, head: &Head<'_>) -> Option<&'a dyn Pages> {
    let (pages, path) = (endpoint.options.pages.as_deref()?, head.path());
    (path != endpoint.options.path && pages.has(head.method, path)).then_some(pages)
}

/// Answers a request for a page.
pub(super) async fn answer(
    pages: &dyn Pages,
    endpoint: &Endpoint,
    known: Known,
    head: &Head<'_>,
    body: impl RequestBody,
) -> Response<Body> {
    let visitor = match visitor(endpoint, known.clone(), head).await {
        Ok(visitor) => visitor,
        Err(refusal) => return *refusal,
    };
    let body = match post::read(endpoint, head, body, LONGEST_FORM).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let mut request = Request::new(body);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    let (mut parts, body) = pages.answer(visitor, request).await.into_parts();
    if parts.extensions.remove::<WrongCredential>().is_some()
        && let Some(mut refusal) = door::shown_in_vain(endpoint, &known)
    {
        // A cookie that is taken back is taken back all the same.
        for cookie in parts.headers.get_all(SET_COOKIE) {
            refusal.headers_mut().append(SET_COOKIE, cookie.clone());
        }
        return refusal;
    }
    let body = match body {
        PageBody::Whole(bytes) => Body::Whole(Some(bytes)),
        PageBody::Pieces(pieces) => {
            parts.extensions.insert(Standing("pages".into()));
            Body::Pieces(pieces)
        }
    };
    Response::from_parts(parts, body)
}

/// Who asks, if that is proven. Where credentials count, one that is shown has to.
async fn visitor(
    endpoint: &Endpoint,
    known: Known,
    head: &Head<'_>,
) -> Result<Option<Caller>, Box<Response<Body>>> {
    if door::is_guarded(endpoint) && !head.headers.contains_key(AUTHORIZATION) {
        return Ok(None);
    }
    let caller = door::admit(endpoint, head, known).await?;
    Ok(Some(caller).filter(|caller| caller.principal.is_some()))
}
