//! `weir bng radius`.

use std::io::Write;

use anyhow::Result;
use weir_bng::DynauthCounts;
use weir_bng::api::{Accounting, Radius, RadiusServer};
use weir_bng::radius::client::Counts;

use super::client::Client;
use super::write_json;
use crate::cli::BngSocket;

pub(super) fn run(socket: &BngSocket, json: bool, out: &mut impl Write) -> Result<()> {
    let radius: Radius = Client::of(socket).get("/v1/radius")?;
    if json { write_json(&radius, out) } else { show(&radius, out) }
}

fn show(radius: &Radius, out: &mut impl Write) -> Result<()> {
    if radius.servers.is_empty() {
        writeln!(out, "no RADIUS server is configured: write `radius NAME ADDRESS:PORT secret-file FILE`")?;
    }
    radius.servers.iter().try_for_each(|one| writeln!(out, "{}", line(one)))?;
    let Accounting { waiting, ended_sessions, starts, interims, stops, dropped } = radius.accounting;
    write!(out, "accounting  starts {starts}  interims {interims}  stops {stops}  waiting {waiting}")?;
    writeln!(out, "  ended sessions that wait {ended_sessions}  dropped {dropped}")?;
    let DynauthCounts { acknowledged, refused, repeated, .. } = radius.dynamic_authorization;
    let DynauthCounts { unknown_source, distrusted, outside_window, too_many, .. } =
        radius.dynamic_authorization;
    write!(out, "CoA and Disconnect  done {acknowledged}  refused {refused}  repeated {repeated}")?;
    write!(out, "  unknown source {unknown_source}  distrusted {distrusted}")?;
    Ok(writeln!(out, "  outside window {outside_window}  too many {too_many}")?)
}

/// `one  accounting  alive  requests 7  repeated 0  answers 7`, and what was wrong with answers.
fn line(one: &RadiusServer) -> String {
    let RadiusServer { server, service, alive, counts } = one;
    let Counts { requests, repeated, answers, late, forged, without_authenticator, malformed } = *counts;
    let alive = if *alive { "alive" } else { "dead" };
    let mut line =
        format!("{server}  {service}  {alive}  requests {requests}  repeated {repeated}  answers {answers}");
    for (what, count) in [
        ("late", late),
        ("forged", forged),
        ("without Message-Authenticator", without_authenticator),
        ("malformed", malformed),
    ] {
        if count > 0 {
            line = format!("{line}  {what} {count}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_wrong_is_named_if_there_is_any() {
        let mut one = RadiusServer {
            server: "one".into(),
            service: "access".into(),
            alive: true,
            counts: Counts { requests: 7, repeated: 1, answers: 6, ..Counts::default() },
        };
        assert_eq!(line(&one), "one  access  alive  requests 7  repeated 1  answers 6");
        (one.counts.forged, one.alive) = (2, false);
        assert_eq!(line(&one), "one  access  dead  requests 7  repeated 1  answers 6  forged 2");
    }
}
