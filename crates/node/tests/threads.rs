//! A node of two threads between stacks of the kernel, over wires with two queues.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_node::{Config, Node, Opened, Snapshot};
use weir_testkit::wires::{End, Wire, address, default_route, join, set_up, without_ipv6};
use weir_testkit::{PATIENCE, accept, be_patient, need_root};

use crate::run::all_sessions;

/// Hosts of the left side: addresses of one machine, 198.18.0.2 and so on.
const HOSTS: u8 = 12;
const BYTES: usize = 300_000;

/// Joins a host and the node.
fn wire(host: End<'_>, node: End<'_>, number: u8) {
    join([host, node], Wire { number, queues: 2 });
    for end in [host, node] {
        without_ipv6(end);
        // Frames as they stand on a wire: whole, no longer than the MTU.
        for offload in [Offload::Tso, Offload::Gso, Offload::TxChecksum, Offload::Gro] {
            end.0.run(|| set_offload(end.1, offload, false)).unwrap();
        }
    }
    [host, node].into_iter().for_each(|end| set_up(end, true));
}

/// Gives a host its addresses and a gateway.
fn settle(end: End<'_>, addresses: &[impl AsRef<str>], gateway: &str) {
    addresses.iter().for_each(|own| address(end, own.as_ref()));
    default_route(end, gateway);
}

/// The hosts of the left side, a host with this address and gateway on the right one, and between them a place for a node, with
/// the interfaces n0 and n1; with the addresses on the left.
fn street(right_host: &str, gateway: &str) -> ([Namespace; 3], Vec<String>) {
    let [left, right, node] = [(); 3].map(|()| Namespace::new().unwrap());
    wire((&left, "l0"), (&node, "n0"), 0);
    wire((&right, "r0"), (&node, "n1"), 1);
    let hosts: Vec<String> = (2..2 + HOSTS).map(|n| format!("198.18.0.{n}")).collect();
    settle((&left, "l0"), &hosts, "198.18.0.1");
    settle((&right, "r0"), &[right_host], gateway);
    ([left, right, node], hosts)
}

fn config(text: &str) -> Config {
    let config = Config::read("test", text, &|name| Err(format!("no file {name}")));
    config.unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Starts a node there.
fn start(namespace: &Namespace, config: &Config) -> Node {
    namespace.run(|| Opened::new(config).unwrap().start().unwrap())
}

/// Sends all that it hears back, of one connection.
fn echo(listener: TcpListener) {
    let (mut stream, from) = accept(&listener);
    assert!(from.ip().to_string().starts_with("192.0.2.1"), "it is translated: {from}");
    let mut buf = [0; 8192];
    loop {
        match stream.read(&mut buf).unwrap() {
            0 => return,
            bytes => stream.write_all(&buf[..bytes]).unwrap(),
        }
    }
}

#[test]
fn hosts_behind_two_threads_talk_through_a_nat() {
    need_root!();
    talk("nat(public 192.0.2.16/30, block 512)", 1);
}

#[test]
fn hosts_behind_two_threads_talk_through_two_nats() {
    need_root!();
    talk("nat(public 100.64.0.0/29, block 256) > nat(public 192.0.2.16/30, block 512)", 2);
}

/// Where the question of a host comes from, if it is answered. Machines with little time lose a datagram now and then: a host
/// asks again. What comes only then was not lost but forgotten in the node.
fn ask(server: &UdpSocket, host: &UdpSocket, (round, n): (u8, u8)) -> Option<SocketAddr> {
    const TRIES: u8 = 3;
    let take = |socket: &UdpSocket, question: [u8; 3]| {
        socket.set_read_timeout(Some(PATIENCE / TRIES.into())).unwrap();
        let mut buf = [0; 16];
        let (bytes, from) = socket.recv_from(&mut buf).ok()?;
        assert_eq!(buf[..bytes], question, "a datagram that is late by seconds");
        Some(from)
    };
    (0..TRIES).find_map(|attempt| {
        let question = [round, n, attempt];
        host.send_to(&question, "192.0.2.2:53").unwrap();
        let from = take(server, question)?;
        server.send_to(&question, from).unwrap();
        take(host, question).map(|_| from)
    })
}

/// Hosts behind these stages, so many of which are NATs, talk to one in front of them.
fn talk(stages: &str, nats: usize) {
    for io in ["packet", "xdp"] {
        let ([left, right, node], hosts) = street("192.0.2.2", "192.0.2.1");
        let text = format!(
            "lan(198.18.0.1/24, on n0) filter(accept outward, accept state established) \
             > {stages} > route > wan(192.0.2.1/24, on n1) \
             run(io {io}, threads 2, host none)"
        );
        let running = start(&node, &config(&text));

        // A connection that carries data both ways.
        let listener = right.run(|| TcpListener::bind("192.0.2.2:7000").unwrap());
        let server = std::thread::spawn(move || echo(listener));
        left.run(|| {
            let mut stream = TcpStream::connect("192.0.2.2:7000").unwrap();
            be_patient(&stream);
            let sent: Vec<u8> = (0..BYTES).map(|n| (n / 7) as u8).collect();
            let mut writer = stream.try_clone().unwrap();
            let sender = std::thread::spawn({
                let sent = sent.clone();
                move || writer.write_all(&sent).unwrap()
            });
            let mut came = vec![0; BYTES];
            stream.read_exact(&mut came).unwrap();
            assert!(came == sent, "{io}: what came back is what was sent");
            sender.join().unwrap();
        });
        server.join().unwrap();

        // Hosts of both threads ask and are answered, again and again.
        let server = right.run(|| UdpSocket::bind("192.0.2.2:53").unwrap());
        let asking: Vec<UdpSocket> =
            hosts.iter().map(|host| left.run(|| UdpSocket::bind((host.as_str(), 5000)).unwrap())).collect();
        let mut ends = Vec::new();
        for round in 0..4 {
            for (n, socket) in asking.iter().enumerate() {
                ends.push(
                    ask(&server, socket, (round, n as u8)).unwrap_or_else(|| panic!("{io}: no answer")),
                );
            }
        }
        let hosts = usize::from(HOSTS);
        assert!((0..hosts).all(|n| ends[n..].iter().step_by(hosts).all(|end| *end == ends[n])), "{ends:?}");
        assert_eq!(
            all_sessions(&running).1.iter().filter(|line| line.starts_with("udp")).count(),
            (1 + nats) * hosts
        );

        let threads = running.stop().threads.unwrap();
        let all = Snapshot::sum(&threads).accounting;
        assert!(
            threads.iter().all(|thread| thread.accounting.balance() && thread.accounting.left > 20),
            "{io}: {threads:?}"
        );
        assert_eq!(all.handed, all.taken, "{io}: {threads:?}");
        assert_eq!(
            all.entered + all.originated,
            all.left + all.local.total() + all.kept + all.drops.total(),
            "{io}: {all:?}"
        );
    }
}

#[test]
fn frames_come_to_the_thread_that_they_belong_to_at_once() {
    need_root!();
    let ([left, right, node], hosts) = street("198.18.0.1", "198.18.0.2");
    let text = "lan(on n0) filter(accept outward, accept state established) > wan(on n1) \
                run(io packet, threads 2, host none)";
    // A question for an address is no matter of the filter.
    let running = start(&node, &config(text));
    let server = right.run(|| UdpSocket::bind("198.18.0.1:53").unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    for host in &hosts {
        let socket = left.run(|| UdpSocket::bind((host.as_str(), 5000)).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buf = [0; 16];
        socket.send_to(&[7], "198.18.0.1:53").unwrap();
        let (_, from) = server.recv_from(&mut buf).unwrap();
        server.send_to(&[8], from).unwrap();
        socket.recv_from(&mut buf).unwrap();
    }
    let threads = running.stop().threads.unwrap();
    let all = Snapshot::sum(&threads).accounting;
    assert!(threads.iter().all(|thread| thread.accounting.left > 2), "both have work: {threads:?}");
    assert!(all.left >= 2 * u64::from(HOSTS) && all.handed == 0, "{all:?}");
}

/// The count of a rule is the sum of its counts in each thread; while stages come and go, too, the rules of two texts are never
/// added up.
#[test]
fn rules_are_counted_by_one_text_while_stages_come_and_go() {
    need_root!();
    let ([left, right, node], hosts) = street("198.18.0.1", "198.18.0.2");
    let with = |others: &str| {
        config(&format!(
            "lan(on n0) {others} filter(count all udp, policy accept) > wan(on n1) \
             run(io packet, threads 2, host none)"
        ))
    };
    // Filters without a frame so far: by the rules of another text they would have counted.
    let texts = [with(""), with("filter(drop tcp to port 9, drop tcp to port 10, policy accept) >")];
    let running = start(&node, &texts[0]);
    let server = right.run(|| UdpSocket::bind("198.18.0.1:53").unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    for host in &hosts {
        let socket = left.run(|| UdpSocket::bind((host.as_str(), 5000)).unwrap());
        socket.send_to(&[7], "198.18.0.1:53").unwrap();
        server.recv_from(&mut [0; 16]).unwrap();
    }
    let both = running.count().unwrap();
    assert!(both.iter().all(|thread| thread.accounting.left > 0), "both have work: {both:?}");
    let counted = |running: &Node| {
        let rules = running.rules().unwrap().into_iter();
        rules.filter(|one| one.rule.contains("count all")).map(|one| one.frames).collect::<Vec<_>>()
    };
    let (before, (mut looks, applied)) = (counted(&running), (0, 400));
    assert_eq!(before, [u64::from(HOSTS)]);
    std::thread::scope(|scope| {
        let apply = || (1..=applied).for_each(|n| _ = running.apply(&texts[n % 2]).unwrap());
        let applying = scope.spawn(apply);
        while !applying.is_finished() {
            assert_eq!(counted(&running), before, "after {looks} looks");
            looks += 1;
        }
        applying.join().unwrap();
    });
    println!("{looks} looks at the rules beside {applied} changes of the text");
    assert!(looks > 0);
}
