//! Objects that are read member by member, so that none is lost: what no revision known here has is kept as it came.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::meta::Meta;

/// The members of an object that nobody has taken yet.
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Takes the member of that name, if there is one and it is not `null`.
    pub(super) fn take<T: DeserializeOwned, E: Error>(&mut self, name: &str) -> Result<Option<T>, E> {
        let Some(place) = self.0.iter().position(|(known, _)| known == name) else { return Ok(None) };
        let (_, value) = self.0.remove(place);
        serde_json::from_str(value.get()).map_err(|error| E::custom(format_args!("`{name}`: {error}")))
    }

    /// The same of one that may be missing, and then is what `T` is by default.
    pub(super) fn take_or_default<T: DeserializeOwned + Default, E: Error>(
        &mut self,
        name: &str,
    ) -> Result<T, E> {
        self.take(name).map(Option::unwrap_or_default)
    }

    /// The same of one that may not be missing.
    pub(super) fn need<T: DeserializeOwned, E: Error>(&mut self, name: &'static str) -> Result<T, E> {
        self.take(name)?.ok_or_else(|| E::missing_field(name))
    }

    /// Puts it aside: it is written anew.
    pub(super) fn put_aside(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// What nobody has taken.
    pub(super) fn rest(&mut self) -> Meta {
        std::mem::take(&mut self.0)
            .into_iter()
            .fold(Meta::new(), |rest, (name, value)| rest.with(name, &value))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::<(String, Box<RawValue>)>::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                // Which of the two counts would depend on who reads them.
                match twice(&members) {
                    Some(name) => Err(A::Error::custom(format_args!("`{name}` appears twice"))),
                    None => Ok(Members(members)),
                }
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A name that more than one has. A peer chooses how many there are, so they are not compared each with each.
fn twice(members: &[(String, Box<RawValue>)]) -> Option<&str> {
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// How types are read by their members, but those that are only written by them: `others` has the rest.
macro_rules! read_by_member {
    ($($kind:ident { $($field:ident: $how:ident $name:literal,)* $(; $($dropped:literal)*)? })*) => {$(
        impl $kind {
            pub(super) fn read<E: serde::de::Error>(mut members: Members) -> Result<Self, E> {
                $($(members.put_aside($dropped);)*)?
                Ok(Self { $($field: members.$how($name)?,)* others: members.rest() })
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::read(<Members as serde::Deserialize>::deserialize(deserializer)?)
            }
        }
    )*};
}

pub(super) use read_by_member;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_is_found_among_very_many() {
        let names: Vec<String> = (0..200_000).map(|number| format!("\"{number}\":0")).collect();
        let many = format!("{{{}}}", names.join(","));
        assert_eq!(serde_json::from_str::<Members>(&many).unwrap().0.len(), names.len());
        let twice = format!("{{{},\"7\":1}}", names.join(","));
        let error = serde_json::from_str::<Members>(&twice).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("`7` appears twice"), "{error}");
    }
}
