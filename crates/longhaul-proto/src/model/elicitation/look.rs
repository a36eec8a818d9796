//! A form as whoever puts it to a user looks at it.

use serde_json::Value;

use super::{Choice, Field, FieldValue, Form, Kind, TextFormat};

impl Form {
    /// Its fields in their order: the name of each, the field, and whether it must be filled in.
    ///
    /// # Examples
    ///
    /// ```
    /// use longhaul_proto::model::{Field, FieldKind, Form};
    ///
    /// let form = Form::new().with("go", Field::flag().defaulting_to(true));
    /// let (name, field, is_required) = form.fields().next().unwrap();
    /// assert_eq!((name, is_required), ("go", true));
    /// assert!(matches!(field.kind(), FieldKind::Flag));
    /// assert_eq!(field.check(&"yes".into()), Err("true or false".to_owned()));
    /// ```
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&str, &Field, bool)> {
        self.fields.iter().map(|(name, field, is_required)| (name.as_str(), field, *is_required))
    }
}

impl Field {
    /// What it is called for people.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What it is for.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// What it takes.
    pub fn kind(&self) -> FieldKind<'_> {
        match &self.kind {
            Kind::Text { format, length, .. } => FieldKind::Text { format: *format, length: *length },
            Kind::Number { integer, range, .. } => FieldKind::Number { whole: *integer, range: *range },
            Kind::Flag { .. } => FieldKind::Flag,
            Kind::Choice { options, .. } => FieldKind::Choice { options: shown(options) },
            Kind::Choices { options, count, .. } => {
                FieldKind::Choices { options: shown(options), count: *count }
            }
        }
    }

    /// What it is filled in with to begin with.
    pub fn default(&self) -> Option<FieldValue> {
        match &self.kind {
            Kind::Text { default, .. } | Kind::Choice { default, .. } => {
                default.clone().map(FieldValue::Text)
            }
            Kind::Number { default, .. } => default.map(FieldValue::Number),
            Kind::Flag { default } => default.map(FieldValue::Flag),
            Kind::Choices { default, .. } => (!default.is_empty()).then(|| FieldValue::Many(default.clone())),
        }
    }

    /// Whether `value` fits it.
    ///
    /// # Errors
    ///
    /// What it should be instead.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.kind.expects(value).map_or(Ok(()), Err)
    }
}

/// What a field takes. Bounds are of the least and the most, both of which still fit.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the kinds a form has")]
pub enum FieldKind<'f> {
    /// A text.
    Text {
        /// What it must be.
        format: Option<TextFormat>,
        /// How long it may be, in characters.
        length: (Option<u64>, Option<u64>),
    },
    /// A number.
    Number {
        /// It is whole.
        whole: bool,
        /// How large it may be.
        range: (Option<f64>, Option<f64>),
    },
    /// A yes or no.
    Flag,
    /// One of these.
    Choice {
        /// What there is to choose.
        options: Vec<FieldOption<'f>>,
    },
    /// Any of these.
    Choices {
        /// What there is to choose.
        options: Vec<FieldOption<'f>>,
        /// How many may be chosen.
        count: (Option<u64>, Option<u64>),
    },
}

/// One thing to choose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FieldOption<'f> {
    /// What is answered with.
    pub value: &'f str,
    /// What it is called for people, if it has a name.
    pub title: Option<&'f str>,
}

fn shown(options: &[Choice]) -> Vec<FieldOption<'_>> {
    options.iter().map(Choice::shown).collect()
}

impl Choice {
    fn shown(&self) -> FieldOption<'_> {
        let title = Some(self.title.as_str()).filter(|title| !title.is_empty());
        FieldOption { value: &self.value, title }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_looked_at_as_it_was_made() {
        let form = Form::new()
            .with("n", Field::integer().titled("How many").within(1.0, 5.0).defaulting_to(2))
            .with_optional("c", Field::named_choices([("a", "A")]).described("Which").defaulting_to(["a"]))
            .with_optional("d", Field::choice(["x"]));
        let fields: Vec<_> = form.fields().collect();
        assert_eq!(fields.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), ["n", "c", "d"]);
        assert_eq!(fields.iter().map(|(.., required)| *required).collect::<Vec<_>>(), [true, false, false]);
        let (n, c, d) = (fields[0].1, fields[1].1, fields[2].1);
        assert_eq!((n.title(), n.default()), (Some("How many"), Some(FieldValue::Number(2.0))));
        assert!(matches!(n.kind(), FieldKind::Number { whole: true, range: (Some(1.0), Some(5.0)) }));
        assert_eq!((c.description(), c.default()), (Some("Which"), Some(FieldValue::Many(vec!["a".into()]))));
        let FieldKind::Choices { options, count: (None, None) } = c.kind() else { panic!("{c:?}") };
        assert_eq!(options, [FieldOption { value: "a", title: Some("A") }]);
        let FieldKind::Choice { options } = d.kind() else { panic!("{d:?}") };
        assert_eq!((options[0].title, d.default()), (None, None));
        assert_eq!(n.check(&6.into()), Err("a whole number, 1 to 5".to_owned()));
        assert_eq!(n.check(&5.into()), Ok(()));
    }
}
