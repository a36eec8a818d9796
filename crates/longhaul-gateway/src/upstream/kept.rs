//! What of one kind is offered of a server, kept like what it lists.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use longhaul::proto::model::{Icon, Prompt, Resource, ResourceTemplate, Tool};
use longhaul::server::{BuildError, Catalogue, ChangeError, Offered};

use crate::causes::in_words;

/// Something as it is listed.
pub(super) trait Definition: Clone + PartialEq {
    /// By which it is found here.
    fn key(&self) -> &str;

    fn icons(&mut self) -> &mut Vec<Icon>;
}

macro_rules! definitions {
    ($($kind:ty: $key:ident;)*) => {$(
        impl Definition for $kind {
            fn key(&self) -> &str {
                &self.$key
            }

            fn icons(&mut self) -> &mut Vec<Icon> {
                &mut self.icons
            }
        }
    )*};
}

definitions! {
    Tool: name;
    Prompt: name;
    Resource: uri;
    ResourceTemplate: uri_template;
}

/// What is offered, by key.
#[derive(Debug)]
pub(super) struct Kept<D>(BTreeMap<String, Listed<D>>);

/// One of it.
#[derive(Debug)]
struct Listed<D> {
    /// As it was listed.
    definition: D,
    /// What is done with it is another matter since: it is to be offered anew, though its server says the same of it.
    is_stale: bool,
}

/// What came of listing it again.
#[derive(Debug, Default)]
pub(super) struct Renewed {
    /// Of what something else is said than before.
    pub(super) changed: Vec<String>,
    /// What cannot be offered, and why.
    pub(super) refused: Vec<(String, String)>,
    /// What is listed more than once, each once.
    pub(super) repeated: BTreeSet<String>,
}

impl<D> Default for Kept<D> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<D: Definition> Kept<D> {
    /// Offers what is listed now, and nothing else. Of two of one name the first counts.
    ///
    /// # Errors
    ///
    /// When nothing is served any more.
    pub(super) fn renew<T: Offered>(
        &mut self,
        catalogue: &Catalogue,
        listed: Vec<D>,
        build: impl Fn(D) -> T,
    ) -> Result<Renewed, ChangeError> {
        let (mut now, mut put, mut renewed) = (BTreeMap::new(), Vec::new(), Renewed::default());
        for definition in listed {
            let key = definition.key().to_owned();
            if now.contains_key(&key) {
                renewed.repeated.insert(key);
                continue;
            }
            let before = self.0.get(&key);
            let is_same = before.is_some_and(|before| before.definition == definition);
            if before.is_some() && !is_same {
                renewed.changed.push(key.clone());
            }
            if !is_same || before.is_some_and(|before| before.is_stale) {
                put.push(definition.clone());
            }
            now.insert(key, Listed { definition, is_stale: false });
        }
        let gone: Vec<&String> = self.0.keys().filter(|key| !now.contains_key(*key)).collect();
        let refused = catalogue.renew(gone, put.iter().cloned().map(&build))?;
        let (pictures, refused): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, error)| matches!(error, BuildError::Icon { .. }));
        // What is shown with a picture that no client should fetch is of use without it.
        let pictures: HashSet<String> = pictures.into_iter().map(|(key, _)| key).collect();
        let plain = put.into_iter().filter(|definition| pictures.contains(definition.key()));
        let plain = plain.map(|mut definition| {
            definition.icons().clear();
            build(definition)
        });
        let refused = refused.into_iter().chain(catalogue.renew([""; 0], plain)?);
        renewed.refused = refused.map(|(key, error)| (key, in_words(&error))).collect();
        for (key, _) in &renewed.refused {
            now.remove(key);
        }
        // Nor is it offered as it was before.
        let stale: Vec<&String> =
            renewed.refused.iter().map(|(key, _)| key).filter(|key| self.0.contains_key(*key)).collect();
        catalogue.renew::<T>(stale, None)?;
        self.0 = now;
        Ok(renewed)
    }

    /// Whatever is listed next is to be offered anew, though it says the same. What it says otherwise is known all the same.
    pub(super) fn be_stale(&mut self) {
        self.0.values_mut().for_each(|listed| listed.is_stale = true);
    }

    /// Offers no longer what was not listed since.
    ///
    /// # Errors
    ///
    /// When nothing is served any more.
    pub(super) fn drop_stale<T: Offered>(&mut self, catalogue: &Catalogue) -> Result<(), ChangeError> {
        let stale: Vec<String> =
            self.0.iter().filter(|(_, listed)| listed.is_stale).map(|(key, _)| key.clone()).collect();
        stale.iter().for_each(|key| drop(self.0.remove(key)));
        catalogue.renew::<T>(stale, None).map(drop)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use longhaul::Server;
    use longhaul::server;

    use super::*;

    #[tokio::test]
    async fn what_is_offered_anew_is_told_from_what_is_said_otherwise() {
        let (server, catalogue) = Server::new("front", "1.0.0").dynamic();
        let _dispatcher = server.dispatcher().unwrap();
        let (mut kept, built) = (Kept::default(), Cell::new(0));
        let renew = |kept: &mut Kept<Prompt>, said: &str| {
            let mut prompt = Prompt::new("p");
            prompt.description = Some(said.to_owned());
            built.set(0);
            let renewed = kept.renew(&catalogue, vec![prompt], |definition| {
                built.set(built.get() + 1);
                server::Prompt::raw(definition, |_, _| async { "p" })
            });
            (renewed.unwrap().changed, built.get())
        };
        let (nothing, it) = (Vec::<String>::new(), vec!["p".to_owned()]);
        assert_eq!(renew(&mut kept, "a"), (nothing.clone(), 1), "it is new");
        assert_eq!(renew(&mut kept, "a"), (nothing.clone(), 0));
        kept.be_stale();
        assert_eq!(renew(&mut kept, "a"), (nothing.clone(), 1), "it is offered anew");
        assert_eq!(renew(&mut kept, "a"), (nothing.clone(), 0), "once");
        kept.be_stale();
        assert_eq!(renew(&mut kept, "b"), (it.clone(), 1), "it says something else, whatever else is new");
        assert_eq!(renew(&mut kept, "c"), (it, 1));
        kept.drop_stale::<server::Prompt>(&catalogue).unwrap();
        assert_eq!(kept.len(), 1, "it was listed since");
        kept.be_stale();
        kept.drop_stale::<server::Prompt>(&catalogue).unwrap();
        assert_eq!(kept.len(), 0);
        assert_eq!(renew(&mut kept, "c"), (nothing, 1));
    }
}
