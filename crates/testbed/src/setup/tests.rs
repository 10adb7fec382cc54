use std::net::IpAddr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::*;
use crate::graph::wait_until_operational;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Rtnl, VethConfig, VethEnd};
use weir_testkit::{golden, need_root};

fn setup(os: Os, mode: Mode) -> Setup {
    let interfaces = os.usual_interfaces().map(String::from);
    Setup { os, mode, nat: false, rules: 4, interfaces, ip: IpVersion::V4 }
}

/// Each text as it was read beside the manuals: a change is to be read again.
#[test]
fn the_texts_are_those_that_were_checked() {
    let nat = |os| Setup { nat: true, ..setup(os, Mode::Stateful) };
    let six = |os| Setup { ip: IpVersion::V6, nat: true, ..setup(os, Mode::Stateful) };
    let one_port =
        Setup { interfaces: ["eth1", "eth1"].map(String::from), ..setup(Os::LinuxNft, Mode::Stateless) };
    for (name, setup) in [
        ("linux-nft", one_port),
        ("linux-iptables", nat(Os::LinuxIptables)),
        ("freebsd-pf", setup(Os::FreebsdPf, Mode::Stateless)),
        ("freebsd-pf-nat", nat(Os::FreebsdPf)),
        ("freebsd-ipfw", nat(Os::FreebsdIpfw)),
        ("openbsd-pf", setup(Os::OpenbsdPf, Mode::Stateless)),
        ("openbsd-pf-nat", six(Os::OpenbsdPf)),
        ("routeros", setup(Os::Routeros, Mode::Stateless)),
        ("routeros-nat", nat(Os::Routeros)),
        ("vyos", setup(Os::Vyos, Mode::Stateless)),
        ("vyos-nat", six(Os::Vyos)),
    ] {
        let text = setup.text().unwrap();
        golden!(format!("src/setup/golden/{name}.txt"), &text);
    }
}

#[test]
fn every_system_has_every_mode() {
    for (os, name) in Os::ALL {
        assert_eq!(name.parse(), Ok(os));
        for (mode, _) in Mode::ALL {
            for ip in [IpVersion::V4, IpVersion::V6] {
                let text = Setup { ip, ..setup(os, mode) }.text().unwrap();
                let last = crate::rules::test_network(ip);
                assert_eq!(text.contains(last), mode != Mode::Forward, "{os} {mode}: {text}");
                for (side, interface) in setup(os, mode).sides() {
                    for word in [&side.dut(ip).to_string(), &side.tester(ip).to_string(), interface] {
                        assert!(text.contains(word), "{os} {mode}: no {word} in {text}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let good = setup(Os::Vyos, Mode::Stateless);
    let message = |setup: Setup| setup.text().unwrap_err().to_string();
    assert_eq!(message(Setup { rules: 0, ..good.clone() }), "0 rules: use 1 to 10000");
    assert!(message(Setup { nat: true, ..good.clone() }).starts_with("NAT keeps state"));
    let six = Setup { nat: true, ip: IpVersion::V6, ..setup(Os::FreebsdIpfw, Mode::Forward) };
    assert!(message(six).starts_with("ipfw's NAT knows IPv4 only"));
    let interfaces = ["eth1; reboot", "eth2"].map(String::from);
    assert_eq!(
        message(Setup { interfaces, ..good }),
        "`eth1; reboot` is no name of an interface: use letters, digits, . _ -"
    );
    assert_eq!(
        "windows".parse::<Os>().unwrap_err(),
        "`windows` is no system that weir knows: use linux-nft, linux-iptables, freebsd-pf, freebsd-ipfw, \
         openbsd-pf, routeros, vyos"
    );
}

/// A box with two ports and the tester's ends of its wires.
struct Wired {
    tester: Namespace,
    box_: Namespace,
}

impl Wired {
    fn new() -> Wired {
        let wired = Wired { tester: Namespace::new().unwrap(), box_: Namespace::new().unwrap() };
        for (n, box_port) in [(1, "eth1"), (2, "eth2")] {
            let here = VethEnd { name: ["t0", "t1"][n - 1], mac: mac(0, n), namespace: wired.tester.fd() };
            let there = VethEnd { name: box_port, mac: mac(1, n), namespace: wired.box_.fd() };
            let config = VethConfig { mtu: 1500, queues: 1 };
            wired.tester.run(|| Rtnl::open()?.add_veth([here, there], config)).unwrap();
        }
        wired.tester.run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            for name in ["t0", "t1"] {
                let ifindex = rtnl.link(name).unwrap().ifindex;
                rtnl.set_up(ifindex, true).unwrap();
            }
        });
        // The box's owner has rules that ask for the state: what is not exempt is tracked in every mode.
        wired.said_in_box(
            "nft add table inet owner\n\
             nft 'add chain inet owner watch { type filter hook forward priority 10; }'\n\
             nft add rule inet owner watch ct state established counter",
        );
        wired
    }

    fn in_box(&self, script: &str) -> Output {
        self.box_.run(|| {
            let mut command = Command::new("sh");
            command.args(["-e", "-c", script]).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
            command.output().unwrap()
        })
    }

    fn said_in_box(&self, script: &str) -> String {
        let output = self.in_box(script);
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn wait_for_carrier(&self) {
        for (namespace, names) in [(&self.tester, ["t0", "t1"]), (&self.box_, ["eth1", "eth2"])] {
            namespace.run(|| names.iter().try_for_each(|name| wait_until_operational(name))).unwrap();
        }
    }

    /// Sends two frames from side a to side b, waits for the second, and says whether the first came out as well.
    fn first_passes(&self, addresses: [[&str; 2]; 2]) -> bool {
        use weir_port::packet::{Ring, Sender};
        self.tester.run(|| {
            let mut rtnl = Rtnl::open().unwrap();
            let [t0, t1] = ["t0", "t1"].map(|name| rtnl.link(name).unwrap().ifindex);
            // Blocks enough for what the box says by itself (MLD): a block that is being read takes no frame.
            let mut ring = Ring::open(t1, 8).unwrap();
            let frames = [0, 1].map(|i| udp(addresses[i], MARKS[i]));
            assert_eq!(Sender::open(t0).unwrap().send(&frames).unwrap(), 2);
            let mut came = [false; 2];
            let deadline = Instant::now() + Duration::from_secs(120);
            while !came[1] && Instant::now() < deadline {
                let note = |frame: &[u8], _| (0..2).for_each(|i| came[i] |= frame.ends_with(MARKS[i]));
                ring.receive(Duration::from_millis(100), note).unwrap();
            }
            assert!(came[1], "{:?} did not come out", addresses[1]);
            came[0]
        })
    }
}

const MARKS: [&[u8]; 2] = [b"weir set-up one", b"weir set-up two"];

fn mac(side: u8, n: usize) -> [u8; 6] {
    [2, 0, 0, 0, side, n as u8]
}

fn udp([source, destination]: [&str; 2], mark: &[u8]) -> Vec<u8> {
    let bytes = |address: &str| match address.parse().unwrap() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let addresses = [bytes(source), bytes(destination)].concat();
    let length = (8 + mark.len()) as u8;
    let mut frame = [mac(1, 1), mac(0, 1)].concat();
    if addresses.len() == 8 {
        let mut header = [vec![0x45, 0, 0, 20 + length, 0, 0, 0, 0, 64, 17, 0, 0], addresses].concat();
        weir_packet::checksum::write_ipv4(&mut header);
        frame.extend([0x08, 0x00]);
        frame.extend(header);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, length, 17, 64]);
        frame.extend(addresses);
    }
    // Ports 4000 and 53; no checksum, which neither forwarding nor filters look at.
    frame.extend([0x0f, 0xa0, 0, 53, 0, length, 0, 0]);
    frame.extend(mark);
    frame
}

/// Source and destination of a frame from outside of the test networks, and of one as the tester sends it.
fn foreign_and_ours(ip: IpVersion) -> [[&'static str; 2]; 2] {
    match ip {
        IpVersion::V4 => [["192.0.2.9", "198.19.128.0"], ["198.18.128.0", "198.19.128.0"]],
        IpVersion::V6 => [["2001:db9::9", "2001:db8:19::9"], ["2001:db8:18::9", "2001:db8:19::9"]],
    }
}

/// Packets that each rule has accepted.
fn accepted(wired: &Wired, os: Os, ip: IpVersion) -> Vec<u64> {
    let (nft, iptables) = if ip == IpVersion::V4 { ("ip", "iptables") } else { ("ip6", "ip6tables") };
    if os == Os::LinuxNft {
        let text = wired.said_in_box(&format!("nft list chain {nft} weir forwarding"));
        let rules = text.lines().filter(|line| line.ends_with("accept"));
        let packets = rules.filter_map(|line| line.split("packets ").nth(1)?.split(' ').next()?.parse().ok());
        packets.collect()
    } else {
        let text = wired.said_in_box(&format!("{iptables} -nvx -L weir"));
        let rules = text.lines().filter(|line| line.contains("ACCEPT"));
        rules.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
    }
}

#[test]
fn on_linux_the_box_forwards_and_only_the_last_rule_counts() {
    need_root!();
    for os in [Os::LinuxNft, Os::LinuxIptables] {
        if os == Os::LinuxIptables && Command::new("iptables").arg("-V").output().is_err() {
            println!("skipped: iptables is not installed");
            continue;
        }
        for ip in [IpVersion::V4, IpVersion::V6] {
            let wired = Wired::new();
            let addresses = foreign_and_ours(ip);
            // One after the other on the same box: each replaces the one before it.
            for (mode, nat) in [
                (Mode::Stateful, false),
                (Mode::Stateless, false),
                (Mode::Stateful, true),
                (Mode::Forward, true),
                (Mode::Forward, false),
            ] {
                let what = format!("{os} {mode} nat={nat} IPv{ip}");
                let setup = Setup { ip, nat, rules: 25, ..setup(os, mode) };
                let neighbour = setup.sides().map(|(side, name)| {
                    let mac = if name == "eth1" { "02:00:00:00:00:01" } else { "02:00:00:00:00:02" };
                    format!("ip neighbour replace {} lladdr {mac} dev {name}\n", side.tester(ip))
                });
                wired.said_in_box(&(setup.text().unwrap() + &neighbour.concat()));
                wired.wait_for_carrier();
                wired.box_.run(weir_linux::conntrack::flush).unwrap();
                assert_eq!(wired.first_passes(addresses), mode == Mode::Forward, "{what}");
                if mode != Mode::Forward {
                    let counts = accepted(&wired, os, ip);
                    assert_eq!((counts.len(), counts[24], counts.iter().sum()), (25, 1, 1), "{what}");
                    let tracked = wired.box_.run(weir_linux::conntrack::stats).unwrap().entries;
                    assert_eq!(tracked > 0, mode != Mode::Stateless, "{what}: {tracked} flows in the table");
                }
            }
        }
    }
}
