//! A call whose panic becomes an answer.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use longhaul_proto::jsonrpc::ErrorObject;
use longhaul_proto::model::CallToolResult;

use super::tool::ToolFuture;

/// A tool's future that ends with `-32603` instead of unwinding: one call's bug must not end the
/// connection that carries the others.
///
/// Nothing of ours is reached through the future after it has panicked, so unwind safety is asserted.
pub(super) struct Caught(ToolFuture);

impl Caught {
    /// The same of a call that is under way.
    pub(super) fn of(call: ToolFuture) -> Self {
        Self(call)
    }

    /// Starts a call, catching a panic in its first, synchronous part too.
    ///
    /// # Errors
    ///
    /// What `call` refuses.
    pub(super) fn start(
        call: impl FnOnce() -> Result<ToolFuture, CallToolResult>,
    ) -> Result<Self, CallToolResult> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(started) => started.map(Self),
            Err(panic) => Ok(Self(Box::pin(std::future::ready(Err(told(&*panic)))))),
        }
    }
}

impl Future for Caught {
    type Output = Result<CallToolResult, ErrorObject>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx)))
            .unwrap_or_else(|panic| Poll::Ready(Err(told(&*panic))))
    }
}

/// The future that undoes a step, whose panic is an error of that step: what else is to be undone must not suffer.
pub(super) async fn undoing(undoing: impl Future<Output = Result<(), String>> + Send) -> Result<(), String> {
    let mut undoing = pin!(undoing);
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| undoing.as_mut().poll(cx))).unwrap_or_else(|panic| {
            tracing::error!(panic = message(&*panic), "what undoes a step panicked");
            Poll::Ready(Err("what undoes it panicked".to_owned()))
        })
    })
    .await
}

/// The panic's message stays in the server's log: it may hold what the caller must not see.
fn told(panic: &(dyn Any + Send)) -> ErrorObject {
    tracing::error!(message = message(panic), "a tool panicked");
    ErrorObject::internal("internal error: the tool panicked")
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}
