//! URI templates read backwards: which values a URI was made of (RFC 6570, levels 1 to 3).
//!
//! The specification of templates says how a URI is made of values, not how it is taken apart. Here a variable is read
//! as the longest run of what its operator can write, at least one character, and a template becomes one regular
//! expression of a linear engine, so that no URI is expensive to read.

use std::collections::BTreeMap;

use regex_lite::Regex;

/// A template that URIs can be held against.
#[derive(Clone, Debug)]
pub(super) struct UriTemplate {
    pattern: Regex,
    /// What each group of the pattern holds.
    groups: Vec<Group>,
    variables: Vec<String>,
}

/// What a group of the pattern holds.
#[derive(Clone, Debug)]
enum Group {
    /// The value of a variable.
    Value(String),
    /// Values with their names, between separators.
    Pairs(char),
}

/// Longer URIs are not looked at.
const LONGEST: usize = 8 << 10;

/// One character of a value that is written without reserved characters.
const PLAIN: &str = r"(?:[^:/?#\[\]@!$&'()*+,;=%]|%[0-9A-Fa-f]{2})";

/// One character of a value that is written as it is.
const ANY: &str = "(?s:.)";

impl UriTemplate {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with it.
    pub(super) fn parse(template: &str) -> Result<Self, String> {
        let mut parser = Parser { pattern: "^".to_owned(), groups: Vec::new(), variables: Vec::new() };
        let mut rest = template;
        while let Some((literal, expression)) = rest.split_once('{') {
            parser.literal(literal)?;
            let Some((expression, behind)) = expression.split_once('}') else {
                return Err("a `{` is not closed".to_owned());
            };
            parser.expression(expression)?;
            rest = behind;
        }
        parser.literal(rest)?;
        if parser.variables.is_empty() {
            return Err("it has no variables: a resource has its URI".to_owned());
        }
        parser.pattern.push('$');
        let pattern = Regex::new(&parser.pattern).map_err(|error| error.to_string())?;
        Ok(Self { pattern, groups: parser.groups, variables: parser.variables })
    }

    /// The names of the variables, in order.
    pub(super) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// The values `uri` was made of; `None` when it was not made by this template.
    pub(super) fn read(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        if uri.len() > LONGEST {
            return None;
        }
        let found = self.pattern.captures(uri)?;
        let mut values = BTreeMap::new();
        for (group, held) in self.groups.iter().zip(found.iter().skip(1)) {
            let Some(held) = held else { continue };
            match group {
                Group::Value(name) => {
                    values.insert(name.clone(), decoded(held.as_str())?);
                }
                Group::Pairs(separator) => {
                    for pair in held.as_str().split(*separator).filter(|pair| !pair.is_empty()) {
                        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                        values.insert(name.to_owned(), decoded(value)?);
                    }
                }
            }
        }
        Some(values)
    }
}

struct Parser {
    pattern: String,
    groups: Vec<Group>,
    variables: Vec<String>,
}

impl Parser {
    fn literal(&mut self, text: &str) -> Result<(), String> {
        if text.contains('}') {
            return Err("a `}` closes nothing".to_owned());
        }
        self.pattern.push_str(&regex_lite::escape(text));
        Ok(())
    }

    fn expression(&mut self, expression: &str) -> Result<(), String> {
        let operator = expression.chars().next().filter(|first| "+#./;?&=,!@|".contains(*first));
        let names = &expression[operator.map_or(0, char::len_utf8)..];
        let names: Vec<&str> = names.split(',').collect();
        for name in &names {
            self.variable(name)?;
        }
        match operator {
            None => self.listed(&names, "", PLAIN),
            Some('+') => self.listed(&names, "", ANY),
            Some('#') => {
                self.pattern.push_str("(?:");
                self.listed(&names, "#", ANY);
                self.pattern.push_str(")?");
            }
            Some(operator @ ('.' | '/')) => {
                for name in names {
                    self.pattern.push_str(&format!(r"(?:\{operator}({PLAIN}+))?"));
                    self.groups.push(Group::Value(name.to_owned()));
                }
            }
            Some(operator @ (';' | '?' | '&')) => self.pairs(operator, &names),
            Some(reserved) => return Err(format!("the operator `{reserved}` is reserved")),
        }
        Ok(())
    }

    fn variable(&mut self, name: &str) -> Result<(), String> {
        if name.contains(['*', ':']) {
            return Err(format!("`{{{name}}}`: neither `*` nor `:` can be read back"));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        if name.is_empty() || !name.bytes().all(fits) {
            return Err(format!("`{{{name}}}` is no variable: use letters, digits and `_`"));
        }
        if self.variables.iter().any(|known| known == name) {
            return Err(format!("`{{{name}}}` appears twice"));
        }
        self.variables.push(name.to_owned());
        Ok(())
    }

    /// Values with commas between; those behind the first may be missing.
    fn listed(&mut self, names: &[&str], first: &str, of: &str) {
        let mut separator = first;
        for (index, name) in names.iter().enumerate() {
            // A comma ends a value that could hold one, if another follows.
            let greed = if index + 1 < names.len() { "+?" } else { "+" };
            self.pattern.push_str(&format!("{}{separator}({of}{greed})", if index > 0 { "(?:" } else { "" }));
            self.groups.push(Group::Value((*name).to_owned()));
            separator = ",";
        }
        self.pattern.push_str(&")?".repeat(names.len() - 1));
    }

    /// Values with their names, in any order, each of which may be missing.
    fn pairs(&mut self, operator: char, names: &[&str]) {
        let names = names.iter().map(|name| regex_lite::escape(name)).collect::<Vec<_>>().join("|");
        let (pattern, separator) = match operator {
            ';' => (format!("((?:;(?:{names})(?:=[^;/?#]*)?)*)"), ';'),
            '&' => (format!("((?:&(?:{names})=[^&#]*)*)"), '&'),
            _ => (format!(r"(?:\?((?:{names})=[^&#]*(?:&(?:{names})=[^&#]*)*))?"), '&'),
        };
        self.pattern.push_str(&pattern);
        self.groups.push(Group::Pairs(separator));
    }
}

/// A value without its percent-encoding; `None` when it is no text.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, behind @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (first, behind)
            && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
        {
            bytes.push(u8::try_from(high * 16 + low).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(template: &str, uri: &str) -> Option<String> {
        let values = UriTemplate::parse(template).unwrap().read(uri)?;
        Some(values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_uri_is_taken_apart_as_it_was_made() {
        let cases = [
            ("test://template/{id}/data", "test://template/123/data", Some("id=123")),
            ("test://template/{id}/data", "test://template/1/2/data", None),
            ("test://template/{id}/data", "test://template//data", None),
            ("file:///{path}", "file:///a/b", None),
            ("file:///{+path}", "file:///a/b?c", Some("path=a/b?c")),
            ("a:{name}.{kind}", "a:x.y.z", Some("kind=z name=x.y")),
            ("a:{x,y}", "a:1,2", Some("x=1 y=2")),
            ("a:{x,y}", "a:1", Some("x=1")),
            ("a:{+x,y}", "a:1/2,3,4", Some("x=1/2 y=3,4")),
            ("a:{x}{#part}", "a:1#p/q", Some("part=p/q x=1")),
            ("a:{x}{#part}", "a:1", Some("x=1")),
            ("a:b{/x,y}", "a:b/1/2", Some("x=1 y=2")),
            ("a:b{.x}", "a:b.txt", Some("x=txt")),
            ("a:b{;x,y}", "a:b;y=2;x", Some("x= y=2")),
            ("db://t{?limit,from}", "db://t?from=7&limit=%31", Some("from=7 limit=1")),
            ("db://t{?limit}", "db://t", Some("")),
            ("db://t{?limit}", "db://t?other=1", None),
            ("db://t?a=1{&b}", "db://t?a=1&b=2", Some("b=2")),
            ("a:{x}", "a:%C3%A9%20b", Some("x=é b")),
            ("a:{x}", "a:%FF", None),
            ("a:{x}", "a:%2", None),
            ("a:{x}(", "a:1(", Some("x=1")),
            ("a:{x}", "a:1\n", Some("x=1\n")),
        ];
        for (template, uri, expected) in cases {
            assert_eq!(read(template, uri).as_deref(), expected, "{template} {uri}");
        }
        assert_eq!(read("a:{+x}", &format!("a:{}", "y".repeat(9000))), None, "longer than is looked at");
    }

    #[test]
    fn what_cannot_be_read_back_is_refused() {
        for template in ["a:b", "a:{", "a:}", "a:{}", "a:{x}{x}", "a:{x*}", "a:{x:3}", "a:{|x}", "a:{x y}"] {
            assert!(UriTemplate::parse(template).is_err(), "{template}");
        }
        let error = UriTemplate::parse("a:{x*}").unwrap_err();
        assert_eq!(error, "`{x*}`: neither `*` nor `:` can be read back");
    }
}
