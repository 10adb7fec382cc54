//! Runs over veth pairs, against the responder: access side a - b, far side c - d.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use weir_cpe::responder::serve;
use weir_cpe::run::{Interfaces, run};
use weir_cpe::{Lines, Load, Mac, Method, Options, Pppoe, SHORTEST_FRAME, SHORTEST_FRAME6, Summary};
use weir_linux::namespace::Namespace;
use weir_testkit::need_root;
use weir_testkit::wires::{Wire, join, keep_quiet, set_up};

/// The namespace of the emulator with interfaces a and c, and that of the BNG with b and d.
pub(crate) struct Street {
    pub(crate) devices: Namespace,
    pub(crate) bng: Namespace,
}

impl Street {
    /// `None`, aloud, where that is not allowed.
    pub(crate) fn new() -> Option<Street> {
        need_root!(return None);
        let street = Street { devices: Namespace::new().unwrap(), bng: Namespace::new().unwrap() };
        for (number, (here, there)) in (0..).zip([("a", "b"), ("c", "d")]) {
            let ends = [(&street.devices, here), (&street.bng, there)];
            join(ends, Wire { number, queues: 1 });
            ends.iter().for_each(|end| keep_quiet(*end));
            ends.iter().for_each(|end| set_up(*end, true));
        }
        Some(street)
    }

    /// Makes a run while the responder is the BNG.
    fn run(&self, options: Options) -> Summary {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let responder = {
            let stop = stop.clone();
            // The far end of wire 1 is c.
            let far_mac = Mac([2, 0, 0, 0, 1, 1]);
            self.bng.spawn("responder", move || {
                serve("b", Some(("d", far_mac)), &stop, || ready.send(()).unwrap())
            })
        };
        is_ready.recv().unwrap();
        let summary = self.devices.run(|| emulate(options));
        stop.store(true, Ordering::Relaxed);
        responder.unwrap().join().unwrap().unwrap();
        summary
    }
}

pub(crate) fn emulate(options: Options) -> Summary {
    let far = options.own_far.then_some("c");
    let interfaces = Interfaces { access: "a", far, tap: None };
    run(options, &interfaces, &AtomicBool::new(false), &mut |_| ()).unwrap()
}

fn with_far(devices: u32) -> Options {
    let far = Some("198.18.0.2:7".parse().unwrap());
    Options { rate_per_s: 2000.0, far, own_far: true, release: true, ..Options::new(devices) }
}

#[test]
fn devices_come_up_and_their_first_packets_arrive() {
    let Some(street) = Street::new() else { return };
    for lines in ["untagged", "7", "100-101.1-4"] {
        let lines: Lines = lines.parse().unwrap();
        let summary = street.run(Options { lines, ..with_far(10) });
        assert!(summary.is_clean(), "{lines}: {summary:?}");
        assert_eq!((summary.up, summary.released), (10, 10), "{lines}");
        let (setup, first) = (summary.setup.unwrap(), summary.first_packet.unwrap());
        assert!(setup.p50 <= first.p50 && first.p50 <= first.max, "{summary:?}");
    }
}

#[test]
fn numbered_traffic_is_accounted_for_in_both_directions() {
    let Some(street) = Street::new() else { return };
    let load = Load { from_subscriber_fps: 50.0, to_subscriber_fps: 100.0, frame_bytes: SHORTEST_FRAME };
    let lines: Lines = "100.1-4094".parse().unwrap();
    let hold = Some(Duration::from_millis(300));
    let summary = street.run(Options { lines, load: Some(load), hold, ..with_far(20) });
    assert!(summary.is_clean(), "{summary:?}");
    for (traffic, least) in [(summary.from_subscriber, 20), (summary.to_subscriber, 40)] {
        let traffic = traffic.unwrap();
        assert!(traffic.sent >= least, "{traffic:?}");
        let faults = (traffic.lost(), traffic.duplicated, traffic.reordered, traffic.sessions_with_loss);
        assert_eq!(faults, (0, 0, 0, 0), "{traffic:?}");
    }
}

/// Devices that dial in.
fn dialling(pppoe: Pppoe, devices: u32) -> Options {
    Options { pppoe: Some(pppoe), timeout: Duration::from_secs(3), ..with_far(devices) }
}

#[test]
fn devices_dial_in_by_each_method_and_their_first_packets_arrive() {
    let Some(street) = Street::new() else { return };
    let rows = [
        ("untagged", Method::Pap, false, 1492),
        ("7", Method::ChapMd5, true, 1492),
        ("100-101.1-4", Method::MsChapV2, true, 1500),
    ];
    for (lines, method, dual_stack, max_payload) in rows {
        let pppoe = Pppoe { methods: vec![method], dual_stack, max_payload, ..Pppoe::default() };
        let circuit = Some(weir_cpe::Template("olt1/{n}".into()));
        let lines: Lines = lines.parse().unwrap();
        let summary = street.run(Options { lines, circuit, ..dialling(pppoe, 10) });
        assert!(summary.is_clean(), "{lines}: {summary:?}");
        assert_eq!((summary.up, summary.released, summary.messages.padts), (10, 10, 10), "{lines}");
        assert_eq!(summary.prefixes, if dual_stack { 10 } else { 0 }, "{lines}");
        assert_eq!(summary.messages.unexpected, 0, "{summary:?}");
        let (setup, first) = (summary.setup.unwrap(), summary.first_packet.unwrap());
        assert!(setup.p50 <= first.p50 && first.p50 <= first.max, "{summary:?}");
    }
}

#[test]
fn numbered_traffic_and_echoes_pass_through_sessions() {
    let Some(street) = Street::new() else { return };
    let load = Load { from_subscriber_fps: 50.0, to_subscriber_fps: 100.0, frame_bytes: 1506 };
    let pppoe = Pppoe { echo: Some(Duration::from_millis(100)), ..Pppoe::default() };
    let lines: Lines = "100-200".parse().unwrap();
    let hold = Some(Duration::from_millis(300));
    let summary = street.run(Options { lines, load: Some(load), hold, ..dialling(pppoe, 20) });
    assert!(summary.is_clean(), "{summary:?}");
    for (traffic, least) in [(summary.from_subscriber, 20), (summary.to_subscriber, 40)] {
        let traffic = traffic.unwrap();
        assert!(traffic.sent >= least, "{traffic:?}");
        let faults = (traffic.lost(), traffic.duplicated, traffic.reordered, traffic.sessions_with_loss);
        assert_eq!(faults, (0, 0, 0, 0), "{traffic:?}");
    }
    let messages = summary.messages;
    assert!(messages.echo_replies >= 20 && messages.echo_replies <= messages.echoes, "{messages:?}");
}

#[test]
fn every_second_frame_is_of_ipv6_where_the_far_end_has_an_address_of_it() {
    let Some(street) = Street::new() else { return };
    let load = Load { from_subscriber_fps: 50.0, to_subscriber_fps: 50.0, frame_bytes: SHORTEST_FRAME6 };
    let pppoe = Pppoe { dual_stack: true, ..Pppoe::default() };
    let (lines, far6) = ("100-200.7".parse().unwrap(), "2001:db8:ff::2".parse().ok());
    let hold = Some(Duration::from_millis(300));
    let summary = street.run(Options { lines, far6, load: Some(load), hold, ..dialling(pppoe, 20) });
    assert!(summary.is_clean(), "{summary:?}");
    for traffic in [summary.from_subscriber, summary.to_subscriber] {
        let traffic = traffic.unwrap();
        assert!(traffic.sent6 >= 20 && traffic.sent6.abs_diff(traffic.sent / 2) <= 20, "{traffic:?}");
        assert_eq!((traffic.lost(), traffic.received6), (0, traffic.sent6), "{traffic:?}");
    }
}

#[test]
fn sessions_end_and_come_again_and_their_packets_arrive() {
    let Some(street) = Street::new() else { return };
    let load = Load { from_subscriber_fps: 20.0, to_subscriber_fps: 20.0, frame_bytes: SHORTEST_FRAME };
    let hold = Some(Duration::from_secs(3));
    let churn = Some(Duration::from_secs(1));
    for options in [dialling(Pppoe::default(), 30), with_far(30)] {
        let summary = street.run(Options { churn, hold, load: Some(load), ..options });
        assert!(summary.is_clean(), "{summary:?}");
        let churn = summary.churn.unwrap();
        assert!(churn.ended >= 20 && churn.up_again <= churn.ended, "{churn:?}");
        assert!(churn.up_again * 2 >= churn.ended, "{churn:?}");
        assert!(summary.from_subscriber.unwrap().received > 0, "{summary:?}");
    }
}

#[test]
fn devices_with_dhcp_are_up_after_the_monkey() {
    let Some(street) = Street::new() else { return };
    let (monkey, hold, timeout) = (Some(1), Some(Duration::from_secs(1)), Duration::from_millis(200));
    let summary = street.run(Options { monkey, hold, timeout, ..with_far(20) });
    assert!(summary.is_clean(), "{summary:?}");
    let monkey = summary.monkey.unwrap();
    assert_eq!((monkey.power_cuts, monkey.up_at_end), (1, 20), "{monkey:?}");
}

#[test]
fn a_wrong_password_fails_at_auth() {
    let Some(street) = Street::new() else { return };
    let pppoe = Pppoe { password: weir_cpe::Template("wrong".into()), ..Pppoe::default() };
    let summary = street.run(dialling(pppoe, 3));
    assert_eq!((summary.up, &summary.failures[..]), (0, &[(weir_cpe::Step::Auth, 3)][..]), "{summary:?}");
}

#[test]
fn a_stop_ends_a_run_that_holds_its_sessions() {
    let Some(street) = Street::new() else { return };
    let stop = AtomicBool::new(false);
    let options = Options { hold: None, timeout: Duration::from_millis(20), tries: 2, ..Options::new(2) };
    let summary = street.devices.run(|| {
        let interfaces = Interfaces { access: "a", far: None, tap: None };
        let mut observe = |event: weir_cpe::run::Event<'_>| {
            if let weir_cpe::run::Event::Progress(emulator) = event {
                stop.store(emulator.failed() == 2, Ordering::Relaxed);
            }
        };
        run(options, &interfaces, &stop, &mut observe).unwrap()
    });
    assert_eq!(summary.failures, [(weir_cpe::Step::Discover, 2)]);
    assert_eq!(summary.retransmissions.discover, 2);
    assert!(!summary.is_clean());
}
