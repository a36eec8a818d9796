//! What each call is to do, chosen by the seed.

use std::time::Duration;

use longhaul_test::Random;
use serde_json::{Value, json};

use crate::mcp::Era;

/// Goes on where it was.
pub(super) const FLOW: &str = "flow";
/// The same, and is forgotten soon after its end.
pub(super) const BRIEF: &str = "brief";
/// The same, and fails when its time since its creation is up, which is before it has ended.
pub(super) const TIMED: &str = "timed";
/// Begins anew.
pub(super) const AGAIN: &str = "again";
/// Is lost with its process.
pub(super) const NEVER: &str = "never";

/// Is called by who waits for what it comes to and knows nothing of tasks.
pub(super) const QUICK: &str = "quick";

/// Is a command, which outlives whoever has started it.
pub(super) const COMMAND: &str = "command";

/// How long a task of [`BRIEF`] is kept after its end.
pub(super) const KEPT: Duration = Duration::from_secs(3);

/// How long a task of [`TIMED`] has.
pub(super) const TIME: Duration = Duration::from_secs(2);

/// For how long what has come of it is kept at least, by a node of ours.
pub(super) const KEPT_AFTER_TIME: Duration = Duration::from_secs(1);

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// Names the file of its effects.
    pub(super) key: String,
    pub(super) tool: &'static str,
    /// Its caller's.
    pub(super) era: Era,
    /// What it does, in order.
    pub(super) words: Vec<Word>,
    /// How long after it was made it is cancelled. It does not end before by itself.
    pub(super) cancelled: Option<Duration>,
}

/// A letter and a number, in milliseconds where it is a time.
///
/// `p` `l` `m` `r` `c` are steps: pure, at least once, at most once, asked after, and undone if the task fails. `a` asks,
/// `s` sleeps, `w` has its effect without a step, `k` makes so many tasks and waits for them, `x` is all that a command does,
/// and `f` fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Word(pub(super) char, pub(super) u64);

impl Order {
    /// The call of this number.
    pub(super) fn of(seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed).part(1_000_000 + number as u64);
        let mut cancelled = None;
        let (tool, plan) = match random.below(100) {
            0..30 => (FLOW, steps(&mut random)),
            30..50 => {
                let ask = if random.percent(20) { "a0 a0" } else { "a0" };
                // Whoever sleeps after it has heard is told again.
                let later = if random.percent(50) { "s400 " } else { "" };
                (FLOW, format!("l{} {ask} {later}r{}", random.below(20), random.below(20)))
            }
            50..60 => (FLOW, format!("c{} c{} f0", random.below(30), random.below(30))),
            60..70 => (FLOW, format!("l5 k{} r{}", random.between(1, 4), random.below(20))),
            70..80 => {
                cancelled = Some(Duration::from_millis(random.below(900)));
                let last = ["s600000", "l600000", "a0", "k1"][random.index(4)];
                let plan = format!("c{} {last}", random.below(30));
                match random.below(10) {
                    // A function that is never entered again has neither steps nor children: it only works.
                    0 => (NEVER, "w600000".to_owned()),
                    1 => (COMMAND, "x600000".to_owned()),
                    _ => (FLOW, plan),
                }
            }
            80..85 => (BRIEF, format!("l{}", random.below(30))),
            85..90 => (AGAIN, format!("w{} w{}", random.below(60), random.below(60))),
            90..94 => (NEVER, format!("w{} w{}", random.below(60), random.below(60))),
            94..96 => (COMMAND, format!("x{}", random.below(900))),
            96..98 => {
                let last = ["s600000", "l600000"][random.index(2)];
                (TIMED, format!("c{} c{} {last}", random.below(30), random.below(30)))
            }
            _ => (FLOW, format!("l5 s{} r5", random.between(100, 1500))),
        };
        // What is kept briefly is, in a session, from when it was made.
        let in_session = random.percent(40) && ![BRIEF, TIMED].contains(&tool);
        let era = if in_session { Era::D2 } else { Era::D3 };
        Self { key: format!("t{number:06}"), tool, era, words: words(&plan), cancelled }
    }

    /// What the child of this number does that the word at this place makes.
    pub(super) fn child(&self, at: usize, number: u64) -> Self {
        let plan = if self.cancelled.is_some() { "s600000" } else { "l10" };
        Self {
            key: format!("{}-{at}-{number}", self.key),
            tool: FLOW,
            era: self.era,
            words: words(plan),
            cancelled: self.cancelled,
        }
    }

    /// All that it makes.
    pub(super) fn children(&self) -> Vec<Self> {
        let places = self.words.iter().enumerate().filter(|(_, word)| word.0 == 'k');
        places.flat_map(|(at, word)| (0..word.1).map(move |number| self.child(at, number))).collect()
    }

    pub(super) fn plan(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|Word(what, much)| format!("{what}{much}")).collect();
        words.join(" ")
    }

    /// Whether its task is there for who asks so: nobody in a session could read one of the extension.
    pub(super) fn is_seen_in(&self, era: Era) -> bool {
        era == Era::D3 || self.era == Era::D2
    }

    /// What it is called with.
    pub(super) fn arguments(&self) -> Value {
        match self.words.first() {
            Some(Word('x', much)) => {
                json!({"key": self.key, "seconds": format!("{}", *much as f64 / 1000.0)})
            }
            _ => json!({"key": self.key, "plan": self.plan(), "endless": self.cancelled.is_some()}),
        }
    }

    /// What the call is known by to the servers. Nobody can guess it, as far as they can tell.
    pub(super) fn call_key(&self, seed: u64) -> String {
        format!("load-{seed:016x}-{}", self.key)
    }

    /// For how long its task is kept after its end at least, if that is so short that it may be gone before somebody looks.
    pub(super) fn kept(&self) -> Option<Duration> {
        match self.tool {
            BRIEF => Some(KEPT),
            TIMED => Some(KEPT_AFTER_TIME),
            _ => None,
        }
    }

    /// Whether it ends as a failure, by its own words.
    pub(super) fn fails(&self) -> bool {
        self.words.contains(&Word('f', 0))
    }
}

/// The words of a plan; what is none is left out.
pub(super) fn words(plan: &str) -> Vec<Word> {
    let word = |text: &str| {
        let mut letters = text.chars();
        Some(Word(letters.next()?, letters.as_str().parse().ok()?))
    };
    plan.split(' ').filter_map(word).collect()
}

fn steps(random: &mut Random) -> String {
    let count = random.between(1, 5);
    let step = |_| format!("{}{}", ['p', 'l', 'm', 'r', 'c'][random.index(5)], random.below(40));
    (0..count).map(step).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_orders_and_they_are_mixed() {
        let orders = |seed| (0..2000).map(move |number| Order::of(seed, number));
        let told = |seed| orders(seed).map(|order| order.plan()).collect::<Vec<_>>();
        assert_eq!(told(7), told(7));
        assert_ne!(told(7), told(8));
        for letter in "plmrcaswkxf".chars() {
            assert!(orders(7).any(|order| order.words.iter().any(|word| word.0 == letter)), "{letter}");
        }
        for tool in [FLOW, BRIEF, TIMED, AGAIN, NEVER, COMMAND] {
            assert!(orders(7).any(|order| order.tool == tool), "{tool}");
        }
        let asks = |order: &Order| order.words.iter().any(|word| word.0 == 'a');
        assert!(Era::BOTH.into_iter().all(|era| orders(7).any(|order| order.era == era && asks(&order))));
        assert!(orders(7).all(|order| words(&order.plan()) == order.words));
    }
}
