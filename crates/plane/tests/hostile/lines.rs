//! Frames of access lines: with tags, in PPPoE sessions, with broken headers.

use weir_testkit::Dice;

/// Tags of two lines of subscribers, and others.
const TAGS: &[&[[u8; 4]]] = &[
    &[[0x88, 0xa8, 0, 100], [0x81, 0, 0, 5]],
    &[[0x88, 0xa8, 0xa0, 100], [0x81, 0, 0xe0, 5]],
    &[[0x88, 0xa8, 0, 120], [0x81, 0, 0, 5]],
    &[],
    &[[0x81, 0, 0, 5]],
    &[[0x88, 0xa8, 0, 100], [0x81, 0, 0, 5], [0x81, 0, 0, 5]],
    &[[0x88, 0xa8, 0, 100], [0x88, 0xa8, 0, 5], [0x81, 0, 0x20, 0]],
    &[[0x81, 0, 0, 100], [0x81, 0, 0x0f, 0xff]],
];

/// A frame as a device of a subscriber sends it, or one that was made to confuse: with tags, in a PPPoE session or with a broken header of
/// one, with headers of IPv6 in front of the others; now and then cut to less than any header.
pub(super) fn on_line(dice: &mut Dice, frame: &[u8]) -> Vec<u8> {
    let Some((ends, [a, b, packet @ ..])) = frame.split_at_checked(12) else { return frame.to_vec() };
    let usual = dice.roll(4) > 0;
    let tags = TAGS[if usual { dice.roll(4) } else { dice.roll(TAGS.len()) }].concat();
    let packet = if packet.first().is_some_and(|first| first >> 4 == 6) && dice.roll(4) == 0 {
        with_headers(dice, packet)
    } else {
        packet.to_vec()
    };
    let payload = if dice.roll(3) == 0 {
        [&[*a, *b], &packet[..]].concat()
    } else {
        in_session(dice, [*a, *b], &packet)
    };
    let mut frame = [ends, &tags, &payload].concat();
    match dice.roll(12) {
        0 => frame.truncate(40),
        1 => frame.truncate(14 + dice.roll(30)),
        2 => frame.resize(frame.len() + dice.roll(60), 0),
        _ => {}
    }
    frame
}

fn in_session(dice: &mut Dice, kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    let protocol = match (dice.roll(10), kind) {
        (0, _) => [dice.roll(256) as u8, dice.roll(256) as u8],
        (1, _) => [0xc0, 0x21],
        (_, [0x86, _]) => [0, 0x57],
        _ => [0, 0x21],
    };
    let session = [7, 7, 7, 8, 0, 0xffff][dice.roll(6)] as u16;
    let length = match dice.roll(10) {
        0 => [0, 1, 2, 3, 0xffff, 0x7fff][dice.roll(6)],
        1 => packet.len() as u16 + 2 - 1 - dice.roll(20) as u16 % (packet.len() as u16 + 1),
        _ => packet.len() as u16 + 2,
    };
    let code = if dice.roll(20) == 0 { dice.roll(256) as u8 } else { 0 };
    let [[s1, s2], [l1, l2]] = [session.to_be_bytes(), length.to_be_bytes()];
    [&[0x88, 0x64, 0x11, code, s1, s2, l1, l2], &protocol[..], packet].concat()
}

/// A chain of extension headers in front of what a packet of IPv6 carries, of a length that its header says.
fn with_headers(dice: &mut Dice, packet: &[u8]) -> Vec<u8> {
    const HEADERS: [u8; 5] = [0, 43, 44, 60, 51];
    if packet.len() < 40 {
        return packet.to_vec();
    }
    let (mut next, mut chain) = (packet[6], Vec::new());
    for _ in 0..1 + dice.roll(12) {
        let kind = HEADERS[dice.roll(HEADERS.len())];
        let mut header = match kind {
            // A fragment of any place, or a whole packet that says it is one.
            44 => [&[0, 0], &(dice.roll(3) as u16 * 8).to_be_bytes()[..], &[0, 0, 0, 9]].concat(),
            51 => vec![0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
            _ => vec![0, 0, 1, 4, 0, 0, 0, 0],
        };
        header[0] = next;
        next = kind;
        chain.splice(0..0, header);
    }
    let mut packet = [&packet[..40], &chain, &packet[40..]].concat();
    packet[6] = next;
    let length = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet
}
