//! Connections of a server with TLS (RFC 6614; the watch-dog of RFC 3539, section 3.4).
//!
//! ```text
//! connecting > up > requests ... the connection ends: its requests go to another connection, another server, or wait for the next one
//!            > it fails: the server is unreachable, and its requests go to another server or fail, until there is a connection
//! up, and nothing heard for 30 s > Status-Server > no answer: the connection is ended
//! ```
//! A request waits for a connection only as long as one attempt to make it takes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use super::{
    Attributes, Client, Health, Job, Key, Now, Output, Outputs, Request, ServerState, Transport, code,
};

/// Time without a packet after which a connection is probed (Tw).
const WATCH: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Link {
    /// When a packet last came; `None`: there is no connection.
    heard: Option<Duration>,
}

/// What has become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkChange {
    /// Packets can be sent.
    Up,
    /// It has ended, or could not be made: the next one is being made, or will be.
    Down,
}

impl ServerState {
    /// When its connections are looked at.
    pub(super) fn watch_at(&self) -> Option<Duration> {
        self.links.iter().filter_map(|link| link.heard).min().map(|heard| heard + WATCH)
    }

    /// A packet has come.
    pub(super) fn hears(&mut self, now: Now, port: u16) {
        if let Some(link) = self.links.get_mut(usize::from(port)).filter(|link| link.heard.is_some()) {
            link.heard = Some(now.at);
        }
    }

    /// There is no connection any more. `is_lost`: there was one.
    fn lost(&mut self, out: &mut Outputs, is_lost: bool) {
        self.health = match self.health {
            Health::Alive { .. } if is_lost => Health::Connecting,
            Health::Alive { .. } | Health::Connecting => {
                out.push(Output::Dead(self.server.name.clone()));
                Health::Unreachable
            }
            other => other,
        };
    }
}

impl Client {
    /// A connection is there, or has ended.
    pub fn link(&mut self, now: Now, server: &str, port: u16, change: LinkChange, out: &mut Outputs) {
        let fits =
            |state: &ServerState| state.server.name == server && state.server.transport == Transport::Stream;
        let Some(state) = self.servers.iter_mut().find(|state| fits(state)) else { return };
        let Some(link) = state.links.get_mut(usize::from(port)) else { return };
        let heard = (change == LinkChange::Up).then_some(now.at);
        let before = std::mem::replace(link, Link { heard });
        state.ids.set_usable(port, heard.is_some());
        let number = state.number;
        match change {
            LinkChange::Up => {
                match &mut state.health {
                    // It has not answered by other connections: Status-Server first.
                    Health::Dead { until, .. } => *until = now.at,
                    Health::Unreachable => {
                        out.push(Output::Alive(state.server.name.clone()));
                        state.health = Health::Alive { unanswered: 0 };
                    }
                    _ => state.health = Health::Alive { unanswered: 0 },
                }
                self.timer(now, out);
            }
            LinkChange::Down => {
                if state.links.iter().all(|link| link.heard.is_none()) {
                    state.lost(out, before.heard.is_some());
                }
                self.send_again(now, number, port, out);
                self.start_waiting(now, out);
            }
        }
    }

    /// The requests of a connection are sent by another one.
    fn send_again(&mut self, now: Now, server: u32, port: u16, out: &mut Outputs) {
        let own = |key: &Key| (key.server, key.port) == (server, port);
        let own: Vec<Key> = self.deadlines.iter().map(|(_, key)| *key).filter(own).collect();
        for key in own {
            if let Some(open) = self.close(key).filter(|open| open.job.token.is_some()) {
                self.place(now, open.job, out);
            }
        }
    }

    /// Ends the connection of a packet.
    pub(super) fn reconnect(&mut self, now: Now, key: Key, out: &mut Outputs) {
        let Some(state) = self.servers.iter().find(|state| state.number == key.server) else { return };
        let server = state.server.name.clone();
        out.push(Output::Reconnect { server: server.clone(), port: key.port });
        self.link(now, &server, key.port, LinkChange::Down, out);
    }

    /// Ends all connections of a server.
    pub(super) fn reconnect_all(&mut self, now: Now, server: u32, out: &mut Outputs) {
        let Some(state) = self.servers.iter().find(|state| state.number == server) else { return };
        let ports: Vec<u16> =
            (0..).zip(&state.links).filter(|(_, link)| link.heard.is_some()).map(|(port, _)| port).collect();
        for port in ports {
            self.reconnect(now, Key { server, port, id: 0 }, out);
        }
    }

    /// Probes connections by which nothing has come for some time.
    pub(super) fn watch(&mut self, now: Now, place: usize, out: &mut Outputs) {
        let Some(state) = self.servers.get_mut(place) else { return };
        let is_silent = |link: &Link| link.heard.is_some_and(|heard| heard + WATCH <= now.at);
        let silent = (0..).zip(&mut state.links).filter(|(_, link)| is_silent(link));
        let silent = silent.map(|(port, link)| {
            link.heard = Some(now.at);
            port
        });
        let silent: Vec<u16> = silent.collect();
        for port in silent {
            let taken = self.servers.get_mut(place).and_then(|state| state.ids.take_of(port));
            if let Some(at) = taken {
                self.open_as(now, place, at, Job::status(now.at + WATCH), out);
            }
        }
    }
}

impl Job {
    /// A Status-Server.
    pub(super) fn status(give_up: Duration) -> Job {
        let attributes = Attributes::default();
        let request = Request { code: code::STATUS_SERVER, attributes, password: None, happened_s: None };
        Job { token: None, request: Arc::new(request), give_up, tried: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
