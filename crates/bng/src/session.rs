//! Sessions: subscribers that are online.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::time::Duration;

use crate::account::Account;
use crate::line::Line;
use crate::mac::Mac;
use crate::name::Name;
use crate::ppp::lcp::Agreed;
use crate::prefix::LinkPrefix;

/// Number of a session: the revision of its first record, so that none is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A subscriber that is online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Its subscriber.
    pub subscriber: Name,
    /// The device and its address.
    pub lease: Lease,
    /// When it began, s since 1970.
    pub start_s: u64,
    /// What the node counted so far.
    pub counters: Counters,
    /// When the lease ends, by the clock that never goes back.
    pub lease_end: Duration,
    /// Its port has lost its link: when the session ends unless the link is up again.
    pub grace_until: Option<Duration>,
}

/// In place of the address of a session that has IPv6 alone.
pub const NO_ADDRESS: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// A device of a customer, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Device {
    /// The line.
    pub line: Line,
    /// Its MAC address.
    pub mac: Mac,
    /// The relay by which it is reached; `None`: it is on the line itself.
    pub relay: Option<Ipv4Addr>,
}

/// The binding of an address to a device, as a client was last answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The device that has the address.
    pub device: Device,
    /// Which of the sessions of its subscriber it is, from 0 on.
    pub seat: u16,
    /// The address of IPv4; [`NO_ADDRESS`]: it has IPv6 alone.
    pub address: Ipv4Addr,
    /// The prefix of IPv6 of its link, if it has one.
    pub prefix: Option<LinkPrefix>,
    /// Its client identifier (RFC 2132, section 9.14), if it has one.
    pub client_id: Option<Box<[u8]>>,
    /// When it was granted or last renewed, s since 1970.
    pub granted_s: u64,
    /// For how long, s. It does not end by itself where the access is PPPoE.
    pub lease_s: u32,
    /// The link of a session over PPPoE; `None`: it has its address by DHCP.
    pub ppp: Option<PppLink>,
    /// What accounting knows of it; `None`: its record is of a version before accounting.
    pub account: Option<Account>,
}

/// The link of a session over PPPoE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PppLink {
    /// PPPoE session id, 1 to 65,534.
    pub id: u16,
    /// MRU and magic numbers.
    pub agreed: Agreed,
    /// What the access node says of the line.
    pub line_rates: LineRates,
}

/// Rates of a line as its access node says (TR-101, section 3.9.1), kbit/s; 0: unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LineRates {
    /// From the subscriber.
    pub up_kbit_per_s: u32,
    /// To the subscriber.
    pub down_kbit_per_s: u32,
}

impl fmt::Display for PppLink {
    /// `7/1492/1492/439041101/17`: id, largest MRU, MRU of the peer, magic numbers of this side and of the peer; behind it the rates of the
    /// line upstream and downstream, kbit/s, if one is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PppLink { id, agreed: Agreed { max_mru, peer_mru, magic, peer_magic }, line_rates } = self;
        write!(f, "{id}/{max_mru}/{peer_mru}/{magic}/{peer_magic}")?;
        match *line_rates {
            LineRates { up_kbit_per_s: 0, down_kbit_per_s: 0 } => Ok(()),
            LineRates { up_kbit_per_s, down_kbit_per_s } => write!(f, "/{up_kbit_per_s}/{down_kbit_per_s}"),
        }
    }
}

impl FromStr for PppLink {
    type Err = String;

    fn from_str(text: &str) -> Result<PppLink, String> {
        let wrong = || format!("`{text}` is no link of a PPPoE session");
        let numbers: Result<Vec<u32>, _> = text.split('/').map(str::parse).collect();
        let (id, max_mru, peer_mru, magic, peer_magic, [up_kbit_per_s, down_kbit_per_s]) = match *numbers
            .map_err(|_| wrong())?
        {
            [id, max, peer, magic, peer_magic] => (id, max, peer, magic, peer_magic, [0; 2]),
            [id, max, peer, magic, peer_magic, up, down] => (id, max, peer, magic, peer_magic, [up, down]),
            _ => return Err(wrong()),
        };
        let small = |number: u32| u16::try_from(number).map_err(|_| wrong());
        let agreed = Agreed { max_mru: small(max_mru)?, peer_mru: small(peer_mru)?, magic, peer_magic };
        let line_rates = LineRates { up_kbit_per_s, down_kbit_per_s };
        Ok(PppLink { id: small(id)?, agreed, line_rates })
    }
}

/// What the node counted of a session. Bytes are of whole frames without FCS; they never go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Frames to the subscriber.
    pub down_frames: u64,
    /// Their bytes.
    pub down_bytes: u64,
    /// Frames from the subscriber.
    pub up_frames: u64,
    /// Their bytes.
    pub up_bytes: u64,
}

impl Counters {
    /// The larger of both for each counter: a node that has begun anew, or a late report, takes nothing back.
    #[must_use]
    pub fn max(self, other: Counters) -> Counters {
        Counters {
            down_frames: self.down_frames.max(other.down_frames),
            down_bytes: self.down_bytes.max(other.down_bytes),
            up_frames: self.up_frames.max(other.up_frames),
            up_bytes: self.up_bytes.max(other.up_bytes),
        }
    }
}

/// Why a session has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndCause {
    /// The client released its address, or ended its PPPoE session.
    Released,
    /// The client found its address in use.
    Declined,
    /// The lease was not renewed.
    Expired,
    /// The operator ended it.
    Disconnected,
    /// The subscriber was blocked.
    Blocked,
    /// The subscriber was removed, or its key or address was changed.
    SubscriberChanged,
    /// Another device or another line of the same subscriber took its place.
    Replaced,
    /// Its first record could not be written.
    NotStored,
    /// The device does not answer any more, or its line is down.
    Lost,
    /// Its device closed all protocols of the network layer, or does not have any.
    ServiceLost,
    /// The port had no link for longer than the grace.
    LinkLost,
    /// Its subscriber sent nothing for the idle timeout.
    IdleTimeout,
    /// It lasted as long as it may.
    SessionTimeout,
    /// Its subscriber has used its quota.
    Quota,
    /// The operator ended all sessions.
    Shutdown,
    /// The node does not take it.
    Refused,
    /// The node has its port no more.
    PortRemoved,
}

impl EndCause {
    const ALL: [EndCause; 17] = [
        EndCause::Released,
        EndCause::Declined,
        EndCause::Expired,
        EndCause::Disconnected,
        EndCause::Blocked,
        EndCause::SubscriberChanged,
        EndCause::Replaced,
        EndCause::NotStored,
        EndCause::Lost,
        EndCause::ServiceLost,
        EndCause::LinkLost,
        EndCause::IdleTimeout,
        EndCause::SessionTimeout,
        EndCause::Quota,
        EndCause::Shutdown,
        EndCause::Refused,
        EndCause::PortRemoved,
    ];

    /// Its name in records, events and scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            EndCause::Released => "released",
            EndCause::Declined => "declined",
            EndCause::Expired => "expired",
            EndCause::Disconnected => "disconnected",
            EndCause::Blocked => "blocked",
            EndCause::SubscriberChanged => "subscriber-changed",
            EndCause::Replaced => "replaced",
            EndCause::NotStored => "not-stored",
            EndCause::Lost => "lost",
            EndCause::ServiceLost => "service-lost",
            EndCause::LinkLost => "link-lost",
            EndCause::IdleTimeout => "idle-timeout",
            EndCause::SessionTimeout => "session-timeout",
            EndCause::Quota => "quota",
            EndCause::Shutdown => "shutdown",
            EndCause::Refused => "refused",
            EndCause::PortRemoved => "port-removed",
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EndCause {
    type Err = String;

    fn from_str(text: &str) -> Result<EndCause, String> {
        let found = EndCause::ALL.into_iter().find(|cause| cause.name() == text);
        found.ok_or_else(|| format!("`{text}` is no cause for the end of a session"))
    }
}
