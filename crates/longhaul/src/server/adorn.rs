//! What can be said of everything that is offered.

use longhaul_proto::model::Icon;
use serde::Serialize;

use super::prompt::Prompt;
use super::resource::Resource;
use super::state::{Need, States};
use super::template::ResourceTemplate;
use super::tool::Tool;
use super::{BuildError, address};

macro_rules! adorned {
    ($($kind:ty),*) => {$(
        impl $kind {
            /// Names it for people.
            #[must_use]
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.definition.title = Some(title.into());
                self
            }

            /// Shows a picture of it; several may be offered for a client to choose from. Its address begins with `data:`
            /// or `https://`, or with `http://` and a name of this machine for itself: a server with any other is not put
            /// together.
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

            /// Whether what is said of it can be, and all is there that it needs; `of` names it.
            pub(super) fn check_adorned(&self, states: &States, of: impl Fn() -> String) -> Result<(), BuildError> {
                let wrong = self.definition.icons.iter().find_map(|icon| address::check_picture(&icon.src).err());
                match wrong {
                    Some(what) => Err(BuildError::Icon { of: of(), what }),
                    None => states.check(&self.needed, of),
                }
            }
        }
    )*};
}

adorned!(Tool, Prompt, Resource, ResourceTemplate);
