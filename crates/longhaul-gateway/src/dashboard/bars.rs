//! Bars that show when each part of a course was: pictures for the eye, of which the words beside them say all.

use longhaul::store::Time;
use maud::{Markup, html};

use crate::admin::{Leg, What};

/// A bar in a row of its own, of a common axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bar {
    kind: &'static str,
    /// Where it begins and how long it is, of `AXIS`.
    from: u32,
    length: u32,
}

/// How long the axis is. Whole numbers, so that what hardly changes is drawn as it was.
const AXIS: u32 = 1000;

/// No bar is shorter: what was is seen.
const SHORTEST: u32 = 6;

/// What goes on is drawn up to the next power of this, so that it is drawn anew now and then and not at each look.
const GROWTH: f64 = 1.1;

/// The axis of a course. A wait that would leave nothing else to be seen is drawn shorter than it was.
pub(super) struct Axis<'a> {
    legs: &'a [Leg],
    /// Where each leg begins, and how long it is drawn, in milliseconds.
    drawn: Vec<(f64, f64)>,
    whole: f64,
}

impl<'a> Axis<'a> {
    pub(super) fn of(legs: &'a [Leg]) -> Self {
        let is_wait = |leg: &Leg| matches!(leg.what, What::Waited | What::Left { .. });
        let rest: f64 = legs.iter().filter(|leg| !is_wait(leg)).map(length).sum();
        let most = |leg: &Leg| if is_wait(leg) && rest > 0.0 { rest } else { f64::INFINITY };
        let mut at = 0.0;
        let place = |leg: &Leg| {
            let shown = length(leg).min(most(leg));
            at += shown;
            (at - shown, shown)
        };
        let drawn = legs.iter().map(place).collect();
        Self { legs, drawn, whole: at.max(1.0) }
    }

    /// The bars of its legs.
    pub(super) fn bars(&self) -> impl Iterator<Item = Bar> {
        self.legs.iter().zip(&self.drawn).map(|(leg, &(from, shown))| {
            let kind = match leg.what {
                What::Queued => "queued",
                What::Work { .. } => "work",
                What::Waited | What::Left { .. } if shown < length(leg) => "waited folded",
                What::Waited | What::Left { .. } => "waited",
            };
            self.bar(kind, from, from + shown)
        })
    }

    /// The bar of something that was from then until then, or goes on.
    pub(super) fn during(&self, kind: &'static str, from: Time, until: Option<Time>) -> Bar {
        self.bar(kind, self.place(from), until.map_or(self.whole, |until| self.place(until)))
    }

    /// Where a moment is.
    fn place(&self, at: Time) -> f64 {
        let nth = self.legs.iter().rposition(|leg| leg.from <= at).unwrap_or(0);
        let (Some(leg), Some(&(from, shown))) = (self.legs.get(nth), self.drawn.get(nth)) else { return 0.0 };
        let scale = (shown / length(leg).max(1.0)).min(1.0);
        from + (span(leg.from, at) * scale).min(shown)
    }

    fn bar(&self, kind: &'static str, from: f64, until: f64) -> Bar {
        let on_axis = |at: f64| (at / self.whole * f64::from(AXIS)) as u32;
        let from = on_axis(from).min(AXIS - SHORTEST);
        let length = on_axis(until).saturating_sub(from);
        Bar { kind, from, length: length.max(SHORTEST).min(AXIS - from) }
    }
}

/// How long it was, in milliseconds.
fn length(leg: &Leg) -> f64 {
    let was = span(leg.from, leg.until);
    if leg.goes_on { GROWTH.powf(was.max(1.0).log(GROWTH).ceil()) } else { was }
}

fn span(from: Time, until: Time) -> f64 {
    until.since(from).as_secs_f64() * 1000.0
}

impl Bar {
    pub(super) fn drawn(self) -> Markup {
        let Self { kind, from, length } = self;
        html! {
            svg.bar viewBox={ "0 0 " (AXIS) " 10" } preserveAspectRatio="none" {
                rect.axis x="0" y="4.5" width=(AXIS) height="1" {}
                rect class=(kind) x=(from) y="0" width=(length) height="10" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leg(what: What, from: i64, until: i64) -> Leg {
        let at = Time::from_unix_ms;
        Leg { what, from: at(from), until: at(until), goes_on: false }
    }

    fn work(from: i64, until: i64) -> Leg {
        leg(What::Work { nth: 1, node: None, over: None }, from, until)
    }

    fn bars(legs: &[Leg]) -> Vec<Bar> {
        Axis::of(legs).bars().collect()
    }

    fn places(bars: &[Bar]) -> Vec<(&'static str, u32, u32)> {
        bars.iter().map(|bar| (bar.kind, bar.from, bar.length)).collect()
    }

    #[test]
    fn bars_follow_one_another_on_one_axis() {
        let legs = [leg(What::Queued, 0, 250), work(250, 1000)];
        assert_eq!(places(&bars(&legs)), [("queued", 0, 250), ("work", 250, 750)]);
        assert_eq!(places(&bars(&[work(5, 5)])), [("work", 0, SHORTEST)], "what took no time is seen");
        let legs = [work(0, 10_000_000), work(10_000_000, 10_000_000)];
        assert_eq!(places(&bars(&legs))[1], ("work", AXIS - SHORTEST, SHORTEST));
    }

    #[test]
    fn a_long_wait_leaves_room_for_what_was_done() {
        let week = 7 * 24 * 3_600_000;
        let legs = [work(0, 1000), leg(What::Waited, 1000, week), work(week, week + 1000)];
        assert_eq!(places(&bars(&legs)), [("work", 0, 250), ("waited folded", 250, 500), ("work", 750, 250)]);
        assert_eq!(places(&bars(&[leg(What::Waited, 0, week)])), [("waited", 0, AXIS)]);
    }

    #[test]
    fn what_was_done_is_drawn_where_its_part_of_the_course_is() {
        let week = 7 * 24 * 3_600_000;
        let legs = [work(0, 1000), leg(What::Waited, 1000, week), work(week, week + 1000)];
        let axis = Axis::of(&legs);
        let at = Time::from_unix_ms;
        let drawn = |from, until: i64| places(&[axis.during("recorded", at(from), Some(at(until)))])[0];
        assert_eq!(drawn(0, 500), ("recorded", 0, 125));
        assert_eq!(
            drawn(week + 500, week + 1000),
            ("recorded", 875, 125),
            "behind a wait that is drawn shorter"
        );
        assert_eq!(drawn(500, week + 500), ("recorded", 125, 750), "over it");
        assert_eq!(drawn(1000 + (week - 1000) / 2, week), ("recorded", 500, 250), "in it");
        assert_eq!(drawn(-50, -20), ("recorded", 0, SHORTEST), "before there was a task");
        assert_eq!(drawn(week + 1000, week + 9000), ("recorded", AXIS - SHORTEST, SHORTEST));
        let goes_on = axis.during("running", at(week + 600), None);
        assert_eq!(places(&[goes_on]), [("running", 900, 100)]);
        assert_eq!(places(&[Axis::of(&[]).during("recorded", at(5), None)]), [("recorded", 0, AXIS)]);
    }

    #[test]
    fn what_goes_on_is_drawn_anew_now_and_then() {
        let mut drawn = Vec::new();
        for now in (10_000..20_000).step_by(100) {
            let mut legs = [leg(What::Queued, 0, 1000), work(1000, now)];
            legs[1].goes_on = true;
            drawn.push(bars(&legs));
        }
        drawn.dedup();
        assert!((2..12).contains(&drawn.len()), "{drawn:?}");
    }
}
