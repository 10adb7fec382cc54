//! `weir bng`: what operators ask of the program that controls subscribers, by its REST API. `run` and `check` start that program.

mod client;
mod program;
mod radius;
mod sessions;
mod subscribers;
mod trace;
mod why;

use std::io::Write;

use anyhow::Result;
use serde::Serialize;
use weir_bng::api;

use crate::cli::BngCommand;
use crate::outcome::Outcome;
use client::Client;

pub(crate) fn run(command: &BngCommand, out: &mut impl Write) -> Result<Outcome> {
    match command {
        BngCommand::Check { file } => return program::check(file),
        BngCommand::Run(arguments) => return program::run(arguments),
        BngCommand::Status { socket, json } => {
            let state: api::State = Client::of(socket).get("/v1/status")?;
            if *json {
                write_json(&state, out)?
            } else {
                status(&state, &Client::of(socket), out)?
            }
            return Ok(if state.ready { Outcome::Done } else { Outcome::Unfit });
        }
        BngCommand::Subscriber(command) => subscribers::run(command, out)?,
        BngCommand::Session(command) => sessions::run(command, out)?,
        BngCommand::Radius { socket, json } => radius::run(socket, *json, out)?,
        BngCommand::Why(arguments) => why::run(arguments, out)?,
        BngCommand::Trace(arguments) => trace::run(arguments, out)?,
    }
    Ok(Outcome::Done)
}

fn write_json(document: &impl Serialize, out: &mut impl Write) -> Result<()> {
    serde_json::to_writer(&mut *out, document)?;
    Ok(writeln!(out)?)
}

fn status(state: &api::State, client: &Client, out: &mut impl Write) -> Result<()> {
    match &state.waits_for[..] {
        [] => writeln!(out, "ready: sessions {}, subscribers {}", state.sessions, state.subscribers)?,
        waits_for => writeln!(out, "not ready: {}", waits_for.join("; "))?,
    }
    let api::Pools { pools } = client.get("/v1/pools")?;
    for api::Pool { pool, router, size, used } in pools {
        writeln!(out, "pool {pool}  router {router}  used {used} of {size}")?;
    }
    let frames = &state.frames;
    writeln!(
        out,
        "frames from devices  received {}  handled {}",
        frames.received,
        frames.answered + frames.accepted
    )?;
    for (reason, count) in &frames.drops {
        writeln!(out, "  dropped {reason:24} {count}")?;
    }
    Ok(())
}
