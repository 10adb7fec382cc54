//! Logins by RADIUS over TLS (RFC 6614), with a small server of the test: requests of a connection that ends are sent by the next one,
//! and none waits for a server that cannot be reached.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use weir_bng::ppp::auth::Method;
use weir_bng::radius::attribute::{Attributes, number};
use weir_bng::radius::packet::{Packet, Require, code};
use weir_testkit::wires::set_up;
use weir_testkit::{Folder, PATIENCE};

use crate::certificates;
use crate::device::{Outcome, dial, dial_all};
use crate::restart::{Rig, TEXT};

/// The secret of RFC 6614, section 2.3.
const SECRET: &[u8] = b"radsec";

struct Server {
    listener: TcpListener,
    config: Arc<ServerConfig>,
}

type Connection = StreamOwned<ServerConnection, TcpStream>;

impl Server {
    fn new(rig: &Rig) -> Server {
        let listener = rig.bng.run(|| TcpListener::bind("127.0.0.1:2083")).expect("the port is free");
        Server { listener, config: Arc::new(config(&rig.folder)) }
    }

    /// The next connection of a client with a certificate.
    fn accept(&self) -> Connection {
        let (stream, _) = self.listener.accept().expect("the socket works");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        StreamOwned::new(ServerConnection::new(self.config.clone()).expect("a configuration"), stream)
    }
}

fn config(folder: &Folder) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("ca.pem")).expect("a file")).expect("a certificate");
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let own = CertificateDer::from_pem_file(folder.join("server.pem")).expect("a file");
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).expect("a file");
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("versions").with_client_cert_verifier(verifier.expect("a certificate"));
    builder.with_single_cert(vec![own], key).expect("they fit")
}

/// The next request; `None`: the client has ended the connection.
fn request(connection: &mut Connection) -> Option<Packet> {
    let mut bytes = vec![0; 4];
    connection.read_exact(&mut bytes).ok()?;
    let len = u16::from_be_bytes([bytes[2], bytes[3]]);
    bytes.resize(len.into(), 0);
    connection.read_exact(&mut bytes[4..]).ok()?;
    let packet = Packet::read(&bytes).expect("a packet");
    assert_eq!(packet.check_access(SECRET, Require::MessageAuthenticator), Ok(()));
    Some(packet)
}

fn accept(connection: &mut Connection, request: &Packet) {
    let mut attributes = Attributes::default();
    attributes.push(number::FILTER_ID, b"30000/7000");
    let answer = request.answer(code::ACCESS_ACCEPT, &attributes, SECRET).expect("a short packet").write();
    // In two parts: a stream has no borders of packets.
    let (one, other) = answer.split_at(7);
    for part in [one, other] {
        connection.write_all(part).and_then(|()| connection.flush()).expect("the client reads");
    }
}

const RADIUS: &str =
    "pppoe auth pap, radius one tls://127.0.0.1:2083 ca ca.pem cert client.pem key client.key dead 1s";

fn rig() -> Option<Rig> {
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {RADIUS}"));
    let rig = Rig::of(&text)?;
    set_up((&rig.bng, "lo"), true);
    certificates::write(&rig.folder, "ca", &["server", "client"]);
    Some(rig)
}

#[test]
fn radius_by_tls_sends_requests_of_an_ended_connection_again() {
    let Some(rig) = rig() else { return };
    // The certificates were missing when the program began.
    rig.until("the files are missed", |rig| rig.log().contains("no certificates in"));
    let server = Server::new(&rig);
    rig.hang_up();
    let serving = std::thread::spawn(move || {
        let mut connection = server.accept();
        let first = request(&mut connection).expect("a request");
        accept(&mut connection, &first);
        // The next ones are received, and not answered.
        let lost = [(); 3].map(|()| request(&mut connection).expect("a request"));
        drop(connection);
        let mut connection = server.accept();
        let again = lost.each_ref().map(|_| {
            let again = request(&mut connection).expect("a request");
            accept(&mut connection, &again);
            again
        });
        let names = |all: &[Packet]| {
            let mut names: Vec<_> =
                all.iter().map(|packet| packet.attributes.text(number::USER_NAME)).collect();
            names.sort();
            names
        };
        assert_eq!(names(&lost), names(&again));
        assert!(lost.iter().zip(&again).all(|(lost, again)| lost.authenticator != again.authenticator));
        // Until the program ends.
        while let Some(request) = request(&mut connection) {
            accept(&mut connection, &request);
        }
    });
    let is_up = |outcome: &Outcome| matches!(outcome, Outcome::Up(_));
    assert!(is_up(&dial(&rig, "first", "pw", Method::Pap)), "{}", rig.log());
    let outcomes = dial_all(&rig, "again", Method::Pap, 3);
    assert!(outcomes.iter().all(is_up), "{outcomes:?} {}", rig.log());
    drop(rig);
    serving.join().expect("no panic");
}

#[test]
fn radius_by_tls_that_cannot_be_reached_holds_up_no_login_and_returns() {
    let Some(rig) = rig() else { return };
    rig.hang_up();
    rig.until("no server", |rig| rig.log().contains("RADIUS server one cannot be reached by TLS"));
    rig.until("it is dead", |rig| rig.log().contains("RADIUS server one does not answer"));
    assert!(matches!(dial(&rig, "early", "pw", Method::Pap), Outcome::Refused(_)), "{}", rig.log());
    // A server with a certificate of another authority is none.
    certificates::write(&rig.folder, "other", &["server"]);
    let server = Server::new(&rig);
    assert!(request(&mut server.accept()).is_none());
    drop(server);
    certificates::write(&rig.folder, "ca", &["server", "client"]);
    let server = Server::new(&rig);
    let serving = std::thread::spawn(move || {
        // Connections that began with the certificates of before fail.
        loop {
            let mut connection = server.accept();
            while let Some(request) = request(&mut connection) {
                accept(&mut connection, &request);
            }
            if rustls_is_done(&connection) {
                return;
            }
        }
    });
    rig.until("it is back", |rig| rig.log().contains("RADIUS server one answers again"));
    assert!(matches!(dial(&rig, "late", "pw", Method::Pap), Outcome::Up(_)), "{}", rig.log());
    drop(rig);
    serving.join().expect("no panic");
}

/// Whether the handshake was complete.
fn rustls_is_done(connection: &Connection) -> bool {
    !connection.conn.is_handshaking()
}
