//! Subscribers with DHCP clients of others: the first one online (`examples/bng/run`), as a user runs it, and each client in turn.

use std::path::Path;
use std::process::Command;

use weir_linux::namespace::Namespace;
use weir_testkit::wires::{Wire, join, set_up};
use weir_testkit::{Folder, need_root, output};

use crate::weir::{WEIR, run, start};

#[test]
fn the_first_subscriber_is_online() {
    need_root!();
    if !Path::new(WEIR).with_file_name("weir-bngd").exists() {
        return println!("skipped: weir-bngd is not built (cargo build -p weir-bngd)");
    }
    for (program, package) in [("busybox", "busybox"), ("curl", "curl"), ("jq", "jq")] {
        if output(Command::new("which").arg(program)).is_ok_and(|found| !found.status.success()) {
            return println!("skipped: no program {program} (apt install {package})");
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bng/run");
    let ran = output(Command::new(script).env("WEIR", WEIR)).expect("bash starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(said.ends_with("all steps passed\n"), "{said}");
}

/// A script of clients: it sets the address of udhcpc (`$1`), dhclient and dhcpcd (`$reason`), and says so to a reader of the pipe
/// `bound` beside it.
const SCRIPT: &str = r#"#!/bin/sh
case "$reason$1" in
BOUND | RENEW | REBIND | REBOOT) ip address replace "$new_ip_address/$new_subnet_mask" dev "$interface" ;;
bound | renew) ip address replace "$ip/$mask" dev "$interface" ;;
*) exit ;;
esac
bound=$(dirname "$0")/bound
[ ! -p "$bound" ] || echo bound >"$bound"
"#;
const TEXT: &str = "node access1(access, on packet:b) > access(gateway 100.64.0.1/24) > route > wan(198.18.0.1/24, on packet:d)\n\
                    run(host none)\n\
                    bng(store store, socket bng.sock, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/24, plan basic down 20Mbit up 5Mbit)";

/// Clients, and the command that gets a lease for interface `a`; files are in the folder `$D`.
const CLIENTS: [(&str, &str); 3] = [
    ("busybox", "busybox udhcpc -f -n -q -i a -t 5 -T 1 -s $D/script -p $D/pid"),
    (
        "dhclient",
        // In the foreground: as a daemon it writes its process id some time after its parent has ended.
        "mkfifo $D/bound; dhclient -4 -d -1 -sf $D/script -lf $D/leases -pf $D/pid -cf $D/dhclient.conf a & \
         timeout 60 grep -q bound $D/bound; status=$?; kill $!; rm $D/bound; exit $status",
    ),
    (
        "dhcpcd",
        "unshare -m --propagation private sh -c 'mount -t tmpfs none /run; mount -t tmpfs none /var/lib/dhcpcd; \
         dhcpcd -4 -B -1 -f $D/dhcpcd.conf -c $D/script a'",
    ),
];

#[test]
fn clients_of_others_get_a_lease_and_reach_the_gateway() {
    need_root!();
    if !Path::new(WEIR).with_file_name("weir-bngd").exists() {
        return println!("skipped: weir-bngd is not built (cargo build -p weir-bngd)");
    }
    let [cpe, bng] = [(); 2].map(|()| Namespace::new().expect("a namespace"));
    for (number, (here, there)) in (0..).zip([("a", "b"), ("c", "d")]) {
        let ends = [(&cpe, here), (&bng, there)];
        join(ends, Wire { number, queues: 1 });
        ends.iter().for_each(|end| set_up(*end, true));
    }
    let folder = Folder::for_all();
    folder.file("isp.node", TEXT);
    folder.file("dhclient.conf", "timeout 20; retry 2; initial-interval 1;\n");
    folder.file("dhcpcd.conf", "noarp\n");
    let script = folder.file("script", SCRIPT);
    std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it is ours");
    let path = |name: &str| folder.join(name).display().to_string();
    let (node_socket, socket) = (path("node.sock"), path("bng.sock"));
    let run_node = format!("node run {} --socket {node_socket} --keep-privileges", path("isp.node"));
    let _node = start(&bng, &run_node, "wan: ");
    let run_bng = format!("bng run {} --node-socket {node_socket}", path("isp.node"));
    let _bngd = start(&bng, &run_bng, "attached to the node");
    let weir = |line: &str| {
        let ran = run(&bng, &format!("bng {line} --socket {socket}"));
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    weir("subscriber add anna --line access1 --plan basic");
    let sh = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("D", folder.join(""));
        cpe.run(|| output(&mut shell)).expect("sh")
    };
    for (program, command) in CLIENTS {
        if !sh(&format!("PATH=$PATH:/usr/sbin:/sbin command -v {program}")).status.success() {
            println!("skipped: no DHCP client {program}");
            continue;
        }
        let ran = sh(&format!("PATH=$PATH:/usr/sbin:/sbin; ip address flush dev a; {command}"));
        assert!(ran.status.success(), "{program}: {}", String::from_utf8_lossy(&ran.stderr));
        let sessions = weir("session list");
        assert!(
            sessions.starts_with("anna  ipoe  access1  ") && sessions.contains("  100.64.0.2  "),
            "{sessions}"
        );
        let pinged = sh("ping -c 1 -W 5 100.64.0.1");
        assert!(pinged.status.success(), "{program}: {}", String::from_utf8_lossy(&pinged.stdout));
        weir("session disconnect anna");
        assert_eq!(weir("session list"), "no session\n", "{program}");
    }
}
