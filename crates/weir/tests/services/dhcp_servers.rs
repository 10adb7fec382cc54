//! `weir cpe` in front of DHCP servers of others, with the kernel as a router: dnsmasq and Kea.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, address, join, set_up, without_ipv6};
use weir_testkit::{Folder, PATIENCE, has, need_root, output};

use crate::weir::WEIR;

/// Devices with a and c, and the router with b and d.
struct Street {
    devices: Namespace,
    router: Namespace,
    folder: Folder,
}

/// A server that ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Street {
    fn new() -> Street {
        let (devices, router) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let street = Street { devices, router, folder: Folder::new() };
        for (number, (here, there, own)) in (0..).zip([("a", "b", "198.19.0.1"), ("c", "d", "198.18.0.1")]) {
            let ends = [(&street.devices, here), (&street.router, there)];
            join(ends, Wire { number, queues: 1 });
            ends.iter().for_each(|end| without_ipv6(*end));
            address(ends[1], own);
            ends.iter().for_each(|end| set_up(*end, true));
        }
        street.router.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
        street
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Starts a server on b, and waits until it answers one device, or until it has ended.
    fn serve(&self, command: &mut Command) -> Server {
        let said = fs::File::create(self.file("said")).unwrap();
        command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        let server = Server(self.router.run(|| command.spawn()).expect("the server"));
        let begin = Instant::now();
        // Another device, so that those of the test are new.
        let probe = "--dhcp 1 --first-mac 02:00:00:00:ff:01 --timeout 50ms --tries 1 --release";
        while self.emulate(probe).0 != Some(0) {
            let log = || fs::read_to_string(self.folder.join("said")).unwrap_or_default();
            assert!(begin.elapsed() < PATIENCE, "no answer of {command:?}: {}", log());
            thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Exit code and document of `weir cpe`.
    fn emulate(&self, words: &str) -> (Option<i32>, Value) {
        let mut command = Command::new(WEIR);
        command.args(["cpe", "--on", "a", "--json"]).args(words.split(' '));
        let ended = self.devices.run(|| output(&mut command)).expect("weir starts");
        let document = serde_json::from_slice(&ended.stdout);
        (ended.status.code(), document.unwrap_or_else(|error| panic!("{error}: {ended:?}")))
    }

    /// All devices come up, their packets are forwarded, and renewals are answered.
    fn check(&self, more: &str) {
        let words = "--dhcp 100 --first-mac 02:00:00:00:10:01 --rate 200 --timeout 500ms --tries 8 --far c --first-packet-to 198.18.0.2 --from-subscriber 5 \
                     --to-subscriber 5 --hold 1s --release";
        let (code, document) = self.emulate(&format!("{words}{more}"));
        assert_eq!(
            (code, &document["up"], &document["failed"]),
            (Some(0), &100.into(), &0.into()),
            "{document:#}"
        );
        assert_eq!((&document["released"], &document["foreign"]), (&100.into(), &0.into()), "{document:#}");
        for direction in ["from_subscriber", "to_subscriber"] {
            let traffic = &document[direction];
            assert_eq!((&traffic["sent"], &traffic["lost"]), (&500.into(), &0.into()), "{document:#}");
        }
    }
}

#[test]
fn dnsmasq() {
    need_root!();
    if !has("dnsmasq") {
        return;
    }
    let street = Street::new();
    let mut command = Command::new("dnsmasq");
    command
        .args("-k -p 0 -C /dev/null -u root --no-resolv --no-hosts --no-ping -i b --bind-dynamic".split(' '));
    command.args(["--dhcp-authoritative", "--dhcp-range=198.19.0.2,198.19.0.250,255.255.255.0,10m"]);
    command.arg(format!("--dhcp-leasefile={}", street.file("leases")));
    command.arg(format!("--log-facility={}", street.file("log")));
    command.args(["-x", &street.file("pid")]);
    let _server = street.serve(&mut command);
    street.check("");
}

#[test]
fn kea() {
    need_root!();
    if !has("kea-dhcp4") {
        return;
    }
    let street = Street::new();
    let config = serde_json::json!({ "Dhcp4": {
        "interfaces-config": {
            "interfaces": ["b"],
            "dhcp-socket-type": "raw",
            // A link comes up some time after it was set up.
            "service-sockets-max-retries": 100,
            "service-sockets-retry-wait-time": 50,
        },
        "lease-database": { "type": "memfile", "name": street.file("leases"), "lfc-interval": 0 },
        "valid-lifetime": 600,
        "subnet4": [{
            "id": 1,
            "subnet": "198.19.0.0/24",
            "interface": "b",
            "pools": [{ "pool": "198.19.0.2-198.19.0.250" }],
            "option-data": [{ "name": "routers", "data": "198.19.0.1" }],
        }],
    } });
    fs::write(street.file("kea.json"), config.to_string()).unwrap();
    let mut command = Command::new("kea-dhcp4");
    command.args(["-c", &street.file("kea.json")]);
    for variable in ["KEA_PIDFILE_DIR", "KEA_LOCKFILE_DIR"] {
        command.env(variable, street.folder.display().to_string());
    }
    command.env("KEA_LOGGER_DESTINATION", "stdout");
    let _server = street.serve(&mut command);
    street.check(" --client-id mac");
}
