//! What `cargo test` said, read from the lines that every test binary ends with.

use crate::tally::Tally;

/// The tests of a run: how many passed and failed, and which were left out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tests {
    /// The sum over all binaries.
    pub(crate) tally: Tally,
    /// Names of the tests that were ignored.
    pub(crate) ignored: Vec<String>,
    /// How many seconds each binary took, the slowest first.
    pub(crate) took: Vec<(f64, String)>,
}

impl Tests {
    /// Reads the output of `cargo test`. A run that failed without a failed test (a binary that did not build, or
    /// died) counts as one failure.
    pub(crate) fn read(lines: &[String], success: bool) -> Self {
        let mut tests = Self::default();
        let mut running = "";
        for line in lines {
            if let Some(binary) = binary(line) {
                running = binary;
            } else if let Some(counts) = line.strip_prefix("test result: ") {
                tests.tally += Tally { passed: count(counts, "passed"), failed: count(counts, "failed") };
                let seconds = counts.rsplit("finished in ").next().and_then(|took| took.strip_suffix('s'));
                tests.took.extend(seconds.and_then(|s| Some((s.parse().ok()?, running.to_owned()))));
            } else if let Some((name, outcome)) =
                line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
                && outcome.starts_with("ignored")
            {
                tests.ignored.push(format!("{name} ({outcome})"));
            }
        }
        if !success && tests.tally.failed == 0 {
            tests.tally += Tally::one(false);
        }
        tests.took.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        tests
    }
}

/// What cargo says that it runs: `name-0123456789abcdef`, or the crate whose documentation is tested.
fn binary(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let crate_name = line.strip_prefix("Doc-tests ");
    crate_name.or_else(|| Some(line.strip_prefix("Running ")?.rsplit('/').next()?.trim_end_matches(')')))
}

/// What `cargo test` said of what failed: the outputs of failed tests, the last words of a test binary that died, and
/// its own errors. Tests that pass may say much that looks like a failure.
pub(crate) fn failures(lines: &[String]) -> Vec<&str> {
    let mut failures: Vec<&str> = Vec::new();
    let mut begun = 0;
    let mut is_told = false;
    for (at, line) in lines.iter().enumerate() {
        if binary(line).is_some() {
            (begun, is_told) = (at, false);
            continue;
        }
        if line.starts_with("error: ") && line.contains("failed") && !is_told {
            let summed_up = lines[begun..at].iter().any(|line| line.starts_with("test result: "));
            let last_words = if summed_up { at } else { begun.max(at.saturating_sub(LAST_WORDS)) };
            failures.extend(lines[last_words..at].iter().map(String::as_str));
            is_told = true;
        }
        is_told |= line == "failures:";
        if is_told {
            failures.push(line);
        }
        is_told &= !line.starts_with("test result: ");
    }
    failures
}

/// How many lines of a test binary that died are its last words.
const LAST_WORDS: usize = 60;

/// The number before a word, as in `3 passed;`.
fn count(counts: &str, word: &str) -> usize {
    let words: Vec<&str> = counts.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, success: bool) -> Tests {
        Tests::read(&text.lines().map(str::to_owned).collect::<Vec<_>>(), success)
    }

    #[test]
    fn the_binaries_are_summed() {
        let tests = read(
            "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n\
             test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.02s",
            false,
        );
        assert_eq!(tests.tally, Tally { passed: 41, failed: 1 });
    }

    #[test]
    fn the_slowest_binary_comes_first() {
        let tests = read(
            "     Running unittests src/lib.rs (target/debug/deps/quick-0a)\ntest result: ok. 1 passed; finished in 0.02s\n\
             \x20    Running tests/slow/main.rs (target/debug/deps/slow-0b)\ntest result: ok. 1 passed; finished in 61.50s\n\
             \x20  Doc-tests middle\ntest result: ok. 1 passed; finished in 3.00s",
            true,
        );
        let took: Vec<(f64, &str)> = tests.took.iter().map(|(took, name)| (*took, name.as_str())).collect();
        assert_eq!(took, [(61.5, "slow-0b"), (3.0, "middle"), (0.02, "quick-0a")]);
    }

    #[test]
    fn a_run_that_died_fails_though_no_test_did() {
        let lines =
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(read(lines, false).tally, Tally { passed: 4, failed: 1 });
        assert_eq!(read(lines, true).tally, Tally { passed: 4, failed: 0 });
    }

    #[test]
    fn of_a_failed_run_what_failed_is_shown() {
        let said = "running 2 tests\nthread 'a' panicked on purpose\ntest a ... ok\ntest b ... FAILED\n\n\
                    failures:\n\n---- b stdout ----\nleft: 1\n\nfailures:\n    b\n\n\
                    test result: FAILED. 1 passed; 1 failed\n\nerror: test failed\n     Running x\n\
                    test c ... ok\ntest result: ok. 1 passed; 0 failed\nerror: 1 target failed:\n    `--test x`";
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        let told = failures(&lines);
        assert_eq!(told.first(), Some(&"failures:"));
        assert!(told.contains(&"left: 1") && told.contains(&"    `--test x`"), "{told:?}");
        assert!(told.iter().all(|line| !line.contains("purpose") && !line.contains("test c")), "{told:?}");
    }

    #[test]
    fn of_a_binary_that_died_the_last_words_are_shown() {
        let said =
            "     Running x\nrunning 1 test\nall is lost\nerror: test failed, to rerun pass `--test x`";
        let lines: Vec<String> = said.lines().map(str::to_owned).collect();
        assert_eq!(failures(&lines)[2..], ["all is lost", "error: test failed, to rerun pass `--test x`"]);
    }

    #[test]
    fn ignored_tests_are_named() {
        let tests =
            read("test a::b ... ignored, needs a server\ntest src/lib.rs - f (line 3) ... ignored", true);
        assert_eq!(tests.ignored, ["a::b (ignored, needs a server)", "src/lib.rs - f (line 3) (ignored)"]);
    }
}
