//! `weir run --on`: a plan on other hosts, which are namespaces with an SSH server each.
//!
//! ```text
//!  near: m1 --- 192.0.2.1 sshd > weir agent worker > weir run
//!        m2 --- 198.51.100.1 ...    m3 --- 100.64.3.1 ...
//! ```

use std::fs;
use std::process::Output;

use weir_linux::namespace::Namespace;
use weir_testkit::wires::address;
use weir_testkit::{need_root, output};

use crate::home::Home;
use crate::outside::{Sshd, Watched, has_sshd, kill, make_keys, wire};
use crate::weir::WEIR;

/// Six points of half a second each.
const GRID: &str = r#"
question = "Which queue is fair?"
experiment = "buffers"
[buffers]
queue = ["fifo", "pie"]
buffer_bdp = [0.5, 1, 2]
mix = "cubic+bbr1"
rate = "5M"
duration_s = 2
seeds = 2
"#;

/// Addresses of hosts and of this host on the wire to each.
const ADDRESSES: [[&str; 2]; 3] =
    [["192.0.2.1", "192.0.2.2"], ["198.51.100.1", "198.51.100.2"], ["100.64.3.1", "100.64.3.2"]];

/// A separate host.
struct Host {
    // Dropped first: it is in the namespace.
    _sshd: Sshd,
    home: Home,
    namespace: Namespace,
}

/// This host, and others.
struct Site {
    hosts: Vec<Host>,
    home: Home,
    near: Namespace,
}

impl Site {
    /// With a host for each of these commands, which prepare it. `None`, aloud, where that is not possible.
    fn new(prepared: &[&str]) -> Option<Site> {
        need_root!(return None);
        if !has_sshd() {
            return None;
        }
        let near = Namespace::new().unwrap();
        let home = Home::new(&[("grid.toml", GRID)]);
        let mut config = String::new();
        let hosts = prepared.iter().zip(ADDRESSES).zip(1..).map(|((prepare, [there, here]), number)| {
            let (namespace, its_home) = (Namespace::new().unwrap(), Home::new(&[]));
            let name = format!("m{number}");
            wire(number, (&near, &name), (&namespace, "m0"));
            address((&namespace, "m0"), there);
            address((&near, &name), here);
            make_keys(&its_home, there);
            let own = fs::read_to_string(its_home.path("ssh_config")).expect("made above");
            config += &own.replace("Host *", &format!("Host {there}"));
            let prepare = prepare.replace("HOME", its_home.path("").to_str().expect("letters"));
            let sshd = Sshd::start_after(&prepare, &its_home, &namespace, there);
            Host { _sshd: sshd, home: its_home, namespace }
        });
        let hosts = hosts.collect();
        fs::write(home.path("ssh_config"), config).unwrap();
        Some(Site { hosts, home, near })
    }

    /// A file of workers: for each the address and the program, if it is named.
    fn workers(&self, workers: &[(&str, Option<&str>)]) {
        let host = |(address, weir): &(&str, Option<&str>)| {
            let weir = weir.map(|weir| format!("weir = \"{weir}\"\n")).unwrap_or_default();
            format!("[[host]]\nrole = \"worker\"\nssh = \"root@{address}\"\n{weir}")
        };
        let text = workers.iter().map(host).collect::<String>();
        fs::write(self.home.path("hosts.toml"), format!("ssh_config = \"ssh_config\"\n{text}")).unwrap();
    }

    fn weir(&self, arguments: &str) -> Output {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let mut command = self.home.command(&[WEIR], &arguments);
        self.near.run(|| output(&mut command)).expect("weir starts")
    }

    /// Runs weir to its good end: standard output and standard error.
    fn done(&self, arguments: &str) -> [String; 2] {
        let output = self.weir(arguments);
        let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
        assert!(output.status.success(), "{arguments}: {said}");
        [out, said]
    }

    /// The figures of the newest run, to compare.
    fn figures(&self) -> String {
        let [figures, _] = self.done("export last --format figures");
        assert!(figures.lines().count() > 6 * 5, "{figures}");
        // The first column is the number of the run.
        figures.lines().filter_map(|line| Some(line.split_once(',')?.1)).collect::<Vec<_>>().join("\n")
    }

    /// A program on a host in place of weir.
    fn script(&self, name: &str, text: &str) -> String {
        fs::write(self.home.path(name), text.replace("WEIR", WEIR)).unwrap();
        format!("sh {}", self.home.path(name).display())
    }
}

#[test]
fn shards_of_two_hosts_are_the_same_bytes_as_one_run() {
    let Some(site) = Site::new(&["true"; 2]) else { return };
    site.workers(&[("192.0.2.1", None), ("198.51.100.1", None)]);
    site.done("run grid.toml --seed 7 --quiet --no-report");
    let whole = site.figures();
    let run = "run grid.toml --on hosts.toml --shards 4 --seed 7 --no-report";
    let [_, said] = site.done(run);
    for host in ["192.0.2.1", "198.51.100.1"] {
        let copied = format!("root@{host}: copied weir ");
        assert!(said.contains(&copied) && said.contains("(there was none)"), "{said}");
    }
    assert_eq!(said.matches(" done after ").count(), 4, "{said}");
    assert_eq!(site.figures(), whole);
    // The copy is found again, and nothing else is left there.
    let [_, said] = site.done(run);
    assert!(!said.contains("copied"), "{said}");
    for host in &site.hosts {
        let files = |folder: &str| fs::read_dir(host.home.path(folder)).expect("a folder").count();
        assert_eq!(files(".local/share/weir/agent"), 1);
    }
}

#[test]
fn hosts_that_fail_lose_only_their_own_trials() {
    let small = "mkdir -p HOME.local && mount -t tmpfs -o size=64k none HOME.local";
    let Some(site) = Site::new(&["true", "true", small]) else { return };
    site.done("run grid.toml --seed 7 --quiet --no-report");
    let whole = site.figures();
    // All hosts that cannot, and one that can.
    let greeting = "WEIR agent worker </dev/null | head -n 1\n";
    let lies =
        site.script("lies", &format!("{greeting}read request; printf '\\377\\376\\n'; cat >/dev/null"));
    let old = site.script("old", "echo '{\"done\":{\"weir\":\"0.0.9\"}}'; cat >/dev/null");
    site.workers(&[
        ("198.51.100.1", Some(&lies)),
        ("100.64.3.1", None),
        ("198.51.100.2", None),
        ("192.0.2.1", Some(WEIR)),
    ]);
    let [_, said] = site.done("run grid.toml --on hosts.toml --seed 7 --quiet --no-report");
    for text in [
        "root@198.51.100.1: it sent bytes that are no text: `",
        "goes to another host",
        "root@100.64.3.1: weir cannot be copied there: exit code ",
        "No space left on device",
        "root@198.51.100.2: no connection: ",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
    assert_eq!(site.figures(), whole);
    // The same by another version, which has no other host beside it.
    site.workers(&[("198.51.100.1", Some(&old))]);
    let refused = site.weir("run grid.toml --on hosts.toml --seed 7 --quiet --no-report");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("root@198.51.100.1: it has weir 0.0.9, this host has "), "{said}");
    assert!(said.contains("weir: no host is left for plan grid: remove the cause above"), "{said}");
    assert_eq!(refused.status.code(), Some(1), "{said}");
}

#[test]
fn jobs_of_a_killed_host_are_done_by_another() {
    let Some(site) = Site::new(&["true"; 2]) else { return };
    // It takes part only when the other one is gone.
    let late = site.script(
        "late",
        &format!("until [ -e {} ]; do sleep 0.02; done; exec WEIR \"$@\"", site.home.path("go").display()),
    );
    site.workers(&[("192.0.2.1", Some(WEIR)), ("198.51.100.1", Some(&late))]);
    let mut run = Watched::start(&site.home, &site.near, &["grid.toml", "--on", "hosts.toml", "--seed", "7"]);
    run.wait_for_line("shard ");
    kill(&site.hosts[0].namespace, "weir");
    let lost = run.wait_for_line("goes to another host").pop().expect("that line");
    assert!(lost.starts_with("root@192.0.2.1: what ran there was killed"), "{lost}");
    fs::write(site.home.path("go"), "").unwrap();
    let said: Vec<String> = run.lines.by_ref().map_while(Result::ok).collect();
    assert!(run.run.wait().expect("it ran").success(), "{said:?}");
    let killed = site.figures();
    site.done("run grid.toml --seed 7 --quiet --no-report");
    assert_eq!(killed, site.figures());
}

#[test]
fn each_host_measures_the_plan_and_those_that_cannot_are_named() {
    let Some(site) = Site::new(&["true"; 2]) else { return };
    // The folder for the files of a run is full there.
    let full = site.script("full", "exec env TMPDIR=/proc WEIR \"$@\"");
    site.workers(&[("192.0.2.1", Some(WEIR)), ("198.51.100.1", Some(&full))]);
    let output = site.weir("run grid.toml --on hosts.toml --each --seed 7");
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("root@198.51.100.1: cannot create a folder for the run"), "{said}");
    assert!(out.starts_with("run 1: Linux "), "{out}");
    // A tester runs the plan alone, and its record is here.
    let file = format!("[[host]]\nrole = \"tester\"\nssh = \"root@192.0.2.1\"\nweir = \"{WEIR}\"\n");
    fs::write(site.home.path("tester.toml"), format!("ssh_config = \"ssh_config\"\n{file}")).unwrap();
    site.done("run grid.toml --on tester.toml --seed 7 --quiet --no-report");
    let [list, _] = site.done("list");
    assert_eq!(list.matches("grid").count(), 2, "{list}");
    let [kernels, _] = site.done("trend grid --by kernel");
    assert!(kernels.starts_with("grid on ") && kernels.contains(" (2 runs)"), "{kernels}");
}
