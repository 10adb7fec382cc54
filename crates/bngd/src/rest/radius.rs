//! RADIUS: its servers, accounting, CoA and Disconnect.

use axum::Json;
use axum::extract::State;
use weir_bng::api::{Accounting, Radius, RadiusServer};
use weir_bng::radius::client::Counts;
use weir_bng::{AccountingCounts, Bng};

use super::problem::Problem;
use crate::asks::Asker;

/// All of it.
pub(super) async fn radius(State(asker): State<Asker>) -> Result<Json<Radius>, Problem> {
    Ok(Json(asker.look(|view| document(view.bng)).await?))
}

fn document(bng: &Bng) -> Radius {
    let access = bng.radius_counts().map(|(name, counts, alive)| server("access", name, counts, alive));
    let accounting =
        bng.accounting_server_counts().map(|(name, counts, alive)| server("accounting", name, counts, alive));
    Radius {
        servers: access.chain(accounting).collect(),
        accounting: self::accounting(bng),
        dynamic_authorization: bng.dynauth_counts(),
    }
}

fn server(service: &str, server: &str, counts: Counts, alive: bool) -> RadiusServer {
    RadiusServer { server: server.into(), service: service.into(), alive, counts }
}

/// What servers were told of sessions.
pub(crate) fn accounting(bng: &Bng) -> Accounting {
    let AccountingCounts { answered: [starts, interims, stops], dropped } = bng.accounting_counts();
    let (waiting, ended_sessions) = (bng.accounting_waits(), bng.unaccounted().count());
    Accounting { waiting, ended_sessions, starts, interims, stops, dropped }
}
