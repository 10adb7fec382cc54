//! What a frame costs on the fast path, in memory: no interface, and no trip through the kernel's redirect.

use std::io;

use weir_packet::checksum::write_ipv4;

use super::{
    Entry, Fast, Gate, IS_ENDLESS, IS_REWRITTEN, IS_ROUTED, KIND_V4_WHOLE, Key, ROOM, SHARED, Sides,
};
use crate::bpf::{BpfError, Program, object};
use crate::shared::shared;

/// The first bytes of a frame of a flow.
type Sample = [u64; 8];

shared! {
    /// What the program knows beside its maps.
    #[derive(Debug, Clone, Copy)]
    struct State {
        seed: u64,
        flows: u32,
        /// 1: frames are passed on, too, once they are written.
        passes: u32,
    }
}

/// Nanoseconds of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// It was written and passed on.
    pub passed_ns: u32,
    /// It was only written.
    pub written_ns: u32,
}

const REMOTE: u32 = 0xc613_0009;
const PUBLIC: u32 = 0xc000_0201;

/// Passes on `frames` frames of UDP of so many flows in random order, through a NAT and a router, in each of so many rounds.
///
/// # Errors
/// The kernel refuses the program, or not all frames were passed on.
pub fn nat(flows: u32, frames: u32, rounds: usize) -> Result<Vec<Cost>, BpfError> {
    let fast = Fast::new(flows.max(ROOM))?;
    let mut taken = vec![false; fast.room() as usize];
    fast.set_on(true);
    let program = Program::load_sharing(
        "cost of the fast path",
        object::FAST_BENCH,
        &[("samples", flows), ("sockets", 1)],
        &fast.program,
        &SHARED,
    )?;
    let gate = Gate { is_router: 1, mac: [2, 0, 0, 0, 0, 1], ..Gate::default() };
    program.memory::<Gate>("bss", 1)?.set(0, &gate);
    // The loopback of any namespace: no frame leaves.
    program.write("outs", 1, &1_u32)?;
    for flow in 0..flows {
        let (inside, port) = (0x0a00_0000 + flow / 63, 5000 + (flow % 63) as u16);
        let key = key(inside, port);
        let place = fast.place(&key) as usize;
        let number = (place..taken.len()).chain(0..place).find(|n| !taken[*n]).unwrap_or(place);
        taken[number] = true;
        if !fast.insert(&key, number as u32, &entry(flow), &Sides::default(), None) {
            let source = io::Error::other("it has no room for another flow");
            return Err(BpfError::Map { name: "buckets", source });
        }
        program.write("samples", flow, &sample(inside, port))?;
    }
    let run = |passes: bool| {
        program.write("data.bench", 0, &State { seed: 7, flows, passes: passes.into() })?;
        program.run_many(&[0; 64], frames)
    };
    let mut all = Vec::new();
    // The first one warms up.
    for round in 0..=rounds {
        let before: u64 = fast.counts().sent.iter().sum();
        let cost = Cost { passed_ns: run(true)?, written_ns: run(false)? };
        let passed = fast.counts().sent.iter().sum::<u64>() - before;
        if passed != u64::from(frames) {
            return Err(BpfError::Run(io::Error::other(format!(
                "{passed} of {frames} frames were passed on"
            ))));
        }
        if round > 0 {
            all.push(cost);
        }
    }
    Ok(all)
}

fn key(inside: u32, port: u16) -> Key {
    Key {
        src: inside.to_be(),
        dst: REMOTE.to_be(),
        sport: port.to_be(),
        dport: 80_u16.to_be(),
        protocol: 17,
        kind: KIND_V4_WHOLE,
        ..Key::default()
    }
}

fn entry(flow: u32) -> Entry {
    Entry {
        src: (PUBLIC + flow / 50_000).to_be(),
        dst: REMOTE.to_be(),
        sport: (1024 + (flow % 50_000) as u16).to_be(),
        dport: 80_u16.to_be(),
        most: 1500,
        out: 1,
        flags: IS_ROUTED | IS_REWRITTEN | IS_ENDLESS,
        ..Entry::default()
    }
}

fn sample(inside: u32, port: u16) -> Sample {
    let mut ip = [0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[12..16].copy_from_slice(&inside.to_be_bytes());
    ip[16..20].copy_from_slice(&REMOTE.to_be_bytes());
    write_ipv4(&mut ip);
    let mut frame = [0; 64];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..34].copy_from_slice(&ip);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..42].copy_from_slice(&[0, 80, 0, 26, 0xab, 0xcd]);
    let (words, _) = frame.as_chunks();
    let mut sample = Sample::default();
    sample.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
    sample
}
