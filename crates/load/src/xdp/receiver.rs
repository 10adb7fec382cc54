//! Counts test frames where they arrive, in an XDP program.

use weir_packet::frame::Transport;
use weir_port::bpf::{BpfError, Link, Memory, Program, object};
use weir_port::field;
use weir_port::shared::{self, EMPTY_GROUP, Group, LATENCY_BUCKETS, Losses, MARKS, Passed, Recv, Window};

use super::Interface;
use super::checker::Checker;
use crate::counts::{Arrivals, Arrived, Expected, GroupCounts, LostFrames, Mark, PortCounts, Watch};
use crate::ipdv::Ipdv;
use crate::loss;

/// No pair of frames.
const NO_IPDV: shared::Ipdv =
    shared::Ipdv { count: 0, min_ns: 0, max_ns: 0, below: [0; LATENCY_BUCKETS], above: [0; LATENCY_BUCKETS] };
/// No number seen.
const NO_WINDOW: Window =
    Window { next: 0, newest: Passed { sent_ns: 0, arrived_ns: 0 }, word: [[0; 2]; 1024] };
/// Nothing arrived in a slot.
const NO_MARK: shared::Mark = shared::Mark { at_ns: 0, frames: 0 };

/// A receiving program on one interface; detached when dropped.
pub struct XdpReceiver {
    program: Program,
    memory: Memory<Recv>,
    losses: Memory<Losses>,
    ipdvs: Memory<shared::Ipdv>,
    marks: Memory<shared::Mark>,
    groups: u16,
    pass: bool,
    checker: Option<Checker>,
    link: Option<Link>,
}

impl XdpReceiver {
    /// Loads the program, and attaches it unless the interface has index 0. Nothing is counted sensibly before
    /// [`XdpReceiver::arm`].
    pub fn new(port: Interface, groups: u16) -> Result<Self, BpfError> {
        let program = Program::load("receiver", object::RECEIVER, &sizes(groups))?;
        XdpReceiver::of(program, port, groups)
    }

    /// The same behind a NAT, with room for so many flows; of TCP, one end of their connections.
    pub(super) fn checking(
        port: Interface,
        groups: u16,
        (flows, transport): (u32, Transport),
    ) -> Result<Self, BpfError> {
        let sizes: Vec<_> = sizes(groups).into_iter().chain(Checker::sizes(flows)).collect();
        let program = match transport {
            Transport::Udp => Program::load("receiver behind a NAT", object::NAT_RECEIVER, &sizes)?,
            Transport::Syn => Program::load("end of TCP connections", object::TCP, &sizes)?,
        };
        let checker = Checker::new(&program, flows, transport)?;
        Ok(XdpReceiver { checker: Some(checker), ..XdpReceiver::of(program, port, groups)? })
    }

    fn of(program: Program, port: Interface, groups: u16) -> Result<Self, BpfError> {
        let memory = program.memory("bss", 1)?;
        let losses = program.memory("losses", usize::from(groups))?;
        let ipdvs = program.memory("ipdvs", usize::from(groups))?;
        let marks = program.memory("marks", MARKS)?;
        let link = (port.ifindex != 0).then(|| program.attach(port.ifindex, port.mode)).transpose()?;
        let (pass, checker) = (port.pass, None);
        Ok(XdpReceiver { program, memory, losses, ipdvs, marks, groups, pass, checker, link })
    }

    /// Lets another program be attached.
    pub(super) fn detach(&mut self) {
        self.link = None;
    }

    /// What checks frames here; `None` unless there is a NAT.
    pub(super) fn checker(&self) -> Option<&Checker> {
        self.checker.as_ref()
    }

    /// Forgets all that was counted, and counts what is expected from now on. `reflects` sends it back.
    pub fn arm(&self, expected: Expected, reflects: bool, watch: Watch) -> Result<(), BpfError> {
        for group in 0..u32::from(self.groups) {
            self.program.write_per_cpu("groups", group, &EMPTY_GROUP)?;
            self.program.write("windows", group, &NO_WINDOW)?;
            let group = group as usize;
            self.losses.set_field(group, 0, field!(Losses, gaps));
            self.losses.set_field(group, 0, field!(Losses, events));
            self.losses.set_field(group, 0, field!(Losses, runs));
            self.losses.set_field(group, 0, field!(Losses, run_max));
            if watch.ipdv {
                self.ipdvs.set(group, &NO_IPDV);
            }
        }
        if let Some(checker) = &self.checker {
            checker.arm(watch.tcp);
        }
        let mut state = self.memory.get(0);
        (state.any, state.origin) = match expected {
            Expected::Any => (1, 0),
            Expected::Only { epoch, stream } => (0, u16::from_le_bytes([stream.unwrap_or(0), epoch]).to_le()),
        };
        (state.pass, state.reflect) =
            (u32::from(self.pass || expected == Expected::Any), u32::from(reflects));
        (state.received, state.corrupted, state.stale) = (0, 0, 0);
        (state.misdelivered, state.other, state.reflected) = (0, 0, 0);
        state.broadcasts = 0;
        (state.merge_ns, state.timed_from_ns) = (watch.merge_ns, watch.timed_from_ns);
        state.ipdv = u8::from(watch.ipdv);
        // From when on is not known before sending begins.
        (state.mark_from_ns, state.mark_next) = (u64::MAX, 0);
        state.mark_shift = watch.mark_shift.unwrap_or(0);
        if watch.mark_shift.is_some() {
            (0..MARKS).for_each(|slot| self.marks.set(slot, &NO_MARK));
        }
        self.memory.set(0, &state);
        Ok(())
    }

    /// From when on frames are timed, CLOCK_MONOTONIC ns of their departure.
    pub(super) fn time_from(&self, ns: u64) {
        self.memory.set_field(0, ns, field!(Recv, timed_from_ns));
    }

    /// Notes what arrives from then on, CLOCK_MONOTONIC ns, if it was armed so.
    pub(super) fn mark_from(&self, ns: u64) {
        if self.memory.field(0, field!(Recv, mark_shift)) > 0 {
            self.memory.set_field(0, ns, field!(Recv, mark_from_ns));
        }
    }

    /// When frames arrived since `start_ns`, CLOCK_MONOTONIC.
    pub(super) fn marks(&self, start_ns: u64) -> Vec<Mark> {
        let slots = self.memory.field(0, field!(Recv, mark_next)) as usize;
        let noted = (0..slots.min(MARKS)).map(|slot| self.marks.get(slot)).filter(|mark| mark.at_ns > 0);
        noted.map(|m| Mark { at_ns: m.at_ns.saturating_sub(start_ns), frames: m.frames }).collect()
    }

    /// Differences between latencies of a group.
    pub(super) fn ipdv(&self, group: usize) -> Ipdv {
        Ipdv::of(&self.ipdvs.get(group))
    }

    /// Test frames so far, each once.
    pub fn received(&self) -> u64 {
        self.memory.field(0, field!(Recv, received))
    }

    /// All that was counted so far, groups without a frame left out.
    pub fn arrivals(&self) -> Result<Arrivals, BpfError> {
        let mut arrivals =
            Arrivals { frames: self.received(), port: self.port_counts(), ..Arrivals::default() };
        for group in 0..self.groups {
            let counts = self.group(u32::from(group), 0)?;
            if counts.received + counts.duplicated > 0 {
                let next: Window = self.program.read("windows", u32::from(group))?;
                arrivals.groups.push(Arrived { group, counts, next: next.next });
            }
        }
        Ok(arrivals)
    }

    /// What arrived of a group of which `sent` frames were sent.
    pub(super) fn group(&self, group: u32, sent: u64) -> Result<GroupCounts, BpfError> {
        let mut counts = GroupCounts { sent, ..GroupCounts::empty() };
        for cpu in self.program.read_per_cpu::<Group>("groups", group)? {
            add_cpu(&mut counts, &cpu);
        }
        Ok(counts)
    }

    /// When frames of a group were lost.
    pub(super) fn lost(&self, group: usize, sender: &loss::Sender) -> Result<LostFrames, BpfError> {
        let window: Window = self.program.read("windows", group as u32)?;
        let merge_ns = self.memory.field(0, field!(Recv, merge_ns));
        Ok(loss::dated(&self.losses.get(group), window.next, window.newest, merge_ns, sender))
    }

    pub(super) fn port_counts(&self) -> PortCounts {
        let state = self.memory.get(0);
        PortCounts {
            corrupted: state.corrupted,
            stale: state.stale,
            misdelivered: state.misdelivered,
            other: state.other,
            reflected: state.reflected,
            broadcasts: state.broadcasts,
        }
    }
}

/// Sizes of the program's maps.
fn sizes(groups: u16) -> [(&'static str, u32); 4] {
    ["groups", "windows", "losses", "ipdvs"].map(|map| (map, u32::from(groups)))
}

fn add_cpu(counts: &mut GroupCounts, cpu: &Group) {
    let seen_before = counts.latency_min_ns != 0;
    counts.received += cpu.received - cpu.duplicated;
    counts.duplicated += cpu.duplicated;
    counts.reordered += cpu.reordered;
    counts.extent_max = counts.extent_max.max(cpu.extent_max);
    counts.latency.add(&cpu.latency[..LATENCY_BUCKETS]);
    counts.latency_sum_ns += cpu.latency_sum_ns;
    counts.latency_max_ns = counts.latency_max_ns.max(cpu.latency_max_ns);
    if cpu.latency_min_ns != 0 && (!seen_before || cpu.latency_min_ns < counts.latency_min_ns) {
        counts.latency_min_ns = cpu.latency_min_ns;
    }
}
