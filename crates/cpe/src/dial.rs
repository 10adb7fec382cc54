//! The packets of PPPoE discovery that a device sends (RFC 2516, section 5), and its side of PPP.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::arithmetic_side_effects)]

use weir_bng::ppp::auth::Password;
use weir_bng::ppp::auth::supplicant::Login;
use weir_bng::ppp::endpoint::Role;
use weir_bng::ppp::negotiation::Timers;
use weir_bng::pppoe::MAX_PAYLOAD;
use weir_bng::pppoe::discovery::{Code, Discovery};
use weir_bng::pppoe::line_tag::LineTag;
use weir_bng::pppoe::tags::{
    AC_COOKIE, AC_SYSTEM_ERROR, GENERIC_ERROR, HOST_UNIQ, PPP_MAX_PAYLOAD, RELAY_SESSION_ID, SERVICE_NAME,
    SERVICE_NAME_ERROR, TagList,
};
use weir_bng::{Mac, interface_id};

use crate::options::{Options, Pppoe, Template};

/// Most bytes of an identifier of a line (TR-101, R-122).
const MOST_ID_BYTES: usize = 63;

/// Host-Uniq of a device: its number and that of its exchange.
fn host_uniq(number: u32, xid: u32) -> [u8; 8] {
    let [a, b, c, d] = number.to_be_bytes();
    let [e, f, g, h] = xid.to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

/// The PADI of a device, without VLAN tags.
pub(crate) fn padi(options: &Options, pppoe: &Pppoe, number: u32, xid: u32) -> Option<Vec<u8>> {
    let mut tags = TagList::default();
    push_request(options, pppoe, number, xid, &mut tags);
    let src = options.mac(number);
    Discovery { dst: Mac::BROADCAST, src, code: Code::Padi, session_id: 0, tags }.write()
}

/// The PADR that follows an offer of this concentrator.
pub(crate) fn padr(
    options: &Options,
    pppoe: &Pppoe,
    number: u32,
    xid: u32,
    concentrator: Mac,
    offer: &TagList,
) -> Option<Vec<u8>> {
    let mut tags = TagList::default();
    push_request(options, pppoe, number, xid, &mut tags);
    for kind in [AC_COOKIE, RELAY_SESSION_ID] {
        offer.all(kind).take(1).for_each(|value| tags.push(kind, value));
    }
    let src = options.mac(number);
    Discovery { dst: concentrator, src, code: Code::Padr, session_id: 0, tags }.write()
}

/// The PADT of a session.
pub(crate) fn padt(src: Mac, dst: Mac, session_id: u16) -> Option<Vec<u8>> {
    Discovery { dst, src, code: Code::Padt, session_id, tags: TagList::default() }.write()
}

fn push_request(options: &Options, pppoe: &Pppoe, number: u32, xid: u32, tags: &mut TagList) {
    tags.push(SERVICE_NAME, pppoe.service.as_bytes());
    tags.push(HOST_UNIQ, &host_uniq(number, xid));
    if pppoe.max_payload > MAX_PAYLOAD {
        tags.push(PPP_MAX_PAYLOAD, &pppoe.max_payload.to_be_bytes());
    }
    let id = |template: &Option<Template>| {
        let text = template.as_ref()?.of(number, options.mac(number), options.lines.tags(number));
        Some(text.into_iter().take(MOST_ID_BYTES).collect())
    };
    let known = |kbit_per_s: u32| Some(kbit_per_s).filter(|kbit_per_s| *kbit_per_s > 0);
    let line = LineTag {
        circuit_id: id(&options.circuit),
        remote_id: id(&options.remote),
        up_kbit_per_s: known(options.line_rates.up_kbit_per_s),
        down_kbit_per_s: known(options.line_rates.down_kbit_per_s),
    };
    if line != LineTag::default() {
        line.write(tags);
    }
}

/// Whether an answer is of this exchange, and no error.
pub(crate) fn is_answer(packet: &Discovery, number: u32, xid: u32) -> bool {
    let errors = [SERVICE_NAME_ERROR, AC_SYSTEM_ERROR, GENERIC_ERROR];
    is_of(packet, number, xid) && errors.iter().all(|error| packet.tags.get(*error).is_none())
}

/// Whether an answer is of this exchange.
pub(crate) fn is_of(packet: &Discovery, number: u32, xid: u32) -> bool {
    packet.tags.get(HOST_UNIQ) == Some(&host_uniq(number, xid))
}

/// Largest payload of both sides (RFC 4638).
pub(crate) fn max_mru(pads: &Discovery, pppoe: &Pppoe) -> u16 {
    let offered = pads.tags.get(PPP_MAX_PAYLOAD).and_then(|value| value.try_into().ok());
    offered.map_or(MAX_PAYLOAD, u16::from_be_bytes).clamp(MAX_PAYLOAD, pppoe.max_payload.max(MAX_PAYLOAD))
}

/// A device's side of PPP.
pub(crate) fn role(options: &Options, pppoe: &Pppoe, number: u32) -> Role {
    let (mac, tags) = (options.mac(number), options.lines.tags(number));
    let name = pppoe.login.of(number, mac, tags).into_boxed_slice();
    let password = Password::new(&pppoe.password.of(number, mac, tags));
    Role::Client {
        login: Login { name, password },
        methods: pppoe.methods.clone(),
        interface_id: pppoe.dual_stack.then(|| interface_id(mac)),
    }
}

/// The timers of PPP.
pub(crate) fn timers(options: &Options) -> Timers {
    Timers { restart: options.timeout, max_configure: options.tries, ..Timers::default() }
}
