//! What the planes of a node with several threads give each other: frames, and news about neighbours.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::Plane;
use crate::batch::Verdict;
use crate::drops::DropReason;
use crate::frame::{Frame, Passage};
use crate::pipeline::Exit;
use crate::tags::PortTags;
use crate::threads::{Handover, Ingress, NeighbourNews};
use crate::time::Time;

impl Plane {
    /// Its news about neighbours since the last call, for the other threads of the node.
    pub fn neighbour_news(&mut self) -> impl Iterator<Item = NeighbourNews> {
        let news = match &mut self.pipeline.exit {
            Exit::Router(router) => Some(router.news()),
            Exit::Across => None,
        };
        news.into_iter().flatten()
    }

    /// Takes news about neighbours from another thread of the node.
    pub fn on_neighbour_news(&mut self, now: Time, news: &NeighbourNews) {
        self.outbox.begin();
        if let Exit::Router(router) = &mut self.pipeline.exit {
            router.on_neighbour_news(news, now, &mut self.outbox);
        }
        self.run_outbox(now);
        self.publish();
    }

    /// A frame with the verdict [`crate::Verdict::Handed`] was not handed over: the other thread had no room for it.
    pub fn handover_failed(&mut self) {
        self.accounting.handed -= 1;
        self.accounting.drops.count(DropReason::HandoverFull);
    }

    /// There was no memory for a frame that another thread handed over.
    pub fn lost_on_the_way(&mut self) {
        self.accounting.taken += 1;
        self.accounting.drops.count(DropReason::HandoverFull);
    }

    /// What becomes of a frame that goes to another thread. It goes with the tags that it came in with: a NAT may have taken them off, and the node's own
    /// have none.
    #[cold]
    pub(super) fn hand_over(&mut self, frame: &mut Frame<'_>, mut to: Handover) -> Verdict {
        self.accounting.handed += 1;
        if frame.passage == Passage::FromMachine {
            to.ingress = Ingress::Machine;
        }
        if !frame.has_tags() {
            let (dst, src) = frame.macs();
            let tags = frame.tags;
            match self.pipeline.tags(frame.port) {
                PortTags::Fixed(own) => frame.set_ethernet(dst, src, own),
                PortTags::Lines(_) => frame.set_ethernet(dst, src, tags.write(&mut [[0; 4]; 2])),
            }
        }
        Verdict::Handed(to)
    }
}
