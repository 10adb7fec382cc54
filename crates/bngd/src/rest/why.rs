//! Why a device has no session, and what it sends and gets now.

use std::fmt::Write;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, Query, State};
use weir_bng::api::{Frame, Traced, TracedFrame, Why};
use weir_bng::{Command, Direction, Line, Mac, TraceFrame, Watched, Whom};

use super::problem::Problem;
use crate::asks::{Asker, View};

/// Time between two looks for frames while a request waits, and how long it waits at most.
const TRACE_EVERY: Duration = Duration::from_millis(100);
const TRACE_MOST_S: u64 = 20;

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

/// Why the device that gives a name by PPP has no session.
pub(super) async fn why_login(
    State(asker): State<Asker>,
    Path(login): Path<String>,
) -> Result<Json<Why>, Problem> {
    let unknown = format!("no device has given the login {login}, and no subscriber has it");
    let look = move |view: &View<'_>| view.bng.why_login(&login).map(|found| why(view, found));
    asker.look(look).await?.map(Json).ok_or_else(|| Problem::not_found(unknown))
}

/// Follows a client: its frames behind a number, as soon as there are some.
async fn trace(asker: &Asker, whom: Whom, wanted: After) -> Result<Json<Traced>, Problem> {
    let After { after, wait_s } = wanted;
    let ends = Instant::now() + Duration::from_secs(wait_s.min(TRACE_MOST_S));
    loop {
        asker.command(Command::Watch(whom.clone())).await??;
        let of = whom.clone();
        let look = move |view: &View<'_>| {
            let one = |watched: Watched| TracedFrame {
                number: watched.number,
                line: watched.line.to_string(),
                mac: watched.mac.to_string(),
                frame: frame(view, &watched.frame),
            };
            view.bng.watched(&of, after).into_iter().map(one).collect::<Vec<_>>()
        };
        let frames = asker.look(look).await?;
        if let Some(last) = frames.last() {
            let next = last.number;
            return Ok(Json(Traced { frames, next }));
        }
        if Instant::now() >= ends {
            return Ok(Json(Traced { frames, next: after }));
        }
        tokio::time::sleep(TRACE_EVERY).await;
    }
}

/// Behind which frame.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    #[serde(default)]
    after: u64,
    /// How long the request waits for frames.
    #[serde(default = "usual_wait_s")]
    wait_s: u64,
}

fn usual_wait_s() -> u64 {
    5
}

/// Follows a device.
pub(super) async fn trace_mac(
    State(asker): State<Asker>,
    Path(text): Path<String>,
    Query(after): Query<After>,
) -> Result<Json<Traced>, Problem> {
    trace(&asker, Whom::Mac(text.parse().map_err(Problem::wrong)?), after).await
}

/// Follows the devices of a line.
pub(super) async fn trace_line(
    State(asker): State<Asker>,
    Path(text): Path<String>,
    Query(after): Query<After>,
) -> Result<Json<Traced>, Problem> {
    trace(&asker, Whom::Line(text.parse().map_err(Problem::wrong)?), after).await
}

/// Follows the device that gives a name by PPP.
pub(super) async fn trace_login(
    State(asker): State<Asker>,
    Path(login): Path<String>,
    Query(after): Query<After>,
) -> Result<Json<Traced>, Problem> {
    trace(&asker, Whom::Login(login), after).await
}

/// The clock on the wall at a time of the other clock, ns since 1970.
fn at_ns(view: &View<'_>, at: Duration) -> u64 {
    let ago = view.now.at.saturating_sub(at);
    view.wall.saturating_sub(ago).as_nanos() as u64
}

fn frame(view: &View<'_>, frame: &TraceFrame) -> Frame {
    Frame {
        at_ns: at_ns(view, frame.at),
        from_subscriber: frame.direction == Direction::FromSubscriber,
        bytes: hex(&frame.bytes),
        text: weir_bng::decode(&frame.bytes),
    }
}

fn why(view: &View<'_>, why: weir_bng::Why) -> Why {
    let (line, mac) = why.device.as_ref().map(|(line, mac)| (line.to_string(), mac.to_string())).unzip();
    Why {
        subscriber: why.subscriber.map(|name| name.to_string()),
        step: why.step.map(|step| step.to_string()),
        reason: why.reason,
        mac,
        line,
        login: why.login,
        at_ns: why.at.map(|at| at_ns(view, at)),
        drops: why.drops.iter().map(|(reason, count)| (reason.name().to_string(), *count)).collect(),
        frames: why.frames.iter().map(|one| frame(view, one)).collect(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes all.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
