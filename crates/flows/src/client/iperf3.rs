//! Flows to an iperf3 server: its control connection and its results. It counts bytes per stream, but does not say which
//! stream is which flow when they connect at once: the sum is the server's, the part of each flow is what its receiver's
//! kernel has acknowledged.
//!
//! ```text
//!  cookie > PARAM_EXCHANGE, parameters > CREATE_STREAMS, cookies on all flows > TEST_START, TEST_RUNNING > bytes
//!  > TEST_END > EXCHANGE_RESULTS, results both ways > DISPLAY_RESULTS > IPERF_DONE
//! ```
//! Source: esnet/iperf, src/iperf_api.h and iperf_client_api.c. States are single bytes, texts are JSON behind a length of four.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Load, Observe, Outcome, Received, Session};
use crate::FlowsError;

/// Where iperf3 listens.
pub const IPERF3_PORT: u16 = 5201;
/// Streams that a server takes: MAX_STREAMS.
const MOST_STREAMS: u32 = 128;
/// Bytes of a cookie: 36 characters and a zero.
pub(super) const COOKIE: usize = 37;
/// Longest text that is read from a server.
const LONGEST: u32 = 16 << 20;
/// The server says what it has to say within this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Signals are seen after this time.
const LOOK: Duration = Duration::from_millis(100);
/// What the kernel counts as acknowledged of a flow that has sent nothing but its cookie: that, and the SYN.
const GREETED: u64 = COOKIE as u64 + 1;

/// How flows to it end.
const ENDED: &str = "ended by the server";

const TEST_START: i8 = 1;
const TEST_RUNNING: i8 = 2;
const TEST_END: i8 = 4;
const PARAM_EXCHANGE: i8 = 9;
const CREATE_STREAMS: i8 = 10;
const SERVER_TERMINATE: i8 = 11;
const EXCHANGE_RESULTS: i8 = 13;
const DISPLAY_RESULTS: i8 = 14;
const IPERF_DONE: i8 = 16;
const ACCESS_DENIED: i8 = -1;
const SERVER_ERROR: i8 = -2;

/// A control connection.
pub(super) struct Iperf3 {
    pub(super) to: TcpStream,
    pub(super) cookie: [u8; COOKIE],
}

impl Iperf3 {
    /// Agrees on a test with the server, which then waits for its streams.
    pub(super) fn connect(load: &Load, flows: u32) -> Result<Iperf3, FlowsError> {
        if flows > MOST_STREAMS {
            let text = format!(
                "an iperf3 server accepts {MOST_STREAMS} streams, but {flows} are needed: use `weir flows --serve` there"
            );
            return Err(FlowsError::Limit(text));
        }
        let failed = || FlowsError::at(format!("control connection to {}", load.to));
        let mut to = super::connect(load.to, "iperf3 --server")?;
        to.set_nodelay(true).map_err(failed())?;
        to.set_read_timeout(Some(PATIENCE)).map_err(failed())?;
        let cookie = cookie();
        to.write_all(&cookie).map_err(failed())?;
        let mut control = Iperf3 { to, cookie };
        control.expect(PARAM_EXCHANGE)?;
        control.say(&json!({
            "tcp": true, "omit": 0, "num": 0, "blockcount": 0, "len": 131_072, "parallel": flows,
            // It ends when it is asked to; this is only how long it waits for that.
            "time": load.duration.as_secs_f64().ceil() as u64, "client_version": "3.12",
        }))?;
        control.expect(CREATE_STREAMS)?;
        Ok(control)
    }

    fn state(&mut self) -> Result<i8, FlowsError> {
        let mut byte = [0];
        self.to.read_exact(&mut byte).map_err(FlowsError::at("control connection of iperf3"))?;
        Ok(i8::from_ne_bytes(byte))
    }

    fn expect(&mut self, state: i8) -> Result<(), FlowsError> {
        match self.state()? {
            found if found == state => Ok(()),
            ACCESS_DENIED => {
                Err(FlowsError::Limit("the iperf3 server is busy with another test: try again".into()))
            }
            SERVER_ERROR | SERVER_TERMINATE => {
                Err(FlowsError::Limit("the iperf3 server has ended the test".into()))
            }
            found => Err(FlowsError::Limit(format!(
                "the iperf3 server is in state {found}, not {state}: is it iperf3?"
            ))),
        }
    }

    fn set(&mut self, state: i8) -> Result<(), FlowsError> {
        self.to.write_all(&state.to_ne_bytes()).map_err(FlowsError::at("control connection of iperf3"))
    }

    fn say(&mut self, what: &Value) -> Result<(), FlowsError> {
        let text = what.to_string().into_bytes();
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes();
        let all = [&length[..], &text].concat();
        self.to.write_all(&all).map_err(FlowsError::at("control connection of iperf3"))
    }

    fn hear(&mut self) -> Result<Value, FlowsError> {
        let failed = || FlowsError::at("control connection of iperf3");
        let mut length = [0; 4];
        self.to.read_exact(&mut length).map_err(failed())?;
        let length = u32::from_be_bytes(length);
        if length > LONGEST {
            return Err(FlowsError::Limit(format!("the iperf3 server announces {length} bytes of results")));
        }
        let mut text = vec![0; length as usize];
        self.to.read_exact(&mut text).map_err(failed())?;
        serde_json::from_slice(&text).map_err(|error| {
            FlowsError::Limit(format!("the results of the iperf3 server are no JSON: {error}"))
        })
    }

    /// Has the server something to say before its time? Then it ends the test.
    fn ended(&mut self) -> Result<bool, FlowsError> {
        let failed = || FlowsError::at("control connection of iperf3");
        self.to.set_nonblocking(true).map_err(failed())?;
        let there = self.to.peek(&mut [0]);
        self.to.set_nonblocking(false).map_err(failed())?;
        match there {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(failed()(error)),
        }
    }

    /// Ends the test; the bytes that the server received, all streams together.
    fn results(&mut self) -> Result<u64, FlowsError> {
        self.set(TEST_END)?;
        self.expect(EXCHANGE_RESULTS)?;
        let none: [Value; 0] = [];
        self.say(&json!({
            "cpu_util_total": 0.0, "cpu_util_user": 0.0, "cpu_util_system": 0.0, "sender_has_retransmits": 0,
            "streams": none,
        }))?;
        let results = self.hear()?;
        let streams = results["streams"].as_array().map_or(&[][..], Vec::as_slice);
        let bytes = streams.iter().filter_map(|stream| stream["bytes"].as_u64()).fold(0, u64::saturating_add);
        self.expect(DISPLAY_RESULTS)?;
        self.set(IPERF_DONE)?;
        Ok(bytes)
    }
}

impl Session<'_> {
    /// A test with an iperf3 server.
    pub(super) fn with_iperf3(
        &mut self,
        control: &mut Iperf3,
        observe: Observe<'_>,
    ) -> Result<Outcome, FlowsError> {
        self.all_connected()?;
        control.expect(TEST_START)?;
        control.expect(TEST_RUNNING)?;
        let start = self.begin();
        let (mut before, mut from) = (self.acknowledged(), Duration::ZERO);
        for number in 0.. {
            let to = (from + self.load.interval).min(self.load.duration);
            self.samples_until(start + to, observe.stop)?;
            if control.ended()? {
                return Err(FlowsError::Limit("the iperf3 server has ended the test".into()));
            }
            let now = self.acknowledged();
            let bytes: Vec<u64> =
                (0..now.len()).map(|i| now[i] - before.get(i).copied().unwrap_or(0)).collect();
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let ended = start.elapsed().max(to);
            (observe.see)(&self.interval(number, (ns(from), ns(ended)), &bytes));
            (before, from) = (now, ended);
            if from >= self.load.duration {
                break;
            }
        }
        let received = control.results()?;
        let window_ns = u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
        let done = self.done()?;
        let in_time: Vec<u64> =
            done.iter().map(|one| before.get(one.flow.number as usize).copied().unwrap_or(0)).collect();
        let bytes = Received { window_ns, bytes: in_time, ..Received::default() };
        let mut outcome = self.outcome(&bytes, done);
        outcome.sum_bits_per_s = received as f64 * 8.0 / outcome.window_s.max(1e-9);
        // The server ends its streams with the test: data in flight then does not count as lost.
        outcome.incomplete.clear();
        outcome.flows.iter_mut().for_each(|flow| flow.end = ENDED.into());
        let note = "the sum is the count of the iperf3 server; the part of each flow is the data acknowledged before \
                    the deadline";
        outcome.notes.push(note.into());
        Ok(outcome)
    }

    /// Bytes of each flow that were acknowledged, without the greeting.
    fn acknowledged(&self) -> Vec<u64> {
        self.info.iter().map(|(info, _)| info.acked_bytes.saturating_sub(GREETED)).collect()
    }

    /// Takes in what threads say until then.
    fn samples_until(&mut self, until: Instant, stop: &AtomicBool) -> Result<(), FlowsError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(FlowsError::Limit("interrupted: all flows were reset".into()));
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.words.recv_timeout(left.min(LOOK)) {
                Ok(word) => self.take(word),
                Err(RecvTimeoutError::Timeout) if left > LOOK => {}
                Err(_) => return Ok(()),
            }
        }
    }
}

/// 36 letters and digits that no other test has, as iperf3 makes them.
fn cookie() -> [u8; COOKIE] {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut state = super::test_number();
    let mut cookie = [0; COOKIE];
    for letter in &mut cookie[..COOKIE - 1] {
        // splitmix64: Steele, Lea, Flood 2014.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *letter = LETTERS[(mixed >> 59) as usize];
    }
    cookie
}
