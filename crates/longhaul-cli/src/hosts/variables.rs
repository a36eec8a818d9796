//! What stands for something else in a host's file, replaced as the host does it.

use crate::failure::{Failure, Outcome};
use crate::term::clean;

use super::Variables;

/// Replaces the variables of `text`; `find` knows what each is, by its name.
pub(super) fn replace(
    text: &str,
    variables: Variables,
    find: &mut dyn FnMut(&str) -> Outcome<Option<String>>,
) -> Outcome<String> {
    match variables {
        Variables::None => return Ok(text.to_owned()),
        Variables::Braces => return braced(text, find),
        Variables::Shell { .. } | Variables::Editor { .. } => {}
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (name, length) =
            match (rest[1..].strip_prefix('{').and_then(|inner| inner.split_once('}')), variables) {
                (Some((name, _)), _) => (name, name.len() + 3),
                (None, Variables::Shell { bare: true }) => {
                    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    let end = rest[1..].find(|c| !is_part(c)).unwrap_or(rest.len() - 1);
                    (&rest[1..=end], end + 1)
                }
                (None, _) => ("", 1),
            };
        if name.is_empty() {
            out.push_str(&rest[..length]);
        } else {
            let (name, otherwise) = match (name.split_once(":-"), variables) {
                (Some((name, otherwise)), Variables::Shell { .. }) => (name, Some(otherwise)),
                _ => (name, None),
            };
            match (find(name)?, otherwise) {
                (Some(value), _) => out.push_str(&value),
                (None, Some(otherwise)) => out.push_str(otherwise),
                (None, None) => {
                    let name = clean::line(name.strip_prefix("env:").unwrap_or(name), 80);
                    return Err(Failure::usage(format!("`{name}` is not known here"))
                        .next(format!("set the environment variable `{name}`, if it is one")));
                }
            }
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The same where variables stand as `{env:NAME}`.
fn braced(text: &str, find: &mut dyn FnMut(&str) -> Outcome<Option<String>>) -> Outcome<String> {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, inner)) = rest.split_once("{env:")
        && let Some((name, after)) = inner.split_once('}')
    {
        out.push_str(before);
        // One that is not there is nothing to that host.
        out.push_str(&find(&format!("env:{name}"))?.unwrap_or_default());
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
