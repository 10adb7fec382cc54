//! Ends sessions of subscribers whose access port has had no link for the grace, see `grace.rs`.

use std::time::Instant;

use weir_linux::rtnl::Rtnl;
use weir_plane::{Command, PortId, SubscriberCommand};

use super::{Node, NodeError};
use crate::carrier::has_carrier;

/// Sessions that one list of commands ends.
const MOST_AT_ONCE: usize = 1024;

impl Node {
    /// Ends the sessions whose access ports have had no link for the grace; returns those that it has ended now. It looks at the links twice
    /// a second at most.
    ///
    /// # Errors
    /// The node has ended.
    pub fn end_sessions_without_link(&self, now: Instant) -> Result<Vec<u64>, NodeError> {
        let sessions = self.sessions_without_link(now);
        let mut ended = Vec::new();
        for some in sessions.chunks(MOST_AT_ONCE) {
            // First: a control program that misses them finds out why.
            self.grace.lock().expect("no thread panics with it").note(some);
            let remove = |session: &u64| Command::Subscriber(SubscriberCommand::Remove { session: *session });
            match self.command(&some.iter().map(remove).collect::<Vec<_>>()) {
                Ok(_) => ended.extend(some),
                // The control program has removed one of them meanwhile; the next look ends the others.
                Err(NodeError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(ended)
    }

    fn sessions_without_link(&self, now: Instant) -> Vec<u64> {
        let running = self.running.lock().expect("no thread panics with it");
        let mut grace = self.grace.lock().expect("no thread panics with it");
        if !grace.is_due(now) {
            return Vec::new();
        }
        let access = running.config.ordered().filter(|(_, port)| port.is_access).map(|(number, _)| number);
        let access: Vec<PortId> = access.collect();
        if access.is_empty() {
            return Vec::new();
        }
        let mut rtnl = Rtnl::open().ok();
        let link =
            |port: PortId| (port, has_carrier(&mut rtnl, running.backends[usize::from(port.0)].as_ref()));
        let links: Vec<(PortId, bool)> = access.into_iter().map(link).collect();
        let passed = grace.passed(now, running.config.grace(), &links);
        passed.into_iter().flat_map(|port| running.config.sessions_at(port)).collect()
    }
}
