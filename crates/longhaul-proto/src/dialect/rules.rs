//! Every version question, as a named predicate.

use super::{Dialect, Era};

impl Dialect {
    /// Results carry `resultType`, and lists and reads carry how long they may be cached.
    pub fn types_results(&self) -> bool {
        self.era == Era::Modern
    }

    /// Every result may say in `_meta` which server made it.
    pub fn names_server_in_results(&self) -> bool {
        self.era == Era::Modern
    }

    /// `structuredContent` must be an object; later any JSON value will do.
    pub fn structures_objects_only(&self) -> bool {
        self.era == Era::Legacy
    }

    /// A caller asks for a task in `params.task`, and each tool says whether it may (D2).
    pub fn asks_for_tasks(&self) -> bool {
        self.era == Era::Legacy
    }

    /// The server decides what becomes a task, if the request declares the extension (D3).
    pub fn has_tasks_extension(&self) -> bool {
        self.era == Era::Modern
    }

    /// Messages about a task carry its id in `_meta` (D2).
    pub fn relates_messages_to_tasks(&self) -> bool {
        self.era == Era::Legacy
    }

    /// Progress goes on under the original token after a call has become a task (D2, not D3).
    pub fn reports_progress_of_tasks(&self) -> bool {
        self.era == Era::Legacy
    }

    /// Closing the answer's HTTP stream cancels the request.
    pub fn cancels_on_disconnect(&self) -> bool {
        self.era == Era::Modern
    }

    /// HTTP requests repeat method and name in headers, and errors choose the status.
    pub fn mirrors_headers(&self) -> bool {
        self.era == Era::Modern
    }
}
