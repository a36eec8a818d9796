//! What a server logs while it works on a call, passed on to whoever made the call and wants to read it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul::Cx;
use longhaul::client::{Client, LogMessage};
use longhaul::proto::model::LoggingLevel;

use super::asking::Callers;

/// The log of one server.
pub(super) struct Log {
    server: String,
    callers: Callers,
    /// The least severe messages that it was asked for over this connection.
    asked: Mutex<Option<LoggingLevel>>,
}

impl Log {
    pub(super) fn new(server: &str, callers: Callers) -> Self {
        Self { server: server.to_owned(), callers, asked: Mutex::default() }
    }

    /// There is another connection, over which nothing was asked for.
    pub(super) fn begin_anew(&self) {
        *self.lock() = None;
    }

    /// Asks the server for what this caller wants to read, if nobody has asked for as much before. One that does not say
    /// that it logs, or does not heed it, is called all the same.
    pub(super) async fn ask_for(&self, cx: &Cx, client: &Client) {
        let Some(level) = cx.log_level().filter(|_| client.capabilities().logging) else { return };
        if let Some(before) = self.want(level) {
            match tokio::time::timeout(PATIENCE, client.set_log_level(level)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.refused(level, before);
                    tracing::debug!(server = self.server, %error, "a server does not log as it was asked");
                }
                // It may log so all the same, and no later call is to wait as long.
                Err(_) => tracing::debug!(server = self.server, "a server does not answer how it logs"),
            }
        }
    }

    /// Passes a message on to the caller of the call that it belongs to. Where that cannot be told, it is its operator's alone.
    pub(super) fn pass(&self, message: &LogMessage) {
        let logger = match &message.logger {
            Some(logger) => format!("{}/{logger}", self.server),
            None => self.server.clone(),
        };
        match self.callers.whose() {
            Some(cx) => cx.pass_log(message.level, Some(&logger), &message.data),
            None => {
                tracing::info!(logger, level = %message.level, data = message.data.get(), "a server logs");
            }
        }
    }

    /// What was asked for before, if that is more, which it then is no longer.
    fn want(&self, level: LoggingLevel) -> Option<Option<LoggingLevel>> {
        let mut asked = self.lock();
        asked.is_none_or(|asked| level < asked).then(|| asked.replace(level))
    }

    /// It does not log so: the next who wants that asks again, unless somebody has asked for more meanwhile.
    fn refused(&self, level: LoggingLevel, before: Option<LoggingLevel>) {
        let mut asked = self.lock();
        if *asked == Some(level) {
            *asked = before;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<LoggingLevel>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("server", &self.server)
            .field("asked", &self.lock())
            .finish_non_exhaustive()
    }
}

/// How long a server may take to say that it logs as it was asked.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_has_refused_is_asked_for_again() {
        let log = Log::new("files", Callers::default());
        assert_eq!(log.want(LoggingLevel::Info), Some(None));
        assert_eq!(log.want(LoggingLevel::Info), None, "it was asked for");
        let before = log.want(LoggingLevel::Debug).unwrap();
        log.refused(LoggingLevel::Debug, before);
        assert_eq!(log.want(LoggingLevel::Info), None, "as much it has agreed to");
        assert_eq!(log.want(LoggingLevel::Debug), Some(Some(LoggingLevel::Info)));
        log.refused(LoggingLevel::Info, None);
        assert_eq!(log.want(LoggingLevel::Debug), None, "somebody has asked for more since");
    }
}
