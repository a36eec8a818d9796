//! Connections: those of the pool, on which operations run, and those that are opened for one purpose.

use std::{fmt, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::{join, join_all};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Error, Row, types::ToSql};

use super::{
    address::{Address, Place},
    fault::Fault,
    sql,
    value::Value,
};
use crate::{Durability, StoreError};

/// How connections are made that belong to no pool.
#[derive(Clone)]
pub(super) struct Direct {
    config: tokio_postgres::Config,
    tls: tokio_postgres_rustls::MakeRustlsConnect,
    pub(super) place: Place,
    pub(super) is_pooled: bool,
    patience: Duration,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direct({})", self.place)
    }
}

/// A connection, and what the database says on it that nobody has asked for.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) messages: tokio::sync::mpsc::UnboundedReceiver<AsyncMessage>,
}

impl Direct {
    pub(super) fn new(address: Address, is_pooled: bool, patience: Duration) -> Self {
        let Address { mut config, tls, place, .. } = address;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(patience.min(LONGEST_CONNECT));
        }
        config.keepalives_idle(Duration::from_secs(10));
        config.tcp_user_timeout(Duration::from_secs(20));
        if !is_pooled {
            // What a client of ours that died without a word has begun ends soon; a pooler takes no such settings, and
            // transactions bring theirs.
            let ours = format!(
                "-c statement_timeout={} -c idle_in_transaction_session_timeout={} \
                 -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3",
                patience.as_millis(),
                patience.as_millis() * 2,
            );
            let options = format!("{ours} {}", config.get_options().unwrap_or_default());
            config.options(options.trim_end());
        }
        Self { config, tls, place, is_pooled, patience }
    }

    /// Waits for the database, as long as it may take to answer.
    pub(super) async fn within<T>(
        &self,
        doing: &'static str,
        asked: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StoreError> {
        match timeout(self.patience, asked).await {
            Ok(answer) => answer.map_err(|error| self.place.error(Fault::database(doing, error))),
            Err(late) => Err(self.place.unreachable(late)),
        }
    }

    /// Makes a connection. Whoever takes it up and then says nothing is not waited for for ever.
    pub(super) async fn connect(&self) -> Result<Connection, StoreError> {
        let made = self.within("connecting", self.config.connect(self.tls.clone()));
        let (client, mut connection) = made.await?;
        let (said, messages) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                // Nobody may listen any more, while what was asked is still answered.
                let _heard_or_not = said.send(message);
            }
        });
        Ok(Connection { client, messages })
    }

    /// A pool of connections for operations.
    pub(super) fn pool(&self, connections: usize) -> Result<Pool, StoreError> {
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), how);
        let pool = Pool::builder(manager)
            .max_size(connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(self.patience))
            .create_timeout(Some(self.patience))
            .build();
        pool.map_err(|error| StoreError::Backend {
            doing: "making a pool of connections",
            source: std::sync::Arc::new(error),
        })
    }
}

/// A statement and its values.
pub(super) type Asked<'a> = (&'static str, Vec<Value<'a>>);

/// A connection that is one operation's alone meanwhile.
pub(super) struct Session {
    /// `None` once it was thrown away.
    client: Option<Object>,
    is_pooled: bool,
    /// Whether a transaction is open on it.
    is_open: bool,
}

impl Session {
    pub(super) async fn take(pool: &Pool, is_pooled: bool) -> Result<Self, Fault> {
        let client = pool.get().await.map_err(Fault::Pool)?;
        Ok(Self { client: Some(client), is_pooled, is_open: false })
    }

    fn client(&self) -> &Object {
        self.client.as_ref().expect("it is thrown away when the session ends")
    }

    /// Runs a statement, which is prepared once for each connection, or goes in one piece where a pooler may give the next
    /// to another.
    pub(super) async fn query(
        &self,
        doing: &'static str,
        sql: &'static str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Fault> {
        self.ask(sql, values).await.map_err(|error| Fault::database(doing, error))
    }

    async fn ask(&self, sql: &'static str, values: &[Value<'_>]) -> Result<Vec<Row>, Error> {
        let client = self.client();
        if self.is_pooled {
            let typed: Vec<_> =
                values.iter().map(|value| (value as &(dyn ToSql + Sync), value.of_type())).collect();
            return client.query_typed(sql, &typed).await;
        }
        let statement = client.prepare_cached(sql).await?;
        let values: Vec<_> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        client.query(&statement, &values).await
    }

    /// Begins a transaction.
    pub(super) async fn begin(&mut self, how: &str) -> Result<(), Fault> {
        self.begin_with(how, &[]).await.map(drop)
    }

    /// Begins a transaction with these statements, all of which are on their way before the first is answered.
    pub(super) async fn begin_with(
        &mut self,
        how: &str,
        first: &[Asked<'_>],
    ) -> Result<Vec<Vec<Row>>, Fault> {
        self.is_open = true;
        let doing = "beginning a transaction";
        self.prepare(first).await.map_err(|error| Fault::database(doing, error))?;
        let begun = self.client().batch_execute(how);
        // Each is sent when it is first looked at, which is in this order.
        let answers = join_all(first.iter().map(|(sql, values)| self.ask(sql, values)));
        let (begun, answers) = join(begun, answers).await;
        begun.map_err(|error| Fault::database(doing, error))?;
        let failed = |error| Fault::database("reading what a transaction is about", error);
        answers.into_iter().map(|answer| answer.map_err(failed)).collect()
    }

    /// Runs the last statements and commits, all on their way before the first is answered. Whatever goes wrong with the
    /// connection meanwhile leaves it open whether that happened.
    pub(super) async fn commit_with(&mut self, last: &[Asked<'_>], how: Durability) -> Result<(), Fault> {
        let commit = if how == Durability::Replicated { sql::COMMIT_REPLICATED } else { sql::COMMIT };
        self.prepare(last).await.map_err(|error| Fault::database("committing", error))?;
        let answers = join_all(last.iter().map(|(sql, values)| self.ask(sql, values)));
        let (answers, committed) = join(answers, self.client().batch_execute(commit)).await;
        // After a statement that failed, a commit is none.
        match answers.into_iter().map(|answer| answer.map(drop)).chain([committed]).find_map(Result::err) {
            None => {
                self.is_open = false;
                Ok(())
            }
            Some(error) if super::fault::is_lost(&error) => Err(Fault::InDoubt { error }),
            Some(error) => Err(Fault::database("committing", error)),
        }
    }

    /// Makes sure that statements which are sent together are known: to prepare one in between would let others pass it.
    async fn prepare(&self, asked: &[Asked<'_>]) -> Result<(), Error> {
        if !self.is_pooled {
            for (sql, _) in asked {
                self.client().prepare_cached(sql).await?;
            }
        }
        Ok(())
    }

    /// Takes back what was not committed. A connection on which that fails is thrown away.
    pub(super) async fn roll_back(&mut self) {
        if self.is_open && self.client().batch_execute("ROLLBACK").await.is_ok() {
            self.is_open = false;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_open
            && let Some(client) = self.client.take()
        {
            // Nobody else may find a transaction open on it.
            drop(Object::take(client));
        }
    }
}

/// The longest that the making of a connection takes.
const LONGEST_CONNECT: Duration = Duration::from_secs(5);
