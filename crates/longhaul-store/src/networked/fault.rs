//! What goes wrong within an operation, as far as what all stores do looks at it.

use std::fmt::Debug;

use crate::{StoreError, TaskId};

/// Why an attempt at an operation did not come to its end.
pub(crate) trait Fault: From<StoreError> + Debug + Send {
    /// What the contract refuses; or the fault, if it is of the server or of the way to it.
    fn refusal(self) -> Result<StoreError, Self>;
}

/// One damaged row must not stop the work on all others; whoever reads it is told.
pub(crate) fn pass_over<F: Fault>(id: &TaskId, fault: F) -> Result<(), F> {
    match fault.refusal()? {
        error @ StoreError::Corrupt { .. } => {
            tracing::error!(task = %id, %error, "a task is damaged and is passed over");
            Ok(())
        }
        refusal => Err(refusal.into()),
    }
}
