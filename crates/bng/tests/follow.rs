//! Clients that an operator follows, by MAC address, line or login: what they said, without what is secret.

use std::time::Duration;

use weir_bng::ppp::auth::Method;
use weir_bng::{Command, Direction, DropReason, Watched, Whom, decode};

use crate::ipv6::{POOL, with_ipv6};
use crate::pppoe::{TEXT, World, device, device_with};

fn lines(watched: &[Watched]) -> String {
    let line = |Watched { frame, .. }: &Watched| {
        let way = if frame.direction == Direction::FromSubscriber { '>' } else { '<' };
        format!("{way} {}\n", decode(&frame.bytes))
    };
    // What is drawn by lot is of no interest.
    let drawn = |before: &str, word: &str| matches!(before, "magic" | "session") && word != "*";
    let mut text = String::new();
    for line in watched.iter().map(line) {
        let mut before = String::new();
        for word in line.split_whitespace() {
            text.push_str(if drawn(&before, word) { "*" } else { word });
            text.push(' ');
            before = word.into();
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn has(watched: &[Watched], secret: &[u8]) -> bool {
    watched.iter().any(|one| one.frame.bytes.windows(secret.len()).any(|bytes| bytes == secret))
}

#[test]
fn a_client_with_pap_is_followed_from_its_padi_to_its_prefix_without_its_password() {
    let anna = with_ipv6(device_with(1, "anna@isp", "secret", Method::Pap), 1);
    let mut world = World::of(&format!("{POOL}, {TEXT}"), vec![anna]);
    let mac = world.devices[0].mac();
    let line = world.devices[0].line.clone();
    let all = [Whom::Mac(mac), Whom::Line(line), Whom::Login("anna@isp".into())];
    all.iter().for_each(|whom| world.command(Command::Watch(whom.clone())));
    world.dial(0);
    let followed = all.map(|whom| world.bng.watched(&whom, 0));
    assert_eq!(lines(&followed[0]), lines(&followed[1]));
    assert_eq!(lines(&followed[0]), lines(&followed[2]), "a login gets what was before it, too");
    assert!(!has(&followed[0], b"secret") && has(&followed[0], b"anna@isp"));
    weir_testkit::golden!("tests/follow.txt", &lines(&followed[0]));
    let last = followed[0].last().expect("a frame").number;
    assert!(world.bng.watched(&Whom::Mac(mac), last).is_empty());
}

#[test]
fn responses_of_chap_are_not_kept() {
    for method in [Method::ChapMd5, Method::MsChapV2] {
        let mut world = World::new(vec![device_with(1, "anna@isp", "secret", method)]);
        let whom = Whom::Mac(world.devices[0].mac());
        world.command(Command::Watch(whom.clone()));
        world.dial(0);
        let watched = world.bng.watched(&whom, 0);
        let response = watched.iter().find(|one| decode(&one.frame.bytes).starts_with("CHAP Response"));
        let bytes = &response.expect("a response").frame.bytes;
        let len = usize::from(bytes[26]);
        assert!(len >= 16 && bytes[27..27 + len].iter().all(|byte| *byte == 0), "{method:?}");
        let why = world.bng.why_mac(world.devices[0].mac());
        assert!(why.frames.iter().any(|frame| frame.bytes == *bytes), "the frames of `why` are the same");
    }
}

#[test]
fn why_finds_a_client_by_its_login_and_counts_what_it_was_refused_for() {
    let mut world = World::new(vec![device(1, "anna@isp", "wrong")]);
    for _ in 0..3 {
        world.dial(0);
        world.run(Duration::from_secs(60));
    }
    let why = world.bng.why_login("anna@isp").expect("it is known");
    assert_eq!(why.reason, DropReason::WrongPassword.meaning());
    assert_eq!(why.subscriber.as_ref().map(ToString::to_string).as_deref(), Some("anna"));
    assert_eq!((why.login.as_deref(), why.drops), (Some("anna@isp"), vec![(DropReason::WrongPassword, 3)]));
    assert_eq!(why.device, Some((world.devices[0].line.clone(), world.devices[0].mac())));
    assert!(why.at.is_some_and(|at| at > Duration::from_secs(120) && at < world.now));
    // A login that was never given, of a subscriber; and one that there is not.
    let ben = world.bng.why_login("ben@isp").expect("a subscriber has it");
    assert_eq!(ben.reason, "no frame from login ben@isp has come in");
    assert!(world.bng.why_login("nobody").is_none());
}
