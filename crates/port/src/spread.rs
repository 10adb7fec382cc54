//! Frames of a packet fan-out go to the thread that they belong to at once, as far as that follows from their addresses:
//! the functions of [`weir_packet::steer`] as a program of classic BPF.
//!
//! ```text
//!  type of frame > words of an address > mixed > (sum of both) > picked > socket
//! ```
//! Sources: Documentation/networking/filter.rst, linux/filter.h.

use libc::sock_filter;
use weir_packet::steer::{PICK, SPREAD, Spread};

use crate::capture::tap::instruction;

/// Where filters find the IP header, and what the kernel knows of a frame.
const NETWORK: i32 = -0x10_0000;
const PROTOCOL: i32 = -0x1000;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;

/// A program that returns the number of one of `sockets`; `None` if flows are to be spread as the kernel does.
pub(crate) fn program(spread: Spread, sockets: u8) -> Option<Vec<sock_filter>> {
    if spread == Spread::Flows {
        return None;
    }
    let of = |source: i32, destination: i32, words: i32| {
        let mut program = mixed(NETWORK + source, words);
        if spread == Spread::Ends {
            program.push(instruction(libc::BPF_ST, 0));
            program.extend(mixed(NETWORK + destination, words));
            program.push(instruction(libc::BPF_LDX | libc::BPF_MEM, 0));
            program.push(instruction(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0));
        }
        program.extend([
            constant(libc::BPF_MUL, PICK),
            constant(libc::BPF_RSH, 16),
            constant(libc::BPF_MUL, sockets.into()),
            constant(libc::BPF_RSH, 16),
            instruction(libc::BPF_RET | libc::BPF_A, 0),
        ]);
        program
    };
    let (v4, v6) = (of(12, 16, 1), of(8, 24, 4));
    let mut program = vec![
        instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, PROTOCOL as u32),
        unless(IPV4, v4.len()),
    ];
    program.extend(v4);
    program.push(unless(IPV6, v6.len()));
    program.extend(v6);
    // What is neither comes to the first, which tells the others what concerns them.
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0));
    Some(program)
}

fn constant(operation: u32, value: u32) -> sock_filter {
    instruction(libc::BPF_ALU | operation | libc::BPF_K, value)
}

/// Passes over so many instructions where the accumulator is not `value`.
fn unless(value: u32, instructions: usize) -> sock_filter {
    let jump = u8::try_from(instructions).expect("a short program");
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt: 0, jf: jump, k: value }
}

/// Leaves the mix of an address of so many words in the accumulator.
fn mixed(at: i32, words: i32) -> Vec<sock_filter> {
    let word = |n: i32| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (at + 4 * n) as u32);
    let to_x = instruction(libc::BPF_MISC | libc::BPF_TAX, 0);
    let xor_x = instruction(libc::BPF_ALU | libc::BPF_XOR | libc::BPF_X, 0);
    let mut program = vec![word(0)];
    for n in 1..words {
        program.extend([constant(libc::BPF_MUL, SPREAD), to_x, word(n), xor_x]);
    }
    program.extend([constant(libc::BPF_MUL, SPREAD), to_x, constant(libc::BPF_RSH, 15), xor_x]);
    program
}

#[cfg(test)]
mod tests {
    use weir_packet::steer::{mix4, mix6, pick};

    use super::*;

    /// Runs a program on a frame without VLAN tags, as the kernel does.
    fn run(program: &[sock_filter], frame: &[u8]) -> u32 {
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, [0_u32; 16], 0);
        loop {
            let sock_filter { code, jf, k, .. } = program[at];
            at += 1;
            let code = u32::from(code);
            let word = |at: usize| u32::from_be_bytes(*frame[at..].first_chunk().expect("four bytes"));
            if code == libc::BPF_LD | libc::BPF_H | libc::BPF_ABS && k as i32 == PROTOCOL {
                a = word(12) >> 16;
            } else if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                a = word((14 + (k as i32 - NETWORK)) as usize);
            } else if code == libc::BPF_MISC | libc::BPF_TAX {
                x = a;
            } else if code == libc::BPF_ST {
                memory[k as usize] = a;
            } else if code == libc::BPF_LDX | libc::BPF_MEM {
                x = memory[k as usize];
            } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
                at += if a == k { 0 } else { usize::from(jf) };
            } else if code == libc::BPF_RET | libc::BPF_A {
                return a;
            } else if code == libc::BPF_RET | libc::BPF_K {
                return k;
            } else {
                let operand = if code & libc::BPF_X == 0 { k } else { x };
                a = match code & !(libc::BPF_ALU | libc::BPF_X) {
                    libc::BPF_MUL => a.wrapping_mul(operand),
                    libc::BPF_ADD => a.wrapping_add(operand),
                    libc::BPF_RSH => a >> operand,
                    libc::BPF_XOR => a ^ operand,
                    other => panic!("no operation {other:x}"),
                };
            }
        }
    }

    #[test]
    fn programs_compute_what_the_node_does() {
        assert!(program(Spread::Flows, 4).is_none());
        for n in 0..200_u32 {
            let mut v4 = vec![0; 60];
            v4[12..14].copy_from_slice(&[0x08, 0x00]);
            let (src, dst) = (0xc612_0000 + n, 0xc613_ff00 - 7 * n);
            v4[26..30].copy_from_slice(&src.to_be_bytes());
            v4[30..34].copy_from_slice(&dst.to_be_bytes());
            let mut v6 = vec![0; 60];
            v6[12..14].copy_from_slice(&[0x86, 0xdd]);
            let (src6, dst6) = (u128::from(n) << 77 | 0xabc, u128::from(n) * 0x1234_5678_9abc_def1);
            v6[22..38].copy_from_slice(&src6.to_be_bytes());
            v6[38..54].copy_from_slice(&dst6.to_be_bytes());
            for of in [2, 3, 64] {
                let [sources, ends] =
                    [Spread::Sources, Spread::Ends].map(|spread| program(spread, of).expect("a program"));
                let both = (run(&sources, &v4), run(&ends, &v4));
                let expected = (pick(mix4(src), of), pick(mix4(src).wrapping_add(mix4(dst)), of));
                assert_eq!(both, (expected.0.into(), expected.1.into()), "{n} of {of}");
                let both = (run(&sources, &v6), run(&ends, &v6));
                let expected = (pick(mix6(src6), of), pick(mix6(src6).wrapping_add(mix6(dst6)), of));
                assert_eq!(both, (expected.0.into(), expected.1.into()), "{n} of {of}");
                assert_eq!(run(&ends, &[0; 60]), 0);
            }
        }
    }
}
