//! Receivers of the DUT: NAPI threads of its interfaces, their CPUs, and RPS.
//!
//! The DUT's frames are received by kernel threads of its own, so that the tester does not work for it. The
//! tester's ports have none: a veth runs their receiver right where the DUT transmits, on the DUT's CPU. That
//! costs the DUT about 50 ns a frame, no more than a driver's work for a frame that leaves; a thread on the
//! tester's CPU would cost it a wake-up per frame (an interrupt to another CPU, 1 us on a virtual machine),
//! and take the generator's CPU away.
//!
//! What the kernel or the user's rights do not allow becomes a note, not an error: the trial is still
//! possible, only less separated, and the report must say so.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use crate::graph::End;
use weir_linux::cpu::cpu_mask;
use weir_linux::napi;
use weir_linux::sys;

/// A kernel thread that receives the frames of one of the DUT's interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NapiThread {
    /// The interface.
    pub device: &'static str,
    /// Its process number.
    pub pid: u32,
}

/// Makes NAPI of this end threaded and returns its threads. `known` are those found by an earlier call.
pub(crate) fn thread(end: &End, known: &[NapiThread], notes: &mut Vec<String>) -> Vec<NapiThread> {
    let strangers = strangers(end, known);
    if let Err(error) = switch_on(end) {
        notes.push(format!(
            "{} has no receive thread of its own ({error}): the sender's CPU receives its frames, so that \
             tester and DUT slow each other down.",
            end.name
        ));
        return Vec::new();
    }
    let pids = find(end, strangers);
    if pids.is_empty() {
        notes.push(format!("The receive threads of {} were not found, and run on any CPU.", end.name));
    }
    pids.into_iter().map(|pid| NapiThread { device: end.name, pid }).collect()
}

fn switch_on(end: &End) -> io::Result<()> {
    if !end.namespace.has_sysfs() {
        return Err(io::Error::other("/sys cannot be mounted here"));
    }
    end.namespace.run(|| fs::write(format!("/sys/class/net/{}/threaded", end.name), "1"))
}

/// Threads of interfaces of the same name elsewhere; None where the kernel tells which are this end's.
fn strangers(end: &End, known: &[NapiThread]) -> Option<BTreeSet<u32>> {
    let is_known = |pid: &u32| known.iter().any(|thread| thread.pid == *pid);
    end.namespace
        .run(napi::list)
        .is_err()
        .then(|| napi::threads_by_name(end.name).into_iter().filter(|pid| !is_known(pid)).collect())
}

fn find(end: &End, strangers: Option<BTreeSet<u32>>) -> Vec<u32> {
    match strangers {
        Some(strangers) => napi::threads_by_name(end.name).difference(&strangers).copied().collect(),
        None => {
            let all = end.namespace.run(napi::list).unwrap_or_default();
            let pids = all.iter().filter(|napi| napi.ifindex == end.ifindex).filter_map(|napi| napi.pid);
            pids.filter(|&pid| napi::is_thread_of(pid, end.name)).collect()
        }
    }
}

/// Binds the threads to CPUs.
pub(crate) fn place(threads: &[NapiThread], cpus: &[usize], notes: &mut Vec<String>) {
    for thread in threads {
        if let Err(error) = sys::set_affinity(thread.pid, cpus) {
            notes.push(format!(
                "The receive thread of {} runs on any CPU instead of {:?} ({error}): run as root to \
                 pin kernel threads.",
                thread.device, cpus
            ));
        }
    }
}

/// Has the threads run as soon as frames come, and share the CPU with a program when there are too many: as the softirq of a
/// network card, which leaves the rest to ksoftirqd then.
pub(crate) fn share(threads: &[NapiThread], notes: &mut Vec<String>) {
    for thread in threads {
        let why = match sys::run_in_slices(thread.pid, SLICE_NS) {
            Ok(true) => continue,
            Ok(false) => {
                "this kernel has one time slice for all threads: use Linux 6.12 or newer".to_string()
            }
            Err(error) => format!("{error}: run as root to change that"),
        };
        notes.push(format!(
            "The receive thread of {} may wait milliseconds for the time slice of another program ({why}).",
            thread.device
        ));
    }
}

/// The shortest slice that Linux gives.
const SLICE_NS: u64 = 100_000;

/// Spreads the frames of each of these receive queues of the DUT's over its CPUs, by flow.
pub(crate) fn spread(end: &End, cpus: &[usize], queues: u32, notes: &mut Vec<String>) {
    let mask = cpu_mask(cpus);
    for queue in 0..queues {
        let path = format!("/sys/class/net/{}/queues/rx-{queue}/rps_cpus", end.name);
        let written = end.namespace.run(|| fs::write(&path, &mask));
        if let Err(error) = written {
            notes.push(format!(
                "Queue {queue} of {} is not spread over CPUs {:?} ({error}): one CPU handles all its frames.",
                end.name, cpus
            ));
        }
    }
}
