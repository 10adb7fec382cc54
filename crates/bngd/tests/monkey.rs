//! A bad day of devices at a node and this program: messages that are lost, doubled, late, out of order, malformed and with wrong ids, then the
//! power of all devices is cut.

use std::time::Duration;

use weir_cpe::{Load, Options, Pppoe, SHORTEST_FRAME6};

use crate::pppoe::{FAR6, dual_stack};
use crate::restart::{Rig, options};

#[test]
fn devices_are_up_with_both_families_after_a_bad_day_and_no_session_is_left_over() {
    let Some(rig) = Rig::of(&dual_stack("pppoe padi mac 1000 burst 1000")) else { return };
    let devices = 20;
    rig.add_logins(devices);
    let load = Load { from_subscriber_fps: 10.0, to_subscriber_fps: 10.0, frame_bytes: SHORTEST_FRAME6 };
    let options = Options {
        devices,
        pppoe: Some(Pppoe { dual_stack: true, ..Pppoe::default() }),
        far6: Some(FAR6),
        load: Some(load),
        monkey: Some(1),
        hold: Some(Duration::from_secs(1)),
        ..options()
    };
    let summary = rig.emulate(options).end();
    assert!(summary.is_clean(), "{summary:?}");
    let monkey = summary.monkey.unwrap();
    let kinds = [
        monkey.lost,
        monkey.doubled,
        monkey.late,
        monkey.overtaken,
        monkey.malformed,
        monkey.wrong_ids,
        monkey.lost_answers,
        monkey.power_cuts,
    ];
    assert!(kinds.iter().all(|count| *count > 0), "{monkey:?}");
    assert_eq!((summary.prefixes, summary.foreign), (devices.into(), 0), "{summary:?}");
    let traffic = summary.from_subscriber.unwrap();
    assert!(traffic.received6 > 0, "{traffic:?}");
    // Those that were cut off were replaced.
    let sessions = rig.agree("after the bad day");
    assert_eq!(sessions.len(), devices as usize, "{sessions:?}");
}
