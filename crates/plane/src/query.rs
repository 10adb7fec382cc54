//! ICMP queries: messages with an identifier, which is that of the querying host.

use weir_packet::headers::{ICMP, ICMP6};

/// Which side of a query a message is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    Question,
    Answer,
}

/// Which of the two a type of ICMP is: echo, timestamp, information, address mask (RFC 792, RFC 950, RFC 4443).
pub(crate) fn of(proto: u8, kind: u8) -> Option<Query> {
    match (proto, kind) {
        (ICMP, 8 | 13 | 15 | 17) | (ICMP6, 128) => Some(Query::Question),
        (ICMP, 0 | 14 | 16 | 18) | (ICMP6, 129) => Some(Query::Answer),
        _ => None,
    }
}
