//! A JSON body with placeholders: a text that is one is the value itself, and no value can be anything else.

use serde_json::{Map, Value as Json};

use crate::config::{
    template::{Piece, Template},
    value::Value,
};

/// A body as the file gives it, in TOML.
#[derive(Clone, Debug)]
pub(in crate::config) enum Body {
    /// A value without placeholders.
    Literal(Json),
    /// A text with placeholders.
    Text(Template),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Body {
    /// Whether values stand in it.
    pub(super) fn has_values(&self) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Text(template) => template.inputs().next().is_some(),
            Self::List(items) => items.iter().any(Self::has_values),
            Self::Object(members) => members.iter().any(|(_, member)| member.has_values()),
        }
    }

    /// The body with these values. What holds an input that is left out is left out with it.
    pub(super) fn bind(&self, values: &[Option<Value>]) -> Option<Json> {
        match self {
            Self::Literal(json) => Some(json.clone()),
            Self::Text(template) => text(template, values),
            Self::List(items) => Some(items.iter().filter_map(|item| item.bind(values)).collect()),
            Self::Object(members) => {
                let bound =
                    members.iter().filter_map(|(name, member)| Some((name.clone(), member.bind(values)?)));
                Some(Json::Object(bound.collect::<Map<_, _>>()))
            }
        }
    }
}

fn text(template: &Template, values: &[Option<Value>]) -> Option<Json> {
    let value = |index: usize| values.get(index).and_then(Option::as_ref);
    if let Some(index) = template.sole_input() {
        // Its type stays: a number is no text.
        return serde_json::from_str(&value(index)?.to_json()).ok();
    }
    let piece = |piece: &Piece| match piece {
        Piece::Literal(text) => Some(text.clone()),
        Piece::Input(index) => value(*index)?.text(),
    };
    template.pieces().iter().map(piece).collect::<Option<String>>().map(Json::String)
}
