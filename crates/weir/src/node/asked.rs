//! `weir node show` asks for a table: large ones are put together from their pages, up to a limit.

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use weir_control::client::Client;
use weir_node::{
    Forwards, ForwardsQuery, Neighbours, NeighboursQuery, OneToOne, OneToOneQuery, Query, Routes,
    RoutesQuery, Sessions, SessionsQuery, SubscriberCounts, Subscribers, SubscribersQuery,
};
use weir_plane::{SubscriberCount, SubscriberState};

use crate::cli::Shown;

/// Sessions that are listed if the user does not say how many.
const SESSIONS: usize = 10_000;
/// Records of a page.
const PAGE: Option<u32> = Some(10_000);

/// The answer of a node, up to so many records of a table.
pub(super) fn table(client: &mut Client, what: Shown, limit: Option<usize>) -> Result<Value> {
    match what {
        Shown::Counters => client.ask(Query::Counters),
        Shown::Drops => client.ask(Query::Drops),
        Shown::Ports => client.ask(Query::Ports),
        Shown::Rules => client.ask(Query::Rules),
        Shown::Queues => client.ask(Query::Queues),
        Shown::Police => client.ask(Query::Police),
        Shown::Plans => client.ask(Query::Plans),
        Shown::Groups => client.ask(Query::Groups),
        Shown::Log => client.ask(Query::Log),
        Shown::Fast => client.ask(Query::Fast),
        Shown::Sessions => sessions(client, limit.unwrap_or(SESSIONS)),
        Shown::Routes => {
            let mut total = 0;
            let all = pages(limit, |after| {
                let query = RoutesQuery { after, most: PAGE, within: None };
                let page: Routes = client.query(Query::Routes(query))?;
                total = page.total;
                Ok((page.routes, page.next))
            })?;
            let left_out = total.saturating_sub(all.len() as u64);
            Ok(counted(json!({ "routes": all }), left_out))
        }
        Shown::Neighbours => {
            let all = pages(limit, |after| {
                let page: Neighbours =
                    client.query(Query::Neighbours(NeighboursQuery { after, port: None }))?;
                Ok((page.neighbours, page.next))
            })?;
            Ok(json!({ "neighbours": all }))
        }
        Shown::Subscribers => {
            let all = subscribers(client, limit)?;
            Ok(json!({ "subscribers": all }))
        }
        Shown::Forwards => {
            let all = pages(limit, |after| {
                let page: Forwards = client.query(Query::Forwards(ForwardsQuery { after, most: PAGE }))?;
                Ok((page.forwards, page.next))
            })?;
            Ok(json!({ "forwards": all }))
        }
        Shown::OneToOne => {
            let all = pages(limit, |after| {
                let page: OneToOne = client.query(Query::OneToOne(OneToOneQuery { after, most: PAGE }))?;
                Ok((page.one_to_one, page.next))
            })?;
            Ok(json!({ "one_to_one": all }))
        }
    }
}

/// Sessions of subscribers, up to so many.
pub(super) fn subscribers(client: &mut Client, limit: Option<usize>) -> Result<Vec<SubscriberState>> {
    pages(limit, |after| {
        let page: Subscribers = client.query(Query::Subscribers(SubscribersQuery { after, most: PAGE }))?;
        Ok((page.subscribers, page.next))
    })
}

/// What each session of a subscriber has counted.
pub(super) fn subscriber_counts(client: &mut Client) -> Result<Vec<SubscriberCount>> {
    pages(None, |after| {
        let query = Query::SubscriberCounts(SubscribersQuery { after, most: PAGE });
        let page: SubscriberCounts = client.query(query)?;
        Ok((page.counts, page.next))
    })
}

/// How many there are is asked for with the first page: what ends while the others come is not left out.
fn sessions(client: &mut Client, limit: usize) -> Result<Value> {
    let (mut live, mut has_more) = (0, false);
    let all = pages(Some(limit), |after| {
        let query = SessionsQuery { after, most: PAGE, address: None };
        let page: Sessions = client.query(Query::Sessions(query))?;
        live = if after.is_none() { page.live } else { live };
        has_more = page.next.is_some();
        Ok((page.sessions, page.next))
    })?;
    let left_out = if has_more || all.len() == limit { live.saturating_sub(all.len() as u64) } else { 0 };
    Ok(counted(json!({ "live": live, "sessions": all }), left_out))
}

/// The records of pages until there are no more, or as many as the limit.
fn pages<T: Serialize, C: Clone>(
    limit: Option<usize>,
    mut page: impl FnMut(Option<C>) -> Result<(Vec<T>, Option<C>)>,
) -> Result<Vec<T>> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let (some, next) = page(after)?;
        all.extend(some);
        after = next;
        if after.is_none() || limit.is_some_and(|limit| all.len() >= limit) {
            all.truncate(limit.unwrap_or(usize::MAX));
            return Ok(all);
        }
    }
}

/// An answer, with how many records are not in it.
fn counted(mut answer: Value, left_out: u64) -> Value {
    if left_out > 0 {
        answer["left_out"] = left_out.into();
    }
    answer
}
