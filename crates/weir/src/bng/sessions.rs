//! `weir bng session`.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use weir_bng::Name;
use weir_bng::api::{Session, Sessions, SubscriberState};

use super::client::{Client, segment};
use super::write_json;
use crate::cli::{Listing, SessionCommand};

/// Records of a page.
const PAGE: usize = 10_000;

pub(super) fn run(command: &SessionCommand, out: &mut impl Write) -> Result<()> {
    match command {
        SessionCommand::List { listing } => list(listing, out),
        SessionCommand::Show { session, socket, json } => {
            let session = found(&Client::of(socket), session)?;
            if *json { write_json(&session, out) } else { show(&session, out) }
        }
        SessionCommand::Disconnect { session: None, socket, .. } => {
            Client::of(socket).delete("/v1/sessions")?;
            Ok(writeln!(out, "all sessions have ended")?)
        }
        SessionCommand::Disconnect { session: Some(session), socket, .. } => {
            let client = Client::of(socket);
            let session = found(&client, session)?;
            client.delete(&format!("/v1/sessions/{}", session.session))?;
            Ok(writeln!(out, "session {} of {} has ended", session.session, session.subscriber)?)
        }
    }
}

/// A session by its number, or that of a subscriber.
fn found(client: &Client, word: &str) -> Result<Session> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        return client.get(&format!("/v1/sessions/{word}"));
    }
    let name: Name = word.parse().map_err(anyhow::Error::msg)?;
    let state: SubscriberState = client.get(&format!("/v1/subscribers/{}", segment(name.as_str())))?;
    state
        .session
        .with_context(|| format!("{name} is not online: `weir bng why MAC` says why a device is not"))
}

fn list(listing: &Listing, out: &mut impl Write) -> Result<()> {
    let client = Client::of(&listing.socket);
    let (mut all, mut after, mut total) = (Vec::new(), None::<u64>, 0);
    let limit = listing.limit.unwrap_or(usize::MAX);
    loop {
        let most = PAGE.min(limit.saturating_sub(all.len()));
        if most == 0 {
            break;
        }
        let from = after.map(|session| format!("&after={session}")).unwrap_or_default();
        let page: Sessions = client.get(&format!("/v1/sessions?most={most}{from}"))?;
        total = page.total;
        all.extend(page.sessions);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if listing.json {
        return write_json(&Sessions { total, sessions: all, next: after }, out);
    }
    if all.is_empty() {
        writeln!(out, "no session")?;
    }
    let now = now_s();
    all.iter().try_for_each(|session| Ok(writeln!(out, "{}", line(session, now))?))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// `anna  ipoe  access1  02:00:00:00:00:01  100.64.0.2  up 12s  down 24.1MB  up 0.6MB`.
fn line(session: &Session, now_s: u64) -> String {
    let Session {
        subscriber,
        access,
        line,
        mac,
        address,
        start_s,
        down_bytes,
        up_bytes,
        grace,
        walled,
        brown_out,
        ..
    } = session;
    let brown_out = if *brown_out { "  brown-out: began without a RADIUS server" } else { "" };
    let walled = if *walled { "  walled" } else { "" };
    let grace = if *grace { "  grace: its port has no link" } else { "" };
    let prefix = session.prefix.as_ref().filter(|_| address.is_unspecified());
    let address = prefix.cloned().unwrap_or_else(|| address.to_string());
    let up = age(now_s.saturating_sub(*start_s));
    format!(
        "{subscriber}  {access}  {line}  {mac}  {address}  up {up}  down {}  up {}{walled}{grace}{brown_out}",
        size(*down_bytes),
        size(*up_bytes)
    )
}

fn show(session: &Session, out: &mut impl Write) -> Result<()> {
    let now = now_s();
    writeln!(out, "{}", line(session, now))?;
    writeln!(out, "session   {}", session.session)?;
    if let Some(relay) = session.relay {
        writeln!(out, "relay     {relay}")?;
    }
    if let Some(prefix) = &session.prefix {
        writeln!(out, "prefix    {prefix}")?;
    }
    for route in &session.routes {
        writeln!(out, "route     {route}")?;
    }
    if let (Some(id), Some(told)) = (&session.acct_session_id, &session.accounting) {
        writeln!(out, "account   {id} {told}")?;
    }
    let left = (session.granted_s + u64::from(session.lease_s)).saturating_sub(now);
    writeln!(out, "lease     {} left of {}", age(left), age(session.lease_s.into()))?;
    writeln!(out, "down      {} frames, {} bytes", session.down_frames, session.down_bytes)?;
    Ok(writeln!(out, "up        {} frames, {} bytes", session.up_frames, session.up_bytes)?)
}

/// `12s`, `5m12s`, `3h04m`, `2d05h`.
fn age(s: u64) -> String {
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// `0.0MB`, `24.1MB`, `1.3GB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.1}MB", bytes as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1}GB", bytes as f64 / 1e9),
        _ => format!("{:.1}TB", bytes as f64 / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_short() {
        let ages = [0, 59, 312, 11_045, 190_800].map(age);
        assert_eq!(ages, ["0s", "59s", "5m12s", "3h04m", "2d05h"]);
        let sizes = [0, 24_123_456, 1_340_000_000, 5_000_000_000_000].map(size);
        assert_eq!(sizes, ["0.0MB", "24.1MB", "1.3GB", "5.0TB"]);
    }
}
