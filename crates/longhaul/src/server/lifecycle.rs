//! What a connection itself must know of a request, and who its caller is.

use longhaul_proto::connection::ServerConnection;
use longhaul_proto::dialect::{Dialect, InitializeParams};
use longhaul_proto::jsonrpc::{ErrorObject, Params};
use longhaul_proto::method::Method;
use longhaul_proto::model::RequestMeta;

use super::Principal;
use super::dispatch::Caller;

/// Lets the requests that are about the session change it; says in which dialect to answer.
///
/// # Errors
///
/// When the parameters do not fit, or the session is open already.
pub(crate) fn settle(
    connection: &mut ServerConnection,
    method: Method,
    dialect: &'static Dialect,
    params: &Params<'_>,
) -> Result<&'static Dialect, ErrorObject> {
    match method {
        Method::Initialize => {
            let params = InitializeParams::read(params)?;
            Ok(connection.handle_initialize(params)?.dialect)
        }
        Method::SetLogLevel => {
            connection.handle_log_level(params.require("level")?);
            Ok(dialect)
        }
        _ => Ok(dialect),
    }
}

/// The caller of a request: what the request itself declares, else what its session did.
pub(crate) fn caller(
    connection: &ServerConnection,
    meta: &RequestMeta<'_>,
    principal: Option<Principal>,
) -> Caller {
    let mut caller = Caller::new(principal);
    match (meta.client_capabilities, connection.session()) {
        (Some(capabilities), _) => {
            caller.capabilities = capabilities;
            caller.log_level = meta.log_level;
        }
        (None, Some(session)) => {
            caller.capabilities = session.capabilities;
            caller.log_level = Some(session.log_level);
            caller.client_name = Some(session.client_info.name.as_str().into());
        }
        (None, None) => {}
    }
    caller
}
