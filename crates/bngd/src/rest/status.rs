//! How the program is, its pools, and why a device has no session.

use std::fmt::Write;

use axum::Json;
use axum::extract::{Path, State};
use weir_bng::api::{Frame, Frames, Pool, Pools, Why};
use weir_bng::{Direction, Line, Mac, TraceFrame, api};

use super::problem::Problem;
use crate::asks::{Asker, View};

/// How the program is.
pub(super) async fn status(State(asker): State<Asker>) -> Result<Json<api::State>, Problem> {
    Ok(Json(asker.look(state).await?))
}

fn state(view: &View<'_>) -> api::State {
    let (counts, sizes) = (view.bng.counts(), view.bng.sizes());
    let drops = counts.drops.iter().map(|(reason, frames)| (reason.name().to_string(), frames));
    api::State {
        weir: env!("CARGO_PKG_VERSION").into(),
        ready: view.waits_for.is_empty(),
        waits_for: view.waits_for.to_vec(),
        revision: view.bng.revision(),
        subscribers: sizes.subscribers,
        sessions: sizes.sessions,
        frames: Frames {
            received: counts.received,
            answered: counts.answered,
            accepted: counts.accepted,
            drops: drops.collect(),
        },
    }
}

/// The pools, in the order in which they are used.
pub(super) async fn pools(State(asker): State<Asker>) -> Result<Json<Pools>, Problem> {
    let look = |view: &View<'_>| {
        let pools = view.bng.pools().into_iter().map(|(pool, used)| Pool {
            pool: pool.name.to_string(),
            router: format!("{}/{}", pool.router, pool.prefix_len),
            size: pool.size(),
            used,
        });
        let prefixes = view.bng.prefix_pools().into_iter().map(|(pool, used)| Pool {
            pool: pool.name.to_string(),
            router: format!("{}/{}", pool.router, pool.router_len),
            size: pool.size(),
            used,
        });
        Pools { pools: pools.chain(prefixes).collect() }
    };
    Ok(Json(asker.look(look).await?))
}

/// Why a device has no session.
pub(super) async fn why_mac(
    State(asker): State<Asker>,
    Path(text): Path<String>,
) -> Result<Json<Why>, Problem> {
    let mac: Mac = text.parse().map_err(Problem::wrong)?;
    Ok(Json(asker.look(move |view| why(view, view.bng.why_mac(mac))).await?))
}

/// Why the device of a line that was heard last has no session.
pub(super) async fn why_line(
    State(asker): State<Asker>,
    Path(text): Path<String>,
) -> Result<Json<Why>, Problem> {
    let line: Line = text.parse().map_err(Problem::wrong)?;
    Ok(Json(asker.look(move |view| why(view, view.bng.why_line(&line))).await?))
}

fn why(view: &View<'_>, why: weir_bng::Why) -> Why {
    let frame = |frame: TraceFrame| {
        let ago = view.now.at.saturating_sub(frame.at);
        Frame {
            at_ns: (view.wall.saturating_sub(ago)).as_nanos() as u64,
            from_subscriber: frame.direction == Direction::FromSubscriber,
            bytes: hex(&frame.bytes),
        }
    };
    Why {
        subscriber: why.subscriber.map(|name| name.to_string()),
        step: why.step.map(|step| step.to_string()),
        reason: why.reason,
        frames: why.frames.into_iter().map(frame).collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes all.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
