//! What a server may ask of its client while it works on a request.

use super::elicitation::ElicitParams;
use super::sampling::CreateMessageParams;

/// A question of a server to its client: a request on the stream in a legacy session, an entry of
/// `inputRequests` in the modern era.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the specification's three")]
pub enum InputRequest {
    /// To the user.
    Elicit(ElicitParams),
    /// To the model.
    Sample(Box<CreateMessageParams>),
    /// Where the server may work.
    ListRoots,
}
