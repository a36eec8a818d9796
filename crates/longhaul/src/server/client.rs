//! Who a client says it is.

use std::borrow::Cow;
use std::sync::Arc;

use longhaul_proto::method::Method;
use longhaul_proto::model::{Implementation, RequestMeta};

/// Who the client of a caller says it is. What it says with a call is kept as it came and read when somebody asks, for most
/// calls are over before anybody does.
#[derive(Clone, Debug, Default)]
pub(crate) enum Client {
    /// It has not said.
    #[default]
    Unknown,
    /// It has said so in a handshake, or in much text.
    Read(Arc<Implementation>),
    /// It says so in this member of a call's `_meta`.
    Unread(Arc<str>),
}

/// How long a member may be, in bytes, that is kept unread: what names no more than itself is shorter.
const LONGEST_UNREAD: usize = 256;

impl Client {
    /// As a session keeps it.
    pub(crate) fn of_session(client: &Implementation) -> Self {
        Self::Read(Arc::new(Implementation::new(client.name.as_str(), client.version.as_str())))
    }

    /// As a request says it: only of calls does anybody ask.
    pub(crate) fn of_request(method: Method, meta: &RequestMeta<'_>) -> Self {
        match meta.client_info {
            Some(said) if method == Method::CallTool => Self::said(said.get()),
            _ => Self::Unknown,
        }
    }

    fn said(said: &str) -> Self {
        if said.len() <= LONGEST_UNREAD {
            return Self::Unread(said.into());
        }
        Implementation::said(said).map_or(Self::Unknown, |client| Self::Read(Arc::new(client)))
    }

    pub(crate) fn read(&self) -> Option<Cow<'_, Implementation>> {
        match self {
            Self::Unknown => None,
            Self::Read(client) => Some(Cow::Borrowed(client)),
            Self::Unread(said) => Implementation::said(said).map(Cow::Owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_says_of_its_client_is_the_same_however_long_it_is() {
        let long = "n".repeat(LONGEST_UNREAD);
        for more in ["", long.as_str()] {
            let said = format!(r#"{{"name": "caller", "version": "2.1", "description": "{more}"}}"#);
            let client = Client::said(&said);
            assert_eq!(matches!(client, Client::Unread(_)), more.is_empty());
            assert_eq!(*client.read().unwrap(), Implementation::new("caller", "2.1"));
            assert!(Client::said(&said.replace("name", "nom")).read().is_none());
        }
    }
}
