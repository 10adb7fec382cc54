//! Taildrop to the byte: a packet is accepted if, and only if, it fits.

use serde::{Deserialize, Serialize};

use crate::accounting::{Accounting, Reason};
use crate::buffer::Buffer;
use crate::packet::Packet;
use crate::time::Time;
use crate::{Bottleneck, Queue};

/// What can be set of a FIFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Mark ECN-capable arrivals while so many bytes, or more, are queued: the step of DCTCP (RFC 8257, section 3.1).
    /// Nothing is marked without it.
    pub mark_at_bytes: Option<u64>,
}

/// First in, first out.
#[derive(Debug)]
pub struct Fifo<T> {
    config: Config,
    limit_bytes: u64,
    buffer: Buffer<T>,
    accounting: Accounting<T>,
}

impl<T> Fifo<T> {
    /// An empty queue.
    pub fn new(config: Config, at: &Bottleneck) -> Fifo<T> {
        Fifo { config, limit_bytes: at.limit_bytes, buffer: Buffer::new(), accounting: Accounting::new() }
    }
}

impl<T> Queue<T> for Fifo<T> {
    fn offer(&mut self, mut packet: Packet<T>, now: Time) {
        packet.arrival = now;
        self.accounting.offered(packet.bytes);
        if self.buffer.bytes() + u64::from(packet.bytes) > self.limit_bytes {
            return self.accounting.reject(packet, Reason::Overflow);
        }
        if self.config.mark_at_bytes.is_some_and(|step| self.buffer.bytes() >= step) {
            self.accounting.mark(&mut packet);
        }
        self.accounting.queued(packet.bytes);
        self.buffer.push(packet);
    }

    fn take(&mut self, _now: Time) -> Option<Packet<T>> {
        let packet = self.buffer.pop()?;
        self.accounting.taken(packet.bytes);
        Some(packet)
    }

    fn accounting(&self) -> &Accounting<T> {
        &self.accounting
    }

    fn accounting_mut(&mut self) -> &mut Accounting<T> {
        &mut self.accounting
    }
}
