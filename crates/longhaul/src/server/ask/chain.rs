//! The states of one call, which follow one another until one of them is spent.

use std::time::Duration;

use super::held::Nonce;
use crate::seal::{self, random};

/// Names the states of a call. Those that follow without an effect in between have one name, so that whichever of them
/// is brought first is the only one to have an effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Chain {
    pub(super) nonce: Nonce,
    /// When the first of them was given, since 1970.
    began: Duration,
}

/// How many times [`patience`](super::RoundOptions::patience) the states of a call are good for in all. A spent state is
/// remembered for as long, so it has to end.
const LONGEST: u32 = 4;

/// How much longer it is remembered, for clocks differ.
const SLACK: Duration = Duration::from_secs(60);

impl Chain {
    pub(super) fn begin() -> Self {
        // What is kept is a number of milliseconds.
        let began = Duration::from_millis(millis(seal::now()));
        Self { nonce: random(), began }
    }

    /// How long a state is good for that is given now.
    pub(super) fn lasting(self, patience: Duration) -> Duration {
        patience.min(self.ends(patience).saturating_sub(seal::now()))
    }

    /// How long it is until no state is good any more.
    pub(super) fn outlasting(self, patience: Duration) -> Duration {
        self.ends(patience).saturating_sub(seal::now()).saturating_add(SLACK)
    }

    fn ends(self, patience: Duration) -> Duration {
        self.began.saturating_add(patience.saturating_mul(LONGEST))
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&millis(self.began).to_le_bytes());
    }

    /// What was encoded, and what comes after it.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (nonce, bytes) = bytes.split_first_chunk()?;
        let (began, bytes) = bytes.split_first_chunk()?;
        let began = Duration::from_millis(u64::from_le_bytes(*began));
        Some((Self { nonce: *nonce, began }, bytes))
    }
}

/// Milliseconds, as they are written.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn no_state_of_a_call_is_good_when_it_is_no_longer_known_which_was_spent() {
        let chain = Chain::begin();
        assert_eq!(chain.lasting(MINUTE), MINUTE);
        assert!(chain.outlasting(MINUTE) > 3 * MINUTE);
        for ago in [MINUTE, 3 * MINUTE + MINUTE / 2, 4 * MINUTE, 50 * MINUTE] {
            let old = Chain { began: chain.began.saturating_sub(ago), ..chain };
            assert!(old.lasting(MINUTE) < old.outlasting(MINUTE), "{ago:?}");
        }
        let over = Chain { began: chain.began.saturating_sub(4 * MINUTE), ..chain };
        assert_eq!(over.lasting(MINUTE), Duration::ZERO);
    }

    #[test]
    fn a_chain_is_read_as_it_was_written() {
        let chain = Chain::begin();
        let mut bytes = Vec::new();
        chain.encode(&mut bytes);
        bytes.push(7);
        assert_eq!(Chain::decode(&bytes), Some((chain, &[7][..])));
        assert_eq!(Chain::decode(&bytes[..20]), None);
    }
}
