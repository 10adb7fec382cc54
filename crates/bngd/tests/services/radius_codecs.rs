//! Requests are read by pyrad and scapy, and their answers are read here.

use serde_json::json;
use weir_bng::ppp::auth::{Attempt, Credential, Password};
use weir_bng::radius::access::{Accept, Access, Framed, Nas, Place, Request, Unsupported, request};
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::client::{Client, Output, Secret, Server, Timers, Token};
use weir_bng::radius::packet::{Packet, Require, code};
use weir_bng::radius::plans::PlanTable;
use weir_bng::{Line, Mac, Now, Random};

use crate::codecs;

const SECRET: &[u8] = b"of both sides";

/// Requests as they are sent.
fn requests() -> Vec<Vec<u8>> {
    let line: Line = "access1:100.7".parse().expect("a line");
    let place = Place {
        access: Access::Pppoe,
        line: &line,
        mac: Mac([2, 0, 0, 0, 0, 1]),
        circuit_id: Some(b"eth 0/1:100"),
        remote_id: None,
        up_kbit_per_s: Some(40_000),
        down_kbit_per_s: None,
        name: b"anna@isp",
        user_name: None,
        session_id: "5f-8",
    };
    // The hash of identifier, password and challenge.
    let response =
        [0x20, 0xf5, 0xa4, 0x09, 0x15, 0xdc, 0x25, 0x05, 0xd9, 0xbf, 0x67, 0x25, 0x75, 0x6a, 0x10, 0xca];
    let credentials = [
        Credential::Pap(Password::new(b"hello")),
        Credential::ChapMd5 { id: 7, challenge: [1; 16].into(), response },
        Credential::MsChapV2 { id: 7, challenge: [1; 16], peer_challenge: [2; 16], response: [3; 24] },
    ];
    let access = credentials.map(|credential| {
        let attempt = Attempt { name: b"anna@isp".as_slice().into(), credential };
        request(&Nas::default(), &place, &attempt, 1_790_000_000)
    });
    let mut attributes = Attributes::default();
    attributes.push(number::USER_NAME, b"anna@isp");
    attributes.push_u32(number::ACCT_STATUS_TYPE, 2);
    let (happened_s, code) = (Some(1_789_999_993), code::ACCOUNTING_REQUEST);
    let accounting = Request { code, attributes, password: None, happened_s };
    let mut client = Client::new(Timers::default(), Random::new([1; 32]));
    let now = Now { at: std::time::Duration::ZERO, wall_s: 1_790_000_000 };
    let mut out = Vec::new();
    client.configure(now, vec![Server::new("one", Secret::new(SECRET))], &mut out);
    for (number, request) in (1..).zip(access.into_iter().chain([accounting])) {
        client.send(now, Token(number), request, &mut out);
    }
    let datagram = |output| if let Output::Send { bytes, .. } = output { Some(bytes) } else { None };
    out.into_iter().filter_map(datagram).collect()
}

#[test]
fn requests_are_read_by_pyrad_and_scapy_and_their_answers_here() {
    if !codecs::are_installed(&["scapy", "pyrad"]) {
        return;
    }
    let sent = requests();
    let found = codecs::read("radius", &sent);
    // Password, CHAP and the hash of accounting; pyrad knows no MS-CHAPv2.
    let authentic: Vec<_> = found.iter().map(|found| found["authentic"].as_bool()).collect();
    assert_eq!(authentic, [Some(true), Some(true), None, Some(true)]);
    for (sent, found) in sent.iter().zip(&found) {
        let request = Packet::read(sent).expect("a packet");
        assert_eq!(
            (&found["again"], &found["message_authenticator"]),
            (&json!(true), &json!(true)),
            "{found}"
        );
        let is_accounting = request.code == code::ACCOUNTING_REQUEST;
        let expected = match is_accounting {
            true => json!({ "User-Name": "anna@isp", "Acct-Status-Type": 2, "Acct-Delay-Time": 7 }),
            false => json!({
                "User-Name": "anna@isp", "Acct-Session-Id": "5f-8", "NAS-Identifier": "weir", "NAS-Port-Id": "access1:100.7",
                "Calling-Station-Id": "02:00:00:00:00:01", "ADSL-Agent-Circuit-Id": "eth 0/1:100",
            }),
        };
        assert_eq!(found["attributes"], expected);
        for (program, require) in [("pyrad", Require::Nothing), ("scapy", Require::MessageAuthenticator)] {
            let answer = Packet::read(&codecs::bytes(&found[program])).expect("a packet");
            assert_eq!(answer.check_answer(&request.authenticator, SECRET, require), Ok(()), "{program}");
            assert!(answer.check_answer(&request.authenticator, b"other", require).is_err());
            if is_accounting {
                continue;
            }
            let accept = Accept::read(&answer.attributes, &PlanTable::default(), Unsupported::Refuse);
            let accept = accept.expect("known attributes");
            assert_eq!((accept.session_timeout_s, accept.classes), (Some(3600), vec![b"abc".to_vec()]));
            let framed = (program == "pyrad").then_some(Framed::Address([100, 64, 0, 9].into()));
            assert_eq!(accept.framed, framed);
        }
    }
}
