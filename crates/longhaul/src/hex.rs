//! Random names as text.

/// Bytes as hexadecimal digits, which are visible ASCII.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_digits() {
        assert_eq!(hex(&[0, 1, 0x9a, 0xff]), "00019aff");
        assert_eq!(hex(&[]), "");
    }
}
