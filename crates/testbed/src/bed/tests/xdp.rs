//! The smallest XDP generator: the same frame again and again, redirected to one interface by
//! BPF_PROG_TEST_RUN in live-frames mode. Source: Documentation/bpf/bpf_prog_run.rst, linux/bpf.h.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use weir_linux::sys;

const PROG_LOAD: i64 = 5;
const PROG_TEST_RUN: i64 = 10;
const PROG_TYPE_XDP: u32 = 6;
const LIVE_FRAMES: u32 = 2;
/// Bytes that the DUT changes in recycled frames and that the program writes anew: Ethernet and IPv4.
const REWRITTEN: usize = 40;

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log: [u32; 2],
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    result: u32,
    input_bytes: u32,
    output_bytes: u32,
    input: u64,
    output: u64,
    repeat: u32,
    duration: u32,
    context: [u32; 2],
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

/// Sends `count` copies of `frame` into interface `ifindex` of the calling thread's namespace. None when
/// the kernel or the rights do not allow it.
pub(super) fn send_live(ifindex: u32, frame: &[u8], count: u32) -> Option<io::Result<()>> {
    let program = load(&program(ifindex, frame)).ok()?;
    let mut run = TestRun {
        program: program.as_raw_fd() as u32,
        input_bytes: frame.len() as u32,
        input: frame.as_ptr() as u64,
        repeat: count,
        flags: LIVE_FRAMES,
        batch: 64,
        ..TestRun::default()
    };
    Some(bpf(PROG_TEST_RUN, &mut run).map(drop))
}

/// Instructions: check the length, write the first bytes, redirect.
fn program(ifindex: u32, frame: &[u8]) -> Vec<u64> {
    // struct bpf_insn: code, registers (source << 4 | destination), offset, immediate.
    let op = |code: u8, dst: u8, src: u8, off: i16, imm: u32| {
        u64::from(code) | u64::from(src << 4 | dst) << 8 | u64::from(off as u16) << 16 | u64::from(imm) << 32
    };
    let mut code = vec![
        op(0x61, 2, 1, 0, 0),                // r2 = ctx.data
        op(0x61, 3, 1, 4, 0),                // r3 = ctx.data_end
        op(0xbf, 4, 2, 0, 0),                // r4 = r2
        op(0x07, 4, 0, 0, REWRITTEN as u32), // r4 += bytes to write
        op(0x3d, 3, 4, 2, 0),                // if r3 >= r4 skip 2
        op(0xb7, 0, 0, 0, 1),                // r0 = XDP_DROP
        op(0x95, 0, 0, 0, 0),                // exit
    ];
    for (n, word) in frame[..REWRITTEN].chunks_exact(8).enumerate() {
        let word = u64::from_ne_bytes(word.try_into().expect("8 bytes"));
        code.push(op(0x18, 5, 0, 0, word as u32)); // r5 = word, in two slots
        code.push(op(0, 0, 0, 0, (word >> 32) as u32));
        code.push(op(0x7b, 2, 5, 8 * n as i16, 0)); // *(u64 *)(r2 + 8n) = r5
    }
    code.extend([
        op(0xb7, 1, 0, 0, ifindex), // r1 = ifindex
        op(0xb7, 2, 0, 0, 0),       // r2 = flags
        op(0x85, 0, 0, 0, 23),      // call bpf_redirect
        op(0x95, 0, 0, 0, 0),       // exit
    ]);
    code
}

fn load(code: &[u64]) -> io::Result<OwnedFd> {
    let mut load = ProgLoad {
        kind: PROG_TYPE_XDP,
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..ProgLoad::default()
    };
    let fd = bpf(PROG_LOAD, &mut load)?;
    // SAFETY: the kernel just created this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf<T>(command: i64, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: `attributes` is a prefix of union bpf_attr of the command, with its size; the memory that it
    // points to is borrowed by the callers for the time of the call.
    sys::check(unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) as i32
    })
}
