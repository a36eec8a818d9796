//! What a server offers: its tools, and the contents of its resources.

use std::sync::Arc;

use longhaul_proto::jsonrpc::Text;
use longhaul_proto::method::Method;
use longhaul_proto::model::{ReadResourceResult, Tool};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Client;
use super::error::Error;

impl Client {
    /// Every tool of the server, from all pages of its list.
    ///
    /// # Errors
    ///
    /// When the list is longer than [`Options::max_listed`](super::Options) or does not end, or the server
    /// answers with an error.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            tools: Vec<Tool>,
            #[serde(default)]
            next_cursor: Option<String>,
        }
        let limit = self.options().max_listed;
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..limit {
            let request = self.request(Method::ListTools, |params| {
                if let Some(cursor) = &cursor {
                    params.field("cursor", cursor);
                }
            })?;
            let page: Page = read(&self.ask(request).await?.result)?;
            tools.extend(page.tools);
            if tools.len() > limit {
                return Err(Error::protocol(format!("a list of more than {limit} tools")));
            }
            if page.next_cursor.is_none() {
                return Ok(tools);
            }
            if page.next_cursor == cursor {
                return Err(Error::protocol("a list of tools whose cursor does not move on"));
            }
            cursor = page.next_cursor;
        }
        Err(Error::protocol(format!("a list of tools with more than {limit} pages")))
    }

    /// Reads a resource.
    ///
    /// # Errors
    ///
    /// When the server has none of that URI, for one.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        let mut request = self.request(Method::ReadResource, |params| {
            params.field("uri", uri);
        })?;
        request.name = Some(uri);
        read(&self.ask(request).await?.result)
    }

    /// The tools as last listed, listed again when the server says that they have changed.
    pub(super) async fn known_tools(&self) -> Result<Arc<[Tool]>, Error> {
        let mut known = self.0.tools.lock().await;
        if self.0.table.take_tools_changed() {
            *known = None;
        }
        if let Some(tools) = &*known {
            return Ok(Arc::clone(tools));
        }
        let tools: Arc<[Tool]> = self.list_tools().await?.into();
        *known = Some(Arc::clone(&tools));
        Ok(tools)
    }
}

/// Reads a result. One that says it is something else, a task for one, is none (SEP-2663, Supported Requests).
pub(super) fn read<T: DeserializeOwned>(result: &str) -> Result<T, Error> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(default, borrow, rename = "resultType")]
        kind: Option<Text<'a>>,
    }
    if let Ok(Kind { kind: Some(Text(kind)) }) = serde_json::from_str(result)
        && kind != "complete"
    {
        return Err(Error::protocol(format!(
            "an answer of the type {kind:?}, which this request has none of"
        )));
    }
    serde_json::from_str(result).map_err(|error| Error::protocol(format!("an invalid answer: {error}")))
}
