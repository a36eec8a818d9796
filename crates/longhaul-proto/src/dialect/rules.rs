//! Every version question, as a named predicate.

use super::{Dialect, Era, Revision};

impl Dialect {
    fn since(&self, first: Revision) -> bool {
        self.revision >= first
    }

    /// Results carry `resultType`, and lists and reads carry how long they may be cached.
    pub fn types_results(&self) -> bool {
        self.era == Era::Modern
    }

    /// Every result may say in `_meta` which server made it.
    pub fn names_server_in_results(&self) -> bool {
        self.era == Era::Modern
    }

    /// Tools have schemas of their results, and results structure.
    pub fn structures_results(&self) -> bool {
        self.since(Revision::V2025_06_18)
    }

    /// `structuredContent` must be an object; later any JSON value will do.
    pub fn structures_objects_only(&self) -> bool {
        self.era == Era::Legacy
    }

    /// The schema of a member of arguments or results may be `true` or `false`; before, it must be an object.
    pub fn has_boolean_schemas(&self) -> bool {
        self.era == Era::Modern
    }

    /// A caller asks for a task in `params.task`, and each tool says whether it may (D2).
    pub fn asks_for_tasks(&self) -> bool {
        self.revision == Revision::V2025_11_25
    }

    /// The server decides what becomes a task, if the request declares the extension (D3).
    pub fn has_tasks_extension(&self) -> bool {
        self.era == Era::Modern
    }

    /// Capabilities name extensions.
    pub fn has_extensions(&self) -> bool {
        self.era == Era::Modern
    }

    /// Messages about a task carry its id in `_meta` (D2).
    pub fn relates_messages_to_tasks(&self) -> bool {
        self.asks_for_tasks()
    }

    /// Progress goes on under the original token after a call has become a task (D2, not D3).
    pub fn reports_progress_of_tasks(&self) -> bool {
        self.asks_for_tasks()
    }

    /// Tools carry hints about how they behave.
    pub fn annotates_tools(&self) -> bool {
        self.since(Revision::V2025_03_26)
    }

    /// Things have names for people beside those for programs.
    pub fn titles(&self) -> bool {
        self.since(Revision::V2025_06_18)
    }

    /// Things have pictures.
    pub fn shows_icons(&self) -> bool {
        self.since(Revision::V2025_11_25)
    }

    /// Content can be a sound.
    pub fn has_audio(&self) -> bool {
        self.since(Revision::V2025_03_26)
    }

    /// Content can be a link to a resource.
    pub fn links_resources(&self) -> bool {
        self.since(Revision::V2025_06_18)
    }

    /// A server declares that it completes arguments.
    pub fn declares_completions(&self) -> bool {
        self.since(Revision::V2025_03_26)
    }

    /// Whoever asks for a completion says what is known of the other arguments.
    pub fn gives_context(&self) -> bool {
        self.since(Revision::V2025_06_18)
    }

    /// A server can ask its client's user.
    pub fn elicits(&self) -> bool {
        self.since(Revision::V2025_06_18)
    }

    /// A server can send its client's user to a page.
    pub fn elicits_by_url(&self) -> bool {
        self.since(Revision::V2025_11_25)
    }

    /// A form can let its user choose several things, and name each beside its value.
    pub fn names_choices(&self) -> bool {
        self.since(Revision::V2025_11_25)
    }

    /// Sending a user to a page has an id, for the word that it is done.
    pub fn names_elicitations(&self) -> bool {
        self.revision == Revision::V2025_11_25
    }

    /// A sampled message can have several blocks, and ask for tools.
    pub fn samples_with_tools(&self) -> bool {
        self.since(Revision::V2025_11_25)
    }

    /// A server asks its client by requests of its own; in the modern era by what it answers.
    pub fn asks_by_request(&self) -> bool {
        self.era == Era::Legacy
    }

    /// Several messages may stand in one array.
    pub fn batches(&self) -> bool {
        self.revision == Revision::V2025_03_26
    }

    /// A stream begins with an event without data, and may be closed for its client to come back to.
    pub fn primes_streams(&self) -> bool {
        self.revision == Revision::V2025_11_25
    }

    /// A stream that broke can be gone on with, from its last event.
    pub fn resumes_streams(&self) -> bool {
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
