//! Ports that come, change and go, as a part of an update.
//!
//! ```text
//! at once: tags, ends, own addresses   then, one by one: ports that come or change > routes, neighbours > ports that go > neighbours
//! ```
//! Invariant: a number stands for one port, see `config/number.rs`; there is room for all of them before anything is done. Of a port
//! that goes nothing comes in from the first step on, and nothing leaves by it after the last one.

use std::net::IpAddr;

use crate::config::Config;
use crate::frame::PortId;
use crate::limiter::{Limiter, Row};
use crate::pipeline::{Exit, PipelinePort};
use crate::plane::{Plane, local_addresses};
use crate::port::Port;
use crate::prefix::Prefix;
use crate::punter::Punter;
use crate::route::PortChange;
use crate::stage::ByDir;
use crate::stage::Surroundings;

/// What changes at once.
#[derive(Debug)]
pub(super) struct PortsText {
    ports: Vec<PipelinePort>,
    across: ByDir<PortId>,
    order: Vec<PortId>,
    /// The node's addresses by port.
    addresses: Vec<Vec<IpAddr>>,
    /// Of ports that come behind the others.
    limits: Vec<Row>,
    punter: Option<Box<Punter>>,
    surroundings: Surroundings,
    /// Ports whose frames no machine takes, if they are others.
    pub(super) not_taken: Option<Vec<PortId>>,
}

impl PortsText {
    fn of(old: &Config, new: &Config) -> PortsText {
        let before = |n: usize| old.ports.get(n).filter(|port| port.is_present());
        let port = |(n, port): (usize, &Port)| match before(n) {
            // Frames still leave by it.
            Some(before) if !port.is_present() => PipelinePort { enters: None, ..PipelinePort::of(before) },
            _ => PipelinePort::of(port),
        };
        PortsText {
            ports: new.ports.iter().enumerate().map(port).collect(),
            across: ByDir::each_of(|dir| new.across(dir)),
            order: new.order.clone(),
            addresses: new.ports.iter().map(local_addresses).collect(),
            limits: Limiter::rows(old.ports.len()..new.ports.len(), &new.limits, new.share, new.seed),
            punter: Punter::new(new),
            surroundings: Surroundings::of(new),
            not_taken: None,
        }
    }
}

/// The difference between the ports of two texts.
pub(super) struct PortChanges {
    pub(super) text: Option<PortsText>,
    /// Those that come or change.
    pub(super) changed: Vec<PortChange>,
    pub(super) gone: Vec<PortChange>,
    /// Networks that they have, or had.
    pub(super) networks: Vec<Prefix>,
}

impl PortChanges {
    /// The difference.
    ///
    /// # Errors
    /// They are not numbered alike, or a port that comes to a router has no Ethernet address.
    pub(super) fn between(old: &Config, new: &Config) -> Result<PortChanges, String> {
        let absent = Port::absent();
        let (mut changed, mut gone, mut networks) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_other = old.order != new.order;
        for n in 0..old.ports.len().max(new.ports.len()) {
            let [before, now] = [old, new].map(|config| config.ports.get(n).unwrap_or(&absent));
            if before.has_the_shape_of(now) {
                continue;
            }
            is_other = true;
            networks.extend(before.addresses.iter().chain(&now.addresses).map(|local| local.network()));
            let number = PortId(n as u16);
            match (before.is_present(), now.is_present()) {
                (true, true) if !before.is_same(now) => {
                    return Err(format!("port `{}` has the number of `{}`", now.name, before.name));
                }
                (false, true) if now.mac.is_none() && new.routes.is_some() => {
                    return Err(format!(
                        "port `{}` comes without an Ethernet address: write its `mac`",
                        now.name
                    ));
                }
                (_, true) => changed.push(PortChange::to(number, now)),
                (_, false) => gone.push(PortChange::to(number, now)),
            }
        }
        if old.ports.len() > new.ports.len() {
            return Err("the numbers of ports that were removed have no places".to_string());
        }
        let text = is_other.then(|| PortsText::of(old, new));
        Ok(PortChanges { text, changed, gone, networks })
    }
}

impl PortChange {
    fn to(number: PortId, port: &Port) -> PortChange {
        PortChange {
            port: number,
            mac: port.mac,
            addresses: port.hosts(),
            is_outside: !port.is_left(),
            tags: port.port_tags(),
            is_access: port.is_access,
            mtu: port.mtu,
            rpf: port.rpf,
        }
    }
}

impl Plane {
    /// Takes what changes at once; what is of no more use is left in `text`.
    pub(super) fn take_ports(&mut self, text: &mut PortsText) {
        std::mem::swap(&mut self.pipeline.ports, &mut text.ports);
        std::mem::swap(&mut self.pipeline.across, &mut text.across);
        self.outbox.take_ports(std::mem::take(&mut text.addresses), std::mem::take(&mut text.limits));
        let before = self.punter.take();
        self.punter = text.punter.take().map(|punter| punter.continuing(before));
        self.set_control(self.has_control);
        self.pipeline.stages.iter_mut().for_each(|stage| stage.kind_mut().take_node(&text.surroundings));
        if let Some(ports) = text.not_taken.take() {
            self.local.not_taken = ports;
        }
        if let Exit::Router(router) = &mut self.pipeline.exit {
            router.set_order(std::mem::take(&mut text.order));
        }
    }
}

#[cfg(test)]
mod tests;
