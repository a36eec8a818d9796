//! Counts the primes below a limit in twenty parts, and says after each how far it is.

use std::{env, process::ExitCode};

use primes::is_prime;

const PARTS: u64 = 20;

fn main() -> ExitCode {
    let Some(limit) = env::args().nth(1).and_then(|limit| limit.parse::<u64>().ok()) else {
        eprintln!("usage: primes LIMIT");
        return ExitCode::FAILURE;
    };
    let mut count = 0;
    let mut start = 0;
    for part in 1..=PARTS {
        // In 128 bits the product cannot overflow, and the quotient is at most `limit`.
        let end = (u128::from(limit) * u128::from(part) / u128::from(PARTS)) as u64;
        count += (start..end).filter(|n| is_prime(*n)).count();
        start = end;
        println!("{part}/{PARTS} {count} primes below {end}");
    }
    ExitCode::SUCCESS
}
