//! Discovery as a host sees it.

use super::*;

const PORT: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// A concentrator and a host on a line.
struct Bench {
    concentrator: Concentrator,
    line: Line,
    now: Duration,
    host: Mac,
}

impl Bench {
    fn new(options: Options) -> Bench {
        let concentrator = Concentrator::new(options, Random::new([3; 32]));
        Bench { concentrator, line: "access1:100.7".parse().unwrap(), now: Duration::ZERO, host: HOST }
    }

    fn say(
        &mut self,
        code: Code,
        dst: Mac,
        session_id: u16,
        tags: &[(u16, &[u8])],
    ) -> Result<Answered, DropReason> {
        let mut list = TagList::default();
        tags.iter().for_each(|(kind, value)| list.push(*kind, value));
        let frame = Discovery { dst, src: self.host, code, session_id, tags: list }.write().unwrap();
        let packet = Discovery::read(&frame)?;
        self.concentrator.input(self.now, Port { line: &self.line, mac: PORT }, &packet)
    }

    fn padi(&mut self, tags: &[(u16, &[u8])]) -> Result<TagList, DropReason> {
        match self.say(Code::Padi, Mac::BROADCAST, 0, tags)? {
            Answered::Offer { frame, .. } => Ok(answer(&frame, Code::Pado, self.host).tags),
            other => panic!("{other:?}"),
        }
    }

    /// PADI and PADR with these tags.
    fn dial(&mut self, tags: &[(u16, &[u8])]) -> Result<Answered, DropReason> {
        let pado = self.padi(&[&[(SERVICE_NAME, &b""[..])], tags].concat())?;
        let cookie = pado.get(AC_COOKIE).unwrap();
        self.say(Code::Padr, PORT, 0, &[&[(SERVICE_NAME, &b""[..]), (AC_COOKIE, cookie)], tags].concat())
    }

    fn session(&mut self, host_uniq: &[u8]) -> Begin {
        match self.dial(&[(HOST_UNIQ, host_uniq)]) {
            Ok(Answered::Begin(begin)) => *begin,
            other => panic!("{other:?}"),
        }
    }
}

fn answer(frame: &[u8], code: Code, host: Mac) -> Discovery {
    let packet = Discovery::read(frame).unwrap();
    assert_eq!((packet.code, packet.dst, packet.src), (code, host, PORT));
    packet
}

fn service(names: &[&str], service_names: ServiceNames) -> Options {
    Options { services: names.iter().map(|name| (*name).into()).collect(), service_names, ..unlimited() }
}

fn unlimited() -> Options {
    let limit = Limit { per_s: 1_000_000, burst: 1_000_000 };
    Options { mac_limit: limit, line_limit: limit, ..Options::default() }
}

#[test]
fn p1_unknown_tags_are_ignored() {
    assert!(matches!(Bench::new(unlimited()).dial(&[(0x7fff, &[1])]), Ok(Answered::Begin(_))));
}

#[test]
fn p2_a_pado_names_the_concentrator_the_asked_service_and_the_others() {
    let mut bench = Bench::new(service(&["gold", "basic"], ServiceNames::Strict));
    let pado = bench.padi(&[(SERVICE_NAME, b"basic")]).unwrap();
    assert_eq!(pado.get(AC_NAME), Some(&b"weir"[..]));
    assert_eq!(pado.all(SERVICE_NAME).collect::<Vec<_>>(), [&b"basic"[..], b"gold"]);
    assert_eq!(bench.padi(&[(SERVICE_NAME, b"other")]), Err(DropReason::ServiceUnknown));
    assert_eq!(bench.padi(&[]), Err(DropReason::PppoeServiceName));
}

/// RFC 2516, section 5.2: a concentrator that cannot serve a PADI does not answer it. A PADR that follows an earlier PADO gets an error.
#[test]
fn a_padi_is_not_answered_while_as_many_sessions_are_set_up_as_the_limit_allows() {
    let mut bench = Bench::new(Options { most_half_open: 1, ..unlimited() });
    let pado = bench.padi(&[(SERVICE_NAME, b"")]).unwrap();
    let first = bench.session(&[1]);
    assert_eq!(bench.padi(&[(SERVICE_NAME, b"")]), Err(DropReason::PppoeHalfOpen));
    let padr = [(SERVICE_NAME, &b""[..]), (AC_COOKIE, pado.get(AC_COOKIE).unwrap()), (HOST_UNIQ, &[2])];
    let refused = bench.say(Code::Padr, PORT, 0, &padr).unwrap();
    assert!(matches!(refused, Answered::Refuse { reason: DropReason::PppoeHalfOpen, .. }), "{refused:?}");
    bench.concentrator.establish(&first.key);
    assert!(bench.padi(&[(SERVICE_NAME, b"")]).is_ok());
}

#[test]
fn p3_a_padr_for_an_unknown_service_gets_an_error_with_id_0_and_its_own_tags() {
    let mut bench = Bench::new(service(&["basic"], ServiceNames::Strict));
    let pado = bench.padi(&[(SERVICE_NAME, b"")]).unwrap();
    let cookie = pado.get(AC_COOKIE).unwrap();
    for (names, reason) in
        [(&[(SERVICE_NAME, &b"x"[..])][..], DropReason::ServiceUnknown), (&[], DropReason::PppoeServiceName)]
    {
        let tags = [names, &[(AC_COOKIE, cookie), (HOST_UNIQ, &[9]), (RELAY_SESSION_ID, &[8])]].concat();
        let refused = bench.say(Code::Padr, PORT, 0, &tags).unwrap();
        let Answered::Refuse { reason: found, frame } = refused else { panic!("{refused:?}") };
        let pads = answer(&frame, Code::Pads, HOST);
        assert_eq!((found, pads.session_id), (reason, 0));
        assert!(pads.tags.get(SERVICE_NAME_ERROR).is_some());
        assert_eq!(pads.tags.get(HOST_UNIQ), Some(&[9][..]), "P8");
        assert_eq!(pads.tags.get(RELAY_SESSION_ID), Some(&[8][..]), "P8");
    }
    assert!(bench.concentrator.is_empty());
}

#[test]
fn p3_a_tolerant_concentrator_serves_and_counts_other_services() {
    let mut bench = Bench::new(service(&["basic"], ServiceNames::Tolerant));
    let pado = bench.padi(&[(SERVICE_NAME, b"other")]).unwrap();
    let cookie = pado.get(AC_COOKIE).unwrap();
    let begun = bench.say(Code::Padr, PORT, 0, &[(AC_COOKIE, cookie)]);
    assert!(matches!(begun, Ok(Answered::Begin(_))), "{begun:?}");
    assert_eq!(bench.concentrator.counts(), Counts { other_services: 1, without_service: 1 });
}

#[test]
fn p5_a_padt_ends_only_the_session_of_its_line_mac_and_id() {
    let mut bench = Bench::new(unlimited());
    let begin = bench.session(&[1]);
    let id = begin.key.id;
    assert_eq!(bench.say(Code::Padt, PORT, id ^ 1, &[]), Err(DropReason::PppoeSession));
    bench.host = Mac([2, 0, 0, 0, 0, 2]);
    assert_eq!(bench.say(Code::Padt, PORT, id, &[]), Err(DropReason::PppoeSession), "another MAC");
    bench.host = HOST;
    let line = std::mem::replace(&mut bench.line, "access1:100.8".parse().unwrap());
    assert_eq!(bench.say(Code::Padt, PORT, id, &[]), Err(DropReason::PppoeSession), "another line");
    bench.line = line;
    assert_eq!(bench.say(Code::Padt, PORT, id, &[]), Ok(Answered::End(begin.key)));
    assert_eq!(bench.say(Code::Padt, PORT, id, &[]), Err(DropReason::PppoeSession), "it has ended");
    assert_eq!((bench.concentrator.len(), bench.concentrator.macs.len()), (0, 0));
}

#[test]
fn p7_no_state_before_a_valid_padr() {
    let mut bench = Bench::new(unlimited());
    for n in 0..100_u32 {
        bench.host = Mac([2, 1, 0, 0, (n >> 8) as u8, n as u8]);
        bench.padi(&[(SERVICE_NAME, b"")]).unwrap();
        let forged = bench.say(Code::Padr, PORT, 0, &[(SERVICE_NAME, b""), (AC_COOKIE, &[7; 20])]);
        assert_eq!(forged, Err(DropReason::AcCookie));
    }
    assert_eq!(bench.say(Code::Padr, PORT, 0, &[(SERVICE_NAME, b"")]), Err(DropReason::AcCookie));
    let Concentrator { lines, requests, macs, .. } = &bench.concentrator;
    assert_eq!((lines.len(), requests.len(), macs.len()), (0, 0, 0));
}

#[test]
fn p7_a_repeated_padr_gets_the_same_session_until_it_is_confirmed() {
    let mut bench = Bench::new(unlimited());
    let begin = bench.session(&[1]);
    assert_eq!(bench.dial(&[(HOST_UNIQ, &[1])]), Ok(Answered::Again(begin.frame.clone())));
    assert_ne!(bench.session(&[2]).key, begin.key, "another session of the same MAC (TR-101, R-79)");
    bench.concentrator.confirm(&begin.key);
    assert_ne!(bench.session(&[1]).key, begin.key);
    assert_eq!(bench.concentrator.len(), 3);
}

#[test]
fn p8_host_uniq_and_relay_session_id_come_back_unchanged() {
    let mut bench = Bench::new(unlimited());
    let tags = [(HOST_UNIQ, &[0, 255, 3][..]), (RELAY_SESSION_ID, &[7; 12])];
    let pado = bench.padi(&[&[(SERVICE_NAME, &b""[..])][..], &tags].concat()).unwrap();
    let Ok(Answered::Begin(begin)) = bench.dial(&tags) else { panic!("no session") };
    for found in [pado, answer(&begin.frame, Code::Pads, HOST).tags] {
        tags.iter().for_each(|(kind, value)| assert_eq!(found.get(*kind), Some(*value)));
    }
}

#[test]
fn p9_ids_are_unique_on_a_line_and_never_0_or_65535() {
    let mut bench = Bench::new(Options { most_of_mac: usize::MAX, ..unlimited() });
    for id in 1..=65_530 {
        assert!(bench.concentrator.adopt(&SessionKey { line: bench.line.clone(), id }, HOST));
    }
    let mut ids: Vec<u16> = (0..4).map(|n| bench.session(&[n]).key.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [65_531, 65_532, 65_533, 65_534]);
    let full = bench.dial(&[(HOST_UNIQ, &[9])]);
    assert!(matches!(full, Ok(Answered::Refuse { reason: DropReason::PppoeSessionsLine, .. })), "{full:?}");
    for id in [0, 1, 65_535] {
        assert!(!bench.concentrator.adopt(&SessionKey { line: bench.line.clone(), id }, HOST), "{id}");
    }
    bench.line = "access1:100.8".parse().unwrap();
    bench.session(&[9]);
}

#[test]
fn p10_rfc_4638_is_offered_up_to_the_mtu_of_the_port() {
    for (port, asked, mru, echoed) in [
        (1492, Some(1500), 1492, false),
        (1500, None, 1492, false),
        (1500, Some(1500), 1500, true),
        (1500, Some(9000), 1500, true),
        (1500, Some(1400), 1492, false),
        (1496, Some(1500), 1496, true),
    ] {
        let mut bench = Bench::new(Options { max_payload: port, ..unlimited() });
        let value = asked.unwrap_or(0_u16).to_be_bytes();
        let tags: &[(u16, &[u8])] = if asked.is_some() { &[(PPP_MAX_PAYLOAD, &value)] } else { &[] };
        let pado = bench.padi(&[&[(SERVICE_NAME, &b""[..])], tags].concat()).unwrap();
        let Ok(Answered::Begin(begin)) = bench.dial(tags) else { panic!("no session") };
        let expected = echoed.then_some(&value[..]);
        assert_eq!(begin.max_mru, mru, "port {port}, asked {asked:?}");
        assert_eq!(pado.get(PPP_MAX_PAYLOAD), expected, "port {port}, asked {asked:?}");
        assert_eq!(answer(&begin.frame, Code::Pads, HOST).tags.get(PPP_MAX_PAYLOAD), expected);
    }
}

#[test]
fn p11_the_line_tag_is_read_and_never_sent() {
    let mut bench = Bench::new(unlimited());
    let line = LineTag { circuit_id: Some(b"eth0/1:100".as_slice().into()), ..LineTag::default() };
    let mut tags = TagList::default();
    line.write(&mut tags);
    let (kind, value) = tags.iter().next().unwrap();
    let Ok(Answered::Begin(begin)) = bench.dial(&[(kind, value)]) else { panic!("no session") };
    assert_eq!(begin.line_tag, Some(line));
    assert_eq!(answer(&begin.frame, Code::Pads, HOST).tags.get(kind), None);
}

#[test]
fn padi_limits_of_a_mac_and_of_a_line() {
    let mut bench = Bench::new(Options::default());
    let padi = [(SERVICE_NAME, &b""[..])];
    let served = (0..9).filter(|_| bench.padi(&padi).is_ok()).count();
    assert_eq!((served, bench.padi(&padi)), (5, Err(DropReason::PadiRateMac)));
    let mut drops = HashMap::new();
    for n in 0..3000_u32 {
        bench.host = Mac([2, 1, 0, 0, (n >> 8) as u8, n as u8]);
        if let Err(reason) = bench.padi(&padi) {
            *drops.entry(reason).or_insert(0) += 1;
        }
    }
    assert_eq!(drops.get(&DropReason::PadiRateLine), Some(&1005));
}

#[test]
fn sessions_of_a_mac_and_of_a_line_are_limited() {
    let mut bench = Bench::new(Options { most_of_mac: 2, most_of_line: 3, ..unlimited() });
    let first = bench.session(&[1]);
    bench.session(&[2]);
    let refused = |bench: &mut Bench| match bench.dial(&[(HOST_UNIQ, &[9])]) {
        Ok(Answered::Refuse { reason, frame }) => {
            assert!(answer(&frame, Code::Pads, bench.host).tags.get(AC_SYSTEM_ERROR).is_some());
            reason
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&mut bench), DropReason::PppoeSessionsMac);
    bench.host = Mac([2, 0, 0, 0, 0, 2]);
    bench.session(&[1]);
    bench.host = Mac([2, 0, 0, 0, 0, 3]);
    assert_eq!(refused(&mut bench), DropReason::PppoeSessionsLine);
    bench.concentrator.release(&first.key);
    bench.session(&[9]);
}

#[test]
fn answers_of_other_concentrators_and_requests_for_them_are_dropped() {
    let mut bench = Bench::new(unlimited());
    for code in [Code::Pado, Code::Pads] {
        assert_eq!(bench.say(code, PORT, 0, &[]), Err(DropReason::FromServer));
    }
    let other = Mac([2, 0, 0, 0, 0, 0xfd]);
    for code in [Code::Padi, Code::Padr, Code::Padt] {
        assert_eq!(bench.say(code, other, 0, &[(SERVICE_NAME, b"")]), Err(DropReason::OtherServer));
    }
    bench.host = PORT;
    assert_eq!(bench.say(Code::Padi, Mac::BROADCAST, 0, &[]), Err(DropReason::OwnMac));
}

#[test]
fn a_padt_carries_the_reason_as_a_text() {
    let packet = Discovery::read(&padt(PORT, HOST, 7, "the session was ended by the operator")).unwrap();
    assert_eq!((packet.code, packet.session_id), (Code::Padt, 7));
    assert_eq!(packet.tags.get(GENERIC_ERROR), Some(&b"the session was ended by the operator"[..]));
}
