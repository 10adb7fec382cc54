//! TLS to the server: its certificate must be of a trusted authority and for the name in the address.

use std::process::Output;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use weir_testkit::output;

use super::bed::{Bed, small_run, write_all};

/// A certificate authority, and a certificate of it for `localhost`.
struct Authority {
    certificate: String,
    server: String,
    server_key: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut own = CertificateParams::new(Vec::new()).expect("no names");
        own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = own.self_signed(&key).expect("signed").pem();
        let server_key = KeyPair::generate().expect("a key");
        let server = CertificateParams::new(vec!["localhost".to_string()]).expect("a name");
        let server = server.signed_by(&server_key, &Issuer::new(own, key)).expect("signed").pem();
        Authority { certificate, server, server_key: server_key.serialize_pem() }
    }
}

/// A push to this address, by a machine that trusts this file, or what browsers trust.
fn push(bed: &Bed, url: &str, trusted: Option<&str>) -> Output {
    let mut command = bed.push_command(url);
    command.env_remove("PGSSLROOTCERT");
    let file = trusted.map(|certificate| bed.folder.file("trusted.pem", certificate));
    command.envs(file.map(|path| ("PGSSLROOTCERT", path)));
    output(&mut command).expect("weir-archive starts")
}

#[test]
fn a_server_shows_a_trusted_certificate_for_its_name() {
    let Some(mut bed) = Bed::new() else { return };
    write_all(&bed.log, &small_run());
    let (authority, other) = (Authority::new(), Authority::new());
    let database = bed.database.clone();
    let url = |host: &str, port: u16, mode: &str| format!("postgres://owner@{host}:{port}/{database}{mode}");
    let refused = |pushed: Output, words: &str| {
        let said = String::from_utf8_lossy(&pushed.stderr).to_lowercase();
        assert_eq!(pushed.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains(words), "{words}: {said}");
    };
    let port = bed.postgres.listen(None);
    let ca = Some(&*authority.certificate);
    refused(push(&bed, &url("localhost", port, "?sslmode=require"), ca), "tls");

    let port = bed.postgres.listen(Some((&authority.server, &authority.server_key)));
    let (good, require) = (url("localhost", port, ""), "?sslmode=require");
    refused(push(&bed, &url("localhost", port, require), None), "unknownissuer");
    refused(push(&bed, &url("localhost", port, require), Some(&other.certificate)), "certificate");
    refused(push(&bed, &url("127.0.0.1", port, require), ca), "not valid for name");
    refused(push(&bed, &url("localhost", port, "?sslmode=disable"), ca), "no encryption");
    assert_eq!(
        bed.postgres.sql(&bed.database, "SELECT to_regclass('weir.runs') IS NULL"),
        "t",
        "nothing came"
    );

    for (address, said) in [(url("localhost", port, require), "1 new\n"), (good, "0 new, 1 there before\n")] {
        let pushed = push(&bed, &address, ca);
        assert_eq!(String::from_utf8_lossy(&pushed.stdout), said, "{pushed:?}");
    }
    let missing = bed.folder.join("missing.pem");
    let mut command = bed.push_command(&url("localhost", port, require));
    let pushed = output(command.env("PGSSLROOTCERT", &missing)).expect("it starts");
    refused(pushed, "no certificate can be read from");
}
