//! The transfer time of a cache line between two CPUs.
//!
//! A frame goes from the tester's CPU to the DUT's, and with it some ten cache lines. On a virtual machine
//! the host may move a virtual CPU at any time, from the same core to the next or to another chip: the
//! rate of the same DUT then changes by a factor of two and more. This probe says which it was. Records have the time as `handover_ns`.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Round trips of one sample: some 20 us.
const ROUNDS: u64 = 100;
/// Samples; their median is the result, so that a stall does not count.
const SAMPLES: usize = 15;
/// A probe that takes longer has lost a CPU to something else.
const LIMIT: Duration = Duration::from_millis(20);

/// A flag alone in its cache line.
#[repr(align(128))]
struct Line(AtomicU64);

/// Time in ns from a write on CPU `a` to its sight on CPU `b`: half of the median round trip. None if both
/// are the same CPU, or something else kept one of them busy.
pub fn core_distance_ns(a: usize, b: usize) -> Option<f64> {
    if a == b {
        return None;
    }
    let (line, stop) = (Line(AtomicU64::new(0)), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| echo(b, &line.0, &stop));
        let probe = scope.spawn(|| {
            let result = weir_port::thread::pin_to(a).ok().and_then(|()| samples(&line.0));
            stop.store(true, Ordering::Relaxed);
            result
        });
        probe.join().expect("the probe does not panic")
    })
}

/// Answers each odd number with the even one that follows.
fn echo(cpu: usize, line: &AtomicU64, stop: &AtomicBool) {
    if weir_port::thread::pin_to(cpu).is_err() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        let number = line.load(Ordering::Acquire);
        if number % 2 == 1 {
            line.store(number + 1, Ordering::Release);
        } else {
            spin_loop();
        }
    }
}

fn samples(line: &AtomicU64) -> Option<f64> {
    let begin = Instant::now();
    let mut round_trips = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let asked = line.load(Ordering::Relaxed) + 1;
            line.store(asked, Ordering::Release);
            while line.load(Ordering::Acquire) == asked {
                if begin.elapsed() > LIMIT {
                    return None;
                }
                spin_loop();
            }
        }
        round_trips.push(start.elapsed().as_nanos() as f64 / ROUNDS as f64);
    }
    round_trips.sort_by(f64::total_cmp);
    Some(round_trips[SAMPLES / 2] / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_linux::sys;

    #[test]
    fn a_line_takes_some_time_between_two_cpus_and_none_on_one() {
        let cpus = sys::affinity(0).unwrap();
        assert_eq!(core_distance_ns(cpus[0], cpus[0]), None);
        if cpus.len() < 2 {
            return eprintln!("skipped: {} needs two CPUs", module_path!());
        }
        // On a busy machine there may be no answer; a wrong one there must not be.
        let ns = (0..20).find_map(|_| core_distance_ns(cpus[0], cpus[1]));
        assert!(ns.is_none_or(|ns| ns > 1.0), "{ns:?}");
    }
}
