//! The two clients of RADIUS, for logins and for accounting: how each is told something, and what becomes of what it wants done.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::{Bng, Outputs};
use crate::io::{Event, Output};
use crate::now::Now;
use crate::radius::Service;
use crate::radius::client::{self, Client};
use crate::session::SessionId;

impl Bng {
    /// Tells a client something, and does what it wants done.
    pub(super) fn tell_radius(
        &mut self,
        service: Service,
        out: &mut Outputs,
        tell: impl FnOnce(&mut Client, Now, &mut Vec<client::Output>),
    ) {
        let (now, mut outputs) = (self.now, Vec::new());
        let client = match service {
            Service::Access => self.calls.radius_client(),
            Service::Accounting => self.ledger.client(),
        };
        tell(client, now, &mut outputs);
        outputs.into_iter().for_each(|output| self.radius_output(service, output, out));
        match service {
            Service::Access => self.plan_radius(),
            Service::Accounting => self.ledger.is_changed(),
        }
    }

    fn radius_output(&mut self, service: Service, output: client::Output, out: &mut Outputs) {
        match output {
            client::Output::Send { server, port, bytes } => {
                out.push(Output::Radius { service, server, port, bytes });
            }
            client::Output::Reconnect { server, port } => {
                out.push(Output::RadiusReconnect { service, server, port });
            }
            client::Output::Done { token, result } => match service {
                Service::Access => self.login_is_answered(token, result, out),
                Service::Accounting => self.accounting_done(SessionId(token.0), result.map(drop), out),
            },
            client::Output::Distrusted { server, why } => {
                out.push(Output::Event(Event::RadiusDistrusted { server: shown(service, server), why }));
            }
            client::Output::Dead(server) => {
                let server = shown(service, server);
                out.push(Output::Event(Event::RadiusServer { server, is_alive: false }));
            }
            client::Output::Alive(server) => {
                let server = shown(service, server);
                out.push(Output::Event(Event::RadiusServer { server, is_alive: true }));
                if service == Service::Accounting {
                    self.ledger.server_has_returned();
                }
            }
        }
    }
}

/// The name of a server in events.
fn shown(service: Service, server: String) -> String {
    match service {
        Service::Access => server,
        Service::Accounting => format!("{server} (accounting)"),
    }
}
