use std::collections::VecDeque;
use std::sync::Arc;

use weir_testkit::Dice;

use super::*;
use crate::Punts;

impl Memory for Arc<Vec<AtomicU64>> {
    type Word = AtomicU64;

    fn words(&self) -> &[AtomicU64] {
        self
    }
}

type Plain = Arc<Vec<AtomicU64>>;

/// Both ends of a ring whose indices begin at `first`, and its memory.
fn ring(geometry: Geometry, first: u64) -> (Plain, ProducerEnd<Plain>, ConsumerEnd<Plain>) {
    let memory: Plain = Arc::new((0..geometry.words()).map(|_| AtomicU64::new(0)).collect());
    let header = geometry.header::<Punts>();
    memory.iter().zip(header).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    memory[PRODUCER_AT].store(first, Ordering::Relaxed);
    memory[CONSUMER_AT].store(first, Ordering::Relaxed);
    let producer = ProducerEnd::new(memory.clone(), geometry, header, first);
    let consumer = ConsumerEnd::new(memory.clone(), geometry, header, first);
    (memory, producer, consumer)
}

/// A record of so many bytes.
fn record(bytes: usize, mark: u64) -> (Head, Vec<u8>) {
    ([bytes as u64 | mark << 32, mark, !mark], (0..bytes).map(|at| at as u8 ^ mark as u8).collect())
}

/// Everything that is in a ring, up to a number of records.
fn taken(consumer: &mut ConsumerEnd<Plain>, most: usize) -> Vec<(Head, Vec<u8>)> {
    let mut all = Vec::new();
    consumer.take(most, |head, bytes| {
        all.push((head, bytes.to_vec()));
        Ok(())
    });
    all
}

/// What a ring does, by queues that have no end.
#[derive(Default)]
struct Model {
    pushed: VecDeque<(Head, Vec<u8>)>,
    committed: VecDeque<(Head, Vec<u8>)>,
    is_asleep: bool,
    must_wake: bool,
    refused: u64,
}

impl Model {
    fn push(&mut self, geometry: Geometry, record: (Head, Vec<u8>)) -> Result<(), Refused> {
        if record.1.len() > geometry.frame_bytes() {
            return Err(Refused::TooLong);
        }
        let is_full = (self.pushed.len() + self.committed.len()) as u64 == geometry.slots();
        if is_full {
            self.must_wake |= self.refused.is_multiple_of(geometry.slots());
            self.refused += 1;
            return Err(Refused::Full);
        }
        self.refused = 0;
        self.pushed.push_back(record);
        Ok(())
    }

    fn commit(&mut self) -> bool {
        let wakes = (!self.pushed.is_empty() && self.is_asleep) || self.must_wake;
        self.is_asleep &= !wakes;
        self.must_wake = false;
        self.committed.append(&mut self.pushed);
        wakes
    }

    fn take(&mut self, most: usize) -> Vec<(Head, Vec<u8>)> {
        self.committed.drain(..most.min(self.committed.len())).collect()
    }
}

#[test]
fn a_ring_does_what_a_queue_does() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let (slots, slot_bytes) = (2 << dice.roll(4_u32), 128 + 64 * dice.roll(3_u32));
        let geometry = Geometry::new(slots, slot_bytes).unwrap();
        let first = [0, u64::MAX, u64::MAX - 5, 1 << 63][dice.roll(4)];
        let (_, mut producer, mut consumer) = ring(geometry, first);
        let mut model = Model::default();
        for step in 0..400 {
            let at = format!("seed {seed}, step {step}");
            match dice.roll(8) {
                0..=3 => {
                    let one = record(dice.roll(geometry.frame_bytes() + 2), dice.roll(1 << 20));
                    let found = producer.push(one.0, &one.1);
                    assert_eq!(found, model.push(geometry, one), "{at}");
                }
                4 => assert_eq!(producer.commit(), model.commit(), "{at}"),
                5 => {
                    let most = dice.roll(slots as usize + 2);
                    assert_eq!(taken(&mut consumer, most), model.take(most), "{at}");
                }
                6 => {
                    model.is_asleep = model.committed.is_empty();
                    assert_eq!(consumer.may_sleep(), model.is_asleep, "{at}");
                }
                _ => {
                    model.is_asleep = false;
                    consumer.woke();
                }
            }
        }
        assert_eq!((producer.damage().total(), consumer.damage().total()), (0, 0), "seed {seed}");
    }
}

/// What an end has found, in words.
fn found(end: &str, damage: &DamageCounts) -> String {
    let counts = Damage::ALL.map(|kind| (kind, damage.of(kind))).into_iter().filter(|(_, count)| *count > 0);
    counts.map(|(kind, count)| format!(", {end} {} {count}", kind.name())).collect()
}

/// A ring of four slots holds the records 1 and 2 of 10 bytes; then a word of it is overwritten.
fn check(at: usize, value: u64, order: &str, expected: &str) {
    let (memory, mut producer, mut consumer) = ring(Geometry::new(4, 128).unwrap(), 100);
    for mark in [1, 2] {
        let (head, bytes) = record(10, mark);
        producer.push(head, &bytes).unwrap();
    }
    producer.commit();
    memory[at].store(value, Ordering::Relaxed);
    let (mut marks, mut next) = (Vec::new(), 3);
    for end in order.chars() {
        if end == 'p' {
            let (head, bytes) = record(10, next);
            next += u64::from(producer.push(head, &bytes).is_ok());
            producer.commit();
        } else {
            marks.extend(taken(&mut consumer, 9).iter().map(|(head, _)| head[1]));
        }
    }
    let (ours, theirs) = (found("producer", producer.damage()), found("consumer", consumer.damage()));
    assert_eq!(format!("{marks:?}{ours}{theirs}"), expected, "word {at} = {value:#x}, {order}");
    // And then it works, as long as it may.
    let before = (*producer.damage(), *consumer.damage());
    for mark in 50..70 {
        let one = record(10, mark);
        assert_eq!(producer.push(one.0, &one.1), Ok(()), "word {at} = {value:#x}, {order}");
        producer.commit();
        assert_eq!(taken(&mut consumer, 9), [one], "word {at} = {value:#x}, {order}");
    }
    assert_eq!((*producer.damage(), *consumer.damage()), before);
}

#[test]
fn damage_is_counted_by_name_and_ends() {
    for at in 0..HEADER_WORDS {
        check(at, 7, "pc", "[1, 2, 3], producer header 1");
        check(at, u64::MAX, "cpc", "[1, 2, 3], consumer header 1");
    }
    // The index of the producer: it stands in its own way only until the next record.
    check(PRODUCER_AT, 7, "pc", "[1, 2, 3], producer index 1");
    check(PRODUCER_AT, 101, "cpc", "[1, 2, 3], producer index 1");
    // Where the consumer looks first it goes there, and back when the producer has said where it is.
    check(PRODUCER_AT, 7, "cpcpc", "[4], producer index 1, consumer index 2");
    check(PRODUCER_AT, 99, "cpcpc", "[0, 1, 2, 3, 4], producer index 1, consumer index 1");
    // Slots that were not written are read as what they hold: here nothing.
    check(PRODUCER_AT, 104, "cpcpc", "[1, 2, 0, 0, 4], producer index 1, consumer index 1");
    check(CONSUMER_AT, 7, "pc", "[1, 2, 3], consumer index 1");
    // With a full ring the producer looks at it, and refuses until the consumer has put it right.
    check(CONSUMER_AT, 7, "pppcpc", "[1, 2, 3, 4, 5], producer index 1, consumer index 1");
    check(CONSUMER_AT, u64::MAX, "pppcpc", "[1, 2, 3, 4, 5], producer index 1, consumer index 1");
    check(ASLEEP_AT, 7, "pc", "[1, 2, 3], producer sleep_flag 1");
    check(ASLEEP_AT, 1, "pc", "[1, 2, 3]");
    // Record 1 is in slot 0: 104 bytes fit.
    check(SLOTS_AT, 105, "pc", "[2, 3], consumer length 1");
    check(SLOTS_AT, u64::MAX, "pc", "[2, 3], consumer length 1");
    check(SLOTS_AT, 104, "pc", "[1, 2, 3]");
}

#[test]
fn a_consumer_that_sleeps_is_woken_when_the_ring_is_full_whatever_the_flag_says() {
    let (memory, mut producer, mut consumer) = ring(Geometry::new(2, 128).unwrap(), 0);
    assert!(consumer.may_sleep());
    memory[ASLEEP_AT].store(0, Ordering::Relaxed);
    let wakes = [(); 5].map(|()| {
        let pushed = producer.push(record(0, 1).0, &[]).is_ok();
        (pushed, producer.commit())
    });
    assert_eq!(wakes, [(true, false), (true, false), (false, true), (false, false), (false, true)]);
    assert_eq!(taken(&mut consumer, 9).len(), 2);
    assert_eq!(producer.push(record(0, 1).0, &[]), Ok(()));
}

/// Every interleaving of both ends, and every value that weakly ordered memory allows.
mod interleavings {
    use loom::cell::UnsafeCell;
    use loom::sync::Notify;
    use loom::sync::atomic::AtomicU64 as LoomWord;

    use super::*;

    /// A word as loom sees it.
    enum Tried {
        /// Both ends use it at any time.
        Shared(LoomWord),
        /// One end at a time uses it, with all of the other's use before: loom fails on an access that races.
        Owned(UnsafeCell<u64>),
        /// It is left alone here.
        Constant(AtomicU64),
    }

    // SAFETY: what loom tests.
    unsafe impl Sync for Tried {}

    impl Word for Tried {
        fn load(&self, order: Ordering) -> u64 {
            match self {
                Tried::Shared(word) => word.load(order),
                // SAFETY: loom has looked for another access.
                Tried::Owned(word) => word.with(|word| unsafe { *word }),
                Tried::Constant(word) => word.load(order),
            }
        }

        fn store(&self, value: u64, order: Ordering) {
            match self {
                Tried::Shared(word) => word.store(value, order),
                // SAFETY: as above.
                Tried::Owned(word) => word.with_mut(|word| unsafe { *word = value }),
                Tried::Constant(word) => word.store(value, order),
            }
        }

        fn swap(&self, value: u64, order: Ordering) -> u64 {
            match self {
                Tried::Shared(word) => word.swap(value, order),
                Tried::Owned(_) | Tried::Constant(_) => unreachable!("only the flag is swapped"),
            }
        }

        fn fence() {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    impl Memory for loom::sync::Arc<Vec<Tried>> {
        type Word = Tried;

        fn words(&self) -> &[Tried] {
            self
        }
    }

    type Ends = (ProducerEnd<loom::sync::Arc<Vec<Tried>>>, ConsumerEnd<loom::sync::Arc<Vec<Tried>>>);

    /// Index before a ring's first record: it wraps around.
    const FIRST: u64 = u64::MAX;

    /// A ring of two slots.
    fn ring() -> Ends {
        let geometry = Geometry::new(2, 128).unwrap();
        let header = geometry.header::<Punts>();
        let words = (0..geometry.words()).map(|at| {
            let value = match at {
                PRODUCER_AT | CONSUMER_AT => FIRST,
                at => header.get(at).copied().unwrap_or_default(),
            };
            match at {
                PRODUCER_AT | CONSUMER_AT | ASLEEP_AT => Tried::Shared(LoomWord::new(value)),
                // Of a record two words, so that one may be seen without the other.
                at if at >= SLOTS_AT && matches!((at - SLOTS_AT) % 16, 1 | 2) => {
                    Tried::Owned(UnsafeCell::new(value))
                }
                _ => Tried::Constant(AtomicU64::new(value)),
            }
        });
        let memory = loom::sync::Arc::new(words.collect());
        let producer = ProducerEnd::new(loom::sync::Arc::clone(&memory), geometry, header, FIRST);
        (producer, ConsumerEnd::new(memory, geometry, header, FIRST))
    }

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        // Of all interleavings those with three changes of threads that nothing forces (LOOM_MAX_PREEMPTIONS allows more).
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(check);
    }

    #[test]
    fn no_interleaving_shows_half_a_record_or_overwrites_one() {
        const RECORDS: u64 = 4;
        model(|| {
            let (mut producer, mut consumer) = ring();
            let thread = loom::thread::spawn(move || {
                for value in 1..=RECORDS {
                    while producer.push([0, value, value], &[]).is_err() {
                        producer.commit();
                        loom::thread::yield_now();
                    }
                    // The first two together.
                    if value != 1 {
                        producer.commit();
                    }
                }
                assert_eq!(producer.damage().total(), 0);
            });
            let mut next = 1;
            while next <= RECORDS {
                let taken = consumer.take(2, |head, _| {
                    assert_eq!(head, [0, next, next]);
                    next += 1;
                    Ok(())
                });
                if taken == 0 {
                    loom::thread::yield_now();
                }
            }
            assert_eq!(consumer.damage().total(), 0);
            thread.join().unwrap();
        });
    }

    #[test]
    fn no_interleaving_leaves_a_consumer_asleep_that_has_records() {
        const RECORDS: usize = 2;
        model(|| {
            let (mut producer, mut consumer) = ring();
            let socket = loom::sync::Arc::new(Notify::new());
            let wake = socket.clone();
            let thread = loom::thread::spawn(move || {
                for _ in 0..RECORDS {
                    assert_eq!(producer.push([0; HEAD_WORDS], &[]), Ok(()));
                    if producer.commit() {
                        wake.notify();
                    }
                }
            });
            let mut taken = 0;
            while taken < RECORDS {
                if consumer.may_sleep() {
                    // Loom reports an interleaving in which no wake-up comes.
                    socket.wait();
                }
                consumer.woke();
                taken += consumer.take(RECORDS, |_, _| Ok(()));
            }
            thread.join().unwrap();
        });
    }
}
