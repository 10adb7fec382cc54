//! A client of a REST API on a Unix socket: one request, one answer.

use std::path::Path;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Longest body of an answer.
const LONGEST_ANSWER: usize = 1 << 30;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status of HTTP.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a request with a body of JSON, or with none if that is empty, and waits for the answer.
///
/// # Errors
/// No server listens at the socket, or it sends no HTTP.
pub fn request(socket: &Path, method: &str, target: &str, body: Vec<u8>) -> Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(exchange(socket, method, target, body))
}

async fn exchange(socket: &Path, method: &str, target: &str, body: Vec<u8>) -> Result<Answer> {
    let shown = socket.display();
    let stream =
        UnixStream::connect(socket).await.with_context(|| format!("no program answers at {shown}"))?;
    let failed = || format!("the program at {shown} did not answer");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.with_context(failed)?;
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes())?)
        .uri(target)
        .header(HOST, "weir")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let answering = async {
        let answer = sender.send_request(request).await.with_context(failed)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        match body {
            Ok(body) => Ok(Answer { status, body: body.to_bytes().into() }),
            Err(error) => bail!("the answer of the program at {shown} ended early: {error}"),
        }
    };
    // The connection is driven until the answer is there; where it fails, so does the answer.
    let mut connection = std::pin::pin!(connection);
    let mut answering = std::pin::pin!(answering);
    let mut is_open = true;
    std::future::poll_fn(|waking| {
        use std::future::Future;
        if is_open && connection.as_mut().poll(waking).is_ready() {
            is_open = false;
        }
        answering.as_mut().poll(waking)
    })
    .await
}
