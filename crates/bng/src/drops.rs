//! Why a frame of a client is not answered: one name for each reason, in code, counters and scenarios alike.

use std::ops::{AddAssign, Index};

use crate::step::Step;

macro_rules! reasons {
    ($($variant:ident $step:ident $name:literal $meaning:literal,)*) => {
        /// A reason not to answer a frame.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $meaning] $variant,)* }

        impl DropReason {
            /// All of them, in the order of a frame's way.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant,)*];

            /// Its name in counters and scenarios.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// What it says, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning,)* }
            }

            /// How far the frame came.
            pub const fn step(self) -> Step {
                match self { $(DropReason::$variant => Step::$step,)* }
            }
        }
    };
}

reasons! {
    PortUnknown Frame "port_unknown" "the configuration has no such port",
    FrameCut Frame "frame_cut" "the frame ends before its headers do",
    NotPppoe Frame "not_pppoe" "the frame is no PPPoE",
    PppoeCode Frame "pppoe_code" "version, type, code or session id of the PPPoE header is not one that a client sends",
    PppoeLength Frame "pppoe_length" "the PPPoE packet is longer than its frame, or a PADI is longer than 1484 bytes",
    PppoeTags Frame "pppoe_tags" "a tag of the PPPoE packet is longer than the packet",
    PppoeServiceName Frame "pppoe_service_name" "the packet has two Service-Names, or none where one must be",
    PppoeLineTag Frame "pppoe_line_tag" "the tag of the access node (vendor 3561) contradicts itself",
    RouterSolicitation Frame "router_solicitation" "the packet of IPv6 is no router solicitation, or one that contradicts itself (RFC 4861, section 6.1.1)",
    NotIpv4 Frame "not_ipv4" "the frame carries no IPv4",
    SourceMac Frame "source_mac" "the source MAC address is a group address or zero",
    OwnMac Frame "own_mac" "the source MAC address is that of the port itself: a loop, or a forged address",
    IpHeader Frame "ip_header" "the IPv4 header contradicts itself",
    IpLength Frame "ip_length" "the IPv4 packet is longer than its frame, or too short",
    IpChecksum Frame "ip_checksum" "the checksum of the IPv4 header is wrong",
    IpFragment Frame "ip_fragment" "the packet is a fragment",
    NotDhcp Frame "not_dhcp" "the packet is not for a DHCP server (UDP port 67)",
    UdpLength Frame "udp_length" "the length of the UDP header is wrong",
    UdpChecksum Frame "udp_checksum" "the checksum of the UDP header is wrong",
    FromServer Frame "dhcp_from_server" "a DHCP server answers on the subscriber side",
    DhcpShort Frame "dhcp_short" "the DHCP message is shorter than its fixed part",
    DhcpCookie Frame "dhcp_cookie" "the message has no magic cookie: it is BOOTP, or no DHCP",
    DhcpHardware Frame "dhcp_hardware" "the hardware address of the message is no Ethernet address",
    DhcpOptions Frame "dhcp_options" "an option of the message is longer than its field",
    DhcpOptionLength Frame "dhcp_option_length" "an option of the message has the wrong length",
    DhcpMessageType Frame "dhcp_message_type" "the message has no type that a client sends",
    ChaddrMismatch Frame "chaddr_mismatch" "the client address of the message is not the source of its frame",
    Option82Untrusted Frame "option82_untrusted" "a circuit-id (option 82) comes from a port that is not trusted (RFC 3046, section 2.1)",
    Option82Malformed Frame "option82_malformed" "the sub-options of option 82 are longer than it",
    GiaddrRefused Frame "giaddr_refused" "a relay (giaddr) that is not allowed on this port",
    PppoeOff Discovery "pppoe_off" "the configuration has no `pppoe`",
    PadiRateMac Discovery "padi_rate_mac" "more PADI from this MAC than its limit allows",
    PadiRateLine Discovery "padi_rate_line" "more PADI from this line than its limit allows",
    ServiceUnknown Discovery "service_unknown" "no service has the Service-Name of the request",
    AcCookie Discovery "ac_cookie" "the PADR has no valid AC-Cookie: it is forged, or its PADO is more than a minute old",
    PppoeSessionsMac Discovery "pppoe_sessions_mac" "this MAC has as many PPPoE sessions as its limit allows",
    PppoeSessionsLine Discovery "pppoe_sessions_line" "this line has as many PPPoE sessions as its limit allows",
    PppoeHalfOpen Discovery "pppoe_half_open" "as many PPPoE sessions are being set up as `pppoe sessions half-open` allows",
    PppoeIdsUsed Discovery "pppoe_ids_used" "all PPPoE session ids of this line are in use",
    PppoeSession Discovery "pppoe_session" "there is no PPPoE session of this id and MAC on this line",
    PppDiscarded Link "ppp_discarded" "PPP discards the frame: its protocol is not open, or its packet is no answer to the last request",
    LoginUnknown Authentication "login_unknown" "no subscriber has this login",
    WrongPassword Authentication "wrong_password" "the password is wrong",
    RadiusReject Authentication "radius_reject" "a RADIUS server has rejected the login",
    RadiusAnswer Authentication "radius_answer" "the Access-Accept of a RADIUS server has a value that it cannot have, or a plan that there is not",
    RadiusPrefix Authentication "radius_prefix" "the Framed-IPv6-Prefix of a RADIUS server is no /64",
    RadiusRoute Authentication "radius_route" "a Framed-Route or Framed-IPv6-Route of a RADIUS server is no network, or has another gateway than the subscriber, or there are more than 14",
    RadiusNoAnswer Authentication "radius_no_answer" "no RADIUS server has answered: all are dead, busy or slow, or none serves the realm",
    BrownOutAge Authentication "brown_out_age" "no RADIUS server has answered, and its last Accept for this login is older than the limit, or was followed by a Reject",
    BrownOutPassword Authentication "brown_out_password" "no RADIUS server has answered, and the password is not the one that was accepted last",
    BrownOutChap Authentication "brown_out_chap" "no RADIUS server has answered, and CHAP needs one: the line or MAC is not that of the last Accept, or `brown-out` has no `chap`",
    BrownOutMsChap Authentication "brown_out_ms_chap" "no RADIUS server has answered, and MS-CHAPv2 cannot be checked without one",
    BrownOutDevice Authentication "brown_out_device" "no RADIUS server has answered, and neither line nor MAC is that of the last Accept",
    RadiusUserName Authentication "radius_user_name" "the User-Name of `dhcp-radius` is empty, longer than 64 bytes or has a character that names lack: the device has no circuit-id, or one of other bytes",
    LineRate Identify "line_rate" "more messages from devices of this line that have no session there than its limit allows",
    NoSubscriber Identify "no_subscriber" "no subscriber has this MAC",
    SubscriberRate Identify "subscriber_rate" "more messages from this subscriber than its limit allows",
    SubscriberBlocked Status "subscriber_blocked" "the subscriber is blocked",
    PlanUnknown Status "plan_unknown" "the configuration has no plan of this name",
    SessionElsewhere Status "session_elsewhere" "the subscriber has a session with another device or line",
    SessionsSubscriber Status "sessions_subscriber" "this subscriber has as many sessions as `limit sessions subscriber` allows",
    SessionsMac Status "sessions_mac" "this MAC address has as many sessions as `limit sessions mac` allows",
    SessionsLine Status "sessions_line" "this line has as many sessions as `limit sessions line` allows",
    SessionsVlan Status "sessions_vlan" "the outer VLAN of this line has as many sessions as `limit sessions vlan` allows",
    SessionsNode Status "sessions_node" "there are as many sessions as `limit sessions node` allows",
    FixedAddressInUse Address "fixed_address_in_use" "the fixed address of the subscriber is assigned to another subscriber",
    FixedAddressDeclined Address "fixed_address_declined" "the fixed address of the subscriber is in quarantine: a client found it in use",
    FixedPrefixInUse Address "fixed_prefix_in_use" "the IPv6 prefix of the subscriber is assigned to another subscriber, or is in no pool",
    RouteInUse Address "route_in_use" "a route of the subscriber is another one's, or has addresses of a pool or of the node",
    PoolUnknown Address "pool_unknown" "the configuration has no pool of the name that the subscriber or its Framed-Pool has",
    NoPrefix Address "no_prefix" "the device has no session with an IPv6 prefix yet, or has closed IPV6CP",
    PoolExhausted Address "pool_exhausted" "no pool has a free address",
    OtherServer Request "other_server" "the client has chosen another DHCP server",
    NoAddress Request "no_address" "the message names no address, or another one than the client has",
    NoLease Request "no_lease" "the client has no lease of this address",
    TooLong Request "too_long" "the answer is longer than the client or the link accepts",
    NodeRefused Store "node_refused" "the node does not take the session of this subscriber: its table is full, another session is in the way, or its text says otherwise",
    Superseded Store "superseded" "the client repeated its request before its record was stored; one answer follows",
    NotStored Store "not_stored" "the record could not be written to disk",
    SessionEnded Store "session_ended" "the session ended before its record was stored",
}

/// A number of frames for each reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops([0; DropReason::ALL.len()])
    }
}

impl Index<DropReason> for Drops {
    type Output = u64;

    fn index(&self, reason: DropReason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl AddAssign<DropReason> for Drops {
    fn add_assign(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
}

impl Drops {
    /// The reasons that occurred, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().map(|&reason| (reason, self[reason])).filter(|(_, frames)| *frames > 0)
    }

    /// All frames.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}
