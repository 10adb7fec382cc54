//! The plane as the target of a scenario, in virtual time. What it asks about neighbours is answered: all addresses
//! are of one host at each end.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_packet::frame::Mac;
use weir_packet::neighbour::{self, Heard, Host};

use super::run::Target;
use super::text::End;
use crate::batch::{BATCH, Batch, Fate};
use crate::config::Config;
use crate::frame::{ETHERNET, Frame, HEAD_ROOM, PortId};
use crate::plane::Plane;
use crate::time::Time;

/// The hosts at the left and the right end.
const HOSTS: [Mac; 2] = [[0x02, 0, 0, 0, 0xcc, 1], [0x02, 0, 0, 0, 0xcc, 2]];
/// How often time that passes without frames is told to the node.
const TICK: Duration = Duration::from_millis(500);

/// A node in virtual time.
#[derive(Debug, Default)]
pub struct VirtualNode {
    plane: Option<Plane>,
    config: Option<Config>,
    now: Duration,
    left: Vec<(End, Vec<u8>)>,
    /// Frames that have come and are no batch yet; `None` where each is a batch of its own.
    arrived: Option<Vec<(PortId, Vec<u8>)>>,
}

impl VirtualNode {
    fn mac(port: PortId) -> Mac {
        [0x02, 0, 0, 0, 0xaa, port.0]
    }

    fn end(&self, port: PortId) -> End {
        let left = self.config.as_ref().map_or(1, |config| config.left);
        if usize::from(port.0) < left { End::Left } else { End::Right }
    }

    /// One that gets frames that come right behind each other in one batch.
    pub fn with_batches() -> VirtualNode {
        VirtualNode { arrived: Some(Vec::new()), ..VirtualNode::default() }
    }

    /// What has come is a batch now.
    fn take(&mut self) {
        let arrived = self.arrived.as_mut().map(std::mem::take).unwrap_or_default();
        arrived.chunks(BATCH).for_each(|some| self.frames(some));
    }

    /// Frames come in, and so do the answers to what the node asks because of them.
    fn frames(&mut self, frames: &[(PortId, Vec<u8>)]) {
        let plane = self.plane.as_mut().expect("a scenario begins with its node");
        let now = Time::default() + self.now;
        let mut bufs: Vec<Vec<u8>> =
            frames.iter().map(|(_, bytes)| [&[0; HEAD_ROOM], &bytes[..]].concat()).collect();
        let mut batch = Batch::default();
        for (buf, (port, _)) in bufs.iter_mut().zip(frames) {
            let end = buf.len();
            batch.push(Frame::new(buf, HEAD_ROOM, end, *port));
        }
        plane.run(now, &mut batch);
        let outcome: Vec<_> = batch.outcome().map(|(frame, fate)| (fate, frame.bytes().to_vec())).collect();
        for (fate, bytes) in outcome {
            match fate {
                Fate::Out(port) => self.leaves(Some(port), bytes),
                Fate::Local => self.leaves(None, bytes),
                _ => {}
            }
        }
        self.depart();
    }

    fn depart(&mut self) {
        let departures: Vec<_> =
            self.plane.as_mut().map(|plane| plane.departures().collect()).unwrap_or_default();
        for departure in departures {
            self.leaves(departure.port, departure.bytes);
        }
    }

    fn leaves(&mut self, port: Option<PortId>, bytes: Vec<u8>) {
        let heard = neighbour::parse(&bytes);
        let Some(port) = port else {
            // What the node has learnt from, the machine may learn from too.
            if heard.is_none() {
                self.left.push((End::Local, bytes[ETHERNET..].to_vec()));
            }
            return;
        };
        match heard {
            Some(Heard::Question { from, target }) => {
                let host = Host { mac: HOSTS[usize::from(self.end(port) == End::Right)], ip: target };
                let answer = neighbour::answer(host, from);
                self.frames(&[(port, answer)]);
            }
            Some(Heard::Answer(_)) => {}
            None => self.left.push((self.end(port), bytes[ETHERNET..].to_vec())),
        }
    }

    fn tick(&mut self) {
        if let Some(plane) = &mut self.plane {
            plane.tick(Time::default() + self.now);
        }
        self.depart();
    }
}

impl Target for VirtualNode {
    fn configure(&mut self, text: &str) -> Result<(), String> {
        self.take();
        let config = Config::read("node", text).map_err(|mistakes| mistakes.to_string())?;
        let macs: Vec<Mac> = (0..config.ports.len()).map(|port| Self::mac(PortId(port as u8))).collect();
        match (&mut self.plane, &self.config) {
            (Some(plane), Some(old)) => plane.apply(Time::default() + self.now, old, &config)?,
            _ => self.plane = Some(Plane::new(&config, &macs)),
        }
        self.config = Some(config);
        Ok(())
    }

    fn send(&mut self, at: Duration, end: End, packet: &[u8]) {
        if at > self.now {
            self.wait(at);
        }
        let right = self.config.as_ref().map_or(1, |config| config.left) as u8;
        let (port, host) = if end == End::Left { (PortId(0), HOSTS[0]) } else { (PortId(right), HOSTS[1]) };
        let ether_type: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let frame = [&Self::mac(port), &host, &ether_type[..], packet].concat();
        match &mut self.arrived {
            Some(arrived) => arrived.push((port, frame)),
            None => self.frames(&[(port, frame)]),
        }
    }

    fn wait(&mut self, until: Duration) {
        self.take();
        while self.now < until {
            self.now = (self.now + TICK).min(until);
            self.tick();
        }
    }

    fn left(&mut self) -> Vec<(End, Vec<u8>)> {
        self.take();
        std::mem::take(&mut self.left)
    }

    fn patience(&self) -> u32 {
        1
    }

    fn drops(&self) -> Option<BTreeMap<String, u64>> {
        let plane = self.plane.as_ref()?;
        Some(
            plane
                .books()
                .drops
                .occurred()
                .map(|(reason, frames)| (reason.name().to_string(), frames))
                .collect(),
        )
    }

    fn sound(&self) -> Result<(), String> {
        match self.plane.as_ref().map(Plane::books) {
            Some(books) if !books.balance() => Err(format!("the books do not balance: {books:?}")),
            _ => Ok(()),
        }
    }
}
