//! libpcap, as most programs capture today: the same ring of blocks, of 256 KiB each, behind another interface.

use std::ffi::c_int;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use pcap::{Active, Capture, Precision};

use super::tap::{attach_filter, refuse_all, wait_for};
use super::wide::Wide;
use super::{Account, CaptureError, Drops, Frame, Granted, Interface, Options, Queue};
use crate::packet::set;

/// libpcap's block.
const BLOCK_BYTES: u64 = 256 << 10;
/// Most frames of one look, so that a flood does not keep the caller from its other work.
const BATCH: usize = 4096;
/// Bytes from the header of a frame to its bytes, in libpcap's ring.
const FRAME_HEAD_BYTES: u64 = 88;

/// What `pcap_setfilter` takes; the crate has it for text alone.
#[repr(C)]
struct BpfProgram {
    len: u32,
    instructions: *const libc::sock_filter,
}

unsafe extern "C" {
    fn pcap_setfilter(handle: *mut libc::c_void, program: *const BpfProgram) -> c_int;
}

pub(super) fn open(interface: &Interface, options: &Options) -> Result<Vec<Box<dyn Queue>>, CaptureError> {
    let refused =
        |step| move |error: pcap::Error| interface.refused(step)(io::Error::other(error.to_string()));
    let cost =
        (FRAME_HEAD_BYTES + u64::from(options.buffer.frame_bytes.min(options.snap))).next_multiple_of(8);
    let memory = (options.buffer.frames_of_each(1, cost) * cost).next_multiple_of(BLOCK_BYTES);
    let memory = i32::try_from(memory).map_err(|_| {
        let text =
            format!("libpcap has buffers below 2 GiB, not {} MiB: ask for a shorter one", memory >> 20);
        CaptureError::Option(text)
    })?;
    let capture = Capture::from_device(interface.name())
        .map_err(refused("asking libpcap"))?
        .snaplen(options.snap.min(i32::MAX as u32) as i32)
        .buffer_size(memory)
        .timeout(options.retire.as_millis().clamp(1, i32::MAX as u128) as i32)
        .promisc(options.promiscuous)
        .precision(Precision::Nano)
        .open()
        .and_then(Capture::setnonblock)
        .map_err(refused("opening it with libpcap"))?;
    let step = "ignoring own frames";
    set(&capture, libc::PACKET_IGNORE_OUTGOING, &1i32).map_err(interface.refused(step))?;
    if let Some(filter) = &options.filter {
        let program = BpfProgram { len: filter.len() as u32, instructions: filter.as_ptr() };
        // SAFETY: an open handle, and a program that lives through the call; libpcap copies it.
        let result = unsafe { pcap_setfilter(capture.as_ptr().cast(), &program) };
        if result != 0 {
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(interface.refused("giving libpcap the filter")(source));
        }
    }
    let granted = Granted {
        method: "libpcap".into(),
        memory: memory as u64,
        frames: memory as u64 / BLOCK_BYTES * ((BLOCK_BYTES - 48) / cost),
    };
    let interface = interface.clone();
    let (received, dropped) = (Wide::default(), Wide::default());
    Ok(vec![Box::new(Libpcap {
        capture,
        interface,
        received,
        dropped,
        placed: 0,
        taken: 0,
        calls: 0,
        granted,
    })])
}

struct Libpcap {
    capture: Capture<Active>,
    interface: Interface,
    received: Wide,
    dropped: Wide,
    /// Of those dropped, those for which a frame said so.
    placed: u64,
    taken: u64,
    calls: u64,
    granted: Granted,
}

impl Libpcap {
    fn look(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let (mut lost_before, mut placed) = (self.dropped.total() - self.placed, 0);
        let n = self.capture.dispatch(Some(BATCH), |packet| {
            let header = packet.header;
            // The crate's structure says microseconds; with nanosecond precision that is what they are.
            let at = header.ts.tv_sec as u64 * 1_000_000_000 + header.ts.tv_usec as u64;
            placed += lost_before;
            let lost_before = std::mem::take(&mut lost_before);
            each(&Frame { bytes: packet.data, wire_len: header.len, at, lost_before });
        });
        let n = n.map_err(|error| match self.interface.check() {
            Ok(()) => io::Error::other(error.to_string()),
            Err(gone) => gone,
        })?;
        self.placed += placed;
        self.taken += n as u64;
        if n > 0 {
            self.ask()?;
        }
        Ok(n)
    }

    fn ask(&mut self) -> io::Result<()> {
        self.calls += 1;
        let stats = self.capture.stats().map_err(|error| io::Error::other(error.to_string()))?;
        self.received.follow(stats.received);
        self.dropped.follow(stats.dropped);
        Ok(())
    }
}

impl Queue for Libpcap {
    fn take(&mut self, wait: Duration, each: &mut dyn FnMut(&Frame<'_>)) -> io::Result<usize> {
        let n = self.look(each)?;
        if n > 0 || wait.is_zero() {
            return Ok(n);
        }
        self.calls += 1;
        if wait_for(self.capture.as_fd(), wait, &self.interface)? { self.look(each) } else { Ok(0) }
    }

    fn stop(&mut self) -> io::Result<()> {
        attach_filter(&self.capture, &refuse_all())
    }

    fn account(&mut self) -> io::Result<Account> {
        self.ask()?;
        let drops = vec![Drops { name: "ring full", frames: self.dropped.total() }];
        Ok(Account {
            received: self.received.total(),
            taken: self.taken,
            drops,
            freezes: 0,
            calls: self.calls,
        })
    }

    fn granted(&self) -> Granted {
        self.granted.clone()
    }
}
