//! Durations as people write them: `2s`, `1h30m`, `7d`.

use std::time::Duration;

use thiserror::Error;

/// Reads a duration: whole numbers, each with one of the units `ms`, `s`, `m`, `h`, `d`, the largest first.
///
/// # Errors
///
/// When the text is not of that form or the duration is longer than about 584 million years.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use longhaul_gateway::config::parse_duration;
///
/// assert_eq!(parse_duration("1h30m")?, Duration::from_secs(5400));
/// assert!(parse_duration("90").is_err());
/// # Ok::<(), longhaul_gateway::config::DurationError>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut total = 0_u64;
    let mut previous = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if number.is_empty() || (unit.is_empty() && !tail.is_empty()) {
            return Err(DurationError::Malformed);
        }
        if unit.is_empty() {
            return Err(DurationError::NoUnit { number: number.to_owned() });
        }
        let millis = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, millis)| *millis)
            .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned() })?;
        if millis >= previous {
            return Err(DurationError::Order);
        }
        previous = millis;
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(millis))
            .and_then(|part| total.checked_add(part))
            .ok_or(DurationError::TooLong)?;
        rest = tail.trim_start();
    }
    Ok(Duration::from_millis(total))
}

/// Writes a duration as [`parse_duration`] reads it, to the millisecond.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, millis) in UNITS {
        if rest >= millis {
            text.push_str(&format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    text
}

/// Why a text is not a duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurationError {
    /// Nothing was written.
    #[error("is empty")]
    Empty,
    /// A number stands without a unit.
    #[error("has no unit")]
    NoUnit {
        /// The number that lacks one.
        number: String,
    },
    /// A unit is none of ours.
    #[error("has the unknown unit `{unit}`")]
    UnknownUnit {
        /// The unit as written.
        unit: String,
    },
    /// A smaller unit stands before a larger one, or one stands twice.
    #[error("does not go from larger units to smaller ones")]
    Order,
    /// The duration does not fit.
    #[error("is too long to count")]
    TooLong,
    /// Something else than whole numbers with units.
    #[error("is not whole numbers with units")]
    Malformed,
}

/// The form of a duration as a pattern, but for the order of its units.
pub(super) fn pattern() -> String {
    format!(r"^\s*([0-9]+\s*({})\s*)+$", UNITS.map(|(name, _)| name).join("|"))
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(parse_duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_duration("1d 2h 3m 4s 5ms"), Ok(Duration::from_millis(93_784_005)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        assert_eq!(parse_duration(" "), Err(DurationError::Empty));
        assert_eq!(parse_duration("30"), Err(DurationError::NoUnit { number: "30".into() }));
        assert_eq!(parse_duration("2 weeks"), Err(DurationError::UnknownUnit { unit: "weeks".into() }));
        assert_eq!(parse_duration("30m1h"), Err(DurationError::Order));
        assert_eq!(parse_duration("1h1h"), Err(DurationError::Order));
        assert_eq!(parse_duration("99999999999999999999d"), Err(DurationError::TooLong));
        assert_eq!(parse_duration("1.5h"), Err(DurationError::Malformed));
        assert_eq!(parse_duration("-1s"), Err(DurationError::Malformed));
        assert_eq!(parse_duration("soon"), Err(DurationError::Malformed));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for millis in [0, 1, 999, 1_000, 90_000, 5_400_000, 604_800_000, 604_799_999] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
