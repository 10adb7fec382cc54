//! Where the time goes: what every CPU does, looked at some thousand times a second by the kernel's own clock
//! (perf_event_open(2), PERF_COUNT_SW_CPU_CLOCK), which works where no hardware counts cycles.
//!
//! ```text
//!  CPU 0: timer > sample: thread, kernel stack > | ring | > Sampler::take
//! ```
//! A timer cannot fire while interrupts are off: time spent so shows at the place where they come on again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapping::Mapping;
use event::{Attributes, Of};

pub mod event;
pub mod idle;
pub mod ticks;

const PAGE_BYTES: usize = 4096;
/// Bytes of a CPU's ring of samples: seconds at some thousand a second.
const RING_BYTES: usize = 4 << 20;
/// struct perf_event_mmap_page: where the kernel and we say how far we are.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

// linux/perf_event.h
const TYPE_SOFTWARE: u32 = 1;
const SW_CPU_CLOCK: u64 = 0;
/// PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_CALLCHAIN.
const SAMPLE_OF: u64 = 1 | 1 << 1 | 1 << 5;
/// disabled, freq, exclude_callchain_user.
const FLAGS: u64 = 1 | 1 << 10 | 1 << 22;
const ENABLE: libc::Ioctl = 0x2400;
const DISABLE: libc::Ioctl = 0x2401;
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
/// Addresses from here on say what the next ones are.
const CONTEXTS: u64 = -4095i64 as u64;
const MODE_MASK: u16 = 7;
const MODE_USER: u16 = 2;

/// What a CPU did at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Number of the thread; 0 when idle.
    pub thread: u32,
    /// Where it was in its own code; `None` in the kernel's.
    pub user: Option<u64>,
    /// Addresses of the kernel's functions, the innermost first; none in user code.
    pub stack: Vec<u64>,
}

/// Samples all CPUs while it lives.
pub struct Sampler {
    cpus: Vec<Cpu>,
}

struct Cpu {
    event: OwnedFd,
    ring: Mapping,
    /// Bytes of the ring behind its first page, a power of two.
    room: usize,
}

impl Sampler {
    /// Starts on these CPUs, `hz` times a second each.
    ///
    /// # Errors
    /// Without CAP_PERFMON, or where the kernel has no performance events.
    pub fn start(cpus: &[usize], hz: u64) -> io::Result<Sampler> {
        let open = |&cpu: &usize| {
            let sampling =
                Attributes { frequency: hz, sample_of: SAMPLE_OF, flags: FLAGS, ..Attributes::default() };
            Cpu::open(cpu, sampling, RING_BYTES)
        };
        let cpus = cpus.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        cpus.iter().try_for_each(|cpu| cpu.switch(ENABLE))?;
        Ok(Sampler { cpus })
    }

    /// Ends, and hands on all samples; returns how many were lost because a ring was full.
    pub fn take(self, mut each: impl FnMut(&Sample)) -> io::Result<u64> {
        self.cpus.iter().try_for_each(|cpu| cpu.switch(DISABLE))?;
        Ok(self.cpus.iter().map(|cpu| read_records(&cpu.written(), &mut each)).sum())
    }
}

impl Cpu {
    /// `attributes` say when to sample, and what of; `room` for samples is a power of two of pages, in bytes.
    fn open(cpu: usize, attributes: Attributes, room: usize) -> io::Result<Cpu> {
        let attributes = Attributes { kind: TYPE_SOFTWARE, config: SW_CPU_CLOCK, ..attributes };
        let event = event::open(attributes, Of::Cpu(cpu))?;
        let ring = Mapping::shared(event.as_fd(), PAGE_BYTES + room, 0)?;
        Ok(Cpu { event, ring, room })
    }

    fn switch(&self, how: libc::Ioctl) -> io::Result<()> {
        // SAFETY: no pointers.
        match unsafe { libc::ioctl(self.event.as_raw_fd(), how, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the first page and aligned, which at() asserts; both sides access it atomically.
        unsafe { AtomicU64::from_ptr(self.ring.at(at)) }
    }

    /// What the kernel has written since the last time. The event is disabled.
    fn written(&self) -> Vec<u8> {
        let (head, tail) = (self.word(HEAD_AT).load(Ordering::Acquire), self.word(TAIL_AT));
        let from = tail.load(Ordering::Relaxed);
        // SAFETY: the ring after its first page; the kernel writes from `head` on, and not at all once it is disabled.
        let ring = unsafe { std::slice::from_raw_parts(self.ring.at::<u8>(PAGE_BYTES), self.room) };
        let bytes = (from..head).map(|at| ring[at as usize % self.room]).collect();
        tail.store(head, Ordering::Release);
        bytes
    }
}

/// Hands on the samples among these records; returns how many more were lost.
fn read_records(mut bytes: &[u8], each: &mut impl FnMut(&Sample)) -> u64 {
    let mut lost = 0;
    while let Some((kind, mode, body, rest)) = record(bytes) {
        match kind {
            RECORD_LOST => lost += word(body, 1).unwrap_or(0),
            RECORD_SAMPLE => sample(mode, body).iter().for_each(&mut *each),
            _ => {}
        }
        bytes = rest;
    }
    lost
}

/// The first record: its kind, its mode, what it holds, and what follows it.
fn record(bytes: &[u8]) -> Option<(u32, u16, &[u8], &[u8])> {
    let head: &[u8; 8] = bytes.first_chunk()?;
    let word = u64::from_ne_bytes(*head);
    let (kind, mode, size) = (word as u32, (word >> 32) as u16, (word >> 48) as usize);
    let body = bytes.get(8..size)?;
    Some((kind, mode, body, &bytes[size..]))
}

fn word(bytes: &[u8], i: usize) -> Option<u64> {
    bytes.get(8 * i..8 * i + 8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// The address of the instruction, process and thread in one word, the number of addresses, the addresses.
fn sample(mode: u16, body: &[u8]) -> Option<Sample> {
    let at = word(body, 0)?;
    let thread = (word(body, 1)? >> 32) as u32;
    let addresses = (0..word(body, 2)? as usize).map_while(|i| word(body, 3 + i));
    let stack = addresses.filter(|&address| address < CONTEXTS).collect();
    Some(Sample { thread, user: (mode & MODE_MASK == MODE_USER).then_some(at), stack })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn bytes(kind: u32, mode: u16, words: &[u64]) -> Vec<u8> {
        let size = (8 + 8 * words.len()) as u64;
        let head = u64::from(kind) | u64::from(mode) << 32 | size << 48;
        std::iter::once(&head).chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn records_are_read_one_after_the_other() {
        let kernel = bytes(RECORD_SAMPLE, 1, &[0xff80, 7 << 32 | 6, 3, -128i64 as u64, 0xff80, 0xff81]);
        let user = bytes(RECORD_SAMPLE, MODE_USER, &[0x1234, 8 << 32 | 6, 0]);
        let all = [kernel, bytes(RECORD_LOST, 0, &[1, 5]), bytes(77, 0, &[]), user, vec![9, 0, 0]].concat();
        let mut seen = vec![];
        assert_eq!(read_records(&all, &mut |sample: &Sample| seen.push(sample.clone())), 5);
        let of = |thread, user, stack: &[u64]| Sample { thread, user, stack: stack.to_vec() };
        assert_eq!(seen, [of(7, None, &[0xff80, 0xff81]), of(8, Some(0x1234), &[])]);
    }

    #[test]
    fn a_busy_thread_is_seen() {
        // SAFETY: no arguments, no failure.
        let (root, own) = unsafe { (libc::geteuid() == 0, libc::gettid() as u32) };
        if !root {
            return eprintln!("skipped: {} needs root (performance events of all CPUs)", module_path!());
        }
        // SAFETY: no arguments.
        let cpus: Vec<usize> = (0..unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } as usize).collect();
        let sampler = Sampler::start(&cpus, 1000).unwrap();
        let begin = std::time::Instant::now();
        let mut seen = 0;
        // Until it has had some time on a CPU, however busy the machine is.
        while cpu_time_ms() < 100 && begin.elapsed().as_secs() < 20 {
            std::hint::black_box((0..10_000).sum::<u64>());
        }
        sampler.take(|sample| seen += u64::from(sample.thread == own && sample.user.is_some())).unwrap();
        assert!(seen > 0);
    }

    fn cpu_time_ms() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes one timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
    }
}
