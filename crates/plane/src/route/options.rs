//! Options of IPv4 at a router (RFC 791, section 3.1, RFC 1812, section 5.2.4).
//!
//! | option | what becomes of it |
//! |---|---|
//! | source routes, loose and strict | the packet goes no further, and its sender is informed (RFC 7126, sections 4.3 and 4.4) |
//! | record route, timestamp | as `options` of `route` says |
//! | all others | pass as they are |
//!
//! | `options` | of a packet with record route or timestamp (RFC 7126, sections 4.6 and 4.7) |
//! |---|---|
//! | `fill`, if the text says nothing | the address of the port that it leaves by is written there, and the time |
//! | `ignore` | passes as it is |
//! | `drop` | goes no further |
//!
//! RFC 7126 would rather have them dropped, since they tell outsiders about a network; RFC 1812 asks routers to fill them in. So
//! an operator configures the first. The time is that of the node's own beginning, which RFC 791 allows where the highest bit is
//! set.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_packet::checksum::write_ipv4;
use weir_packet::options::options;

use crate::frame::{Frame, IPV4};
use crate::time::Time;

/// How a router handles record route and timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Options {
    /// Writes what they ask for.
    #[default]
    Fill,
    /// Nothing.
    Ignore,
    /// Drops the packet.
    Drop,
}

impl Options {
    /// By their names in texts.
    pub(crate) const NAMES: [(&str, Options); 3] =
        [("fill", Options::Fill), ("ignore", Options::Ignore), ("drop", Options::Drop)];
}

const END: u8 = 0;
const NOTHING: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE: u8 = 131;
const STRICT: u8 = 137;

/// What a place of a timestamp option holds.
const TIMES: u8 = 0;
const ADDRESSES: u8 = 1;
const ASKED: u8 = 3;

/// An option and where it begins in the header.
struct Found<'a> {
    at: usize,
    bytes: &'a mut [u8],
}

/// The option at a place of the header, or the place of the byte that is wrong; `None`: it was the last.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "a place in a header of 60 bytes and the length of an option, 255 at most"
)]
fn find(header: &mut [u8], at: usize) -> Result<Option<Found<'_>>, usize> {
    let Some([kind, rest @ ..]) = header.get(at..) else { return Ok(None) };
    let length = match (*kind, rest.first()) {
        (END, _) => return Ok(None),
        (NOTHING, _) => 1,
        (_, Some(&length)) if length >= 2 => usize::from(length),
        _ => return Err(at),
    };
    header.get_mut(at..at + length).map(|bytes| Some(Found { at, bytes })).ok_or(at + 1)
}

/// Whether its sender says by which nodes it goes.
#[cold]
pub(super) fn is_source_routed(frame: &Frame<'_>) -> bool {
    options(frame.options4()).any(|option| matches!(option, [LOOSE | STRICT, ..]))
}

/// Whether nodes are asked to write themselves down in it.
pub(super) fn asks_nodes(frame: &Frame<'_>) -> bool {
    options(frame.options4()).any(|option| matches!(option, [RECORD_ROUTE | TIMESTAMP, ..]))
}

/// The address that is written, and the time.
pub(super) struct Writer<'a> {
    /// The address of the port that the packet leaves by.
    pub(super) address: u32,
    /// All addresses of the node.
    pub(super) is_local: &'a dyn Fn(u32) -> bool,
    pub(super) now: Time,
}

/// Fills in the options of a frame.
///
/// # Errors
/// The place of the byte of the header that is wrong.
#[expect(clippy::arithmetic_side_effects, reason = "places in a header of 60 bytes")]
#[cold]
pub(super) fn fill(frame: &mut Frame<'_>, writer: &Writer<'_>) -> Result<(), u8> {
    let length = frame.ip_header().len();
    let Some(header) = frame.ip_mut().get_mut(..length) else { return Ok(()) };
    let mut at = IPV4;
    while let Some(found) = find(header, at).map_err(|at| at as u8)? {
        at = found.at + found.bytes.len();
        let filled = match found.bytes.first() {
            Some(&RECORD_ROUTE) => record(found.bytes, writer.address),
            Some(&TIMESTAMP) => stamp(found.bytes, writer),
            _ => Ok(()),
        };
        filled.map_err(|wrong| (found.at + wrong) as u8)?;
    }
    write_ipv4(header);
    Ok(())
}

/// Where an option's next place is free, from the option's beginning; `None`: all are taken.
#[expect(clippy::arithmetic_side_effects, reason = "`least` is more than zero")]
fn next_place(option: &[u8], least: u8) -> Result<Option<usize>, usize> {
    const POINTER: usize = 2;
    match *option {
        [_, length, pointer, ..] if pointer > length => Ok(None),
        [_, _, pointer, ..] if pointer >= least => Ok(Some(usize::from(pointer) - 1)),
        _ => Err(POINTER),
    }
}

fn record(option: &mut [u8], address: u32) -> Result<(), usize> {
    const ROOM: usize = 4;
    let Some(at) = next_place(option, 4)? else { return Ok(()) };
    put(option, at, &address.to_be_bytes()).ok_or(2_usize)?;
    advance(option, ROOM);
    Ok(())
}

fn stamp(option: &mut [u8], writer: &Writer<'_>) -> Result<(), usize> {
    let flag = match option {
        [_, _, _, full, ..] => *full & 15,
        _ => return Err(1),
    };
    let Some(at) = next_place(option, 5)? else { return overflow(option) };
    // Not since midnight: the highest bit says so.
    let time = ((writer.now.ms() as u32) | 1 << 31).to_be_bytes();
    let bytes = match flag {
        TIMES => time.to_vec(),
        ADDRESSES => [writer.address.to_be_bytes(), time].concat(),
        ASKED => {
            let asked = option.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or(2_usize)?;
            if !(writer.is_local)(u32::from_be_bytes(*asked)) {
                return Ok(());
            }
            [*asked, time].concat()
        }
        _ => return Ok(()),
    };
    put(option, at, &bytes).ok_or(2_usize)?;
    advance(option, bytes.len());
    Ok(())
}

/// Counts one more node without room; the field counts up to fifteen.
fn overflow(option: &mut [u8]) -> Result<(), usize> {
    const OVERFLOW: usize = 3;
    let full = option.get_mut(OVERFLOW).ok_or(OVERFLOW)?;
    *full = full.checked_add(1 << 4).ok_or(OVERFLOW)?;
    Ok(())
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "`at` is a place of an option, of 8 bits, and `bytes` are 8 at most"
)]
fn put(option: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    option.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
    Some(())
}

fn advance(option: &mut [u8], bytes: usize) {
    if let Some(pointer) = option.get_mut(2) {
        // It was one of this option, which has room for the bytes: no more than 40 as a whole.
        *pointer = pointer.saturating_add(bytes as u8);
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test's own numbers")]
mod tests {
    use super::*;
    use crate::batch::{Batch, Verdict};
    use crate::config::Config;
    use crate::drops::DropReason;
    use crate::frame::{HEAD_ROOM, PortId};
    use crate::plane::Plane;
    use weir_packet::checksum::{fold, sum};

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    /// What becomes of a packet with these options at a router, what they are then, and the errors that it says.
    fn routed(text: &str, options: &[u8]) -> (Verdict, Vec<u8>, Vec<(u8, u8, u8)>) {
        let text = format!(
            "lan(198.18.0.1/24, neighbour 198.18.0.5 02:00:00:00:cc:01) > route({text}) \
             > wan(198.19.0.1/24, neighbour 198.19.0.2 02:00:00:00:cc:03)"
        );
        let config = Config::read("n", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut plane = Plane::new(&config, &MACS);
        let words = options.len() / 4;
        let total = (IPV4 + options.len() + 8) as u8;
        let mut header = vec![0x45 + words as u8, 0, 0, total, 0, 7, 0, 0, 64, 17, 0, 0];
        header.extend([198, 18, 0, 5, 198, 19, 0, 2].iter().chain(options));
        write_ipv4(&mut header);
        let udp = [0, 53, 4, 0, 0, 8, 0, 0];
        let mut buf = [&[0; HEAD_ROOM][..], &MACS[0], &[2; 6], &[8, 0], &header, &udp].concat();
        let end = buf.len();
        let mut batch = Batch::default();
        batch.push(Frame::new(&mut buf, HEAD_ROOM, end, PortId(0)));
        plane.run(Time::from_ms(5), &mut batch);
        let (frame, verdict) = batch.outcome().next().expect("one");
        let header = frame.ip_header().to_vec();
        assert_eq!(fold(sum(&header)), 0xffff, "its checksum is right");
        let errors = plane.departures().map(|out| (out.bytes[34], out.bytes[35], out.bytes[38])).collect();
        (verdict, header[IPV4..].to_vec(), errors)
    }

    #[test]
    fn record_route_and_timestamps_are_filled_in() {
        let port = [198, 19, 0, 1];
        let time = [0x80, 0, 0, 5];
        let rr = |pointer: u8, places: [[u8; 4]; 2]| [&[7, 11, pointer][..], &places.concat(), &[0]].concat();
        let ts = |length: u8, pointer: u8, full: u8, places: &[[u8; 4]]| {
            [&[68, length, pointer, full][..], &places.concat()].concat()
        };
        let none = [0; 4];
        for (before, after) in [
            (rr(4, [none; 2]), rr(8, [port, none])),
            (rr(8, [[1; 4], none]), rr(12, [[1; 4], port])),
            (rr(12, [[1; 4]; 2]), rr(12, [[1; 4]; 2])),
            (ts(8, 5, 0, &[none]), ts(8, 9, 0, &[time])),
            (ts(8, 9, 0, &[[1; 4]]), ts(8, 9, 0x10, &[[1; 4]])),
            (ts(12, 5, 1, &[none; 2]), ts(12, 13, 1, &[port, time])),
            (ts(12, 5, 3, &[[198, 18, 0, 1], none]), ts(12, 13, 3, &[[198, 18, 0, 1], time])),
            (ts(12, 5, 3, &[[198, 18, 0, 9], none]), ts(12, 5, 3, &[[198, 18, 0, 9], none])),
            (vec![0x94, 4, 0, 0], vec![0x94, 4, 0, 0]),
        ] {
            assert_eq!(routed("", &before), (Verdict::Out(PortId(1)), after, vec![]), "{before:?}");
            let ignored = routed("options ignore", &before);
            assert_eq!(ignored, (Verdict::Out(PortId(1)), before.clone(), vec![]), "{before:?}");
            let dropped = routed("options drop", &before);
            let verdict = if before[0] == 0x94 {
                Verdict::Out(PortId(1))
            } else {
                Verdict::Dropped(DropReason::IpOption)
            };
            assert_eq!(dropped, (verdict, before.clone(), vec![]), "{before:?}");
        }
    }

    #[test]
    fn source_routes_and_broken_options_go_no_further_and_their_senders_hear_of_it() {
        for (options, reason, error) in [
            (&[131, 7, 4, 198, 19, 0, 9, 0][..], DropReason::SourceRouted, (3, 5, 0)),
            (&[1, 137, 7, 8, 198, 19, 0, 9], DropReason::SourceRouted, (3, 5, 0)),
            (&[7, 7, 3, 0, 0, 0, 0, 0], DropReason::IpOption, (12, 0, 22)),
            (&[7, 7, 6, 0, 0, 0, 0, 0], DropReason::IpOption, (12, 0, 22)),
            (&[1, 7, 30, 4, 0, 0, 0, 0], DropReason::IpOption, (12, 0, 22)),
            (&[68, 4, 5, 0xf0], DropReason::IpOption, (12, 0, 23)),
        ] {
            let (verdict, _, errors) = routed("", options);
            assert_eq!((verdict, errors), (Verdict::Dropped(reason), vec![error]), "{options:?}");
        }
    }
}
