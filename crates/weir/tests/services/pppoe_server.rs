//! `weir cpe --pppoe` in front of a concentrator of others: discovery of rp-pppoe's pppoe-server. It starts a program for each session that
//! ends at once in place of pppd, which needs the kernel's PPP; so each session ends by PADT.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, join, keep_quiet, set_up};
use weir_testkit::{PATIENCE, has, need_root, output};

use crate::weir::WEIR;

/// A server that ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The document of `weir cpe` on a.
fn emulate(devices: &Namespace, words: &str) -> Value {
    let mut command = Command::new(WEIR);
    command.args(["cpe", "--on", "a", "--json"]).args(words.split_whitespace());
    let ended = devices.run(|| output(&mut command)).expect("weir starts");
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn pppoe_server() {
    need_root!();
    if !has("pppoe-server") {
        return;
    }
    let (devices, bng) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let ends = [(&devices, "a"), (&bng, "b")];
    join(ends, Wire { number: 0, queues: 1 });
    ends.iter().for_each(|end| keep_quiet(*end));
    ends.iter().for_each(|end| set_up(*end, true));
    let mut command = Command::new("pppoe-server");
    command.args("-F -I b -C ac1 -S internet -N 100 -x 100 -q /bin/false -Q /bin/false".split(' '));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Server(bng.run(|| command.spawn()).expect("the server"));
    let begin = Instant::now();
    let probe = "--pppoe 1 --first-mac 02:00:00:00:ff:01 --timeout 50ms --tries 1";
    while emulate(&devices, probe)["messages"]["pads"] != 1 {
        assert!(begin.elapsed() < PATIENCE, "no answer of {command:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let rest = "--rate 100 --timeout 5s --max-payload 1492 --circuit olt/{n} --remote {mac}";
    let document = emulate(&devices, &format!("--pppoe 10 --service internet {rest}"));
    let messages = &document["messages"];
    for (name, count) in [("pado", 10), ("pads", 10), ("padt_received", 10), ("malformed", 0)] {
        assert_eq!(messages[name], count, "{name}: {document:#}");
    }
    assert_eq!(document["failures"]["lcp"], 10, "{document:#}");
    let other = emulate(&devices, "--pppoe 2 --service other --timeout 50ms --tries 2");
    assert_eq!((&other["failures"]["padi"], &other["messages"]["pado"]), (&2.into(), &0.into()), "{other:#}");
}
