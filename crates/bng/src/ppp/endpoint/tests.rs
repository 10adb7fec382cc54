//! A concentrator and a client over a wire that may lose frames.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::super::auth::{Credential, Password};
use super::*;

const ADDRESSES: Addresses = Addresses {
    gateway: Ipv4Addr::new(100, 64, 0, 1),
    client: Ipv4Addr::new(100, 64, 0, 9),
    dns: [Ipv4Addr::new(192, 0, 2, 53), Ipv4Addr::UNSPECIFIED],
};
const DUAL_STACK: Network =
    Network { ipv4: Some(ADDRESSES), ipv6: Some(InterfaceIds { own: 1, peer: 0xabcd }) };

/// Both ends and the wire between them.
struct Wire {
    ends: [Endpoint; 2],
    /// Frames on their way, with the end that they go to.
    frames: VecDeque<(usize, u16, Vec<u8>)>,
    now: Duration,
    network: Network,
    password: Password,
    /// What was said beside frames, with the end that said it.
    said: Vec<(usize, Output)>,
    /// Frames that were carried.
    carried: usize,
    /// The n-th frame is lost.
    loses: Box<dyn FnMut(usize) -> bool>,
}

const CONCENTRATOR: usize = 0;
const CLIENT: usize = 1;

impl Wire {
    fn new(methods: &[Method], accepts: &[Method]) -> Wire {
        Wire::of([1492, 1492], methods, accepts)
    }

    fn of(max_mru: [u16; 2], methods: &[Method], accepts: &[Method]) -> Wire {
        let random = &mut Random::new([5; 32]);
        let login = Login { name: b"anna@isp".as_slice().into(), password: Password::new(b"secret") };
        let roles = [
            Role::Concentrator { name: "weir".into(), methods: methods.into() },
            Role::Client { login, methods: accepts.into(), interface_id: Some(0) },
        ];
        let [concentrator, client] = roles;
        let ends = [(concentrator, max_mru[0]), (client, max_mru[1])];
        Wire {
            ends: ends.map(|(role, mru)| Endpoint::new(role, mru, Timers::default(), random)),
            frames: VecDeque::new(),
            now: Duration::ZERO,
            network: DUAL_STACK,
            password: Password::new(b"secret"),
            said: Vec::new(),
            carried: 0,
            loses: Box::new(|_| false),
        }
    }

    fn take(&mut self, of: usize, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send { protocol, payload } => self.frames.push_back((1 - of, protocol, payload)),
                Output::Ask(attempt) => {
                    let verdict = match attempt.check(&self.password) {
                        Some(message) => Verdict::Accept { message },
                        None => Verdict::Reject { message: Vec::new() },
                    };
                    let mut out = Vec::new();
                    assert!(self.ends[of].verdict(self.now, &verdict, self.network, &mut out));
                    self.said.push((of, Output::Ask(attempt)));
                    self.take(of, out);
                }
                said => self.said.push((of, said)),
            }
        }
    }

    fn with(&mut self, of: usize, act: impl FnOnce(&mut Endpoint, Duration, &mut Vec<Output>)) {
        let mut out = Vec::new();
        act(&mut self.ends[of], self.now, &mut out);
        self.take(of, out);
    }

    fn inject(&mut self, to: usize, protocol: u16, payload: &[u8]) -> Vec<Output> {
        let mut out = Vec::new();
        self.ends[to].frame(self.now, protocol, payload, &mut out);
        out
    }

    /// Until nothing is on its way and no timer runs, or for so long.
    fn run(&mut self, most: Duration) {
        let end = self.now + most;
        loop {
            while let Some((to, protocol, payload)) = self.frames.pop_front() {
                self.carried += 1;
                assert!(self.carried < 10_000, "it does not end");
                if !(self.loses)(self.carried) {
                    self.with(to, |end, now, out| {
                        end.frame(now, protocol, &payload, out);
                    });
                }
            }
            let next = self.ends.iter().filter_map(Endpoint::deadline).min();
            let Some(next) = next.filter(|next| *next <= end) else { return };
            self.now = self.now.max(next);
            for of in [CONCENTRATOR, CLIENT] {
                self.with(of, |end, now, out| end.timer(now, out));
            }
        }
    }

    fn dial(&mut self) {
        for of in [CONCENTRATOR, CLIENT] {
            self.with(of, |end, now, out| end.start(now, out));
        }
        self.run(Duration::from_secs(120));
    }

    fn said_by(&self, of: usize) -> Vec<&Output> {
        self.said.iter().filter(|(by, _)| *by == of).map(|(_, said)| said).collect()
    }

    /// The layers that an end has open.
    fn layers(&self, of: usize) -> Vec<Layer> {
        let mut layers = Vec::new();
        for said in self.said_by(of) {
            match said {
                Output::Up(layer) => layers.push(*layer),
                Output::Down(layer) => layers.retain(|open| open != layer),
                _ => {}
            }
        }
        layers
    }

    fn end(&self, of: usize) -> Option<End> {
        self.said_by(of).iter().find_map(|said| if let Output::Ended(end) = said { Some(*end) } else { None })
    }
}

/// What both have open when all went well.
fn assert_up(wire: &Wire, what: &str) {
    let ipv6 = InterfaceIds { own: 1, peer: 0xabcd };
    assert_eq!(wire.layers(CONCENTRATOR).len(), 2, "{what}: {:?}", wire.said);
    for layer in [Layer::Ipv4(ADDRESSES), Layer::Ipv6(ipv6)] {
        assert!(wire.layers(CONCENTRATOR).contains(&layer), "{what}: {:?}", wire.said);
    }
    for layer in [Layer::Ipv4(ADDRESSES), Layer::Ipv6(InterfaceIds { own: 0xabcd, peer: 1 })] {
        assert!(wire.layers(CLIENT).contains(&layer), "{what}: {:?}", wire.said);
    }
}

#[test]
fn a_session_comes_up_by_each_method() {
    for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
        let mut wire = Wire::new(&[method], &[method]);
        wire.dial();
        assert_up(&wire, &format!("{method:?}"));
        assert_eq!(wire.now, Duration::ZERO, "{method:?}: nothing was lost");
    }
}

#[test]
fn l7_the_client_chooses_among_the_methods_that_are_configured() {
    let all = [Method::MsChapV2, Method::ChapMd5, Method::Pap];
    for method in all {
        let mut wire = Wire::new(&all, &[method]);
        wire.dial();
        assert_up(&wire, &format!("{method:?}"));
    }
    let mut wire = Wire::new(&[Method::ChapMd5], &[Method::Pap]);
    wire.dial();
    assert_eq!(wire.end(CONCENTRATOR), Some(End::MethodRefused), "{:?}", wire.said);
}

#[test]
fn a_wrong_password_is_told_and_the_session_ends() {
    for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
        let mut wire = Wire::new(&[method], &[method]);
        wire.password = Password::new(b"other");
        wire.dial();
        assert_eq!(wire.end(CONCENTRATOR), Some(End::Rejected), "{method:?}");
        assert_eq!(wire.end(CLIENT), Some(End::Rejected), "{method:?}");
        assert!(wire.layers(CONCENTRATOR).is_empty());
    }
}

/// Every single frame may be lost, and every pattern of many losses.
#[test]
fn lost_frames_delay_a_session_and_never_prevent_it() {
    for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
        for lost in 1..=24 {
            let mut wire = Wire::new(&[method], &[method]);
            wire.loses = Box::new(move |n| n == lost);
            wire.dial();
            assert_up(&wire, &format!("{method:?} without frame {lost}"));
        }
        for seed in 0..40_u8 {
            let mut wire = Wire::new(&[method], &[method]);
            let mut random = Random::new([seed; 32]);
            wire.loses = Box::new(move |_| random.below(5) == 0);
            wire.dial();
            assert_up(&wire, &format!("{method:?} with a fifth lost, seed {seed}"));
        }
    }
}

#[test]
fn p10_the_mru_is_the_smaller_one_of_both_sides() {
    for (max_mru, agreed) in [([1500, 1500], 1500), ([1492, 1500], 1492), ([1500, 1492], 1492)] {
        let mut wire = Wire::of(max_mru, &[Method::Pap], &[Method::Pap]);
        wire.dial();
        assert_eq!(wire.ends[CONCENTRATOR].agreed().peer_mru, agreed, "{max_mru:?}");
        assert_eq!(wire.ends[CLIENT].agreed().peer_mru, agreed, "{max_mru:?}");
        let magic = wire.ends.each_ref().map(Endpoint::agreed);
        assert_eq!((magic[0].magic, magic[0].peer_magic), (magic[1].peer_magic, magic[1].magic));
    }
}

#[test]
fn l2_a_looped_line_ends_the_session() {
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    wire.with(CONCENTRATOR, |end, now, out| end.start(now, out));
    for _ in 0..200 {
        let Some((_, protocol, payload)) = wire.frames.pop_front() else { break };
        wire.with(CONCENTRATOR, |end, now, out| {
            end.frame(now, protocol, &payload, out);
        });
    }
    assert_eq!(wire.end(CONCENTRATOR), Some(End::Looped));
}

#[test]
fn l3_echo_requests_are_answered_only_when_the_link_is_open() {
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    let echo = Packet { code: code::ECHO_REQUEST, id: 9, data: &[0, 0, 0, 0, 7] }.write();
    wire.with(CONCENTRATOR, |end, now, out| end.start(now, out));
    assert_eq!(wire.inject(CONCENTRATOR, protocol::LCP, &echo), []);
    wire.frames.clear();
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    wire.dial();
    let magic = wire.ends[CONCENTRATOR].agreed().magic.to_be_bytes();
    let data = [&magic[..], &[7]].concat();
    let payload = Packet { code: code::ECHO_REPLY, id: 9, data: &data }.write();
    let answer = wire.inject(CONCENTRATOR, protocol::LCP, &echo);
    assert_eq!(answer, [Output::Send { protocol: protocol::LCP, payload }]);
}

#[test]
fn l4_an_unknown_protocol_is_rejected_with_a_new_identifier_and_cut_to_the_mru() {
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    wire.dial();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let out = wire.inject(CONCENTRATOR, 0x80fd, &[7; 1490]);
        let [Output::Send { protocol: protocol::LCP, payload }] = &*out else { panic!("{out:?}") };
        let packet = Packet::read(payload).unwrap();
        assert_eq!((packet.code, payload.len(), &packet.data[..3]), (8, 1492, &[0x80, 0xfd, 7][..]));
        ids.push(packet.id);
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn l5_frames_of_1500_bytes_are_read_though_a_smaller_mru_was_asked() {
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    wire.dial();
    let data = [&[0; 4][..], &[7; 1492]].concat();
    let echo = Packet { code: code::ECHO_REQUEST, id: 9, data: &data }.write();
    assert_eq!(echo.len(), 1500);
    assert_eq!(wire.inject(CONCENTRATOR, protocol::LCP, &echo).len(), 1);
}

#[test]
fn l9_without_ipv6_the_session_has_ipv4_and_the_other_way_round() {
    for (network, layers) in [
        (Network { ipv6: None, ..DUAL_STACK }, vec![Layer::Ipv4(ADDRESSES)]),
        (Network { ipv4: None, ..DUAL_STACK }, vec![Layer::Ipv6(InterfaceIds { own: 1, peer: 0xabcd })]),
    ] {
        let mut wire = Wire::new(&[Method::ChapMd5], &[Method::ChapMd5]);
        wire.network = network;
        wire.dial();
        assert_eq!(wire.layers(CONCENTRATOR), layers);
        assert_eq!((wire.end(CONCENTRATOR), wire.layers(CLIENT).len()), (None, 1));
    }
    let mut wire = Wire::new(&[Method::ChapMd5], &[Method::ChapMd5]);
    wire.network = Network::default();
    wire.dial();
    assert_eq!(wire.end(CONCENTRATOR), Some(End::NoNetwork));
}

/// A client that tries IPV6CP and fails keeps IPv4, as one that answers nothing to it does.
#[test]
fn l9_a_failure_of_ipv6cp_leaves_ipv4_up() {
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    wire.dial();
    let terminate = Packet { code: code::TERMINATE_REQUEST, id: 3, data: &[] }.write();
    wire.with(CONCENTRATOR, |end, now, out| {
        end.frame(now, protocol::IPV6CP, &terminate, out);
    });
    wire.frames.clear();
    wire.run(Duration::from_secs(60));
    assert_eq!((wire.layers(CONCENTRATOR), wire.end(CONCENTRATOR)), (vec![Layer::Ipv4(ADDRESSES)], None));
}

#[test]
fn l10_ipcp_falls_and_rises_by_itself() {
    let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
    wire.dial();
    // The client negotiates IPCP anew, as after a change of its name servers.
    let request = Packet { code: code::REQUEST, id: 77, data: &[3, 6, 0, 0, 0, 0] }.write();
    let out = wire.inject(CONCENTRATOR, protocol::IPCP, &request);
    assert_eq!(out.first(), Some(&Output::Down(Layer::Ipv4(ADDRESSES))));
    wire.take(CONCENTRATOR, out);
    assert_eq!(wire.layers(CONCENTRATOR), [Layer::Ipv6(InterfaceIds { own: 1, peer: 0xabcd })]);
    wire.run(Duration::from_secs(60));
    assert_eq!((wire.layers(CONCENTRATOR).len(), wire.end(CONCENTRATOR)), (2, None));
}

#[test]
fn a_link_that_is_negotiated_anew_authenticates_anew() {
    let mut wire = Wire::new(&[Method::ChapMd5], &[Method::ChapMd5]);
    wire.dial();
    wire.said.clear();
    let request = Packet { code: code::REQUEST, id: 77, data: &[1, 4, 5, 0xd4] }.write();
    wire.with(CONCENTRATOR, |end, now, out| {
        end.frame(now, protocol::LCP, &request, out);
    });
    let downs = wire.said.iter().filter(|(_, said)| matches!(said, Output::Down(_))).count();
    assert_eq!(downs, 2);
    wire.run(Duration::from_secs(60));
    let attempts = |(_, said): &&(usize, Output)| {
        matches!(said, Output::Ask(Attempt { credential: Credential::ChapMd5 { .. }, .. }))
    };
    assert_eq!(wire.said.iter().filter(attempts).count(), 1);
    assert_eq!((wire.layers(CONCENTRATOR).len(), wire.end(CONCENTRATOR)), (2, None), "{:?}", wire.said);
}

#[test]
fn both_sides_end_a_session() {
    for (by, other) in [(CONCENTRATOR, CLIENT), (CLIENT, CONCENTRATOR)] {
        let mut wire = Wire::new(&[Method::Pap], &[Method::Pap]);
        wire.dial();
        wire.with(by, |end, now, out| end.close(now, End::Closed, out));
        assert!(wire.layers(by).is_empty(), "the layers fall at once");
        wire.run(Duration::from_secs(60));
        assert_eq!((wire.end(by), wire.end(other)), (Some(End::Closed), Some(End::Peer)));
        assert!(wire.ends.iter().all(|end| end.has_ended() && end.deadline().is_none()));
        assert!(wire.layers(other).is_empty());
    }
}

#[test]
fn a_peer_that_is_gone_ends_the_session_in_each_phase() {
    for lost_from in [1, 5, 8, 11] {
        let mut wire = Wire::new(&[Method::ChapMd5], &[Method::ChapMd5]);
        wire.loses = Box::new(move |n| n >= lost_from);
        wire.dial();
        assert!(wire.end(CONCENTRATOR).is_some(), "lost from frame {lost_from}: {:?}", wire.said);
    }
}

#[test]
fn a_session_goes_on_after_a_restart_and_its_peer_notices_nothing() {
    let mut wire = Wire::new(&[Method::ChapMd5], &[Method::ChapMd5]);
    wire.dial();
    let (agreed, layers) = (wire.ends[CONCENTRATOR].agreed(), wire.layers(CONCENTRATOR));
    let role = wire.ends[CONCENTRATOR].role.clone();
    let random = &mut Random::new([9; 32]);
    wire.ends[CONCENTRATOR] = Endpoint::opened(role, agreed, &layers, Timers::default(), random);
    assert_eq!((wire.ends[CONCENTRATOR].agreed(), wire.ends[CONCENTRATOR].deadline()), (agreed, None));
    let before = wire.carried;
    wire.run(Duration::from_secs(600));
    assert_eq!(wire.carried, before);
    wire.with(CLIENT, |end, now, out| end.close(now, End::Closed, out));
    wire.run(Duration::from_secs(60));
    assert_eq!(wire.end(CONCENTRATOR), Some(End::Peer));
}
