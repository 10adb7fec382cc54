//! TCP connections through NATs: all of them are established, exchange data and end; the kernel's table shows their states.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_load::Control;
use weir_load::counts::Load;
use weir_load::tcp::{Act, FRAME_BYTES, Part, Said};
use weir_packet::flow::{Direction, FlowOrder};
use weir_packet::frame::Transport;
use weir_testbed::dut::DutKind;
use weir_testkit::need_root;

use super::super::flows::Ranges;
use super::super::tests::device;
use super::run::trials;
use weir_lab::frames::{PointSpec, Setup};
use weir_record::record::{Purpose, Translation};

const HELD: u32 = 100;
const WHOLE: u32 = 60;
/// No more than a busy machine can carry.
const FPS: f64 = 2e3;

fn build(dut: DutKind) -> Setup {
    let spec = PointSpec {
        direction: Direction::Both,
        transport: Transport::Syn,
        order: FlowOrder::Unique,
        keeps_whole: true,
        ..PointSpec::plain(dut, FRAME_BYTES, HELD + WHOLE)
    };
    let mut setup = device(&spec, "");
    let ranges = Ranges { flows: HELD + WHOLE, subscribers: 10, destinations: 1, destination_ports: 100 };
    setup.check_translation(ranges.list(FlowOrder::Unique, 1), &[]).unwrap();
    setup
}

fn part(setup: &mut Setup, act: Act, first: u32, count: u32) -> (Said, Translation) {
    let load = Load {
        only: Some(0),
        max_frames: Some(count.into()),
        drain: Some(Duration::from_millis(500)),
        tcp: Some(Part { act, first, count }),
        ..Load::steady(FPS, Duration::from_secs(5))
    };
    let stop = AtomicBool::new(false);
    let trial = setup.trial(&load, Purpose::Procedure, &Control::new(&stop, &|_, _| {})).unwrap();
    assert_eq!((trial.counts().sent, trial.counts().unexplained), (count.into(), 0), "{act:?}: {trial:?}");
    (trial.detail().expect("there are connections"), trial.detail().expect("it is checked"))
}

/// All parts of a conversation without a loss, tried again on a busy machine; the states that the kernel has after each.
fn conversation(setup: &mut Setup) -> Vec<Vec<(String, u64)>> {
    let (held, whole) = (u64::from(HELD), u64::from(WHOLE));
    'again: for _ in 0..10 {
        setup.reset().unwrap();
        let mut states = Vec::new();
        let syn = Said { begun: held, answered: held, established: held, ..Said::default() };
        let all = Said {
            begun: whole,
            answered: whole,
            established: whole,
            exchanged: whole,
            closed: whole,
            ..Said::default()
        };
        for (act, first, count, expected) in [
            (Act::Hold, 0, HELD, syn),
            (Act::Whole, HELD, WHOLE, all),
            (Act::Data, 0, HELD, Said { exchanged: held, ..Said::default() }),
            (Act::Close, 0, 40, Said { closed: 40, ..Said::default() }),
            (Act::Reset, 40, 60, Said { reset: 60, ..Said::default() }),
        ] {
            let (said, seen) = part(setup, act, first, count);
            assert_eq!(seen.faults, [], "{act:?}");
            if said != expected {
                println!("{act:?}: {said:?}, not {expected:?}");
                continue 'again;
            }
            states.push(setup.tcp_states().unwrap());
        }
        return states;
    }
    panic!("segments were lost in each of 10 conversations");
}

#[test]
fn trials_beside_the_same_connections_take_no_more_room_than_these() {
    for (dut, held, expected) in [
        (DutKind::NODE_NAT, 1, 1),
        (DutKind::NODE_NAT, 100_000, 5),
        (DutKind::NODE_NAT_FAST, 1_000_000, 12),
        (DutKind::KERNEL_NAT, u32::MAX, 1),
        (DutKind::EXTERNAL, 1_000_000, 1),
    ] {
        assert_eq!(trials(&dut, held, 20_000), expected, "{dut} {held}");
    }
}

#[test]
fn connections_are_real_in_each_nat() {
    need_root!();
    for dut in [DutKind::KERNEL_NAT, DutKind::NODE_NAT, DutKind::NODE_NAT_FAST] {
        let mut setup = build(dut);
        let states = conversation(&mut setup);
        if dut != DutKind::KERNEL_NAT {
            continue;
        }
        let (held, whole) = (u64::from(HELD), u64::from(WHOLE));
        let named = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
            list.iter().map(|(name, n)| (name.to_string(), *n)).collect()
        };
        let both = named(&[("ESTABLISHED", held), ("TIME_WAIT", whole)]);
        let expected = [
            named(&[("ESTABLISHED", held)]),
            both.clone(),
            both,
            named(&[("ESTABLISHED", held - 40), ("TIME_WAIT", whole + 40)]),
            named(&[("TIME_WAIT", whole + 40), ("CLOSE", 60)]),
        ];
        assert_eq!(states, expected);
    }
}
