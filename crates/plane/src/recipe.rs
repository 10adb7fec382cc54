//! What the stages do to all frames of a flow, said once, so that the next frames need not pass them: a flow cache applies it
//! here, an XDP program of the fast path elsewhere.
//!
//! ```text
//! key of a frame > each stage in turn > Part: rewrite, what it depends on, how long, what to count     > Recipe
//!                                     > Never: frames of this flow must pass the stages
//! recipe used n times > each stage's `used`: counters and idle times are those of n frames that passed it
//! ```
//! A stage is asked about the key as the stages before it have rewritten it. Asking changes nothing. A recipe holds while
//! all epochs are those that it was made with, and until its time; then the next frame passes the stages again.
//!
//! Invariant: the user of a recipe reports its uses before a stage can look at what the report changes, that is, before the next
//! frame passes the stages and before time passes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use weir_packet::frame::Mac;
use weir_packet::headers::{TCP, UDP};

use crate::flow::Flow;
use crate::frame::{Fragment, Frame, Kind, Passage, PortId};
use crate::table::tcp::{Segment, Side};
use crate::table::timers::Tick;

/// Both addresses of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ends {
    /// Of IPv4.
    V4 {
        /// Where it comes from.
        src: u32,
        /// Where it goes.
        dst: u32,
    },
    /// Of IPv6.
    V6 {
        /// Where it comes from.
        src: u128,
        /// Where it goes.
        dst: u128,
    },
}

/// All that a stage may look at in a frame whose flow is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The port that it came in by.
    pub(crate) port: PortId,
    pub(crate) ends: Ends,
    /// Source and destination port.
    pub(crate) ports: (u16, u16),
    /// TCP or UDP.
    pub(crate) proto: u8,
    /// Flags of TCP: rules may ask for any of them.
    pub(crate) flags: u8,
    /// It may not be cut, so that it needs no identification.
    pub(crate) keeps_whole: bool,
    /// It goes from one port of the left end to another.
    pub(crate) stays_inside: bool,
}

/// Why the frames of a flow must pass the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Never {
    /// It is no packet of TCP or UDP in one piece.
    Kind,
    /// It begins or ends a connection.
    Flags,
    /// It has options of IP, or no hop left to live.
    Header,
    /// It is for many, for the node itself, or between two hosts of one end.
    Destination,
    /// Something configured decides that a recipe cannot say: a rule that logs, an address that leads elsewhere.
    Configured,
    /// There is no open session or connection for it.
    NoSession,
    /// It gets another identification each time.
    Identification,
    /// No next hop is known, or its Ethernet address is to be confirmed.
    NextHop,
}

/// What a recipe depends on: each has an epoch, which changes whenever it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// The node's text: rules, addresses, limits; and its stages.
    Text,
    /// Routes.
    Routes,
    /// What is known of neighbours.
    Neighbours,
    /// A session of a NAT or a connection of a filter, by the stage and the number it has there; the stage is one of the
    /// text, which each recipe depends on, too. With a session ends its port of a port block.
    Session { stage: usize, number: u32 },
}

/// Something that a recipe depends on, as it was when it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depends {
    pub(crate) on: On,
    pub(crate) epoch: u32,
}

/// What a stage changes in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rewrite {
    Nothing,
    /// Another source, address and port.
    Source(u32, u16),
    /// Another destination, address and port.
    Destination(u32, u16),
}

/// What a stage does to the frames of a flow.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rewrite: Rewrite,
    /// The class that it gives them, if it does.
    pub(crate) class: Option<u8>,
    /// Sessions that it depends on, by the number that the stage has for them.
    pub(crate) sessions: Vec<u32>,
    /// How long it holds without the stage being asked; `None`: as long as its epochs.
    pub(crate) until: Option<Tick>,
    /// What the stage needs when the recipe was used.
    pub(crate) note: Note,
}

/// What a stage keeps in a recipe for itself.
#[derive(Debug)]
pub(crate) enum Note {
    Filter(FilterNote),
    Nat(NatNote),
}

/// What a filter counts when frames were passed on by a recipe.
#[derive(Debug)]
pub(crate) struct FilterNote {
    /// Numbers of the rules that count the frames. The last one accepts them, unless `by_policy` is set.
    pub(crate) rules: Vec<u32>,
    /// No rule accepts the frames; the policy does.
    pub(crate) by_policy: bool,
    /// The connection of the frames and the side that sends them, where the filter remembers connections.
    pub(crate) connection: Option<(u32, Side)>,
}

/// What a NAT refreshes when frames were passed on by a recipe.
#[derive(Debug)]
pub(crate) struct NatNote {
    /// The number of the session that the frames belong to.
    pub(crate) session: u32,
    /// The side that sends the frames.
    pub(crate) side: Side,
    /// A frame keeps the session alive.
    pub(crate) refreshes: bool,
}

/// Where the frames of a flow leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) port: PortId,
    /// By a router: destination and source of Ethernet, and the longest packet in bytes. It takes a hop to live.
    pub(crate) routed: Option<(Mac, Mac, u16)>,
}

/// Whether a session is still the one that a recipe was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    Same,
    /// It has ended or changed since: uses of the recipe do not refresh it.
    Changed,
}

/// How often a recipe was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Uses {
    pub(crate) frames: u64,
    /// Bytes of their packets.
    pub(crate) bytes: u64,
    /// When the last one came.
    pub(crate) last: Tick,
}

/// What is done to the frames of a flow.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// By stage, in the order of the way.
    pub(crate) parts: Vec<(usize, Part)>,
    pub(crate) out: Out,
    pub(crate) depends: Vec<Depends>,
    /// The least of all parts.
    pub(crate) until: Option<Tick>,
}

impl Key {
    /// That of a frame that came in.
    ///
    /// # Errors
    /// Frames like it must pass the stages.
    pub(crate) fn of(frame: &Frame<'_>) -> Result<Key, Never> {
        if !matches!(frame.kind(), Kind::V4 | Kind::V6) {
            return Err(Never::Kind);
        }
        if frame.fragment() != Fragment::Whole || !matches!(frame.proto(), TCP | UDP) {
            return Err(Never::Kind);
        }
        if !Segment::is_plain(frame.tcp_flags()) {
            return Err(Never::Flags);
        }
        if frame.is_to_group() {
            return Err(Never::Destination);
        }
        if frame.ttl() <= 1 || frame.has_options4() {
            return Err(Never::Header);
        }
        Ok(Key::of_any(frame))
    }

    /// The key of a packet that may have to pass the stages.
    pub(crate) fn of_any(frame: &Frame<'_>) -> Key {
        let is_v4 = frame.kind() == Kind::V4;
        let ends = if is_v4 {
            let (src, dst) = frame.addresses4();
            Ends::V4 { src, dst }
        } else {
            let (src, dst) = frame.addresses6();
            Ends::V6 { src, dst }
        };
        Key {
            port: frame.port,
            ends,
            ports: frame.ports(),
            proto: frame.proto(),
            flags: frame.tcp_flags(),
            keeps_whole: !is_v4 || frame.keeps_whole(),
            stays_inside: frame.passage == Passage::Inside,
        }
    }

    /// The flow of its frames.
    pub(crate) fn flow(&self) -> Flow {
        let (sport, dport) = self.ports;
        match self.ends {
            Ends::V4 { src, dst } => Flow::v4((src, sport).into(), (dst, dport).into(), self.proto),
            Ends::V6 { src, dst } => Flow::v6((src, sport).into(), (dst, dport).into(), self.proto),
        }
    }

    /// The key behind a stage that rewrites the frame.
    pub(crate) fn behind(self, rewrite: Rewrite) -> Key {
        match (rewrite, self.ends) {
            (Rewrite::Source(src, port), Ends::V4 { dst, .. }) => {
                Key { ends: Ends::V4 { src, dst }, ports: (port, self.ports.1), ..self }
            }
            (Rewrite::Destination(dst, port), Ends::V4 { src, .. }) => {
                Key { ends: Ends::V4 { src, dst }, ports: (self.ports.0, port), ..self }
            }
            _ => self,
        }
    }
}

impl Recipe {
    /// Whether a frame with its key is short enough.
    pub(crate) fn fits(&self, frame: &Frame<'_>) -> bool {
        self.out.routed.is_none_or(|(_, _, most)| frame.ip().len() <= usize::from(most))
    }
}

impl Rewrite {
    /// Changes a frame, and its checksums with it.
    pub(crate) fn apply(self, frame: &mut Frame<'_>) {
        match self {
            Rewrite::Nothing => {}
            Rewrite::Source(address, port) => frame.set_source4(address, port),
            Rewrite::Destination(address, port) => frame.set_destination4(address, port),
        }
    }
}

impl Uses {
    /// One more frame, whose packet has so many bytes.
    pub(crate) fn add(&mut self, bytes: usize, now: Tick) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.last = now;
    }
}
