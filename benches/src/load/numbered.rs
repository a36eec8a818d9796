//! Messages that differ in one number only.

/// The number of the first call. Every number has seven digits, so that messages have one length.
pub(crate) const FIRST: u32 = 1_000_000;

/// How many calls can be numbered.
pub(crate) const MOST: u32 = 9_000_000;

const DIGITS: usize = 7;

/// A message in which a call's number stands at known places.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Numbered {
    /// The message `bytes` of call `number`, as the pattern of the messages of all others.
    pub(crate) fn learn(bytes: Vec<u8>, number: u32) -> Self {
        let places = memchr::memmem::find_iter(&bytes, &digits(number)).collect();
        Self { bytes, places }
    }

    /// How many times the number stands in it.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// The message of call `number`.
    pub(crate) fn of(&mut self, number: u32) -> &[u8] {
        let digits = digits(number);
        for place in &self.places {
            self.bytes[*place..*place + DIGITS].copy_from_slice(&digits);
        }
        &self.bytes
    }

    /// Whose message `found` is, if it is one of these.
    pub(crate) fn number_in(&mut self, found: &[u8]) -> Option<u32> {
        let place = *self.places.first()?;
        let number = found
            .get(place..place + DIGITS)?
            .iter()
            .try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0')))?;
        (self.of(number) == found).then_some(number)
    }

    /// The pattern, with its first message in it.
    pub(crate) fn into_text(mut self) -> String {
        String::from_utf8_lossy(self.of(FIRST)).into_owned()
    }
}

fn digits(number: u32) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_its_number_and_by_nothing_else() {
        let mut learned = Numbered::learn(b"<1000000:call 1000000>".to_vec(), FIRST);
        assert_eq!(learned.places(), 2);
        assert_eq!(learned.of(1_234_567), b"<1234567:call 1234567>");
        assert_eq!(learned.number_in(b"<7654321:call 7654321>"), Some(7_654_321));
        for wrong in ["<7654321:call 7654322>", "<7654321:call 7654321]", "<765432x:call 765432x>", "<76"] {
            assert_eq!(learned.number_in(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
