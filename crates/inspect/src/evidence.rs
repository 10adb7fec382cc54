//! The evidence about a server.

use serde::Serialize;

use crate::tasks::Idle;

/// The server with so many connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Connections that the prober has open, and the server has not closed.
    pub held: usize,
    /// Of these, those that the server has accepted.
    pub accepted: usize,
    /// Its processes.
    pub processes: usize,
    /// Its threads, in all processes.
    pub threads: usize,
    /// Threads that wait in a read of a descriptor.
    pub reading: usize,
    /// Threads that wait in epoll for one of its sockets.
    pub loops: usize,
}

/// A server that closes each connection at once: what so many cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Instant {
    /// Connections that were answered, one after another.
    pub connections: usize,
    /// Ids of processes and threads that the kernel gave out meanwhile, for each connection: the least of several batches.
    pub ids_per_connection: f64,
    /// Processes and threads that the server started, for each connection, as the kernel counted them; `None` where that is not
    /// allowed.
    pub starts_per_connection: Option<f64>,
    /// Page faults of children that the server has waited for, for each connection: processes that it started have some.
    pub child_faults_per_connection: f64,
}

/// What was seen of a server on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Without connections.
    pub idle: Idle,
    /// With more and more connections; empty if none stayed open.
    pub steps: Vec<Step>,
    /// After all were closed.
    pub after: Option<Step>,
    /// In place of the steps, if the server closes at once.
    pub instant: Option<Instant>,
}

/// What can be seen of a server elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Outside {
    /// Connections that were open at the same time.
    pub held: usize,
    /// Of these, those that the server greeted.
    pub greeted: usize,
    /// Connections that it closed or refused.
    pub closed: usize,
}
