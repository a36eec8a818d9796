//! Which requests a layer is for.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use longhaul_proto::method::Method;
use tower_layer::Layer;
use tower_service::Service;

use super::request::{Answering, BoxError, Next, Request, Response};

/// Which requests a layer is for.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Level {
    /// Every request.
    Server,
    /// Those of a method.
    Method(Method),
    /// Those of one item: of a tool or a prompt by its name, of a resource by its URI.
    #[non_exhaustive]
    Item {
        /// The method.
        method: Method,
        /// The item.
        name: String,
    },
}

impl Level {
    /// Requests of `method` for the item `name`.
    pub fn item(method: Method, name: impl Into<String>) -> Self {
        Self::Item { method, name: name.into() }
    }

    fn has(&self, request: &Request) -> bool {
        match self {
            Self::Server => true,
            Self::Method(method) => request.method() == *method,
            Self::Item { method, name } => {
                request.method() == *method && request.item() == Some(name.as_str())
            }
        }
    }
}

type Wrap = Box<dyn FnOnce(Next) -> Next + Send + Sync>;

/// The layers of a server that is being put together, the outermost first.
#[derive(Default)]
pub(crate) struct Layers(Vec<(Level, Wrap)>);

impl Layers {
    pub(crate) fn add<L>(&mut self, level: Level, layer: L)
    where
        L: Layer<Next> + Send + Sync + 'static,
        L::Service: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Error: Into<BoxError>,
        <L::Service as Service<Request>>::Future: Send,
    {
        self.0.push((level, Box::new(move |next| wrapped(layer.layer(next)))));
    }

    /// The way through them; `None` if there are none.
    pub(crate) fn finish(self) -> Option<Next> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.0.into_iter().rev().fold(Next::server(), |next, (level, wrap)| {
            let layered = wrap(next.clone());
            Next(Arc::new(move |request| {
                let way = if level.has(&request) { &layered } else { &next };
                (way.0)(request)
            }))
        }))
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(level, _)| level)).finish()
    }
}

fn wrapped<S>(service: S) -> Next
where
    S: Service<Request, Response = Response> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    Next(Arc::new(move |request| {
        let mut service = service.clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(request).await.map_err(Into::into)
        })
    }))
}

/// Sends a request through the layers.
pub(crate) fn run(way: &Next, request: Request) -> Answering {
    (way.0)(request)
}
