//! A table of tasks that fits the terminal it is shown in.

use comfy_table::Table;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::term::width;

/// What is in a table, its headings first, and what of it may be missing.
pub(super) struct Rows<const N: usize> {
    pub(super) rows: Vec<[String; N]>,
    /// The column of ids, which are always whole.
    pub(super) id: usize,
    /// The columns that give way where there is too little room: the first is cut and goes last, the others go in this order.
    pub(super) give_way: &'static [usize],
}

impl<const N: usize> Rows<N> {
    /// As it is shown here.
    pub(super) fn shown(self) -> String {
        self.fitted(width().unwrap_or(usize::MAX))
    }

    /// In lines of at most `width` columns, or as wide as an id.
    fn fitted(mut self, width: usize) -> String {
        let length = |column: usize| self.rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let lengths: [usize; N] = std::array::from_fn(length);
        let mut columns: Vec<usize> = (0..N).filter(|column| !self.give_way.contains(column)).collect();
        // A space stands before and behind each.
        let needed: usize = columns.iter().map(|column| lengths[*column] + 2).sum();
        let Some(mut room) = width.saturating_add(1).checked_sub(needed) else { return self.pairs(width) };
        let (cut_first, others) = match self.give_way {
            [first, others @ ..] => (Some(*first), others),
            [] => (None, &[][..]),
        };
        let cut_first = cut_first.filter(|column| lengths[*column].min(LEAST) + 2 <= room);
        room -= cut_first.map_or(0, |column| lengths[column].min(LEAST) + 2);
        for column in others.iter().rev() {
            let Some(left) = room.checked_sub(lengths[*column] + 2) else { break };
            room = left;
            columns.push(*column);
        }
        if let Some(column) = cut_first {
            let most = lengths[column].min(LEAST).saturating_add(room);
            for row in &mut self.rows {
                row[column] = cut(&row[column], most);
            }
            columns.push(column);
        }
        columns.sort_unstable();
        self.table(&columns)
    }

    fn table(&self, columns: &[usize]) -> String {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        let mut rows = self
            .rows
            .iter()
            .map(|row| columns.iter().map(|column| row[*column].as_str()).collect::<Vec<_>>());
        if let Some(headings) = rows.next() {
            table.set_header(headings);
        }
        for row in rows {
            table.add_row(row);
        }
        table.trim_fmt()
    }

    /// Each id on a line of its own, and below it what never gives way, and as much as has room of what is cut.
    fn pairs(&self, width: usize) -> String {
        let pair = |row: &[String; N]| {
            let stays = |column: &usize| *column != self.id && !self.give_way.contains(column);
            let mut line =
                (0..N).filter(stays).fold("  ".to_owned(), |line, column| line + " " + &row[column] + " ");
            let room = width.saturating_sub(line.width() + 1);
            if let Some(text) = self.give_way.first().map(|column| &row[*column])
                && text.width().min(LEAST) <= room
            {
                line = line + " " + &cut(text, room);
            }
            format!(" {}\n{}", row[self.id], line.trim_end())
        };
        self.rows.iter().skip(1).map(pair).collect::<Vec<_>>().join("\n")
    }
}

/// As much of a text as so many columns of a terminal have room for: a letter of Chinese takes two.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |letter: &char| {
        let rest = left.checked_sub(letter.width().unwrap_or(0));
        rest.inspect(|rest| left = *rest).is_some()
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// The fewest columns that are worth showing of one of a table.
const LEAST: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a table in so many characters.
    fn lines(width: usize) -> Vec<String> {
        let row = |words: [&str; 4]| words.map(str::to_owned);
        let rows = vec![
            row(["STATUS", "ID", "NOW", "TOOK"]),
            row(["working", "test-3q9v8k2f", "212/412 running api::auth", "1m1s"]),
        ];
        let table = Rows { rows, id: 1, give_way: &[2, 3] };
        table.fitted(width).lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_letter_that_takes_two_columns_is_counted_as_two() {
        assert_eq!(cut("进度", 4), "进度");
        assert_eq!((cut("进度a", 4), cut("进度a", 3)), ("进…".to_owned(), "进…".to_owned()));
    }

    #[test]
    fn a_table_fits_and_its_ids_are_whole() {
        for width in 14..70 {
            let lines = lines(width);
            assert!(lines.iter().all(|line| line.width() <= width), "{width}: {lines:#?}");
            assert!(lines.iter().any(|line| line.contains("test-3q9v8k2f")), "{width}: {lines:#?}");
        }
        assert!(lines(80)[1].contains("212/412 running api::auth  1m1s"));
        assert!(
            lines(50)[1].contains("212/412 running ap…") && lines(50)[1].ends_with("  1m1s"),
            "{:?}",
            lines(50)
        );
        assert_eq!(lines(30)[1], " working  test-3q9v8k2f  1m1s");
        assert_eq!(lines(26)[1], " working  test-3q9v8k2f");
        assert_eq!(lines(20), [" test-3q9v8k2f", "   working  212/412…"]);
        assert_eq!(lines(19), [" test-3q9v8k2f", "   working"]);
        assert_eq!(lines(33)[1], " working  test-3q9v8k2f  212/412…", "it says more than how long it took");
    }
}
