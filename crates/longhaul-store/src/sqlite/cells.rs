//! A row of SQLite's, read by the places of its columns.

use rusqlite::{
    Error, Row,
    types::{FromSqlError, Type},
};

use crate::row::Cells;

impl Cells for Row<'_> {
    type Error = Error;

    fn int(&self, at: usize) -> Result<Option<i64>, Error> {
        self.get_ref(at)?.as_i64_or_null().map_err(|error| wrong(at, error))
    }

    fn real(&self, at: usize) -> Result<Option<f64>, Error> {
        self.get_ref(at)?.as_f64_or_null().map_err(|error| wrong(at, error))
    }

    fn text(&self, at: usize) -> Result<Option<&str>, Error> {
        self.get_ref(at)?.as_str_or_null().map_err(|error| wrong(at, error))
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, Error> {
        self.get_ref(at)?.as_blob_or_null().map_err(|error| wrong(at, error))
    }
}

fn wrong(at: usize, error: FromSqlError) -> Error {
    Error::FromSqlConversionFailure(at, Type::Null, Box::new(error))
}
