//! What of one kind is offered of a server, kept like what it lists.

use std::collections::{BTreeMap, HashSet};

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

/// What is offered, by key, as it was listed. `None`: as it was served before its server was configured otherwise.
#[derive(Debug)]
pub(super) struct Kept<D>(BTreeMap<String, Option<D>>);

/// What came of listing it again.
#[derive(Debug, Default)]
pub(super) struct Renewed {
    /// Of what something else is said than before.
    pub(super) changed: Vec<String>,
    /// What cannot be offered, and why.
    pub(super) refused: Vec<(String, String)>,
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
                continue;
            }
            let definition = Some(definition);
            let before = self.0.get(&key);
            if before.is_some_and(|before| before.is_some() && *before != definition) {
                renewed.changed.push(key.clone());
            }
            if before != Some(&definition) {
                put.extend(definition.clone());
            }
            now.insert(key, definition);
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

    /// Whatever is listed next is to be offered anew, though it says the same.
    pub(super) fn forget(&mut self) {
        self.0.values_mut().for_each(|listed| *listed = None);
    }

    /// Offers no longer what was not listed since.
    ///
    /// # Errors
    ///
    /// When nothing is served any more.
    pub(super) fn drop_stale<T: Offered>(&mut self, catalogue: &Catalogue) -> Result<(), ChangeError> {
        let stale: Vec<String> =
            self.0.iter().filter(|(_, listed)| listed.is_none()).map(|(key, _)| key.clone()).collect();
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
