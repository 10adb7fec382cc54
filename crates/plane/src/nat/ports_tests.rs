//! Blocks and ports: which subscriber gets which, and when again.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::super::block_set::Layout;
use super::*;

struct Bench {
    pool: Pool,
    outside: Outside,
    secret: Secret,
    holdings: Vec<Holding>,
    now: Tick,
}

fn config() -> Config {
    Config { block: 512, blocks: 1, parity: false, hold: Duration::from_secs(120), resting: 1 << 20 }
}

const ALL: &[RangeInclusive<u16>] = &[1024..=65535];

fn set(ports: &[RangeInclusive<u16>], block: u16) -> BlockSet {
    BlockSet::new(0, &Arc::new(Layout::new(ports, block, 0, None)))
}

fn bench(config: Config, ports: &[RangeInclusive<u16>], addresses: u32, subscribers: usize) -> Bench {
    let block = config.block;
    let (mut pool, mut outside) = (Pool::new(config, Share::default(), None), Outside::new());
    for n in 0..addresses {
        pool.put(outside.add(0xc000_0200 + n), set(ports, block));
    }
    let holdings = vec![Holding::default(); subscribers];
    Bench { pool, outside, secret: Secret::new(1), holdings, now: Tick(7) }
}

impl Bench {
    fn take(&mut self, subscriber: usize, space: Space, like: u16) -> Result<Taken, Refusal> {
        let want = Want { space, like, subscriber: subscriber as u32 + 1, home: None };
        let holding = &mut self.holdings[subscriber];
        let (taken, _) = self.pool.take(holding, want, self.now, &self.outside, &mut self.secret)?;
        assert_eq!(self.outside.slot(taken.endpoint), 0, "nobody's until now");
        self.outside.take(taken.endpoint, 1);
        Ok(taken)
    }

    fn give_back(&mut self, taken: Taken, at_once: AtOnce) {
        let rest = self.pool.give_back(taken, self.now, at_once);
        self.outside.give_back(taken.endpoint, rest);
    }

    /// Blocks that are free.
    fn free(&self) -> usize {
        self.pool.sets.iter().flat_map(|set| &set.free).map(Vec::len).sum()
    }

    /// Blocks that a subscriber has by the present rules.
    fn blocks(&self, subscriber: usize) -> usize {
        let newest = self.holdings[subscriber].newest;
        let all = std::iter::successors(newest, |id| self.pool.block(*id).next);
        all.filter(|id| !self.pool.set(id.set).is_retired).count()
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
    let mut bench = bench(config(), ALL, 1, 2);
    let mut taken = HashSet::new();
    for n in 0..512 {
        taken.insert(bench.take(0, Space::Udp, 5000).unwrap_or_else(|_| panic!("port {n}")).endpoint.port);
    }
    assert_eq!(taken.len(), 512);
    assert_eq!(bench.take(0, Space::Udp, 5000), Err(Refusal::Quota));
    // TCP has ports of its own, and so have others.
    bench.take(0, Space::Tcp, 5000).expect("another space");
    assert!(!taken.contains(&bench.take(1, Space::Udp, 5000).expect("another block").endpoint.port));
}

#[test]
fn a_port_rests_before_it_is_given_out_again() {
    let mut bench = bench(config(), &[5000..=5003], 1, 1);
    let ports: Vec<_> = (0..4).map(|_| bench.take(0, Space::Udp, 1).expect("a port")).collect();
    bench.give_back(ports[2], AtOnce::No);
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota));
    bench.wait(119);
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota));
    bench.wait(1);
    assert_eq!(bench.take(0, Space::Udp, 1), Ok(ports[2]));
    bench.give_back(ports[1], AtOnce::Yes);
    assert_eq!(bench.take(0, Space::Udp, 1), Ok(ports[1]));
}

#[test]
fn no_more_ports_rest_than_may() {
    let mut bench = bench(Config { resting: 1, ..config() }, &[5000..=5001], 1, 1);
    let ports: Vec<_> = (0..2).map(|_| bench.take(0, Space::Udp, 1).expect("a port")).collect();
    ports.iter().for_each(|&port| bench.give_back(port, AtOnce::No));
    assert_eq!(bench.take(0, Space::Udp, 1), Ok(ports[1]));
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota));
}

#[test]
fn blocks_come_back_and_addresses_stay_paired() {
    let mut bench = bench(Config { blocks: 3, ..config() }, ALL, 4, 600);
    let first = bench.take(0, Space::Udp, 4000).expect("a port");
    let mut all = vec![first];
    all.extend((1..1536).map(|n| bench.take(0, Space::Udp, 4000).unwrap_or_else(|_| panic!("port {n}"))));
    assert!(all.iter().all(|taken| taken.endpoint.outside == first.endpoint.outside));
    assert_eq!((bench.take(0, Space::Udp, 4000), bench.blocks(0)), (Err(Refusal::Quota), 3));
    assert_eq!(bench.free(), 4 * 126 - 3);
    all.drain(..).for_each(|taken| bench.give_back(taken, AtOnce::No));
    bench.wait(100);
    // Used again while it rests: that block stays.
    let again = bench.take(0, Space::Tcp, 4000).expect("a port");
    bench.wait(21);
    assert_eq!((bench.free(), bench.blocks(0)), (4 * 126 - 1, 1));
    bench.give_back(again, AtOnce::No);
    bench.wait(119);
    assert_eq!(bench.free(), 4 * 126 - 1);
    bench.wait(2);
    assert_eq!((bench.free(), bench.holdings[0].newest), (4 * 126, None));
    // Until there is none left, spread over the addresses.
    for subscriber in 0..504 {
        bench.take(subscriber, Space::Udp, 4000).unwrap_or_else(|_| panic!("subscriber {subscriber}"));
    }
    assert_eq!(bench.take(504, Space::Udp, 4000), Err(Refusal::NoPort));
}

#[test]
fn ports_are_alike_where_that_is_wanted() {
    let config = Config { parity: true, blocks: 2, block: 64, ..config() };
    let mut bench = bench(config, &[600..=700, 2000..=2999], 1, 1);
    for like in [80, 81, 5000, 5001, 443, 40_000] {
        let port = bench.take(0, Space::Tcp, like).expect("a port").endpoint.port;
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
        let mut bench = bench(config(), ALL, 1, 1);
        bench.secret = Secret::new(seed);
        (0..512).map(|_| bench.take(0, Space::Udp, 5000).expect("a port").endpoint.port).collect::<Vec<_>>()
    };
    assert_ne!(order(1), order(2));
    // Neighbours in time are neighbours in number no more often than chance has it, until few are left.
    let order = order(3);
    let steps = order[..256].windows(2).filter(|two| two[1].abs_diff(two[0]) == 1).count();
    assert!(steps < 12, "{steps}");
}

#[test]
fn ports_that_are_cut_otherwise_come_as_the_old_blocks_go() {
    let mut bench = bench(config(), &[2048..=4095], 1, 5);
    let old: Vec<Taken> = (0..4).map(|n| bench.take(n, Space::Udp, 5000).expect("a port")).collect();
    assert_eq!(bench.take(4, Space::Udp, 5000), Err(Refusal::NoPort));
    bench.pool.put(0, set(&[2048..=4095], 256));
    // By the new rules each has a block where it had one before; others have none until one comes free.
    let new: Vec<Taken> = (0..4).map(|n| bench.take(n, Space::Udp, 5000).expect("a port")).collect();
    for (old, new) in old.iter().zip(&new) {
        assert_eq!((old.endpoint.port - 2048) / 512, (new.endpoint.port - 2048) / 512);
    }
    assert_eq!(bench.take(4, Space::Udp, 5000), Err(Refusal::NoPort));
    assert_eq!(bench.pool.sets.len(), 2);
    // Half of the first one's old block is free again.
    bench.give_back(old[0], AtOnce::No);
    bench.wait(119);
    assert_eq!(bench.take(4, Space::Udp, 5000), Err(Refusal::NoPort));
    bench.wait(2);
    let other = bench.take(4, Space::Udp, 5000).expect("a port");
    assert_eq!((other.endpoint.port - 2048) / 512, (old[0].endpoint.port - 2048) / 512);
    assert_ne!((other.endpoint.port - 2048) / 256, (new[0].endpoint.port - 2048) / 256);
    // A port goes back to the set that it is of, though both have it.
    [old[1], old[2], old[3], new[1]].into_iter().for_each(|taken| bench.give_back(taken, AtOnce::Yes));
    bench.wait(300);
    assert_eq!((bench.pool.spare.len(), bench.pool.newest[0]), (1, Some(1)), "the old set is forgotten");
    let is_owned = |bench: &Bench, taken: Taken| {
        let at = bench.pool.set(1).layout.at(taken.endpoint.port).expect("a block");
        bench.pool.set(1).blocks[at].owner != 0
    };
    assert_eq!(
        [new[0], new[1], new[2], other].map(|taken| is_owned(&bench, taken)),
        [true, false, true, true]
    );
}

#[test]
fn blocks_that_were_fixed_come_free_when_their_rules_go() {
    let fixed = |share, ratio| BlockSet::new(0, &Arc::new(Layout::new(ALL, share, ratio, None)));
    let mut bench = bench(config(), ALL, 1, 70);
    bench.pool.put(0, fixed(1024, 63));
    for n in 0..63 {
        let first = 1024 * (n as u16 + 1);
        bench.pool.fix(&mut bench.holdings[n], Some((0, first)), n as u32 + 1);
    }
    let used = bench.take(5, Space::Udp, 5000).expect("a port");
    assert_eq!(used.endpoint.port / 1024, 6);
    assert_eq!(bench.take(69, Space::Udp, 5000), Err(Refusal::NoPort));
    bench.pool.put(0, set(ALL, 512));
    assert_eq!(bench.take(69, Space::Udp, 5000), Err(Refusal::NoPort), "all are somebody's");
    bench.wait(0);
    bench.wait(121);
    let other = bench.take(69, Space::Udp, 5000).expect("a port");
    assert_ne!(other.endpoint.port / 1024, 6, "that block is in use");
    bench.give_back(used, AtOnce::No);
    bench.wait(121);
    assert_eq!(bench.pool.spare, [0], "the old set is forgotten");
}

#[test]
fn an_address_may_have_other_ports_than_others() {
    let mut bench = bench(Config { block: 1, ..config() }, &[80..=80], 1, 3);
    bench.pool.put(bench.outside.add(0xc000_0299), set(&[2000..=2001], 1));
    let mut ports: Vec<u16> =
        (0..3).map(|n| bench.take(n, Space::Udp, 80).expect("a port").endpoint.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [80, 2000, 2001], "well-known ones where there are any");
}

#[test]
fn who_has_a_block_keeps_to_it_while_no_further_one_is_given() {
    let mut bench = bench(Config { block: 2, blocks: 2, ..config() }, ALL, 1, 2);
    bench.take(0, Space::Udp, 1).expect("a block");
    bench.pool.set_new_blocks(NewBlocks::Withheld);
    bench.take(0, Space::Udp, 1).expect("the other port of it");
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Withheld), "a second block");
    assert_eq!(bench.take(1, Space::Udp, 1), Err(Refusal::Withheld), "a first one");
    bench.pool.set_new_blocks(NewBlocks::Allowed);
    bench.take(0, Space::Udp, 1).expect("a second block");
    bench.take(1, Space::Udp, 1).expect("a first one");
    bench.take(0, Space::Udp, 1).expect("the other port of the second");
    bench.pool.set_new_blocks(NewBlocks::Withheld);
    assert_eq!(bench.take(0, Space::Udp, 1), Err(Refusal::Quota), "all that it may have");
}
