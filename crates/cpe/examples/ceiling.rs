//! The ceiling of the emulator itself: the highest rates at which nothing fails, with the smallest responder in place of a BNG, over veth
//! pairs between two namespaces. `sessions 64000 2000` holds so many sessions of PPPoE and shows the memory. Needs root.
//!
//! ```text
//!  emulator [a] ---- [b] responder [d] ---- [c] far end of the emulator
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use weir_cpe::responder::serve;
use weir_cpe::run::{Interfaces, run};
use weir_cpe::{Load, Mac, Options, Pppoe, SHORTEST_FRAME, Summary};
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Rtnl, VethConfig, VethEnd};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Sessions between which frames travel.
const SESSIONS: u32 = 1000;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let sessions = match words[..] {
        ["measure"] => None,
        ["sessions", count, rate] => Some((count.parse()?, rate.parse()?)),
        _ => {
            println!("ceiling measure\nceiling sessions COUNT RATE");
            return Ok(());
        }
    };
    let street = match Street::new() {
        Ok(street) => street,
        Err(error) => {
            println!("not measured: namespaces and veth pairs need root ({error})");
            return Ok(());
        }
    };
    if let Some((count, rate_per_s)) = sessions {
        return hold(&street, count, rate_per_s);
    }
    for (name, pppoe) in [("DHCP", None), ("PPPoE, CHAP, dual stack", Some(dual_stack()))] {
        println!("{name}\nset-ups/s asked  reached  first packet p50, p99, max ms  again  failed");
        for rate in [1000, 2000, 5000, 10_000, 20_000, 40_000] {
            let pppoe = pppoe.clone();
            if !set_ups(&street, f64::from(rate), Options { pppoe, ..with_far(rate / 2) })? {
                break;
            }
        }
        println!();
    }
    println!("frames/s asked each way  sent from, received  sent to, received");
    for fps in [25_000, 50_000, 100_000, 200_000] {
        let each = f64::from(fps) / f64::from(SESSIONS);
        let load = Load { from_subscriber_fps: each, to_subscriber_fps: each, frame_bytes: SHORTEST_FRAME };
        let hold = Some(Duration::from_secs(1));
        let summary =
            street.run(Options { load: Some(load), hold, rate_per_s: 5000.0, ..with_far(SESSIONS) })?;
        let [from, to] = [summary.from_subscriber, summary.to_subscriber].map(Option::unwrap_or_default);
        println!("{fps:23} {:10} {:9} {:8} {:9}", from.sent, from.received, to.sent, to.received);
    }
    Ok(())
}

/// So many sessions of PPPoE, and the memory of emulator and responder together.
fn hold(street: &Street, count: u32, rate_per_s: f64) -> Result<(), Failure> {
    let hold = Some(Duration::from_secs(5));
    let summary = street.run(Options { rate_per_s, hold, pppoe: Some(dual_stack()), ..with_far(count) })?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{} of {count} up, failures {:?}, {peak}", summary.up, summary.failures);
    Ok(())
}

fn dual_stack() -> Pppoe {
    Pppoe { dual_stack: true, ..Pppoe::default() }
}

/// A row: devices that start at this rate. False: less than half of it was reached.
fn set_ups(street: &Street, rate_per_s: f64, options: Options) -> Result<bool, Failure> {
    let summary = street.run(Options { rate_per_s, hold: Some(Duration::ZERO), ..options })?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (reached, again) = (summary.setups_per_s.unwrap_or(0.0), summary.retransmissions);
    let [p50, p99, max] =
        summary.first_packet.map_or([0.0; 3], |first| [first.p50, first.p99, first.max].map(ms));
    let again =
        [again.discover, again.request, again.arp, again.padi, again.padr, again.ppp, again.first_packet];
    println!(
        "{rate_per_s:15} {reached:8.0} {p50:10.2} {p99:7.2} {max:7.2} {:14} {:7}",
        again.iter().sum::<u64>(),
        summary.failed()
    );
    Ok(reached >= rate_per_s / 2.0)
}

fn with_far(devices: u32) -> Options {
    let far = "198.18.0.2:7".parse().ok();
    Options {
        far,
        own_far: true,
        timeout: Duration::from_secs(1),
        tries: 3,
        lines: "100-199.1-4094".parse().unwrap_or_default(),
        ..Options::new(devices)
    }
}

struct Street {
    devices: Namespace,
    bng: Namespace,
}

impl Street {
    fn new() -> Result<Street, Failure> {
        let street = Street { devices: Namespace::new()?, bng: Namespace::new()? };
        for (number, (here, there)) in (0..).zip([("a", "b"), ("c", "d")]) {
            let ends = [(&street.devices, here, 1), (&street.bng, there, 2)];
            let veth = ends.map(|(namespace, name, end)| VethEnd {
                name,
                mac: [2, 0, 0, 0, number, end],
                namespace: namespace.fd(),
            });
            let config = VethConfig { mtu: 1500, queues: 1 };
            street.devices.run(|| Rtnl::open()?.add_veth(veth, config))?;
            for (namespace, name, _) in ends {
                namespace.run(|| -> Result<(), weir_linux::Error> {
                    let mut rtnl = Rtnl::open()?;
                    let index = rtnl.link(name)?.ifindex;
                    rtnl.keep_quiet(index)?;
                    rtnl.set_up(index, true)
                })?;
            }
        }
        Ok(street)
    }

    fn run(&self, options: Options) -> Result<Summary, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let responder = {
            let stop = stop.clone();
            let far = Some(("d", Mac([2, 0, 0, 0, 1, 1])));
            self.bng
                .spawn("responder", move || serve("b", far, &stop, || ready.send(()).unwrap_or_default()))?
        };
        is_ready.recv()?;
        let interfaces = Interfaces { access: "a", far: Some("c"), tap: None };
        let summary = self.devices.run(|| run(options, &interfaces, &AtomicBool::new(false), &mut |_| ()));
        stop.store(true, Ordering::Relaxed);
        responder.join().map_err(|_| "the responder panicked")??;
        Ok(summary?)
    }
}
