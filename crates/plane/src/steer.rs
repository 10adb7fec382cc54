//! Several planes as one node: which of them a frame belongs to, so that whoever remembers something of a packet sees
//! the others that it concerns.
//!
//! | what the node remembers | a frame belongs to the thread of |
//! |---|---|
//! | nothing: routes, rules without state | whoever received it; pieces of a packet to that of both addresses |
//! | connections | both addresses, the same for either direction |
//!
//! An error of ICMP goes where the packet went that it quotes. Each plane asks its own neighbours, and hears what the
//! others hear of them.
//!
//! Invariant: the answer depends on the frame and the node's text alone, so that all planes give the same.

use weir_packet::steer::{mix4, mix6, pick};

use crate::chain::Stage;
use crate::frame::{Fragment, Frame, Kind, PortId};
use crate::stage::Dir;

/// Most threads of a node.
pub const MOST_THREADS: u8 = 64;

/// Which of a node's threads a plane is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its number, from 0.
    pub thread: u8,
    /// How many there are, at most [`MOST_THREADS`].
    pub of: u8,
}

impl Default for Share {
    /// The only one.
    fn default() -> Share {
        Share { thread: 0, of: 1 }
    }
}

/// A frame that another thread goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Who that is.
    pub to: u8,
    /// How it comes there.
    pub way: Way,
}

/// How a frame comes to a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By a port.
    Wire,
    /// By another thread, which found that it belongs here.
    Found,
}

/// What a plane has heard of neighbours, and the others of its node are to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The port that it came in by.
    pub port: PortId,
    /// The frame, without tags.
    pub frame: Vec<u8>,
}

/// Which frames must meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    /// None: nothing is remembered from one to the next.
    Nothing,
    /// The pieces of a packet.
    Pieces,
    /// All between the same two addresses.
    Ends,
}

/// Who of several planes goes on with a frame.
#[derive(Debug)]
pub(crate) struct Steering {
    pub(crate) share: Share,
    together: Together,
}

impl Steering {
    /// That of a node with these stages.
    pub(crate) fn new(share: Share, stages: &[Stage]) -> Steering {
        let of = |stage: &Stage| match stage {
            Stage::Filter(filter) if filter.is_stateful() => Together::Ends,
            Stage::Filter(_) => Together::Pieces,
            Stage::Nat(_) => Together::Ends,
        };
        let together = stages.iter().map(of).max_by_key(|together| *together as u8);
        Steering { share, together: together.unwrap_or(Together::Nothing) }
    }

    /// The thread that goes on with a frame which came in on its way in `dir`; `None`: this one.
    #[inline]
    pub(crate) fn elsewhere(&self, frame: &Frame<'_>, _dir: Dir) -> Option<Handover> {
        if self.share.of == 1 {
            return None;
        }
        let owner = match self.together {
            Together::Nothing => return None,
            Together::Pieces if frame.fragment() == Fragment::Whole => return None,
            Together::Pieces | Together::Ends => pick(ends(frame), self.share.of),
        };
        (owner != self.share.thread).then_some(Handover { to: owner, way: Way::Found })
    }
}

/// The addresses between which the packet went, or the one that an error quotes, mixed.
fn ends(frame: &Frame<'_>) -> u32 {
    let quoted = frame.icmp_error() && frame.fragment() == Fragment::Whole;
    match frame.kind() {
        Kind::V4 => {
            let (src, dst) = quoted.then(|| quoted4(frame)).flatten().unwrap_or(frame.addresses4());
            mix4(src).wrapping_add(mix4(dst))
        }
        _ => {
            let (src, dst) = quoted.then(|| quoted6(frame)).flatten().unwrap_or(frame.addresses6());
            mix6(src).wrapping_add(mix6(dst))
        }
    }
}

/// Bytes of an error of ICMP in front of what it quotes.
const ERROR: usize = 8;

fn quoted4(frame: &Frame<'_>) -> Option<(u32, u32)> {
    let ip = frame.l4().get(ERROR..)?;
    let address = |at: usize| Some(u32::from_be_bytes(*ip.get(at..)?.first_chunk()?));
    Some((address(12)?, address(16)?))
}

fn quoted6(frame: &Frame<'_>) -> Option<(u128, u128)> {
    let ip = frame.l4().get(ERROR..)?;
    let address = |at: usize| Some(u128::from_be_bytes(*ip.get(at..)?.first_chunk()?));
    Some((address(8)?, address(24)?))
}
