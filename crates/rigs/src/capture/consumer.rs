//! The consumer of a capture thread in a trial: it reads the header of each frame, like a flow counter. The function has
//! a section of the program for itself, so that a profile can tell its time from that of the method.

use std::ops::Range;

/// Bytes of a frame that are read.
const HEAD_BYTES: usize = 64;

// SAFETY: the linker makes both of the name of the section; only their addresses are used.
unsafe extern "C" {
    #[link_name = "__start_weir_consumer"]
    static BEGIN: u8;
    #[link_name = "__stop_weir_consumer"]
    static END: u8;
}

/// Adds the words of a frame's head to `sum`.
#[inline(never)]
#[unsafe(link_section = "weir_consumer")]
pub(super) fn consume(sum: u64, frame: &[u8]) -> u64 {
    let mut sum = sum;
    for word in frame[..frame.len().min(HEAD_BYTES)].chunks_exact(8) {
        sum = sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("eight bytes")));
    }
    sum
}

/// Where [`consume`] is in memory.
pub(super) fn addresses() -> Range<u64> {
    std::ptr::addr_of!(BEGIN) as u64..std::ptr::addr_of!(END) as u64
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use weir_port::perf::Sampler;
    use weir_testbed::cpu::{CpuPlan, DutCpus};

    use super::*;

    #[test]
    fn the_head_of_a_frame_is_read() {
        let frame: Vec<u8> = (0..80).map(|i| u8::from(i % 8 == 0)).collect();
        assert_eq!([0, 7, 8, 60, 64, 80].map(|bytes| consume(1, &frame[..bytes])), [1, 1, 2, 8, 9, 9]);
    }

    /// However much of its time goes to functions that it calls in an unoptimised build.
    #[test]
    fn a_profile_finds_the_consumer() {
        weir_testkit::need_root!();
        let own = weir_port::thread::number();
        let (begin, mut seen) = (Instant::now(), 0);
        let cpus = CpuPlan::choose(DutCpus::All).unwrap().dut;
        while seen == 0 && begin.elapsed() < Duration::from_secs(20) {
            let sampler = Sampler::start(&cpus, 1000).unwrap();
            let round = Instant::now();
            while round.elapsed() < Duration::from_millis(50) {
                std::hint::black_box((0..100).fold(0, |sum, _| consume(sum, &[1; 64])));
            }
            let is_ours = |at: Option<u64>| at.is_some_and(|at| addresses().contains(&at));
            sampler.take(|sample| seen += u64::from(sample.thread == own && is_ours(sample.user))).unwrap();
        }
        assert!(seen > 0);
    }
}
