//! Frames of devices that are kept for people.

use std::time::Duration;

/// A frame of a device or for it, without tags, and without passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFrame {
    /// When, by the clock that never goes back.
    pub at: Duration,
    /// Which way.
    pub direction: Direction,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// The way of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the subscriber.
    FromSubscriber,
    /// To the subscriber.
    ToSubscriber,
}
