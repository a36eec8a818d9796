//! A function by its name, and whether it is a test that runs: what names tests is held against it.

use super::source::{Source, Token};
use super::tree::{File, Tree};

/// Files whose functions are tests because a list names them.
const LISTS: [(&str, &str); 4] = [
    ("crates/longhaul-store/src/conformance/", "crates/longhaul-store/src/conformance/mod.rs"),
    ("crates/longhaul-store/tests/networked/", "crates/longhaul-store/tests/postgres/nodes.rs"),
    ("crates/longhaul-store/tests/networked/", "crates/longhaul-store/tests/redis/nodes.rs"),
    ("chaos/src/scenes/", "chaos/src/scenes/mod.rs"),
];

/// A function and what stands above it.
pub(crate) struct Function {
    /// Whether tests run it.
    pub(crate) is_test: bool,
    /// Whether it says that it is left out of them.
    pub(crate) is_ignored: bool,
    /// What its documentation says.
    pub(crate) doc: String,
}

impl Function {
    /// The first function of this name in a file.
    pub(crate) fn find(tree: &Tree, file: &File, name: &str) -> Option<Self> {
        let mut function = Self::written(file.tokens()?, name)?;
        function.is_test |= LISTS
            .iter()
            .filter(|(folder, _)| file.path.starts_with(folder))
            .filter_map(|(_, list)| tree.file(list).and_then(File::tokens))
            .any(|list| list.all.iter().any(|token| token.text == name));
        Some(function)
    }

    fn written(source: &Source, name: &str) -> Option<Self> {
        let tokens = &source.all;
        let at = tokens.windows(2).position(|pair| pair[0].text == "fn" && pair[1].text == name)?;
        let mut function = Self { is_test: false, is_ignored: false, doc: String::new() };
        let mut end = before_qualifiers(tokens, at);
        while let Some(start) = attribute_before(tokens, end) {
            let attribute = &tokens[start + 2..end - 1];
            let path: Vec<_> =
                attribute.iter().map(|token| token.text.as_str()).take_while(|t| *t != "(").collect();
            function.is_test |= path.last() == Some(&"test");
            function.is_ignored |= path.first() == Some(&"ignore");
            if path.first() == Some(&"doc") {
                function.doc.extend(attribute.iter().map(|token| format!("{} ", token.text)));
            }
            end = start;
        }
        Some(function)
    }
}

/// Where `pub(crate) async` and their kin begin that end at `at`.
fn before_qualifiers(tokens: &[Token], mut at: usize) -> usize {
    const QUALIFIERS: [&str; 8] = ["pub", "async", "const", "(", ")", "crate", "super", "in"];
    while at > 0 && QUALIFIERS.contains(&tokens[at - 1].text.as_str()) {
        at -= 1;
    }
    at
}

/// Where the attribute begins that ends before `end`.
fn attribute_before(tokens: &[Token], end: usize) -> Option<usize> {
    if end == 0 || tokens[end - 1].text != "]" {
        return None;
    }
    let mut depth = 0;
    for at in (0..end).rev() {
        match tokens[at].text.as_str() {
            "]" => depth += 1,
            "[" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at.checked_sub(1).filter(|hash| tokens[*hash].text == "#");
        }
    }
    None
}
