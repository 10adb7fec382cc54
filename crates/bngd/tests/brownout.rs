//! Logins while no RADIUS server answers, also after a kill of the program: the hash of the password is on disk, and the password is not.

use std::net::UdpSocket;
use std::path::Path;
use std::thread::JoinHandle;

use weir_bng::ppp::auth::Method;
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet::{Packet, code, reveal_password};

use crate::device::{Device, Outcome, dial};
use crate::pppoe::with;
use crate::restart::{Rig, TEXT};

const SECRET: &str = "Sesame-of-both-sides";
const PASSWORD: &str = "Zebra-7431";
const RADIUS: &str = "pppoe auth pap, radius one 127.0.0.1:1812 secret-file one.secret ports 1 require dead 1s, \
                      aaa radius 1s, brown-out age 1d";

/// A server that knows one password, until a datagram of another form comes.
fn serve(socket: UdpSocket) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).expect("the socket works");
            let Ok(request) = Packet::read(&buffer[..len]) else { return };
            let hidden = request.attributes.get(number::USER_PASSWORD).expect("PAP");
            let password = reveal_password(hidden, SECRET.as_bytes(), &request.authenticator);
            let is_right = password.as_deref() == Some(PASSWORD.as_bytes());
            let mut attributes = Attributes::default();
            attributes.push(number::FILTER_ID, b"30000/7000");
            let code = if is_right { code::ACCESS_ACCEPT } else { code::ACCESS_REJECT };
            let answer = request.answer(code, &attributes, SECRET.as_bytes()).expect("a short packet");
            socket.send_to(&answer.write(), from).expect("the socket works");
        }
    })
}

/// Files below a folder that have a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if path.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_known_login_comes_online_without_a_server_also_after_a_kill() {
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {RADIUS}"));
    let Some(mut rig) = Rig::of(&text) else { return };
    let server = serve(rig.socket("127.0.0.1:1812"));
    let ends = rig.socket("127.0.0.1:0");
    rig.write_and_reload("one.secret", SECRET);
    rig.until("the secret is read", |rig| rig.log().contains("the file was read again"));
    let mut device = with(&rig, || {
        let mut device = Device::new("anna", PASSWORD, Method::Pap);
        assert!(matches!(device.dial(), Outcome::Up(_)));
        device
    });
    assert!(rig.sessions().is_some_and(|all| all.len() == 1 && !all[0].brown_out));
    ends.send_to(b"end", "127.0.0.1:1812").expect("the socket works");
    server.join().expect("no panic");
    rig.until("the hash is on disk", |rig| !files_with(&rig.folder.join("store"), "argon2id").is_empty());
    rig.kill_bngd();
    let outcome = with(&rig, move || {
        device.hang_up();
        device.dial()
    });
    assert!(matches!(outcome, Outcome::Up(_)), "{outcome:?} {}", rig.log());
    let sessions = rig.agree("it is up");
    assert!(sessions.len() == 1 && sessions[0].brown_out, "{sessions:?}");
    // Nobody else, and nothing that the program wrote has a secret.
    assert!(matches!(dial(&rig, "anna", "other", Method::Pap), Outcome::Refused(_)));
    assert!(matches!(dial(&rig, "ben", PASSWORD, Method::Pap), Outcome::Refused(_)));
    assert_eq!(files_with(&rig.folder, PASSWORD), [""; 0]);
    assert_eq!(files_with(&rig.folder, SECRET), [rig.folder.join("one.secret").display().to_string()]);
    // With a key the secret of the server is encrypted, too, and so is a password that was readable before.
    let other = "Giraffe-9150";
    rig.add_subscriber(&format!(
        r#"{{"name": "carl", "login": "carl", "password": "{other}", "plan": "basic"}}"#
    ));
    assert!(!files_with(&rig.folder.join("store"), other).is_empty());
    rig.folder.file(
        "isp.node",
        text.replace("store store", "store store, key bng.key").replace("aaa radius", "aaa local radius"),
    );
    rig.kill_bngd();
    assert!(matches!(dial(&rig, "carl", other, Method::Pap), Outcome::Up(_)), "{}", rig.log());
    for secret in [SECRET, other, PASSWORD] {
        rig.until("no secret is readable", |rig| files_with(&rig.folder, secret).is_empty());
        let arguments = std::fs::read(format!("/proc/{}/cmdline", rig.bngd.id())).expect("it runs");
        assert!(!String::from_utf8_lossy(&arguments).contains(secret));
    }
    rig.kill_bngd();
    assert!(matches!(dial(&rig, "carl", other, Method::Pap), Outcome::Up(_)), "{}", rig.log());
    let server = serve(rig.socket("127.0.0.1:1812"));
    assert!(matches!(dial(&rig, "anna", PASSWORD, Method::Pap), Outcome::Up(_)), "{}", rig.log());
    ends.send_to(b"end", "127.0.0.1:1812").expect("the socket works");
    server.join().expect("no panic");
}
