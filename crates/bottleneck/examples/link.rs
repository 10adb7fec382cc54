//! How fast and how exact a bottleneck is on one CPU: `link SECONDS [SETTING=VALUE ...]` makes three namespaces, sends UDP of
//! 1500-byte packets at 1.2 times the rate (1gbit unless a setting says otherwise) through a bottleneck on the last CPU, and
//! prints what it did. Needs root. Without words: its use.
//!
//! ```text
//!  sender, other CPUs - veth - [ bottleneck, last CPU ] - veth - receiver
//! ```

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_bottleneck::{Bridge, Observe, Outcome, Settings, chunks_for, run};
use weir_linux::rtnl::Rtnl;
use weir_port::duplex::{Packet, Pool, ReceiveMode};
use weir_port::thread;
use weir_testbed::graph::{BOTTLENECK, Graph};

type Failure = Box<dyn std::error::Error>;

/// A UDP payload that fills 1500 bytes of IPv4.
const PAYLOAD: usize = 1472;
/// A frame with its Ethernet header, in bits.
const FRAME_BITS: f64 = 1514.0 * 8.0;
/// Offered, by the rate of the link: the queue is never empty.
const OVERLOAD: f64 = 1.2;
/// Packets between two looks at the clock.
const BURST: u32 = 16;
const SENDER: &str = "198.18.0.1";
const RECEIVER: &str = "198.18.0.254";

/// Sender, bottleneck, receiver. Both stations know each other: an ARP request without an answer takes a second.
fn connected() -> Result<Graph, Failure> {
    let graph = Graph::connected(BOTTLENECK)?;
    for (own, address, other) in [("s0", SENDER, "r0"), ("r0", RECEIVER, "s0")] {
        let (own, other) = (graph.end(own), graph.end(other));
        own.add_address(address.parse()?, 24)?;
        let there = if address == SENDER { RECEIVER } else { SENDER }.parse()?;
        own.namespace.run(|| Rtnl::open()?.add_neighbour(own.ifindex, there, other.mac))?;
    }
    Ok(graph)
}

/// Sends at this rate until it is stopped.
fn send(socket: &UdpSocket, bits_per_s: f64, stop: &AtomicBool) {
    let burst = Duration::from_secs_f64(f64::from(BURST) * FRAME_BITS / bits_per_s);
    let _ = thread::exact_waits();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // Not by looking at the clock: what else runs on this machine then has a CPU beside that of the bottleneck.
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // What the socket has no room for is not sent: the queue stays full for longer than that.
        (0..BURST).for_each(|_| drop(socket.send(&[0; PAYLOAD])));
        due = (due + burst).max(Instant::now() - burst * 8);
    }
}

fn failed(error: impl ToString) -> String {
    error.to_string()
}

fn measure(seconds: f64, settings: Settings) -> Result<Outcome, Failure> {
    let graph = connected()?;
    let [sender, middle, receiver] = ["sender", "middle", "receiver"].map(|name| graph.host(name));
    let cpus = std::thread::available_parallelism()?.get();
    let sink = receiver.run(|| UdpSocket::bind((RECEIVER, 9)))?;
    let bits_per_s = settings.rate.nominal() as f64 * OVERLOAD;
    let stop = Arc::new(AtomicBool::new(false));
    let socket = sender.run(|| {
        let socket = UdpSocket::bind((SENDER, 0))?;
        socket.connect((RECEIVER, 9)).map(|()| socket)
    })?;
    let stopped = stop.clone();
    let traffic = sender.spawn("traffic", move || {
        let _ = thread::pin_to(0);
        send(&socket, bits_per_s, &stopped);
    })?;
    let link = middle.spawn("bottleneck", move || -> Result<Outcome, String> {
        thread::prefer().map_err(failed)?;
        thread::pin_to(cpus - 1).map_err(failed)?;
        let ports = [
            Packet::open("m0", 1522, ReceiveMode::Promiscuous).map_err(failed)?,
            Packet::open("m1", 1522, ReceiveMode::Promiscuous).map_err(failed)?,
        ];
        let pool = Pool::new(chunks_for(&settings), 1522).map_err(failed)?;
        let mut bridge = Bridge::new(ports.map(|port| Box::new(port) as _), pool, settings, false)?;
        let observe = Observe {
            stop: &AtomicBool::new(false),
            changes: None,
            interval: Duration::from_secs(1),
            duration: Some(Duration::from_secs_f64(seconds)),
            see: &mut |_| (),
            changed: &mut |_, _| (),
        };
        run(&mut bridge, observe).map_err(failed)
    })?;
    let outcome = link.join().map_err(|_| "the bottleneck has panicked")?;
    stop.store(true, Ordering::Relaxed);
    traffic.join().map_err(|_| "the sender has panicked")?;
    drop(sink);
    Ok(outcome?)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, changes @ ..] = &words[..] else {
        println!("link SECONDS [SETTING=VALUE ...]");
        return Ok(());
    };
    let mut settings = Settings::default();
    for (name, value) in [("rate", "1gbit"), ("delay", "1ms"), ("buffer", "1ms"), ("back-rate", "none")] {
        settings.set(name, value)?;
    }
    for word in changes {
        let (name, value) = word.split_once('=').ok_or("a setting is written as NAME=VALUE")?;
        settings.set(name, value)?;
    }
    let rate = settings.rate.nominal();
    let outcome = measure(seconds.parse()?, settings)?;
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    let there = &outcome.directions[0];
    eprintln!(
        "{:.1} of {:.1} Mbit/s, {:.0} frames/s; lateness p99 {} ns of a slot of {} ns; {}",
        there.bits_per_s / 1e6,
        rate as f64 / 1e6,
        there.sent as f64 / outcome.duration_s,
        there.lateness_ns.p99,
        there.slot_ns,
        if outcome.valid { "valid" } else { "not valid" }
    );
    Ok(())
}
