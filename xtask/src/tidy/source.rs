//! Rust source as tokens: what the scanning rules read, so that comments and strings never mislead them.

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

/// One token and the line it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The token as written; a delimiter is one character.
    pub(crate) text: String,
    /// Line, from 1.
    pub(crate) line: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ident,
    Literal,
    /// A `:` written directly before another.
    JointColon,
    Other,
}

/// A path as written or imported: `std::time::Instant::now` is four segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathUse {
    /// The segments, a glob import ending in `*`.
    pub(crate) segments: Vec<String>,
    /// Line of the last segment, from 1.
    pub(crate) line: usize,
}

impl PathUse {
    /// Whether these segments stand somewhere in the path, side by side.
    pub(crate) fn contains(&self, wanted: &[&str]) -> bool {
        self.segments.windows(wanted.len()).any(|window| window.iter().eq(wanted))
    }

    /// Whether the path begins with these segments.
    pub(crate) fn starts_with(&self, wanted: &[&str]) -> bool {
        self.segments.len() >= wanted.len()
            && self.segments.iter().zip(wanted).all(|(have, want)| have == want)
    }

    /// The path as one would write it.
    pub(crate) fn written(&self) -> String {
        self.segments.join("::")
    }
}

/// The tokens of one file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    /// Every token outside items under `#[cfg(test)]`.
    pub(crate) shipped: Vec<Token>,
    /// Every token of the file.
    pub(crate) all: Vec<Token>,
    /// Names of the modules declared as `#[cfg(test)] mod name;`.
    pub(crate) test_modules: Vec<String>,
    /// Whether the file begins with `#![cfg(test)]`.
    pub(crate) is_test: bool,
}

impl Source {
    /// Tokenises a file.
    ///
    /// # Errors
    ///
    /// When the text is not made of Rust tokens.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let stream: TokenStream =
            text.parse().map_err(|e| anyhow::anyhow!("{e}")).context("not Rust tokens")?;
        let mut source = Self::default();
        source.flatten(stream, true);
        Ok(source)
    }

    /// String literals of the shipped code, doc comments left out, with their lines.
    pub(crate) fn strings(&self) -> impl Iterator<Item = (&str, usize)> {
        self.shipped.iter().enumerate().filter_map(|(i, token)| {
            let is_doc = i >= 2 && self.shipped[i - 2].text == "doc" && self.shipped[i - 1].text == "=";
            let quoted = token.text.trim_start_matches(['b', 'c', 'r', '#']);
            let inner = quoted.strip_prefix('"')?.trim_end_matches('#').strip_suffix('"')?;
            (token.kind == Kind::Literal && !is_doc).then_some((inner, token.line))
        })
    }

    fn flatten(&mut self, stream: TokenStream, shipped: bool) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        let mut test_until = 0;
        for (i, tree) in trees.iter().enumerate() {
            if shipped && i >= test_until && self.is_inner_test_attribute(&trees[i..]) {
                test_until = trees.len();
            } else if shipped && i >= test_until && is_test_attribute(&trees[i..]) {
                let length = item_length(&trees[i..]);
                self.test_modules.extend(declared_module(&trees[i..i + length]));
                test_until = i + length;
            }
            self.push(tree, shipped && i >= test_until);
        }
    }

    fn is_inner_test_attribute(&mut self, trees: &[TokenTree]) -> bool {
        let [hash, bang, TokenTree::Group(group), ..] = trees else { return false };
        let found = is_punct(hash, '#') && is_punct(bang, '!') && is_cfg_test(group);
        self.is_test |= found;
        found
    }

    fn push(&mut self, tree: &TokenTree, shipped: bool) {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                self.token(open.to_owned(), line, Kind::Other, shipped);
                self.flatten(group.stream(), shipped);
                self.token(close.to_owned(), group.span_close().start().line, Kind::Other, shipped);
            }
            TokenTree::Ident(ident) => self.token(ident.to_string(), line, Kind::Ident, shipped),
            TokenTree::Literal(literal) => self.token(literal.to_string(), line, Kind::Literal, shipped),
            TokenTree::Punct(punct) => {
                let joint = punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
                let kind = if joint { Kind::JointColon } else { Kind::Other };
                self.token(punct.as_char().to_string(), line, kind, shipped);
            }
        }
    }

    fn token(&mut self, text: String, line: usize, kind: Kind, shipped: bool) {
        let token = Token { text, line, kind };
        if shipped {
            self.shipped.push(token.clone());
        }
        self.all.push(token);
    }
}

/// Every path in the tokens; the tree of a `use` declaration is written out, one path a leaf.
pub(crate) fn paths(tokens: &[Token]) -> Vec<PathUse> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].kind != Kind::Ident {
            at += 1;
        } else if tokens[at].text == "use" {
            at = use_tree(tokens, at + 1, &[], &mut found);
        } else {
            at = plain_path(tokens, at, &mut found);
        }
    }
    found
}

/// Whether the tokens at this place read as `texts`, one token each.
pub(crate) fn reads(tokens: &[Token], at: usize, texts: &[&str]) -> bool {
    tokens.len() >= at + texts.len()
        && tokens[at..].iter().zip(texts).all(|(token, text)| token.text == *text)
}

fn is_separator(tokens: &[Token], at: usize) -> bool {
    tokens.get(at).is_some_and(|t| t.kind == Kind::JointColon) && reads(tokens, at + 1, &[":"])
}

fn plain_path(tokens: &[Token], mut at: usize, found: &mut Vec<PathUse>) -> usize {
    let mut segments = vec![tokens[at].text.clone()];
    let mut line = tokens[at].line;
    while is_separator(tokens, at + 1) && tokens.get(at + 3).is_some_and(|t| t.kind == Kind::Ident) {
        at += 3;
        segments.push(tokens[at].text.clone());
        line = tokens[at].line;
    }
    found.push(PathUse { segments, line });
    at + 1
}

/// Reads one branch of a `use` tree and returns the place after it.
fn use_tree(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<PathUse>) -> usize {
    let mut segments = prefix.to_vec();
    while at < tokens.len() {
        let Token { text, line, kind } = &tokens[at];
        match text.as_str() {
            ":" => at += 1,
            "{" => {
                at += 1;
                while at < tokens.len() && tokens[at].text != "}" {
                    let branch = use_tree(tokens, at, &segments, found);
                    // The comma after the branch, or a token that no tree has: never the same place twice.
                    at = branch + usize::from(branch == at || reads(tokens, branch, &[","]));
                }
                return at + 1;
            }
            _ if *kind != Kind::Ident && text != "*" => return at,
            _ => {
                segments.push(text.clone());
                at += 1;
                if is_separator(tokens, at) {
                    continue;
                }
                found.push(PathUse { segments, line: *line });
                let renamed = reads(tokens, at, &["as"]);
                return at + if renamed { 2 } else { 0 };
            }
        }
    }
    at
}

fn is_punct(tree: &TokenTree, wanted: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_test_attribute(trees: &[TokenTree]) -> bool {
    matches!(trees, [hash, TokenTree::Group(group), ..] if is_punct(hash, '#') && is_cfg_test(group))
}

/// Whether a bracketed attribute holds only in tests, those of the documentation too: `cfg(test)` or `cfg(all(test, …))`.
fn is_cfg_test(attribute: &Group) -> bool {
    let text: String = attribute.stream().into_iter().map(|tree| tree.to_string()).collect();
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let all = text.strip_prefix("cfg(all(").is_some_and(|rest| {
        rest.trim_end_matches(')').split(',').any(|condition| TESTS.contains(&condition))
    });
    let alone = TESTS.iter().any(|condition| text == format!("cfg({condition})"));
    attribute.delimiter() == Delimiter::Bracket && (alone || all)
}

/// What holds in tests alone.
const TESTS: [&str; 2] = ["test", "doctest"];

/// How many trees the item under an attribute takes, the attribute included.
fn item_length(trees: &[TokenTree]) -> usize {
    let mut at = 0;
    while at + 1 < trees.len() && is_punct(&trees[at], '#') && matches!(trees[at + 1], TokenTree::Group(_)) {
        at += 2;
    }
    let is_item =
        matches!(&trees.get(at), Some(TokenTree::Ident(word)) if is_item_keyword(&word.to_string()));
    while at < trees.len() {
        let ends = match &trees[at] {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            // A field, a variant or a match arm ends at its comma; an item's commas are its own.
            TokenTree::Punct(punct) => punct.as_char() == ';' || (punct.as_char() == ',' && !is_item),
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        at += 1;
        if ends {
            break;
        }
    }
    at
}

fn is_item_keyword(word: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "async",
        "const",
        "enum",
        "extern",
        "fn",
        "impl",
        "let",
        "macro_rules",
        "mod",
        "pub",
        "static",
        "struct",
        "trait",
        "type",
        "unsafe",
        "use",
    ];
    KEYWORDS.contains(&word)
}

/// The name in `mod name;` at the end of these trees.
fn declared_module(trees: &[TokenTree]) -> Option<String> {
    match trees {
        [.., TokenTree::Ident(keyword), TokenTree::Ident(name), end]
            if keyword == "mod" && is_punct(end, ';') =>
        {
            Some(name.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<String> {
        paths(&Source::parse(text).unwrap().shipped).iter().map(PathUse::written).collect()
    }

    #[test]
    fn use_trees_are_written_out() {
        assert_eq!(
            written("use std::{fs, time::{Instant as Now, *}}; use a::b;"),
            ["std::fs", "std::time::Instant", "std::time::*", "a::b"]
        );
    }

    #[test]
    fn paths_in_code_are_found_across_lines() {
        let source = Source::parse("fn f() { std::time::Instant\n    ::now(); }").unwrap();
        let paths = paths(&source.shipped);
        let now = paths.iter().find(|path| path.contains(&["Instant", "now"])).unwrap();
        assert_eq!(now.line, 2);
        assert!(now.starts_with(&["std", "time"]));
    }

    #[test]
    fn comments_and_strings_hold_no_paths() {
        assert_eq!(written("// a::b\n/// c::d\nconst X: &str = \"e::f\";"), ["doc", "const", "X", "str"]);
    }

    #[test]
    fn items_under_cfg_test_are_not_shipped() {
        let text = "fn a() {} #[cfg(test)] #[expect(x)] mod tests { fn b() { c::d(); } } fn e() {}";
        let written = written(text);
        assert!(written.contains(&"e".to_owned()), "{written:?}");
        assert!(!written.contains(&"c::d".to_owned()), "{written:?}");
    }

    #[test]
    fn a_field_under_cfg_test_hides_only_itself() {
        let written = written("struct S { #[cfg(test)] a: x::A, b: x::B }");
        assert!(!written.contains(&"x::A".to_owned()) && written.contains(&"x::B".to_owned()), "{written:?}");
    }

    #[test]
    fn code_for_tests_or_a_feature_is_shipped() {
        assert!(
            written("#[cfg(any(test, feature = \"x\"))] mod m { use a::b; }").contains(&"a::b".to_owned())
        );
        assert!(written("#[cfg(not(test))] mod m { use a::b; }").contains(&"a::b".to_owned()));
        assert!(!written("#[cfg(all(test, unix))] mod m { use a::b; }").contains(&"a::b".to_owned()));
    }

    #[test]
    fn test_modules_in_other_files_are_named() {
        let source = Source::parse("mod a; #[cfg(test)] mod tests; #[cfg(test)] pub(crate) mod b;").unwrap();
        assert_eq!(source.test_modules, ["tests", "b"]);
    }

    #[test]
    fn a_file_may_be_a_test_as_a_whole() {
        let source = Source::parse("//! Tests.\n#![cfg(test)]\nuse a::b;").unwrap();
        assert!(source.is_test);
        assert!(paths(&source.shipped).iter().all(|path| !path.contains(&["a", "b"])));
    }

    #[test]
    fn strings_leave_docs_out() {
        let source = Source::parse("/// one\nconst A: [&str; 2] = [\"two\", r#\"three\"#];").unwrap();
        assert_eq!(source.strings().map(|(text, _)| text).collect::<Vec<_>>(), ["two", "three"]);
    }
}
