//! Subscribers.

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use weir_bng::api::{Added, Refused, Session, Subscriber, SubscriberPatch, SubscriberState, Subscribers};
use weir_bng::{Bng, Command, CommandError, Name};

use super::Page;
use super::problem::{Body, Problem};
use crate::asks::Asker;

/// Most errors that the answer to a list has.
const MOST_ERRORS: usize = 100;

/// One subscriber or many.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Posted {
    Many(Vec<Subscriber>),
    One(Box<Subscriber>),
}

fn name(text: &str) -> Result<Name, Problem> {
    text.parse().map_err(Problem::wrong)
}

fn found(bng: &Bng, name: &Name) -> Option<SubscriberState> {
    let (subscriber, session) = bng.subscriber(name)?;
    Some(SubscriberState { subscriber: subscriber.into(), session: session.map(Session::from) })
}

fn state(bng: &Bng, name: &Name) -> Result<SubscriberState, CommandError> {
    found(bng, name).ok_or_else(|| CommandError::SubscriberUnknown(name.clone()))
}

/// A page of all, in the order of their names.
pub(super) async fn list(
    State(asker): State<Asker>,
    Query(page): Query<Page>,
) -> Result<Json<Subscribers>, Problem> {
    let (most, after) = (page.most(), page.after.as_deref().map(name).transpose()?);
    let look = move |bng: &Bng| {
        let behind = bng.subscribers_after(after.as_ref()).take(most + 1);
        let one = |(subscriber, session): (&weir_bng::Subscriber, Option<&weir_bng::Session>)| {
            SubscriberState { subscriber: subscriber.into(), session: session.map(Session::from) }
        };
        let mut subscribers: Vec<SubscriberState> = behind.map(one).collect();
        let has_more = subscribers.len() > most;
        subscribers.truncate(most);
        let next = subscribers.last().filter(|_| has_more).map(|last| last.subscriber.name.clone());
        Subscribers { total: bng.sizes().subscribers, subscribers, next }
    };
    Ok(Json(asker.look(move |view| look(view.bng)).await?))
}

/// One.
pub(super) async fn show(
    State(asker): State<Asker>,
    Path(text): Path<String>,
) -> Result<Json<SubscriberState>, Problem> {
    let name = name(&text)?;
    Ok(Json(asker.look(move |view| state(view.bng, &name)).await??))
}

/// Adds one or many.
pub(super) async fn add(State(asker): State<Asker>, Body(posted): Body<Posted>) -> Result<Response, Problem> {
    match posted {
        Posted::One(subscriber) => {
            let subscriber = subscriber.read().map_err(Problem::wrong)?;
            let name = subscriber.name.clone();
            asker.command(Command::AddSubscriber(subscriber)).await??;
            let state = asker.look(move |view| state(view.bng, &name)).await??;
            Ok((StatusCode::CREATED, Json(state)).into_response())
        }
        Posted::Many(subscribers) => {
            let added = add_many(&asker, subscribers).await?;
            let status = if added.refused == 0 { StatusCode::CREATED } else { StatusCode::MULTI_STATUS };
            Ok((status, Json(added)).into_response())
        }
    }
}

/// Those that cannot be read are refused like those that contradict others.
async fn add_many(asker: &Asker, subscribers: Vec<Subscriber>) -> Result<Added, Problem> {
    let all = subscribers.len();
    let names: Vec<String> = subscribers.iter().map(|subscriber| subscriber.name.clone()).collect();
    let (mut places, mut read, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for (index, subscriber) in subscribers.into_iter().enumerate() {
        match subscriber.read() {
            Ok(subscriber) => {
                places.push(index);
                read.push(subscriber);
            }
            Err(detail) => refused.push((index, detail)),
        }
    }
    let by_others = asker.add(read).await?.into_iter();
    refused.extend(by_others.filter_map(|(at, error)| Some((*places.get(at)?, error.to_string()))));
    refused.sort();
    let errors = refused.iter().take(MOST_ERRORS).map(|(index, detail)| Refused {
        index: *index,
        name: names.get(*index).cloned().unwrap_or_default(),
        detail: detail.clone(),
    });
    Ok(Added { added: all - refused.len(), refused: refused.len(), errors: errors.collect() })
}

/// Changes one, or adds it.
pub(super) async fn change(
    State(asker): State<Asker>,
    Path(text): Path<String>,
    Body(subscriber): Body<Subscriber>,
) -> Result<Response, Problem> {
    let name = name(&text)?;
    let subscriber = subscriber.read().map_err(Problem::wrong)?;
    if subscriber.name != name {
        let of = &subscriber.name;
        return Err(Problem::wrong(format!("the body is of {of}, the address of {name}: use the same name")));
    }
    let status = match asker.command(Command::ChangeSubscriber(subscriber.clone())).await? {
        Err(CommandError::SubscriberUnknown(_)) => {
            asker.command(Command::AddSubscriber(subscriber)).await??;
            StatusCode::CREATED
        }
        changed => changed.map(|()| StatusCode::OK)?,
    };
    Ok((status, Json(asker.look(move |view| state(view.bng, &name)).await??)).into_response())
}

/// Removes one; its session ends.
pub(super) async fn remove(
    State(asker): State<Asker>,
    Path(text): Path<String>,
) -> Result<StatusCode, Problem> {
    asker.command(Command::RemoveSubscriber(name(&text)?)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes what the body says: its state, plan or group. Its session goes on, unless it is blocked.
pub(super) async fn patch(
    State(asker): State<Asker>,
    Path(text): Path<String>,
    Body(patch): Body<SubscriberPatch>,
) -> Result<Json<SubscriberState>, Problem> {
    let name = name(&text)?;
    let patch = patch.read(&name).map_err(Problem::wrong)?;
    asker.command(Command::PatchSubscriber(name.clone(), patch)).await??;
    Ok(Json(asker.look(move |view| state(view.bng, &name)).await??))
}
