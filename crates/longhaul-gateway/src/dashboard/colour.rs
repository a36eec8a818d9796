//! What was written in colour, as text in elements with classes. Of all that terminals do for what they are told, colours and
//! weights alone are shown: everything else goes, as [`clean`] has it.

use maud::{Markup, html};

use crate::clean;

/// Paints one stream, a stretch after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Painter {
    /// How the last stretch ended.
    style: Style,
    /// The beginning of a sequence that the last stretch was cut in.
    cut: String,
}

impl Painter {
    /// The next stretch, as it was written.
    pub(super) fn paint(&mut self, written: &str) -> Markup {
        let whole = std::mem::take(&mut self.cut) + written;
        let (whole, cut) = whole.split_at(whole.len() - unended(&whole));
        cut.clone_into(&mut self.cut);
        let mut runs = Vec::new();
        let mut rest = whole;
        loop {
            let Some((before, parameters, after)) = next_colour(rest) else {
                runs.push((self.style, rest));
                break;
            };
            runs.push((self.style, before));
            self.style = self.style.told(parameters);
            rest = after;
        }
        html! {
            @for (style, run) in runs {
                @let text = clean::text(run);
                @if text.is_empty() {}
                @else if style == Style::default() { (text) }
                @else { span class=(style.classes()) { (text) } }
            }
        }
    }

    /// How many bytes at the end of what was painted are the beginning of a sequence, and not shown.
    pub(super) fn left(&self) -> usize {
        self.cut.len()
    }
}

/// How text looks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Style {
    hue: Option<&'static str>,
    bold: bool,
    faint: bool,
    italic: bool,
    underline: bool,
}

/// The colours of terminals, by their numbers. Black is told from the back of no page, nor white: one is faint, and one as
/// everything else.
const HUES: [Option<&str>; 8] = [
    Some("ink-faint"),
    Some("ink-red"),
    Some("ink-green"),
    Some("ink-yellow"),
    Some("ink-blue"),
    Some("ink-magenta"),
    Some("ink-cyan"),
    None,
];

impl Style {
    /// What it is once a terminal was told this (ECMA-48, SGR). What is behind text stays as it is: on a colour of its own
    /// nobody could be sure to read it.
    fn told(mut self, parameters: &str) -> Self {
        let mut codes = parameters.split([';', ':']).map(|code| code.parse::<usize>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                0 => self = Self::default(),
                1 => self.bold = true,
                2 => self.faint = true,
                3 => self.italic = true,
                4 => self.underline = true,
                22 => (self.bold, self.faint) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                30..=37 => self.hue = HUES[code - 30],
                90..=97 => self.hue = HUES[code - 90],
                38 => self.hue = of_many(&mut codes),
                39 => self.hue = None,
                48 | 58 => {
                    of_many(&mut codes);
                }
                _ => {}
            }
        }
        self
    }

    fn classes(self) -> String {
        let classes = [
            self.hue,
            self.bold.then_some("ink-bold"),
            self.faint.then_some("ink-faint"),
            self.italic.then_some("ink-italic"),
            self.underline.then_some("ink-underline"),
        ];
        classes.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The colour nearest to one of 256 (`5;N`), or of all there are (`2;R;G;B`).
fn of_many(codes: &mut impl Iterator<Item = usize>) -> Option<&'static str> {
    match codes.next()? {
        5 => match codes.next()? {
            code @ 0..16 => HUES[code % 8],
            code @ 16..232 => {
                let level = |of: usize| (code - 16) / of % 6 * 51;
                nearest([level(36), level(6), level(1)])
            }
            _ => None,
        },
        2 => nearest([codes.next()?, codes.next()?, codes.next()?]),
        _ => None,
    }
}

/// The colour with the same of red, green and blue above its middle; of what is nearly grey none.
fn nearest(parts: [usize; 3]) -> Option<&'static str> {
    let (most, least) = (*parts.iter().max()?, *parts.iter().min()?);
    if most < least + 48 {
        return None;
    }
    let number: usize =
        parts.iter().enumerate().map(|(bit, part)| usize::from(*part * 2 > most + least) << bit).sum();
    HUES[number]
}

/// What is before the first colour of a text, what that says, and what comes behind.
fn next_colour(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find(OPENS) {
        let at = from + at;
        let parameters = &text[at + OPENS.len()..];
        let end = parameters.find(|c: char| !matches!(c, '0'..='9' | ';' | ':'));
        if let Some(end) = end.filter(|end| parameters[*end..].starts_with('m')) {
            return Some((&text[..at], &parameters[..end], &parameters[end + 1..]));
        }
        from = at + OPENS.len();
    }
    None
}

/// How many bytes at the end of a text may be the beginning of a colour.
fn unended(text: &str) -> usize {
    let Some(at) = text.rfind('\u{1b}') else { return 0 };
    let sequence = &text[at..];
    let begins = OPENS.starts_with(sequence)
        || sequence.strip_prefix(OPENS).is_some_and(|parameters| {
            parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        });
    if begins && sequence.len() <= LONGEST { sequence.len() } else { 0 }
}

/// What opens a control sequence.
const OPENS: &str = "\u{1b}[";

/// The longest beginning of a sequence that is waited for.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn painted(written: &str) -> String {
        Painter::default().paint(written).into_string()
    }

    #[test]
    fn colours_are_classes_and_all_else_goes() {
        for (written, shown) in [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{1b}[0m and not", "<span class=\"ink-red\">red</span> and not"),
            ("\u{1b}[1;92mok\u{1b}[m.", "<span class=\"ink-green ink-bold\">ok</span>."),
            ("\u{1b}[38;5;196mr\u{1b}[39mx", "<span class=\"ink-red\">r</span>x"),
            ("\u{1b}[38;5;240mgrey", "grey"),
            ("\u{1b}[38:2:10:20:250mb", "<span class=\"ink-blue\">b</span>"),
            ("\u{1b}[48;5;31;33my", "<span class=\"ink-yellow\">y</span>"),
            (
                "\u{1b}[4;3;2mx\u{1b}[22;23;24my",
                "<span class=\"ink-faint ink-italic ink-underline\">x</span>y",
            ),
            ("\u{1b}[30mblack\u{1b}[97mwhite", "<span class=\"ink-faint\">black</span>white"),
            ("\u{1b}[2J\u{1b}[1;1H\u{1b}[31mgone", "<span class=\"ink-red\">gone</span>"),
            ("a\u{1b}]52;c;aGk=\u{7}b\u{202e}c", "abc"),
            ("\u{1b}[999999999999999999999;31mx", "<span class=\"ink-red\">x</span>"),
            ("\u{1b}[31\u{1b}[32mx", "<span class=\"ink-green\">x</span>"),
            (
                "\u{1b}[31m<script>\"&</script>",
                "<span class=\"ink-red\">&lt;script&gt;&quot;&amp;&lt;/script&gt;</span>",
            ),
        ] {
            assert_eq!(painted(written), shown, "{written:?}");
        }
    }

    #[test]
    fn a_stretch_goes_on_in_the_colour_that_the_last_one_ended_in() {
        let written = "a\u{1b}[31mb\u{1b}[1mc\u{1b}[0md";
        let whole: String = written.chars().filter(|c| "abcd".contains(*c)).collect();
        for at in 0..=written.len() {
            let mut painter = Painter::default();
            let (first, second) = written.split_at(at);
            let both = painter.paint(first).into_string() + &painter.paint(second).into_string();
            assert!(both.contains("<span class=\"ink-red\">b</span>"), "{at}: {both}");
            assert!(both.contains("<span class=\"ink-red ink-bold\">c</span>d"), "{at}: {both}");
            let bare: String = both.split('<').map(|part| part.rsplit('>').next().unwrap()).collect();
            assert_eq!(bare, whole, "{at}");
        }
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        let mut painter = Painter::default();
        for digits in 0..LONGEST * 2 {
            painter.paint(if digits == 0 { "\u{1b}[" } else { "1" });
            assert!(painter.left() <= LONGEST);
        }
        assert_eq!(painter.paint("m shown").into_string(), "m shown");
    }

    #[test]
    fn whatever_is_written_makes_no_element_but_ours() {
        let all: String = ('\0'..='\u{2100}').collect();
        for opened in ["\u{1b}[31m", "\u{1b}[", "\u{1b}]", ""] {
            let html = painted(&format!("{opened}{all}{opened}<b>"));
            for tag in html.split('<').skip(1) {
                assert!(tag.starts_with("span class=\"ink-") || tag.starts_with("/span>"), "{tag}");
            }
        }
    }
}
