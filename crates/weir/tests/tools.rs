//! `weir generate`, `weir receive` and `weir doctor` as a user runs them, on a veth pair between two namespaces.

use std::process::Command;

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testkit::wires::set_up;
use weir_testkit::{Folder, Started, output};

use crate::weir::{self, WEIR, refused};
use weir_testkit::pair::{Pair, bridge};

/// A `weir receive` that counts already.
fn receiving(namespace: &Namespace, line: &str) -> Started {
    weir::start(namespace, line, "receiving on")
}

/// What it has counted.
fn counted(receiving: Started) -> Value {
    let ended = receiving.end();
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    ended.result
}

#[test]
fn all_frames_are_counted_once() {
    let Some(pair) = Pair::new() else { return };
    for tester in ["xdp", "packet"] {
        for (ip, frame) in [(4, 64), (4, 512), (6, 84)] {
            let what = format!("{tester} IPv{ip} {frame} bytes");
            let receiving = receiving(
                &pair.there,
                &format!("receive -i b --tester {tester} --count 400 --duration 20 --json"),
            );
            let line = format!(
                "generate -i a --tester {tester} --ip {ip} --frame {frame} --count 400 --rate 10k --flows 4 \
                 --groups 2 --json"
            );
            let output = weir::run(&pair.here, &line);
            assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((sent["sent"].as_u64(), sent["sent_bytes"].as_u64()), (Some(400), Some(400 * frame)));
            let got = counted(receiving);
            assert_eq!((got["received"].as_u64(), got["corrupted"].as_u64()), (Some(400), Some(0)), "{what}");
            for group in got["groups"].as_array().unwrap() {
                let count = |name: &str| group[name].as_u64().unwrap();
                let counts = ["received", "lost", "duplicated", "reordered"].map(count);
                assert_eq!(counts, [200, 0, 0, 0], "{what}: {group}");
                assert!(group["latency_ns"]["max"].as_u64() > Some(0), "{what}: {group}");
            }
            assert_eq!(got["groups"].as_array().unwrap().len(), 2, "{what}");
        }
    }
}

#[test]
fn where_the_driver_has_no_xdp_a_packet_socket_sends() {
    let Some(pair) = Pair::new() else { return };
    bridge(&pair.here, "bridge", "a");
    let receiving = receiving(&pair.there, "receive -i b --count 100 --duration 20 --json");
    let output = weir::run(&pair.here, "generate -i bridge --count 100 --rate 10k --json");
    assert!(output.status.success(), "{output:?}");
    let sent: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&sent["tester"], &sent["sent"]), (&"packet".into(), &100.into()), "{sent}");
    assert_eq!(counted(receiving)["received"].as_u64(), Some(100), "what XDP sends there vanishes");
    refused(
        &pair.here,
        "generate -i bridge --count 1 --tester xdp",
        "the driver of bridge does not accept frames of an XDP program: if it is a veth, start `weir \
             receive` on its peer first, or switch GRO on there (`ethtool -K PEER gro on`) and set bridge \
             down and up; or use --tester packet",
    );
}

#[test]
fn a_hangup_ends_what_counts_unless_it_was_begun_without_hangups() {
    let Some(pair) = Pair::new() else { return };
    let lines = [
        (&pair.there, "receive -i b --tester packet --json", "receiving on", "received"),
        (&pair.here, "generate -i a --tester packet --rate 1k --json", "sending on", "sent"),
    ];
    for (namespace, line, ready, count) in lines {
        let started = weir::start(namespace, line, ready);
        started.signal(libc::SIGHUP);
        let ended = started.end();
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        assert!(ended.result[count].is_u64(), "{line}: {}", ended.result);
    }
    let mut nohup = Command::new("nohup");
    nohup.arg(WEIR);
    let receiving = weir::start_by(nohup, &pair.there, "receive -i b --tester packet --json", "receiving on");
    let status = std::fs::read_to_string(format!("/proc/{}/status", receiving.pid())).unwrap();
    let signals = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap()
    };
    let hangup = 1 << (libc::SIGHUP - 1);
    assert_eq!((signals("SigIgn:") & hangup, signals("SigCgt:") & hangup), (hangup, 0), "{status}");
    assert_eq!(receiving.interrupt().code, Some(0));
}

#[test]
fn a_reflector_sends_all_frames_back() {
    let Some(pair) = Pair::new() else { return };
    for tester in ["xdp", "packet"] {
        let options = format!("--tester {tester} --count 300 --duration 20 --json");
        let remote = receiving(&pair.there, &format!("receive -i b --reflect {options}"));
        let near = receiving(&pair.here, &format!("receive -i a {options}"));
        let output =
            weir::run(&pair.here, &format!("generate -i a --tester {tester} --count 300 --rate 10k"));
        assert!(output.status.success(), "{tester}: {}", String::from_utf8_lossy(&output.stderr));
        let (remote, near) = (counted(remote), counted(near));
        assert_eq!(remote["reflected"].as_u64(), Some(300), "{tester}: {remote}");
        assert_eq!(near["groups"][0]["received"].as_u64(), Some(300), "{tester}: {near}");
        let latency = |at: &Value| at["groups"][0]["latency_ns"]["min"].as_u64().unwrap();
        assert!(latency(&near) > 0 && latency(&near) < 10_000_000_000, "{tester}: {near}");
    }
}

#[test]
fn what_cannot_work_is_refused_with_a_remedy() {
    let Some(pair) = Pair::new() else { return };
    refused(
        &pair.here,
        "generate -i b --count 1",
        "there is no interface b in this network namespace: did you mean `a`?",
    );
    refused(
        &pair.here,
        "receive -i b --count 1",
        "there is no interface b in this network namespace: did you mean `a`?",
    );
    refused(
        &pair.here,
        "generate -i a --count 1 --frame 9000",
        "frames of 9000 bytes need an MTU of 8982, and that of a is 1500: use --frame 1518 or less, or \
             `ip link set a mtu 8982` on both ends",
    );
    refused(
        &pair.here,
        "generate -i a --count 1 --tester xdp",
        "the driver of a does not accept frames of an XDP program: if it is a veth, start `weir \
             receive` on its peer first, or switch GRO on there (`ethtool -K PEER gro on`) and set a down \
             and up; or use --tester packet",
    );
    pair.here.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let ifindex = rtnl.link("a").unwrap().ifindex;
        let gateway = "198.18.0.2".parse().unwrap();
        rtnl.add_address(ifindex, "198.18.0.1".parse().unwrap(), 24).unwrap();
        rtnl.add_route(("0.0.0.0".parse().unwrap(), 0), gateway, ifindex).unwrap();
    });
    refused(
        &pair.here,
        "generate -i a --count 1",
        "the IPv4 default route goes through a: test frames would flood the network behind it, and may \
             cut you off; use another interface, or add --allow-default-route to allow it",
    );
    let output = weir::run(&pair.here, "generate -i a --count 1 --tester packet --allow-default-route");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    set_up(pair.b(), false);
    refused(
        &pair.here,
        "receive -i a --count 1",
        "interface a has no carrier: plug in the cable, or set the other end up",
    );
    set_up(pair.a(), false);
    refused(&pair.here, "receive -i a --count 1", "interface a is down: set it up with `ip link set a up`");
}

#[test]
fn clean_and_doctor_answer() {
    let home = Folder::new();
    let run = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(words).env("XDG_STATE_HOME", &home).env("XDG_DATA_HOME", &home);
        output(command.env_remove("WEIR_STORE")).unwrap()
    };
    let clean = run(&["clean"]);
    assert!(String::from_utf8_lossy(&clean.stdout).starts_with("nothing to do"), "{clean:?}");
    let doctor = run(&["doctor", "--json"]);
    let found: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(doctor.status.code(), Some(if found["can_run"] == true { 0 } else { 1 }));
    for finding in found["findings"].as_array().unwrap() {
        assert!(["ok", "weaker", "missing"].iter().any(|state| finding["state"] == *state), "{finding}");
    }
}

/// In a namespace, whose backlog is no other's.
#[test]
fn doctor_changes_a_setting_and_sets_it_back() {
    const BACKLOG: &str = "/proc/sys/net/core/somaxconn";
    let Some(pair) = Pair::new() else { return };
    let home = Folder::new();
    let run = |line: &str| {
        let mut command = Command::new(WEIR);
        command.args(line.split_ascii_whitespace()).env("XDG_STATE_HOME", &home).env("XDG_DATA_HOME", &home);
        command.stdin(std::process::Stdio::null());
        let output = pair.here.run(move || output(&mut command)).unwrap();
        let [said, wrong] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        (output.status.code(), said, wrong)
    };
    let now = || pair.here.run(|| std::fs::read_to_string(BACKLOG)).unwrap();
    let before = now();

    let (code, said, _) = run("doctor --for servers --connections 60k");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("servers: ") && said.contains("sysctl -w net.core.somaxconn='60000'"), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80 || line.contains("='")), "{said}");
    let (code, json, _) = run("doctor --for servers --connections 60k --json");
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, &document["fits"], &document["load"]["connections"]),
        (Some(1), &false.into(), &60_000.into())
    );

    let fix = "doctor --for servers --connections 60k --fix --only net.core.somaxconn";
    let (code, said, wrong) = run(fix);
    assert_eq!((code, now()), (Some(1), before.clone()), "it was not confirmed: {said}");
    assert!(said.contains("somaxconn='60000'") && wrong.contains("nothing changed"), "{said}{wrong}");
    let (code, _, wrong) = run(&fix.replace("somaxconn", "somaxcon"));
    assert_eq!(code, Some(1));
    assert_eq!(
        wrong,
        "weir: --only net.core.somaxcon: weir has no change for this setting: did you mean `net.core.somaxconn`?\n"
    );

    let (code, said, wrong) = run(&format!("{fix} --yes"));
    assert_eq!((code, now().trim()), (Some(0), "60000"), "{said}{wrong}");
    let (code, said, wrong) = run("doctor --undo");
    assert_eq!((code, now()), (Some(0), before), "{said}{wrong}");
    assert!(said.starts_with("restored  sysctl -w net.core.somaxconn="), "{said}");
    let (code, said, _) = run("doctor --undo");
    assert!(code == Some(0) && said.starts_with("There is no change"), "{said}");
}

/// A server of this test that has a thread for each connection.
#[test]
fn inspect_says_how_a_server_is_built() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // It waits until its client has closed.
            std::thread::spawn(move || std::io::Read::read(&mut &stream, &mut [0]));
        }
    });
    let run = |arguments: &[&str]| output(Command::new(WEIR).arg("inspect").args(arguments)).unwrap();
    let output = run(&[&format!("127.0.0.1:{port}"), "--json", "--connections", "100"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(found["architecture"]["kind"], "thread-per-connection", "{found:#}");
    assert_eq!(output.status.code(), Some(0));
    for (target, expected) in [
        (
            "127.0.0.1:1",
            "weir: cannot connect to 127.0.0.1:1: Connection refused (os error 111); is it the address of \
             a TCP server?",
        ),
        (
            "no-such-program",
            "weir: there is no process `no-such-program`; `ss -ltnp` lists listening processes; root sees \
             the sockets of all users",
        ),
        (
            "4194999",
            "weir: there is no process 4194999; `ss -ltnp` lists listening processes; root sees the sockets \
             of all users",
        ),
    ] {
        let output = run(&[target]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.trim_end()), (Some(1), expected), "{target}");
    }
}
