//! What is noted of what is said is enough to find what is wrong with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(debug_assertions)]

use std::future::{Ready, ready};
use std::path::PathBuf;
use std::process::Command;
use std::task::{Context, Poll};

use longhaul::Server;
use longhaul::proto::dialect::{Dialect, Revision};
use longhaul::proto::jsonrpc::{Limits, Message};
use longhaul::proto::method::Method;
use longhaul::proto::model::CacheScope;
use longhaul::server::{Caller, Dispatched, Exchange};
use longhaul::service::{BoxError, Level, Next, Request, Response};
use longhaul_test::wire::{Held, hold};
use serde_json::Value;
use tower_layer::layer_fn;
use tower_service::Service;

/// A layer that answers every request with a list of tools, whatever that is.
#[derive(Clone)]
struct Listing(Value);

impl Service<Request> for Listing {
    type Response = Response;
    type Error = BoxError;
    type Future = Ready<Result<Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        ready(Ok(request.answer(|result| {
            result.field("tools", &self.0);
            result.cacheable(0, CacheScope::Private);
        })))
    }
}

/// Answers with this list of tools in every revision.
fn list(tools: &str) {
    let tools: Value = serde_json::from_str(tools).unwrap();
    let listing = layer_fn(move |_: Next| Listing(tools.clone()));
    let dispatcher = Server::new("noted", "1.0.0").layer(Level::Server, listing).dispatcher().unwrap();
    let message = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let Message::Request(request) = Message::decode(message, &Limits::default()).unwrap() else { panic!() };
    for dialect in Revision::ALL.into_iter().map(Dialect::of) {
        let caller = Caller::new(None);
        let exchange = Exchange::new(&request.id, dialect, Method::ListTools, &request.params, caller);
        assert!(matches!(dispatcher.dispatch(exchange, &mut Vec::new()), Dispatched::Answered(_)));
    }
}

/// What is found in the notes of a process that answers with this list of tools.
fn held(test: &str, tools: &str) -> Held {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let mut inner = Command::new(std::env::current_exe().unwrap());
    let ended =
        inner.args([test, "--exact"]).env(INNER, tools).env("LONGHAUL_WIRE", &folder).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    let held = hold(&folder, true).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    held
}

const INNER: &str = "LONGHAUL_TEST_WIRE";

#[test]
fn an_invalid_message_of_ours_is_found_out() {
    if let Ok(tools) = std::env::var(INNER) {
        return list(&tools);
    }
    let test = "an_invalid_message_of_ours_is_found_out";
    let good = held(test, "[]");
    assert_eq!((good.messages, good.invalid.len()), (Revision::ALL.len(), 0), "{good:?}");
    let bad = held(test, "[{}]");
    assert_eq!((bad.messages, bad.invalid.len()), (Revision::ALL.len(), Revision::ALL.len()), "{bad:?}");
    assert!(bad.invalid.iter().all(|found| found.contains(test)), "its test is named: {bad:?}");
}
