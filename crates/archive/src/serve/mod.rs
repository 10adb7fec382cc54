//! The archive in a browser, read-only: lists with filters, reports, comparisons and trends.
//!
//! ```text
//! GET /?plan=quick&host=a   the newest runs      GET /runs/7              the report of a run
//! GET /trend?plan=quick     a plan over time     GET /compare?base=3&run=7
//! GET, POST /login          where tokens are asked for
//! ```
//! With tokens, each request has one in its header `Authorization: Bearer` or in the cookie that the login sets.

mod pages;
mod report;
mod token;

use std::net::{SocketAddr, TcpListener};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use weir_record::record::RunId;
use weir_record::store::{Archive, StoreError};
use weir_report::compare::{Across, compare};
use weir_report::trend;

use crate::archive::PostgresArchive;
use crate::browse::Filter;
use crate::server::Server;
pub use token::Tokens;

/// Pages need their own styles and drawings, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; form-action 'self'";

/// Why there is no page.
struct Refused(StatusCode, String);

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Refused {
        let status = match error {
            StoreError::NoRun { .. } => StatusCode::NOT_FOUND,
            _ => StatusCode::BAD_GATEWAY,
        };
        Refused(status, error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let heading = match self.0 {
            StatusCode::NOT_FOUND => "There is no such page",
            StatusCode::BAD_GATEWAY => "The archive does not answer",
            _ => "This page cannot be made",
        };
        (self.0, Html(pages::refused(heading, &self.1))).into_response()
    }
}

type Page = Result<Html<String>, Refused>;

/// Serves until the process ends. Without tokens only this machine may ask.
///
/// # Errors
/// The address cannot be listened to; it is reached from other machines and there are no tokens.
pub fn serve(server: &Server, listen: SocketAddr, tokens: Tokens) -> Result<()> {
    ensure!(
        listen.ip().is_loopback() || !tokens.is_empty(),
        "other machines reach {listen}: give a file of tokens with --tokens"
    );
    // A wrong address is reported before the first request.
    PostgresArchive::open_to_read(server)?;
    let listener = TcpListener::bind(listen).with_context(|| format!("cannot listen to {listen}"))?;
    listener.set_nonblocking(true)?;
    println!("http://{}/", listener.local_addr()?);
    let router = router(server.clone(), tokens);
    server.wait(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, router).await
    })?;
    Ok(())
}

fn router(server: Server, tokens: Tokens) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/runs/{number}", get(run))
        .route("/compare", get(compared))
        .route("/trend", get(of_plan))
        .with_state(server)
        .layer(from_fn_with_state(tokens.clone(), token::check))
        .merge(token::router(tokens))
        .fallback(async || Refused(StatusCode::NOT_FOUND, "there is no such page: begin with /".into()))
        .layer(axum::middleware::map_response(async |mut response: Response| {
            let headers = response.headers_mut();
            headers.insert(CONTENT_SECURITY_POLICY, axum::http::HeaderValue::from_static(POLICY));
            headers.insert(X_CONTENT_TYPE_OPTIONS, axum::http::HeaderValue::from_static("nosniff"));
            response
        }))
}

/// Asks the archive in a thread that may wait, and makes a page of what it says.
async fn page(
    server: Server,
    make: impl FnOnce(&PostgresArchive) -> Result<String, Refused> + Send + 'static,
) -> Page {
    let made = tokio::task::spawn_blocking(move || make(&PostgresArchive::open_to_read(&server)?));
    made.await
        .unwrap_or_else(|error| Err(Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())))
        .map(Html)
}

async fn list(State(server): State<Server>, Query(filter): Query<Filter>) -> Page {
    page(server, move |archive| {
        let (found, more) = archive.find(&filter)?;
        let values = filter.columns().map(|(column, _)| archive.values(column));
        let values = values.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(pages::list(&found, &filter, &values, more))
    })
    .await
}

async fn run(State(server): State<Server>, Path(number): Path<i64>) -> Page {
    page(server, move |archive| {
        let data = archive.run_data(archive.numbered(number)?)?;
        Ok(pages::with_way_back(&report::html(&[data])?))
    })
    .await
}

/// Which runs are compared.
#[derive(Debug, Deserialize)]
struct Sides {
    base: i64,
    run: i64,
}

async fn compared(State(server): State<Server>, Query(Sides { base, run }): Query<Sides>) -> Page {
    page(server, move |archive| {
        let data = |id: RunId| archive.run_data(id);
        let sides = [data(archive.numbered(base)?)?, data(archive.numbered(run)?)?];
        // What differs is shown before the ratios.
        let compared = compare(&sides[0], &sides[1], &[Across::Machine, Across::Kernel]);
        Ok(pages::comparison(&compared, &report::html(&sides)?))
    })
    .await
}

/// Which plan.
#[derive(Debug, Deserialize)]
struct OfPlan {
    plan: String,
}

async fn of_plan(State(server): State<Server>, Query(OfPlan { plan }): Query<OfPlan>) -> Page {
    page(server, move |archive| {
        let runs = archive.of_plan(&plan)?;
        let none = || Refused(StatusCode::NOT_FOUND, format!("there is no complete run of `{plan}`"));
        let trend = trend::trend(&plan, &runs, &trend::Filter::default()).ok_or_else(none)?;
        Ok(pages::with_way_back(&trend::html(&trend)))
    })
    .await
}
