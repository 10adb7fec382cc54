//! Memory that is written to at random while both ends go on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use weir_punt::{Consumer, Descriptors, Injection, Injections, Kind, Producer, Punt, Punts};
use weir_testkit::{Dice, number};

use crate::{geometry, punt};

const SLOTS: u32 = 16;

/// Another process that writes into the memory.
struct Attacker {
    memory: File,
    dice: Dice,
}

impl Attacker {
    /// Writes a number or some bytes, half of the time where indices are, or gives a page back, which is then zero.
    fn write(&mut self) {
        let end = self.memory.metadata().expect("its size is known").len() as usize;
        let reach = if self.dice.one_in(2) { 512 } else { end };
        let at = self.dice.roll(reach / 8) * 8;
        if self.dice.one_in(100) {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&self.memory, hole, at as u64, 4096).expect("seals do not forbid it");
            return;
        }
        let edges = [0, 1, 2, 15, 16, 17, 232, 233, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
        let bytes = match self.dice.roll(4) {
            0 => edges[self.dice.roll(edges.len())].to_ne_bytes().to_vec(),
            1 => (self.dice.roll(300) as u64).to_ne_bytes().to_vec(),
            _ => (0..1 + self.dice.roll(96)).map(|_| self.dice.roll(256) as u8).collect(),
        };
        let bytes = &bytes[..bytes.len().min(end - at)];
        self.memory.write_all_at(bytes, at as u64).expect("a memfd can be written to");
    }
}

/// Both ends of a ring of punts, and what writes into it.
fn ring(seed: u64) -> (Producer<Punts>, Consumer<Punts>, Attacker) {
    let (producer, descriptors) = Producer::create(geometry(SLOTS)).expect("there is memory");
    let memory = descriptors.memory.try_clone().expect("descriptors are left").into();
    let consumer = Consumer::attach(descriptors).expect("it is a ring");
    (producer, consumer, Attacker { memory, dice: Dice::new(seed) })
}

/// After a look of each end, the ring is exact again.
fn works_again(producer: &mut Producer<Punts>, consumer: &mut Consumer<Punts>, at: &str) {
    let mut room = [0; 128];
    for _ in 0..2 {
        let _ = producer.push(&punt(0, &mut room));
        producer.commit();
        consumer.take(usize::MAX, |_| ());
    }
    let damage = (*producer.damage(), *consumer.damage());
    for number in 0..3 * u64::from(SLOTS) {
        assert_eq!(producer.push(&punt(number, &mut room)), Ok(()), "{at}");
        producer.commit();
        let taken = consumer.take(usize::MAX, |found| assert_eq!(found, punt(number, &mut room), "{at}"));
        assert_eq!(taken, 1, "{at}");
    }
    assert_eq!((*producer.damage(), *consumer.damage()), damage, "{at}");
}

#[test]
fn random_writes_between_operations_end_in_a_ring_that_works() {
    let seed = number("PUNT_SEED", 1);
    let (mut producer, mut consumer, mut attacker) = ring(seed);
    let mut room = [0; 128];
    for round in 0..number("PUNT_ROUNDS", 100_000_u64) {
        attacker.write();
        match attacker.dice.roll(8) {
            0..=3 => drop(producer.push(&punt(round, &mut room))),
            4 => producer.commit(),
            5 | 6 => {
                let most = attacker.dice.roll(2 * SLOTS as usize);
                let taken = consumer.take(most, |found| assert!(found.bytes.len() <= 232));
                assert!(taken <= most && taken <= SLOTS as usize);
            }
            _ => {
                consumer.may_sleep();
                assert!(consumer.woke());
            }
        }
        if attacker.dice.one_in(200) {
            works_again(&mut producer, &mut consumer, &format!("seed {seed}, round {round}"));
        }
    }
    for damage in [weir_punt::Damage::Header, weir_punt::Damage::Index, weir_punt::Damage::SleepFlag] {
        assert!(producer.damage().of(damage) > 0, "{damage:?}");
    }
    for damage in [
        weir_punt::Damage::Header,
        weir_punt::Damage::Index,
        weir_punt::Damage::Length,
        weir_punt::Damage::Tags,
    ] {
        assert!(consumer.damage().of(damage) > 0, "{damage:?}");
    }
}

/// Three threads: what was judged may have changed before it is used. The consumer sleeps, too.
#[test]
fn random_writes_during_operations_end_in_a_ring_that_works() {
    let seed = number("PUNT_SEED", 2);
    let (mut producer, mut consumer, mut attacker) = ring(seed);
    let is_over = AtomicBool::new(false);
    let consumer = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                attacker.write();
            }
        });
        let taker = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                consumer.take(SLOTS as usize, |found| assert!(found.bytes.len() <= 232));
                consumer.wait(None).expect("poll works");
            }
            consumer
        });
        let mut room = [0; 128];
        for number in 0..number("PUNT_ROUNDS", 100_000_u64) {
            let _ = producer.push(&punt(number, &mut room));
            if number % 4 == 0 {
                producer.commit();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        // Whatever is in the memory, a full ring wakes its consumer.
        while !taker.is_finished() {
            let _ = producer.push(&punt(0, &mut room));
            producer.commit();
            std::thread::yield_now();
        }
        taker.join().expect("the consumer does not panic")
    });
    let mut consumer = consumer;
    works_again(&mut producer, &mut consumer, &format!("seed {seed}"));
}

/// Whatever is in slots, what is taken from them is a record.
#[test]
fn any_bytes_are_records_or_damage() {
    fn check<K: Kind>(is_record: impl Fn(&K::Record<'_>) -> bool) {
        let (producer, Descriptors { memory, wake }) =
            Producer::<K>::create(geometry(SLOTS)).expect("there is memory");
        let file = File::from(memory.try_clone().expect("descriptors are left"));
        let mut consumer = Consumer::<K>::attach(Descriptors { memory, wake }).expect("it is a ring");
        let (mut dice, mut index, mut records) = (Dice::new(3), 0, 0);
        for _ in 0..2000 {
            let mut slots: Vec<u8> = (0..SLOTS * 256).map(|_| dice.roll(256) as u8).collect();
            // Most lengths fit, or there would be no records; so do most of the rest.
            for slot in slots.chunks_exact_mut(256) {
                slot[1..4].fill(0);
                slot[7] = 0;
                slot[6] = slot[6] % 4 + 1;
            }
            file.write_all_at(&slots, 4096).expect("a memfd can be written to");
            index += u64::from(SLOTS);
            file.write_all_at(&index.to_ne_bytes(), 128).expect("a memfd can be written to");
            let mut seen = 0;
            let taken = consumer.take(usize::MAX, |record| {
                assert!(is_record(&record));
                seen += 1;
            });
            assert_eq!(taken, SLOTS as usize);
            records += seen;
        }
        assert!(records > 1000, "{records}");
        assert_eq!(consumer.damage().total() + records, 2000 * u64::from(SLOTS));
        drop(producer);
    }
    check::<Punts>(|punt: &Punt<'_>| punt.bytes.len() <= 232);
    check::<Injections>(|injection: &Injection<'_>| injection.bytes.len() <= 232);
}
