//! Jobs of an HTTP API as durable tools: started once, followed whatever becomes of this process, cancelled for sure.
//!
//! Before anything is sent the store has the task and, in its registry, an entry that says so (`ledger`). The start
//! carries the task's id as its key, so that a start which was sent and not recorded is sent again and starts nothing
//! more. What the API calls the job is recorded next, and asked after until it has ended; one future a job waits
//! meanwhile, and no thread. Before a long wait it says so, and its task may be put aside: whoever takes that up finds in the
//! entry what is known of the job, and looks at once. The entry goes once the task has ended and the API knows.

mod callback;
mod client;
mod end;
mod follow;
mod follower;
mod job;
mod jobs;
mod ledger;
mod outcome;
mod patience;
mod start;

pub use callback::{Called, Tokens};
pub use client::Http;
pub use end::keep_tidy;
pub use job::JobOverHttp;
pub use jobs::Jobs;
pub use ledger::Ledger;
