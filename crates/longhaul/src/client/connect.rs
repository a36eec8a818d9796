//! Opening a connection: which era the server is of, and what it says of itself.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use longhaul_proto::dialect::{Declaration, Dialect, Era, Unsupported, Welcome, Words};
use longhaul_proto::method::Method;
use longhaul_proto::model::{ClientCapabilities, ClientTasks, ServerCapabilities};
use tokio::time::timeout;

use super::eras::Remembered;
use super::error::Error;
use super::link::{Link, Outgoing};
use super::options::Options;
use super::table::Table;
use super::target::{Command, Target};
use crate::driver::StreamLink;
use crate::transport::child::Child;

/// An open connection.
pub(super) struct Connected {
    pub(super) link: Link,
    pub(super) table: Arc<Table>,
    pub(super) welcome: Welcome,
    pub(super) declaration: Arc<Declaration>,
}

impl Connected {
    /// A connection whose server has said what it is.
    async fn new(link: Link, table: Arc<Table>, welcome: Welcome, declaration: Arc<Declaration>) -> Self {
        listen(&link, &table, &welcome).await;
        Self { link, table, welcome, declaration }
    }
}

/// Hears what belongs to no request, where anything is heard of it.
async fn listen(link: &Link, table: &Table, welcome: &Welcome) {
    if welcome.dialect.asks_by_request() && hears(table.options(), &welcome.capabilities) {
        link.listen(welcome.dialect).await;
    }
}

/// Opens another session in the place of one that its server has forgotten, as the first was opened.
pub(super) async fn begin_anew(
    link: &Link,
    table: &Table,
    declaration: &Arc<Declaration>,
    before: &Welcome,
) -> Result<(), Error> {
    let welcome = initialize(link, table, declaration, before.dialect).await?;
    if welcome.dialect.revision() != before.dialect.revision() {
        return Err(Error::protocol("a session that is opened again in another revision"));
    }
    listen(link, table, before).await;
    Ok(())
}

pub(super) async fn connect(target: Target, options: Options) -> Result<Connected, Error> {
    let declaration = declaration(&options);
    let remembered = options.eras.of(&target);
    match target {
        Target::Url(url) => {
            let table = Table::new(options);
            let link = over_http(&url, &table)?;
            match greet(&link, &table, &declaration, &remembered, None).await {
                Ok(welcome) => Ok(Connected::new(link, table, welcome, declaration).await),
                Err(error) if may_be_older(&error, table.options()) => {
                    // A server of 2024-11-05 has nothing to post to until it has said where.
                    let Ok(Some(link)) = link.older().await else { return Err(error) };
                    let dialect = table.options().revision.map_or(Dialect::newest_legacy(), Dialect::of);
                    let welcome = initialize(&link, &table, &declaration, dialect).await?;
                    Ok(Connected::new(link, table, welcome, declaration).await)
                }
                Err(error) => Err(error),
            }
        }
        Target::Command(command) => run(&command, options, declaration, &remembered).await,
        Target::Stream { reader, writer } => {
            let patience = options.discovery_timeout;
            let table = Table::new(options);
            let link = Link::Stream(StreamLink::new(Arc::clone(&table), reader, writer, None));
            let welcome = greet(&link, &table, &declaration, &remembered, Some(patience)).await?;
            Ok(Connected::new(link, table, welcome, declaration).await)
        }
    }
}

#[cfg(feature = "http-client")]
fn over_http(url: &str, table: &Arc<Table>) -> Result<Link, Error> {
    Ok(Link::Http(crate::transport::http::client::HttpLink::new(url, Arc::clone(table))?))
}

#[cfg(not(feature = "http-client"))]
fn over_http(url: &str, _: &Arc<Table>) -> Result<Link, Error> {
    let reason = "this build has no HTTP client; turn on the feature `http-client`".to_owned();
    Err(Error::Target { target: url.to_owned(), reason })
}

/// What every request says of us.
fn declaration(options: &Options) -> Arc<Declaration> {
    let mut capabilities = ClientCapabilities::default().with_tasks();
    options.answers.declare(&mut capabilities);
    if options.hosting.is_some() {
        let asks_user = capabilities.elicitation.is_some();
        capabilities.tasks = ClientTasks::new(capabilities.sampling.is_some(), asks_user);
        capabilities.tasks.drafted = options.drafted_tasks;
    }
    let mut declaration = Declaration::new(options.info.clone(), capabilities);
    declaration.log_level = options.log_level;
    Arc::new(declaration)
}

/// Starts a program and greets it. Some servers of the legacy era end when their first message is another
/// than `initialize`: such a one is started once more and greeted in its own way.
async fn run(
    command: &Command,
    options: Options,
    declaration: Arc<Declaration>,
    remembered: &Remembered,
) -> Result<Connected, Error> {
    let patience = Some(options.discovery_timeout);
    let (table, link) = start(command, options.clone())?;
    let is_forced = options.revision.is_some();
    let was_legacy = remembered.era() == Some(Era::Legacy);
    match greet(&link, &table, &declaration, remembered, patience).await {
        Err(Error::Died { .. } | Error::Lost { .. }) if !is_forced => {
            drop(link);
            remembered.forget();
            let (table, link) = start(command, options)?;
            let welcome = if was_legacy {
                probe(&link, &table, &declaration, patience).await?
            } else {
                initialize(&link, &table, &declaration, Dialect::newest_legacy()).await?
            };
            remembered.learn(welcome.dialect.era());
            Ok(Connected::new(link, table, welcome, declaration).await)
        }
        greeted => Ok(Connected::new(link, table, greeted?, declaration).await),
    }
}

fn start(command: &Command, options: Options) -> Result<(Arc<Table>, Link), Error> {
    let table = Table::new(options);
    let (child, stdout, stdin) = Child::start(command, &table)?;
    let link = StreamLink::new(Arc::clone(&table), stdout, stdin, Some(child));
    Ok((table, Link::Stream(link)))
}

/// Finds out how to speak to the server, unless that is decided or remembered. `patience` is how long a server may leave
/// a modern request unanswered before it is taken for a legacy one; over HTTP every server answers.
async fn greet(
    link: &Link,
    table: &Table,
    declaration: &Arc<Declaration>,
    remembered: &Remembered,
    patience: Option<Duration>,
) -> Result<Welcome, Error> {
    let forced = table.options().revision.map(Dialect::of);
    match forced {
        Some(dialect) if dialect.era() == Era::Legacy => initialize(link, table, declaration, dialect).await,
        Some(dialect) => {
            let idle = greeting(link, table);
            let welcome = discover(link, declaration, dialect, idle).await??;
            if welcome.dialect.revision() != dialect.revision() {
                let found = welcome.dialect.revision();
                return Err(Error::NotOffered { what: "the revision asked for", revision: found });
            }
            Ok(welcome)
        }
        None => {
            let era = remembered.era();
            if era == Some(Era::Legacy) {
                match initialize(link, table, declaration, Dialect::newest_legacy()).await {
                    Err(error) if is_refusal(&error) => remembered.forget(),
                    welcome => return welcome,
                }
            }
            let patience = patience.filter(|_| era != Some(Era::Modern));
            let welcome = probe(link, table, declaration, patience).await?;
            remembered.learn(welcome.dialect.era());
            Ok(welcome)
        }
    }
}

/// How long a server may take to say what it is. A program may have to be fetched before it can.
fn greeting(link: &Link, table: &Table) -> Duration {
    let options = table.options();
    if link.has_headers() {
        options.greeting_timeout.min(options.request_timeout)
    } else {
        options.request_timeout
    }
}

/// Whether a server that is there does not want a handshake, so that it may be of the other era by now.
fn is_refusal(error: &Error) -> bool {
    let refused = matches!(
        error,
        Error::Answer(_) | Error::Http { .. } | Error::Protocol { .. } | Error::Incompatible(_)
    );
    refused && !error.is_retryable()
}

/// Whether anything is heard that belongs to no request.
fn hears(options: &Options, offered: &ServerCapabilities) -> bool {
    !options.answers.is_empty() || options.on_log.is_some() || offered.list_changes
}

/// The modern way first; the legacy way if nothing but a legacy server would have answered so.
async fn probe(
    link: &Link,
    table: &Table,
    declaration: &Arc<Declaration>,
    patience: Option<Duration>,
) -> Result<Welcome, Error> {
    let dialect = Dialect::newest_modern();
    let idle = greeting(link, table);
    let mut discovering = pin!(discover(link, declaration, dialect, idle));
    let discovered = match patience {
        None => discovering.await,
        Some(patience) => match timeout(patience, &mut discovering).await {
            Ok(discovered) => discovered,
            Err(_) => return interrupt(discovering, link, table, declaration).await,
        },
    };
    let legacy = match discovered {
        Ok(Ok(welcome)) if welcome.dialect.era() == Era::Modern => return Ok(welcome),
        Ok(Ok(welcome)) => welcome.dialect,
        Ok(Err(unsupported)) => return Err(unsupported.into()),
        Err(Error::Answer(error)) => match Dialect::words_of(&error) {
            Words::Modern => return Err(Error::Answer(error)),
            Words::Revisions(offered) => {
                let modern = Dialect::newest_of(Era::Modern, &offered);
                if let Some(other) = modern.filter(|other| other.revision() != dialect.revision()) {
                    return Ok(discover(link, declaration, other, idle).await??);
                }
                match Dialect::newest_of(Era::Legacy, &offered) {
                    Some(legacy) => legacy,
                    None => return Err(Dialect::unsupported(offered).into()),
                }
            }
            Words::Any => Dialect::newest_legacy(),
        },
        Err(error) if may_be_legacy(&error) => Dialect::newest_legacy(),
        Err(error) => return Err(error),
    };
    initialize(link, table, declaration, legacy).await
}

/// Opens a session with a server that has left us without an answer. If it was only slow to start, and is of the modern era
/// alone, it answers what it was asked first and refuses this.
async fn interrupt(
    mut discovering: Pin<&mut impl Future<Output = Result<Result<Welcome, Unsupported>, Error>>>,
    link: &Link,
    table: &Table,
    declaration: &Arc<Declaration>,
) -> Result<Welcome, Error> {
    let mut discovered = None;
    let mut initializing = pin!(initialize(link, table, declaration, Dialect::newest_legacy()));
    let initialized = loop {
        tokio::select! {
            biased;
            answered = &mut discovering, if discovered.is_none() => discovered = Some(answered),
            initialized = &mut initializing => break initialized,
        }
    };
    match (initialized, discovered) {
        (Err(Error::Answer(_)), Some(Ok(Ok(welcome)))) if welcome.dialect.era() == Era::Modern => Ok(welcome),
        (initialized, _) => initialized,
    }
}

/// Whether a server that only knows the legacy era may have failed so at a modern request.
fn may_be_legacy(error: &Error) -> bool {
    match error {
        Error::Http { status, .. } => matches!(status, 400 | 404 | 405 | 406 | 415 | 422),
        Error::Protocol { .. } => true,
        _ => false,
    }
}

/// Asks a server what it is. One that refuses the revision it says it speaks is asked once more: of several behind one
/// address, another may have answered.
async fn discover(
    link: &Link,
    declaration: &Arc<Declaration>,
    dialect: &'static Dialect,
    idle: Duration,
) -> Result<Result<Welcome, Unsupported>, Error> {
    match discover_once(link, declaration, dialect, idle).await {
        Err(Error::Answer(error)) if dialect.is_offered_by(&error) => {
            discover_once(link, declaration, dialect, idle).await
        }
        discovered => discovered,
    }
}

/// Whether a server that can only be spoken to over HTTP+SSE may have refused a handshake so.
fn may_be_older(error: &Error, options: &Options) -> bool {
    let speaks_legacy = options.revision.is_none_or(|revision| Dialect::of(revision).era() == Era::Legacy);
    speaks_legacy && matches!(error, Error::Http { status: 400 | 404 | 405, .. })
}

async fn discover_once(
    link: &Link,
    declaration: &Arc<Declaration>,
    dialect: &'static Dialect,
    idle: Duration,
) -> Result<Result<Welcome, Unsupported>, Error> {
    let mut request = Outgoing::new(dialect, Method::Discover, Arc::clone(declaration), |_| ())?;
    request.idle = Some(idle);
    // A legacy server must not meet a notification before its handshake.
    request.cancellable = false;
    let answered = link.ask(&request).await?;
    Dialect::read_discover(&answered.result).map_err(|error| Error::protocol(error.message))
}

async fn initialize(
    link: &Link,
    table: &Table,
    declaration: &Arc<Declaration>,
    dialect: &'static Dialect,
) -> Result<Welcome, Error> {
    let mut request = Outgoing::new(dialect, Method::Initialize, Arc::clone(declaration), |_| ())?;
    request.idle = Some(greeting(link, table));
    // The specification forbids to cancel it.
    request.cancellable = false;
    request.write = Box::new(move |id, _, out| dialect.write_initialize_request(out, id, declaration));
    let answered = link.ask(&request).await?;
    let read = Dialect::read_initialize(&answered.result);
    let welcome = read.map_err(|error| Error::protocol(error.message))??;
    if let Some(host) = table.host() {
        host.open(welcome.dialect, link.push(welcome.dialect));
    }
    if let Some(initialized) = welcome.dialect.initialized() {
        link.notify(welcome.dialect, initialized).await?;
    }
    if let Some(level) = declaration.log_level.filter(|_| welcome.capabilities.logging) {
        let mut request =
            Outgoing::new(welcome.dialect, Method::SetLogLevel, Arc::clone(declaration), move |params| {
                params.field("level", &level);
            })?;
        request.idle = Some(table.options().request_timeout);
        if let Err(Error::Answer(error)) = link.ask(&request).await {
            // Without it there are more log messages than wanted, or fewer: no reason to fail.
            tracing::debug!(%error, "the server does not take a log level");
        }
    }
    Ok(welcome)
}
