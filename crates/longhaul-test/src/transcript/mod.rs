//! Transcripts: what is said on a connection, as data, with what would break the rule that it shows.
//!
//! A [`Row`] is one file: a rule, where it holds, and a conversation. [`play`] holds a server to it, or a client, over a
//! [`Leg`], be that a stepped core, a byte stream or HTTP, and gives what it has heard. [`breaches`] plays what was heard
//! again with something in it that would break the rule, which must be found out.

mod names;
mod play;
mod row;
mod schema;

pub use names::{Apart, Names};
pub use play::{Breach, Heard, Leg, Said, breaches, play};
pub use row::{Line, Over, Row, Words};
pub use schema::Book;
