//! Names that a part of the tree may not use, and the search for them.

use crate::tidy::source::{PathUse, Source, paths, reads};

/// A name and what is wrong with using it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forbidden {
    name: Name,
    why: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum Name {
    /// These segments anywhere in a path.
    Path(&'static [&'static str]),
    /// A path that begins so, or that does after a leading `::`.
    Root(&'static [&'static str]),
    /// A call of a method of this name.
    Method(&'static str),
}

impl Forbidden {
    /// Forbids these segments, side by side, anywhere in a path.
    pub(super) const fn path(segments: &'static [&'static str], why: &'static str) -> Self {
        Self { name: Name::Path(segments), why }
    }

    /// Forbids paths that begin with these segments; a `*` stands for a glob import.
    pub(super) const fn root(segments: &'static [&'static str], why: &'static str) -> Self {
        Self { name: Name::Root(segments), why }
    }

    /// Forbids calling a method of this name, whatever its type.
    pub(super) const fn method(name: &'static str, why: &'static str) -> Self {
        Self { name: Name::Method(name), why }
    }

    fn matches(self, path: &PathUse) -> bool {
        match self.name {
            Name::Path(segments) => path.contains(segments),
            // One segment alone may be a variable or a field; a crate is used through `::` or imported as such.
            Name::Root([only]) => path.segments.len() > 1 && path.starts_with(&[only]),
            Name::Root(segments) => path.starts_with(segments),
            Name::Method(_) => false,
        }
    }
}

/// Every use of a forbidden name in shipped code: its line, and what it does.
pub(super) fn scan(source: &Source, forbidden: &[Forbidden]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for path in paths(&source.shipped) {
        if let Some(hit) = forbidden.iter().find(|name| name.matches(&path)) {
            found.push((path.line, format!("{} {}", path.written(), hit.why)));
        }
    }
    for hit in forbidden {
        let Name::Method(method) = hit.name else { continue };
        for (at, token) in source.shipped.iter().enumerate() {
            if reads(&source.shipped, at, &[".", method, "("]) {
                found.push((token.line, format!(".{method}() {}", hit.why)));
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[Forbidden] = &[Forbidden::root(&["tokio"], "runs"), Forbidden::method("elapsed", "ticks")];

    #[test]
    fn a_field_named_as_a_crate_is_not_the_crate() {
        let source =
            Source::parse("fn f() { self.tokio; tokio::spawn(x); a.elapsed(); elapsed(); }").unwrap();
        assert_eq!(
            scan(&source, NAMES),
            [(1, ".elapsed() ticks".to_owned()), (1, "tokio::spawn runs".to_owned())]
        );
    }
}
