//! The two ways of finding primes agree with each other and with what is known.

use primes::{is_prime, sieve};

#[test]
fn small_numbers_are_told_apart() {
    let found: Vec<u64> = (0..30).filter(|n| is_prime(*n)).collect();
    assert_eq!(found, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
}

#[test]
fn sieve_and_division_agree() {
    let divided: Vec<u64> = (0..200_000).filter(|n| is_prime(*n)).collect();
    assert_eq!(sieve(200_000), divided);
}

#[test]
fn sieve_counts_the_primes_below_a_million() {
    assert_eq!(sieve(1_000_000).len(), 78_498);
}
