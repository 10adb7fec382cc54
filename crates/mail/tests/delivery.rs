//! Engine, receivers and name server as processes: each recipient has one outcome, whatever happens.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::process::{Command, Stdio};

use weir_mail::dns::{self, NameServer, Zone};
use weir_mail::engine::{Manner, Order, Patience, PerDomain, Report, Retry, Route};
use weir_mail::flood::{Flood, Taken};
use weir_mail::log::Durability;
use weir_mail::sink::{self, Faults, Received, Service};
use weir_mail::{Ending, Job, StartTls, command};
use weir_testkit::{Folder, Started};

const PROGRAM: &str = env!("CARGO_BIN_EXE_weir-mail");

/// A process of the crate, with input.
fn start(mut command: Command) -> Started {
    command.stdin(Stdio::piped());
    Started::new(command)
}

/// A receiver and a name server for 50 domains.
struct World {
    sink: Started,
    names: Started,
    at: SocketAddr,
    names_at: SocketAddr,
}

impl World {
    fn new(service: Service, odd: f64) -> World {
        let mut sink = start(command::sink(Path::new(PROGRAM), &service));
        let at = sink.json::<sink::Listening>(command::READY).at;
        let zone = Zone { domains: 50, first: Ipv4Addr::LOCALHOST, addresses: 1, odd };
        let server = NameServer { listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), zone };
        let mut names = start(command::names(Path::new(PROGRAM), &server));
        let names_at = names.json::<dns::Listening>(command::READY).at;
        World { sink, names, at, names_at }
    }

    fn order(&self) -> Order {
        Order {
            job: Job { recipients: 2000, domains: 50, skew: 1.0 },
            messages: 1,
            route: Route::Mx { server: self.names_at, port: self.at.port() },
            connections: 40,
            rate: None,
            threads: 2,
            per_transaction: 7,
            per_domain: PerDomain { connections: 5, recipients: 50 },
            retry: Retry { attempts: 8, after_s: 0.001 },
            manner: Manner {
                helo: "weir.test".into(),
                from: "a@weir.test".into(),
                pipelining: true,
                tls: StartTls::Never,
                ending: Ending::Rset,
            },
            patience: Patience::default(),
            log: None,
            window: None,
            beside: None,
        }
    }

    /// What was received, when all is over.
    fn end(mut self) -> Received {
        drop(self.sink.child.stdin.take());
        drop(self.names.child.stdin.take());
        assert!(self.names.child.wait().unwrap().success());
        self.sink.json(command::DONE)
    }
}

fn deliver(order: &Order) -> Report {
    start(command::engine(Path::new(PROGRAM), order)).json(command::DONE)
}

fn outcomes(report: &Report) -> [u64; 3] {
    ["delivered", "failed", "expired"].map(|name| report.outcomes[name])
}

#[test]
fn everybody_is_delivered_to_and_the_receivers_agree() {
    let manner = |order: &Order| order.manner.clone();
    for (name, tls, change) in [
        ("pipelined", false, &(|order: Order| order) as &dyn Fn(Order) -> Order),
        ("one by one", false, &|order| Order {
            manner: Manner { pipelining: false, ..manner(&order) },
            ..order
        }),
        ("a message", false, &|order| Order {
            manner: Manner { ending: Ending::Data(5000), ..manner(&order) },
            ..order
        }),
        ("TLS", true, &|order| Order {
            manner: Manner { tls: StartTls::Required, ..manner(&order) },
            ..order
        }),
    ] {
        let world = World::new(Service { tls, threads: 2, ..Service::default() }, 0.0);
        let report = deliver(&change(world.order()));
        let received = world.end();
        assert_eq!((outcomes(&report), report.unfinished), ([2000, 0, 0], 0), "{name}: {report:?}");
        assert_eq!((received.recipients, received.transactions), (2000, report.transactions), "{name}");
        assert!(report.open_max <= 40, "{name}: {report:?}");
        assert!(name != "a message" || received.bytes > report.transactions * 5000, "{received:?}");
    }
}

#[test]
fn faults_of_receivers_and_domains_lead_to_the_outcomes_that_they_should() {
    let faults = Faults { refuse: 0.1, defer: 0.1, busy: 0.05, cut: 0.01 };
    let world = World::new(Service { faults, ..Service::default() }, 0.3);
    let report = deliver(&world.order());
    let received = world.end();
    let [delivered, failed, expired] = outcomes(&report);
    assert_eq!(delivered + failed + expired, 2000, "{report:?}");
    // A transaction that was cut off counts on neither side.
    assert_eq!(delivered, received.recipients, "{report:?}");
    let some = |name: &str| report.troubles.get(name).copied().unwrap_or(0);
    assert_eq!(failed, some("550 to RCPT") + some("domain takes no mail"), "{report:?}");
    for name in ["450 to RCPT", "421 to greeting", "no answer from the name server"] {
        assert!(some(name) > 0, "{name}: {report:?}");
    }
}

#[test]
fn killed_again_and_again_it_records_one_outcome_for_each() {
    let faults = Faults { refuse: 0.1, defer: 0.2, ..Faults::default() };
    let world = World::new(Service { faults, delay_s: 0.001, ..Service::default() }, 0.2);
    let folder = Folder::new();
    let log = folder.join("log");
    let order = Order { log: Some((log.clone(), Durability::Process)), ..world.order() };
    let lines = || std::fs::read_to_string(&log).unwrap_or_default().lines().count().saturating_sub(1);
    // Killed whenever there are some more lines: each time at another place of whatever it does.
    for more in [1, 150, 37, 220, 500] {
        let (before, mut engine) = (lines(), start(command::engine(Path::new(PROGRAM), &order)));
        while lines() < before + more && engine.child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        engine.child.kill().unwrap();
        engine.child.wait().unwrap();
    }
    let before = lines();
    let report = deliver(&order);
    assert_eq!((report.unfinished, report.before), (0, before as u64), "{report:?}");
    let text = std::fs::read_to_string(&log).unwrap();
    let ids: Vec<u64> =
        text.lines().skip(1).map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    let unique: std::collections::BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!((ids.len(), unique.len(), unique.last()), (2000, 2000, Some(&1999)));
    let again = deliver(&order);
    assert_eq!((again.before, again.connections), (2000, 0), "nothing is left to do");
    world.end();
}

#[test]
fn what_cannot_work_is_said_before_anything_is_sent() {
    let world = World::new(Service::default(), 0.0);
    let many = Order { connections: 3_000_000, ..world.order() };
    let folder = Folder::new();
    let log = folder.join("log");
    let twice = Order { messages: 2, log: Some((log.clone(), Durability::Process)), ..world.order() };
    let nowhere = Order { log: Some(("/nowhere/log".into(), Durability::Process)), ..world.order() };
    for (order, text) in [(many, "ulimit -n 3000064"), (twice, "send one message"), (nowhere, "/nowhere/log")]
    {
        let error = start(command::engine(Path::new(PROGRAM), &order)).end().said;
        assert!(error.contains(text), "{error}");
    }
    assert_eq!(world.end().connections, 0);
}

#[test]
fn a_flood_shows_what_receivers_take() {
    let world = World::new(Service::default(), 0.0);
    let flood = Flood { to: world.at, connections: 3, group: 20, seconds: 0.05 };
    let taken: Taken = start(command::flood(Path::new(PROGRAM), &flood)).json(command::DONE);
    let received = world.end();
    assert!(taken.transactions >= 60, "{taken:?}");
    assert_eq!((received.transactions, received.connections), (taken.transactions, 3));
}
