//! What `serve` listens on, and by which names it is called there.

use std::io::ErrorKind;
use std::net::SocketAddr;

use longhaul::auth::Resource;
use longhaul::proto::http::AllowList;
use longhaul::server::Dispatcher;
use longhaul::transport::http::server as http;
use longhaul_gateway::config::{Config, Listen};
use tokio::net::TcpListener;

use crate::failure::{Failure, Outcome};

/// What is listened on.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Socket(http::Socket),
}

impl Listener {
    /// Where it is, as a client has to know.
    pub(crate) fn place(&self) -> std::io::Result<Listen> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Listen::Address),
            Self::Socket(socket) => Ok(Listen::Socket(socket.path().to_owned())),
        }
    }

    /// Listens there; `flag` says another place.
    pub(crate) async fn bind(listen: &Listen, flag: &str) -> Outcome<Self> {
        Self::open(listen).await.map_err(|error| refused(listen, flag, &error))
    }

    /// Listens there.
    pub(crate) async fn open(listen: &Listen) -> std::io::Result<Self> {
        match listen {
            Listen::Address(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Listen::Socket(path) => http::Socket::bind(path).await.map(Self::Socket),
        }
    }

    /// Serves there until `shutdown`.
    pub(crate) async fn serve(
        self,
        dispatcher: Dispatcher,
        options: http::Options,
        shutdown: impl Future<Output = ()>,
    ) -> std::io::Result<()> {
        match self {
            Self::Tcp(listener) => http::serve(dispatcher, listener, options, shutdown).await,
            Self::Socket(socket) => http::serve(dispatcher, socket, options, shutdown).await,
        }
    }
}

/// Why a place cannot be listened on, and what to do.
pub(crate) fn refused(listen: &Listen, flag: &str, error: &std::io::Error) -> Failure {
    let next = match (listen, error.kind()) {
        (Listen::Address(address), ErrorKind::AddrInUse) => {
            let another = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(8420));
            format!("another server has it, perhaps this one: stop that, or choose a port: {flag} {another}")
        }
        (Listen::Address(_), ErrorKind::AddrNotAvailable) => {
            "this machine has no such address: try 127.0.0.1".to_owned()
        }
        (Listen::Address(_), ErrorKind::PermissionDenied) => {
            format!("choose a port of 1024 or more with {flag}")
        }
        (Listen::Address(_), _) => format!("choose another address with {flag}"),
        (Listen::Socket(_), ErrorKind::AddrInUse) => {
            format!("stop that server, or choose another file with {flag} unix:FILE")
        }
        (Listen::Socket(_), ErrorKind::NotFound) => {
            format!("make its folder first, or choose another file with {flag} unix:FILE")
        }
        (Listen::Socket(_), ErrorKind::InvalidInput) => {
            "choose a shorter path: a socket's has 107 bytes at most".to_owned()
        }
        (Listen::Socket(_), _) => format!("choose another file with {flag} unix:FILE"),
    };
    Failure::usage(format!("{listen} cannot be listened on: {error}")).next(next)
}

/// The configured hosts and origins; by default this machine, the address that is listened on, and the name that tokens
/// know the server by.
pub(crate) fn allow_list(config: &Config, listen: &Listen) -> AllowList {
    let (hosts, origins) = (&config.http.allowed_hosts, &config.http.allowed_origins);
    let known = config.auth.as_ref().and_then(|auth| auth.resource.as_ref()).map(Resource::host);
    // By these the APIs of jobs call back.
    let callbacks = config.jobs.iter().filter_map(|job| job.callback.as_ref()?.url.host_str());
    let known: Vec<&str> = known.into_iter().chain(callbacks).collect();
    match (hosts, origins, known.is_empty()) {
        (None, None, true) if !listen.is_reachable() => AllowList::loopback(),
        _ => {
            let mut own = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
            own.extend(known.into_iter().map(str::to_owned));
            let hosts = match listen {
                // What a socket is called says nothing: no page reaches one.
                Listen::Socket(_) => hosts.iter().flatten().cloned().chain(own).collect(),
                Listen::Address(address) => {
                    let listen = address.ip();
                    if !listen.is_unspecified() {
                        own.push(if listen.is_ipv6() { format!("[{listen}]") } else { listen.to_string() });
                    }
                    hosts.clone().unwrap_or(own)
                }
            };
            AllowList::new(hosts, origins.clone().unwrap_or_default())
        }
    }
}
