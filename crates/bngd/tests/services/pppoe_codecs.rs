//! All frames of logins, of both sides, are read by scapy, and written again as they were.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use weir_bng::dial::{Client, Profile};
use weir_bng::ppp::auth::supplicant::Login;
use weir_bng::ppp::auth::{Method, Password};
use weir_bng::pppoe::line_tag::LineTag;
use weir_bng::{Bng, Command, Config, Input, Line, Mac, Now, Output, Punt, Random};

use crate::codecs;

const TEXT: &str = "port access1 mac 02:00:00:00:00:fe, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24, dns 192.0.2.53,
    plan basic down 20Mbit up 5Mbit, pppoe auth chap-md5 ms-chapv2 pap mtu 1508, subscriber anna login anna plan basic password hello";

/// All frames from a PADI to an address, and to the PADT; no reply is lost.
fn frames(method: Method) -> Vec<Vec<u8>> {
    let (config, subscribers) = Config::read("test", TEXT).expect("a configuration");
    let mut bng = Bng::new(config, 7).expect("it contradicts nothing");
    let now = Now { at: Duration::ZERO, wall_s: 1_790_000_000 };
    for subscriber in subscribers {
        bng.input(
            now,
            Input::Command { id: 1, command: Command::AddSubscriber(subscriber) },
            &mut Vec::new(),
        );
    }
    bng.input(now, Input::Stored { revision: bng.revision() }, &mut Vec::new());
    let login = Login { name: b"anna".as_slice().into(), password: Password::new(b"hello") };
    let line_tag = Some(LineTag { circuit_id: Some(b"olt 1/2".as_slice().into()), ..LineTag::default() });
    let profile = Profile {
        methods: vec![method],
        max_mru: 1500,
        line_tag,
        ..Profile::new(Mac([2, 0, 0, 0, 0, 1]), login)
    };
    let mut client = Client::new(profile, Random::new([1; 32]));
    let mut all = Vec::new();
    let mut waiting = VecDeque::from([client.dial(now.at)]);
    let line: Line = "access1".parse().expect("a line");
    let mut has_closed = false;
    while let Some(frame) = waiting.pop_front() {
        all.push(frame.clone());
        let mut out = Vec::new();
        let punt = Punt { port: line.port.clone(), tags: line.tags, bytes: &frame };
        bng.input(now, Input::Punt(punt), &mut out);
        bng.input(now, Input::Stored { revision: bng.revision() }, &mut out);
        for output in out {
            if let Output::Send { frame, .. } = output {
                waiting.extend(client.hear(now.at, &frame));
                all.push(frame);
            }
        }
        if waiting.is_empty() && !has_closed {
            assert!(client.addresses().is_some(), "{method:?}: {:?}", client.end());
            has_closed = true;
            waiting.extend(client.close(now.at));
        }
    }
    all
}

#[test]
fn frames_of_logins_are_read_by_scapy_and_written_again() {
    if !codecs::are_installed(&["scapy"]) {
        return;
    }
    for (method, protocol) in [
        (Method::Pap, "PPP Password Authentication Protocol"),
        (Method::ChapMd5, "PPP Challenge Handshake Authentication Protocol"),
        (Method::MsChapV2, "PPP Challenge Handshake Authentication Protocol"),
    ] {
        let frames = frames(method);
        let read = codecs::read("pppoe", &frames);
        let mut layers: BTreeMap<&str, usize> = BTreeMap::new();
        for (frame, found) in frames.iter().zip(&read) {
            assert_eq!(found["again"], json!(true), "{method:?} {found} {frame:02x?}");
            let last = found["layers"].as_array().and_then(|all| all.last()).and_then(Value::as_str);
            *layers.entry(last.unwrap_or_default()).or_default() += 1;
        }
        let of_login = layers
            .iter()
            .filter(|(name, _)| name.starts_with(protocol))
            .map(|(_, count)| count)
            .sum::<usize>();
        assert_eq!(of_login, if method == Method::Pap { 2 } else { 3 }, "{layers:?}");
        let codes: Vec<i64> = read.iter().take(4).filter_map(|found| found["code"].as_i64()).collect();
        assert_eq!(codes, [0x09, 0x07, 0x19, 0x65]);
    }
}
