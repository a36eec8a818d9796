//! The members of `params`, cut out in the order in which they came.

use std::borrow::Cow;

/// The most members `params` may have.
pub const MAX_PARAMS: usize = 64;

/// How many lie where the message does, so that nothing is allocated for them: few requests have more.
const NEAR: usize = 4;

/// A name, and the text of a value.
type Member<'a> = (Cow<'a, str>, &'a str);

/// As many as there may be, no two of a name.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    near: [Option<Member<'a>>; NEAR],
    rest: Vec<Member<'a>>,
}

impl<'a> Members<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        for place in &self.near {
            match place {
                Some((known, text)) if known == name => return Some(text),
                Some(_) => {}
                None => return None,
            }
        }
        self.rest.iter().find(|(known, _)| known == name).map(|(_, text)| *text)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.near.iter().flatten().chain(&self.rest).map(|(name, text)| (name.as_ref(), *text))
    }

    /// # Errors
    ///
    /// What is wrong with `params` that have this one as well, which is left out.
    pub(super) fn push(&mut self, name: Cow<'a, str>, text: &'a str) -> Result<(), &'static str> {
        if self.rest.len() == MAX_PARAMS - NEAR {
            return Err("`params` has too many members");
        }
        for place in &mut self.near {
            match place {
                Some((known, _)) if *known == name => return Err(TWICE),
                Some(_) => {}
                None => {
                    *place = Some((name, text));
                    return Ok(());
                }
            }
        }
        if self.rest.iter().any(|(known, _)| *known == name) {
            return Err(TWICE);
        }
        self.rest.push((name, text));
        Ok(())
    }
}

const TWICE: &str = "a member of `params` appears twice";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_kept_as_there_may_be_each_once_in_their_order() {
        let names: Vec<String> = (0..MAX_PARAMS).map(|nth| format!("n{nth}")).collect();
        let mut members = Members::default();
        for (nth, name) in names.iter().enumerate() {
            assert_eq!(members.push(name.as_str().into(), name), Ok(()));
            for known in (nth + 1 < MAX_PARAMS).then_some(&names[..=nth]).into_iter().flatten() {
                assert_eq!(members.push(known.as_str().into(), "again"), Err(TWICE));
            }
        }
        assert_eq!(members.push("more".into(), "1"), Err("`params` has too many members"));
        assert!(members.iter().eq(names.iter().map(|name| (name.as_str(), name.as_str()))));
        assert_eq!(
            (members.get("n63"), members.get("n3"), members.get("more")),
            (Some("n63"), Some("n3"), None)
        );
    }
}
