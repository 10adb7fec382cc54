//! Blocks and ports: who gets which, and when again.

use std::collections::HashSet;

use super::*;

struct Bench {
    pool: Pool,
    outside: Outside,
    secret: Secret,
    holdings: Vec<Holding>,
    now: Tick,
}

fn config() -> Config {
    Config {
        ports: vec![1024..=65535],
        block: 512,
        blocks: 1,
        parity: false,
        hold: Duration::from_secs(120),
        held: 1 << 20,
    }
}

fn bench(config: Config, addresses: u32, subscribers: usize) -> Bench {
    let (mut pool, mut outside) = (Pool::new(config), Outside::new());
    for n in 0..addresses {
        pool.add_address(outside.add(0xc000_0200 + n), 0);
    }
    let holdings = vec![Holding::default(); subscribers];
    Bench { pool, outside, secret: Secret::new(1), holdings, now: Tick(7) }
}

impl Bench {
    fn take(&mut self, subscriber: usize, space: Space, like: u16) -> Result<Place, Refusal> {
        let want = Want { space, like, subscriber: subscriber as u32 + 1 };
        let holding = &mut self.holdings[subscriber];
        let (place, _) = self.pool.take(holding, want, self.now, &self.outside, &mut self.secret)?;
        assert_eq!(self.outside.slot(place), 0, "nobody's until now");
        self.outside.take(place, 1);
        Ok(place)
    }

    fn give_back(&mut self, place: Place, at_once: AtOnce) {
        let rest = self.pool.give_back(place, self.now, at_once);
        self.outside.give_back(place, rest);
    }

    fn wait(&mut self, s: u64) {
        self.now.0 += Tick::count(Duration::from_secs(s));
        while let Some((owner, id)) = self.pool.rested(self.now) {
            self.pool.release(id, &mut self.holdings[owner as usize - 1]);
        }
    }
}

#[test]
fn a_block_is_used_up_and_not_one_port_more() {
    let mut bench = bench(config(), 1, 2);
    let mut taken = HashSet::new();
    for n in 0..512 {
        taken.insert(bench.take(0, Space::Udp, 5000).unwrap_or_else(|_| panic!("port {n}")).port);
    }
    assert_eq!(taken.len(), 512);
    assert_eq!(bench.take(0, Space::Udp, 5000), Err(Refusal::Quota));
    // TCP has ports of its own, and so have others.
    bench.take(0, Space::Tcp, 5000).expect("another space");
    assert!(!taken.contains(&bench.take(1, Space::Udp, 5000).expect("another block").port));
}

#[test]
fn a_port_rests_before_it_is_given_out_again() {
    let mut bench = bench(Config { ports: vec![5000..=5003], ..config() }, 1, 1);
    let places: Vec<_> = (0..4).map(|_| bench.take(0, Space::Udp, 1).expect("a port")).collect();
    bench.give_back(places[2], AtOnce::No);
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota));
    bench.wait(119);
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota));
    bench.wait(1);
    assert_eq!(bench.take(0, Space::Udp, 1), Ok(places[2]));
    bench.give_back(places[1], AtOnce::Yes);
    assert_eq!(bench.take(0, Space::Udp, 1), Ok(places[1]));
}

#[test]
fn no_more_ports_rest_than_may() {
    let mut bench = bench(Config { ports: vec![5000..=5001], held: 1, ..config() }, 1, 1);
    let places: Vec<_> = (0..2).map(|_| bench.take(0, Space::Udp, 1).expect("a port")).collect();
    places.iter().for_each(|&place| bench.give_back(place, AtOnce::No));
    assert_eq!(bench.take(0, Space::Udp, 1), Ok(places[1]));
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota));
}

#[test]
fn blocks_come_back_and_addresses_stay_paired() {
    let mut bench = bench(Config { blocks: 3, ..config() }, 4, 600);
    let first = bench.take(0, Space::Udp, 4000).expect("a port");
    let mut all = vec![first];
    all.extend((1..1536).map(|n| bench.take(0, Space::Udp, 4000).unwrap_or_else(|_| panic!("port {n}"))));
    assert!(all.iter().all(|place| place.outside == first.outside));
    assert_eq!((bench.take(0, Space::Udp, 4000), bench.holdings[0].blocks), (Err(Refusal::Quota), 3));
    let free = |bench: &Bench| bench.pool.free.iter().map(|lists| lists[1].len()).sum::<usize>();
    assert_eq!(free(&bench), 4 * 126 - 3);
    all.drain(..).for_each(|place| bench.give_back(place, AtOnce::No));
    bench.wait(100);
    // Used again while it rests: that block stays.
    let again = bench.take(0, Space::Tcp, 4000).expect("a port");
    bench.wait(21);
    assert_eq!((free(&bench), bench.holdings[0].blocks), (4 * 126 - 1, 1));
    bench.give_back(again, AtOnce::No);
    bench.wait(119);
    assert_eq!(free(&bench), 4 * 126 - 1);
    bench.wait(2);
    assert_eq!((free(&bench), bench.holdings[0].newest), (4 * 126, None));
    // Until there is none left, spread over the addresses.
    for subscriber in 0..504 {
        bench.take(subscriber, Space::Udp, 4000).unwrap_or_else(|_| panic!("subscriber {subscriber}"));
    }
    assert_eq!(bench.take(504, Space::Udp, 4000), Err(Refusal::NoPort));
}

#[test]
fn ports_are_alike_where_that_is_wanted() {
    let ports = vec![600..=700, 2000..=2999];
    let mut bench = bench(Config { ports, parity: true, blocks: 2, block: 64, ..config() }, 1, 1);
    for like in [80, 81, 5000, 5001, 443, 40_000] {
        let port = bench.take(0, Space::Tcp, like).expect("a port").port;
        assert_eq!((port % 2, port < 1024), (like % 2, like < 1024), "{like} {port}");
    }
    let mut evens = 1;
    while bench.take(0, Space::Udp, 5000).is_ok() {
        evens += 1;
    }
    assert_eq!(evens, 1 + 32, "the other block is of well-known ports");
}

#[test]
fn ports_cannot_be_foreseen() {
    let order = |seed| {
        let mut bench = bench(config(), 1, 1);
        bench.secret = Secret::new(seed);
        (0..512).map(|_| bench.take(0, Space::Udp, 5000).expect("a port").port).collect::<Vec<_>>()
    };
    assert_ne!(order(1), order(2));
    // Neighbours in time are neighbours in number no more often than chance has it, until few are left.
    let order = order(3);
    let steps = order[..256].windows(2).filter(|two| two[1].abs_diff(two[0]) == 1).count();
    assert!(steps < 12, "{steps}");
}
