//! NAT profiles and the rates of lines, from the subscriber's record to its packets: devices dial in, each with another profile, and the far
//! end sees their public addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use weir_bng::dial::{Client, Profile};
use weir_bng::ppp::auth::supplicant::Login;
use weir_bng::ppp::auth::{Method, Password};
use weir_bng::pppoe::line_tag::LineTag;
use weir_bng::{Mac, Random};
use weir_plane::NatProfile;
use weir_service::http;

use crate::pppoe::{Devices, with};
use crate::restart::{Rig, TEXT};

/// Profiles of n1 to n4; the second one has ports that follow from its address.
const PROFILES: [&str; 4] = [
    r#""nat": "block""#,
    r#""nat": "deterministic", "address": "100.64.4.7""#,
    r#""nat": "one-to-one 192.0.2.77""#,
    r#""nat": "none""#,
];
const LINE: (u32, u32) = (5_000, 20_000);

fn client(number: u8) -> Client {
    let name = format!("n{number}@isp").into_bytes().into();
    let login = Login { name, password: Password::new(b"secret") };
    let (up, down) = LINE;
    let line_tag = LineTag {
        circuit_id: Some(format!("olt 1/{number}").into_bytes().into()),
        remote_id: None,
        up_kbit_per_s: Some(up),
        down_kbit_per_s: Some(down),
    };
    let mac = Mac([2, 0, 4, 0, 0, number]);
    let profile = Profile {
        methods: vec![Method::Pap],
        line_tag: (number == 1).then_some(line_tag),
        ..Profile::new(mac, login)
    };
    Client::new(profile, Random::new([number; 32]))
}

impl Rig {
    /// The status and the text of the answer to a new subscriber.
    fn try_subscriber(&self, json: &str) -> (u16, String) {
        let body = json.as_bytes().to_vec();
        let answer = http::request(&self.folder.join("bng.sock"), "POST", "/v1/subscribers", body).unwrap();
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    }
}

#[test]
fn profiles_and_line_rates_reach_the_packets() {
    let text = TEXT
        .replace("> route(", "> nat(public 192.0.2.0/30, deterministic 100.64.4.0/24 dynamic 2) > route(")
        .replace("limit subscriber 1000", "limit subscriber 1000, pppoe auth pap");
    let Some(rig) = Rig::of(&text) else { return };
    let subscriber = |number: usize, profile: &str| {
        format!(
            r#"{{"name": "n{number}", "login": "n{number}@isp", "password": "secret", "plan": "basic", {profile}}}"#
        )
    };
    for (number, profile) in (1..).zip(PROFILES) {
        rig.add_subscriber(&subscriber(number, profile));
    }
    // A public address is of one subscriber.
    let (status, said) = rig.try_subscriber(&subscriber(5, PROFILES[2]));
    assert_eq!(status, 409, "{said}");
    assert!(said.contains("192.0.2.77 is the public address of subscriber n3 (nat one-to-one)"), "{said}");

    let seen = with(&rig, || {
        let mut devices = Devices::new();
        devices.clients = (1..=4).map(client).collect();
        devices.dial();
        let mut seen = Vec::new();
        for client in std::mem::take(&mut devices.clients) {
            devices.clients = vec![client];
            devices.sources.clear();
            devices.exchange();
            let own = devices.clients[0].addresses().expect("an address").client;
            seen.push((own, std::mem::take(&mut devices.sources)));
        }
        seen
    });
    let public = |last: u8| Ipv4Addr::new(192, 0, 2, last);
    let [(_, of_block), (_, of_fixed), (_, of_one), (own, of_none)] = &seen[..] else { panic!("{seen:?}") };
    let is_shared = |sources: &BTreeSet<Ipv4Addr>| sources.iter().all(|source| *source <= public(3));
    assert!(
        of_block.len() == 1 && is_shared(of_block) && of_fixed.len() == 1 && is_shared(of_fixed),
        "{seen:?}"
    );
    assert_eq!((of_one, of_none), (&BTreeSet::from([public(77)]), &BTreeSet::from([*own])), "{seen:?}");

    let mut entries = rig.entries_of_node().expect("the node runs");
    entries.sort_by_key(|entry| entry.mac.0.clone());
    let profiles: Vec<NatProfile> = entries.iter().map(|entry| entry.nat).collect();
    let expected =
        [NatProfile::Block, NatProfile::Deterministic, NatProfile::OneToOne(public(77)), NatProfile::None];
    assert_eq!(profiles, expected);
    let rates = |at: usize| (entries[at].line_from_bits_per_s, entries[at].line_to_bits_per_s);
    let (up, down) = LINE;
    assert_eq!(rates(0), (Some(u64::from(up) * 1000), Some(u64::from(down) * 1000)));
    assert_eq!(rates(1), (None, None));
}
