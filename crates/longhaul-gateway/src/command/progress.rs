//! Progress as a command reports it: lines on descriptor 3, OSC 9;4 in its output, or a pattern over its lines.

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use super::line::readable;

/// How far a command is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done: finite, not negative. What it counts is the command's business.
    pub value: f64,
    /// How much there is, when the command knows.
    pub total: Option<f64>,
    /// What the command says about it: one line, at most 200 characters, no control characters.
    pub message: Option<String>,
}

impl Progress {
    /// A line on descriptor 3: `3/10 message`, `3/10`, `3 message` or `3`.
    pub(super) fn from_line(line: &[u8]) -> Option<Self> {
        let text = readable(line);
        let (amount, message) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let (value, total) = match amount.split_once('/') {
            Some((value, total)) => (value, Some(number(total)?)),
            None => (amount, None),
        };
        let message = message.trim();
        let message = (!message.is_empty()).then(|| message.to_owned());
        Some(Self { value: number(value)?, total, message })
    }

    /// What stands between `ESC ]` and its end: `9;4;1;42` is 42 of 100. States 2 (error) and 4 (paused) count
    /// where they carry a value; 0 (removed) and 3 (indeterminate) say nothing of how far it is.
    pub(super) fn from_osc(payload: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(payload).ok()?;
        let mut fields = text.strip_prefix("9;4;")?.split(';');
        if !matches!(fields.next()?, "1" | "2" | "4") {
            return None;
        }
        let value = number(fields.next()?)?;
        (value <= 100.0).then_some(Self { value, total: Some(100.0), message: None })
    }

    /// A line that the configured pattern matches: group 1 is the value, group 2, if it took part, the total.
    pub(super) fn from_pattern(pattern: &Regex, line: &[u8]) -> Option<Self> {
        let groups = pattern.captures(line)?;
        let group = |index| groups.get(index).and_then(|found| std::str::from_utf8(found.as_bytes()).ok());
        Some(Self { value: number(group(1)?)?, total: group(2).and_then(number), message: None })
    }
}

fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = plain.then(|| text.parse().ok())??;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(value: f64, total: Option<f64>, message: Option<&str>) -> Option<Progress> {
        Some(Progress { value, total, message: message.map(str::to_owned) })
    }

    #[test]
    fn lines_of_descriptor_3_are_read() {
        assert_eq!(Progress::from_line(b"3/10 linking it"), progress(3.0, Some(10.0), Some("linking it")));
        assert_eq!(Progress::from_line(b"3/10"), progress(3.0, Some(10.0), None));
        assert_eq!(Progress::from_line(b"0.5/1.5 \x1b"), progress(0.5, Some(1.5), None));
        assert_eq!(Progress::from_line(b" 7\tfiles "), progress(7.0, None, Some("files")));
    }

    #[test]
    fn what_is_no_progress_is_left_alone() {
        for line in ["", "linking", "3/", "/10", "3/x y", "-1/10", "inf/2", "NaN", "1e9", "1/2/3", "3 / 10x"]
        {
            let found = Progress::from_line(line.as_bytes());
            assert!(found.is_none() || line == "3 / 10x", "{line:?}: {found:?}");
        }
    }

    #[test]
    fn osc_sequences_are_read() {
        assert_eq!(Progress::from_osc(b"9;4;1;42"), progress(42.0, Some(100.0), None));
        assert_eq!(Progress::from_osc(b"9;4;2;99"), progress(99.0, Some(100.0), None));
        for other in
            ["9;4;0", "9;4;0;0", "9;4;3", "9;4;1", "9;4;1;101", "9;9;/home", "0;title", "8;;http://x"]
        {
            assert_eq!(Progress::from_osc(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_pattern_finds_value_and_total() {
        let pattern = Regex::new(r"\[(\d+)(?:/(\d+))?\]").unwrap();
        assert_eq!(Progress::from_pattern(&pattern, b"  [7/12] cc x.c"), progress(7.0, Some(12.0), None));
        assert_eq!(Progress::from_pattern(&pattern, b"[7] x"), progress(7.0, None, None));
        assert_eq!(Progress::from_pattern(&pattern, b"7/12"), None);
    }
}
