//! The control plane of subscribers: frames of clients, texts of operators, records of a disk.

use weir_bng::dhcp4::message::Message;
use weir_bng::dhcp4::{frame, relay_info};
use weir_bng::scenario::{self, World};
use weir_bng::{Config, Record, Subscriber};
use weir_testkit::{Dice, repair};

use super::{files, of_texts};

/// Most that happens because of one input.
const MOST_STEPS: usize = 2000;

/// Clients, operators, disks and crashes in any order, as the bytes choose.
pub(super) fn bng(input: &[u8]) {
    let mut dice = Dice::of_bytes(input);
    let mut world = World::new(|sides| dice.roll(sides));
    (0..(input.len() / 4).clamp(1, MOST_STEPS)).for_each(|_| world.step());
    world.finish();
    world.check_prefixes();
}

pub(super) fn bng_seeds() -> Vec<Vec<u8>> {
    let seed = |seed| {
        let mut dice = Dice::new(seed);
        (0..500).map(|_| dice.roll(256) as u8).collect()
    };
    (0..8).map(seed).collect()
}

/// The log of the store.
pub(super) fn bng_log(input: &[u8]) {
    weir_bngd::store::fuzz::log(input);
}

pub(super) fn bng_log_seeds() -> Vec<Vec<u8>> {
    weir_bngd::store::fuzz::log_seeds().into()
}

/// A configuration, a subscriber, records or scenarios: what is read is the same when it is written and read again.
pub(super) fn bng_text(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match Config::read("fuzz", &text) {
        Ok((config, _)) => assert!(config.contradictions().is_empty()),
        Err(mistakes) => assert!(!mistakes.list.is_empty()),
    }
    for line in text.lines() {
        if let Ok(record) = line.parse::<Record>() {
            assert_eq!(record.to_string().parse().as_ref(), Ok(&record));
        }
        if let Ok(subscriber) = line.parse::<Subscriber>() {
            assert_eq!(subscriber.to_string().parse().as_ref(), Ok(&subscriber));
        }
    }
    // Some that are read come to nothing, which is said.
    for scenario in
        scenario::read(&text).into_iter().flatten().filter(|scenario| scenario.repetitions() < 500)
    {
        if let Err(wrong) = scenario.run() {
            assert!(!wrong.is_empty());
        }
    }
}

pub(super) fn bng_text_seeds() -> Vec<Vec<u8>> {
    let scenarios = files("tests", "txt").into_iter().map(|file| String::from_utf8_lossy(&file).into_owned());
    let of_bng = scenarios.filter(|text| text.contains("\nbng "));
    let one_by_one = of_bng.flat_map(|text| {
        text.split("\n== ").skip(1).map(|one| format!("== {one}\n").into_bytes()).collect::<Vec<_>>()
    });
    let others = of_texts([
        "port access1 mac 02:00:00:00:00:fe trusted relay 192.0.2.1, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24,\n\
         plan basic down 20Mbit up 5Mbit, dns 192.0.2.53, lease 1h renewal 30m rebinding 52m, offer 30s, quarantine 10m,\n\
         moves refuse, limit line 100 burst 200, limit subscriber 5, subscriber anna circuit eth0/1 plan basic blocked # x\n",
        "1 8 lease 8 anna access1:100.7 02:00:00:00:00:01 100.64.0.2 relay 192.0.2.1 id 0x0102 start 7 granted 9 for 3600 counted 1 2 3 4\n\
         1 9 end 8 anna 100.64.0.2 released counted 0 0 0 0\n1 10 declined 100.64.0.2 anna until 1790000600\n1 11 counters 8 counted 1 2 3 4\n\
         1 12 subscriber anna line access1:7 plan down 1Mbit/s up 2Mbit/s address 100.64.0.9\n1 13 last anna 100.64.0.2\n1 14 removed anna\n",
        "anna mac 02:00:00:00:00:01 plan down 20Mbit up 5Mbit address 100.64.0.9 blocked\n\
         hans login hans@isp plan basic pool main prefix-pool six route 203.0.113.0/28 route 2001:db8:9::/56 password x group west walled\n",
        "pool six 2001:db8:100::/48 router 2001:db8:100::1/40, radius one 192.0.2.9:1812 secret-file x realm isp accounting 1813 plan basic,\n\
         plan basic down 20Mbit up 5Mbit, aaa local radius 5s, dhcp-radius user-name {circuit} password {mac} reject 30s renewals,\n\
         brown-out age 7d chap dhcp, limit sessions mac 4 line 100 replace vlan 4000 node 64000 subscriber 2 replace,\n\
         pppoe auth chap-md5 pap sessions mac 4 half-open 9, accounting interim 15m, nas user-name {name} port-id {line}\n",
        "1 8 lease 8 hans seat 1 access1:100.7 02:00:00:00:00:01 100.64.0.2 prefix 2001:db8:1:2::/64 acct 00000000000000ff waits \
         remote-aaa user 0x00 class a route 203.0.113.0/28 timeout 9 start 7 granted 9 for 3600 counted 1 2 3 4\n\
         1 9 end 8 hans 100.64.0.2 refused at 9 counted 0 0 0 0\n",
    ]);
    one_by_one.chain(others).collect()
}

/// A frame of a client: it is refused by name, or its message is the same when it is written and read again.
pub(super) fn dhcp4(input: &[u8]) {
    let mut repaired = input.to_vec();
    if let Some(packet) = repaired.get_mut(14..) {
        repair(packet);
    }
    for bytes in [input, &repaired] {
        if let Ok(datagram) = frame::read(bytes) {
            let written = frame::write(&datagram).map(|frame| frame::read(&frame) == Ok(datagram));
            assert_ne!(written, Ok(false), "{datagram:?}");
            message(datagram.payload);
        }
    }
    message(input);
}

fn message(payload: &[u8]) {
    let Ok(message) = Message::read(payload) else { return };
    let again = Message::read(&message.write());
    assert_eq!(again.as_ref(), Ok(&message));
    let all: usize = message.options.iter().map(|(_, value)| value.len()).sum();
    let codes: std::collections::BTreeSet<u8> = message.options.iter().map(|(code, _)| code).collect();
    let joined = codes.iter().filter_map(|code| message.options.get(*code)).map(|value| value.len());
    assert_eq!(joined.sum::<usize>(), all);
    for (_, value) in message.options.iter() {
        let circuit = relay_info::sub_option(value, relay_info::CIRCUIT_ID);
        assert!(circuit.ok().flatten().is_none_or(|id| id.len() + 2 <= value.len()));
    }
}

pub(super) fn dhcp4_seeds() -> Vec<Vec<u8>> {
    let lines = [
        "discover 02:00:00:00:00:01 id 0x01020000000001 ask 1,3,6,121 size 576",
        "request 02:00:00:00:00:01 want 100.64.0.2 server 100.64.0.1 circuit eth0/1 remote 0x0001 broadcast",
        "request 02:00:00:00:00:01 ciaddr 100.64.0.2",
        "discover 02:00:00:00:00:01 giaddr 192.0.2.1 option 224 0x0102 option 224 0x03",
        "ack 02:00:00:00:00:01 option 51 0x00000e10",
    ];
    let frames = lines.iter().map(|line| scenario::frame(line, 0).expect("a message"));
    // The message alone, and one with options in all fields.
    let payload = |frame: &Vec<u8>| frame.get(42..).unwrap_or_default().to_vec();
    let frames: Vec<_> = frames.collect();
    let mut overloaded = frames.first().map(payload).unwrap_or_default();
    overloaded.splice(240..240, [52, 1, 3]);
    overloaded[108..113].copy_from_slice(&[43, 1, 7, 255, 0]);
    overloaded[44..48].copy_from_slice(&[43, 2, 8, 9]);
    frames.iter().cloned().chain(frames.iter().map(payload)).chain([overloaded]).collect()
}
