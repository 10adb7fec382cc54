//! The client of the REST API.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_bng::api::Problem;
use weir_service::http;

use crate::cli::BngSocket;

/// Status of HTTP.
const NOT_FOUND: u16 = 404;

/// There is no resource of this name.
#[derive(Debug)]
struct NotFound(String);

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}

/// A client; each request has a separate connection.
pub(super) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(super) fn of(socket: &BngSocket) -> Client {
        Client { socket: socket.found() }
    }

    /// Reads a resource.
    pub(super) fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T> {
        self.request("GET", target, Vec::new())
    }

    /// Reads a resource; `None`: there is none of this name.
    pub(super) fn find<T: DeserializeOwned>(&self, target: &str) -> Result<Option<T>> {
        match self.answer("GET", target, Vec::new()) {
            Ok(body) => Ok(Some(self.read(&body)?)),
            Err(error) if error.is::<NotFound>() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a document, and reads the answer.
    pub(super) fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        document: &impl Serialize,
    ) -> Result<T> {
        self.request(method, target, serde_json::to_vec(document)?)
    }

    /// Removes a resource.
    pub(super) fn delete(&self, target: &str) -> Result<()> {
        self.answer("DELETE", target, Vec::new()).map(drop)
    }

    fn request<T: DeserializeOwned>(&self, method: &str, target: &str, body: Vec<u8>) -> Result<T> {
        let body = self.answer(method, target, body)?;
        self.read(&body)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        serde_json::from_slice(body).with_context(|| {
            format!("the program at {} is of another version: use that of this one", self.socket.display())
        })
    }

    fn answer(&self, method: &str, target: &str, body: Vec<u8>) -> Result<Vec<u8>> {
        let answer = http::request(&self.socket, method, target, body)
            .context("start it with `weir bng run FILE`, or set --socket")?;
        if (200..300).contains(&answer.status) {
            return Ok(answer.body);
        }
        match serde_json::from_slice::<Problem>(&answer.body) {
            Ok(problem) if answer.status == NOT_FOUND => Err(NotFound(problem.detail).into()),
            Ok(problem) => bail!("{}", problem.detail),
            Err(_) => {
                bail!("the program at {} answered with status {}", self.socket.display(), answer.status)
            }
        }
    }
}

/// A word as a part of the path of an address (RFC 3986, section 2.1).
pub(super) fn segment(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    let one = |byte: u8| {
        if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    word.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_addresses() {
        assert_eq!(segment("ben@isp/1"), "ben%40isp%2F1");
        assert_eq!(segment("é"), "%C3%A9");
    }
}
