//! FRR at the TAP devices of two nodes: OSPF over a port with two VLAN tags, on a kernel without VLAN interfaces.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use weir_linux::namespace::Namespace;
use weir_testkit::wires::set_up;
use weir_testkit::{Folder, PATIENCE, need_root, output};

use crate::machines::Neighbours;

const DAEMONS: &str = "/usr/lib/frr";
const A: &str = "198.18.5.1";
const B: &str = "198.18.5.2";
/// An address of the loopback of b.
const BEHIND_B: &str = "203.0.113.1";

/// The routing daemons of a machine, until it is dropped.
struct Frr<'a> {
    namespace: &'a Namespace,
    folder: Folder,
    children: Vec<Child>,
}

impl<'a> Frr<'a> {
    /// With OSPF at `m0`, which announces `networks`.
    fn start(namespace: &'a Namespace, id: &str, networks: &[&str]) -> Frr<'a> {
        // The daemons become the user frr.
        let folder = Folder::for_all();
        let mut frr = Frr { namespace, folder, children: Vec::new() };
        frr.run("zebra", "");
        frr.until("zebra's socket", |frr| frr.folder.join("zserv").exists());
        let areas: String = networks.iter().map(|network| format!(" network {network} area 0\n")).collect();
        let config = format!(
            "interface m0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\nexit\n\
             router ospf\n ospf router-id {id}\n{areas} timers throttle spf 0 50 500\n timers throttle lsa all 0\n \
             timers lsa min-arrival 0\nexit\n"
        );
        frr.run("ospfd", &config);
        frr
    }

    fn run(&mut self, daemon: &str, config: &str) {
        let file = self.folder.file(&format!("{daemon}.conf"), config);
        let in_folder = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new(Path::new(DAEMONS).join(daemon));
        command.arg("-f").arg(file).args(["-i", &in_folder(&format!("{daemon}.pid"))]);
        command.args(["-z", &in_folder("zserv"), "--vty_socket", &in_folder(""), "-P", "0"]);
        command.args(["--log", &format!("file:{}", in_folder(&format!("{daemon}.log")))]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(self.namespace.run(|| command.spawn()).expect("the daemon"));
    }

    /// The routes of the kernel that OSPF has made.
    fn routes(&self) -> String {
        let mut command = Command::new("ip");
        command.args(["route", "show", "proto", "ospf"]);
        let shown = self.namespace.run(|| output(&mut command)).expect("ip");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    fn neighbours(&self) -> String {
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(self.folder.join("")).args([
            "-d",
            "ospfd",
            "-c",
            "show ip ospf neighbor",
        ]);
        let shown = self.namespace.run(|| output(&mut command)).expect("vtysh");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    fn until(&self, what: &str, is_so: impl Fn(&Frr<'_>) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let logs: Vec<String> = ["zebra.log", "ospfd.log"]
                .map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default())
                .into();
            assert!(Instant::now() < deadline, "{what}: {logs:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Frr<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn frr_has_a_neighbour_by_ospf_at_a_tagged_port() {
    need_root!();
    if !Path::new(DAEMONS).join("ospfd").exists() {
        return println!("skipped: FRR is not installed (apt install frr)");
    }
    let pair = Neighbours::new(1);
    let (a, b) = (&pair.a.node, &pair.b.node);
    [(a, "lo"), (b, "lo")].into_iter().for_each(|end| set_up(end, true));
    let filter = "filter(count ospf proto 89, accept proto 89, accept icmp, policy drop)";
    let nodes = pair.run([&[A], &[B]], filter, "io xdp");
    let behind = ["address", "add", BEHIND_B, "dev", "lo"];
    assert!(b.run(|| output(Command::new("ip").args(behind))).expect("ip").status.success());
    let network = "198.18.5.0/24";
    let (of_a, of_b) = (Frr::start(a, A, &[network]), Frr::start(b, B, &[network, "203.0.113.1/32"]));
    for frr in [&of_a, &of_b] {
        frr.until("a full neighbour", |frr| frr.neighbours().contains("Full/"));
    }
    of_a.until("a route", |frr| frr.routes().contains(BEHIND_B));
    drop(of_b);
    of_a.until("no route without its neighbour", |frr| !frr.routes().contains(BEHIND_B));
    for counted in nodes.map(crate::street::Running::end) {
        assert!(counted["punted"]["routing"].as_u64() > Some(0), "{counted}");
    }
}
