//! Sessions.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use weir_bng::api::{Session, Sessions};
use weir_bng::{Bng, Command, CommandError, SessionId};

use super::Page;
use super::problem::Problem;
use crate::asks::Asker;

fn number(text: &str) -> Result<SessionId, Problem> {
    let number = text.parse().map(SessionId);
    number.map_err(|_| {
        Problem::wrong(format!("`{text}` is no number of a session: list sessions to see theirs"))
    })
}

/// A session, and whether it began without a RADIUS server.
fn shown(bng: &Bng, session: &weir_bng::Session) -> Session {
    Session { brown_out: bng.is_brown_out(session), ..Session::from(session) }
}

/// A page of all, in the order in which they began.
pub(super) async fn list(
    State(asker): State<Asker>,
    Query(page): Query<Page>,
) -> Result<Json<Sessions>, Problem> {
    let (most, after) = (page.most(), page.after.as_deref().map(number).transpose()?);
    let look = move |bng: &Bng| {
        let behind = bng.sessions_after(after.unwrap_or(SessionId(0)));
        let mut sessions: Vec<Session> = behind.take(most + 1).map(|session| shown(bng, session)).collect();
        let has_more = sessions.len() > most;
        sessions.truncate(most);
        let next = sessions.last().filter(|_| has_more).map(|last| last.session);
        Sessions { total: bng.sizes().sessions, sessions, next }
    };
    Ok(Json(asker.look(move |view| look(view.bng)).await?))
}

/// One.
pub(super) async fn show(
    State(asker): State<Asker>,
    Path(text): Path<String>,
) -> Result<Json<Session>, Problem> {
    let session = number(&text)?;
    let found = asker.look(move |view| view.bng.session(session).map(|found| shown(view.bng, found))).await?;
    Ok(Json(found.ok_or(CommandError::SessionUnknown(session))?))
}

/// Ends one; its client may begin another one.
pub(super) async fn disconnect(
    State(asker): State<Asker>,
    Path(text): Path<String>,
) -> Result<StatusCode, Problem> {
    asker.command(Command::Disconnect(number(&text)?)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends all; their clients may begin others.
pub(super) async fn disconnect_all(State(asker): State<Asker>) -> Result<StatusCode, Problem> {
    asker.command(Command::DisconnectAll).await??;
    Ok(StatusCode::NO_CONTENT)
}
