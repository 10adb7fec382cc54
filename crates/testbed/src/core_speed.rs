//! The current speed of a core, as far as it depends on other users of the core.
//!
//! Two threads of a core share its execution units. On a virtual machine the other thread may run another guest, which can be
//! seen only by its effect: a loop that fills all units takes up to twice as long while the other thread is busy. So does the
//! work on frames, which is then slower by a third.

use std::hint::black_box;
use std::time::Instant;

/// Steps of one sample: some 10 us.
const STEPS: u64 = 2000;
/// Samples; their median is the result, so that interrupts do not count.
const SAMPLES: usize = 11;

/// Time of a step on `cpu`, ns: it is only of use beside that of another moment on the same machine, by the same program.
/// `None` where the thread may not run there.
pub fn core_step_ns(cpu: usize) -> Option<f64> {
    let probe = || {
        weir_port::thread::pin_to(cpu).ok()?;
        let mut samples: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
        samples.sort_by(f64::total_cmp);
        samples.get(SAMPLES / 2).copied()
    };
    std::thread::scope(|scope| scope.spawn(probe).join().expect("the probe does not panic"))
}

fn sample() -> f64 {
    let start = Instant::now();
    for _ in 0..STEPS {
        step();
    }
    start.elapsed().as_nanos() as f64 / STEPS as f64
}

/// Additions that do not wait for each other: more than a core has units for.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn step() {
    let (mut a, mut b, mut c, mut d, mut e, mut f) = (1u64, 2u64, 3u64, 4u64, 5u64, 6u64);
    // SAFETY: uses registers only, and the results are discarded.
    unsafe {
        std::arch::asm!(
            "add {a}, 1", "add {b}, 1", "add {c}, 1", "add {d}, 1", "add {e}, 1", "add {f}, 1",
            "add {a}, 3", "add {b}, 3", "add {c}, 3", "add {d}, 3", "add {e}, 3", "add {f}, 3",
            a = inout(reg) a, b = inout(reg) b, c = inout(reg) c,
            d = inout(reg) d, e = inout(reg) e, f = inout(reg) f,
            options(nomem, nostack)
        );
    }
    black_box((a, b, c, d, e, f).0);
}

/// The same as far as the compiler lets it.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn step() {
    let mut chains = black_box([1u64, 2, 3, 4, 5, 6]);
    for _ in 0..4 {
        chains.iter_mut().for_each(|chain| *chain = (*chain ^ 3).wrapping_add(*chain >> 3));
    }
    black_box(chains);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_linux::sys;

    #[test]
    fn a_step_takes_some_time() {
        let cpus = sys::affinity(0).unwrap();
        assert!(core_step_ns(cpus[0]).unwrap() > 0.1);
        assert_eq!(core_step_ns(usize::MAX / 2), None);
    }
}
