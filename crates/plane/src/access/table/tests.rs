use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::*;
use crate::address::words_of;
use crate::frame::PortId;
use crate::random::Random;
use crate::tags::Tags;

fn line(n: u16) -> Line {
    let mac = [2, 0, 0, 0, 0, (n % 3) as u8];
    Line { port: PortId(n % 2), tags: Tags { outer: 1 + n % 5, inner: n % 7 }, mac, pppoe_session: n / 105 }
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn to(table: &Subscribers, address: &str) -> Subscriber {
    table.lookup_to(words_of(address.parse().expect("an address")))
}

#[test]
fn subscribers_are_found_by_line_and_by_the_longest_prefix() {
    let mut table = Subscribers::with_seed(7);
    assert!(table.is_empty() && table.lookup_from(line(1)).is_none());
    let one = table.insert(line(1), vec![prefix("198.18.0.0/16"), prefix("2001:db8::/32")]).expect("one");
    let two = table.insert(line(2), vec![prefix("198.18.7.0/24"), prefix("198.18.9.9/32")]).expect("two");
    assert_eq!([one.index, two.index], [1, 2]);
    for (address, found) in [
        ("198.18.0.1", one),
        ("198.18.7.1", two),
        ("198.18.9.9", two),
        ("198.18.9.8", one),
        ("2001:db8::1", one),
        ("2001:db9::1", Subscriber::NONE),
        ("198.19.0.1", Subscriber::NONE),
        // The words of 198.18.0.1 without what says that it is of IPv4.
        ("::c612:1", Subscriber::NONE),
    ] {
        assert_eq!(to(&table, address), found, "{address}");
    }
    assert_eq!((table.lookup_from(line(1)), table.lookup_from(line(2))), (one, two));
    for other in [
        Line { pppoe_session: 7, ..line(1) },
        Line { port: PortId(0), ..line(1) },
        Line { tags: Tags { outer: 2, inner: 0 }, ..line(1) },
        Line { mac: [2, 0, 0, 0, 1, 1], ..line(1) },
    ] {
        assert_eq!(table.lookup_from(other), Subscriber::NONE, "{other:?}");
    }
    assert_eq!(table.insert(line(1), Vec::new()), Err(Taken::Line));
    let taken = table.insert(line(3), vec![prefix("192.0.2.1/32"), prefix("198.18.7.5/24")]);
    assert_eq!(taken, Err(Taken::Prefix(prefix("198.18.7.5/24"))));
    let twice = table.insert(line(3), vec![prefix("192.0.2.1/32"); 2]);
    assert_eq!(twice, Err(Taken::Prefix(prefix("192.0.2.1/32"))));
    assert_eq!(to(&table, "192.0.2.1"), Subscriber::NONE, "nothing has changed");
}

#[test]
fn an_index_rests_until_no_frame_names_it() {
    let mut table = Subscribers::with_seed(7);
    let one = table.insert(line(1), vec![prefix("198.18.0.1/32")]).expect("one");
    assert!(table.remove(one, 100) && !table.remove(one, 100));
    assert!(table.is_empty() && table.line(one).is_none() && to(&table, "198.18.0.1").is_none());
    table.change(None, None, 100 + REST_EPOCHS - 1);
    let again = table.insert(line(1), vec![prefix("198.18.0.1/32")]).expect("again");
    assert_eq!(again, Subscriber { index: 2, generation: 0 }, "the first index rests");
    table.change(None, None, 100 + REST_EPOCHS);
    let other = table.insert(line(2), Vec::new()).expect("another");
    assert_eq!(other, Subscriber { index: 1, generation: 1 });
    assert!(table.line(one).is_none(), "a frame that names the old one names none");
    assert_eq!(table.line(other), Some(line(2)));
}

fn session(number: u64, n: u16, prefixes: &[&str], from_bits_per_s: u64) -> AccessSession {
    let prefixes = prefixes.iter().map(|text| prefix(text)).collect();
    AccessSession {
        session: number,
        revision: 7,
        line: line(n),
        prefixes,
        from_bits_per_s,
        ..AccessSession::default()
    }
}

/// Sends a packet to an address, of which 86 bytes are of IP.
fn send_to(table: &mut Subscribers, address: &str) -> Result<Line, Denied> {
    let packet =
        crate::scenario::packet(&format!("udp 198.51.100.9:53 > {address}:1 len 58")).expect("a packet");
    let mut buf = [&[0; crate::frame::HEAD_ROOM][..], &[2; 12], &[8, 0], &packet].concat();
    let end = buf.len();
    let mut frame = Frame::new(&mut buf, crate::frame::HEAD_ROOM, end, PortId(9));
    frame.read(12).expect("readable");
    frame.subscriber = to(table, address);
    table.send_to(Time::default(), &mut frame)
}

#[test]
fn a_session_that_is_replaced_goes_on_counting() {
    let mut table = Subscribers::with_seed(7);
    let mut old = session(5, 1, &["198.18.0.1/32"], 0);
    table.change(None, Some(&old), 0);
    assert_eq!(send_to(&mut table, "198.18.0.1"), Ok(line(1)));
    let counted = Traffic { frames: 1, bytes: 100 + 4 * line(1).tags.count() as u64 };
    for (new, index) in [
        (session(5, 1, &["198.18.0.1/32"], 1000), 1),
        (session(5, 2, &["198.18.0.1/32"], 1000), 2),
        (session(5, 2, &["198.18.0.1/32", "198.18.1.0/24"], 0), 3),
    ] {
        table.change(Some(&old), Some(&new), 0);
        let shown = table.shown_one(index).expect("it has this index");
        assert_eq!((shown.session, shown.bits_per_s), (5, [new.from_bits_per_s, 0]));
        assert_eq!(shown.traffic, [Traffic::default(), counted]);
        assert_eq!((shown.line, shown.prefixes), (new.line, &new.prefixes[..]));
        old = new;
    }
    table.change(Some(&old), None, 0);
    assert!(table.is_empty() && (1..table.end()).all(|index| table.shown_one(index).is_none()));
}

/// What a list that is searched from end to end says.
#[derive(Default)]
struct Model {
    live: HashMap<u32, (Subscriber, Line, Vec<Prefix>)>,
    resting: Vec<(u32, u64)>,
    /// All that were ever removed.
    gone: Vec<Subscriber>,
}

impl Model {
    fn from(&self, line: Line) -> Subscriber {
        let found = self.live.values().find(|(_, other, _)| *other == line);
        found.map_or(Subscriber::NONE, |(subscriber, _, _)| *subscriber)
    }

    fn to(&self, address: IpAddr) -> Subscriber {
        let all = self.live.values().flat_map(|(subscriber, _, prefixes)| {
            prefixes.iter().map(move |prefix| (prefix.len, *prefix, *subscriber))
        });
        let best = all.filter(|(_, prefix, _)| prefix.contains(address)).max_by_key(|(len, _, _)| *len);
        best.map_or(Subscriber::NONE, |(_, _, subscriber)| subscriber)
    }

    fn owns(&self, prefix: Prefix) -> bool {
        self.live.values().any(|(_, _, all)| all.iter().any(|other| other.network() == prefix.network()))
    }
}

#[test]
fn the_table_agrees_with_a_list() {
    for seed in 1..=6 {
        let (mut table, mut model) = (Subscribers::with_seed(seed), Model::default());
        let (mut random, mut epoch) = (Random(seed), 0);
        for step in 0..3000 {
            let what = format!("seed {seed}, step {step}");
            let address = |random: &mut Random| Ipv4Addr::from(0xc612_0000 | random.below(64) as u32);
            match random.below(5) {
                0 | 1 => {
                    let of = line(random.below(210) as u16);
                    let some = random.below(3);
                    let prefixes: Vec<Prefix> = (0..some)
                        .map(|_| Prefix {
                            address: address(&mut random).into(),
                            len: 26 + random.below(7) as u8,
                        })
                        .collect();
                    let is_twice = prefixes.len() == 2 && prefixes[0].network() == prefixes[1].network();
                    let is_free = model.from(of).is_none()
                        && !is_twice
                        && !prefixes.iter().any(|prefix| model.owns(*prefix));
                    match table.insert(of, prefixes.clone()) {
                        Ok(new) => {
                            assert!(
                                is_free && !model.resting.iter().any(|(index, _)| *index == new.index),
                                "{what}: {new:?}"
                            );
                            assert!(
                                !model.gone.contains(&new) && !model.live.contains_key(&new.index),
                                "{what}"
                            );
                            model.live.insert(new.index, (new, of, prefixes));
                        }
                        Err(taken) => assert!(!is_free, "{what}: {taken}"),
                    }
                }
                2 => {
                    let mut all: Vec<u32> = model.live.keys().copied().collect();
                    all.sort_unstable();
                    if let Some(&index) = all.get(random.below(all.len().max(1) as u64) as usize) {
                        let (subscriber, _, _) = model.live.remove(&index).expect("it is there");
                        assert!(table.remove(subscriber, epoch), "{what}");
                        model.resting.push((index, epoch));
                        model.gone.push(subscriber);
                    }
                }
                3 if random.below(4) == 0 => {
                    epoch += random.below(REST_EPOCHS);
                    table.change(None, None, epoch);
                    model.resting.retain(|(_, since)| since + REST_EPOCHS > epoch);
                }
                _ => {}
            }
            let (of, at) = (line(random.below(210) as u16), address(&mut random));
            assert_eq!(table.lookup_from(of), model.from(of), "{what}");
            assert_eq!(table.lookup_to(words_of(at.into())), model.to(at.into()), "{what}: {at}");
            for (subscriber, of, _) in model.live.values() {
                assert_eq!(table.line(*subscriber), Some(*of), "{what}");
            }
            // A generation comes again after 256 others.
            let gone = model.gone.iter().rev().take(200);
            gone.for_each(|subscriber| assert!(table.line(*subscriber).is_none(), "{what}"));
        }
        assert!(model.gone.len() > 300, "seed {seed}: {} were removed", model.gone.len());
    }
}
