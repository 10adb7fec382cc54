//! A separate box as the device under test: here another set of namespaces plays it, with an SSH server that listens
//! nowhere else.
//!
//! ```text
//!  tester: eth1 ------- eth1 box      198.18.0.0/16
//!          eth2 ------- eth2          198.19.0.0/16
//!          m0 --------- m1 sshd       192.0.2.0/24
//! ```

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testkit::wires::address;
use weir_testkit::{need_root, output};

use crate::home::{Home, trials};
use crate::outside::{Sshd, Watched, has_sshd, kill, make_keys, traces, wait_for_traces, wire};
use crate::weir::WEIR;
use weir_testkit::pair::bridge;

/// What a plan through the box has in common.
const PLAN: &str = r#"
question = "What does the box forward?"
[dut]
kind = "external"
[external]
ports = ["eth1", "eth2"]
[traffic]
frame_bytes = 128
flows = 10
[search]
kind = "fixed"
loads_fps = ["20k"]
trial_s = 0.1
"#;

/// The box drops each tenth frame, and counts them.
const EACH_TENTH: &str = "nft -f - <<'END'
add table ip drops
delete table ip drops
table ip drops {
 counter tenth { }
 chain forwarding {
  type filter hook forward priority 10; policy accept;
  ip saddr 198.18.0.0/15 numgen inc mod 10 == 0 counter name tenth drop
 }
}
END
";

/// Tester and box with their wires, and the box's SSH server.
struct Lab {
    // Dropped first: it is in the box's namespace.
    _sshd: Sshd,
    home: Home,
    tester: Namespace,
    box_: Namespace,
}

impl Lab {
    /// `None`, aloud, where that is not possible.
    fn new(plans: &[(&str, &str)]) -> Option<Lab> {
        need_root!(return None);
        if !has_sshd() {
            return None;
        }
        let home = Home::new(plans);
        let (tester, box_) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        for (n, (here, there)) in [("eth1", "eth1"), ("eth2", "eth2"), ("m0", "m1")].into_iter().enumerate() {
            wire(n as u8, (&tester, here), (&box_, there));
        }
        address((&box_, "m1"), "192.0.2.1");
        address((&tester, "m0"), "192.0.2.2");
        make_keys(&home, "192.0.2.1");
        let sshd = Sshd::start(&home, &box_, "192.0.2.1");
        Some(Lab { _sshd: sshd, home, tester, box_ })
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.command(&[WEIR], arguments);
        self.tester.run(|| output(&mut command)).expect("weir starts")
    }

    /// Runs a plan to its end and returns its record.
    fn run(&self, arguments: &[&str]) -> Value {
        let output = self.weir(&[&["run", "--no-report", "--quiet"], arguments].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}: {:?} {words}", output.status);
        self.home.record()
    }

    fn setup(&self, arguments: &str) -> String {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let output = self.weir(&[&["setup", "--os", "linux-nft"], words.as_slice()].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn in_box(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", script]);
        let output = self.box_.run(|| output(&mut command)).unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// CPUs that the tester's interfaces hand frames to.
    fn rps_masks(&self) -> [String; 2] {
        ["eth1", "eth2"].map(|name| {
            let path = format!("/sys/class/net/{name}/queues/rx-0/rps_cpus");
            self.tester.run(|| fs::read_to_string(path)).unwrap().trim().to_string()
        })
    }

    fn refused(&self, arguments: &[&str], message: &str) {
        let output = self.weir(&[&["run", "--no-report", "--quiet"], arguments].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {words}");
        let words = words.trim_end();
        let why = words.split_once(" failed before its first trial: ").map_or(words, |(_, why)| why);
        assert_eq!(why.trim_start_matches("weir: "), message, "{arguments:?}");
    }
}

/// The trials through the box at the plan's load.
fn searched(record: &Value) -> Vec<&Value> {
    trials(record).into_iter().filter(|trial| trial["purpose"] == "search").collect()
}

/// The notes of the point that was measured.
fn notes(record: &Value) -> String {
    let points = record["points"].as_array().unwrap();
    points.last().unwrap()["point"]["notes"].to_string()
}

fn frames(trial: &Value, name: &str) -> u64 {
    let lines = trial["drop_counters"].as_array().unwrap().iter().filter(|line| line["name"] == name);
    lines.map(|line| line["frames"].as_u64().unwrap()).sum()
}

#[test]
fn a_box_is_set_up_measured_and_read_over_ssh() {
    let Some(lab) = Lab::new(&[]) else { return };
    fs::write(lab.home.path("box.sh"), lab.setup("--mode stateful") + EACH_TENTH).unwrap();
    let resets = lab.home.path("resets").display().to_string();
    let hooks = format!(
        r#"[external]
ssh = "root@192.0.2.1"
ssh_config = "ssh_config"
setup = "sh -e"
setup_input = "box.sh"
reset = "ip neighbour flush dev eth1; ip neighbour flush dev eth2; echo reset >> {resets}"
counters = "nft list counter ip drops tenth | awk '/packets/ {{ print \"tenth\", $2 }}'; echo cpu_ns $(date +%s%N)"
memory = "awk '/^Slab:/ {{ print \"slab\", $2 * 1024 }}' /proc/meminfo"
drops = ["tenth"]"#
    );
    fs::write(lab.home.path("box.toml"), PLAN.replace("[external]", &hooks)).unwrap();
    for tester in ["xdp", "packet"] {
        let record = lab.run(&["box.toml", "--tester", tester]);
        let trial = searched(&record).pop().unwrap_or_else(|| panic!("{record}"));
        let (sent, lost) = (trial["sent"].as_u64().unwrap(), trial["lost"].as_u64().unwrap());
        // On a busy machine the tester is late, and gives up; the trials before this one may have ended within a ten.
        let tenth = frames(trial, "tenth");
        assert!(sent > 100 && tenth.abs_diff(sent / 10) <= 1, "{tester}: {trial}");
        // One counter for both directions. All frames would be lost without an answer to the device, which has lost the
        // tester's Ethernet addresses with the reset.
        assert!((tenth..sent / 2).contains(&lost), "{tester}: {trial}");
        assert_eq!(trial["unexplained"], 0, "{tester}: {trial}");
        assert!(trial["cost"]["dut_cpu_ns"].as_u64() > Some(100_000_000), "{trial}");
        let memory = trial["cost"]["memory_bytes"].to_string();
        assert!(memory.starts_with("[[\"slab\","), "{memory}");
        let counters = trial["cost"]["box_counters"].to_string();
        assert!(counters.contains(&format!("[\"tenth\",{tenth}]")), "{trial}");
        let how = if tester == "xdp" { "native (the driver's) XDP" } else { "" };
        assert!(notes(&record).contains(how), "{}", notes(&record));
    }
    // Nothing of it stays on the interfaces.
    for name in ["eth1", "eth2"] {
        let mut command = Command::new("ip");
        command.args(["-d", "link", "show", name]);
        let output = lab.tester.run(|| output(&mut command)).unwrap();
        let link = String::from_utf8_lossy(&output.stdout);
        assert!(link.contains("promiscuity 0") && !link.contains("xdp"), "{link}");
        assert!(!link.contains("allmulti ") || link.contains("allmulti 0"), "{link}");
    }
    // Each run had a ceiling and a point.
    assert_eq!(fs::read_to_string(&resets).unwrap(), "reset\n".repeat(4));
    assert!(lab.in_box("cat /proc/sys/net/netfilter/nf_conntrack_count").trim() != "0");
}

#[test]
fn one_port_is_enough_and_what_no_counter_explains_is_the_box_s() {
    let Some(lab) = Lab::new(&[("box.toml", &PLAN.replace("\"eth1\", \"eth2\"", "\"eth1\""))]) else {
        return;
    };
    for (ip, more) in [(4, EACH_TENTH), (6, "")] {
        lab.in_box(&(lab.setup(&format!("--interfaces eth1 --ip {ip}")) + more));
        let ip = format!("traffic.ip={ip}");
        let record = lab.run(&["box.toml", "--set", "traffic.direction=forward", "--set", &ip]);
        let trial = searched(&record).pop().unwrap_or_else(|| panic!("{record}"));
        let lost = frames(trial, "lost in the device or on its wires");
        assert_eq!(trial["lost"].as_u64(), Some(lost), "{ip}: {trial}");
        let sent = trial["sent"].as_u64().unwrap();
        assert!(sent > 100 && (lost >= sent / 10) != more.is_empty(), "{ip}: {trial}");
        assert_eq!(trial["streams"][0]["direction"], "a>a", "{ip}: {trial}");
        // What leaves the tester is no rate of the box.
        let devices: Vec<_> =
            record["points"].as_array().unwrap().iter().map(|p| &p["point"]["dut"]).collect();
        assert_eq!(devices, ["tester", "external"], "{ip}");
        assert_eq!(
            (&trial["unexplained"], &trial["cost"]["dut_cpu_ns"]),
            (&0.into(), &Value::Null),
            "{trial}"
        );
    }
    let why = "the plan has mistakes:\nbox.toml:7: traffic.direction: frames return on the port of [external]: use direction = \"forward\"";
    lab.refused(&["box.toml"], why);
}

/// Loads through a box that is a NAT: flows, and TCP connections beside others.
const NAT_PLANS: [(&str, &str); 2] = [
    (
        "nat.toml",
        r#"
question = "What does the box translate?"
experiment = "nat"
[external]
ports = ["eth1", "eth2"]
[nat]
kind = "external"
public = ["198.19.1.1"]
flows = 100
search_trial_s = 0.05
duration_sum_s = 0.1
time_limit_s = 1
percent = 50
trial_s = 0.1
"#,
    ),
    (
        "tcp.toml",
        r#"
question = "How many connections does the box carry?"
experiment = "nat"
[external]
ports = ["eth1", "eth2"]
[nat_tcp]
kind = "external"
public = ["198.19.1.1"]
concurrent = 100
connections = 200
timeout_s = 0.05
error = "50%"
"#,
    ),
];

#[test]
fn each_frame_of_a_box_that_is_a_nat_is_checked() {
    let Some(lab) = Lab::new(&NAT_PLANS) else { return };
    lab.in_box(&lab.setup("--mode forward --nat"));
    for (plan, _) in NAT_PLANS {
        let record = lab.run(&[plan]);
        let seen: Vec<&Value> = trials(&record).into_iter().map(|trial| &trial["translation"]).collect();
        let translated: u64 = seen.iter().filter_map(|seen| seen["outside"].as_u64()).sum();
        assert!(translated > 100, "{plan}: {record}");
        let faults = seen.iter().filter_map(|seen| seen["faults"].as_array()).flatten().count();
        assert_eq!(faults, 0, "{plan}: {record}");
    }
    // The same box has another public address than the plan says: each frame that leaves it counts as leaked.
    let record = lab.run(&["nat.toml", "--set", "nat.public=[\"192.0.2.1\"]"]);
    let leaked = trials(&record).into_iter().any(|trial| trial["translation"].to_string().contains("leaked"));
    assert!(leaked, "{record}");
}

#[test]
fn where_the_driver_has_no_xdp_packet_sockets_measure() {
    let ports = PLAN.replace("\"eth1\", \"eth2\"", "\"bridge1\", \"bridge2\"");
    let Some(lab) = Lab::new(&[("box.toml", &ports)]) else { return };
    bridge(&lab.tester, "bridge1", "eth1");
    bridge(&lab.tester, "bridge2", "eth2");
    lab.in_box(&lab.setup(""));
    let record = lab.run(&["box.toml", "--tester", "xdp"]);
    let trial = searched(&record).pop().unwrap_or_else(|| panic!("{record}"));
    let (sent, lost) = (trial["sent"].as_u64().unwrap(), trial["lost"].as_u64().unwrap());
    assert!(sent > 100 && lost < sent / 2, "what XDP sends there vanishes: {trial}");
    assert!(notes(&record).contains("no XDP in the driver on bridge1 and bridge2"), "{}", notes(&record));
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_remedy() {
    let plan = PLAN.replace(
        "[external]",
        "[external]\nssh = \"root@192.0.2.1\"\nssh_config = \"ssh_config\"\nsetup = \"true\"",
    );
    let Some(lab) = Lab::new(&[("box.toml", &plan)]) else { return };
    let refused = |set: &str, message: &str| lab.refused(&["box.toml", "--set", set], message);
    refused(
        "external.ports=[\"eth1\",\"eth3\"]",
        "nothing can be sent at eth3 here: there is no interface eth3 in this network namespace: did \
             you mean `eth1`?; remove it from external.ports, or see `weir doctor`",
    );
    refused("dut.interrupts=0", "eth1 has no interrupts, as it is a virtual interface: omit interrupts");
    refused(
        "dut.xps=0",
        "eth1 has one transmit queue, so that XPS has no effect: omit xps, or use two CPUs or \
             more",
    );
    refused(
        "traffic.frame_bytes=9000",
        "frames of 9000 bytes need an MTU of 8982, and that of eth1 is 1500: use traffic.frame_bytes = \
             1518 or less, or `ip link set eth1 mtu 8982` on both ends",
    );
    refused(
        "external.setup=exit 7",
        "the command `setup` of [external] failed on root@192.0.2.1: exit code 7. Try it by hand: ssh -o \
         BatchMode=yes root@192.0.2.1 'exit 7'",
    );
    let slow = ["box.toml", "--set", "external.setup=sleep 99", "--set", "external.timeout_s=1"];
    lab.refused(
        &slow,
        "the command `setup` of [external] failed on root@192.0.2.1: it took longer than 1 s. Try it \
             by hand: ssh -o BatchMode=yes root@192.0.2.1 'sleep 99'",
    );
    // The tester's own address, without a server.
    refused(
        "external.ssh=root@192.0.2.2",
        "the command `setup` of [external] failed on root@192.0.2.2: no connection: ssh: connect to \
             host 192.0.2.2 port 22: Connection refused. Try it by hand: ssh -o BatchMode=yes \
             root@192.0.2.2 'true'",
    );
    // The device has no addresses.
    refused(
        "external.allow_default_route=true",
        "no neighbour answers for 198.18.1.1, the address of the device: check cable and address (`weir setup` prints the \
             configuration of the device), or set its MAC address with `mac` in [external]",
    );
    lab.in_box(&lab.setup(""));
    refused(
        "external.counters=echo rx",
        "the command `counters` of [external] printed `rx`: it must print lines with a name and a whole number",
    );
    lab.tester.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let ifindex = rtnl.link("eth2").unwrap().ifindex;
        rtnl.add_address(ifindex, "198.19.1.2".parse().unwrap(), 24).unwrap();
        rtnl.add_route(("0.0.0.0".parse().unwrap(), 0), "198.19.1.1".parse().unwrap(), ifindex).unwrap();
    });
    refused(
        "repeat.times=1",
        "the IPv4 default route goes through eth2: test frames would flood the network behind it, and \
             may cut you off; use another interface, or add `allow_default_route = true` to [external] to \
             allow it",
    );
    lab.in_box("ip link set eth1 down");
    refused("repeat.times=1", "interface eth1 has no carrier: plug in the cable, or set the other end up");
}

#[test]
fn a_killed_run_leaves_the_interfaces_as_they_were() {
    let Some(lab) = Lab::new(&[("box.toml", &PLAN.replace("trial_s = 0.1", "trial_s = 20"))]) else { return };
    lab.in_box(&lab.setup(""));
    let before = traces(&lab.tester);
    for tester in ["xdp", "packet"] {
        let arguments = ["box.toml", "--tester", tester, "--set", "dut.rps=0"];
        let mut run = Watched::start(&lab.home, &lab.tester, &arguments);
        // Three of the ceiling, and a warm-up: the next one takes long.
        run.wait_for_trials(4);
        assert_ne!(traces(&lab.tester), before, "{tester}: nothing is there that could be left");
        assert_eq!(lab.rps_masks(), ["1", "1"], "{tester}");
        run.kill();
        wait_for_traces(&lab.tester, &before);
        let cleaned = lab.weir(&["clean"]);
        let words = String::from_utf8_lossy(&cleaned.stdout);
        assert!(cleaned.status.success() && words.contains("was killed"), "{tester}: {cleaned:?}");
        assert_eq!(lab.rps_masks(), ["0", "0"], "{tester}: {words}");
        assert_eq!(trials(&lab.home.record()).len(), 4, "{tester}: all trials that had ended are kept");
    }
    // A run after that finds all as it needs it.
    lab.run(&["box.toml", "--set", "search.trial_s=0.1", "--set", "dut.rps=[0,all]"]);
    assert_eq!((traces(&lab.tester), lab.rps_masks()), (before, ["0".to_string(), "0".to_string()]));
}

/// weir on the box does what the commands of a plan do otherwise.
#[test]
fn a_box_is_set_up_and_read_by_an_agent_on_it() {
    let Some(lab) = Lab::new(&[("box.toml", PLAN)]) else { return };
    let hosts = |weir: &str, mode: &str| {
        let text = format!(
            "ssh_config = \"ssh_config\"\n[[host]]\nrole = \"dut\"\nssh = \"root@192.0.2.1\"\nports = [\"eth1\", \"eth2\"]\n\
             weir = \"{weir}\"\nmode = \"{mode}\"\n"
        );
        fs::write(lab.home.path("hosts.toml"), text).unwrap();
    };
    let arguments = ["box.toml", "--on", "hosts.toml", "--set", "search.loads_fps=[\"5k\",\"10k\",\"20k\"]"];
    hosts(WEIR, "stateful");
    let before = traces(&lab.box_);
    let record = lab.run(&arguments);
    let trial = searched(&record).pop().unwrap_or_else(|| panic!("{record}"));
    // A tester with little time sends few.
    assert!(trial["sent"].as_u64() > Some(0) && trial["unexplained"] == 0, "{trial}");
    assert!(trial["cost"]["dut_cpu_ns"].as_u64() > Some(0), "{trial}");
    let cost = trial["cost"].to_string();
    for name in ["[\"slab\",", "[\"eth1 rx_dropped\",", "[\"conntrack\",", "[\"no route\","] {
        assert!(cost.contains(name), "{name}: {cost}");
    }
    let said = notes(&record);
    assert!(said.contains("The device is root@192.0.2.1 (stateful; "), "{said}");
    // Its set-up is undone.
    wait_for_traces(&lab.box_, &before);
    // The agent is killed; then one that sends wrong bytes after some replies, each time that it is asked again.
    let mut run =
        Watched::start(&lab.home, &lab.tester, &[&arguments[..], &["--set", "search.trial_s=1"]].concat());
    run.wait_for_trials(4);
    assert!(lab.in_box("nft list table ip weir").contains("ct state"));
    kill(&lab.box_, "agent");
    let said: Vec<String> = run.lines.by_ref().map_while(Result::ok).collect();
    assert!(run.run.wait().expect("it ran").code().is_some(), "{said:?}");
    let invalid = |record: &Value, reason: &str| {
        let trials = searched(record);
        let is_it = |trial: &&&Value| trial["reasons"].to_string().contains(reason);
        let found = trials.iter().filter(is_it).filter(|trial| trial["verdict"] == "invalid").count();
        assert_eq!(record["run"]["state"], "complete");
        assert!(found > 0 && found < trials.len(), "{found} of {}: {record}", trials.len());
    };
    invalid(&lab.home.record(), "the connection to root@192.0.2.1 was lost (");
    let liar = "#!/bin/sh\nWEIR \"$@\" | LC_ALL=C sed -u '9s/.*/\\xff\\xfe/'\n".replace("WEIR", WEIR);
    fs::write(lab.home.path("liar"), liar).unwrap();
    hosts(&format!("sh {}", lab.home.path("liar").display()), "forward");
    invalid(&lab.run(&arguments), "it sent bytes that are no text: `");
    // That of the killed agent was undone by the next one.
    wait_for_traces(&lab.box_, &before);
}
