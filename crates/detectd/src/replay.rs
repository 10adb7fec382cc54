//! A capture file is judged by the time stamps of its frames, as on the wire; [`order`] corrects wrong time stamps.

mod order;

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use weir_detect::{Gap, Status};
use weir_packet::encapsulation::{Link, Unread, network};
use weir_packet::flow::IpVersion;
use weir_packet::headers::{self, Headers};
use weir_port::capture::Frame;
use weir_port::pcapng::Packet;
use weir_port::pcapng::read::{Item, Reader};

use super::reported::{Page, Teller};
use super::{Judge, LAG, SNAP, WAIT};
use order::{InOrder, Next, STEP_NS};

/// Judges the frames of a file, and withdraws the announcements. An error in the file ends it; the frames before are judged.
pub(crate) fn replay(
    path: &Path,
    judge: &mut Judge,
    teller: Teller,
    page: &mut Page<'_, impl Write>,
) -> Result<()> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot read the capture {name}"));
    let reader = file.and_then(|file| Reader::open(BufReader::new(file)).with_context(|| name.to_string()));
    let mut replay = Replay {
        judge,
        teller,
        page,
        order: InOrder::default(),
        links: Vec::new(),
        has_zero: false,
        period: 0,
        last_ns: 0,
        judged_ns: 0,
    };
    let read = reader.and_then(|reader| {
        let read = replay.read(reader).with_context(|| name.to_string());
        let status = replay.judge.engine.status();
        replay.page.write(&replay.teller.status(&status));
        read.and_then(|()| has_judged(&status).with_context(|| name.to_string()))
    });
    replay.teller.finish();
    read
}

/// # Errors
/// The file has frames, but none of them could be judged.
fn has_judged(status: &Status) -> Result<()> {
    if status.frames > 0 || status.not_judged.frames() == 0 {
        return Ok(());
    }
    let reasons: Vec<_> =
        status.not_judged.iter().map(|(gap, frames)| format!("{frames} {}", gap.words())).collect();
    bail!("none of its frames can be judged: {}", reasons.join("; "))
}

/// The state of reading a file.
struct Replay<'a, 'p, W> {
    judge: &'a mut Judge,
    teller: Teller,
    page: &'a mut Page<'p, W>,
    order: InOrder<Held>,
    /// Link types of the interfaces of the section, by number.
    links: Vec<u16>,
    /// A frame had the time stamp 0.
    has_zero: bool,
    period: u32,
    /// The newest time of the period.
    last_ns: u64,
    judged_ns: u64,
}

impl<W: Write> Replay<'_, '_, W> {
    fn read(&mut self, mut reader: Reader<BufReader<File>>) -> Result<()> {
        let end = loop {
            match reader.next_item() {
                Ok(Some(item)) => self.take(&item),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.into()),
            }
            self.judge_known(false);
            if self.page.is_broken() {
                break Ok(());
            }
        };
        self.order.end_queues();
        self.judge_known(true);
        // The frames before an error are judged.
        self.report();
        end
    }

    fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Section => {
                self.order.end_queues();
                self.judge_known(true);
                self.links.clear();
            }
            Item::Interface(interface) => {
                self.links.push(interface.link_type);
                self.order.expect(self.links.len());
            }
            Item::Packet(packet) => self.packet(packet),
            Item::Untimed(_) => self.judge.engine.not_judged(Gap::Untimed, 1),
            // Slightly older frames may still follow in the file.
            Item::Statistics(of) => {
                self.order.reach(of.interface, of.at_ns.saturating_sub(LAG.as_nanos() as u64));
            }
        }
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        // A second time stamp of 0 comes from a program without time stamps.
        if packet.at_ns == 0 && std::mem::replace(&mut self.has_zero, true) {
            return self.judge.engine.not_judged(Gap::Untimed, 1);
        }
        let link_type = self.links.get(packet.interface as usize).copied().unwrap_or_default();
        match Link::of(link_type) {
            Some(link) => {
                let held = Held::of(link, packet, self.judge.captures.is_some());
                self.order.add(packet.interface, packet.at_ns, held);
            }
            None => {
                self.judge.engine.lost(packet.dropped);
                self.judge.engine.not_judged(Gap::LinkType(link_type), 1);
            }
        }
    }

    /// Judges the frames that no later one can precede; with `all`, every held frame.
    fn judge_known(&mut self, all: bool) {
        for odd in self.order.take_odd() {
            self.judge.engine.odd_stamp();
            self.teller.odd_stamp(&odd).iter().for_each(|line| self.page.write(line));
        }
        while let Some(Next { period, at_ns, thing }) = self.order.next(all) {
            if period > self.period {
                self.begin_period(period, at_ns);
            }
            self.judge.engine.lost(thing.lost);
            match thing.headers {
                Ok(headers) => {
                    let frame =
                        Frame { bytes: &thing.bytes, wire_len: thing.wire_len, at: at_ns, lost_before: 0 };
                    self.judge.frame(headers, &frame);
                }
                Err(unread) => self.judge.engine.unread(unread),
            }
            self.last_ns = at_ns.max(self.last_ns);
            // As often as on an interface, by the time of the file.
            if self.last_ns > self.judged_ns.saturating_add(WAIT.as_nanos() as u64) {
                self.report();
            }
        }
    }

    /// Handles a clock that went back; a new section that continues the previous one is not such a case.
    fn begin_period(&mut self, period: u32, at_ns: u64) {
        self.period = period;
        if at_ns.saturating_add(STEP_NS) < self.last_ns {
            self.report();
            self.judge.engine.set_back(at_ns, &mut self.judge.events);
            self.last_ns = at_ns;
            self.report();
        }
    }

    /// Judges the ended slots, runs the actions, and writes the lines.
    fn report(&mut self) {
        self.judged_ns = self.last_ns;
        self.judge.take(self.last_ns).act(&mut self.teller).iter().for_each(|line| self.page.write(line));
    }
}

/// The held part of a packet.
struct Held {
    headers: Result<Headers, Unread>,
    /// As many bytes as on an interface; none if captures are off.
    bytes: Box<[u8]>,
    wire_len: u32,
    /// Frames lost before it.
    lost: u64,
}

impl Held {
    /// A packet of another link counts as the same packet in a frame of Ethernet.
    fn of(link: Link, packet: &Packet<'_>, keeps_bytes: bool) -> Held {
        let lost = packet.dropped;
        let frame = match link {
            Link::Ethernet => Ok((Cow::Borrowed(packet.bytes), packet.wire_len)),
            _ => as_ethernet(link, packet),
        };
        let (bytes, wire_len) = match frame {
            Ok(frame) => frame,
            Err(unread) => {
                return Held { headers: Err(unread), bytes: [].into(), wire_len: packet.wire_len, lost };
            }
        };
        let kept = if keeps_bytes { bytes.len().min(SNAP as usize) } else { 0 };
        Held {
            headers: headers::read_link(Link::Ethernet, &bytes),
            bytes: bytes[..kept].into(),
            wire_len,
            lost,
        }
    }
}

/// The IP packet of another link type with an Ethernet header without addresses, and the length of that frame.
fn as_ethernet<'a>(link: Link, packet: &Packet<'a>) -> Result<(Cow<'a, [u8]>, u32), Unread> {
    const ETHERNET_BYTES: usize = 14;
    let found = network(link, packet.bytes)?;
    let kind: [u8; 2] = if found.ip == IpVersion::V4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    let inside = packet.bytes.get(found.at..).unwrap_or_default();
    let frame = [&[0; 12], &kind[..], &inside[..inside.len().min(SNAP as usize)]].concat();
    let before = u32::try_from(found.at).unwrap_or(u32::MAX);
    Ok((Cow::Owned(frame), packet.wire_len.saturating_sub(before).saturating_add(ETHERNET_BYTES as u32)))
}

#[cfg(test)]
mod tests;
