//! What lives in a plane for people to see: a fragment at a time, so that frames wait for none, and in words elsewhere.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::fmt;
use std::ops::Range;

use crate::chain::Stage;
use crate::filter::Connection;
use crate::nat::Mapped;
use crate::plane::Plane;

/// Records of a fragment, and places that are looked at for them: most of a table may be free.
const MOST: usize = 256;
const MOST_LOOKED_AT: u32 = 2048;

/// From where on sessions are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    stage: usize,
    number: u32,
}

/// A mapping or session of a NAT, or a connection of a filter, as it was when it was looked at; to be put in words wherever
/// there is time.
#[derive(Debug, Clone, Copy)]
pub struct Session(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    Nat(Mapped),
    Filter(Connection),
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Nat(mapped) => mapped.fmt(f),
            Kind::Filter(connection) => connection.fmt(f),
        }
    }
}

/// Some records of a table.
pub(crate) struct Piece<T> {
    pub(crate) records: Vec<T>,
    /// The number from which on there may be more.
    pub(crate) next: Option<u32>,
}

impl<T> Piece<T> {
    /// Those of these numbers that `one` returns a record for, as many as a fragment has.
    pub(crate) fn of(numbers: Range<u32>, one: impl Fn(u32) -> Option<T>) -> Piece<T> {
        let mut records = Vec::new();
        for number in numbers.clone() {
            if records.len() == MOST || number - numbers.start == MOST_LOOKED_AT {
                return Piece { records, next: Some(number) };
            }
            records.extend(one(number));
        }
        Piece { records, next: None }
    }
}

impl Plane {
    /// Mappings and sessions of NAT and connections of filters from a place on, a few hundred at most, and where to go on if
    /// there may be more. What comes and goes between two calls may be missing, or be there twice.
    pub fn sessions(&self, from: Cursor) -> (Vec<Session>, Option<Cursor>) {
        let Cursor { stage, number } = from;
        let (sessions, next) = match self.stages.get(stage) {
            Some(Stage::Nat(nat)) => {
                let Piece { records, next } = nat.shown(number);
                (records.into_iter().map(|one| Session(Kind::Nat(one))).collect(), next)
            }
            Some(Stage::Filter(filter)) => {
                let Piece { records, next } = filter.shown(number);
                (records.into_iter().map(|one| Session(Kind::Filter(one))).collect(), next)
            }
            Some(Stage::Queue(_)) => (Vec::new(), None),
            None => return (Vec::new(), None),
        };
        match next {
            Some(number) => (sessions, Some(Cursor { stage, number })),
            None => (sessions, Some(Cursor { stage: stage + 1, number: 0 })),
        }
    }
}
