//! The prompts of a server as they are offered.

use std::collections::HashMap;
use std::sync::Arc;

use longhaul::client::{Client, Error};
use longhaul::proto::model::{self, CompletionReference};
use longhaul::server::Prompt;

use super::connection::Upstream;
use super::offering::{Listed, Offered};

impl Offered {
    /// Lists the prompts, and offers those.
    pub(super) async fn renew_prompts(&mut self, client: &Client) -> Result<(), Error> {
        let has_any = client.capabilities().prompts && self.upstream.config().prompts;
        let listed = if has_any { client.prompts().collect().await? } else { Vec::new() };
        if self.is_for_a_call() {
            self.listed.prompts.clone_from(&listed);
        }
        self.offer_prompts(listed);
        Ok(())
    }

    /// Offers these.
    pub(super) fn offer_prompts(&mut self, listed: Vec<model::Prompt>) {
        let config = self.upstream.config();
        let (mut notes, mut named) = (Vec::new(), Vec::new());
        // By their names here, the names there.
        let mut own = HashMap::new();
        for mut prompt in listed {
            let shown = prompt.name.escape_debug();
            match self.names.of_prompt(config, &prompt.name) {
                Ok(name) => {
                    if name != prompt.name && config.prefix.is_none() {
                        notes.push(format!("the prompt `{shown}` is served as `{}`", name.escape_debug()));
                    }
                    own.insert(name.clone(), std::mem::replace(&mut prompt.name, name));
                    named.push(prompt);
                }
                Err(why) => notes.push(format!("the prompt `{shown}` is not served: {why}")),
            }
        }
        let upstream = Arc::clone(&self.upstream);
        let build = |definition: model::Prompt| {
            let own = own.get(&definition.name).map(String::as_str).unwrap_or_default();
            prompt(&upstream, definition, own.into())
        };
        let renewed = self.prompts.renew(&self.catalogue, named, build);
        self.note(Listed::Prompts, notes, renewed);
    }
}

fn prompt(upstream: &Arc<Upstream>, definition: model::Prompt, own: Arc<str>) -> Prompt {
    let (its, name) = (Arc::clone(upstream), Arc::clone(&own));
    let fill = move |cx, arguments| {
        let (upstream, name) = (Arc::clone(&its), Arc::clone(&name));
        async move { upstream.prompt(&cx, &name, &arguments).await }
    };
    let upstream = Arc::clone(upstream);
    Prompt::raw(definition, fill).complete_any(move |cx, argument, typed| {
        let (upstream, of) = (Arc::clone(&upstream), CompletionReference::prompt(&*own));
        async move { upstream.complete(&cx, &of, &argument, &typed).await }
    })
}
