//! A device with its tester on two other hosts, all in one hosts.toml: four namespaces, three of them with an SSH server.
//!
//! ```text
//!  control: m1 m2 m3 === one network for SSH, 192.0.2.0/24
//!  tester .1: eth1 ------- eth1 box .3 eth2 ------- eth2 remote .2
//! ```

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_testkit::pair::bridge;
use weir_testkit::wires::address;
use weir_testkit::{PATIENCE, need_root, output};

use crate::home::{Home, trials};
use crate::outside::{Sshd, Watched, has_sshd, kill, make_keys, processes, traces, wait_for_traces, wire};
use crate::weir::WEIR;

const PLAN: &str = r#"
question = "What does the box forward between two racks?"
[dut]
kind = "external"
[external]
ports = ["eth1"]
[traffic]
frame_bytes = 128
flows = 10
direction = "forward"
[search]
kind = "fixed"
loads_fps = ["5k", "10k", "20k"]
trial_s = 0.2
"#;

/// Host with port a, host with port b, device; control is the host that has the file of hosts.
const TESTER: usize = 0;
const REMOTE: usize = 1;
const BOX: usize = 2;
const ADDRESSES: [&str; 3] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];

/// A host with an SSH server.
struct Host {
    // Dropped first: it is in the namespace.
    _sshd: Sshd,
    home: Home,
    namespace: Namespace,
    /// What was there before a run.
    before: String,
}

struct Site {
    hosts: Vec<Host>,
    home: Home,
    control: Namespace,
}

impl Site {
    /// `None`, aloud, where that is not possible.
    fn new() -> Option<Site> {
        need_root!(return None);
        if !has_sshd() {
            return None;
        }
        let (home, control) = (Home::new(&[("box.toml", PLAN)]), Namespace::new().unwrap());
        let parts = ADDRESSES.map(|_| (Namespace::new().unwrap(), Home::new(&[])));
        let mut config = String::new();
        for ((namespace, its_home), (number, there)) in parts.iter().zip((1..).zip(ADDRESSES)) {
            let name = format!("m{number}");
            wire(number, (&control, &name), (namespace, "m0"));
            address((namespace, "m0"), there);
            make_keys(its_home, there);
            let own = fs::read_to_string(its_home.path("ssh_config")).expect("made above");
            config += &own.replace("Host *", &format!("Host {there}"));
        }
        bridge(&control, "ssh0", "m1");
        for name in ["m2", "m3"] {
            run(&control, &format!("ip link set dev {name} master ssh0"));
        }
        address((&control, "ssh0"), "192.0.2.254");
        let [(tester, _), (remote, _), (box_, _)] = &parts;
        wire(4, (tester, "eth1"), (box_, "eth1"));
        wire(5, (remote, "eth2"), (box_, "eth2"));
        fs::write(home.path("ssh_config"), config).unwrap();
        // A tester on another host has a configuration for the other two.
        let known = format!("mount --bind {} /etc/ssh/ssh_config", home.path("ssh_config").display());
        let hosts = parts.into_iter().zip(ADDRESSES).map(|((namespace, home), there)| {
            let _sshd = Sshd::start_after(&known, &home, &namespace, there);
            let before = traces(&namespace);
            Host { _sshd, home, namespace, before }
        });
        let hosts = hosts.collect();
        Some(Site { hosts, home, control })
    }

    /// Writes the file of hosts. Each names its program, or none: then it is copied there.
    fn write_hosts(&self, programs: [Option<&str>; 3]) {
        let mut text = "ssh_config = \"ssh_config\"\n".to_string();
        let roles = [
            "role = \"tester\"\nports = \"eth1\"",
            "role = \"remote-tester\"\nports = \"eth2\"",
            "role = \"dut\"\nports = [\"eth1\", \"eth2\"]\nmode = \"stateful\"",
        ];
        for ((role, there), program) in roles.iter().zip(ADDRESSES).zip(programs) {
            let program = program.map(|program| format!("weir = \"{program}\"\n")).unwrap_or_default();
            text += &format!("[[host]]\n{role}\nssh = \"root@{there}\"\n{program}");
        }
        fs::write(self.home.path("hosts.toml"), text).unwrap();
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.command(&[WEIR], arguments);
        self.control.run(|| output(&mut command)).expect("weir starts")
    }

    /// Runs the plan to its end; the record, which is here, and what the run has said.
    fn run(&self, more: &[&str]) -> (Value, String) {
        let arguments = ["run", "box.toml", "--on", "hosts.toml", "--no-report"];
        let output = self.weir(&[&arguments[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{more:?}: {:?} {said}", output.status);
        (self.home.record(), said)
    }

    /// Starts a run with long trials, and returns in the midst of one through the device.
    fn start(&self) -> Watched {
        let arguments = ["box.toml", "--on", "hosts.toml", "--set", "search.trial_s=1"];
        let mut run = Watched::start(&self.home, &self.control, &arguments);
        // Three of the ceiling, and a warm-up.
        (0..4).for_each(|_| drop(run.wait_for_line("trial ")));
        run
    }

    /// Waits until every host is as it was: interfaces, settings, rules, processes and files.
    fn check_nothing_is_left(&self) {
        for host in &self.hosts {
            wait_for_traces(&host.namespace, &host.before);
            wait_until_none(&host.namespace, "agent");
            let left = host.home.path(".local/state/weir/device-undo.sh");
            assert!(!left.exists(), "{}", left.display());
        }
    }
}

/// Runs a script of a shell in a namespace; returns what it prints.
fn run(namespace: &Namespace, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]);
    let output = namespace.run(|| output(&mut command)).unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until the host has no process with this word in its command line.
fn wait_until_none(host: &Namespace, word: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !processes(host, word).is_empty() {
        assert!(Instant::now() < deadline, "{word} after {PATIENCE:?}: {:?}", processes(host, word));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a run; its exit code, and what it said since.
fn ended(mut run: Watched) -> (Option<i32>, String) {
    let said: Vec<String> = run.lines.by_ref().map_while(Result::ok).collect();
    (run.run.wait().expect("it ran").code(), said.join("\n"))
}

/// The trials through the box at the plan's loads.
fn searched(record: &Value) -> Vec<&Value> {
    trials(record).into_iter().filter(|trial| trial["purpose"] == "search").collect()
}

#[test]
fn a_bed_of_three_hosts_measures_from_one_file() {
    let Some(site) = Site::new() else { return };
    site.write_hosts([None; 3]);
    let (record, said) = site.run(&[]);
    for there in ADDRESSES {
        assert!(said.contains(&format!("root@{there}: copied weir ")), "{there}: {said}");
    }
    let trials = searched(&record);
    assert_eq!(record["run"]["state"], "complete", "{record}");
    // A machine with little time repeats some.
    assert!(trials.len() >= 3, "{record}");
    let trial = trials[trials.len() - 1];
    assert!(trial["sent"].as_u64() > Some(0) && trial["received"].as_u64() > Some(0), "{trial}");
    assert_eq!((&trial["streams"][0]["direction"], &trial["unexplained"]), (&"a>b".into(), &0.into()));
    // The device's agent: what it has counted, its CPU time and memory.
    let cost = trial["cost"].to_string();
    assert!(trial["cost"]["dut_cpu_ns"].as_u64() > Some(0), "{cost}");
    for name in ["[\"slab\",", "[\"conntrack\",", "[\"eth1 rx_dropped\",", "[\"eth2 tx_dropped\","] {
        assert!(cost.contains(name), "{name}: {cost}");
    }
    let notes = record["points"].to_string();
    for note in ["The device is root@192.0.2.3 (stateful; ", "Port b is eth2 on root@192.0.2.2 ("] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    site.check_nothing_is_left();
    // The program, and nothing of the run; a second run finds it.
    let (_, said) = site.run(&["--set", "search.loads_fps=[\"5k\"]"]);
    assert!(!said.contains("copied weir"), "{said}");
    for host in &site.hosts {
        let found = run(
            &host.namespace,
            &format!("find {} -name '*.db*' -o -name '*.toml'", host.home.path("").display()),
        );
        assert_eq!(found, "");
        assert_eq!(fs::read_dir(host.home.path(".local/share/weir/agent")).unwrap().count(), 1);
    }
    site.check_nothing_is_left();
}

/// What happens to a host in the midst of a trial, and the reason of that trial.
const MISHAPS: [(&str, usize, &str, &str); 4] = [
    ("the agent of the device is killed", BOX, "device", "the connection to root@192.0.2.3 was lost ("),
    ("the connection to the device is cut", BOX, "sshd: root", "the connection to root@192.0.2.3 was lost ("),
    ("the remote tester is killed", REMOTE, "tester", "the connection to root@192.0.2.2 was lost ("),
    (
        "the connection to the remote tester is cut",
        REMOTE,
        "sshd: root",
        "the connection to root@192.0.2.2 was lost (",
    ),
];

/// One trial or more is invalid for this reason, and others are not.
fn check_invalid(record: &Value, reason: &str, mishap: &str) {
    let trials = searched(record);
    let has_it = |trial: &&&Value| trial["reasons"].to_string().contains(reason);
    let with_it = trials.iter().filter(has_it);
    assert!(with_it.clone().all(|trial| trial["verdict"] == "invalid"), "{mishap}: {record}");
    let found = with_it.count();
    assert!(found > 0 && found < trials.len(), "{mishap}: {found} of {}: {record}", trials.len());
    assert_eq!(record["run"]["state"], "complete", "{mishap}");
}

#[test]
fn a_host_of_a_bed_that_fails_loses_only_its_trial() {
    let Some(site) = Site::new() else { return };
    site.write_hosts([Some(WEIR); 3]);
    for (mishap, host, word, reason) in MISHAPS {
        let run_now = site.start();
        assert!(run(&site.hosts[BOX].namespace, "nft list table ip weir").contains("ct state"), "{mishap}");
        kill(&site.hosts[host].namespace, word);
        let (code, said) = ended(run_now);
        assert!(matches!(code, Some(0 | 3)), "{mishap}: {code:?} {said}");
        check_invalid(&site.home.record(), reason, mishap);
        site.check_nothing_is_left();
    }
    // A remote tester and a device that send invalid bytes in the midst of a trial, each time that they are connected again.
    for (host, line) in [(REMOTE, 14), (BOX, 9)] {
        let liar = site.home.path("liar").display().to_string();
        let script = format!("#!/bin/sh\n{WEIR} \"$@\" | LC_ALL=C sed -u '{line}s/.*/\\xff\\xfe/'\n");
        fs::write(&liar, script).unwrap();
        let mut programs = [Some(WEIR); 3];
        let program = format!("sh {liar}");
        programs[host] = Some(&program);
        site.write_hosts(programs);
        check_invalid(&site.run(&[]).0, "it sent bytes that are no text: `", ADDRESSES[host]);
        site.check_nothing_is_left();
    }
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_remedy() {
    let Some(site) = Site::new() else { return };
    let refused = |arguments: &str, message: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = site.weir(&[&["run", "--no-report"], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(message), "{arguments:?}: {said}");
    };
    site.write_hosts([Some(WEIR); 3]);
    refused(
        "quick --on hosts.toml",
        "weir: the file of hosts describes an external device: the plan needs `kind = \"external\"`",
    );
    for option in ["--each", "--shards 2"] {
        refused(&format!("box.toml --on hosts.toml {option}"), "weir: --each and --shards are for workers");
    }
    let right = fs::read_to_string(site.home.path("hosts.toml")).unwrap();
    let change = |from: &str, to: &str| {
        assert!(right.contains(from), "{from}: {right}");
        fs::write(site.home.path("hosts.toml"), right.replace(from, to)).unwrap();
    };
    change("\"eth1\", \"eth2\"", "\"eth1\", \"eth7\"");
    refused(
        "box.toml --on hosts.toml",
        "the device under test root@192.0.2.3: it has no interface eth7: use ",
    );
    change("ssh_config = \"ssh_config\"", "ssh_config = \"none\"");
    refused(
        "box.toml --on hosts.toml",
        "weir: hosts.toml: ssh_config: cannot read none, see ssh_config(5): No such file",
    );
    // A key that the hosts do not know.
    let config = fs::read_to_string(site.home.path("ssh_config")).unwrap();
    fs::write(site.home.path("strange"), config.replace("user_key", "host_key")).unwrap();
    change("ssh_config = \"ssh_config\"", "ssh_config = \"strange\"");
    refused(
        "box.toml --on hosts.toml",
        "(publickey); the host accepts no key of this user: `ssh-copy-id HOST`",
    );
    site.check_nothing_is_left();
}

#[test]
fn a_bed_whose_tester_is_killed_is_given_back() {
    let Some(site) = Site::new() else { return };
    site.write_hosts([Some(WEIR); 3]);
    let run_now = site.start();
    kill(&site.hosts[TESTER].namespace, "worker");
    let (code, said) = ended(run_now);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("root@192.0.2.1: what ran there was killed, or the connection cut"), "{said}");
    site.check_nothing_is_left();
    // The next run finds all as it needs it.
    assert!(searched(&site.run(&[]).0).len() >= 3);
    site.check_nothing_is_left();
    // The host that has asked for the run is killed: the others are as before, too.
    site.start().kill();
    site.check_nothing_is_left();
}
