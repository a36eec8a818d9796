//! The store's time: one line of milliseconds that never runs backwards.

use std::{fmt, ops::Range, time::Duration};

use serde::{Deserialize, Serialize};

/// A point in the store's time, in milliseconds since 1970-01-01T00:00:00Z.
///
/// Every date a task shows and every deadline it obeys is one of these, taken from its store and from no node's
/// own clock.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Time(i64);

impl Time {
    /// The point `ms` milliseconds after 1970.
    #[must_use]
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// The point `later` after this one; the end of time if there is none.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(later.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Time {
    /// The first that can be written, 0000-01-01T00:00:00.000Z.
    pub const FIRST_WRITTEN: Self = Self(-62_167_219_200_000);

    /// The last that can be written, 9999-12-30T22:00:00.999Z: soon after, it is the year 10,000 in some zone.
    pub const LAST_WRITTEN: Self = Self(253_402_207_200_999);

    /// As RFC 3339 writes it, in UTC and to the millisecond; what cannot be written so is the nearest that can.
    ///
    /// ```
    /// use longhaul_store::Time;
    /// assert_eq!(Time::from_unix_ms(1_785_241_800_005).rfc3339(), "2026-07-28T12:30:00.005Z");
    /// assert_eq!(Time::from_unix_ms(i64::MAX).rfc3339(), "9999-12-30T22:00:00.999Z");
    /// ```
    #[must_use]
    pub fn rfc3339(self) -> String {
        let Self(at) = self.clamp(Self::FIRST_WRITTEN, Self::LAST_WRITTEN);
        let (year, month, day) = date(at.div_euclid(DAY));
        let ms = at.rem_euclid(DAY);
        // A look at a task writes two of these: `format!` would be a twentieth of what it takes, and characters one by one
        // a thirtieth.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |place: Range<usize>, mut number: i64| {
            for digit in text[place].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(0..4, year);
        put(5..7, month);
        put(8..10, day);
        put(11..13, ms / 3_600_000);
        put(14..16, ms / 60_000 % 60);
        put(17..19, ms / 1000 % 60);
        put(20..23, ms % 1000);
        str::from_utf8(&text).expect("digits and what is between them are text").to_owned()
    }
}

/// A day, in milliseconds.
const DAY: i64 = 86_400_000;

/// Year, month and day of what is so many days after 1970 began, by the calendar in use today.
fn date(days: i64) -> (i64, i64, i64) {
    // Counted from 1 March of the year 0, for a leap day is then the last of its year, its century and its 400 years.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days, and so have the next five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year + 400 * cycle, month, day)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_time_do_not_wrap() {
        assert_eq!(Time::from_unix_ms(i64::MAX).after(Duration::MAX).unix_ms(), i64::MAX);
        assert_eq!(Time::from_unix_ms(0).since(Time::from_unix_ms(5)), Duration::ZERO);
        assert_eq!(Time::from_unix_ms(i64::MIN).since(Time::from_unix_ms(i64::MAX)), Duration::ZERO);
    }

    #[test]
    fn a_time_is_written_as_everybody_reads_it() {
        let read = |time: Time| {
            let read: jiff::Timestamp = time.rfc3339().parse().unwrap();
            Time::from_unix_ms(read.as_millisecond())
        };
        let (first, last) = (Time::FIRST_WRITTEN.unix_ms(), Time::LAST_WRITTEN.unix_ms());
        // Steps of 97 days less a little meet each day of a month and each hour of a day.
        for ms in (first..=last).step_by(86_399_999 * 97).chain([-1, 0, 951_782_399_999, last]) {
            assert_eq!(read(Time::from_unix_ms(ms)), Time::from_unix_ms(ms));
        }
        assert_eq!(jiff::Timestamp::MAX.as_millisecond(), last);
        assert_eq!(Time::FIRST_WRITTEN.rfc3339(), "0000-01-01T00:00:00.000Z");
        assert_eq!(Time::from_unix_ms(i64::MIN).rfc3339(), Time::FIRST_WRITTEN.rfc3339());
    }
}
