//! What the work of tasks does to the world: a line in a file for each time, whatever becomes of its process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// A folder with a file for each order.
#[derive(Clone, Debug)]
pub(super) struct Effects(pub(super) PathBuf);

/// One line: what happened, at which word of the order, and what came of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    pub(super) what: String,
    pub(super) at: usize,
    pub(super) came: String,
}

/// The effect was had.
pub(super) const DID: &str = "did";
/// The work was told that, as what its step came to or its user said.
pub(super) const TOLD: &str = "told";
/// The effect was undone.
pub(super) const UNDID: &str = "undid";

impl Effects {
    /// Writes a line at once: nobody who is killed leaves half of one.
    pub(super) fn note(&self, key: &str, what: &str, at: usize, came: &str) -> io::Result<()> {
        let line = format!("{what} {at} {came}\n");
        let mut file = OpenOptions::new().create(true).append(true).open(self.0.join(key))?;
        file.write_all(line.as_bytes())
    }

    /// All that was written for an order, in its order.
    pub(super) fn lines(&self, key: &str) -> io::Result<Vec<Line>> {
        let text = match fs::read_to_string(self.0.join(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let line = |line: &str| {
            let mut parts = line.splitn(3, ' ');
            let (what, at, came) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
            Some(Line { what: what.to_owned(), at, came: came.to_owned() })
        };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("{key}: {text}"));
        text.lines().map(|text| line(text).ok_or_else(invalid)).collect()
    }

    /// How often this has happened at a place.
    pub(super) fn count(&self, key: &str, what: &str, at: usize) -> io::Result<usize> {
        Ok(self.lines(key)?.iter().filter(|line| line.what == what && line.at == at).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let effects = Effects(folder.path().to_owned());
        effects.note("t", DID, 1, "key/1").unwrap();
        effects.note("t", TOLD, 1, "in doubt").unwrap();
        assert_eq!(effects.count("t", DID, 1).unwrap(), 1);
        assert_eq!(effects.lines("t").unwrap()[1].came, "in doubt");
        assert_eq!(effects.lines("another").unwrap(), []);
    }
}
