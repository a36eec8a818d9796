//! Two crashes in a run: what of them was tried before, and until when there is time. It takes hours, and need not take
//! them at once: whoever stops it, or kills it, goes on where it was.
//!
//! `cargo xtask chaos explore --pairs` says where that is noted, and for how long to go on.

use std::collections::HashMap;
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::fleet::Crash;
use crate::place::Kind;

/// What was tried of one scenario on one store.
pub(crate) struct Pairs {
    /// By the first crash, how many runs there were with it.
    tried: HashMap<String, usize>,
    notes: Option<File>,
}

impl Pairs {
    /// Those of a scenario, if pairs are wanted.
    pub(crate) fn of(name: &str, kind: Kind) -> Option<Self> {
        if env::var("LONGHAUL_EXPLORE").ok()? != "pairs" {
            return None;
        }
        let Some(folder) = env::var_os("LONGHAUL_EXPLORED") else {
            return Some(Self { tried: HashMap::new(), notes: None });
        };
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        Some(Self::noted(&Path::new(&folder).join(format!("{name}-{kind}"))))
    }

    fn noted(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        // Its last line may be cut off.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        fs::write(path, whole).unwrap();
        let read = |line: &str| {
            let (first, runs) = line.rsplit_once(' ')?;
            Some((first.to_owned(), runs.parse().ok()?))
        };
        let tried = whole.lines().map(|line| read(line).unwrap()).collect();
        Self { tried, notes: Some(OpenOptions::new().append(true).open(path).unwrap()) }
    }

    /// How many runs there were with this crash and another after it, if all of them are past.
    pub(crate) fn tried(&self, first: Crash) -> Option<usize> {
        self.tried.get(&noted(first)).copied()
    }

    /// So many runs with this crash were as they should be.
    pub(crate) fn note(&mut self, first: Crash, runs: usize) {
        if let Some(notes) = &mut self.notes {
            notes.write_all(format!("{} {runs}\n", noted(first)).as_bytes()).unwrap();
        }
    }

    /// Whether the time is up.
    pub(crate) fn is_late(&self) -> bool {
        LazyLock::force(&UNTIL).is_some_and(|until| Instant::now() > until)
    }
}

/// Until when to go on, by the minutes that the environment gives.
static UNTIL: LazyLock<Option<Instant>> = LazyLock::new(|| {
    let minutes: u64 = env::var("LONGHAUL_EXPLORE_MINUTES").ok()?.parse().unwrap();
    Some(Instant::now() + Duration::from_secs(60 * minutes))
});

fn noted(crash: Crash) -> String {
    format!("{} {} {}", crash.process, crash.moment, crash.operation)
}

#[test]
fn what_was_tried_is_not_tried_again_though_the_last_note_was_cut_off() {
    use longhaul_store::wrap::Moment;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes");
    let crash = |operation| Crash { process: 1, operation, moment: Moment::Before };
    let mut pairs = Pairs::noted(&path);
    pairs.note(crash(7), 30);
    pairs.note(crash(8), 31);
    drop(pairs);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() - 1]).unwrap();
    let mut pairs = Pairs::noted(&path);
    assert_eq!((pairs.tried(crash(7)), pairs.tried(crash(8))), (Some(30), None));
    pairs.note(crash(8), 31);
    assert_eq!(Pairs::noted(&path).tried(crash(8)), Some(31));
}
