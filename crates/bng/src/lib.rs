//! The control plane of a concentrator for subscribers (BNG) with IPoE: sessions, addresses, and why a device has none. Pure: no
//! I/O, no clock, no unsafe.
//!
//! ```text
//!              punt (port, tags, frame)                            Send (port, tags, frame)
//!  node ------------------------------------> +-------------+ ----------------------------> node
//!                                             |     Bng     | Node(AddSession, RemoveSession)
//!  operator --- Command --------------------> | subscribers | ----------------------------> node
//!                                             | sessions    | Store(Record)
//!  disk ------- Stored, Adopt --------------> | addresses   | ----------------------------> disk
//!                                             | traces      | Done, Event, Wake
//!  clock ------ Timer ----------------------> +-------------+ ----------------------------> operator, clock
//!
//!  REQUEST > identify the subscriber > hold the address > Store(lease) ... Stored > AddSession, Send(ACK)
//! ```
//! Every input carries its time, and the outputs are a function of state, time and input. At the start come the records of the disk
//! ([`Input::Adopt`], in their order), then the sessions of the node ([`Input::NodeTable`]), then everything else.
//!
//! - A client is answered with an ACK, and the node forwards its frames, after the record of its lease is on disk.
//! - An address has at most one holder, and a subscriber at most as many sessions as its limit says, also after a crash at any record.
//! - Memory is bounded by the number of subscribers and addresses, whatever is sent.
//! - Every frame is answered, accepted without an answer, or dropped with a reason, and counted; see [`Bng::counts`].
#![forbid(unsafe_code)]

mod account;
mod answer;
pub mod api;
mod bng;
mod conceal;
mod config;
mod decode;
pub mod dhcp4;
pub mod dial;
mod drops;
mod hex;
mod index;
mod io;
mod limit;
mod line;
mod mac;
mod name;
mod nat;
mod now;
mod places;
mod plan;
mod pool;
pub mod ppp;
pub mod pppoe;
mod prefix;
pub mod ra;
pub mod radius;
mod random;
mod record;
mod route;
pub mod scenario;
mod session;
mod step;
mod subscriber;
mod subscribers;
mod traced;
mod watch;
mod why;
mod words;

pub use account::{Account, AccountId, AccountState, Facts, Limits};
pub use answer::LastAnswer;
pub use bng::{AccountingCounts, Bng, Counts, DynauthCounts, Sizes};
pub use config::{
    Aaa, Accounting, AdvertiseTimes, AtLimit, BrownOut, Config, DhcpRadius, Dynauth, Item, LeaseTimes, Moves,
    NodeFacts, Port, Pppoe, RadiusServer, Renewals, Tls,
};
pub use decode::decode;
pub use drops::{DropReason, Drops};
pub use io::{
    AddSession, Checked, Command, CommandError, Event, Input, Lacks, LinkState, NodeCommand, Now, Output,
    Punt, SubscriberPatch,
};
pub use limit::Limit;
pub use line::{Line, PortName, Tags};
pub use mac::Mac;
pub use name::Name;
pub use nat::Nat;
pub use places::{Over, SessionLimit, SessionLimits};
pub use plan::{Plan, Rates, bits_per_s};
pub use pool::Pool;
pub use prefix::{LinkPrefix, PrefixPool, interface_id, link_local};
pub use random::Random;
pub use record::{Answered, Change, Record, RecordError, Unaccounted};
pub use route::Route;
pub use session::{Counters, Device, EndCause, Lease, LineRates, NO_ADDRESS, PppLink, Session, SessionId};
pub use step::Step;
pub use subscriber::{Key, SEALED, Service, Status, Subscriber, password_word};
pub use watch::{Watched, Whom};
pub use why::{Direction, MOST_FRAMES, MOST_TRACES, MOST_TRACES_OF_LINE, Outcome, TraceFrame, Why};
