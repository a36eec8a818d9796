//! Sizes in bytes as people write them: `64KiB`, `16MiB`, `10GB`.

use thiserror::Error;

/// Reads a size: one whole number with one of the units `B`, `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024) or
/// `kB`, `KB`, `MB`, `GB`, `TB` (powers of 1000).
///
/// # Errors
///
/// When the text is not of that form or the size does not fit in 64 bits.
///
/// # Examples
///
/// ```
/// use longhaul_gateway::config::parse_size;
///
/// assert_eq!(parse_size("16MiB")?, 16 << 20);
/// assert!(parse_size("16M").is_err());
/// # Ok::<(), longhaul_gateway::config::SizeError>(())
/// ```
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    if number.is_empty() || unit.contains(|c: char| !c.is_ascii_alphabetic()) {
        return Err(SizeError::Malformed);
    }
    if unit.is_empty() {
        return Err(SizeError::NoUnit { number: number.to_owned() });
    }
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(|| SizeError::UnknownUnit { number: number.to_owned(), unit: unit.to_owned() })?;
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or(SizeError::TooLarge)
}

/// Writes a size in the largest unit that keeps the number whole.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift)
        .map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// Why a text is not a size.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeError {
    /// Nothing was written.
    #[error("is empty")]
    Empty,
    /// A number stands without a unit.
    #[error("has no unit")]
    NoUnit {
        /// The number that lacks one.
        number: String,
    },
    /// The unit is none of ours.
    #[error("has the unknown unit `{unit}`")]
    UnknownUnit {
        /// The number before it.
        number: String,
        /// The unit as written.
        unit: String,
    },
    /// The size does not fit.
    #[error("is too large to count")]
    TooLarge,
    /// Something else than a whole number with a unit.
    #[error("is not a whole number with a unit")]
    Malformed,
}

/// The form of a size as a pattern.
pub(super) fn pattern() -> String {
    format!(r"^\s*[0-9]+\s*({})\s*$", UNITS.map(|(name, _)| name).join("|"))
}

const UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_of_units_are_read() {
        assert_eq!(parse_size("10GiB"), Ok(10 << 30));
        assert_eq!(parse_size("10 GB"), Ok(10_000_000_000));
        assert_eq!(parse_size("0B"), Ok(0));
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        assert_eq!(parse_size(""), Err(SizeError::Empty));
        assert_eq!(parse_size("1024"), Err(SizeError::NoUnit { number: "1024".into() }));
        let unknown = SizeError::UnknownUnit { number: "16".into(), unit: "M".into() };
        assert_eq!(parse_size("16M"), Err(unknown));
        assert_eq!(parse_size("99999999TiB"), Err(SizeError::TooLarge));
        assert_eq!(parse_size("1.5MiB"), Err(SizeError::Malformed));
        assert_eq!(parse_size("big"), Err(SizeError::Malformed));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for bytes in [0, 1, 1023, 1024, 1536, 64 << 20, 10 << 30, u64::MAX] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
