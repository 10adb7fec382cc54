//! The captive-portal API (RFC 8908): a device asks whether it is in the walled garden, and which page to visit.
//!
//! ```text
//! GET any path > source address > session > subscriber > {"captive": true, "user-portal-url": "https://..."}
//! ```
//! It speaks HTTP. Devices ask by HTTPS alone (RFC 8908, section 4.1), so a proxy on this machine stands in front of it, and says in
//! `X-Forwarded-For` who asks; of others this header is not believed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};
use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tracing::error;
use weir_bng::Status;
use weir_bng::api::Captive;

use super::problem::Problem;
use crate::asks::{Asker, View};

/// Header in which a proxy says who asks.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Starts the server in a thread that ends with the process.
///
/// # Errors
/// The address cannot be used, or there is no thread.
pub(crate) fn start(at: SocketAddr, asker: Asker) -> Result<()> {
    let listener = TcpListener::bind(at)
        .with_context(|| format!("cannot answer at {at}: choose another address for `captive ... at`"))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let listener = {
        let _context = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let router = Router::new().fallback(get(captive)).with_state(asker);
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let serve = move || {
        if let Err(error) = runtime.block_on(async { axum::serve(listener, service).await }) {
            error!(%error, "the captive-portal API has ended: {error}");
        }
    };
    std::thread::Builder::new()
        .name("captive".into())
        .spawn(serve)
        .context("cannot start the captive-portal API")?;
    Ok(())
}

/// Whether the device that asks is in the walled garden.
async fn captive(
    State(asker): State<Asker>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let client = client(peer.ip().to_canonical(), &headers);
    let IpAddr::V4(address) = client else { return Err(unknown(client)) };
    let found = asker.look(move |view| state(view, address)).await?.ok_or_else(|| unknown(client))?;
    let body = serde_json::to_vec(&found).unwrap_or_default();
    // It changes with the state of the subscriber.
    let headers =
        [(header::CONTENT_TYPE, "application/captive+json"), (header::CACHE_CONTROL, "private, no-store")];
    Ok((StatusCode::OK, headers, body).into_response())
}

fn unknown(client: IpAddr) -> Problem {
    Problem::not_found(format!("no session has the address {client}: ask from the device of a subscriber"))
}

/// The address of the device. A proxy puts the address that it sees behind the others.
fn client(peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let said =
        headers.get(FORWARDED_FOR).filter(|_| peer.is_loopback()).and_then(|value| value.to_str().ok());
    let last = said.and_then(|list| list.rsplit(',').next()).and_then(|text| text.trim().parse().ok());
    last.unwrap_or(peer)
}

fn state(view: &View<'_>, address: Ipv4Addr) -> Option<Captive> {
    let (subscriber, _) = view.bng.session_at(address)?;
    let captive = subscriber.status == Status::Walled;
    let user_portal_url = view.bng.portal().filter(|_| captive).map(String::from);
    Some(Captive { captive, user_portal_url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_believed_on_this_machine_alone() {
        let mut headers = HeaderMap::new();
        headers.insert(FORWARDED_FOR, "198.51.100.7, 100.64.0.2".parse().unwrap());
        let [local, far]: [IpAddr; 2] = ["127.0.0.1", "100.64.0.9"].map(|text| text.parse().unwrap());
        assert_eq!(client(local, &headers), "100.64.0.2".parse::<IpAddr>().unwrap());
        assert_eq!((client(far, &headers), client(local, &HeaderMap::new())), (far, local));
    }
}
