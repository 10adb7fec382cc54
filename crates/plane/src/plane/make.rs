//! The parts of a node from its text.

use std::net::IpAddr;

use weir_packet::frame::Mac;

use crate::access::Subscribers;
use crate::config::Config;
use crate::frame::PortId;
use crate::neighbour::Link;
use crate::outbox::Outbox;
use crate::pipeline::Exit;
use crate::port::{End, Port};
use crate::route::{Route, Router};
use crate::stage::{Forwarding, Mtus, NodeParts, Surroundings};
use crate::stages::{Stage, StageConfig};

/// A router, if the text has routes.
#[expect(clippy::expect_used, reason = "the text was read, and with it its next hops")]
pub(super) fn exit(config: &Config, macs: &[Mac], outbox: &mut Outbox) -> Exit {
    let Some(routes) = &config.routes else { return Exit::Across };
    let link = |(port, &mac): (&Port, &Mac)| Link {
        mac: port.mac.unwrap_or(mac),
        addresses: port.hosts(),
        // The right end is where the addresses are known that the node translates to.
        is_outside: !port.is_left(),
        tags: port.port_tags(),
        is_access: port.is_access,
    };
    let links = config.ports.iter().zip(macs).map(link).collect();
    let mtus = config.ports.iter().map(|port| port.mtu).collect();
    let rpf = config.ports.iter().map(|port| port.rpf).collect();
    let router = Router::new(links, mtus, &config.order).judging(rpf);
    let mut router = router.limited(&config.limits, config.share, config.seed);
    router.options = config.options;
    for (n, port) in config.ports.iter().enumerate() {
        for (&ip, &mac) in &port.neighbours {
            router.fix(PortId(n as u16), ip, mac, outbox);
        }
    }
    for (&prefix, target) in routes.iter() {
        let route = Route { prefix, target: target.clone() };
        router.add(&route).expect("the next hops of a text are neighbours");
    }
    for subscriber in &config.subscribers {
        subscriber.prefixes.iter().for_each(|&prefix| router.lead_to(prefix, subscriber.line.port));
    }
    *router.translated() = config.translated();
    Exit::Router(Box::new(router))
}

/// The subscribers of a text.
pub(super) fn subscribers(config: &Config) -> Subscribers {
    let mut table = Subscribers::default();
    if !config.subscribers.is_empty() || config.access.is_some() {
        table = Subscribers::with_seed(config.seed);
    }
    config.access_policy().into_iter().for_each(|policy| table.set_policy(policy));
    config.subscribers.iter().for_each(|one| table.insert_fixed(one));
    table.set_unknown_sessions(config.sessions.unknown);
    config.sessions.iter().for_each(|session| table.change(None, Some(session), 0));
    table
}

pub(crate) fn local_addresses(port: &Port) -> Vec<IpAddr> {
    port.addresses.iter().map(|local| local.host()).collect()
}

impl Surroundings {
    /// What a stage knows of the node that the text says.
    pub(crate) fn of(config: &Config) -> Surroundings {
        let local: Vec<IpAddr> = config.ordered().flat_map(|(_, port)| local_addresses(port)).collect();
        let shortest = |end: End| {
            let of_end = config.ordered().filter(|(_, port)| port.end == Some(end));
            of_end.map(|(_, port)| port.mtu).min().unwrap_or(u16::MAX)
        };
        let mtus = Mtus { inside: shortest(End::Left), outside: shortest(End::Right) };
        let has_v6 = local.iter().any(IpAddr::is_ipv6);
        Surroundings { local, forwarding: config.routes.is_some().then_some(Forwarding { mtus, has_v6 }) }
    }
}

/// A stage of a node, or a thread's share of it, in which nothing lives yet.
pub(crate) fn stage_of(stage: &StageConfig, config: &Config) -> Stage {
    let (seed, share, limits) = (config.seed, config.share, config.limits);
    let mut stage = stage.stage(&NodeParts { seed, share, surroundings: Surroundings::of(config) });
    stage.kind_mut().limit(&limits);
    stage
}
