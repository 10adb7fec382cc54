//! Who is asked for a login, in which order, and what becomes of it when no server answers.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::path::PathBuf;
use std::time::Duration;

use crate::radius::access::{Nas, Template, Unsupported};
use crate::radius::plans::PlanTable;

/// AAA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aaa {
    /// Who is asked, the first one first.
    pub order: Vec<Source>,
    /// DHCP clients of no subscriber here are asked of the RADIUS servers; `None`: they are not answered.
    pub dhcp: Option<DhcpRadius>,
    /// What logins get when no server answers; `None`: they are refused.
    pub brown_out: Option<BrownOut>,
    /// This concentrator, as servers know it.
    pub nas: Nas,
    /// What becomes of an Accept with attributes that are not supported.
    pub unsupported: Unsupported,
    /// Which attributes of answers say something of a plan.
    pub plans: PlanTable,
    /// The file of that table; `None`: it is [`crate::radius::plans::DEFAULT`].
    pub plan_file: Option<PathBuf>,
}

/// Who knows logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Subscribers with a password here. Others are asked about logins without one.
    Local,
    /// The RADIUS servers: those behind them are asked when none of them answers within this time. A Reject is final.
    Radius {
        /// Longest time of a request.
        most: Duration,
    },
}

/// How the RADIUS servers are asked for a DHCP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpRadius {
    /// User-Name, which identifies the subscriber.
    pub user_name: Template,
    /// User-Password; `None`: the request has none.
    pub password: Option<Template>,
    /// How long the servers are not asked again for a client that they have rejected.
    pub reject: Duration,
    /// Whether they are asked for the renewal of a lease.
    pub renewals: Renewals,
}

/// What becomes of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Renewals {
    /// The session goes on with the answer to its begin.
    #[default]
    Granted,
    /// The servers are asked again: a Reject ends the session, another answer changes it. Without an answer it goes on.
    Asked,
}

/// Logins without a server get what the last Accept said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BrownOut {
    /// How old that may be.
    pub age: Duration,
    /// Logins by CHAP, whose password cannot be checked.
    pub chap: Chap,
    /// DHCP clients, which have no password.
    pub dhcp: KnownDevices,
}

/// What becomes of a login by CHAP without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chap {
    /// It is refused.
    Refused,
    /// The line and the MAC address of the last Accept are enough.
    SameDevice,
}

/// What becomes of a DHCP client without a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KnownDevices {
    /// It is refused.
    Refused,
    /// The line or the MAC address of the last Accept is enough.
    Accepted,
}

impl Aaa {
    /// Longest time of a request to RADIUS servers.
    pub fn radius_most(&self) -> Duration {
        let most = self.order.iter().find_map(|source| match source {
            Source::Radius { most } => Some(*most),
            Source::Local => None,
        });
        most.unwrap_or(RADIUS_MOST)
    }

    /// Whether passwords here count when no server answers.
    pub fn is_local_after_radius(&self) -> bool {
        let mut behind = self.order.iter().skip_while(|source| **source == Source::Local);
        behind.any(|source| *source == Source::Local)
    }
}

/// MRD of RFC 5080, section 2.2.1.
pub(super) const RADIUS_MOST: Duration = Duration::from_secs(30);

impl Default for Aaa {
    /// Passwords here, then RADIUS; no brown-out.
    fn default() -> Aaa {
        let order = vec![Source::Local, Source::Radius { most: RADIUS_MOST }];
        Aaa {
            order,
            dhcp: None,
            brown_out: None,
            nas: Nas::default(),
            unsupported: Unsupported::default(),
            plans: PlanTable::default(),
            plan_file: None,
        }
    }
}
