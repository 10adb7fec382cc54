//! Changes of a plane beside another text, which is `update.rs`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Plane;
use crate::frame::PortId;
use crate::limits::Limits;
use crate::nat::{NewBlocks, PortBlock};
use crate::pipeline::Exit;
use crate::route::{NoLink, Route};
use crate::time::Time;

impl Plane {
    /// Allocates blocks to hosts again that they had before the node ended, as far as the text has them: these are returned.
    pub fn restore(&mut self, now: Time, kept: &[PortBlock]) -> Vec<PortBlock> {
        let mut restored = Vec::new();
        for nat in self.pipeline.nats_mut() {
            restored.extend(kept.iter().filter(|kept| nat.table.restore(now, kept)));
        }
        restored
    }

    /// Whether hosts are given further port blocks from now on. A NAT that begins anew gives them again.
    pub fn set_new_blocks(&mut self, new_blocks: NewBlocks) {
        self.pipeline.nats_mut().for_each(|nat| nat.table.set_new_blocks(new_blocks));
    }

    /// Frames for the node itself that come in by these ports are dropped from now on: no machine takes them.
    pub fn without_machine(mut self, ports: impl IntoIterator<Item = PortId>) -> Plane {
        self.local.not_taken = ports.into_iter().collect();
        self
    }

    /// Sets other limits for what hosts share.
    pub(crate) fn limit(&mut self, limits: &Limits) {
        self.pipeline.text_epoch = self.pipeline.text_epoch.wrapping_add(1);
        self.pipeline.stages.iter_mut().for_each(|stage| stage.kind_mut().limit(limits));
        self.steering.limit(limits);
        self.local.limit(limits);
        if let Some(punter) = &mut self.punter {
            punter.limit(limits);
        }
        self.outbox.limit(limits);
        if let Exit::Router(router) = &mut self.pipeline.exit {
            router.limit(limits);
        }
    }

    /// Adds a route to a router, or changes where its prefix leads; false if the node is none.
    ///
    /// # Errors
    /// A next hop that is no neighbour.
    pub fn add_route(&mut self, route: &Route) -> Result<bool, NoLink> {
        match &mut self.pipeline.exit {
            Exit::Router(router) => {
                let added = router.add(route);
                self.publish();
                added.map(|()| true)
            }
            Exit::Across => Ok(false),
        }
    }
}
