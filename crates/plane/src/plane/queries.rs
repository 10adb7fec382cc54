//! What a plane is asked: counters, logs, NAT port blocks. Each answer is gathered from the stages in the order of the text.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use super::{Accounting, Plane};
use crate::access::{LabelCounts, SubscriberCount, SubscriberState};
use crate::filter::{Count, Filter, Logged, RuleCount};
use crate::nat::{BlockEvent, Event, PortBlock, Usage};
use crate::neighbour::NeighbourState;
use crate::pipeline::Exit;
use crate::police::{Police, PoliceCounts};
use crate::queue::{Queue, QueueCounts};
use crate::shape::GroupState;

impl Plane {
    /// The frame accounting.
    pub fn accounting(&self) -> Accounting {
        let served = self.fast.as_ref().map_or(0, |path| path.served());
        let Accounting { entered, left, .. } = self.accounting;
        Accounting {
            entered: entered + served,
            left: left + served,
            originated: self.outbox.made,
            kept: self.outbox.kept_count,
            ..self.accounting.clone()
        }
    }

    /// What the NATs hold.
    pub fn nat_usage(&self) -> Usage {
        self.pipeline.nats().map(|nat| nat.table.usage()).fold(Usage::default(), |all, one| Usage {
            sessions: all.sessions + one.sessions,
            bytes: all.bytes + one.bytes,
        })
    }

    /// Block events since the last call; `None`: there were too many, and [`Plane::blocks`] has all blocks.
    pub fn block_events(&mut self) -> Option<Vec<BlockEvent>> {
        let mut all = Vec::new();
        for nat in self.pipeline.nats_mut() {
            all.append(&mut nat.table.block_events()?);
        }
        Some(all)
    }

    /// All port blocks in use, but for deterministic ones. It takes its time.
    pub fn blocks(&mut self) -> Vec<PortBlock> {
        self.pipeline.nats_mut().flat_map(|nat| nat.table.blocks()).collect()
    }

    /// NAT events since the last call, and how many were dropped since the start because a log was full.
    pub fn events(&mut self) -> (Vec<Event>, u64) {
        let mut all = self.unread_log.events();
        for nat in self.pipeline.nats_mut() {
            let (events, lost) = nat.table.events();
            all.0.extend(events);
            all.1 += lost;
        }
        all
    }

    /// The filters in the order of the text: each rule as it was written, then the policy, with its counts.
    pub fn filter_counts(&self) -> Vec<Vec<(String, Count)>> {
        let of = |filter: &Filter| filter.counts().map(|(rule, count)| (rule.to_string(), count)).collect();
        self.pipeline.filters().map(of).collect()
    }

    /// The counters of queues, in the order of the text.
    pub fn queue_counts(&self) -> Vec<QueueCounts> {
        self.pipeline.of_kind::<Queue>().flat_map(|(n, queue)| queue.counts(n + 1)).collect()
    }

    /// The counters of policers, in the order of the text.
    pub fn police_counts(&self) -> Vec<PoliceCounts> {
        self.pipeline.of_kind::<Police>().flat_map(|(n, police)| police.counts(n + 1)).collect()
    }

    /// The ports and groups of subscribers, at ports with these names.
    pub fn groups(&self, ports: &[String]) -> Vec<GroupState> {
        self.pipeline.subscribers.group_states(ports)
    }

    /// What the rules of the filters held for, and where they stand.
    pub fn rule_counts(&self) -> Vec<RuleCount> {
        self.pipeline.of_kind::<Filter>().flat_map(|(n, filter)| filter.rule_counts(n + 1)).collect()
    }

    /// Neighbours from this number on, a page of them, and where to go on if there may be more.
    pub fn neighbours(&self, from: u32, ports: &[String]) -> (Vec<NeighbourState>, Option<u32>) {
        match &self.pipeline.exit {
            Exit::Router(router) => {
                let page = router.shown_neighbours(from, ports);
                (page.records, page.next)
            }
            Exit::Across => (Vec::new(), None),
        }
    }

    /// Sessions of subscribers from this index on, a page of them, and where to go on if there may be more.
    pub fn subscribers(&self, from: u32, ports: &[String]) -> (Vec<SubscriberState>, Option<u32>) {
        let page = self.pipeline.subscribers.shown(from, ports);
        (page.records, page.next)
    }

    /// What these sessions of subscribers had counted when they were removed; some may be forgotten.
    pub fn removed_subscribers(&self, sessions: &[u64]) -> Vec<SubscriberCount> {
        self.pipeline.subscribers.removed(sessions)
    }

    /// What sessions of subscribers from this index on have counted, a page of them, and where to go on if there may be more.
    pub fn subscriber_counts(&self, from: u32) -> (Vec<SubscriberCount>, Option<u32>) {
        let page = self.pipeline.subscribers.counts(from);
        (page.records, page.next)
    }

    /// What was counted by plan and group of subscribers.
    pub fn label_counts(&self) -> Vec<LabelCounts> {
        self.pipeline.subscribers.label_counts()
    }

    /// Memory of the table of subscribers, in bytes.
    pub fn subscriber_bytes(&self) -> usize {
        self.pipeline.subscribers.bytes()
    }

    /// Frames that rules have logged since the last call.
    pub fn logged(&mut self) -> Vec<Logged> {
        self.pipeline.filters_mut().flat_map(Filter::logged).collect()
    }

    /// Connections that filters remember.
    pub fn connections(&self) -> u32 {
        self.pipeline.filters().map(Filter::connections).sum()
    }

    /// Memory that filters read, in bytes.
    pub fn filter_bytes(&self) -> usize {
        self.pipeline.filters().map(Filter::bytes).sum()
    }

    /// Memory that look-ups of routes read, in bytes.
    pub fn route_bytes(&self) -> usize {
        match &self.pipeline.exit {
            Exit::Router(router) => router.table_bytes(),
            Exit::Across => 0,
        }
    }
}
