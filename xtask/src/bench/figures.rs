//! Figures of several rounds, as a median and a spread.

use std::fmt;

/// The figures of one thing, a round each.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures(Vec<f64>);

impl Figures {
    /// Adds the figure of a round.
    pub(super) fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// Round by round, these over those.
    pub(super) fn over(&self, others: &Self) -> Self {
        Self(self.0.iter().zip(&others.0).map(|(figure, other)| figure / other).collect())
    }

    /// Round by round, these less those.
    pub(super) fn less(&self, others: &Self) -> Self {
        Self(self.0.iter().zip(&others.0).map(|(figure, other)| figure - other).collect())
    }

    /// So many times as much.
    pub(super) fn times(&self, factor: f64) -> Self {
        Self(self.0.iter().map(|figure| figure * factor).collect())
    }

    /// The middle figure, or the mean of the middle two; NaN if there are none.
    pub(super) fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.get(middle) {
            None => f64::NAN,
            Some(upper) if sorted.len() % 2 == 1 => *upper,
            Some(upper) => (sorted[middle - 1] + upper) / 2.0,
        }
    }

    /// The greatest figure; NaN if there are none.
    pub(super) fn greatest(&self) -> f64 {
        self.sorted().last().copied().unwrap_or(f64::NAN)
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// The median, and from the least to the greatest.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted = self.sorted();
        let (Some(least), Some(greatest)) = (sorted.first(), sorted.last()) else { return f.pad("-") };
        let digits = digits(self.median());
        f.pad(&format!("{:.digits$} ({least:.digits$}-{greatest:.digits$})", self.median()))
    }
}

/// How many digits after the point leave three that count.
fn digits(figure: f64) -> usize {
    match figure {
        figure if figure >= 100.0 => 0,
        figure if figure >= 10.0 => 1,
        _ => 2,
    }
}

/// Prints rows under their heads, the first column to the left.
pub(super) fn print_table<const COLUMNS: usize>(heads: [&str; COLUMNS], rows: &[[String; COLUMNS]]) {
    let heads = heads.map(str::to_owned);
    let width = |column: usize| {
        std::iter::once(&heads).chain(rows).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    for row in std::iter::once(&heads).chain(rows) {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<width$}", width = width(0)),
            _ => format!("{cell:>width$}", width = width(column)),
        });
        println!("{}", cells.collect::<Vec<_>>().join("   "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_within_a_round() {
        let (fast, slow) = (Figures(vec![1.0, 10.0, 2.0]), Figures(vec![2.0, 20.0, 4.0]));
        assert_eq!(slow.over(&fast).0, [2.0, 2.0, 2.0]);
        assert_eq!(slow.less(&fast).0, [1.0, 10.0, 2.0]);
    }

    #[test]
    fn one_wild_round_does_not_move_the_median() {
        assert_eq!(Figures(vec![1.0, 99.0, 1.5]).to_string(), "1.50 (1.00-99.00)");
        assert_eq!(Figures(vec![100.0, 200.0]).to_string(), "150 (100-200)");
        assert_eq!(Figures::default().to_string(), "-");
        assert!(Figures::default().median().is_nan());
    }
}
