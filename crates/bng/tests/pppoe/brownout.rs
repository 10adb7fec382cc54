//! Logins while no RADIUS server answers.

use super::*;

const BROWN_OUT: &str =
    "radius one 192.0.2.9:1812 secret-file x plan basic, aaa local radius 5s, brown-out age 1h";
const GIVEN: &[(u8, &[u8])] =
    &[(number::FRAMED_IP_ADDRESS, &[100, 64, 0, 7]), (number::FILTER_ID, b"30000/7000")];
const CARL: (u8, &str) = (3, "carl@isp");

/// A world whose server has accepted carl; the server is silent from now on.
fn world(options: &str, method: Method) -> World {
    // The server of the tests knows PAP alone: another device with the same line and MAC address has told it.
    let device = device_with(CARL.0, CARL.1, "secret", Method::Pap);
    let mut world = World::of(&format!("{TEXT}, {BROWN_OUT}{options}"), vec![device]);
    world.radius = server(b"secret", GIVEN);
    world.dial(0);
    assert_eq!(world.online().len(), 1);
    world.devices[0] = device_with(CARL.0, CARL.1, "secret", method);
    world.radius = Box::new(|_| None);
    world
}

impl World {
    /// The device dials anew; whether it is online.
    fn redial(&mut self) -> bool {
        self.devices[0].client.reset();
        self.dial(0);
        self.run(Duration::from_secs(8));
        self.assert_counted();
        self.devices[0].address().is_some()
    }

    fn is_brown_out(&self) -> Vec<bool> {
        self.bng.sessions().map(|session| self.bng.is_brown_out(session)).collect()
    }
}

#[test]
fn a_known_login_comes_online_with_its_last_answer_and_is_marked() {
    let mut world = world("", Method::Pap);
    assert_eq!((world.is_brown_out(), world.bng.brown_out_logins()), (vec![false], 0));
    // The hash of its password is on disk, and the password is not.
    let answers: Vec<String> =
        world.disk.iter().map(ToString::to_string).filter(|record| record.contains(" answer ")).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].contains(" hash ") && !answers[0].contains("secret"), "{answers:?}");
    for restarts in [false, true] {
        if restarts {
            world.restart();
            world.say_servers();
        }
        assert!(world.redial(), "{}", world.bng.why_mac(world.devices[0].mac()));
        assert_eq!(world.online(), [("carl@isp".to_string(), Ipv4Addr::new(100, 64, 0, 7))]);
        assert_eq!(world.node[0].service.rates.down_bits_per_s, 30_000_000);
        assert_eq!((world.is_brown_out(), world.bng.brown_out_logins()), (vec![true], 1), "{restarts}");
    }
    // A server that answers again ends the mark.
    world.radius = server(b"secret", GIVEN);
    world.run(Duration::from_secs(61));
    assert!(world.redial());
    assert_eq!(world.is_brown_out(), [false]);
}

#[test]
fn a_wrong_password_an_unknown_login_and_an_old_answer_are_refused() {
    let mut world = world("", Method::Pap);
    world.restart();
    world.say_servers();
    world.devices[0] = device_with(CARL.0, CARL.1, "other", Method::Pap);
    assert!(!world.redial());
    assert_eq!(world.drops(DropReason::BrownOutPassword), 1);
    world.devices[0] = device_with(9, "emil@isp", "secret", Method::Pap);
    assert!(!world.redial());
    assert_eq!(world.drops(DropReason::RadiusNoAnswer), 1);
    world.devices[0] = device_with(CARL.0, CARL.1, "secret", Method::Pap);
    assert!(world.redial());
    world.run(Duration::from_secs(3600));
    assert!(!world.redial());
    assert_eq!(world.drops(DropReason::BrownOutAge), 1);
}

#[test]
fn chap_needs_the_same_line_and_mac_and_the_option() {
    let mut without = world("", Method::ChapMd5);
    assert!(!without.redial());
    assert_eq!(without.drops(DropReason::BrownOutChap), 1);
    let mut with = world(" chap", Method::ChapMd5);
    assert!(with.redial());
    with.devices[0] = device_with(4, CARL.1, "secret", Method::ChapMd5);
    assert!(!with.redial());
    assert_eq!(with.drops(DropReason::BrownOutChap), 1);
    let mut microsoft = world(" chap", Method::MsChapV2);
    assert!(!microsoft.redial());
    let why = microsoft.bng.why_mac(microsoft.devices[0].mac()).reason;
    assert!(why.contains("MS-CHAPv2 cannot be checked"), "{why}");
}

#[test]
fn a_login_that_a_server_has_rejected_since_is_refused() {
    let mut world = world("", Method::Pap);
    world.radius = server(b"changed", GIVEN);
    assert!(!world.redial());
    world.radius = Box::new(|_| None);
    assert!(!world.redial());
    assert_eq!((world.drops(DropReason::RadiusReject), world.drops(DropReason::BrownOutAge)), (1, 1));
}

#[test]
fn without_the_option_nothing_is_kept_and_nobody_comes_online() {
    let device = device_with(CARL.0, CARL.1, "secret", Method::Pap);
    let mut world = World::of(&format!("{TEXT}, {RADIUS}, aaa radius 5s"), vec![device]);
    world.radius = server(b"secret", GIVEN);
    world.dial(0);
    world.radius = Box::new(|_| None);
    assert!(!world.redial());
    assert_eq!(world.drops(DropReason::RadiusNoAnswer), 1);
    assert!(!world.disk.iter().any(|record| record.to_string().contains(" answer ")));
}

#[test]
fn passwords_here_count_behind_radius_when_it_is_silent() {
    for (order, answers, is_up) in [
        ("radius 5s local", None, true),
        ("radius 5s", None, false),
        ("local radius 5s", None, true),
        // A Reject is final.
        ("radius 5s local", Some(b"other"), false),
    ] {
        let text = format!("{TEXT}, radius one 192.0.2.9:1812 secret-file x plan basic, aaa {order}");
        let mut world = World::of(&text, vec![device_with(1, "anna@isp", "secret", Method::Pap)]);
        if let Some(password) = answers {
            world.radius = server(password, &[]);
        }
        assert_eq!(world.redial(), is_up, "{order} {answers:?}");
    }
}
