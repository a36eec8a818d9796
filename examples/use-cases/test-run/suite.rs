//! A hundred tests of a conjecture: every number is the sum of three squares. Whoever reads the log while they run knows at
//! the eighth that it is wrong.

use std::path::Path;
use std::thread;
use std::time::Duration;

fn holds(number: u32) {
    if number == 50 {
        // Some suites wait for a database to come up. This one waits for a file, which gives time to look at its log.
        while !Path::new("ready").exists() {
            thread::sleep(Duration::from_millis(20));
        }
    }
    let is_sum = |a: u32, b: u32| (0..=number).any(|c| a * a + b * b + c * c == number);
    let roots = || (0..).take_while(|root| root * root <= number);
    assert!(roots().any(|a| roots().any(|b| is_sum(a, b))), "{number} is not the sum of three squares");
}

macro_rules! tests {
    ($($tens:ident $first:literal)*) => { $(mod $tens { tests!($first: n0 0 n1 1 n2 2 n3 3 n4 4 n5 5 n6 6 n7 7 n8 8 n9 9); })* };
    ($first:literal: $($name:ident $more:literal)*) => { $(#[test] fn $name() { crate::holds($first + $more); })* };
}

tests!(t0 0 t1 10 t2 20 t3 30 t4 40 t5 50 t6 60 t7 70 t8 80 t9 90);
