//! What programs are told of subscribers.

use std::net::IpAddr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SubscriberEntry;
use super::counts::{ClassCount, Traffic};
use super::labels::LabelRow;
use super::table::{Dropped, Shown, Subscribers};
use crate::port::MacText;
use crate::shape::QueueFigures;
use crate::table::page::Page;

/// A session of a subscriber, and what it has counted. Bytes are those of whole frames without FCS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberState {
    /// The session as it was added; those of the text have the number 0.
    #[serde(flatten)]
    pub entry: SubscriberEntry,
    /// It is a PPPoE session whose subscriber has sent nothing for a while, not even answers to echo requests.
    pub is_dead: bool,
    /// When the last packet from the subscriber was accepted: s since 1970, and in a plane alone since its time began. None: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_s: Option<u64>,
    /// Frames from the subscriber that were accepted.
    pub from_frames: u64,
    /// Their bytes.
    pub from_bytes: u64,
    /// Frames to the subscriber that were sent.
    pub to_frames: u64,
    /// Their bytes.
    pub to_bytes: u64,
    /// Frames from the subscriber with a source address that is not its own.
    pub foreign_sources: u64,
    /// The source address of the last one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_foreign_source: Option<IpAddr>,
    /// Frames from the subscriber beyond its rate.
    pub from_over_rate: u64,
    /// Frames to the subscriber beyond its rate.
    pub to_over_rate: u64,
    /// Frames from or to the subscriber that were dropped since it is blocked.
    pub blocked: u64,
    /// The same since it is walled.
    pub walled: u64,
    /// What was accepted from it and sent to it, by family and class.
    pub classes: Vec<ClassCount>,
    /// Frames from it that wait or had to wait for a rate.
    #[serde(default)]
    pub from_queue: QueueFigures,
    /// Frames to it that wait or had to wait for a rate.
    #[serde(default)]
    pub to_queue: QueueFigures,
}

/// What a session of a subscriber has counted, without the rest: read often, of all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberCount {
    /// Its number.
    pub session: u64,
    /// It is a PPPoE session whose subscriber has sent nothing for a while, not even answers to echo requests.
    pub is_dead: bool,
    /// Frames from the subscriber that were accepted.
    pub from_frames: u64,
    /// Their bytes.
    pub from_bytes: u64,
    /// Frames to the subscriber that were sent.
    pub to_frames: u64,
    /// Their bytes.
    pub to_bytes: u64,
}

/// What the sessions with this plan and this group have counted, also those that have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelCounts {
    /// The name of the plan; none: of sessions without a plan.
    pub plan: Option<String>,
    /// The name of the group, the same.
    pub group: Option<String>,
    /// Sessions that have them now.
    pub sessions: u32,
    /// Frames and bytes by family and class.
    pub classes: Vec<ClassCount>,
}

impl Subscribers {
    /// Those from this index on, a page of them, at ports with these names.
    pub(crate) fn shown(&self, from: u32, ports: &[String]) -> Page<SubscriberState> {
        let numbers = from.max(1)..self.end().max(from).max(1);
        Page::of(numbers, |index| {
            let known = self.shown_one(index)?;
            let [
                Traffic { frames: from_frames, bytes: from_bytes },
                Traffic { frames: to_frames, bytes: to_bytes },
            ] = known.traffic;
            let rate = |bits_per_s: u64| (bits_per_s > 0).then_some(bits_per_s);
            let text = |name: &Option<Arc<str>>| name.as_deref().map(String::from);
            let entry = SubscriberEntry {
                session: known.session,
                revision: known.revision,
                port: ports.get(usize::from(known.line.port.0)).cloned().unwrap_or_default(),
                tags: known.line.tags.to_string(),
                mac: MacText::from(known.line.mac),
                prefixes: known.prefixes.to_vec(),
                from_bits_per_s: rate(known.bits_per_s[0]),
                to_bits_per_s: rate(known.bits_per_s[1]),
                line_from_bits_per_s: rate(known.line_bits_per_s[0]),
                line_to_bits_per_s: rate(known.line_bits_per_s[1]),
                pppoe_session: Some(known.line.pppoe_session).filter(|id| *id > 0),
                mru: Some(known.mru).filter(|mru| *mru > 0),
                magic: known.magic,
                echo_interval_s: known.echo_said.0,
                echo_lost: known.echo_said.1,
                behind_router: known.is_routed,
                state: known.state,
                nat: known.nat,
                plan: text(&known.labels.plan),
                group: text(&known.labels.group),
            };
            let Dropped {
                foreign: foreign_sources,
                over_rate: [from_over_rate, to_over_rate],
                blocked,
                walled,
            } = known.dropped;
            let [from, to] = &known.counts;
            let [from_queue, to_queue] = self.queues(index);
            Some(SubscriberState {
                entry,
                is_dead: known.is_dead,
                last_seen_s: Some(known.last_seen.ns()).filter(|ns| *ns > 0).map(|ns| ns / 1_000_000_000),
                from_frames,
                from_bytes,
                to_frames,
                to_bytes,
                foreign_sources,
                last_foreign_source: known.last_foreign,
                from_over_rate,
                to_over_rate,
                blocked,
                walled,
                classes: from.shown("from").chain(to.shown("to")).collect(),
                from_queue,
                to_queue,
            })
        })
    }

    /// What sessions from this index on have counted, a page of them.
    pub(crate) fn counts(&self, from: u32) -> Page<SubscriberCount> {
        let numbers = from.max(1)..self.end().max(from).max(1);
        Page::of(numbers, |index| {
            let Shown { session, is_dead, traffic: [from, to], .. } = self.shown_one(index)?;
            Some(SubscriberCount {
                session,
                is_dead,
                from_frames: from.frames,
                from_bytes: from.bytes,
                to_frames: to.frames,
                to_bytes: to.bytes,
            })
        })
    }

    /// What was counted by plan and group.
    pub(crate) fn label_counts(&self) -> Vec<LabelCounts> {
        let text = |name: &Option<Arc<str>>| name.as_deref().map(String::from);
        let of = |row: &LabelRow| {
            let [from, to] = &row.counts;
            LabelCounts {
                plan: text(&row.labels.plan),
                group: text(&row.labels.group),
                sessions: row.sessions,
                classes: from.shown("from").chain(to.shown("to")).collect(),
            }
        };
        self.labels().map(of).filter(|of| of.sessions > 0 || !of.classes.is_empty()).collect()
    }
}
