//! Real stacks and the programs that people use, through `weir node`: ping, traceroute, curl, iperf3, ssh, and TCP that has
//! to find out how long its packets may be. No offload is switched off anywhere.
//!
//! ```text
//!  left - n0 [ node ] n1 - right - far           the last wire takes shorter packets than the others
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, address};
use weir_testkit::{PATIENCE, accept, need_root, output};

use crate::home::Home;
use crate::hosts::{at, find_path_mtu, pattern, set};
use crate::outside::{Sshd, has_sshd, make_keys};
use crate::street::{At, LEFT4, RIGHT4, Street, WAYS, settle, wire};

const LEFT6: At = ("2001:db8:1::2", "2001:db8:1::1");
const RIGHT6: At = ("2001:db8:2::2", "2001:db8:2::1");
const FAR4: At = ("198.19.0.9", "198.19.0.1");
const FAR6: At = ("2001:db8:9::9", "2001:db8:9::1");
/// What the last wire takes, towards the remote end.
const NARROW: u32 = 1300;
/// How long a program may take, s.
const PROGRAM_S: &str = "200";

/// A host behind the right one, which forwards to it.
fn remote(street: &Street, all: &[At]) -> Namespace {
    let remote = Namespace::new().unwrap();
    wire((&remote, "f1"), (&street.right, "f0"), Wire { number: 2, queues: 1 });
    let gateway = |&(_, gateway): &At| (gateway, gateway);
    street.right.run(|| {
        for (file, value) in [
            ("/proc/sys/net/ipv4/ip_forward", "1"),
            ("/proc/sys/net/ipv6/conf/all/forwarding", "1"),
            ("/sys/class/net/f0/mtu", &NARROW.to_string()),
        ] {
            std::fs::write(file, value).unwrap();
        }
    });
    let networks: Vec<At> = all.iter().map(gateway).collect();
    networks.iter().for_each(|(own, _)| address((&street.right, "f0"), own));
    settle((&remote, "f1"), all);
    remote
}

/// What a program prints; `None`, aloud, where it is not installed.
fn program(host: &Namespace, words: &[&str]) -> Option<String> {
    let output = host.run(|| output(Command::new("timeout").arg(PROGRAM_S).args(words)).unwrap());
    if output.status.code() == Some(127) {
        println!("skipped: {} is not installed", words[0]);
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

pub(crate) fn ping(host: &Namespace, target: &str) {
    program(host, &["ping", "-n", "-c", "3", "-i", "0.01", "-w", "100", target]);
    // In fragments both ways.
    program(host, &["ping", "-n", "-c", "2", "-i", "0.01", "-w", "100", "-s", "4000", target]);
}

/// The hops on the path.
pub(crate) fn hops(host: &Namespace, target: &str) -> Option<Vec<String>> {
    let text = program(host, &["traceroute", "-n", "-q", "1", "-N", "1", "-w", "5", "-m", "6", target])?;
    let hop = |line: &str| line.split_whitespace().nth(1).map(String::from);
    Some(text.lines().skip(1).filter_map(hop).collect())
}

/// curl at one host, a web server at `served` of another, which the first knows by `url`.
pub(crate) fn curl(host: &Namespace, server: &Namespace, served: &str, url: &str) {
    let listener = server.run(|| TcpListener::bind(served).unwrap());
    let page = pattern(2_000_000);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let (mut stream, _) = accept(&listener);
            let (mut asked, mut some) = (vec![], [0; 1000]);
            while !asked.ends_with(b"\r\n\r\n") {
                let n = stream.read(&mut some).unwrap();
                if n == 0 {
                    return;
                }
                asked.extend(&some[..n]);
            }
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", page.len());
            stream.write_all(&[head.as_bytes(), &page].concat()).unwrap();
        });
        let output = host.run(|| output(Command::new("curl").args(["-sSg", "-m", PROGRAM_S, url])));
        match output {
            Ok(output) => assert!(
                output.status.success() && output.stdout == page,
                "{url}: {} of {} bytes, {}",
                output.stdout.len(),
                page.len(),
                String::from_utf8_lossy(&output.stderr)
            ),
            Err(_) => {
                println!("skipped: curl is not installed");
                drop(server.run(|| TcpStream::connect(served)));
            }
        }
        serving.join().unwrap();
    });
}

/// iperf3 with two connections, one way and the other. It ends when all is sent, not when all has arrived.
pub(crate) fn iperf3(host: &Namespace, server: &Namespace, served: &str, target: &str) {
    for way in [&[][..], &["-R"]] {
        let mut command = Command::new("timeout");
        command.args([PROGRAM_S, "iperf3", "-s", "-1", "--forceflush", "-B", served]).stdout(Stdio::piped());
        let mut serving = server.run(|| command.spawn().unwrap());
        let mut lines = BufReader::new(serving.stdout.take().unwrap()).lines();
        if !lines.by_ref().any(|line| line.unwrap().contains("Server listening")) {
            assert_eq!(serving.wait().unwrap().code(), Some(127), "iperf3 listens at {served}");
            return println!("skipped: iperf3 is not installed");
        }
        let rest = std::thread::spawn(move || lines.for_each(drop));
        let words = [&["iperf3", "-c", target, "-n", "16M", "-P", "2", "--json"], way].concat();
        let reported: Value = serde_json::from_str(&program(host, &words).expect("it is installed")).unwrap();
        let bytes = reported["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
        assert!(bytes >= 1_000_000, "{words:?}: {reported}");
        assert!(serving.wait().unwrap().success(), "{words:?}");
        rest.join().unwrap();
    }
}

/// A command at a host by ssh, whose input and output are long, as those of a copy are.
pub(crate) fn ssh(host: &Namespace, server: &Namespace, served: &str, target: &str) {
    if !has_sshd() {
        return;
    }
    let home = Home::new(&[]);
    make_keys(&home, target);
    let _sshd = Sshd::start(&home, server, served);
    let sent = pattern(1_000_000);
    std::fs::write(home.path("sent"), &sent).unwrap();
    let words = format!("exec timeout {PROGRAM_S} ssh -F ssh_config root@{target} cat <sent");
    let output = host.run(|| output(&mut home.command(&["sh", "-c", &words], &[]))).unwrap();
    assert!(
        output.status.success() && output.stdout == sent,
        "ssh to {target}: {} of {} bytes came back, {}",
        output.stdout.len(),
        sent.len(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// What people do with a host: it is asked whether it is there, for a page, for all that the path carries, and for a shell.
fn talk(host: &Namespace, street: &Street, served: &str, target: &str) {
    ping(host, target);
    curl(host, &street.right, &at(served, 80), &format!("http://{}/", at(target, 80)));
    iperf3(host, &street.right, served, target);
    ssh(host, &street.right, served, target);
}

#[test]
fn programs_talk_through_a_nat_and_a_filter_with_ipv4_and_ipv6() {
    need_root!();
    for (io, threads) in WAYS {
        let way = format!("{io}, {threads} threads");
        let street = Street::for_threads(threads, &[LEFT4, LEFT6], &[RIGHT4, RIGHT6]);
        if threads == 2 {
            street.merge();
        }
        let remote = remote(&street, &[FAR4, FAR6]);
        let node = street.run(&format!(
            "node lan(198.18.0.1/24, 2001:db8:1::1/64, on n0)
                filter(accept state established, accept state related, accept outward state new)
                > nat(public 192.0.2.1)
                > route(198.19.0.0/24 via 192.0.2.2, 2001:db8:9::/64 via 2001:db8:2::2)
                > wan(192.0.2.1/24, 2001:db8:2::1/64, on n1)
             run(io {io}, threads {threads})"
        ));
        for ((_, gateway), (right, _), (remote_at, _)) in [(LEFT4, RIGHT4, FAR4), (LEFT6, RIGHT6, FAR6)] {
            talk(&street.left, &street, right, right);
            if let Some(hops) = hops(&street.left, remote_at) {
                assert_eq!(hops, [gateway, right, remote_at], "{way}");
            }
            find_path_mtu(&street.left, &remote, (&at(remote_at, 7), &at(remote_at, 7)), NARROW);
        }
        // No host outside may begin.
        let (to, from) = ("[2001:db8:1::2]:9", "[2001:db8:2::2]:0");
        let closed = street.left.run(|| UdpSocket::bind(to).unwrap());
        closed.set_nonblocking(true).unwrap();
        street.right.run(|| UdpSocket::bind(from).unwrap().send_to(b"hello", to).unwrap());
        let accounting = node.end();
        assert!(closed.recv(&mut [0; 9]).is_err(), "{way}: the filter lets it in");
        assert!(accounting["drops"]["filter_policy"].as_u64().unwrap_or(0) > 0, "{way}: {accounting}");
    }
}

#[test]
fn a_host_with_ipv6_alone_reaches_servers_with_ipv4_alone() {
    need_root!();
    for (io, threads) in WAYS {
        let way = format!("{io}, {threads} threads");
        let street = Street::for_threads(threads, &[LEFT6], &[RIGHT4]);
        if threads == 2 {
            street.merge();
        }
        let remote = remote(&street, &[FAR4]);
        let node = street.run(&format!(
            "node lan(2001:db8:1::1/64, on n0) > nat(public 192.0.2.1, prefix64 2001:db8:64::/96)
                > route(198.19.0.0/24 via 192.0.2.2) > wan(192.0.2.1/24, on n1)
             run(io {io}, threads {threads})"
        ));
        let (right, remote_at) = ("2001:db8:64::c000:202", "2001:db8:64::c613:9");
        talk(&street.left, &street, "192.0.2.2", right);
        if let Some(hops) = hops(&street.left, remote_at) {
            assert_eq!(hops, [LEFT6.1, right, remote_at], "{way}");
        }
        // The header of IPv6 is longer by 20 bytes.
        find_path_mtu(&street.left, &remote, ("198.19.0.9:7", &format!("[{remote_at}]:7")), NARROW + 20);
        let server = street.right.run(|| UdpSocket::bind("192.0.2.2:9").unwrap());
        let client = street.left.run(|| UdpSocket::bind("[2001:db8:1::2]:4000").unwrap());
        for sums in [true, false] {
            let long = pattern(4000);
            if !sums {
                set(&server, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1);
            }
            // The answer may be cut on its way.
            set(&server, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT);
            client.send_to(&long, format!("[{right}]:9")).unwrap();
            for (socket, answers) in [(&server, true), (&client, false)] {
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut came = [0; 5000];
                let (bytes, from) = socket.recv_from(&mut came).unwrap_or_else(|error| {
                    panic!("{way}, checksums {sums}, answer {}: {error}: {}", !answers, street.show("drops"))
                });
                assert!(came[..bytes] == long, "{way}, checksums {sums}: {bytes} bytes, or others");
                if answers {
                    socket.send_to(&long, from).unwrap();
                }
            }
        }
        node.end();
    }
}

#[test]
fn a_machine_talks_by_a_tap_device_of_its_own_node() {
    need_root!();
    for threads in [1, 2] {
        let street = Street::for_threads(threads, &[], &[RIGHT4, RIGHT6]);
        let node = street.run(&format!(
            "node lan(198.18.0.1/24, 2001:db8:1::1/64, on tap:t0) > nat(public 192.0.2.1) > route
                > wan(192.0.2.1/24, 2001:db8:2::1/64, on n1)
             run(host none, threads {threads})"
        ));
        settle((&street.node, "t0"), &[LEFT4, LEFT6]);
        for (right, _) in [RIGHT4, RIGHT6] {
            talk(&street.node, &street, right, right);
        }
        node.end();
    }
}
