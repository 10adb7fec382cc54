//! A control program attaches to a node that runs: each thread gets a ring of punts and one of injections, whose other ends the
//! caller sends to the program ([`weir_linux::descriptors`]).
//!
//! ```text
//!   program > socket > caller > attach_control > rings of each thread, installed between two batches
//!             caller > SCM_RIGHTS > program: Consumer::<Punts>::attach, Producer::<Injections>::attach
//! ```
//! Invariant: one program at a time. A new one replaces the one before, whose rings are closed; each has new rings, so that
//! nothing of one is left for the next.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_plane::PuntReason;
use weir_punt::{Consumer, Descriptors, Geometry, Injections, Producer, PuntError, Punts};

use super::{Node, NodeError, answers};
use crate::worker::{AttachmentId, ControlEnd, ControlState, PuntRing};

/// Slots of each ring that are enough for most: as many frames wait for a program that is slow.
pub const CONTROL_SLOTS: u32 = 1024;
/// Ethernet header without tags.
const ETHERNET: usize = 14;
/// A slot has its head, and room for a third tag, which stays in the frame.
const SLOT_HEAD: usize = 24 + 4;
const SLOT_UNIT: usize = 64;

/// What a control program needs, but for the descriptors' way to it.
#[derive(Debug)]
pub struct Attachment {
    /// Its name, for [`Node::detach_control`].
    pub id: AttachmentId,
    /// The rings of each thread. A punt comes by the ring of the thread that received it; an injection may take any.
    pub threads: Vec<Rings>,
    /// Size of each ring.
    pub geometry: Geometry,
    /// Names of the ports; their places are the numbers of ports in records. Empty: no port has the number.
    pub ports: Vec<String>,
    /// Reasons to punt, with their numbers ([`PuntReason::number`]) and names.
    pub reasons: [PuntReason; PuntReason::ALL.len()],
}

/// The program's ends of the rings of a thread. Close them once they are sent, or the node does not notice that the program has
/// ended.
#[derive(Debug)]
pub struct Rings {
    /// From the node: `Consumer::<Punts>::attach`.
    pub punts: Descriptors,
    /// To the node: `Producer::<Injections>::attach`.
    pub injections: Descriptors,
}

/// The next attachment.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Node {
    /// Attaches a control program in place of the one before, if there is one. Each ring has so many slots ([`CONTROL_SLOTS`]), a
    /// power of two; punts for one reason have at most as many as are free.
    ///
    /// # Errors
    /// [`NodeError::Control`]: there is no memory or no descriptor left, or another number of slots. It has ended.
    pub fn attach_control(&self, slots: u32) -> Result<Attachment, NodeError> {
        // Two that attach at a time come one after the other at all threads.
        let running = self.running.lock().expect("no thread panics with it");
        let ports = &running.config.ports;
        let of =
            |port: &weir_plane::Port| if port.is_present() { ETHERNET + usize::from(port.mtu) } else { 0 };
        let longest: Vec<usize> = ports.iter().map(of).collect();
        let geometry = geometry(slots, &longest).map_err(NodeError::Control)?;
        let id = AttachmentId(NEXT.fetch_add(1, Ordering::Relaxed));
        let mut attachment = Attachment {
            id,
            threads: Vec::new(),
            geometry,
            ports: ports.iter().map(|port| port.name.clone()).collect(),
            reasons: PuntReason::ALL,
        };
        let mut ends = Vec::new();
        for _ in &self.threads {
            let (end, rings) = rings(id, geometry, &longest).map_err(NodeError::Control)?;
            ends.push(Box::new(end));
            attachment.threads.push(rings);
        }
        let attach = self.threads.iter().zip(ends);
        let attach = attach.map(|(thread, end)| thread.ask(move |worker| worker.attach_control(end)));
        // The ends of the program before are closed here, not by the threads.
        answers(attach.collect())?;
        Ok(attachment)
    }

    /// Detaches this control program, if no other one has replaced it: its rings are closed, and frames for it are dropped.
    ///
    /// # Errors
    /// It has ended.
    pub fn detach_control(&self, id: AttachmentId) -> Result<(), NodeError> {
        self.ask(move |worker| worker.detach_control(id)).map(drop)
    }

    /// How it is with the control program, by thread.
    ///
    /// # Errors
    /// It has ended.
    pub fn control_states(&self) -> Result<Vec<ControlState>, NodeError> {
        self.ask(|worker| worker.control_state())
    }
}

/// Slots in which the longest frame of any port has room.
fn geometry(slots: u32, longest: &[usize]) -> Result<Geometry, PuntError> {
    let longest = longest.iter().copied().max().unwrap_or(ETHERNET);
    let slot = (SLOT_HEAD + longest).next_multiple_of(SLOT_UNIT);
    Geometry::new(slots, slot.max(2 * SLOT_UNIT) as u32)
}

/// The rings of a thread: the node's ends, and the program's.
fn rings(id: AttachmentId, geometry: Geometry, longest: &[usize]) -> Result<(ControlEnd, Rings), PuntError> {
    let (own_punts, punts) = Producer::<Punts>::create(geometry)?;
    let (own_injections, injections) = Consumer::<Injections>::create(geometry)?;
    let end = ControlEnd {
        id,
        punts: PuntRing::new(own_punts),
        injections: own_injections,
        longest: longest.to_vec(),
        frame: Vec::new(),
        is_closed: false,
        is_draining: false,
    };
    Ok((end, Rings { punts, injections }))
}
