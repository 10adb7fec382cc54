//! The protocol between client and server. A connection begins with a word for its kind; on a control connection lines of JSON
//! follow, on a flow its number and then payload that is not read.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::FlowsError;

/// The first bytes of a control connection.
pub(crate) const CONTROL: [u8; 8] = *b"WEIRctl1";
/// The first bytes of a flow; the number of the test and that of the flow follow.
pub(crate) const FLOW: [u8; 8] = *b"WEIRflo1";
/// Bytes in front of a flow's content.
pub(crate) const FLOW_HEADER: usize = 20;
/// Flows of a test, at most.
pub(crate) const MOST_FLOWS: u32 = 100_000;
/// Bytes of a line: all counts of that many flows.
const LONGEST_LINE: usize = 8 << 20;
/// A connection is left this often, to look at the time and for signals.
const LOOK: Duration = Duration::from_millis(100);

/// From the client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// A test is to come.
    Hello { test: u64, flows: u32, duration_ms: u64, interval_ms: u64, grace_ms: u64 },
    /// Flows begin to send after so many microseconds. It is said before they do: behind their bytes it would wait, or be lost.
    Start { after_us: u64 },
}

/// From the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Flows may connect; so many at once.
    Ready { backlog: u32, descriptors: u64, receive_buffer: u64 },
    /// All flows have connected, or these have not.
    Connected { missing: Vec<u32> },
    /// Bytes of each flow in an interval.
    Interval { number: u32, from_ns: u64, to_ns: u64, bytes: Vec<u64> },
    /// Bytes of each flow until the deadline, and after it. Whether each was closed by the client. When its first byte was read,
    /// from the start on; a clock of the server may see it before.
    End { window_ns: u64, bytes: Vec<u64>, late: Vec<u64>, closed: Vec<bool>, first_ns: Vec<Option<i64>> },
    /// It cannot be.
    Refused(String),
}

/// The first bytes of a flow.
pub(crate) fn flow_header(test: u64, flow: u32) -> [u8; FLOW_HEADER] {
    let mut header = [0; FLOW_HEADER];
    let bytes = FLOW.into_iter().chain(test.to_be_bytes()).chain(flow.to_be_bytes());
    header.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    header
}

/// What a flow's first bytes say: test and flow.
pub(crate) fn read_flow_header(header: &[u8; FLOW_HEADER]) -> (u64, u32) {
    let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h, i, j, k, l] = *header;
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]), u32::from_be_bytes([i, j, k, l]))
}

pub(crate) fn say(to: &mut impl Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Lines of a control connection. The peer is untrusted, and may send anything or nothing.
pub(crate) struct Lines<R> {
    from: R,
    bytes: Vec<u8>,
    /// Bytes in which there is no end of a line.
    searched: usize,
}

impl Lines<TcpStream> {
    pub(crate) fn of(stream: TcpStream) -> io::Result<Lines<TcpStream>> {
        stream.set_read_timeout(Some(LOOK))?;
        Ok(Lines::over(stream))
    }
}

impl<R: Read> Lines<R> {
    pub(crate) fn over(from: R) -> Lines<R> {
        Lines { from, bytes: Vec::new(), searched: 0 }
    }

    /// What the next line says, if it comes within `patience`; `None` at the end of the connection.
    ///
    /// # Errors
    /// It does not come, or says nothing that is known; `stop` is set.
    pub(crate) fn next<T: DeserializeOwned>(
        &mut self,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<T>, FlowsError> {
        let until = Instant::now() + patience;
        loop {
            if let Some(end) = self.bytes.iter().skip(self.searched).position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=self.searched + end).collect();
                self.searched = 0;
                return read(&line).map(Some);
            }
            self.searched = self.bytes.len();
            if self.bytes.len() > LONGEST_LINE {
                return Err(FlowsError::Answer(shown(&self.bytes)));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(FlowsError::Limit("interrupted: all flows were reset".into()));
            }
            if Instant::now() >= until {
                return Err(FlowsError::Silent(patience.as_secs()));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Takes in what has come; false at the end of the connection.
    fn more(&mut self) -> Result<bool, FlowsError> {
        let mut chunk = [0; 4096];
        match self.from.read(&mut chunk) {
            Ok(bytes) => {
                self.bytes.extend_from_slice(chunk.get(..bytes).unwrap_or_default());
                Ok(bytes > 0)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Ok(true)
            }
            Err(error) => Err(FlowsError::at("control connection")(error)),
        }
    }
}

/// What a line says.
///
/// # Errors
/// Nothing that is known.
pub(crate) fn read<T: DeserializeOwned>(line: &[u8]) -> Result<T, FlowsError> {
    serde_json::from_slice(line).map_err(|_| FlowsError::Answer(shown(line)))
}

/// The beginning of a line, for people.
fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..80).unwrap_or(line)).trim().to_string()
}
