//! Primes, found in two ways that must agree.

/// Whether `n` is prime, by dividing it by everything that could divide it.
pub fn is_prime(n: u64) -> bool {
    n == 2
        || (n > 2
            && !n.is_multiple_of(2)
            && (3..).step_by(2).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d)))
}

/// All primes below `limit`, by the sieve of Eratosthenes.
pub fn sieve(limit: usize) -> Vec<u64> {
    let mut composite = vec![false; limit];
    let mut primes = Vec::new();
    for n in 2..limit {
        if !composite[n] {
            primes.push(n as u64);
            (n * n..limit).step_by(n).for_each(|multiple| composite[multiple] = true);
        }
    }
    primes
}
