//! What programs are told of a policer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dir::Dir;

/// What a policer has done at one rate of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoliceCounts {
    /// The policer among the stages of the text, from 1.
    pub stage: usize,
    /// The profile.
    pub profile: String,
    /// The class with this rate; none: all classes without a rate of their own.
    pub class: Option<u8>,
    /// The direction.
    pub direction: Dir,
    /// The rate of a subscriber, bits/s.
    pub bits_per_s: u64,
    /// What a subscriber may send or receive at once, in bytes.
    pub burst_bytes: u64,
    /// Subscribers that are known.
    pub subscribers: u64,
    /// How often a subscriber replaced a bucket that was not full.
    pub displaced: u64,
    /// Frames that have passed.
    pub passed_frames: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Frames that were dropped.
    pub dropped: u64,
}
