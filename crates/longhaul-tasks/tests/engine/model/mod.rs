//! The machine and the projections against plain models, on stories that chance tells.
//!
//! `LONGHAUL_MODEL_CASES` is how many stories are told of each; a failure says the seed, for `LONGHAUL_MODEL_SEED`, and the
//! shortest story that fails. `cargo xtask fuzz` tells the same stories.

mod bytes;
mod call;
mod life;
mod shown;
mod task;

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError, TestError, TestRunner};

/// Tells so many stories of that many bytes at most.
fn tell(stories: u32, longest: usize, story: fn(&[u8]) -> Result<(), String>) {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let stories = number("LONGHAUL_MODEL_CASES").map_or(stories, |cases| u32::try_from(cases).unwrap());
    let seed = number("LONGHAUL_MODEL_SEED").unwrap_or_else(rand_seed);
    let config = ProptestConfig {
        cases: stories,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    };
    let bytes = prop::collection::vec(any::<u8>(), 0..longest);
    let told = TestRunner::new(config).run(&bytes, |bytes| story(&bytes).map_err(TestCaseError::fail));
    match told {
        Ok(()) => {}
        Err(TestError::Fail(why, bytes)) => {
            panic!("{why}\n\nThe bytes are {bytes:?}; LONGHAUL_MODEL_SEED={seed} tells it again.")
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Another one each time.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[test]
fn the_machine_does_what_the_rules_say() {
    tell(10_000, 40, call::story);
}

#[test]
fn whatever_the_machine_is_told_it_answers_once_and_is_silent_after_its_end() {
    tell(3_000, 40, call::anything);
}

#[test]
fn each_dialect_shows_what_the_table_says() {
    tell(4_000, 48, shown::story);
}

#[test]
fn tasks_live_as_the_model_says_and_each_dialect_sees_no_more_than_it_may() {
    tell(2_000, 240, life::story);
}
