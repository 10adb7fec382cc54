//! A box between two hosts, each with a part of the tester: here three namespaces play box and hosts.
//!
//! ```text
//!  near: eth1 ------- eth1 box eth2 ------- eth2 remote
//!        m0 -------------------------------- m1 sshd, which starts `weir agent tester`
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, ExitStatus, Output};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_testkit::wires::address;
use weir_testkit::{need_root, output};

use crate::home::{Home, trials};
use crate::outside::{Sshd, Watched, has_sshd, kill, make_keys, processes, traces, wait_for_traces, wire};
use crate::weir::WEIR;

const PLAN: &str = r#"
question = "What does the box forward?"
[dut]
kind = "external"
[external]
ports = "eth1"
remote = "root@192.0.2.1"
remote_port = "eth2"
remote_weir = "WEIR"
ssh_config = "ssh_config"
[traffic]
frame_bytes = 128
flows = 10
direction = "forward"
[search]
kind = "fixed"
loads_fps = ["10k"]
trial_s = 0.2
"#;

/// The box drops each tenth of the frames that it forwards, and repeats each tenth that comes from side a.
const FAULTS: &str = "nft -f - <<'END'
table ip drops {
 chain forwarding {
  type filter hook forward priority 10; policy accept;
  ip saddr 198.18.0.0/16 numgen inc mod 10 == 0 drop
  ip saddr 198.19.0.0/16 numgen inc mod 10 == 0 drop
 }
}
table netdev twice {
 chain arriving {
  type filter hook ingress device eth1 priority 0; policy accept;
  ip saddr 198.18.0.0/16 udp dport 1-65535 numgen inc mod 10 == 5 dup to eth2
 }
}
END
";

/// Both hosts and the box.
struct Lab {
    // Dropped first: it is in a namespace.
    sshd: Option<Sshd>,
    home: Home,
    near: Namespace,
    box_: Namespace,
    remote: Namespace,
}

impl Lab {
    /// `None`, aloud, where that is not possible.
    fn new() -> Option<Lab> {
        need_root!(return None);
        if !has_sshd() {
            return None;
        }
        let home = Home::new(&[]);
        let state = home.path("far").display().to_string();
        // Both hosts send at once, and need a CPU each.
        let weir = format!("env XDG_STATE_HOME={state} taskset -c $(($(nproc) - 1)) {WEIR}");
        fs::write(home.path("box.toml"), PLAN.replace("WEIR", &weir)).unwrap();
        let [near, box_, remote] = [(); 3].map(|()| Namespace::new().unwrap());
        wire(1, (&near, "eth1"), (&box_, "eth1"));
        wire(2, (&remote, "eth2"), (&box_, "eth2"));
        wire(3, (&near, "m0"), (&remote, "m1"));
        address((&remote, "m1"), "192.0.2.1");
        address((&near, "m0"), "192.0.2.2");
        make_keys(&home, "192.0.2.1");
        let sshd = Some(Sshd::start(&home, &remote, "192.0.2.1"));
        let lab = Lab { sshd, home, near, box_, remote };
        let setup = lab.weir(&["setup", "--os", "linux-nft"]);
        lab.in_box(&String::from_utf8(setup.stdout).unwrap());
        Some(lab)
    }

    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.command(&[WEIR], arguments);
        self.near.run(|| output(&mut command)).expect("weir starts")
    }

    /// Runs the plan to its end and returns its record.
    fn run(&self, sets: &[&str]) -> Value {
        let output = self.weir(&[&["run", "box.toml", "--no-report", "--quiet"], sets].concat());
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{sets:?}: {:?} {words}", output.status);
        self.home.record()
    }

    fn in_box(&self, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-e", "-c", script]);
        let output = self.box_.run(|| output(&mut command)).unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    }
}

/// Waits for the end of a run, and returns what it said since.
fn ended(mut run: Watched) -> (ExitStatus, String) {
    let said: Vec<String> = run.lines.by_ref().map_while(Result::ok).collect();
    (run.run.wait().expect("it ran"), said.join("\n"))
}

/// The trials through the box at the plan's load.
fn searched(record: &Value) -> Vec<&Value> {
    trials(record).into_iter().filter(|trial| trial["purpose"] == "search").collect()
}

fn sums(trial: &Value, what: &str) -> u64 {
    let streams = trial["streams"].as_array().unwrap().iter();
    streams.map(|stream| stream[what].as_u64().unwrap()).sum()
}

/// Frames that the tester itself has lost.
fn testers(trial: &Value) -> u64 {
    let lines = trial["drop_counters"].as_array().unwrap().iter();
    lines.filter(|line| line["owner"] == "tester").map(|line| line["frames"].as_u64().unwrap()).sum()
}

#[test]
fn frames_are_counted_from_host_to_host() {
    let Some(lab) = Lab::new() else { return };
    lab.in_box(FAULTS);
    for (tester, direction) in
        [("xdp", "forward"), ("xdp", "both"), ("packet", "both"), ("xdp", "reflect"), ("packet", "reflect")]
    {
        let direction_set = format!("traffic.direction={direction}");
        // A machine with little time loses frames of its own where the tester is late, and says so.
        let records = std::iter::repeat_with(|| lab.run(&["--tester", tester, "--set", &direction_set]));
        let calm = |record: &Value| {
            let last = searched(record).pop();
            last.is_some_and(|trial| trial["verdict"] != "invalid" && trial["verdict"] != "tester-limited")
        };
        let Some(record) = records.take(5).find(calm) else {
            println!("not tested: machine disturbed: {tester}, {direction} from host to host");
            continue;
        };
        let trial = searched(&record).pop().expect("that of a calm machine");
        let trace = format!("{tester}, {direction}: {trial:.3000}");
        let sent = trial["sent"].as_u64().unwrap();
        assert_eq!((&trial["unexplained"], sums(trial, "reordered")), (&0.into(), 0), "{trace}");
        // Of round trips, both ways count; what is lost on the first cannot be lost on the second.
        let lost = trial["lost"].as_u64().unwrap() - testers(trial);
        let expected = sent * if direction == "reflect" { 190 } else { 100 } / 1000;
        assert!(sent > 100 && lost.abs_diff(expected) <= sent / 100, "{trace}");
        let names: Vec<_> = trial["streams"].as_array().unwrap().iter().map(|s| &s["direction"]).collect();
        let expected: &[&str] = match direction {
            "forward" => &["a>b"],
            "both" => &["a>b", "b>a"],
            _ => &["a>b>a"],
        };
        assert_eq!(names, expected, "{trace}");
        if direction == "forward" {
            // Each frame that is lost is alone, and the one before it arrived twice.
            assert_eq!((sums(trial, "loss_runs"), sums(trial, "loss_run_max")), (lost, 1), "{trace}");
            assert!(sums(trial, "duplicated").abs_diff(sent / 10) <= 1, "{trace}");
        }
        let timed: u64 = trial["streams"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["latency"]["count"].as_u64().unwrap())
            .sum();
        assert_eq!(timed > 0, direction == "reflect", "{trace}");
        assert_eq!(trial["noise"]["start_skew"].is_number(), direction == "both", "{trace}");
        assert_eq!(record["points"][0]["point"]["dut"], "tester", "{record}");
        let notes = record["points"].as_array().unwrap().last().unwrap()["point"]["notes"].to_string();
        assert!(notes.contains("Port b is eth2 on root@192.0.2.1 ("), "{notes}");
        assert_eq!(notes.contains("no common clock"), direction != "reflect", "{notes}");
        let means = if tester == "xdp" { "On root@192.0.2.1: Frames are received by native" } else { "" };
        assert!(notes.contains(means), "{notes}");
    }
}

#[test]
fn what_is_wrong_with_the_far_host_is_reported() {
    let Some(lab) = Lab::new() else { return };
    let greeting = r#"echo '{"done":{"weir":"0.0.9"}}'; true"#;
    let refused = |set: &str, message: &str| {
        let output = lab.weir(&["run", "box.toml", "--no-report", "--quiet", "--set", set]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{set}: {words}");
        let why = words.split_once(" failed before its first trial: ").map_or("", |(_, why)| why);
        assert!(why.starts_with(message), "{set}: {words}");
    };
    refused(
        "external.remote_weir=no-weir",
        "the remote tester on root@192.0.2.1: there is no program `no-weir` (exit code 127",
    );
    refused(
        &format!("external.remote_weir={greeting}"),
        "the remote tester on root@192.0.2.1: it has weir 0.0.9, this host has 0.1.0: install the same \
             version on both hosts",
    );
    refused(
        "external.remote_weir=echo Welcome;",
        "the remote tester on root@192.0.2.1: it printed `Welcome` instead of a greeting: set \
             `remote_weir` to weir 0.1.0, and make sure that the login shell there prints nothing",
    );
    refused(
        "external.remote_weir=echo; false",
        "the remote tester on root@192.0.2.1: it printed `` instead of a greeting: set `remote_weir` to \
             weir 0.1.0, and make sure that the login shell there prints nothing",
    );
    refused(
        "external.remote_weir=exit 1;",
        "the remote tester on root@192.0.2.1: exit code 1; weir 0.1.0 is needed there, try it: ssh -o \
         BatchMode=yes root@192.0.2.1 'exit 1; agent tester'",
    );
    refused("external.remote=root@192.0.2.2", "the remote tester on root@192.0.2.2: no connection");
    refused(
        "external.remote_port=eth9",
        "the remote tester on root@192.0.2.1: there is no interface eth9 in this network namespace: did \
             you mean `eth2`?",
    );
    refused(
        "traffic.frame_bytes=9000",
        "frames of 9000 bytes need an MTU of 8982, and that of eth1 is 1500: use traffic.frame_bytes = \
             1518 or less, or `ip link set eth1 mtu 8982` on both ends",
    );
    lab.in_box("ip addr flush dev eth2");
    refused(
        "repeat.times=1",
        "the remote tester on root@192.0.2.1: no neighbour answers for 198.19.1.1, the address of the device: check \
             cable and address (`weir setup` prints the configuration of the device), or set its MAC address \
             with `mac` in [external]",
    );
    assert_eq!(processes(&lab.remote, "agent"), BTreeSet::new());
}

#[test]
fn a_trial_without_its_far_end_is_invalid_and_the_run_goes_on() {
    let Some(mut lab) = Lab::new() else { return };
    let before = traces(&lab.remote);
    let sets = ["box.toml", "--set", "traffic.direction=both", "--set", "search.trial_s=1"];
    // The agent; the server's process for the connection, which is not the one that listens; both servers.
    for (killed, tester) in [("agent", "xdp"), ("sshd-session", "packet"), ("sshd", "xdp")] {
        let mut run = Watched::start(&lab.home, &lab.near, &[&sets[..], &["--tester", tester]].concat());
        run.wait_for_trials(4);
        match killed {
            "agent" => kill(&lab.remote, "agent"),
            "sshd-session" => kill(&lab.remote, "sshd: root"),
            _ => {
                lab.sshd = None;
                kill(&lab.remote, "sshd: root");
            }
        }
        let (status, said) = ended(run);
        let record = lab.home.record();
        let trials = searched(&record);
        let reasons = trials[0]["reasons"].to_string();
        assert_eq!(trials[0]["verdict"], "invalid", "{killed}: {said}");
        assert!(reasons.contains("the connection to root@192.0.2.1 was lost ("), "{killed}: {reasons}");
        // With a server there is a connection again; without one, all that had ended is kept.
        let last = trials.last().unwrap();
        assert_eq!(last["verdict"] == "invalid", killed == "sshd", "{killed}: {said}");
        assert!(status.code() == Some(3) || killed != "sshd" && status.success(), "{killed}: {said}");
        assert_eq!(record["run"]["state"], "complete", "{killed}: {said}");
        wait_for_traces(&lab.remote, &before);
    }
}

#[test]
fn the_far_host_is_given_back_when_the_near_one_is_killed() {
    let Some(lab) = Lab::new() else { return };
    let before = traces(&lab.remote);
    for tester in ["xdp", "packet"] {
        let sets = ["box.toml", "--set", "search.trial_s=30", "--tester", tester];
        let mut run = Watched::start(&lab.home, &lab.near, &sets);
        run.wait_for_trials(4);
        assert_ne!(traces(&lab.remote), before, "{tester}: nothing is there that could be left");
        run.kill();
        wait_for_traces(&lab.remote, &before);
    }
    lab.run(&["--set", "search.trial_s=0.1"]);
    assert_eq!(traces(&lab.remote), before);
}

#[test]
fn the_far_host_does_not_wait_for_a_near_one_that_fell_silent() {
    let Some(lab) = Lab::new() else { return };
    let before = traces(&lab.remote);
    let mut run = Watched::start(&lab.home, &lab.near, &["box.toml", "--set", "search.trial_s=30"]);
    run.wait_for_trials(4);
    lab.near.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let ifindex = rtnl.link("m0").unwrap().ifindex;
        rtnl.set_up(ifindex, false).unwrap();
    });
    // Nothing of this reaches the remote host.
    run.kill();
    assert_ne!(traces(&lab.remote), before, "nothing is there that could be left");
    wait_for_traces(&lab.remote, &before);
}
