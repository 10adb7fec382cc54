//! Who may read: tokens of a file, in a header or in the cookie that the login sets.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::{Form, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::pages;

/// Letters of a token at least.
const SHORTEST: usize = 16;
const NAME: &str = "weir_token";

/// Tokens, each of which lets its owner read. Without any, every request may read.
#[derive(Clone, Default)]
pub struct Tokens(Arc<Vec<String>>);

impl Tokens {
    /// Those of a file, one in a line; empty lines and those that begin with `#` are left out.
    ///
    /// # Errors
    /// The file cannot be read, has none, or has one that is too short.
    pub fn read(path: &Path) -> Result<Tokens> {
        let name = path.display();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read the tokens of {name}"))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let tokens: Vec<String> = lines.map(String::from).collect();
        ensure!(!tokens.is_empty(), "{name} has no token: write one in each line");
        let is_token = |token: &String| {
            token.len() >= SHORTEST
                && token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        ensure!(
            tokens.iter().all(is_token),
            "{name} has a token that is too short or has other characters: use {SHORTEST} or more of A-Z, a-z, 0-9, - and _"
        );
        Ok(Tokens(Arc::new(tokens)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, token: &str) -> bool {
        self.0.iter().any(|own| is_same(own, token))
    }

    fn are_in(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let bearer = text(AUTHORIZATION).strip_prefix("Bearer ").unwrap_or_default();
        let cookies = text(COOKIE).split(';').filter_map(|cookie| cookie.trim().split_once('='));
        self.has(bearer) || cookies.filter(|(name, _)| *name == NAME).any(|(_, token)| self.has(token))
    }
}

/// Takes as long for each text of the same length.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Lets requests with a token pass; others see the login.
pub(super) async fn check(State(tokens): State<Tokens>, request: Request, next: Next) -> Response {
    if tokens.is_empty() || tokens.are_in(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, Html(pages::login("This archive needs a token."))).into_response()
}

#[derive(Debug, Deserialize)]
struct Login {
    token: String,
}

pub(super) fn router(tokens: Tokens) -> Router {
    let ask = async || Html(pages::login("This archive needs a token."));
    Router::new().route("/login", get(ask).post(login)).with_state(tokens)
}

async fn login(State(tokens): State<Tokens>, Form(Login { token }): Form<Login>) -> Response {
    if !tokens.has(&token) {
        return (StatusCode::UNAUTHORIZED, Html(pages::login("This token is not known."))).into_response();
    }
    let cookie = format!("{NAME}={token}; Path=/; HttpOnly; SameSite=Strict");
    ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_token_is_in_a_header_or_a_cookie() {
        let tokens = Tokens(Arc::new(vec!["0123456789abcdef".into()]));
        let has = |name, value| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            tokens.are_in(&headers)
        };
        assert!(has(AUTHORIZATION, "Bearer 0123456789abcdef"));
        assert!(has(COOKIE, "a=b; weir_token=0123456789abcdef"));
        for (name, wrong) in [
            (AUTHORIZATION, "Bearer 0123456789abcde"),
            (AUTHORIZATION, "Bearer "),
            (AUTHORIZATION, "Basic 0123456789abcdef"),
            (COOKIE, "token=0123456789abcdef"),
            (COOKIE, "weir_token=0123456789abcdeX"),
        ] {
            assert!(!has(name, wrong), "{wrong}");
        }
    }

    #[test]
    fn tokens_that_can_be_guessed_are_refused() {
        let folder = weir_testkit::Folder::new();
        let read = |text: &str| Tokens::read(&folder.file("tokens", text));
        assert!(!read("# lab\n0123456789abcdef\n").unwrap().is_empty());
        for (text, why) in [
            ("# none\n", "has no token"),
            ("secret\n", "too short"),
            ("0123456789abcdef;x=y\n", "other characters"),
        ] {
            let Err(error) = read(text) else { panic!("{text} is refused") };
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
