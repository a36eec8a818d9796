//! The nodes of a fleet, as they say of themselves, and as the leases of its open tasks tell of them.

use std::collections::BTreeMap;

use longhaul::store::{Filter, Time};

use super::{Admin, AdminError, Viewer};
use crate::fleet::Member;

/// How many open tasks are looked at for who works on them.
const MOST: usize = 1000;

/// Who works on the open tasks.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    /// By name; this one is among them, whatever it holds.
    pub(crate) nodes: Vec<Node>,
    /// When the oldest task was begun that was looked at.
    pub(crate) oldest: Option<Time>,
    /// How many tasks were looked at, if there are more.
    pub(crate) newest_only: Option<usize>,
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) is_this: bool,
    /// What it has said a moment ago, where servers say anything.
    pub(crate) member: Option<Member>,
    /// How many tasks it holds.
    pub(crate) tasks: usize,
    /// When the latest of its leases ends.
    pub(crate) until: Option<Time>,
}

impl Admin {
    /// The nodes that say that they are there or hold tasks which `viewer` sees, and this one.
    ///
    /// # Errors
    ///
    /// [`AdminError::TooOften`], and when the store cannot be read.
    pub(crate) async fn nodes(&self, viewer: &Viewer) -> Result<Nodes, AdminError> {
        let _poll = self.poll(viewer, 0)?;
        let page = self.engine().list(viewer.scope(), &Filter::open(), None, MOST).await?;
        let own = self.store().node().to_string();
        let node = |name: String| Node { is_this: name == own, name, member: None, tasks: 0, until: None };
        let mut nodes = BTreeMap::from([(own.clone(), node(own.clone()))]);
        for (name, member) in self.0.fleet.members().await? {
            let name = name.to_string();
            nodes.entry(name.clone()).or_insert_with(|| node(name)).member = Some(member);
        }
        for lease in page.tasks.iter().filter_map(|task| task.lease()) {
            let name = lease.node.to_string();
            let node = nodes.entry(name.clone()).or_insert_with(|| node(name));
            node.tasks += 1;
            node.until = node.until.max(Some(lease.until));
        }
        Ok(Nodes {
            nodes: nodes.into_values().collect(),
            oldest: page.tasks.iter().map(|task| task.created_at).min(),
            newest_only: page.next.map(|_| MOST),
        })
    }
}
