//! Errors as RFC 9457 has them, and bodies whose errors are such.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use weir_bng::{CommandError, api};

use crate::asks::Unanswered;

/// Why a request was not carried out.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into() }
    }

    pub(super) fn wrong(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn method() -> Problem {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "the resource has not this method: see the header Allow of the answer",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default().to_string();
        let problem = api::Problem { title, status: self.status.as_u16(), detail: self.detail };
        let mut response = (self.status, Json(problem)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Problem {
        let status = match error {
            CommandError::SubscriberUnknown(_) | CommandError::SessionUnknown(_) => StatusCode::NOT_FOUND,
            CommandError::SubscriberExists(_)
            | CommandError::KeyInUse(..)
            | CommandError::AddressInUse(..)
            | CommandError::PublicAddressInUse(..)
            | CommandError::PrefixInUse(..)
            | CommandError::RouteInUse(..)
            | CommandError::PlanInUse(..) => StatusCode::CONFLICT,
            CommandError::NotStored => StatusCode::INSUFFICIENT_STORAGE,
            CommandError::AddressUnusable(_)
            | CommandError::AddressOfRouter(_)
            | CommandError::PrefixOfRouter(_)
            | CommandError::RouteTwice(..)
            | CommandError::RouteOfPool(..)
            | CommandError::RouteOfNode(..)
            | CommandError::PoolUnknown(_)
            | CommandError::PlanUnknown(_)
            | CommandError::Configuration(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Problem::new(status, error.to_string())
    }
}

impl From<Unanswered> for Problem {
    fn from(error: Unanswered) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

/// The body of a request, from JSON.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Problem> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        let read = serde_json::from_slice(&bytes);
        read.map(Body).map_err(|error| Problem::wrong(format!("the body is not what is expected: {error}")))
    }
}
