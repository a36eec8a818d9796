//! Choices that a seed repeats (SplitMix64).

/// A source of choices: the same seed makes the same ones, on every machine.
///
/// ```
/// use longhaul_test::Random;
///
/// let choices = |mut random: Random| [random.below(1000), random.below(1000)];
/// assert_eq!(choices(Random::new(7)), choices(Random::new(7)));
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The choices of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Choices of their own, for the part of this number. Nothing is drawn for it.
    #[must_use]
    pub fn part(&self, number: u64) -> Self {
        let mut own = Self(self.0 ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        own.bits();
        own
    }

    /// Choices of their own, for another part each time.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.bits())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// A number from `start` to before `end`.
    pub fn between(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end.saturating_sub(start))
    }

    /// Whether something happens that happens so often in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// An index of a list of this length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// One of these, of which there is at least one.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_choices_and_parts_differ() {
        let choices = |mut random: Random| (0..8).map(|_| random.below(1000)).collect::<Vec<_>>();
        assert_eq!(choices(Random::new(7)), choices(Random::new(7)));
        assert_ne!(choices(Random::new(7)), choices(Random::new(8)));
        assert_ne!(choices(Random::new(7).part(1)), choices(Random::new(7).part(2)));
        let mut whole = Random::new(7);
        assert_ne!(choices(whole.split()), choices(whole.split()));
    }
}
