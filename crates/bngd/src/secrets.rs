//! Secrets on disk, encrypted with the key of a file (ChaCha20-Poly1305, RFC 8439): passwords of subscribers in the store, and the files
//! of RADIUS secrets.
//!
//! ```text
//! mark: 6 | nonce: 12, random | ciphertext | tag: 16          the name that it belongs to is part of what the tag protects
//! ```
//! Without a key secrets stay readable for the owner of their files. With a key, those that were readable are written anew.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use tracing::{info, warn};
use weir_bng::ppp::auth::Password;
use weir_bng::{Change, Name, Record, SEALED, Subscriber};

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// The key, if there is one.
#[derive(Debug)]
pub(crate) struct Secrets {
    key: Option<Key>,
}

#[derive(Debug)]
struct Key {
    path: PathBuf,
    key: LessSafeKey,
}

/// Why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    /// The file of the key.
    #[error("the key {path} cannot be read: {source}; restore it from a copy, or choose another file with `key FILE`", path = .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read it.
    #[error("the key {path} can be read by others: chmod 600 {path}", path = .0.display())]
    Open(PathBuf),
    /// It has another form.
    #[error("{path} is no key: it should have {digits} hexadecimal digits; restore it from a copy", path = .0.display(), digits = KEY_BYTES * 2)]
    NoKey(PathBuf),
    /// The store has encrypted passwords.
    #[error(
        "the password of subscriber {0} is encrypted, and there is no key: write `key FILE` with the file of the key"
    )]
    Needed(Name),
    /// It was encrypted with another one, or is damaged.
    #[error("{what} cannot be decrypted with the key {path}: restore the key that it was encrypted with", path = .path.display())]
    Wrong {
        /// Which secret.
        what: String,
        /// The file of the key.
        path: PathBuf,
    },
}

impl Secrets {
    /// Reads the key; it is made where the file is missing, unless records need the one that was there.
    ///
    /// # Errors
    /// It cannot be read or made, or is no key.
    pub(crate) fn open(path: Option<&Path>, records: &[Record]) -> Result<Secrets, SecretError> {
        let Some(path) = path else { return Ok(Secrets { key: None }) };
        let error = |source| SecretError::File { path: path.into(), source };
        let digits = match fs::read_to_string(path) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound && !records.iter().any(is_sealed) => {
                make_key(path).map_err(error)?
            }
            read => read.map_err(error)?,
        };
        let mode = fs::metadata(path).map_err(error)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(SecretError::Open(path.into()));
        }
        let no_key = || SecretError::NoKey(path.into());
        let bytes = bytes(digits.trim()).ok_or_else(no_key)?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| no_key())?;
        Ok(Secrets { key: Some(Key { path: path.into(), key: LessSafeKey::new(key) }) })
    }

    /// The record as it is written.
    pub(crate) fn seal(&self, mut record: Record) -> Record {
        if let (Some(key), Change::Subscriber(Subscriber { name, password: Some(password), .. })) =
            (&self.key, &mut record.change)
        {
            *password = Password::new(&key.seal(name.as_str(), password.bytes()));
        }
        record
    }

    /// Subscribers whose passwords are readable although there is a key, with encrypted ones.
    pub(crate) fn seal_readable(&self, records: &[Record]) -> Vec<Subscriber> {
        let is_readable = |record: &&Record| self.key.is_some() && has_password(record) && !is_sealed(record);
        let sealed = records.iter().filter(is_readable).map(|record| self.seal(record.clone()).change);
        let sealed: Vec<Subscriber> = sealed
            .filter_map(|change| match change {
                Change::Subscriber(subscriber) => Some(subscriber),
                _ => None,
            })
            .collect();
        if !sealed.is_empty() {
            info!("passwords that were readable are encrypted now: {}", sealed.len());
        }
        sealed
    }

    /// The record as it was before.
    ///
    /// # Errors
    /// Its password cannot be decrypted.
    pub(crate) fn unseal(&self, record: &mut Record) -> Result<(), SecretError> {
        let is_sealed = is_sealed(record);
        let Change::Subscriber(Subscriber { name, password: Some(password), .. }) = &mut record.change else {
            return Ok(());
        };
        if is_sealed {
            let key = self.key.as_ref().ok_or_else(|| SecretError::Needed(name.clone()))?;
            let what = format!("the password of subscriber {name}");
            *password = Password::new(&key.unseal(name.as_str(), password.bytes(), what)?);
        }
        Ok(())
    }

    /// The secret in a file. One that is readable although there is a key is encrypted now.
    ///
    /// # Errors
    /// The file cannot be read, or its secret cannot be decrypted.
    pub(crate) fn read_file(&self, path: &Path) -> anyhow::Result<Vec<u8>> {
        let text = fs::read_to_string(path)?;
        let text = text.trim_end();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let sealed = text.strip_prefix("0x").and_then(bytes).filter(|bytes| bytes.starts_with(SEALED));
        match (sealed, &self.key) {
            (Some(sealed), Some(key)) => {
                Ok(key.unseal(&name, &sealed, format!("the secret in {}", path.display()))?)
            }
            (Some(_), None) => anyhow::bail!(
                "it is encrypted, and there is no key: write `key FILE` with the file of the key"
            ),
            (None, Some(key)) => {
                key.replace(path, &name, text);
                Ok(text.as_bytes().to_vec())
            }
            (None, None) => Ok(text.as_bytes().to_vec()),
        }
    }
}

impl Key {
    fn seal(&self, name: &str, secret: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        let mut text = secret.to_vec();
        let is_random = SystemRandom::new().fill(&mut nonce).is_ok();
        let sealed = self.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name.as_bytes()),
            &mut text,
        );
        // A kernel without randomness has no TLS and no cookies either.
        assert!(is_random && sealed.is_ok(), "the kernel gives no random bytes");
        [SEALED, &nonce, &text].concat()
    }

    fn unseal(&self, name: &str, sealed: &[u8], what: String) -> Result<Vec<u8>, SecretError> {
        let wrong = || SecretError::Wrong { what, path: self.path.clone() };
        let parts = sealed.get(SEALED.len()..).and_then(|rest| rest.split_first_chunk());
        let Some((nonce, text)) = parts else { return Err(wrong()) };
        let (nonce, mut text) = (Nonce::assume_unique_for_key(*nonce), text.to_vec());
        match self.key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut text) {
            Ok(secret) => Ok(secret.to_vec()),
            Err(_) => Err(wrong()),
        }
    }

    /// Writes a file anew with its secret encrypted; where that is not allowed, it stays as it is.
    fn replace(&self, path: &Path, name: &str, secret: &str) {
        let text = format!("0x{}\n", digits(&self.seal(name, secret.as_bytes())));
        match weir_disk::replace(path, text.as_bytes(), 0o600) {
            Ok(()) => info!("the secret in {} is encrypted now", path.display()),
            Err(error) => {
                warn!("note: the secret in {} stays readable: it cannot be written: {error}", path.display());
            }
        }
    }
}

/// A new key in a new file.
fn make_key(path: &Path) -> io::Result<String> {
    let mut key = [0; KEY_BYTES];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    let text = digits(&key) + "\n";
    weir_disk::replace(path, text.as_bytes(), 0o600)?;
    info!("a key was made in {}: keep a copy of it, apart from the store", path.display());
    Ok(text)
}

fn has_password(record: &Record) -> bool {
    matches!(&record.change, Change::Subscriber(Subscriber { password: Some(_), .. }))
}

fn is_sealed(record: &Record) -> bool {
    let Change::Subscriber(subscriber) = &record.change else { return false };
    subscriber.password.as_ref().is_some_and(|password| password.bytes().starts_with(SEALED))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_testkit::Folder;

    fn record(name: &str, password: &str) -> Record {
        let text = format!("1 1 subscriber {name} login {name} plan basic password {password}");
        text.parse().expect("a record")
    }

    #[test]
    fn passwords_are_encrypted_for_their_subscriber_and_come_back() {
        let folder = Folder::new();
        let path = folder.join("key");
        let secrets = Secrets::open(Some(&path), &[]).expect("a new key");
        let (plain, mut sealed) = (record("anna", "secret"), secrets.seal(record("anna", "secret")));
        let text = sealed.to_string();
        assert!(!text.contains("secret") && text.contains("password 0x00"), "{text}");
        // As it is read from disk, with the key read again.
        let again = Secrets::open(Some(&path), &[sealed.clone()]).expect("the key");
        let mut read: Record = text.parse().expect("a record");
        again.unseal(&mut read).expect("the key fits");
        assert_eq!(read, plain);
        // Another subscriber, another key, no key.
        let stolen = text.replace("anna", "ben");
        let mut stolen: Record = stolen.parse().expect("a record");
        assert!(matches!(again.unseal(&mut stolen), Err(SecretError::Wrong { .. })));
        let other = Secrets::open(Some(&folder.join("other")), &[]).expect("a new key");
        assert!(matches!(other.unseal(&mut sealed.clone()), Err(SecretError::Wrong { .. })));
        let none = Secrets::open(None, &[]).expect("no key");
        assert!(matches!(none.unseal(&mut sealed), Err(SecretError::Needed(_))));
        assert_eq!(secrets.seal_readable(&[plain.clone(), record("ben", "other")]).len(), 2);
        assert_eq!(secrets.seal_readable(&[secrets.seal(plain.clone())]).len(), 0);
        assert_eq!(none.seal_readable(&[plain]).len(), 0);
    }

    #[test]
    fn a_key_is_for_its_owner_alone_and_is_not_made_anew_where_it_is_needed() {
        let folder = Folder::new();
        let path = folder.join("key");
        let sealed = Secrets::open(Some(&path), &[]).expect("a new key").seal(record("anna", "secret"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("it is ours");
        assert!(matches!(Secrets::open(Some(&path), &[]), Err(SecretError::Open(_))));
        fs::remove_file(&path).expect("it is ours");
        assert!(matches!(Secrets::open(Some(&path), &[sealed]), Err(SecretError::File { .. })));
        assert!(!path.exists());
        folder.file("key", "no key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        assert!(matches!(Secrets::open(Some(&path), &[]), Err(SecretError::NoKey(_))));
    }

    #[test]
    fn a_file_with_a_readable_secret_is_encrypted_and_read_again() {
        let folder = Folder::new();
        let path = folder.file("one.secret", "of both sides\n");
        let none = Secrets::open(None, &[]).expect("no key");
        assert_eq!(none.read_file(&path).expect("it is readable"), b"of both sides");
        let secrets = Secrets::open(Some(&folder.join("key")), &[]).expect("a new key");
        for _ in 0..2 {
            assert_eq!(secrets.read_file(&path).expect("the key fits"), b"of both sides");
            let text = fs::read_to_string(&path).expect("a text");
            assert!(text.starts_with("0x00") && !text.contains("both"), "{text}");
        }
        assert!(none.read_file(&path).is_err());
    }
}
