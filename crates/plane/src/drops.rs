//! Why a frame goes no further: one name for each reason, in code, counters, reports and scenarios alike.

use std::ops::{AddAssign, Index};

macro_rules! reasons {
    ($($variant:ident $name:literal $meaning:literal,)*) => {
        /// A reason to drop a frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $meaning] $variant,)* }

        impl DropReason {
            /// All of them, in the order of the way through the node.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];

            /// Its name in counters, reports and scenarios.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// Its meaning, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning,)* }
            }
        }
    };
}

reasons! {
    Malformed "malformed" "its headers contradict each other or end too early",
    BadChecksum "bad_checksum" "the checksum of its IPv4 header is wrong (RFC 1812, section 5.2.2)",
    NotForUs "not_for_us" "its Ethernet address is that of another host",
    PortGone "port_gone" "its port was removed while it was on its way",
    UnknownVlan "unknown_vlan" "no port has its VLAN tags",
    NoLine "no_line" "its port has several lines, and the node does not know on which of them its receiver is, or its own tags are none of the port's",
    HiddenVlan "hidden_vlan" "it has the inner VLAN tag of its port and not the outer one: the interface hides that, or its sender has set none",
    NoSubscriber "no_subscriber" "at an access port, from a device that has no session or for an address that no session has, see `access`",
    PppoeSession "pppoe_session" "a packet of a PPPoE session that the node does not have, see `access`",
    PppoeTerminated "pppoe_terminated" "a packet of a PPPoE session that the node does not have: a PADT has told its sender so (RFC 2516, section 5.5), see `access`",
    LcpEcho "lcp_echo" "a broken message of LCP in a PPPoE session of a subscriber (RFC 1661, section 5)",
    SubscriberLoop "subscriber_loop" "from a subscriber to an address or prefix of its own (RFC 8987, R-5), see `access`",
    SubscriberSource "subscriber_source" "its source address is not that of the subscriber that sends it (RFC 7039), see `access`",
    SubscriberRate "subscriber_rate" "its subscriber sends or receives more than its rate allows, see `access`",
    SubscriberBlocked "subscriber_blocked" "its subscriber is blocked, see `access`",
    SubscriberWalled "subscriber_walled" "its subscriber is walled, and the other end is not in the walled garden, see `access`",
    NoProtocol "no_protocol" "neither IP nor a question about neighbours",
    Pppoe "pppoe" "a frame of PPPoE, which the node neither forwards nor punts from its port, see `punt`",
    FilterDrop "filter_drop" "a rule of the filter drops it",
    FilterReject "filter_reject" "a rule or the policy of the filter refuses it, and its sender is informed",
    FilterPolicy "filter_policy" "no rule of the filter decides about it, and its policy is to drop",
    FilterEthertype "filter_ethertype" "no packet of IP: no rule of the filter accepts its EtherType, and its policy is to drop",
    FilterFragment "filter_fragment" "the first fragment of its packet did not pass or never came, or it would overwrite what that says (RFC 3128)",
    FilterTable "filter_table" "it begins a connection, and there are too many to remember one more",
    MartianSource "martian_source" "no host can have its source address (RFC 1812, section 5.3.7)",
    MartianDestination "martian_destination" "no host can have its destination address (RFC 1812, section 5.3.7)",
    ReversePath "reverse_path" "the way back to its source leads elsewhere, see `rpf` of its port (BCP 38, RFC 3704)",
    SourceRouted "source_routed" "source routing: an option says by which nodes it goes (RFC 7126, section 4.3)",
    IpOption "ip_option" "an option of its IPv4 header is broken, or is not let through, see `options` of `route` (RFC 791, RFC 7126)",
    LinkBroadcast "link_broadcast" "sent to all on the link, but for one remote host (RFC 1812, section 5.3.4)",
    DirectedBroadcast "directed_broadcast" "for all hosts of another link (RFC 2644)",
    NoRoute "no_route" "no route leads to its destination",
    Blackhole "blackhole" "its route leads nowhere, in silence",
    RouteUnreachable "route_unreachable" "its route is `unreachable`",
    RouteProhibited "route_prohibited" "its route is `prohibit`",
    TtlExpired "ttl_expired" "its time to live ended here",
    TooBig "too_big" "longer than the next link carries, and not to be cut",
    NoNeighbour "no_neighbour" "the next host does not answer",
    NeighbourQueue "neighbour_queue" "too many frames wait for the next host's answer",
    NeighbourLimit "neighbour_limit" "it waited for an unknown neighbour and gave way to others, see `limits`",
    NeighbourRate "neighbour_rate" "too many unknown neighbours are asked for because of its sender, or of all senders, see `limits`",
    NeighbourTable "neighbour_table" "there are too many neighbours to ask one more",
    NatNoMapping "nat_no_mapping" "no mapping and no connection awaits it (RFC 4787)",
    NatFiltered "nat_filtered" "the filtering of its mapping does not admit its sender (RFC 4787, section 5)",
    NatNoPort "nat_no_port" "no block of outside ports is free for its sender (RFC 6888 REQ-11)",
    NatWithheld "nat_withheld" "its sender needs a block of outside ports, and none is given while it cannot be noted, see `--blocks` (RFC 6888 REQ-8)",
    NatQuota "nat_quota" "its sender has all the ports or sessions that it may have (RFC 6888 REQ-4)",
    NatRate "nat_rate" "its sender makes new mappings faster than it may (RFC 6888 REQ-4)",
    NatSessions "nat_sessions" "the NAT has all the sessions that it may have (RFC 6888 REQ-5)",
    NatConflict "nat_conflict" "another host of its public address talks to that remote end without ports",
    NatProtocol "nat_protocol" "the NAT has no mapping for its protocol",
    NatAuthenticated "nat_authenticated" "its authentication header covers its addresses, which the NAT would change (RFC 3715, section 2.1)",
    NatNotGlobal "nat_not_global" "64:ff9b::/96 does not stand for its private or special address of IPv4, another prefix does (RFC 6052, section 3.1)",
    NatRouted "nat_routed" "its source says by which nodes it goes, which cannot be translated (RFC 7915, sections 4.1 and 5.1)",
    NatBadIcmp "nat_bad_icmp" "an error of ICMP that is broken, quotes what is broken or what its receiver did not send, or is a redirect (RFC 5508 REQ-3)",
    NatFragment "nat_fragment" "its first fragment did not come (RFC 4787 REQ-14)",
    FragmentLimit "fragment_limit" "it waited for its first fragment and gave way to others: of all hosts its own had most that waited, see `limits`",
    NatJoined "nat_joined" "a fragment of an error of ICMP, which NAT64 translates in one fragment: in that one all of it goes on",
    PoliceRate "police_rate" "its subscriber sends or receives more than its profile allows, see `police`",
    QueueLimit "queue_limit" "as much waits for the link of its queue as may, see `limit` of `queue`",
    QueueAqm "queue_aqm" "the AQM of its queue signals congestion by a drop, see `aqm` of `queue`",
    QueueLoss "queue_loss" "lost behind the link of its queue, see `loss` of `queue`",
    NoLocal "no_local" "it is for the node itself, and `host none` drops such frames",
    LocalNeighbours "local_neighbours" "more ARP and neighbour discovery for the node itself than it takes, see `limits`",
    LocalRouting "local_routing" "more of routing protocols for the node itself than it takes, see `limits`",
    LocalIcmp "local_icmp" "more ICMP for the node itself than it takes, see `limits`",
    LocalRest "local_rest" "more for the node itself than it takes, see `limits`",
    NoControl "no_control" "it is for the control program of the node, and none is attached, see `punt`",
    PuntPppControl "punt_ppp_control" "more PPP for the control program than it takes from this line or from all, see `limits`",
    PuntNd "punt_nd" "more neighbour discovery for the control program than it takes from this line or from all, see `limits`",
    PuntArp "punt_arp" "more ARP for the control program than it takes from this line or from all, see `limits`",
    PuntDhcp4 "punt_dhcp4" "more DHCP for the control program than it takes from this line or from all, see `limits`",
    PuntDhcp6 "punt_dhcp6" "more DHCPv6 for the control program than it takes from this line or from all, see `limits`",
    PuntPppoeDiscovery "punt_pppoe_discovery" "more PPPoE discovery for the control program than it takes from this line or from all, see `limits`",
    PuntUnknownSource "punt_unknown_source" "more packets of unknown sources for the control program than it takes from this line or from all, see `limits`",
    PuntFull "punt_full" "the ring to the control program has no room for its reason, which has at most as much as is free: the program is slow or has stopped",
    InjectedInvalid "injected_invalid" "the control program injected it at a port that does not exist, with a length that does not fit, or with an unknown tag",
    HandoverFull "handover_full" "the thread of the node that it belongs to has no room for more",
    NoMemory "no_memory" "it waited as a copy, and no memory of the ports was free when it was to go on",
    OriginatedLimit "originated_limit" "the node originated too many frames in this batch",
    Panic "panic" "lost by a mistake of the node, which its log tells; please report it",
}

const REASONS: usize = DropReason::ALL.len();

/// How many frames were dropped for each reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops([u64; REASONS]);

impl FromIterator<u64> for Drops {
    /// Counts in the order of [`DropReason::ALL`].
    fn from_iter<T: IntoIterator<Item = u64>>(counts: T) -> Drops {
        let mut drops = Drops::default();
        drops.0.iter_mut().zip(counts).for_each(|(to, from)| *to = from);
        drops
    }
}

impl AddAssign for Drops {
    fn add_assign(&mut self, other: Drops) {
        self.0.iter_mut().zip(other.0).for_each(|(to, from)| *to += from);
    }
}

impl Default for Drops {
    fn default() -> Self {
        Drops([0; REASONS])
    }
}

impl Drops {
    /// Counts a frame.
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Frames dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn occurred(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|&reason| (reason, self[reason])).filter(|(_, frames)| *frames > 0)
    }
}

impl Index<DropReason> for Drops {
    type Output = u64;

    fn index(&self, reason: DropReason) -> &u64 {
        &self.0[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_written_alike() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')),
            "{names:?}"
        );
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
