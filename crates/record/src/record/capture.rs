//! Cost and method of capturing in a trial.

use serde::{Deserialize, Serialize};

use super::Detail;
use crate::profile::Profile;

/// A trial of the capture ladder, beyond its frames.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    /// What the kernel granted: `ring of 16 blocks of 1024 KiB`, `AF_XDP, copy mode, native XDP`.
    pub method: String,
    /// Memory of all buffers, bytes.
    pub buffer_bytes: u64,
    /// Frames that fit into them.
    pub buffer_frames: u64,
    /// System calls of the capture threads to receive frames.
    pub calls: u64,
    /// Times that a capture thread went to sleep and was woken.
    pub wakeups: u64,
    /// Times that a ring was full.
    pub freezes: u64,
    /// How long a program still worked on what its buffer held after the last frame was sent, s.
    #[serde(default)]
    pub drain_s: f64,
    /// CPU time by its user.
    pub time: CaptureTime,
    /// Where it went, in a trial that was looked at closely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

impl Detail for Capture {
    const KEY: &'static str = "capture";
}

/// CPU time of a trial, ns. The kernel's clock of each thread is exact; how it divides a thread's time between user and
/// system is sampled by the tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureTime {
    /// The generator.
    pub generator_ns: u64,
    /// The kernel as it receives: driver, XDP program, stack, copy into rings. Sampled, in a trial that was looked at
    /// closely; in others it is part of the generator's time, on whose CPU it runs, but for what a kernel thread does.
    pub receive_ns: u64,
    /// Capture threads in the kernel: system calls, copies out of queues.
    pub system_ns: u64,
    /// Capture threads outside of it: the method's own code, and the consumer where it is not known apart.
    pub user_ns: u64,
    /// The consumer, which reads the head of each frame. Sampled, in a trial that was looked at closely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ns: Option<u64>,
}

impl CaptureTime {
    /// All that capturing costs: everything but the generator.
    pub fn capture_ns(&self) -> u64 {
        self.receive_ns + self.system_ns + self.user_ns + self.consumer_ns.unwrap_or(0)
    }
}
