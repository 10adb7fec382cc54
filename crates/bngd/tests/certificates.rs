//! Certificates of a server and of a client, of one authority, as files in PEM.

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use weir_testkit::Folder;

/// Writes `ca.pem`, and for each name `NAME.pem` and `NAME.key`, for the address 127.0.0.1.
pub(crate) fn write(folder: &Folder, ca: &str, names: &[&str]) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(rcgen::DnType::CommonName, ca);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    folder.file(&format!("{ca}.pem"), params.self_signed(&key).expect("a certificate").pem());
    let issuer = Issuer::new(params, key);
    for name in names {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["127.0.0.1".into()]).expect("an address");
        params.distinguished_name.push(rcgen::DnType::CommonName, *name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        folder.file(&format!("{name}.pem"), params.signed_by(&key, &issuer).expect("a certificate").pem());
        folder.file(&format!("{name}.key"), key.serialize_pem());
    }
}
