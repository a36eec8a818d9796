//! What can be said of everything that is offered.

use longhaul_proto::model::Icon;
use serde::Serialize;

use super::prompt::Prompt;
use super::resource::Resource;
use super::state::Need;
use super::template::ResourceTemplate;
use super::tool::Tool;

macro_rules! adorned {
    ($($kind:ty),*) => {$(
        impl $kind {
            /// Names it for people.
            #[must_use]
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.definition.title = Some(title.into());
                self
            }

            /// Shows a picture of it; several may be offered for a client to choose from.
            #[must_use]
            pub fn icon(mut self, icon: Icon) -> Self {
                self.definition.icons.push(icon);
                self
            }

            /// Says something more of it, under a key of `_meta`. A value that is no JSON is left out.
            #[must_use]
            pub fn meta(mut self, key: impl Into<String>, value: &impl Serialize) -> Self {
                self.definition.meta = std::mem::take(&mut self.definition.meta).with(key.into(), value);
                self
            }

            /// Says that it cannot do without the server's [`State`](super::State) of type `T`: a server that has none
            /// is not put together.
            #[must_use]
            pub fn needs<T: Send + Sync + 'static>(mut self) -> Self {
                self.needed.push(Need::of::<T>());
                self
            }
        }
    )*};
}

adorned!(Tool, Prompt, Resource, ResourceTemplate);
