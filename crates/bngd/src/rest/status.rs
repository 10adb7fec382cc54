//! How the program is, and its pools.

use axum::Json;
use axum::extract::State;
use weir_bng::api::{self, Frames, Pool, Pools};

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
