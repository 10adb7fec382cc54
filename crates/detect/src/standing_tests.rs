use super::*;
use crate::announce::tests::start;

const HOUR: Duration = Duration::from_secs(3600);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn event(kind: Kind, attack: u64) -> Event {
    Event { event: kind, attack, ..start(&format!("198.18.0.{attack}"), 1.0) }
}

fn standing(max: usize, never: &[&str]) -> Standing {
    let never = never.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
    Standing::new(Announce { max, lifetime: HOUR, never, ..Announce::for_tests() })
}

impl Standing {
    /// Everything that is due is carried out: the verb of each command, and the last number of its address.
    fn carry(&mut self, success: bool, now: Duration) -> String {
        let mut said = Vec::new();
        while let Some(order) = self.next(now) {
            let words: Vec<_> = order.command.split(' ').collect();
            let host = words[6].trim_end_matches("/32").rsplit('.').next().expect("an address");
            said.push(format!("{} {host}", words[5]));
            self.carried_out(&order, success, now);
        }
        said.join(", ")
    }
}

fn withheld(standing: &mut Standing, kind: Kind, attack: u64) -> Option<String> {
    standing.take(&event(kind, attack), at(0)).and_then(|decision| decision.withheld)
}

#[test]
fn an_attack_is_announced_once_and_withdrawn_at_its_end() {
    let mut standing = standing(9, &[]);
    let decision = standing.take(&event(Kind::Start, 1), at(0)).expect("an announcement");
    assert_eq!(decision.withheld, None);
    assert_eq!(
        decision.command,
        "gobgp global rib -a ipv4 add 198.18.0.1/32 nexthop 192.0.2.1 community 65535:666"
    );
    assert_eq!(standing.take(&event(Kind::Update, 1), at(1)), None);
    assert_eq!((standing.carry(true, at(1)), standing.carry(true, at(2))), ("add 1".into(), String::new()));
    let decision = standing.take(&event(Kind::End, 1), at(3)).expect("a withdrawal");
    assert_eq!(decision.command, "gobgp global rib -a ipv4 del 198.18.0.1/32");
    assert_eq!((standing.is_empty(), standing.carry(true, at(3))), (false, "del 1".into()));
    assert!(standing.is_empty() && standing.wakes().is_none());
    assert_eq!(standing.take(&event(Kind::End, 1), at(4)), None);
}

#[test]
fn a_withdrawal_is_repeated_until_it_succeeds_and_is_kept_until_then() {
    let mut standing = standing(9, &[]);
    standing.take(&event(Kind::Start, 1), at(0));
    standing.carry(true, at(0));
    standing.take(&event(Kind::End, 1), at(10));
    let mut tried = Vec::new();
    for second in 10..400 {
        if !standing.carry(false, at(second)).is_empty() {
            tried.push(second - 10);
        }
        assert_eq!(standing.kept().len(), 1);
    }
    assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363]);
    assert_eq!((standing.carry(true, at(1000)), standing.kept()), ("del 1".into(), vec![]));
}

#[test]
fn an_announcement_is_repeated_as_long_as_its_attack_goes_on() {
    let mut standing = standing(9, &[]);
    standing.take(&event(Kind::Start, 1), at(0));
    assert_eq!(standing.carry(false, at(0)), "add 1");
    assert_eq!(standing.wakes(), Some(at(1)));
    assert_eq!(standing.carry(false, at(1)), "add 1");
    // It may have arrived after all.
    standing.take(&event(Kind::End, 1), at(2));
    assert_eq!(standing.carry(true, at(2)), "del 1");
    // One that no daemon has ever heard of is forgotten.
    standing.take(&event(Kind::Start, 2), at(3));
    standing.take(&event(Kind::End, 2), at(3));
    assert!(standing.is_empty());
}

#[test]
fn what_has_failed_waits_behind_what_is_new() {
    let mut standing = standing(9, &[]);
    standing.take(&event(Kind::Start, 1), at(0));
    standing.carry(false, at(0));
    standing.take(&event(Kind::Start, 2), at(5));
    assert_eq!(standing.carry(true, at(5)), "add 2, add 1");
}

#[test]
fn an_attack_that_comes_back_while_its_withdrawal_is_under_way_is_announced_behind_it() {
    let mut standing = standing(9, &[]);
    standing.take(&event(Kind::Start, 1), at(0));
    standing.carry(true, at(0));
    standing.take(&event(Kind::End, 1), at(1));
    let order = standing.next(at(1)).expect("a withdrawal");
    standing.take(&event(Kind::Start, 1), at(1));
    standing.carried_out(&order, true, at(1));
    assert_eq!((standing.carry(true, at(1)), standing.kept().len()), ("add 1".into(), 1));
    // And the other way round.
    standing.take(&event(Kind::End, 1), at(2));
    standing.carry(true, at(2));
    standing.take(&event(Kind::Start, 1), at(3));
    let order = standing.next(at(3)).expect("an announcement");
    standing.take(&event(Kind::End, 1), at(3));
    standing.carried_out(&order, true, at(3));
    assert_eq!((standing.carry(true, at(3)), standing.is_empty()), ("del 1".into(), true));
}

#[test]
fn no_more_are_announced_than_allowed_and_one_waits_for_room() {
    let mut standing = standing(2, &[]);
    assert_eq!([1, 2].map(|attack| withheld(&mut standing, Kind::Start, attack)), [None, None]);
    let reported = withheld(&mut standing, Kind::Start, 3).expect("no room");
    assert_eq!(reported, "2 are announced already: announce.max");
    // It was reported once.
    assert_eq!(standing.take(&event(Kind::Update, 3), at(0)), None);
    assert_eq!(standing.carry(true, at(0)), "add 1, add 2");
    // What is still in place takes room, too.
    standing.take(&event(Kind::End, 1), at(1));
    assert_eq!(
        (standing.take(&event(Kind::Update, 3), at(1)), standing.carry(true, at(1))),
        (None, "del 1".into())
    );
    assert!(standing.take(&event(Kind::Update, 3), at(2)).is_some());
    assert_eq!(standing.carry(true, at(2)), "add 3");
}

/// Announcements that holds for a minute.
fn holding() -> Standing {
    let hold = Duration::from_secs(60);
    Standing::new(Announce { hold, lifetime: HOUR, ..Announce::for_tests() })
}

#[test]
fn an_announcement_is_held_behind_the_end_of_its_attack_which_it_may_hide() {
    let mut standing = holding();
    standing.take(&event(Kind::Start, 1), at(0));
    standing.carry(true, at(0));
    let held = standing.take(&event(Kind::End, 1), at(10)).expect("a decision");
    assert_eq!(held.withheld.as_deref(), Some("held for 60 s: announce.hold_s"));
    assert_eq!(standing.take(&event(Kind::End, 1), at(11)), None);
    assert_eq!(
        (standing.carry(true, at(69)), standing.wakes(), standing.counts().held),
        (String::new(), Some(at(70)), 1)
    );
    // An attack on the same host meanwhile is announced already.
    assert_eq!(standing.take(&event(Kind::Start, 1), at(69)).expect("a decision").withheld, None);
    assert_eq!(
        (standing.carry(true, at(69)), standing.expire(at(70)).len(), standing.counts().wanted),
        (String::new(), 0, 1)
    );
    standing.take(&event(Kind::End, 1), at(80));
    assert_eq!(standing.expire(at(139)), []);
    let expired = standing.expire(at(140));
    assert!(matches!(&expired[..], [(_, "announce.hold_s")]), "{expired:?}");
    assert_eq!((standing.carry(true, at(140)), standing.is_empty()), ("del 1".into(), true));
}

#[test]
fn an_attack_that_comes_back_at_once_is_held_for_twice_as_long() {
    let mut standing = holding();
    let (mut now, mut held) = (0, Vec::new());
    for _ in 0..9 {
        standing.take(&event(Kind::Start, 1), at(now));
        standing.carry(true, at(now));
        standing.take(&event(Kind::End, 1), at(now + 1));
        let over = standing.wakes().expect("it is held").as_secs();
        held.push(over - now - 1);
        assert_eq!(standing.expire(at(over)).len(), 1);
        standing.carry(true, at(over));
        now = over + 5;
    }
    // No longer than an announcement lives.
    assert_eq!(held, [60, 120, 240, 480, 960, 1920, 3599, 3599, 3599]);
    // One that stays away for that time begins anew.
    standing.take(&event(Kind::Start, 1), at(now + 3600));
    standing.carry(true, at(now + 3600));
    standing.take(&event(Kind::End, 1), at(now + 3600));
    assert_eq!(standing.wakes(), Some(at(now + 3660)));
    // The end of the attacks would not be seen: nothing is held.
    standing.withdraw_all(at(now + 3601));
    assert_eq!((standing.carry(true, at(now + 3601)), standing.is_empty()), ("del 1".into(), true));
}

#[test]
fn what_a_daemon_does_not_take_is_counted() {
    let mut standing = standing(9, &[]);
    standing.take(&event(Kind::Start, 1), at(0));
    standing.carry(true, at(0));
    standing.take(&event(Kind::End, 1), at(1));
    for second in 1..200 {
        standing.carry(false, at(second));
    }
    let counts = standing.counts();
    assert_eq!((counts.to_be_withdrawn, counts.failing, counts.tries), (1, 1, 9));
    standing.carry(true, at(300));
    assert_eq!(standing.counts(), Announcements::default());
}

#[test]
fn what_is_on_the_never_list_is_not_announced() {
    let mut standing = standing(9, &["198.18.0.4/30", "2001:db8::/32"]);
    for (attack, never) in [(3, false), (4, true), (7, true), (8, false)] {
        let reported = withheld(&mut standing, Kind::Start, attack);
        let expected = never.then(|| "198.18.0.4/30 is never announced: announce.never".to_string());
        assert_eq!(reported, expected, "{attack}");
    }
    assert_eq!(standing.carry(true, at(0)), "add 3, add 8");
}

#[test]
fn an_announcement_has_a_lifetime_and_an_attack_that_goes_on_gets_another() {
    let mut standing = standing(9, &[]);
    standing.take(&event(Kind::Start, 1), at(0));
    standing.carry(true, at(0));
    assert_eq!((standing.wakes(), standing.expire(at(3599))), (Some(HOUR), vec![]));
    let expired = standing.expire(HOUR);
    assert!(
        matches!(&expired[..], [(one, "announce.lifetime_s")] if one.contains(" del 198.18.0.1/32")),
        "{expired:?}"
    );
    assert_eq!((standing.carry(true, HOUR), standing.is_empty()), ("del 1".into(), true));
    let again = HOUR + at(10);
    assert!(standing.take(&event(Kind::Update, 1), again).is_some());
    assert_eq!((standing.carry(true, again), standing.expire(HOUR + HOUR)), ("add 1".into(), vec![]));
    assert!(standing.take(&event(Kind::End, 1), HOUR + HOUR).is_some());
}

#[test]
fn what_an_ended_program_left_in_place_is_withdrawn_and_takes_room_until_then() {
    let mut before = standing(9, &[]);
    (1..=3).for_each(|attack| {
        before.take(&event(Kind::Start, attack), at(0));
    });
    before.carry(true, at(0));
    let mut after = standing(3, &[]);
    after.withdraw_kept(before.kept());
    assert!(withheld(&mut after, Kind::Start, 4).is_some(), "three are in place");
    // One of them is attacked again.
    assert_eq!(withheld(&mut after, Kind::Start, 2), None);
    assert_eq!(after.carry(true, at(0)), "del 1, add 2, del 3");
    assert_eq!(after.kept().len(), 1);
    after.withdraw_all(at(1));
    assert_eq!((after.carry(true, at(1)), after.is_empty()), ("del 2".into(), true));
}
