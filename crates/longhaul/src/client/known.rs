//! The tools of a server as they were last listed: which may be tasks, and which arguments headers repeat.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use longhaul_proto::http::MirroredParameter;
use longhaul_proto::jsonrpc::clip;
use longhaul_proto::model::Tool;

use super::Client;
use super::error::Error;
use super::list::LeftOut;
#[cfg(feature = "schema-validation")]
use super::structure::Structure;

/// The tools of one listing.
#[derive(Debug)]
pub(super) struct Known {
    tools: Vec<Tool>,
    /// What else was listed.
    left_out: Vec<LeftOut>,
    /// What each repeats in headers, of those that repeat anything.
    repeated: HashMap<String, Vec<MirroredParameter>>,
    /// What those give that say it.
    #[cfg(feature = "schema-validation")]
    structures: HashMap<String, Structure>,
}

impl Known {
    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The schema of what a tool gives.
    #[cfg(feature = "schema-validation")]
    pub(super) fn structure(&self, name: &str) -> Option<&Structure> {
        self.structures.get(name)
    }

    /// The headers that repeat arguments of a call, and what they say before their encoding.
    pub(super) fn repeated<'k>(&'k self, name: &str, arguments: &'k str) -> Vec<(&'k str, Cow<'k, str>)> {
        let marked = self.repeated.get(name).map(Vec::as_slice).unwrap_or_default();
        let said = |parameter: &'k MirroredParameter| {
            parameter.text_in(arguments).map(|text| (parameter.header.as_str(), text))
        };
        marked.iter().filter_map(said).collect()
    }
}

impl Client {
    /// Takes these for the server's tools. Over HTTP those are left out whose arguments are marked as none may be
    /// (2026-07-28, Streamable HTTP, Custom Headers from Tool Parameters).
    pub(super) async fn keep_tools(&self, mut tools: Vec<Tool>, mut left_out: Vec<LeftOut>) -> Arc<Known> {
        let mut repeated = HashMap::new();
        if self.dialect().mirrors_headers() && self.0.link.has_headers() {
            tools.retain(|tool| match MirroredParameter::of_schema(tool.input_schema.get()) {
                Ok(marked) => {
                    if !marked.is_empty() {
                        repeated.insert(tool.name.clone(), marked);
                    }
                    true
                }
                Err(error) => {
                    tracing::warn!(%error, tool = tool.name, "left out a tool whose arguments no header can repeat");
                    let name = format!("{:?}", clip(&tool.name));
                    left_out.push(LeftOut { name, why: format!("no header can repeat its arguments: {error}") });
                    false
                }
            });
        }
        #[cfg(feature = "schema-validation")]
        let structures = {
            let with_schema = |tool: &Tool| Some((tool.name.clone(), Structure::of(tool)?));
            tools.iter().filter_map(with_schema).collect()
        };
        let known = Arc::new(Known {
            tools,
            left_out,
            repeated,
            #[cfg(feature = "schema-validation")]
            structures,
        });
        *self.0.tools.lock().await = Some(Arc::clone(&known));
        known
    }

    /// The tools as last listed, listed again when the server says that they have changed.
    pub(super) async fn known_tools(&self) -> Result<Arc<Known>, Error> {
        match self.tools_at_hand().await {
            Some(known) => Ok(known),
            None => self.look_at_tools().await,
        }
    }

    /// The tools as last listed, if they were and the server has not said that they have changed since.
    pub(super) async fn tools_at_hand(&self) -> Option<Arc<Known>> {
        let mut known = self.0.tools.lock().await;
        if self.0.table.take_tools_changed() {
            *known = None;
        }
        known.clone()
    }

    /// Lists the tools.
    pub(super) async fn look_at_tools(&self) -> Result<Arc<Known>, Error> {
        let (tools, left_out) = self.tools().collect_all().await?;
        Ok(self.keep_tools(tools, left_out).await)
    }

    /// Every tool of the server, from all pages of its list.
    ///
    /// # Errors
    ///
    /// When the list is longer than [`Options::max_listed`](super::Options) or does not end, or the server
    /// answers with an error.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        Ok(self.look_at_tools().await?.tools.clone())
    }

    /// The same, and what of the list is left out of them.
    ///
    /// # Errors
    ///
    /// As [`list_tools`](Self::list_tools).
    pub async fn list_tools_and_others(&self) -> Result<(Vec<Tool>, Vec<LeftOut>), Error> {
        let known = self.look_at_tools().await?;
        Ok((known.tools.clone(), known.left_out.clone()))
    }
}
