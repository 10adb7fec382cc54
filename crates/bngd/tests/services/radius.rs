//! Devices dial in through a node and are known to Debian's FreeRADIUS: each method, what an Accept gives, what a Reject says, answers
//! with and without Message-Authenticator, servers that end and return, servers of realms.

use std::net::Ipv4Addr;

use weir_bng::api::{Plan, SubscriberState, Why};
use weir_bng::ppp::auth::Method;
use weir_cpe::{Mac, Options};
use weir_testkit::wires::set_up;

use crate::device::{Outcome, dial, dial_all, dial_until};
use crate::freeradius::{Authenticator, FreeRadius, Setup, is_installed};
use crate::restart::{Rig, TEXT, options};

const USERS: &str = r#"anna Cleartext-Password := "hello"
	Framed-IP-Address = 100.64.5.9, Mikrotik-Rate-Limit = "5M/20M 6M/22M"
wispr Cleartext-Password := "hello"
	WISPr-Bandwidth-Max-Up = 5000000, WISPr-Bandwidth-Max-Down = 30000000
cisco Cleartext-Password := "hello"
	Cisco-AVPair = "ip:vrf-id=none", Cisco-AVPair += "ip:sub-qos-policy-out=gold"
erx Cleartext-Password := "hello"
	ERX-Qos-Profile-Name = "gold"
huawei Cleartext-Password := "hello"
	Huawei-Input-Average-Rate = 4000000, Huawei-Output-Average-Rate = 40000000
filter Cleartext-Password := "hello"
	Filter-Id = "50000/6000"
named Cleartext-Password := "hello"
	Filter-Id = "gold"
any Cleartext-Password := "hello"
	Framed-IP-Address = 255.255.255.254
wrongplan Cleartext-Password := "hello"
	Filter-Id = "silver"
02:00:07:00:00:00 Cleartext-Password := "02:00:07:00:00:00"
	Framed-IP-Address = 100.64.5.77, Mikrotik-Rate-Limit = "5M/20M", Session-Timeout = 600
02:00:07:00:00:01 Auth-Type := Reject
DEFAULT Cleartext-Password := "pw"
"#;

/// A rig whose program asks these servers, each with the secret of its name; their processes.
fn rig(radius: &str, setups: &[Setup<'_>]) -> Option<(Rig, Vec<FreeRadius>)> {
    if !is_installed() {
        return None;
    }
    let text = TEXT.replace(
        "limit subscriber 1000",
        &format!("plan gold down 70Mbit up 7Mbit, limit subscriber 1000, {radius}"),
    );
    let rig = Rig::of(&text)?;
    set_up((&rig.bng, "lo"), true);
    let servers = setups.iter().map(|setup| FreeRadius::start(&rig.bng, &rig.folder, setup)).collect();
    for setup in setups {
        rig.folder.file(&format!("{}.secret", setup.name), setup.secret);
    }
    rig.hang_up();
    rig.until("the servers are read", |rig| rig.log().contains("the file was read again"));
    Some((rig, servers))
}

const PPPOE: &str = "pppoe auth chap-md5 ms-chapv2 pap";

/// What the program says of the device that dialled last.
fn why(rig: &Rig) -> String {
    rig.get::<Why>("/v1/why/line/access1").map(|why| why.reason).unwrap_or_default()
}

#[test]
fn pppoe_logins_by_each_method_and_the_plans_of_accepts() {
    let radius =
        format!("{PPPOE}, radius one 127.0.0.1:1812 secret-file one.secret ports 2 require plan basic");
    let Some((rig, _servers)) = rig(&radius, &[Setup::new("one", 1812, USERS)]) else { return };
    for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
        let given = Ipv4Addr::new(100, 64, 5, 9);
        assert_eq!(dial(&rig, "anna", "hello", method), Outcome::Up(given), "{method:?}: {}", rig.log());
        let refused = dial(&rig, "anna", "hellO", method);
        assert!(
            matches!(&refused, Outcome::Refused(text) if text.contains("call 555")),
            "{method:?}: {refused:?}"
        );
        assert!(why(&rig).contains("a RADIUS server has rejected the login"), "{}", why(&rig));
    }
    let gold = || Plan::Named("gold".into());
    let own = |down: u64, up: u64| {
        Plan::Own(weir_bng::api::OwnRates {
            down_bits_per_s: down * 1_000_000,
            up_bits_per_s: up * 1_000_000,
        })
    };
    let expected = [
        ("anna", own(20, 5)),
        ("wispr", own(30, 5)),
        ("cisco", gold()),
        ("erx", gold()),
        ("huawei", own(40, 4)),
        ("filter", own(50, 6)),
        ("named", gold()),
        ("any", Plan::Named("basic".into())),
    ];
    for (name, plan) in expected {
        assert!(
            matches!(dial(&rig, name, "hello", Method::ChapMd5), Outcome::Up(_)),
            "{name}: {}",
            why(&rig)
        );
        let found =
            rig.get::<SubscriberState>(&format!("/v1/subscribers/{name}")).map(|all| all.subscriber.plan);
        assert_eq!(found, Some(plan), "{name}");
    }
    assert!(matches!(dial(&rig, "wrongplan", "hello", Method::Pap), Outcome::Refused(_)));
    assert!(why(&rig).contains("a plan that there is not"), "{}", why(&rig));
}

/// By the MAC address: one that the server knows, one that it rejects by name, and one without an entry.
#[test]
fn dhcp_clients_by_their_mac_address() {
    let radius =
        "dhcp-radius password {mac}, radius one 127.0.0.1:1812 secret-file one.secret require plan basic";
    let Some((rig, servers)) = rig(radius, &[Setup::new("one", 1812, USERS)]) else { return };
    let first_mac = Mac([2, 0, 7, 0, 0, 0]);
    rig.emulate(Options { first_mac, devices: 3, tries: 3, ..options() }).end();
    let sessions = rig.agree("the first one is up");
    let [session] = &*sessions else { panic!("{sessions:?} {}", rig.log()) };
    assert_eq!(session.address, Ipv4Addr::new(100, 64, 5, 77));
    let found =
        rig.get::<SubscriberState>("/v1/subscribers/02:00:07:00:00:00").map(|all| all.subscriber.plan);
    let own = weir_bng::api::OwnRates { down_bits_per_s: 20_000_000, up_bits_per_s: 5_000_000 };
    assert_eq!(found, Some(Plan::Own(own)));
    for mac in ["01", "02"] {
        let why = rig.get::<Why>(&format!("/v1/why/mac/02:00:07:00:00:{mac}")).expect("an answer");
        assert_eq!(why.reason, "a RADIUS server has rejected the login: call 555", "{why:?}");
    }
    // Each was asked for once.
    assert_eq!(servers[0].count("Login incorrect"), 2, "{}", servers[0].log());
    assert_eq!(servers[0].count("Login OK"), 1, "{}", servers[0].log());
}

/// Answers with Message-Authenticator at each place, and none; each server has a realm.
#[test]
fn pppoe_message_authenticators_secrets_and_realms() {
    let setup = |name, port, authenticator, requires_authenticator| Setup {
        authenticator,
        requires_authenticator,
        ..Setup::new(name, port, USERS)
    };
    let setups = [
        setup("none", 1812, Authenticator::None, false),
        setup("first", 1813, Authenticator::First, true),
        setup("last", 1814, Authenticator::Last, true),
    ];
    let server = |name: &str, port: u16, rest: &str| {
        format!("radius {name} 127.0.0.1:{port} secret-file {rest} realm {name} ports 1 plan basic")
    };
    let servers = [
        server("none", 1812, "none.secret"),
        server("first", 1813, "first.secret require"),
        server("last", 1814, "last.secret require"),
        server("strict", 1812, "none.secret require"),
        server("other", 1813, "other.secret"),
    ];
    let radius = format!("{PPPOE}, {}", servers.join(", "));
    let Some((rig, servers)) = rig(&radius, &setups) else { return };
    for (place, realm) in ["none", "first", "last"].iter().enumerate() {
        let name = format!("u@{realm}");
        for method in [Method::Pap, Method::ChapMd5, Method::MsChapV2] {
            let result = dial(&rig, &name, "pw", method);
            assert!(matches!(result, Outcome::Up(_)), "{name} {method:?}: {}", rig.log());
        }
        assert_eq!(servers[place].count(&format!("Login OK: [{name}")), 3, "{}", servers[place].log());
    }
    // A server without the attribute where it is required: no login, and the operator reads why.
    dial_until(
        &rig,
        "u@strict",
        ("bngd.log", "answers of RADIUS server strict are dropped: Message-Authenticator is missing"),
    );
    // Another secret than the server's; the right one takes effect without a restart (table 1.3, row 6).
    rig.write_and_reload("other.secret", "wrong");
    dial_until(&rig, "u@other", ("first/log", "Shared secret is incorrect"));
    rig.write_and_reload("other.secret", "of both sides");
    let result = dial(&rig, "u@other", "pw", Method::Pap);
    assert!(matches!(result, Outcome::Up(_)), "{}", rig.log());
}

#[test]
fn pppoe_a_server_that_is_killed_is_left_and_asked_again_when_it_returns() {
    let setups = [
        Setup::new("one", 1812, USERS),
        Setup { authenticator: Authenticator::None, ..Setup::new("two", 1813, USERS) },
    ];
    let servers = "radius one 127.0.0.1:1812 secret-file one.secret require status dead 1s plan basic, \
                   radius two 127.0.0.1:1813 secret-file two.secret dead 1s plan basic";
    let Some((rig, mut servers)) = rig(&format!("{PPPOE}, {servers}"), &setups) else { return };
    let is_up = |result: &Outcome| matches!(result, Outcome::Up(_));
    assert!(dial_all(&rig, "a", Method::ChapMd5, 1).iter().all(is_up));
    let one = servers.remove(0);
    assert_eq!((one.count("Login OK"), servers[0].count("Login OK")), (1, 0));
    drop(one);
    // The first ones find it out, and come online by the other server.
    let results = dial_all(&rig, "b", Method::ChapMd5, 8);
    assert!(results.iter().all(is_up), "{results:?}");
    rig.until("one is dead", |rig| rig.log().contains("RADIUS server one does not answer"));
    assert_eq!(servers[0].count("Login OK"), 8, "{}", servers[0].log());
    // The next ones do not wait for it.
    assert!(dial_all(&rig, "c", Method::ChapMd5, 8).iter().all(is_up));
    assert_eq!(servers[0].count("Login OK"), 16);
    let again = FreeRadius::start(&rig.bng, &rig.folder, &setups[0]);
    rig.until("one is alive", |rig| rig.log().contains("RADIUS server one answers again"));
    assert!(dial_all(&rig, "d", Method::ChapMd5, 1).iter().all(is_up));
    assert_eq!((again.count("Login OK"), servers[0].count("Login OK")), (1, 16));
    // Without any server a login is refused, and the next ones at once.
    drop((again, servers));
    assert!(!dial_all(&rig, "e", Method::ChapMd5, 8).iter().any(is_up));
    rig.until("two is dead", |rig| rig.log().contains("RADIUS server two does not answer"));
    assert!(why(&rig).contains("no RADIUS server has answered"), "{}", why(&rig));
    let _both = setups.each_ref().map(|setup| FreeRadius::start(&rig.bng, &rig.folder, setup));
    rig.until("one is alive once more", |rig| {
        rig.log().matches("RADIUS server one answers again").count() == 2
    });
    assert!(dial_all(&rig, "f", Method::ChapMd5, 1).iter().all(is_up));
}
