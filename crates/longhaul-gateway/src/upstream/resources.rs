//! The resources of a server, and their templates, as they are offered: by their own URIs.

use std::sync::Arc;

use longhaul::client::{Client, Error};
use longhaul::proto::jsonrpc::Code;
use longhaul::proto::model::{self, CompletionReference};
use longhaul::server::{OUTPUT_SCHEME, Resource, ResourceTemplate};

use super::connection::Upstream;
use super::offering::{Listed, Offered};

impl Offered {
    /// Lists the resources, and offers those.
    pub(super) async fn renew_resources(&mut self, client: &Client) -> Result<(), Error> {
        let has_any = self.upstream.kinds().resources;
        let listed = if has_any { client.resources().collect().await? } else { Vec::new() };
        if self.is_for_a_call() {
            self.listed.resources.clone_from(&listed);
        }
        self.offer_resources(listed);
        Ok(())
    }

    /// Offers these.
    pub(super) fn offer_resources(&mut self, listed: Vec<model::Resource>) {
        let mut notes = Vec::new();
        let its = self.taken(listed, |resource| &resource.uri, &mut notes);
        let upstream = Arc::clone(&self.upstream);
        let renewed =
            self.resources.renew(&self.catalogue, its, |definition| resource(&upstream, definition));
        self.note(Listed::Resources, notes, renewed);
    }

    /// The same of templates.
    pub(super) async fn renew_templates(&mut self, client: &Client) -> Result<(), Error> {
        let has_any = self.upstream.kinds().resources;
        let listed = match client.resource_templates() {
            _ if !has_any => Vec::new(),
            pages => match pages.collect().await {
                // One that has resources and no templates need not know how they are listed.
                Err(Error::Answer(error)) if error.code == Code::METHOD_NOT_FOUND => Vec::new(),
                listed => listed?,
            },
        };
        if self.is_for_a_call() {
            self.listed.templates.clone_from(&listed);
        }
        self.offer_templates(listed);
        Ok(())
    }

    /// The same of templates.
    pub(super) fn offer_templates(&mut self, listed: Vec<model::ResourceTemplate>) {
        let mut notes = Vec::new();
        let its = self.taken(listed, |template| &template.uri_template, &mut notes);
        let upstream = Arc::clone(&self.upstream);
        let renewed =
            self.templates.renew(&self.catalogue, its, |definition| template(&upstream, definition));
        self.note(Listed::Templates, notes, renewed);
    }

    /// Those whose URI is this server's.
    fn taken<D>(&self, listed: Vec<D>, uri: impl Fn(&D) -> &String, notes: &mut Vec<String>) -> Vec<D> {
        let mut its = Vec::with_capacity(listed.len());
        for definition in listed {
            let uri = uri(&definition);
            if uri.starts_with(OUTPUT_SCHEME) {
                // There the output of tasks is read here, and it is another longhaul that says so of its own.
                continue;
            }
            match may_be_others(uri).map_or_else(|| self.names.take_uri(self.upstream.config(), uri), Err) {
                Ok(()) => its.push(definition),
                Err(why) => notes.push(format!("`{}` is not served: {why}", uri.escape_debug())),
            }
        }
        its
    }
}

/// Why a URI or a template may be of what is not this server's.
fn may_be_others(uri: &str) -> Option<String> {
    let has_scheme = uri.split('{').next().is_some_and(|literal| literal.contains(':'));
    (!has_scheme).then(|| "it does not begin with a scheme, so that it may be of any server".to_owned())
}

fn resource(upstream: &Arc<Upstream>, definition: model::Resource) -> Resource {
    let (upstream, uri) = (Arc::clone(upstream), Arc::<str>::from(definition.uri.as_str()));
    Resource::raw(definition, move |cx| {
        let (upstream, uri) = (Arc::clone(&upstream), Arc::clone(&uri));
        async move { upstream.read(&cx, &uri).await }
    })
}

fn template(upstream: &Arc<Upstream>, definition: model::ResourceTemplate) -> ResourceTemplate {
    let of = CompletionReference::resource(&definition.uri_template);
    let its = Arc::clone(upstream);
    let read = move |cx, uri: String| {
        let upstream = Arc::clone(&its);
        async move { upstream.read(&cx, &uri).await }
    };
    let upstream = Arc::clone(upstream);
    ResourceTemplate::raw(definition, read).complete_any(move |cx, variable, typed| {
        let (upstream, of) = (Arc::clone(&upstream), of.clone());
        async move { upstream.complete(&cx, &of, &variable, &typed).await }
    })
}
