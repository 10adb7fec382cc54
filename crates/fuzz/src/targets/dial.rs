//! PPPoE, PPP and RADIUS: frames and datagrams of peers that mean no good.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use weir_bng::ppp::auth::{Attempt, Method, Password, Verdict, supplicant::Login};
use weir_bng::ppp::endpoint::{Endpoint, Network, Output, Role};
use weir_bng::ppp::ipcp::Addresses;
use weir_bng::ppp::ipv6cp::InterfaceIds;
use weir_bng::ppp::negotiation::Timers;
use weir_bng::ppp::packet::{OptionList, Packet};
use weir_bng::ppp::protocol;
use weir_bng::pppoe::concentrator::{Answered, Concentrator, Options, Port};
use weir_bng::pppoe::discovery::{Code, Discovery};
use weir_bng::pppoe::line_tag::LineTag;
use weir_bng::pppoe::session::SessionFrame;
use weir_bng::pppoe::tags::{AC_COOKIE, HOST_UNIQ, PPP_MAX_PAYLOAD, SERVICE_NAME, TagList};
use weir_bng::ra::{self, Advertisement};
use weir_bng::radius::access::{Accept, Nas, Request, Unsupported};
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::client::{self, Client, Secret, Server, Token};
use weir_bng::radius::dynauth::{self, Received};
use weir_bng::radius::packet::{self as radius_packet, code};
use weir_bng::radius::plans::{self, PlanTable};
use weir_bng::{Line, Mac, Now, Random};
use weir_testkit::Dice;

const PORT: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SECRET: &[u8] = b"secret";

/// A frame is refused by name, or is the same when it is written and read again; the concentrator's answers can be read.
pub(super) fn pppoe(input: &[u8]) {
    if let Ok(frame) = SessionFrame::read(input) {
        assert_eq!(SessionFrame::read(&frame.write()), Ok(frame));
    }
    let Ok(packet) = Discovery::read(input) else { return };
    if let Some(frame) = packet.write() {
        assert_eq!(Discovery::read(&frame).as_ref(), Ok(&packet));
    }
    if let Ok(Some(line)) = LineTag::read(&packet.tags) {
        let mut tags = TagList::default();
        line.write(&mut tags);
        assert_eq!(LineTag::read(&tags), Ok(Some(line)));
    }
    let line: Line = "access1:100.7".parse().expect("a line");
    let mut concentrator =
        Concentrator::new(Options { max_payload: 1500, ..Options::default() }, Random::new([1; 32]));
    let mut cookie = None;
    let mut say = |packet: &Discovery| {
        let result = concentrator.input(Duration::ZERO, Port { line: &line, mac: PORT }, packet);
        let frame = match result {
            Ok(Answered::Offer { frame, .. } | Answered::Again(frame) | Answered::Refuse { frame, .. }) => {
                frame
            }
            Ok(Answered::Begin(begin)) => {
                assert_eq!(concentrator.mac(&begin.key), Some(packet.src));
                assert!((1492..=1500).contains(&begin.max_mru));
                begin.frame
            }
            Ok(Answered::End(_)) | Err(_) => return,
        };
        let answer = Discovery::read(&frame).expect("an answer can be read");
        assert_eq!((answer.dst, answer.src), (packet.src, PORT));
        assert_eq!(answer.tags.get(HOST_UNIQ), packet.tags.get(HOST_UNIQ));
        cookie = answer.tags.get(AC_COOKIE).map(<[u8]>::to_vec).or(cookie.take());
    };
    say(&packet);
    // The same tags as a request that follows an offer.
    let mut tags = TagList::default();
    tags.push(SERVICE_NAME, b"");
    say(&Discovery { dst: PORT, src: packet.src, code: Code::Padi, session_id: 0, tags });
    if let Some(cookie) = &cookie {
        let mut tags = TagList::default();
        tags.push(AC_COOKIE, cookie);
        packet
            .tags
            .iter()
            .filter(|(kind, _)| *kind != AC_COOKIE)
            .for_each(|(kind, value)| tags.push(kind, value));
        let padr = Discovery { dst: PORT, src: packet.src, code: Code::Padr, session_id: 0, tags };
        concentrator.input(Duration::ZERO, Port { line: &line, mac: PORT }, &padr).ok();
        assert!(concentrator.len() <= 1);
    }
}

pub(super) fn pppoe_seeds() -> Vec<Vec<u8>> {
    let frame = |code, list: &[(u16, &[u8])]| {
        let mut tags = TagList::default();
        list.iter().for_each(|(kind, value)| tags.push(*kind, value));
        Discovery { dst: PORT, src: HOST, code, session_id: 0, tags }.write().expect("a short frame")
    };
    let mut line = TagList::default();
    let circuit_id = Some(b"eth0/1:100".as_slice().into());
    LineTag { circuit_id, up_kbit_per_s: Some(40_000), ..LineTag::default() }.write(&mut line);
    let (kind, value) = line.iter().next().expect("a tag");
    let session =
        SessionFrame { dst: PORT, src: HOST, session_id: 7, protocol: protocol::LCP, payload: &[9, 1, 0, 4] };
    vec![
        frame(Code::Padi, &[(SERVICE_NAME, b""), (HOST_UNIQ, &[1, 2, 3, 4]), (PPP_MAX_PAYLOAD, &[5, 0xdc])]),
        frame(Code::Padr, &[(SERVICE_NAME, b"isp"), (AC_COOKIE, &[7; 20]), (kind, value)]),
        frame(Code::Padt, &[]),
        session.write(),
    ]
}

/// Frames in any order, lost, repeated and changed as the bytes choose: both ends always know what they do, and each ends once.
pub(super) fn ppp(input: &[u8]) {
    packets(input);
    let mut dice = Dice::of_bytes(input);
    let random = &mut Random::new([dice.roll(256_usize) as u8; 32]);
    let methods = [Method::MsChapV2, Method::ChapMd5, Method::Pap];
    let login = Login { name: b"anna".as_slice().into(), password: Password::new(b"secret") };
    let roles = [
        Role::Concentrator { name: "weir".into(), methods: methods[dice.roll(3_usize)..].into() },
        Role::Client { login, methods: methods[..=dice.roll(3_usize)].into(), interface_id: Some(0) },
    ];
    let mut ends = roles.map(|role| Endpoint::new(role, 1492, Timers::default(), random));
    let mut world = Wire { frames: Vec::new(), now: Duration::ZERO, ended: [0; 2], layers: [[0; 2]; 2] };
    for (of, end) in ends.iter_mut().enumerate() {
        let mut out = Vec::new();
        end.start(world.now, &mut out);
        world.take(of, end, out);
    }
    for _ in 0..(input.len() / 2).clamp(1, 400) {
        world.step(&mut dice, &mut ends);
    }
}

/// Codecs of packets and options.
fn packets(input: &[u8]) {
    ra::read_solicitation(input);
    if let Some((src, mut found)) = Advertisement::read(input) {
        let again = Advertisement::read(&found.packet(src, ra::ALL_NODES));
        // As many name servers as a packet has.
        found.dns.truncate(again.as_ref().map_or(0, |(_, again)| again.dns.len()));
        assert_eq!(again, Some((src, found)));
    }
    if let Some(packet) = Packet::read(input) {
        assert_eq!(Packet::read(&packet.write()), Some(packet));
        if let Some(options) = OptionList::read(packet.data) {
            let mut copy = OptionList::default();
            options.iter().for_each(|(kind, value)| copy.push(kind, value));
            assert_eq!(copy, options);
        }
    }
}

/// What is between two ends.
struct Wire {
    frames: Vec<(usize, u16, Vec<u8>)>,
    now: Duration,
    ended: [u32; 2],
    /// How often IPv4 and IPv6 are up at each end: 0 or 1.
    layers: [[i32; 2]; 2],
}

impl Wire {
    fn step(&mut self, dice: &mut Dice, ends: &mut [Endpoint; 2]) {
        let of = dice.roll(2_usize);
        let mut out = Vec::new();
        match dice.roll(10_usize) {
            0 => {
                self.now += Duration::from_secs(3);
                ends[of].timer(self.now, &mut out);
            }
            1 if dice.one_in(8) => ends[of].close(self.now, weir_bng::ppp::endpoint::End::Closed, &mut out),
            choice => {
                let at = dice.roll(self.frames.len().max(1));
                let Some((to, protocol, mut payload)) = self.frames.get(at).cloned() else { return };
                // Sometimes it comes again later.
                if choice > 2 {
                    self.frames.remove(at);
                }
                if choice == 3 && !payload.is_empty() {
                    let at = dice.roll(payload.len());
                    payload[at] = dice.roll(256_usize) as u8;
                }
                ends[to].frame(self.now, protocol, &payload, &mut out);
                return self.take(to, &mut ends[to], out);
            }
        }
        self.take(of, &mut ends[of], out);
    }

    fn take(&mut self, of: usize, end: &mut Endpoint, out: Vec<Output>) {
        for output in out {
            assert!(
                self.ended[of] == 0 || !matches!(output, Output::Send { .. } | Output::Up(_)),
                "{output:?} after the end"
            );
            match output {
                Output::Send { protocol, payload } if self.frames.len() < 64 => {
                    self.frames.push((1 - of, protocol, payload));
                }
                Output::Send { .. } => {}
                Output::Ask(attempt) => self.answer(of, end, &attempt),
                Output::Up(layer) => self.change(of, &layer, 1),
                Output::Down(layer) => self.change(of, &layer, -1),
                Output::Ended(_) => self.ended[of] += 1,
            }
        }
        assert!(self.ended[of] <= 1 && end.has_ended() == (self.ended[of] == 1));
        assert!(self.ended[of] == 0 || self.layers[of] == [0, 0], "a layer is up after the end");
    }

    fn change(&mut self, of: usize, layer: &weir_bng::ppp::endpoint::Layer, by: i32) {
        let place = usize::from(matches!(layer, weir_bng::ppp::endpoint::Layer::Ipv6(_)));
        self.layers[of][place] += by;
        assert!((0..=1).contains(&self.layers[of][place]), "{layer:?} is up or down twice");
    }

    fn answer(&mut self, of: usize, end: &mut Endpoint, attempt: &Attempt) {
        let verdict = match attempt.check(&Password::new(b"secret")) {
            Some(message) => Verdict::Accept { message },
            None => Verdict::Reject { message: Vec::new() },
        };
        let none = std::net::Ipv4Addr::UNSPECIFIED;
        let addresses =
            Addresses { gateway: [100, 64, 0, 1].into(), client: [100, 64, 0, 9].into(), dns: [none; 2] };
        let network = Network { ipv4: Some(addresses), ipv6: Some(InterfaceIds { own: 1, peer: 2 }) };
        let mut out = Vec::new();
        assert!(end.verdict(self.now, &verdict, network, &mut out));
        self.take(of, end, out);
    }
}

pub(super) fn ppp_seeds() -> Vec<Vec<u8>> {
    let choices = |seed| {
        let mut dice = Dice::new(seed);
        (0..600).map(|_| dice.roll(256_usize) as u8).collect()
    };
    let packet = Packet { code: 1, id: 7, data: &[1, 4, 5, 0xd4, 3, 5, 0xc2, 0x23, 5, 5, 6, 1, 2, 3, 4] };
    (0..8).map(choices).chain([packet.write()]).collect()
}

/// A datagram: it is not believed, or says the same when it is written and read again; attributes that are believed do no harm.
pub(super) fn radius(input: &[u8]) {
    let now = Now { at: Duration::from_secs(1000), wall_s: 1_790_000_000 };
    if let Ok(packet) = radius_packet::Packet::read(input) {
        assert_eq!(radius_packet::Packet::read(&packet.write()), Ok(packet.clone()));
    }
    let attributes = input.get(20..).and_then(Attributes::read).or_else(|| Attributes::read(input));
    let Some(attributes) = attributes else { return };
    let table = PlanTable::default();
    if let Ok(accept) = Accept::read(&attributes, &table, Unsupported::Ignore) {
        assert!(accept.prefixes.iter().all(|prefix| prefix.len <= 128));
    }
    answered(now, &attributes);
    asked(now, &attributes, table);
}

/// A server's answer with these attributes.
fn answered(now: Now, attributes: &Attributes) {
    let mut client = Client::new(client::Timers::default(), Random::new([1; 32]));
    let (secret, mut out) = (Secret::new(SECRET), Vec::new());
    client.configure(now, vec![Server::new("one", secret)], &mut out);
    let request = Request {
        code: code::ACCESS_REQUEST,
        attributes: attributes.clone(),
        password: Some(Password::new(b"secret")),
        happened_s: None,
    };
    client.send(now, Token(1), request, &mut out);
    let Some(client::Output::Send { server, port, bytes }) = out.pop() else {
        return assert!(client.is_empty(), "too long, or no server");
    };
    let request = radius_packet::Packet::read(&bytes).expect("a request can be read");
    let Some(answer) = request.answer(code::ACCESS_ACCEPT, attributes, SECRET) else { return };
    let has_two = attributes.get(number::MESSAGE_AUTHENTICATOR).is_some();
    let taken = client.datagram(now, &server, port, &answer.write(), &mut out);
    assert_eq!(taken.is_ok(), !has_two, "{taken:?}");
}

/// A request of RFC 5176 with these attributes.
fn asked(now: Now, attributes: &Attributes, table: PlanTable) {
    let from = SocketAddr::from(([192, 0, 2, 9], 3799));
    let sources = [(IpAddr::from([192, 0, 2, 9]), Secret::new(SECRET))].into();
    let options = dynauth::Options { sources, ..dynauth::Options::default() };
    let mut server = dynauth::Server::new(options, Nas::default(), table);
    for code in [code::DISCONNECT_REQUEST, code::COA_REQUEST] {
        let Some(request) = radius_packet::Packet::hashed(code, 1, attributes, SECRET) else { return };
        let bytes = request.write();
        let answer = match server.datagram(now, from, &bytes) {
            Ok(Received::Ask(ask)) => {
                assert_eq!(server.datagram(now, from, &bytes), Ok(Received::Pending));
                server.answer(ask.key, Ok(())).expect("it is known")
            }
            Ok(Received::Refused(answer)) => answer,
            Ok(Received::Pending | Received::Again(_)) => panic!("it did not come before"),
            Err(_) => continue,
        };
        assert_eq!(server.datagram(now, from, &bytes), Ok(Received::Again(answer.clone())));
        let answer = radius_packet::Packet::read(&answer).expect("an answer can be read");
        let required = radius_packet::Require::MessageAuthenticator;
        assert_eq!(answer.check_answer(&request.authenticator, SECRET, required), Ok(()));
    }
}

pub(super) fn radius_seeds() -> Vec<Vec<u8>> {
    let seed = |list: &[(u8, &[u8])], vendors: &[(u32, u8, &[u8])]| {
        let mut attributes = Attributes::default();
        list.iter().for_each(|(kind, value)| attributes.push(*kind, value));
        vendors.iter().for_each(|(vendor, kind, value)| attributes.push_vendor(*vendor, *kind, value));
        let packet = radius_packet::Packet::access(code::ACCESS_REQUEST, 1, [7; 16], &attributes, SECRET);
        [packet.expect("a short packet").write(), attributes.as_bytes().to_vec()]
    };
    let seeds = [
        seed(
            &[
                (number::USER_NAME, b"anna@isp"),
                (number::FRAMED_IP_ADDRESS, &[100, 64, 0, 9]),
                (number::CLASS, b"x"),
            ],
            &[],
        ),
        seed(
            &[(number::USER_NAME, b"anna"), (number::FILTER_ID, b"20000/5000")],
            &[(14988, 8, b"5M/20M"), (9, 1, b"ip:vrf-id=x")],
        ),
        seed(
            &[
                (number::FRAMED_IPV6_PREFIX, &[0, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0]),
                (number::EVENT_TIMESTAMP, &[0x6a, 0xb1, 0x3b, 0x80]),
            ],
            &[],
        ),
    ];
    seeds.into_iter().flatten().collect()
}

/// A table of plan attributes: all mistakes are reported, and what is read does no harm.
pub(super) fn radius_plans(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    match PlanTable::read(&text) {
        Ok(table) => {
            let value = input.get(..input.len().min(200)).unwrap_or_default();
            let mut attributes = Attributes::default();
            attributes.push(number::FILTER_ID, value);
            attributes.push_vendor(14988, 8, value);
            let wish = table.wish(&attributes);
            assert!(wish.is_ok() || wish.is_err_and(|wrong| !wrong.is_empty()));
        }
        Err(mistakes) => assert!(!mistakes.is_empty()),
    }
}

pub(super) fn radius_plans_seeds() -> Vec<Vec<u8>> {
    super::of_texts([plans::DEFAULT, "11 plan\n14988:8 rx/tx # both\n", "11 down/up kbit/s or plan\n"])
}
