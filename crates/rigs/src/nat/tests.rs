//! NATs in test beds: those that work are found right, and each mistake is found, counted and shown.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_linux::conntrack;
use weir_load::counts::Load;
use weir_load::translation::{Evidence, NatFault, Outside};
use weir_load::xdp::clashes;
use weir_load::{Control, TesterKind};
use weir_packet::flow::{Direction, Flow, FlowOrder, IpVersion};
use weir_port::pcapng::read::{Item, Reader};
use weir_testbed::dut::DutKind;
use weir_testbed::journal::{self, Journal};
use weir_testbed::topology::Side;
use weir_testkit::{Folder, need_root};

use super::flows::Ranges;
use super::judged::{self, Seen};
use super::{evidence, figure};
use weir_lab::frames::setup::FIRST_HOST;
use weir_lab::frames::{Limits, PointSpec, Settings, Setup};
use weir_record::record::{Purpose, Translation, Trial};

const FLOWS: u32 = 100;
/// No more than the rings of the device hold, however late it comes to them.
const FRAMES: u64 = 200;

/// Frames that are reflected behind a NAT.
fn spec(dut: DutKind) -> PointSpec {
    let traffic = PointSpec::plain(dut, 128, FLOWS);
    let ip = dut.ip_on(Side::A, IpVersion::V4);
    PointSpec { direction: Direction::Reflect, order: FlowOrder::Unique, keeps_whole: true, ip, ..traffic }
}

/// A NAT that does wrong as `faults` says.
pub(super) fn device(spec: &PointSpec, faults: &str) -> Setup {
    let settings = Settings {
        tester: TesterKind::Xdp,
        seed: 1,
        limits: Limits::default(),
        external: None,
        tsc_hz: None,
    };
    let mut journal = Journal::in_dir(&journal::default_dir());
    Setup::build(spec, &settings, &faults.parse().unwrap(), &mut journal).unwrap()
}

/// A NAT with its flows, all of them to one destination.
fn build(spec: &PointSpec, faults: &str) -> Setup {
    let mut setup = device(spec, faults);
    let ranges = Ranges { flows: FLOWS, subscribers: FLOWS, destinations: 1, destination_ports: 1 };
    setup.check_translation(ranges.list(FlowOrder::Unique, 1), &[]).unwrap();
    setup
}

/// A trial in which no frame was lost that was translated rightly: a machine that is busy may need a few.
fn trial(setup: &mut Setup) -> (Trial, Translation) {
    for n in 1..=10 {
        // What a NAT does wrong never arrives, and is waited for.
        let load = Load {
            max_frames: Some(FRAMES),
            drain: Some(n * Duration::from_millis(200)),
            ..Load::steady(5e3, Duration::from_secs(1))
        };
        let stop = AtomicBool::new(false);
        let trial = setup.trial(&load, Purpose::Procedure, &Control::new(&stop, &|_, _| {})).unwrap();
        let seen: Translation = trial.detail().expect("it is checked");
        let wrong: u64 =
            seen.faults.iter().filter(|(fault, _)| *fault != NatFault::Clashed).map(|(_, n)| n).sum();
        if trial.counts().sent == FRAMES && trial.counts().lost == wrong {
            return (trial, seen);
        }
    }
    panic!("frames were lost in each of 10 trials");
}

#[test]
fn nats_that_work_are_found_right() {
    need_root!();
    let nats = DutKind::ALL.into_iter().map(|(kind, _)| kind).filter(|kind| kind.translates());
    for dut in nats.chain([DutKind::WIRE]) {
        let mut setup = build(&spec(dut), "");
        let (trial, seen) = trial(&mut setup);
        let flows = u64::from(FLOWS);
        let expected = Translation {
            outside: FRAMES,
            flows,
            inside: FRAMES,
            flows_inside: flows,
            ..Translation::default()
        };
        assert_eq!(seen, expected, "{dut}");
        assert_eq!(trial.counts().received, FRAMES, "{dut}");
        let outside: Vec<Option<Outside>> = setup.outside_tuples();
        assert_eq!(outside.iter().flatten().count(), FLOWS as usize, "{dut}: each flow has an outside tuple");
        assert_eq!(clashes(setup.flows(), &outside), [], "{dut}");
        assert_eq!(setup.evidence(), [], "{dut}");
    }
}

/// What such a NAT is found to do, and the frames that show it.
fn check(faults: &str, expected: impl Fn(&[(NatFault, u64)]) -> bool) -> Vec<Evidence> {
    let mut setup = build(&spec(DutKind::PREFIX_NAT), faults);
    let (trial, seen) = trial(&mut setup);
    assert!(expected(&seen.faults), "{faults}: {:?}", seen.faults);
    assert_eq!(trial.counts().received, seen.inside, "{faults}: what is wrong counts as lost");
    assert_eq!(trial.counts().unexplained, 0, "{faults}: the accounting names what is lost");
    let said = judged::mistakes(Seen::of(&trial));
    assert!(said.iter().all(|text| text.starts_with("broken NAT: ")), "{said:?}");
    let evidence = setup.evidence();
    assert!(
        !evidence.is_empty() && evidence.iter().all(|one| seen.faults.iter().any(|(f, _)| *f == one.fault))
    );
    assert_eq!(
        frames_of(faults, &evidence),
        evidence.iter().map(|one| one.bytes.clone()).collect::<Vec<_>>()
    );
    evidence
}

/// The frames in the capture file of the evidence.
fn frames_of(faults: &str, evidence: &[Evidence]) -> Vec<Vec<u8>> {
    let name = faults.replace(['=', '/'], "-");
    let folder = Folder::new();
    let path = evidence::write(&folder.join("evidence"), &format!("{name}.pcapng"), evidence).unwrap();
    let mut reader = Reader::open(std::fs::File::open(&path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Packet(packet) = item {
            frames.push(packet.bytes.to_vec());
        }
    }
    frames
}

fn source(frame: &[u8]) -> Ipv4Addr {
    Ipv4Addr::new(frame[26], frame[27], frame[28], frame[29])
}

/// All flows have the same port and leave with it one after the other, since the kernel keeps a port that is free, and each entry
/// is deleted while the others are sent: the tuple of the first flow is that of a later one, and no NAT is broken.
#[test]
fn a_tuple_whose_entry_has_ended_is_free_for_another_flow() {
    need_root!();
    let mut setup = device(&spec(DutKind::KERNEL_NAT), "");
    let host = |n| Flow { src: FIRST_HOST[0] + n, dst: FIRST_HOST[1], sport: 5000, dport: 1, group: 0 };
    setup.check_translation((0..FLOWS).map(host).collect(), &[]).unwrap();
    let dut = setup.bed().dut().expect("a kernel").clone();
    let flushed = AtomicBool::new(false);
    let flush = |sent, _| {
        if sent > 0 && sent < u64::from(FLOWS) && !flushed.swap(true, Ordering::Relaxed) {
            dut.run(conntrack::flush).unwrap();
        }
    };
    for _ in 0..10 {
        flushed.store(false, Ordering::Relaxed);
        setup.reset().unwrap();
        let stop = AtomicBool::new(false);
        // Progress is reported ten times a second.
        let load = Load { max_frames: Some(FLOWS.into()), ..Load::steady(200.0, Duration::from_secs(5)) };
        let trial = setup.trial(&load, Purpose::Procedure, &Control::new(&stop, &flush)).unwrap();
        let seen = Seen::of(&trial).expect("it is checked");
        // An answer that is under way while the entries are deleted may take the tuple.
        if seen.translation.faults != [(NatFault::Clashed, 1)] {
            continue;
        }
        assert!(judged::mistakes([seen.clone()]).is_empty(), "{seen:?}");
        let said = judged::ended_entries([seen]).expect("entries have ended");
        assert!(said.contains("1 flow got the outside tuple of an entry that had ended"), "{said}");
        return;
    }
    panic!("the tuple was used again in none of 10 trials");
}

#[test]
fn a_nat_that_leaks_frames_is_broken() {
    need_root!();
    let evidence = check("leak=1/10", |found| found == [(NatFault::Leaked, FRAMES / 10)]);
    assert!(evidence.iter().all(|one| source(&one.bytes).octets()[..2] == [198, 18]), "{evidence:?}");
}

#[test]
fn a_nat_that_gives_two_flows_one_tuple_is_broken() {
    need_root!();
    // Subscribers 0, 16, .. 96: seven, of which six come second.
    let evidence = check("clash=1/16", |found| found.contains(&(NatFault::Clashed, 6)));
    let clashed: Vec<&Evidence> = evidence.iter().filter(|one| one.fault == NatFault::Clashed).collect();
    let flows: std::collections::HashSet<u32> = clashed.iter().map(|one| one.flow).collect();
    assert!(flows.len() >= 2, "frames of both flows are kept: {flows:?}");
    let tuples: std::collections::HashSet<&[u8]> = clashed.iter().map(|one| &one.bytes[26..38]).collect();
    assert_eq!(tuples.len(), 1, "one outside tuple");
}

#[test]
fn a_nat_that_answers_somebody_else_is_broken() {
    need_root!();
    let evidence =
        check("wrong-subscriber=1/10", |found| found == [(NatFault::WrongSubscriber, FRAMES / 10)]);
    assert!(evidence.iter().all(|one| !one.fault.is_outside()), "answers are seen inside: {evidence:?}");
}

#[test]
fn a_nat_that_changes_tuples_is_broken() {
    need_root!();
    // It knows nothing of its changes when the answers come.
    check("remap=1/15", |found| found.iter().any(|(fault, n)| *fault == NatFault::Remapped && *n > 0));
}

#[test]
fn the_responder_learns_the_tuples_that_it_answers() {
    need_root!();
    for dut in [DutKind::KERNEL_NAT, DutKind::NODE_NAT, DutKind::NODE_NAT64, DutKind::NODE_NAT_FAST] {
        let spec = PointSpec { direction: Direction::Both, ..spec(dut) };
        let mut setup = build(&spec, "");
        let flows = u64::from(FLOWS);
        let load = |only| Load {
            only,
            max_frames: Some(flows),
            drain: Some(Duration::from_secs(2)),
            ..Load::steady(5e3, Duration::from_secs(1))
        };
        let one = |setup: &mut Setup, only, expected: fn(&Translation) -> u64| {
            let mut lost = Vec::new();
            for _ in 0..10 {
                let stop = AtomicBool::new(false);
                let control = Control::new(&stop, &|_, _| {});
                let trial = setup.trial(&load(only), Purpose::Procedure, &control).unwrap();
                let seen: Translation = trial.detail().expect("it is checked");
                assert_eq!(seen.faults, [], "{dut}");
                if expected(&seen) == flows {
                    return trial;
                }
                lost.push((only, trial.counts().sent, trial.counts().received, trial.drop_counters));
            }
            panic!("{dut}: frames were lost in each of 10 trials: {lost:?}");
        };
        let established = one(&mut setup, Some(0), |seen| seen.flows);
        assert_eq!(
            (established.counts().sent, established.streams.len()),
            (flows, 1),
            "{dut}: one direction"
        );
        let outside = setup.outside_tuples();
        let learned: Vec<_> = setup
            .flows()
            .iter()
            .zip(&outside)
            .map(|(flow, outside)| (*flow, outside.expect("learned")))
            .collect();
        setup.answer_to(&learned).unwrap();
        let validated = one(&mut setup, Some(1), |seen| seen.flows_inside);
        assert_eq!(
            validated.counts().received,
            flows,
            "{dut}: each answer comes back to where its session began"
        );
        let both = one(&mut setup, None, |seen| seen.flows_inside.min(seen.flows));
        assert_eq!((both.counts().sent, both.streams.len()), (2 * flows, 2), "{dut}: both directions");
        if dut == DutKind::KERNEL_NAT {
            assert_eq!(setup.connections().unwrap(), Some(flows));
            setup.forget_connections().unwrap();
            assert_eq!(setup.connections().unwrap(), Some(0));
        }
    }
}

/// A whole run, as short as can be: it is complete, and no NAT is found broken, however busy the machine.
fn whole_run(plan: &str, sets: &[&str], procedure: &str) -> weir_record::run_data::RunData {
    let (data, _) = crate::testing::run(plan, sets);
    let results: Vec<_> =
        data.points.iter().filter_map(|point| point.point.result.as_ref()?.procedures.first()).collect();
    assert!(!results.is_empty() && results.iter().all(|result| result.procedure == procedure), "{results:?}");
    let broken = results.iter().flat_map(|result| &result.irregular).any(|text| text.starts_with("broken"));
    assert!(!broken, "{results:?}");
    let translations =
        data.points.iter().flat_map(|point| &point.trials).filter_map(|t| t.detail::<Translation>());
    assert!(translations.map(|seen| seen.outside).sum::<u64>() > 0, "frames were translated");
    let page = weir_report::report::html(std::slice::from_ref(&data), crate::sections());
    assert!(page.contains("kernel-nat") && page.contains("node-nat"));
    data
}

#[test]
fn a_run_of_nat_is_complete() {
    need_root!();
    let sets = [
        "nat.kind=[\"kernel-nat\",\"node-nat\"]",
        "nat.flows=100",
        "nat.search_trial_s=0.01",
        "nat.duration_sum_s=0.02",
        "nat.time_limit_s=0.1",
        "nat.percent=[50,100]",
        "nat.trial_s=0.05",
        "nat.rounds=1",
        "limits.retries=0",
    ];
    let data = whole_run("nat", &sets, figure::ID);
    assert_eq!(data.points.len(), 3, "a wire and two NATs");
}

#[test]
fn a_run_of_nat_tcp_is_complete() {
    need_root!();
    let sets = [
        "nat_tcp.kind=[\"kernel-nat\",\"node-nat\"]",
        "nat_tcp.concurrent=[1,1000]",
        "nat_tcp.connections=100",
        "nat_tcp.timeout_s=0.05",
        "nat_tcp.error=50%",
        "nat_tcp.flood=1k",
        "nat_tcp.repetitions=1",
        "limits.retries=0",
    ];
    let data = whole_run("nat-tcp", &sets, "nat-tcp");
    assert_eq!(data.points.len(), 4);
}
