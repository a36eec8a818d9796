//! How facts are written where they are kept as text: names are checked when they are read back, numbers come back as they
//! were.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{CallKey, HostId, Json, NodeId, Principal, TaskId, ToolVersion};

/// Writes a name as its text, and reads it back through its own checks.
macro_rules! by_name {
    ($($name:ty),+ $(,)?) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = String::deserialize(deserializer)?;
                Self::new(name.as_str()).map_err(D::Error::custom)
            }
        }
    )+};
}

by_name!(CallKey, HostId, NodeId, Principal, TaskId, ToolVersion);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(|raw: Box<serde_json::value::RawValue>| raw.into())
    }
}

/// A number by its bits: decimal digits are not read back to the last of them.
pub(crate) mod exactly {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        number.to_bits().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

/// The same of one that may be unknown.
pub(crate) mod exactly_if_known {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        number.map(f64::to_bits).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(f64::from_bits))
    }
}
