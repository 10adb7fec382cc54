//! Parsers of untrusted bytes, for fuzz targets: replies of mail servers, commands of clients, queries and answers of DNS,
//! an outcome log after a crash.

use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;

use simple_dns::Packet;

use crate::dns::{Judged, Transport, Zone, additional, domain_name, judge, servers};
use crate::engine::Manner;
use crate::log;
use crate::reply::Reply;
use crate::session::{Cause, Ending, Recipient, Session, StartTls, Want};
use crate::sink::{Dialogue, Faults, Next, Received, Service};

/// Recipients of a connection, and of a transaction.
const ALL: u64 = 6;
const AT_ONCE: usize = 2;

/// A mail server replies so; the first byte says what the client wants. Each recipient has one outcome in the end.
pub fn replies(input: &[u8]) {
    let Some((&wishes, mut rest)) = input.split_first() else { return };
    let tls = [StartTls::Never, StartTls::Offered, StartTls::Required];
    let manner = Manner {
        helo: "weir.test".into(),
        from: "a@weir.test".into(),
        pipelining: wishes & 1 == 1,
        tls: tls.get(usize::from(wishes >> 2) % tls.len()).copied().unwrap_or(StartTls::Never),
        ending: if wishes & 2 == 2 { Ending::Data(200) } else { Ending::Rset },
    };
    let mut session = Session::new(Rc::new(manner));
    let all: Vec<_> = (0..ALL).map(|id| Recipient { id, attempts: 0 }).collect();
    let mut groups = all.chunks(AT_ONCE);
    let mut given = 0;
    loop {
        session.out.clear();
        match session.want() {
            Want::Reply(_) => match Reply::first(rest) {
                Ok(Some((reply, length))) => {
                    assert!((200..600).contains(&reply.code) && reply.lines().count() <= length);
                    session.reply(reply);
                    rest = rest.get(length..).unwrap_or_default();
                }
                Ok(None) => session.break_off(Cause::Closed),
                Err(wrong) => session.break_off(wrong.into()),
            },
            Want::Transaction => match groups.next() {
                Some(group) => {
                    given += group.len();
                    session.transaction(group, &|id, out| out.extend(id.to_string().bytes()));
                }
                None => session.quit(),
            },
            Want::Tls => session.secured(),
            Want::Close => break,
        }
    }
    let outcomes = session.news().outcomes;
    let mut ids: Vec<u64> = outcomes.iter().map(|(who, _)| who.id).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..given as u64), "{ids:?} of {given}: {outcomes:?}");
}

/// A client says this to the receivers, at once or in pieces: they say and count the same.
pub fn commands(input: &[u8]) {
    let Some((&wishes, rest)) = input.split_first() else { return };
    let faults = Faults { refuse: 0.3, defer: 0.2, busy: 0.01, cut: 0.02 };
    let service = Service {
        tls: wishes & 1 == 1,
        faults: if wishes & 2 == 2 { faults } else { Faults::default() },
        ..Service::default()
    };
    let whole = heard(&service, rest, rest.len().max(1));
    let pieces = heard(&service, rest, usize::from(wishes >> 2) + 1);
    assert_eq!(whole, pieces);
}

fn heard(service: &Service, input: &[u8], piece: usize) -> (String, Received) {
    let mut dialogue = Dialogue::new(service, 7);
    let mut waiting = Vec::new();
    for piece in input.chunks(piece) {
        waiting.extend_from_slice(piece);
        loop {
            let taken = dialogue.input(&waiting);
            waiting.drain(..taken);
            match dialogue.next() {
                Next::Tls => dialogue.secured(),
                Next::Read | Next::Close => break,
            }
        }
        assert!(dialogue.next() == Next::Close || waiting.len() <= 4096, "{} bytes wait", waiting.len());
    }
    (String::from_utf8_lossy(&dialogue.out).into_owned(), dialogue.take_counts())
}

fn zone() -> Zone {
    Zone { domains: 100, first: Ipv4Addr::new(127, 1, 0, 0), addresses: 50, odd: 0.5 }
}

/// A query to the name server: no answer, or one that can be read and fits.
pub fn query(input: &[u8]) {
    for transport in [Transport::Udp, Transport::Tcp] {
        let Some(answer) = zone().answer(input, transport) else { continue };
        assert!(transport == Transport::Tcp || answer.len() <= 512, "{} bytes", answer.len());
        Packet::parse(&answer).expect("its own answers can be read");
        assert!(zone().answer(&answer, transport).is_none(), "an answer is no query");
    }
}

/// An answer to the question for a domain's servers; the first bytes are the question.
pub fn answer(input: &[u8]) {
    let Some((&length, rest)) = input.split_first() else { return };
    let (query, message) = rest.split_at(usize::from(length).min(rest.len()));
    if judge(Some(message), query) != Judged::Good {
        return;
    }
    let packet = Packet::parse(message).expect("it was judged");
    match servers(&packet, &domain_name(3)) {
        Ok(hosts) => {
            assert!((1..=10).contains(&hosts.len()));
            hosts.iter().for_each(|host| additional(&packet, host).for_each(|_| {}));
        }
        Err(cause) => assert_eq!(cause, Cause::NoMail),
    }
}

/// Questions and answers for [`query`] and [`answer`].
pub fn messages() -> Vec<Vec<u8>> {
    use simple_dns::{CLASS, Name, QCLASS, QTYPE, Question, TYPE};
    let ask = |domain: u32| {
        let mut packet = Packet::new_query(7);
        let name = Name::new_unchecked(&domain_name(domain)).into_owned();
        packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::MX), QCLASS::CLASS(CLASS::IN), false));
        packet.build_bytes_vec().unwrap_or_default()
    };
    let with_answer = |query: Vec<u8>| {
        let answer = zone().answer(&query, Transport::Tcp).unwrap_or_default();
        [vec![query.len() as u8], query, answer].concat()
    };
    let questions: Vec<_> = (0..40).map(ask).collect();
    questions.iter().cloned().chain(questions.iter().cloned().map(with_answer)).collect()
}

/// An outcome log: what is whole in it is read, and read again from its whole part.
pub fn outcomes(input: &[u8]) {
    match log::read(input, 1 << 16, Path::new("log")) {
        Ok((done, length)) => {
            let again = log::read(input.get(..length).unwrap_or_default(), 1 << 16, Path::new("log"));
            assert_eq!(again.ok(), Some((done, length)));
        }
        Err(damaged) => assert!(damaged.to_string().contains("log is damaged in line")),
    }
}

/// Lines of a log.
pub fn lines() -> Vec<u8> {
    let record = |n: u64| log::Record {
        recipient: n * 7,
        verdict: [log::Verdict::Delivered, log::Verdict::Failed, log::Verdict::Expired][n as usize % 3],
        code: 250,
        attempts: 1,
    };
    let mut lines = Vec::new();
    (0..9).for_each(|n| record(n).line(&mut lines));
    lines
}
