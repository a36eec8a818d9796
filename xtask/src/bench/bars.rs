//! Bars, as a picture: a library that plots would be compiled by everyone who only runs the checks.

use std::fmt::Write as _;

/// In pixels.
const WIDTH: f64 = 720.0;
const NAMES: f64 = 170.0;
const FIGURES: f64 = 80.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 34.0;

/// A bar for each, the longest as wide as there is room. Readable on light and on dark pages.
pub(super) fn svg(what: &str, bars: &[(&str, f64)]) -> String {
    let most = bars.iter().map(|(_, figure)| *figure).fold(f64::MIN_POSITIVE, f64::max);
    let height = HEAD + ROW * bars.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" fill=\"#808080\">\n\
         <title>{what}</title>\n<text x=\"4\" y=\"20\" font-weight=\"600\">{what}</text>\n",
        what = escaped(what)
    );
    for (nth, (name, figure)) in bars.iter().enumerate() {
        let top = HEAD + ROW * nth as f64;
        let width = (WIDTH - NAMES - FIGURES) * figure / most;
        let color = if name.starts_with("longhaul") { "#2f81f7" } else { "#9aa4b2" };
        let line = top + 15.0;
        // A string takes any line.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{line:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"2\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{line:.1}\">{}</text>",
            NAMES - 8.0,
            escaped(name),
            top + 1.0,
            NAMES + width + 6.0,
            shown(*figure),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// With three digits that count.
fn shown(figure: f64) -> String {
    match figure {
        figure if figure >= 10_000.0 => format!("{:.0}k", figure / 1000.0),
        figure if figure >= 100.0 => format!("{figure:.0}"),
        figure if figure >= 10.0 => format!("{figure:.1}"),
        figure => format!("{figure:.2}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_has_all_the_room_and_ours_stands_out() {
        let svg = svg("calls a second, <1 core>", &[("longhaul", 83_150.0), ("rmcp", 41_575.0)]);
        assert!(svg.contains("&lt;1 core>") && svg.contains("83k") && svg.contains("42k"), "{svg}");
        assert!(svg.contains("width=\"470.0\" height=\"18\" rx=\"2\" fill=\"#2f81f7\""), "{svg}");
        assert!(svg.contains("width=\"235.0\" height=\"18\" rx=\"2\" fill=\"#9aa4b2\""), "{svg}");
    }

    #[test]
    fn nothing_to_show_is_an_empty_picture() {
        assert!(svg("none", &[("longhaul", 0.0)]).contains("width=\"0.0\""));
    }
}
