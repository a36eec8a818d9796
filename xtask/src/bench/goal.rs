//! What a figure must be.

use std::fmt;

use super::figures::Figures;

/// A bound on a figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    /// The median may be so much.
    AtMost(f64),
    /// The median must be so much.
    AtLeast(f64),
    /// Every figure must be below.
    AlwaysUnder(f64),
}

impl Goal {
    /// No figures meet no goal.
    pub(super) fn is_met(self, figures: &Figures) -> bool {
        match self {
            Self::AtMost(bound) => figures.median() <= bound,
            Self::AtLeast(bound) => figures.median() >= bound,
            Self::AlwaysUnder(bound) => figures.greatest() < bound,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "at most {bound}"),
            Self::AtLeast(bound) => write!(f, "at least {bound}"),
            Self::AlwaysUnder(bound) => write!(f, "under {bound} in every round"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_judged_by_the_median_or_by_every_round() {
        let mut figures = Figures::default();
        for figure in [1.0, 1.2, 3.0] {
            figures.push(figure);
        }
        assert!(Goal::AtMost(1.2).is_met(&figures) && !Goal::AtMost(1.1).is_met(&figures));
        assert!(Goal::AtLeast(1.2).is_met(&figures) && !Goal::AtLeast(1.3).is_met(&figures));
        assert!(Goal::AlwaysUnder(3.1).is_met(&figures) && !Goal::AlwaysUnder(3.0).is_met(&figures));
    }

    #[test]
    fn nothing_measured_meets_no_goal() {
        for goal in [Goal::AtMost(1.0), Goal::AtLeast(0.0), Goal::AlwaysUnder(1.0)] {
            assert!(!goal.is_met(&Figures::default()), "{goal:?}");
        }
    }
}
