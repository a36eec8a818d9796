//! In the place of `child` where the feature `child-process` is not on: no program is started, and who asks for one hears why.

use std::sync::Arc;

use tokio::io::{Empty, Sink};

use crate::client::Command;
use crate::client::error::Error;
use crate::client::table::Table;

/// There is none.
#[derive(Debug)]
pub(crate) enum Child {}

impl Child {
    /// # Errors
    ///
    /// [`Error::Target`], always.
    pub(crate) fn start(command: &Command, _: &Arc<Table>) -> Result<(Self, Empty, Sink), Error> {
        let reason = "this build starts no programs; turn on the feature `child-process`".to_owned();
        Err(Error::Target { target: command.program(), reason })
    }

    pub(crate) async fn end(&self) {
        match *self {}
    }

    pub(crate) async fn obituary(&self) -> Option<Error> {
        match *self {}
    }
}
