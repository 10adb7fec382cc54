//! TCP load by weir, iperf3 and iperf2 in turn: `flows SECONDS ROUNDS FLOWS...`, whole numbers from 1 on, has each send so many
//! flows between two namespaces, by a plain wire (how fast, and is the sum right?) and through a bottleneck of 200 Mbit/s and
//! 20 ms (how far apart are the first bytes?). Needs root; iperf3 and iperf are looked for in PATH, and left out where they are
//! not, or where they cannot.
//!
//! ```text
//!  round 1: weir iperf3 iperf    round 2: iperf3 iperf weir    ...
//! ```
//! The sum that a program states is held against what the receiver's kernel counted: octets of IP without headers.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use weir_bottleneck::{Bridge, Observe, Settings, chunks_for, run};
use weir_flows::{Group, Load, Server};
use weir_port::duplex::{Packet, Pool, ReceiveMode};
use weir_port::thread;
use weir_testbed::graph::{BOTTLENECK, DIRECT, Graph, Plan};

type Failure = Box<dyn std::error::Error>;

const SENDER: &str = "198.18.0.1";
const RECEIVER: &str = "198.18.0.254";
/// IPv4 and TCP with timestamps.
const HEADERS: u64 = 52;
/// The link of the second part: as fast as its round trip is long to see.
const LINK: [(&str, &str); 4] =
    [("rate", "200mbit"), ("back-rate", "none"), ("delay", "10ms"), ("buffer", "1bdp")];
const RTT_MS: f64 = 20.0;
/// A client has ended within this time, in s.
const LONGEST_S: &str = "30";
/// A server says within this time what it has received.
const PATIENCE: Duration = Duration::from_secs(10);
/// A frame of data; what programs say to each other first is shorter.
const DATA: u32 = 1400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Weir,
    Iperf3,
    Iperf2,
}

const ALL: [Program; 3] = [Program::Weir, Program::Iperf3, Program::Iperf2];

/// What a program states: bits/s and bytes, where it states them.
#[derive(Debug, Clone, Copy)]
struct Stated {
    bits_per_s: f64,
    bytes: f64,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Weir => "weir flows",
            Program::Iperf3 => "iperf3",
            Program::Iperf2 => "iperf",
        }
    }

    /// Why it cannot send so many flows.
    fn cannot(self, flows: u32) -> Option<&'static str> {
        let there = |name: &str| {
            let mut command = Command::new(name);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok()
        };
        match self {
            Program::Iperf3 if flows > 128 => Some("at most 128 flows"),
            Program::Weir => None,
            _ if there(self.name()) => None,
            _ => Some("is not installed"),
        }
    }

    fn send(self, beds: &Bed, flows: u32, seconds: u32) -> Result<Stated, Failure> {
        match self {
            Program::Weir => weir(beds, flows, seconds),
            Program::Iperf3 => iperf3(beds, flows, seconds),
            Program::Iperf2 => iperf2(beds, flows, seconds),
        }
    }
}

/// A sender and a receiver.
struct Bed(Graph);

impl Bed {
    fn new(plan: Plan) -> Result<Bed, Failure> {
        let graph = Graph::connected(plan)?;
        graph.end("s0").add_address(SENDER.parse()?, 24)?;
        graph.end("r0").add_address(RECEIVER.parse()?, 24)?;
        Ok(Bed(graph))
    }

    /// Payload of TCP that has arrived at the receiver.
    fn arrived(&self) -> Result<f64, Failure> {
        let read = |path: &str| self.0.host("receiver").run(|| std::fs::read_to_string(path));
        let octets = counter(&read("/proc/thread-self/net/netstat")?, "IpExt:", "InOctets")?;
        let packets = counter(&read("/proc/thread-self/net/snmp")?, "Ip:", "InReceives")?;
        Ok(octets as f64 - (packets * HEADERS) as f64)
    }
}

/// A counter of a table of names and values, of which each line begins with `table`.
fn counter(text: &str, table: &str, name: &str) -> Result<u64, Failure> {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (names, values) = (lines.next().ok_or("no names")?, lines.next().ok_or("no values")?);
    let at = names.split_whitespace().position(|one| one == name).ok_or("no such counter")?;
    Ok(values.split_whitespace().nth(at).ok_or("no value")?.parse()?)
}

fn weir(bed: &Bed, flows: u32, seconds: u32) -> Result<Stated, Failure> {
    let to: SocketAddr = format!("{RECEIVER}:5301").parse()?;
    let server = bed.0.host("receiver").run(|| Server::start(to))?;
    let load = Load {
        to,
        groups: vec![Group { flows, cc: None, from: None, start: Duration::ZERO }],
        duration: Duration::from_secs(seconds.into()),
        interval: Duration::from_secs(1),
        grace: Duration::from_secs(30),
        reset: false,
        iperf3: false,
        rate: None,
    };
    let run =
        || weir_flows::run(&load, weir_flows::Observe { stop: &AtomicBool::new(false), see: &mut |_| () });
    let outcome = bed.0.host("sender").run(run)?;
    drop(server);
    let bytes = outcome.flows.iter().map(|flow| flow.received_bytes as f64).sum();
    Ok(Stated { bits_per_s: outcome.sum_bits_per_s, bytes })
}

/// A server that is ended when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server, and returns when something listens at its port.
fn serve(bed: &Bed, command: &mut Command, port: u16) -> Result<Ended, Failure> {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let server = Ended(bed.0.host("receiver").run(|| command.spawn())?);
    let listens = format!(":{port:04X} ");
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
            let text = bed.0.host("receiver").run(|| std::fs::read_to_string(table)).unwrap_or_default();
            if text.lines().any(|line| line.contains(&listens) && line.contains(" 0A ")) {
                return Ok(server);
            }
        }
        std::thread::yield_now();
    }
    Err("the server does not listen".into())
}

/// This program, ended when it takes too long.
fn limited(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args([LONGEST_S, program]);
    command
}

fn iperf3(bed: &Bed, flows: u32, seconds: u32) -> Result<Stated, Failure> {
    let _server = serve(bed, Command::new("iperf3").args(["-s", "-1"]), 5201)?;
    let mut client = limited("iperf3");
    client.args(["-c", RECEIVER, "-J", "-P", &flows.to_string(), "-t", &seconds.to_string()]);
    let output = bed.0.host("sender").run(|| client.output())?;
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let sum = &result["end"]["sum_received"];
    let of = |name: &str| sum[name].as_f64().ok_or_else(|| format!("no {name}: {}", result["error"]));
    Ok(Stated { bits_per_s: of("bits_per_second")?, bytes: of("bytes")? })
}

/// What the server states of each flow is summed: with `-y C` it states no sum.
fn iperf2(bed: &Bed, flows: u32, seconds: u32) -> Result<Stated, Failure> {
    let mut server = serve(bed, Command::new("iperf").args(["-s", "-y", "C"]), 5001)?;
    let output = server.0.stdout.take().ok_or("no output")?;
    let (sender, lines) = channel();
    // Without a reader the server would block.
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    let mut client = limited("iperf");
    client.args(["-c", RECEIVER, "-P", &flows.to_string(), "-t", &seconds.to_string()]);
    let status = bed.0.host("sender").run(|| client.stdout(Stdio::null()).stderr(Stdio::null()).status())?;
    if status.code() == Some(124) {
        return Err(format!("it had not ended after {LONGEST_S} s").into());
    }
    let mut sum = Stated { bits_per_s: 0.0, bytes: 0.0 };
    for flow in 0..flows {
        let line = lines.recv_timeout(PATIENCE);
        let line = line.map_err(|_| format!("the server states {flow} flows of {flows}"))?;
        let number = |at| line.split(',').nth(at).and_then(|word| word.parse::<f64>().ok());
        let (bytes, bits_per_s) =
            number(7).zip(number(8)).ok_or_else(|| format!("not understood: {line}"))?;
        sum = Stated { bits_per_s: sum.bits_per_s + bits_per_s, bytes: sum.bytes + bytes };
    }
    drop(server);
    reader.join().map_err(|_| "the reader has panicked")?;
    Ok(sum)
}

/// Between the first data of the first flow and that of the last, in ms, and how many flows there were.
fn spread(program: Program, flows: u32, seconds: u32) -> Result<(f64, usize), Failure> {
    let bed = Bed::new(BOTTLENECK)?;
    let middle = bed.0.host("middle");
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let link = middle.spawn("bottleneck", move || -> Result<HashMap<u32, u64>, String> {
        let failed = |error: &dyn std::error::Error| error.to_string();
        thread::prefer().map_err(|error| failed(&error))?;
        let mut settings = Settings::default();
        LINK.iter().try_for_each(|(name, value)| settings.set(name, value))?;
        let open = |name| Packet::open(name, 1522, ReceiveMode::Promiscuous).map_err(|error| failed(&error));
        let ports = [open("m0")?, open("m1")?];
        let pool = Pool::new(chunks_for(&settings), 1522).map_err(|error| failed(&error))?;
        let mut bridge = Bridge::new(ports.map(|port| Box::new(port) as _), pool, settings, true)?;
        let observe = Observe {
            stop: &stopped,
            changes: None,
            interval: Duration::from_secs(1),
            duration: None,
            see: &mut |_| (),
            changed: &mut |_, _| (),
        };
        run(&mut bridge, observe).map_err(|error| failed(&error))?;
        let mut first = HashMap::new();
        let entries = bridge.log(0).map(|log| log.entries()).unwrap_or_default();
        for entry in entries.iter().filter(|entry| entry.bytes >= DATA) {
            first.entry(entry.flow).or_insert(entry.at_ps);
        }
        Ok(first)
    })?;
    let sent = program.send(&bed, flows, seconds);
    stop.store(true, Ordering::Relaxed);
    let first = link.join().map_err(|_| "the bottleneck has panicked")??;
    sent?;
    // iperf3's connection for control has large frames, too, when it reports at the end.
    let mut first: Vec<u64> = first.into_values().collect();
    first.sort_unstable();
    first.truncate(flows as usize);
    let apart = first.first().zip(first.last()).map_or(f64::NAN, |(least, most)| (most - least) as f64 / 1e9);
    Ok((apart, first.len()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// `middle (least to most)`.
fn shown(values: &[f64], digits: usize) -> String {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", median(values.to_vec()))
}

/// What a program did with so many flows, round by round.
#[derive(Debug, Default)]
struct Found {
    gbit_per_s: Vec<f64>,
    /// Bytes that it states, by those that arrived.
    stated: Vec<f64>,
    /// Between the first data of the first flow and of the last, in round trips.
    apart: Vec<f64>,
    /// Flows of which data were seen.
    flows: usize,
}

impl Found {
    fn round(&mut self, program: Program, flows: u32, seconds: u32) -> Result<(), Failure> {
        let bed = Bed::new(DIRECT)?;
        let before = bed.arrived()?;
        let stated = program.send(&bed, flows, seconds)?;
        self.stated.push(stated.bytes / (bed.arrived()? - before));
        self.gbit_per_s.push(stated.bits_per_s / 1e9);
        let (ms, seen) = spread(program, flows, seconds)?;
        self.apart.push(ms / RTT_MS);
        self.flows = seen;
        Ok(())
    }

    fn line(&self) -> String {
        if self.apart.is_empty() {
            return "nothing was measured".into();
        }
        let (speed, bytes) = (shown(&self.gbit_per_s, 2), shown(&self.stated, 4));
        let (flows, apart) = (self.flows, shown(&self.apart, 2));
        format!("{speed} Gbit/s, bytes {bytes}, first data of {flows} flows within {apart} round trips")
    }
}

/// All programs in turn, each round beginning with another one.
fn compare(flows: u32, rounds: usize, seconds: u32) {
    let mut found = ALL.map(|program| (program, program.cannot(flows), Found::default()));
    for round in 0..rounds {
        for turn in 0..ALL.len() {
            let (program, cannot, found) = &mut found[(round + turn) % ALL.len()];
            if cannot.is_some() {
                continue;
            }
            if let Err(why) = found.round(*program, flows, seconds) {
                eprintln!("{} with {flows} flows: {why}", program.name());
            }
        }
    }
    for (program, cannot, found) in found {
        let said = cannot.map_or_else(|| found.line(), str::to_string);
        println!("{flows} flows, {}: {said}", program.name());
    }
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, rounds, counts @ ..] = &words[..] else {
        println!("flows SECONDS ROUNDS FLOWS...");
        return Ok(());
    };
    // iperf3 takes 0 for ever.
    let (seconds, rounds) = (seconds.parse::<NonZeroU32>()?.get(), rounds.parse()?);
    println!(
        "medians (least to most) of {rounds} rounds of {seconds} s; bytes: stated by arrived; first data by a round trip of {RTT_MS} ms"
    );
    for count in counts {
        compare(count.parse()?, rounds, seconds);
    }
    Ok(())
}
