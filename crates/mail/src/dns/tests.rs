use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::{LocalSet, spawn_local};

use super::zone::Kind;
use super::*;
use crate::session::Cause;

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 0);

/// Runs a test with a name server whose domains are all kinds.
fn with_server(odd: f64, test: impl AsyncFnOnce(SocketAddr, &Zone)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let zone = Zone { domains: 200, first: FIRST, addresses: 1000, odd };
    let server = NameServer { listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), zone: zone.clone() };
    runtime.block_on(async {
        let (ready, at) = tokio::sync::oneshot::channel();
        let local = LocalSet::new();
        local
            .run_until(async {
                spawn_local(serve(server, |listening| ready.send(listening.at).unwrap()));
                test(at.await.unwrap(), &zone).await;
            })
            .await;
    });
}

#[test]
fn each_kind_of_domain_is_found_or_named() {
    with_server(0.9, async |at, zone| {
        let resolver = Resolver::new(at, Duration::from_secs(30), 1).await.unwrap();
        let mut seen = Vec::new();
        for domain in 0..200 {
            let own = Ipv4Addr::from_bits(FIRST.to_bits() + domain);
            let expected = match zone.kind(domain) {
                Kind::Plain | Kind::Implicit => Ok(vec![own]),
                Kind::Many => Ok(vec![own; 10]),
                Kind::DeadFirst => Ok(vec![Ipv4Addr::new(127, 255, 255, 255), own]),
                Kind::NullMx | Kind::Absent => Err(Cause::NoMail),
                Kind::Failing => Err(Cause::NoAnswer),
            };
            let found = resolver.hosts(domain).await.map(|hosts| hosts.to_vec());
            assert_eq!(found, expected, "domain {domain}: {:?}", zone.kind(domain));
            if !seen.contains(&zone.kind(domain)) {
                seen.push(zone.kind(domain));
            }
        }
        assert_eq!(seen.len(), 7, "{seen:?}");
        assert_eq!(resolver.hosts(200).await, Err(Cause::NoMail), "beyond the last");
    });
}

#[test]
fn answers_to_others_are_no_answers() {
    with_server(0.0, async |real, _| {
        // Says first what is not to be believed: another number, another question, no message.
        let liar = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = liar.local_addr().unwrap();
        spawn_local(async move {
            let forward = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            forward.connect(real).await.unwrap();
            let (mut query, mut answer) = ([0; 512], [0; 512]);
            loop {
                let (n, from) = liar.recv_from(&mut query).await.unwrap();
                forward.send(&query[..n]).await.unwrap();
                let m = forward.recv(&mut answer).await.unwrap();
                let mut wrong = answer[..m].to_vec();
                wrong[0] ^= 1;
                liar.send_to(&wrong, from).await.unwrap();
                liar.send_to(b"x", from).await.unwrap();
                liar.send_to(&answer[..m], from).await.unwrap();
            }
        });
        let resolver = Resolver::new(at, Duration::from_secs(30), 1).await.unwrap();
        assert_eq!(
            resolver.hosts(3).await.map(|hosts| hosts.to_vec()),
            Ok(vec![Ipv4Addr::new(127, 1, 0, 3)])
        );
    });
}

#[test]
fn a_server_that_says_nothing_ends_the_search() {
    with_server(0.0, async |_, _| {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let resolver =
            Resolver::new(silent.local_addr().unwrap(), Duration::from_millis(1), 1).await.unwrap();
        assert_eq!(resolver.hosts(3).await, Err(Cause::NoAnswer));
        let mut query = [0; 512];
        for _ in 0..3 {
            silent.recv_from(&mut query).await.unwrap();
        }
    });
}
