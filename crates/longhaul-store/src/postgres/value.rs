//! What statements take and rows give.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type},
};

use crate::row::Cells;

/// A value of a statement, which says of itself what type it has: behind a pooler nothing is prepared that would.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Int(Option<i64>),
    Real(Option<f64>),
    /// A name, or JSON: it has no NUL.
    Text(Option<&'a str>),
    /// What anybody may have written, or bytes.
    Bytes(Option<&'a [u8]>),
    Ints(&'a [i64]),
    Texts(&'a [&'a str]),
    AllBytes(Option<&'a [&'a [u8]]>),
}

impl<'a> Value<'a> {
    pub(super) fn int(number: impl Into<i64>) -> Self {
        Self::Int(Some(number.into()))
    }

    pub(super) fn count(number: u64) -> Self {
        Self::int(crate::row::signed(number))
    }

    pub(super) fn text(text: &'a str) -> Self {
        Self::Text(Some(text))
    }

    pub(super) fn words(words: &'a str) -> Self {
        Self::Bytes(Some(words.as_bytes()))
    }

    pub(super) fn maybe_words(words: Option<&'a str>) -> Self {
        Self::Bytes(words.map(str::as_bytes))
    }

    pub(super) fn of_type(self) -> Type {
        match self {
            Self::Int(_) => Type::INT8,
            Self::Real(_) => Type::FLOAT8,
            Self::Text(_) => Type::TEXT,
            Self::Bytes(_) => Type::BYTEA,
            Self::Ints(_) => Type::INT8_ARRAY,
            Self::Texts(_) => Type::TEXT_ARRAY,
            Self::AllBytes(_) => Type::BYTEA_ARRAY,
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Int(value) => value.to_sql(ty, out),
            Self::Real(value) => value.to_sql(ty, out),
            Self::Text(value) => value.to_sql(ty, out),
            Self::Bytes(value) => value.to_sql(ty, out),
            Self::Ints(value) => value.to_sql(ty, out),
            Self::Texts(value) => value.to_sql(ty, out),
            Self::AllBytes(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        if *ty != self.of_type() {
            return Err(format!("a {ty} is wanted and a {} given", self.of_type()).into());
        }
        self.to_sql(ty, out)
    }
}

/// Text, however it lies there.
struct Words<'a>(&'a str);

impl<'a> FromSql<'a> for Words<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::TEXT | Type::BYTEA)
    }
}

impl Cells for Row {
    type Error = tokio_postgres::Error;

    fn int(&self, at: usize) -> Result<Option<i64>, Self::Error> {
        self.try_get(at)
    }

    fn real(&self, at: usize) -> Result<Option<f64>, Self::Error> {
        self.try_get(at)
    }

    fn text(&self, at: usize) -> Result<Option<&str>, Self::Error> {
        Ok(self.try_get::<_, Option<Words<'_>>>(at)?.map(|words| words.0))
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, Self::Error> {
        self.try_get(at)
    }
}
