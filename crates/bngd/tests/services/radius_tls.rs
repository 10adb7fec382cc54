//! RADIUS over TLS (RFC 6614) with Debian's radsecproxy in front of FreeRADIUS: logins, and a proxy that is killed and returns.

use std::process::{Child, Command, Stdio};

use weir_bng::ppp::auth::Method;

use crate::certificates;
use crate::device::{Outcome, dial, dial_all};
use crate::freeradius::{FreeRadius, Setup, as_nobody, is_installed};
use crate::restart::{Rig, TEXT};
use weir_testkit::Watch;
use weir_testkit::wires::set_up;

const USERS: &str = "DEFAULT Cleartext-Password := \"pw\"\n\tFilter-Id = \"30000/7000\"\n";
const CONFIG: &str = "ListenTLS 127.0.0.1:2083
LogDestination x-syslog:///
LogLevel 2
tls default {
    CACertificateFile @D@/ca.pem
    CertificateFile @D@/server.pem
    CertificateKeyFile @D@/server.key
}
client bng {
    host 127.0.0.1
    type tls
    secret radsec
}
server freeradius {
    host 127.0.0.1
    port 1812
    type udp
    secret \"of both sides\"
}
realm * {
    server freeradius
}
";

struct Proxy(Child, #[expect(dead_code, reason = "it watches until it is dropped")] Watch);

impl Proxy {
    fn start(rig: &Rig) -> Proxy {
        let folder = rig.folder.display().to_string();
        let config = rig.folder.file("radsecproxy.conf", CONFIG.replace("@D@", &folder));
        let mut command = as_nobody("/usr/sbin/radsecproxy");
        command.args(["-f", "-c"]).arg(config).stdin(Stdio::null());
        let log = std::fs::File::create(rig.folder.join("proxy.log")).expect("it is ours");
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        let child = rig.bng.run(|| command.spawn()).expect("setpriv starts");
        let watch = Watch::new(&child);
        Proxy(child, watch)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn radsecproxy_carries_logins_and_may_end_and_return() {
    let is_there = |program: &str| {
        Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if !is_there("/usr/sbin/radsecproxy") {
        return println!("skipped: radsecproxy is not installed");
    }
    if !is_installed() {
        return;
    }
    let radius = "pppoe auth chap-md5 ms-chapv2 pap, \
                  radius one tls://127.0.0.1:2083 ca ca.pem cert client.pem key client.key require dead 1s";
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {radius}"));
    let Some(rig) = Rig::of(&text) else { return };
    set_up((&rig.bng, "lo"), true);
    certificates::write(&rig.folder, "ca", &["server", "client"]);
    let server = FreeRadius::start(&rig.bng, &rig.folder, &Setup::new("freeradius", 1812, USERS));
    let proxy = Proxy::start(&rig);
    rig.hang_up();
    let count = |rig: &Rig, text: &str| rig.log().matches(text).count();
    rig.until("a connection", |rig| count(rig, "RADIUS server one is connected by TLS") == 1);
    for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
        let outcome = dial(&rig, "anna", "pw", method);
        assert!(matches!(outcome, Outcome::Up(_)), "{method:?} {outcome:?} {}", rig.log());
        let outcome = dial(&rig, "anna", "pW", method);
        assert!(matches!(&outcome, Outcome::Refused(text) if text.contains("call 555")), "{outcome:?}");
    }
    drop(proxy);
    rig.until("no proxy", |rig| rig.log().contains("RADIUS server one does not answer"));
    let _proxy = Proxy::start(&rig);
    rig.until("it is back", |rig| rig.log().contains("RADIUS server one answers again"));
    let outcomes = dial_all(&rig, "ben", Method::ChapMd5, 4);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Up(_))), "{outcomes:?}");
    assert_eq!(server.count("Login OK"), 3 + 4, "{}", server.log());
}
