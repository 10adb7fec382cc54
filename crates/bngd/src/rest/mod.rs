//! The REST API, on a Unix socket: JSON, and problems by RFC 9457.
//!
//! ```text
//! GET    /v1/status                     GET  /v1/pools
//! GET    /v1/subscribers                POST /v1/subscribers        one, or a list of up to some 300,000
//! GET    /v1/subscribers/NAME           PUT, PATCH, DELETE
//! GET    /v1/sessions                   DELETE: all sessions end
//! GET    /v1/sessions/NUMBER            DELETE: the session ends
//! GET    /v1/radius
//! GET    /v1/why/mac/MAC                GET  /v1/why/line/LINE      with the last frames
//! ```
//! One thread serves all clients. It asks the main loop, and never waits for it longer than a turn takes.

mod captive;
mod problem;
mod radius;
mod sessions;
mod status;
mod subscribers;
mod why;

use std::os::unix::net::UnixListener;

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use tracing::error;

use crate::asks::Asker;
pub(crate) use captive::start as start_captive;
use problem::Problem;
pub(crate) use radius::accounting;

/// Longest body of a request.
const LONGEST_BODY: usize = 64 << 20;
/// Records of a page, if the request does not say, and at most.
const USUAL: usize = 1000;
const MOST: usize = 10_000;

/// Which page of a table.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    /// `next` of the page before.
    after: Option<String>,
    /// Records at most.
    most: Option<usize>,
}

impl Page {
    fn most(&self) -> usize {
        self.most.unwrap_or(USUAL).clamp(1, MOST)
    }
}

fn router(asker: Asker) -> Router {
    Router::new()
        .route("/v1/status", get(status::status))
        .route("/v1/pools", get(status::pools))
        .route("/v1/why/mac/{mac}", get(why::why_mac))
        .route("/v1/why/line/{line}", get(why::why_line))
        .route("/v1/why/login/{login}", get(why::why_login))
        .route("/v1/trace/mac/{mac}", get(why::trace_mac))
        .route("/v1/trace/line/{line}", get(why::trace_line))
        .route("/v1/trace/login/{login}", get(why::trace_login))
        .route("/v1/subscribers", get(subscribers::list).post(subscribers::add))
        .route(
            "/v1/subscribers/{name}",
            get(subscribers::show)
                .put(subscribers::change)
                .patch(subscribers::patch)
                .delete(subscribers::remove),
        )
        .route("/v1/radius", get(radius::radius))
        .route("/v1/sessions", get(sessions::list).delete(sessions::disconnect_all))
        .route("/v1/sessions/{session}", get(sessions::show).delete(sessions::disconnect))
        .fallback(async || {
            Problem::not_found("there is no such resource: see /v1/status, /v1/subscribers, /v1/sessions")
        })
        .method_not_allowed_fallback(async || Problem::method())
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .with_state(asker)
}

/// Starts the server in a thread that ends with the process.
///
/// # Errors
/// There is no thread, or no descriptor left.
pub(crate) fn start(listener: UnixListener, asker: Asker) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    listener.set_nonblocking(true)?;
    let listener = {
        let _context = runtime.enter();
        tokio::net::UnixListener::from_std(listener)?
    };
    let serve = move || {
        if let Err(error) = runtime.block_on(async { axum::serve(listener, router(asker)).await }) {
            error!(%error, "the REST server has ended: {error}");
        }
    };
    std::thread::Builder::new().name("rest".into()).spawn(serve).context("cannot start the REST server")?;
    Ok(())
}
