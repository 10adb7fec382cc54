//! Flows: which addresses and ports the frames of a stream carry, and in which order.

use std::fmt;
use std::str::FromStr;

/// IP version of the test traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Order in which a stream goes through its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowOrder {
    /// 0, 1, 2, ... and again.
    Sequential,
    /// Pseudo-random with repeats (RFC 4814, section 4).
    Random,
    /// Pseudo-random order in which each flow comes once before any comes again (RFC 9693, phase 1).
    Unique,
}

/// Which way test frames travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From side a to side b.
    Forward,
    /// Both ways at once, the same rate each (RFC 2544, section 14).
    Both,
    /// From a to b, where the tester sends each frame back to a.
    Reflect,
}

/// Most flows of a stream.
pub const MAX_FLOWS: u32 = 16_000_000;

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IpVersion::V4 => "4",
            IpVersion::V6 => "6",
        })
    }
}

impl FromStr for IpVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "4" => Ok(IpVersion::V4),
            "6" => Ok(IpVersion::V6),
            _ => Err(format!("`{text}` is no IP version: use 4, 6")),
        }
    }
}

/// An enum whose values have one name each in plans, on the command line and in records.
macro_rules! named {
    ($type:ident, $what:literal, $($name:literal => $value:ident),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($type::$value => $name),+ })
            }
        }
        impl FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok($type::$value),)+
                    _ => Err(format!(concat!("`{}` is no ", $what, ": use ", named!(@list $($name),+)), text)),
                }
            }
        }
    };
    (@list $first:literal $(, $rest:literal)*) => { concat!($first $(, ", ", $rest)*) };
}

named!(FlowOrder, "flow order", "sequential" => Sequential, "random" => Random, "unique" => Unique);
named!(Direction, "direction", "forward" => Forward, "both" => Both, "reflect" => Reflect);
