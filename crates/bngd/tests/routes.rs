//! A network behind a subscriber, from its entry to the node, over a kill of the program.

use weir_cpe::Options;

use crate::restart::{Rig, TEXT, options};

#[test]
fn a_network_behind_a_subscriber_is_one_of_its_session_in_the_node() {
    let gateways = "gateway 100.64.0.1/10, gateway 203.0.113.254/24";
    let Some(mut rig) = Rig::of(&TEXT.replace("gateway 100.64.0.1/10", gateways)) else { return };
    rig.add_subscriber(
        r#"{"name": "hans", "mac": "02:00:08:00:00:00", "plan": "basic", "routes": ["203.0.113.0/28"], "pool": "main"}"#,
    );
    let first_mac = "02:00:08:00:00:00".parse().expect("a MAC address");
    let summary = rig.emulate(Options { devices: 1, first_mac, ..options() }).end();
    assert!(summary.is_clean(), "{summary:?}");
    for _ in 0..2 {
        let sessions = rig.agree("it is up");
        assert_eq!(sessions[0].routes, ["203.0.113.0/28"]);
        let entries = rig.entries_of_node().expect("the node runs");
        let prefixes: Vec<String> = entries[0].prefixes.iter().map(ToString::to_string).collect();
        assert!(prefixes.contains(&"203.0.113.0/28".to_string()), "{prefixes:?}");
        rig.kill_bngd();
    }
}
