//! Parameters of a request, in a query or a form: each once.

use std::collections::BTreeMap;

/// The parameters of one request.
#[derive(Debug, Default)]
pub(crate) struct Form(BTreeMap<String, String>);

impl Form {
    /// `None` when one is given twice: two readers could take two values (RFC 6749, 3.1).
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut form = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text) {
            if form.insert(name.into_owned(), value.into_owned()).is_some() {
                return None;
            }
        }
        Some(Self(form))
    }

    /// A parameter; one without a value is as one that is not there (RFC 6749, 3.1).
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Parameters, as a form is sent.
pub(crate) fn encode<'p>(parameters: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}
