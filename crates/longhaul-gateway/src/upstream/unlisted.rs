//! Resources that no server lists, such as those that the results of its tools link to: each server is asked, in the order of the
//! file, until one knows it.

use std::sync::Arc;

use longhaul::Cx;
use longhaul::proto::jsonrpc::Code;
use longhaul::proto::model::ResourceTemplate;
use longhaul::server::{OUTPUT_SCHEME, ReadFuture, Resources, not_found};

use super::All;
use super::names::Names;

/// What may be at any of the servers.
#[derive(Debug)]
pub(super) struct Unlisted {
    pub(super) all: All,
    pub(super) names: Arc<Names>,
}

impl Resources for Unlisted {
    fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    fn has(&self, uri: &str) -> bool {
        !uri.starts_with(OUTPUT_SCHEME) && self.all.now().iter().any(|upstream| upstream.kinds().resources)
    }

    fn read<'a>(&'a self, cx: Cx, uri: &'a str) -> ReadFuture<'a> {
        Box::pin(async move {
            let mut why = not_found(uri);
            for upstream in self.all.now().iter().filter(|upstream| upstream.kinds().resources) {
                match upstream.read(&cx, uri).await {
                    Err(error) if error.code == Code::RESOURCE_NOT_FOUND => {}
                    // Another may know it all the same.
                    Err(error) => why = error,
                    Ok(read) => {
                        self.names.found(uri, &upstream.config().name);
                        return Ok(read);
                    }
                }
            }
            Err(why)
        })
    }
}
