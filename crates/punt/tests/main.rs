//! Both ends of rings in real shared memory: descriptors, other processes that end, and memory that is overwritten.

mod descriptors;
mod hostile;
mod processes;

use weir_punt::{Geometry, Punt, Tag, Tags};

/// A small ring.
fn geometry(slots: u32) -> Geometry {
    Geometry::new(slots, 256).expect("it is allowed")
}

/// Record `number`, all of which follows from it; `room` is for its frame.
fn punt(number: u64, room: &mut [u8; 128]) -> Punt<'_> {
    let length = 60 + (number % 64) as usize;
    room.iter_mut().enumerate().for_each(|(at, byte)| *byte = (number as u8).wrapping_add(at as u8));
    let tag = Tag { tpid: 0x8100, tci: number as u16 };
    let tags = match number % 3 {
        0 => Tags::Untagged,
        1 => Tags::One(tag),
        _ => Tags::Two { outer: Tag { tpid: 0x88a8, tci: !tag.tci }, inner: tag },
    };
    Punt {
        reason: number as u16,
        port: (number >> 3) as u16,
        tags,
        arrival_ns: number,
        bytes: &room[..length],
    }
}
