//! `weir flows` when one end of it dies, or cannot write.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_linux::namespace::Namespace;
use weir_testkit::{PATIENCE, Watch, need_root};

use crate::weir::{self, WEIR};
use weir_testkit::full_disk::refuses_output;
use weir_testkit::kills::{Kills, kill_after};

const SERVE: &str = "flows --serve --bind 127.0.0.1:5301";
const LOAD: &str = "flows --to 127.0.0.1 --flows 8 --duration 0.5 --interval 0.1 --json";

fn start(host: &Namespace, line: &str) -> Child {
    let mut command = Command::new(WEIR);
    command.args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host.run(|| command.spawn().unwrap())
}

/// Connections of TCP in a namespace but for those that only wait for old segments.
fn connections(host: &Namespace) -> usize {
    let text = host.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    let state = |line: &str| line.split_whitespace().nth(3).map(str::to_string);
    text.lines().skip(1).filter_map(state).filter(|state| !["0A", "06"].contains(&state.as_str())).count()
}

#[test]
fn a_client_that_is_killed_at_any_instant_costs_its_server_nothing() {
    need_root!();
    let host = Namespace::new().unwrap();
    let server = weir::start(&host, SERVE, "serving at");
    let mut kills = Kills::new(6);
    while let Some((delay, trace)) = kills.next(Duration::from_millis(800)) {
        kill_after(&mut start(&host, LOAD), delay);
        let begin = Instant::now();
        while connections(&host) > 0 {
            assert!(begin.elapsed() < PATIENCE, "{trace}: the server keeps connections");
            std::thread::yield_now();
        }
    }
    let output = start(&host, LOAD).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "others are served: {said}");
    assert_eq!(server.interrupt().code, Some(0));
}

/// Runs a command where the name `two` has two addresses, of which the server has the second.
fn with_two_addresses(host: &Namespace, line: &str) -> std::process::Output {
    let script = "mkdir etc && printf '::1 two\\n127.0.0.1 two\\n' > etc/hosts && mount --bind etc/hosts /etc/hosts && exec \"$@\"";
    let folder = weir_testkit::Folder::new();
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script, "sh", WEIR]).args(line.split(' ')).current_dir(&*folder);
    host.run(|| weir_testkit::output(&mut shell)).unwrap()
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    need_root!();
    let host = Namespace::new().unwrap();
    let server = weir::start(&host, SERVE, "serving at");
    let flows = LOAD.replace("127.0.0.1", "two");
    for (line, word) in
        [(flows.as_str(), "sum_bits_per_s"), ("inspect two:5301 --connections 4 --json", "architecture")]
    {
        let output = with_two_addresses(&host, line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(String::from_utf8_lossy(&output.stdout).contains(word), "{line}: {said}");
        assert!(said.contains("cannot connect to [::1]:5301: "), "{line}: {said}");
    }
    assert_eq!(server.interrupt().code, Some(0));
}

#[test]
fn an_address_of_a_link_has_its_interface() {
    need_root!();
    let host = Namespace::new().unwrap();
    let ip =
        |line: &str| host.run(|| weir_testkit::output(Command::new("ip").args(line.split(' ')))).unwrap();
    if !ip("address add fe80::7/64 dev lo nodad").status.success() {
        return println!("skipped: no ip here");
    }
    let server = weir::start(&host, "flows --serve --bind [fe80::7%lo]:5301", "serving at [fe80::7%1]:5301");
    for line in [
        "flows --to [fe80::7%lo]:5301 --from fe80::7%lo --duration 0.5 --json",
        "flows --to fe80::7%lo --group from=fe80::7%lo --duration 0.5 --json",
        "inspect [fe80::7%lo]:5301 --connections 4",
    ] {
        let output = start(&host, line).wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("[fe80::7%1]:"), "{line}: {said}");
    }
    assert_eq!(server.interrupt().code, Some(0));
}

#[test]
fn a_client_whose_server_is_killed_at_any_instant_says_so() {
    need_root!();
    let host = Namespace::new().unwrap();
    let (mut kills, mut said_so) = (Kills::new(6), 0);
    while let Some((delay, trace)) = kills.next(Duration::from_millis(500)) {
        let server = weir::start(&host, SERVE, "serving at");
        let client = start(&host, LOAD);
        let _watch = Watch::new(&client);
        // The instant is what is tested: nothing is awaited here.
        std::thread::sleep(delay);
        server.signal(libc::SIGKILL);
        let output = client.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{trace}: {said}");
        // It may have ended before.
        let is_named = said.contains("127.0.0.1:5301") || said.contains("control connection");
        assert!(output.status.success() || output.status.code() == Some(1) && is_named, "{trace}: {said}");
        said_so += u32::from(!output.status.success());
    }
    assert!(said_so > 0, "no client was hit");
}

#[test]
fn a_result_that_nobody_can_keep_is_named() {
    need_root!();
    let host = Namespace::new().unwrap();
    let server = weir::start(&host, SERVE, "serving at");
    for line in [LOAD, LOAD.strip_suffix(" --json").unwrap()] {
        let mut command = Command::new(WEIR);
        command.args(line.split(' '));
        host.run(|| refuses_output(command, line));
    }
    assert_eq!(server.interrupt().code, Some(0));
}

#[test]
fn ports_that_wait_for_old_segments_are_not_counted_on() {
    need_root!();
    let host = Namespace::new().unwrap();
    let settings = [
        ("ip_local_port_range", "40000 40063"),
        ("tcp_tw_reuse", "0"),
        ("ip_local_reserved_ports", "40001-40004"),
    ];
    for (name, value) in settings {
        host.run(|| std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap());
    }
    let server = weir::start(&host, SERVE, "serving at");
    let run = |flows: u32, options: &str| {
        let line = format!("flows --to 127.0.0.1 --flows {flows} --duration 0.2 --interval 0.1 {options}");
        let output = start(&host, line.trim()).wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // Ports of this side in TIME_WAIT; those of the server's side do not matter.
    let waiting = || {
        let text = host.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
        let is_one = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[2].ends_with(":14B5") && words[3] == "06"
        };
        text.lines().skip(1).filter(is_one).count() as u32
    };
    // 60 ports, one of which the control connection has.
    let (done, said) = run(60, "");
    assert!(!done && said.contains("61 connections from 127.0.0.1 need as many ports"), "{said}");
    let (done, said) = run(30, "");
    assert!(done, "{said}");
    let begin = Instant::now();
    while connections(&host) > 0 {
        assert!(begin.elapsed() < PATIENCE, "connections do not end");
        std::thread::yield_now();
    }
    let before = waiting();
    assert!(before >= 30, "{before}");
    let (done, said) = run(60 - before, "");
    assert!(
        !done && said.contains(&format!("{before} wait for old segments of former connections (TIME_WAIT)")),
        "{said}"
    );
    let (done, said) = run(59 - before, "--reset");
    assert!(done, "{said}");
    assert_eq!(server.interrupt().code, Some(0));
}
