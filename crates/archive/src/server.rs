//! Connections to the server of an archive, and what its errors mean.

use std::future::Future;
use std::time::Duration;

use anyhow::Result;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, TimeoutType};
use tokio::runtime::{Handle, Runtime};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use weir_record::store::StoreError;

use crate::address::Address;

/// What a connection sets: a transaction of a client that has vanished ends, so that others do not wait for it.
const SETTINGS: &str = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3; \
                        SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '60s'";

/// How long a call waits for a free connection.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a server may take until a connection is ready: one that accepts and then says nothing is given up, too.
const CREATE: Duration = Duration::from_secs(20);

/// The threads that do the work of connections. It outlives all archives that use it.
///
/// # Errors
/// There is no thread left.
pub fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// The server of an archive: at most so many connections, which are used again. Calls wait for their answer, so none may come from
/// within the runtime.
#[derive(Clone)]
pub struct Server {
    pool: Pool,
    handle: Handle,
    shown: String,
}

impl Server {
    /// Connects only when something is asked.
    ///
    /// # Errors
    /// The certificates that are to be trusted cannot be read.
    pub fn new(address: &Address, connections: usize, handle: Handle) -> Result<Server> {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config().clone(), address.tls()?, settings);
        let settings = deadpool_postgres::Hook::async_fn(|client, _| {
            Box::pin(async {
                client.batch_execute(SETTINGS).await.map_err(deadpool_postgres::HookError::Backend)
            })
        });
        let pool = Pool::builder(manager).max_size(connections).post_create(settings);
        let pool = pool.wait_timeout(Some(LONGEST_WAIT)).create_timeout(Some(CREATE));
        let pool = pool.runtime(deadpool_postgres::Runtime::Tokio1).build()?;
        Ok(Server { pool, handle, shown: address.to_string() })
    }

    /// A connection that is free.
    pub(crate) fn connection(&self) -> Result<Object, StoreError> {
        self.wait(self.pool.get()).map_err(|error| match error {
            PoolError::Backend(error) => self.error(&error),
            PoolError::PostCreateHook(deadpool_postgres::HookError::Backend(error)) => self.error(&error),
            PoolError::Timeout(TimeoutType::Create) => self.says(format!(
                "no answer in {} s: check that the address is that of PostgreSQL and that the server is not overloaded",
                CREATE.as_secs()
            )),
            PoolError::Timeout(_) => self.says(format!(
                "all connections were busy for {} s: try again when the server answers faster",
                LONGEST_WAIT.as_secs()
            )),
            other => self.says(other.to_string()),
        })
    }

    /// Runs this to its end.
    pub(crate) fn wait<F: Future>(&self, work: F) -> F::Output {
        self.handle.block_on(work)
    }

    /// The address, without a password.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn says(&self, what: String) -> StoreError {
        StoreError::Server { archive: self.shown.clone(), what }
    }

    /// What happened, and the remedy.
    pub(crate) fn error(&self, error: &Error) -> StoreError {
        let Some(refused) = error.as_db_error() else {
            let cause =
                std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
            return self.says(format!(
                "no connection: {cause}; check the address, the server and the network, then try again"
            ));
        };
        let remedy = match refused.code() {
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                "use a role with the right, or let the owner of the archive give it with `weir archive setup`"
            }
            code if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                "check the role in the address, and its password in PGPASSWORD"
            }
            code if *code == SqlState::INVALID_CATALOG_NAME => "create the database with `createdb`",
            code if *code == SqlState::LOCK_NOT_AVAILABLE => "another client writes the same run: try again",
            code if *code == SqlState::TOO_MANY_CONNECTIONS => {
                "try again later, or raise max_connections of the server"
            }
            code if *code == SqlState::CANNOT_CONNECT_NOW || *code == SqlState::ADMIN_SHUTDOWN => {
                "the server stops or starts: try again"
            }
            code if *code == SqlState::DISK_FULL => "make room on the disk of the server, then try again",
            _ => "see the log of the server",
        };
        self.says(format!("the server refused: {}; {remedy}", refused.message()))
    }
}

/// Whether a row did not fit: it is there already, or a value is none that the table takes.
pub(crate) fn is_misplaced(error: &Error) -> bool {
    // SQLSTATE classes 22, data exception, and 23, integrity constraint violation.
    error.code().is_some_and(|state| ["22", "23"].iter().any(|class| state.code().starts_with(class)))
}
