//! The unit that `weir node unit` prints, under a systemd of the test's own: process, mount, network and control group
//! namespaces in which it is the first process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use weir_testkit::{PATIENCE, need_root, output};

use crate::weir::WEIR;
use weir_testkit::confined;

/// Longer than anything here takes on a loaded machine.
const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// A name that stands for itself, whatever its characters mean to systemd.
const UNUSUAL: &str = "an \"other\" node's ${HOME} \\x20 50%.node";

/// A systemd, and what it left.
struct Machine {
    child: Child,
    folder: PathBuf,
    group: PathBuf,
}

impl Machine {
    /// With the units of nodes with these names, files and texts.
    fn boot(groups: &Path, nodes: &[(&str, &str, &str)]) -> Machine {
        let name = format!("systemd-{}", std::process::id());
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
        let (root, units) = (folder.join("root"), folder.join("units"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(&units).unwrap();
        for target in ["basic", "sysinit", "shutdown"] {
            fs::write(units.join(format!("{target}.target")), "[Unit]\nDefaultDependencies=no\n").unwrap();
        }
        for (name, file, text) in nodes {
            let file = units.join(file);
            fs::write(&file, text).unwrap();
            let unit = output(Command::new(WEIR).args(["node", "unit"]).arg(&file)).unwrap();
            assert!(unit.status.success(), "{unit:?}");
            let unit = String::from_utf8(unit.stdout).unwrap();
            let unit = unit.replace(units.to_str().unwrap(), "/etc/weir").replace(WEIR, "/opt/weir");
            fs::write(units.join(format!("{name}.service")), unit).unwrap();
        }
        let group = groups.join(format!("weir-{name}"));
        fs::create_dir_all(&group).unwrap();
        let mut command = Command::new("sh");
        // It is in its group before the namespace is made, whose root the group is.
        let enter = "echo $$ > \"$1\"/cgroup.procs && shift && exec unshare --mount --pid --net --cgroup --uts --ipc --fork \
                     --kill-child sh \"$@\"";
        let boot = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/systemd/boot.sh");
        command.args(["-c", enter, "sh"]).arg(&group).arg(boot).args([&root, Path::new(WEIR), &units]);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let machine = Machine { child, folder, group };
        let deadline = Instant::now() + PATIENCE;
        while machine.first().is_none_or(|_| !machine.does("systemctl is-active -q basic.target")) {
            assert!(Instant::now() < deadline, "systemd runs");
            std::thread::yield_now();
        }
        machine
    }

    /// The first process in it, as this machine knows it.
    fn first(&self) -> Option<u32> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    fn run(&self, line: &str) -> Output {
        let first = self.first().expect("it runs").to_string();
        let mut command = Command::new("nsenter");
        command.args([
            "--target", &first, "--mount", "--pid", "--net", "--cgroup", "--uts", "--ipc", "sh", "-c", line,
        ]);
        output(command.env_remove("XDG_RUNTIME_DIR").env_remove("WEIR_NODE_SOCKET")).unwrap()
    }

    fn does(&self, line: &str) -> bool {
        self.run(line).status.success()
    }

    /// What a line that must succeed says.
    fn says(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    /// Waits until a line says something.
    fn until_it_says(&self, line: &str, expected: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.run(line);
            if expected(String::from_utf8_lossy(&output.stdout).trim()) {
                return;
            }
            assert!(Instant::now() < deadline, "{line}: {output:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The first process goes with it, and all others with that.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let deadline = Instant::now() + PATIENCE;
        while !remove_groups(&self.group) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes a control group and those below; false as long as a process is in one.
fn remove_groups(group: &Path) -> bool {
    let below = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|path| _ = remove_groups(&path));
    fs::remove_dir(group).is_ok() || !group.exists()
}

/// Where control groups can be made, in the hierarchy that systemd needs.
fn groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let groups = lines.find(|words| words[2] == "cgroup2").map(|words| PathBuf::from(words[1]))?;
    let probe = groups.join(format!("weir-probe-{}", std::process::id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).ok().map(|()| groups)
}

#[test]
fn nodes_run_under_systemd() {
    need_root!();
    if !Path::new(SYSTEMD).exists() {
        return eprintln!("skipped: systemd is not installed");
    }
    let Some(groups) = groups() else {
        return eprintln!("skipped: no control groups of version 2 can be made here");
    };
    let home = "node lan(198.18.0.1/24, on a0) > nat(public 192.0.2.1) > route > wan(192.0.2.1/24, on b0)\n";
    let machine = Machine::boot(
        &groups,
        &[("home", "home.node", home), ("other", UNUSUAL, "node lan(on c0) > wan(on d0)\n")],
    );
    let wire = |name: &str| {
        machine.says(&format!("ip link add {name}0 type veth peer name {name}1"));
        machine.says(&format!("ip link set {name}0 up; ip link set {name}1 up"));
    };
    let state = |unit: &str| machine.says(&format!("systemctl show -p ActiveState -p Result {unit}"));

    // Started is what forwards: not this one, as long as it has no interfaces.
    assert!(!machine.does("systemctl start other"), "{}", state("other"));
    ["a", "b"].into_iter().for_each(wire);
    machine.says("systemctl start home");
    assert!(machine.says("/opt/weir node show").contains("every frame is accounted for"));
    let process = machine.says("systemctl show -p MainPID --value home");
    confined::check(
        &machine.says(&format!("cat /proc/{process}/task/*/status")),
        confined::CAP_BPF,
        Some("node"),
    );
    // Then it begins by itself, beside the first.
    ["c", "d"].into_iter().for_each(wire);
    machine.until_it_says("systemctl is-active other", |said| said == "active");
    let output = machine.run("/opt/weir node show");
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success()
            && reported.contains("/run/weir/home/node.sock or /run/weir/other/node.sock"),
        "{reported}"
    );

    // A file is taken while it runs, and refused if it is wrong; each node takes its own.
    machine.says("systemctl reload other home");
    machine.says("sed -i 's/public 192.0.2.1/public 192.0.2.1, blocks 0/' /etc/weir/home.node");
    assert!(!machine.does("systemctl reload home"));
    machine.says("sed -i 's/, blocks 0/, blocks 9/' /etc/weir/home.node");
    machine.says("systemctl reload home && systemctl is-active home");
    machine.says("systemctl stop other");
    assert!(
        machine.says("/opt/weir node show").contains("accounted for"),
        "the folder of the other one has gone alone"
    );

    // Killed, it runs again; ended, it leaves nothing at the interfaces.
    let process = machine.says("systemctl show -p MainPID --value home");
    machine.says(&format!("kill -KILL {process}"));
    machine.until_it_says("systemctl show -p MainPID --value home", |now| now != process && now != "0");
    machine.until_it_says("systemctl is-active home", |said| said == "active");
    assert!(machine.says("ip link show a0").contains("xdp"));
    machine.says("systemctl stop home");
    assert_eq!(state("home"), "Result=success\nActiveState=inactive");
    assert!(!machine.says("ip link show a0").contains("xdp"));
}

/// How much a service may do, by systemd: 0.0 (nothing) to 10.0 (all); "OK" is below 5.0.
const MOST_EXPOSED: f64 = 3.5;

#[test]
fn the_unit_lets_a_node_do_little() {
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|output| output.status.success())
    {
        return eprintln!("skipped: systemd-analyze is not installed");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("unit-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (node, service) = (folder.join("home.node"), folder.join("home.service"));
    fs::write(&node, "node lan(on a0) > wan(on b0)\n").unwrap();
    let unit = output(Command::new(WEIR).args(["node", "unit"]).arg(&node)).unwrap();
    assert!(unit.status.success(), "{unit:?}");
    fs::write(&service, unit.stdout).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=true", "--no-pager"]).arg(&service);
    let judged = output(&mut command).unwrap();
    let said = String::from_utf8_lossy(&judged.stdout).into_owned();
    fs::remove_dir_all(&folder).unwrap();
    if !judged.status.success() {
        return eprintln!(
            "skipped: this systemd-analyze judges no files ({})",
            String::from_utf8_lossy(&judged.stderr).trim()
        );
    }
    let level = said
        .lines()
        .find_map(|line| line.split_once("exposure level for home.service: "))
        .map(|(_, level)| level);
    let score: f64 = level.unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(score <= MOST_EXPOSED, "{said}");
}
