//! Counters for Prometheus, published once a second.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_bng::Bng;
use weir_service::prometheus::{self, Server, gauge, metric};

use crate::rest::accounting as accounting_state;

const EVERY: Duration = Duration::from_secs(1);

/// Frames for clients that were not sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Losses {
    /// No node was attached.
    pub(crate) without_node: u64,
    /// The ring had no room, or the port has gone.
    pub(crate) injections: u64,
}

/// Where they are published.
pub(crate) struct Metrics {
    server: Option<Server>,
    published: Option<Instant>,
}

impl Metrics {
    /// Listens at an address, if there is one.
    ///
    /// # Errors
    /// The address is taken, or is not of this machine.
    pub(crate) fn new(address: Option<SocketAddr>) -> Result<Metrics> {
        let server = address.map(|address| anyhow::Ok(Server::start(prometheus::listen(address)?)?));
        Ok(Metrics { server: server.transpose()?, published: None })
    }

    /// Publishes the counters, if they are due.
    pub(crate) fn publish(&mut self, bng: &Bng, losses: &Losses) {
        let is_due = self.published.is_none_or(|at| at.elapsed() >= EVERY);
        if let Some(server) = self.server.as_ref().filter(|_| is_due) {
            self.published = Some(Instant::now());
            server.publish(page(bng, losses));
        }
    }
}

fn page(bng: &Bng, losses: &Losses) -> String {
    let mut page = String::new();
    let (counts, sizes) = (bng.counts(), bng.sizes());
    gauge(&mut page, "bng_subscribers", "Subscribers", sizes.subscribers as u64);
    gauge(&mut page, "bng_sessions", "Subscribers that are online", sizes.sessions as u64);
    let outcomes = [("answered", counts.answered), ("accepted", counts.accepted)];
    let outcomes = outcomes.map(|(outcome, frames)| (format!("outcome=\"{outcome}\""), frames));
    metric(&mut page, "bng_frames_total", "Frames of clients, by outcome", outcomes.into_iter());
    let drops = counts.drops.iter().map(|(reason, frames)| (format!("reason=\"{}\"", reason.name()), frames));
    metric(&mut page, "bng_drops_total", "Frames of clients that were not answered, by reason", drops);
    gauge(
        &mut page,
        "bng_pppoe_half_open",
        "PPPoE sessions that are being set up",
        bng.half_open_calls() as u64,
    );
    let discovery = bng.discovery_counts();
    let tolerated = [("other_service", discovery.other_services), ("no_service", discovery.without_service)];
    let tolerated = tolerated.map(|(what, packets)| (format!("what=\"{what}\""), packets));
    metric(
        &mut page,
        "bng_pppoe_tolerated_total",
        "PADI and PADR for a service that is not offered, or without one, which were served",
        tolerated.into_iter(),
    );
    let logins = std::iter::once((String::new(), bng.brown_out_logins()));
    metric(
        &mut page,
        "bng_brown_out_logins_total",
        "Logins that came online without a RADIUS server",
        logins,
    );
    let ignored = bng.unsupported_attributes();
    let ignored =
        ignored.map(|((vendor, kind), count)| (format!("vendor=\"{vendor}\",attribute=\"{kind}\""), count));
    metric(
        &mut page,
        "bng_radius_ignored_attributes_total",
        "Attributes of Access-Accepts that were ignored, because they are not supported",
        ignored,
    );
    let lost = [("no_node", losses.without_node), ("no_room", losses.injections)];
    let lost = lost.map(|(reason, frames)| (format!("reason=\"{reason}\""), frames));
    metric(
        &mut page,
        "bng_unsent_total",
        "Frames for clients that were not sent, by reason",
        lost.into_iter(),
    );
    radius(&mut page, bng);
    page
}

/// RADIUS, where it is used.
fn radius(page: &mut String, bng: &Bng) {
    let access = bng.radius_counts().map(|one| ("access", one));
    let accounting = bng.accounting_server_counts().map(|one| ("accounting", one));
    let servers: Vec<_> = access.chain(accounting).collect();
    if servers.is_empty() {
        return;
    }
    let rows = servers.iter().flat_map(|(service, (server, counts, _))| {
        let of = [
            ("sent", counts.requests),
            ("repeated", counts.repeated),
            ("answered", counts.answers),
            ("late", counts.late),
            ("forged", counts.forged),
        ];
        of.map(|(what, count)| (format!("server=\"{server}\",service=\"{service}\",what=\"{what}\""), count))
    });
    metric(page, "bng_radius_datagrams_total", "Datagrams to and of RADIUS servers", rows);
    let weir_bng::api::Accounting { waiting, starts, interims, stops, dropped, .. } = accounting_state(bng);
    gauge(page, "bng_accounting_waiting", "Messages that no server has answered", waiting as u64);
    let answered = [("start", starts), ("interim", interims), ("stop", stops)];
    let answered = answered.map(|(message, count)| (format!("message=\"{message}\""), count));
    metric(page, "bng_accounting_answered_total", "Messages that were answered", answered.into_iter());
    let dropped = std::iter::once((String::new(), dropped));
    metric(page, "bng_accounting_dropped_total", "Sessions whose messages were dropped", dropped);
}
