//! Where a frame goes behind a NAT.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr};

use super::table::Table;
use super::words::Manner;
use crate::dir::Dir;
use crate::drops::DropReason;
use crate::frame::Kind;
use crate::icmp::Error;
use crate::stage::Step;

/// Where a frame goes behind the stage.
pub(super) enum Next {
    On,
    /// To a public address of this NAT: its source is translated, its destination not yet.
    Hairpin,
    /// To another host inside.
    Turn,
    Drop(DropReason),
    /// Its verdict is set.
    Gone,
}

/// A frame that gets no mapping; its sender may be informed (RFC 6888 REQ-11B).
pub(super) fn refuse(table: &Table, step: &mut Step<'_, '_>, i: usize, reason: DropReason) -> Next {
    let is_shortage = matches!(
        reason,
        DropReason::NatNoPort
            | DropReason::NatWithheld
            | DropReason::NatQuota
            | DropReason::NatRate
            | DropReason::NatSessions
    );
    if is_shortage && table.config.exhausted == Manner::Answer {
        let frame = &step.frames[i];
        let public = table.outside.first();
        let from = match frame.kind() {
            Kind::V4 => public.map(|public| IpAddr::from(Ipv4Addr::from(public))),
            _ => public
                .and_then(|public| Some(table.config.prefix_for(public).ok()?.embed(public)))
                .map(|public| IpAddr::V6(public.into())),
        };
        if let Some(from) = from {
            let back = step.back(Dir::Outward);
            step.outbox.report_from(from, step.now, frame, Error::NoHost, back);
        }
    }
    Next::Drop(reason)
}
