//! The memory of rings between a node and its control program: the other process may write anything at any time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use weir_punt::{Consumer, Geometry, How, Injection, Injections, Kind, Producer, Punt, Punts, Tags};

const SLOTS: usize = 4;
const SLOT_BYTES: usize = 128;
const FRAME_BYTES: usize = SLOT_BYTES - 24;

/// Steps, one behind the other:
///
/// ```text
/// 0, place:16, length:8, bytes   the memory is written to
/// 1, length:8                    a record is put in       2   committed       3, most:8   some are taken       4   sleep
/// ```
pub(super) fn punt(input: &[u8]) {
    run::<Punts>(
        input,
        |bytes| Punt { reason: 1, port: 2, tags: Tags::Untagged, arrival_ns: 3, bytes },
        |punt| punt.bytes.len(),
    );
    run::<Injections>(
        input,
        |bytes| Injection { how: How::Leave, port: 2, tags: Tags::Untagged, bytes },
        |injection| injection.bytes.len(),
    );
}

/// Each end survives what is in the memory, and the ring works when it is left alone.
fn run<K: Kind>(input: &[u8], record: fn(&[u8]) -> K::Record<'_>, length: fn(&K::Record<'_>) -> usize) {
    let geometry = Geometry::new(SLOTS as u32, SLOT_BYTES as u32).expect("it is allowed");
    let (mut producer, descriptors) = Producer::<K>::create(geometry).expect("there is memory");
    let memory = File::from(descriptors.memory.try_clone().expect("descriptors are left"));
    let mut consumer = Consumer::<K>::attach(descriptors).expect("it is a ring");
    let take = |consumer: &mut Consumer<K>, most: usize| {
        let taken = consumer.take(most, |record| assert!(length(&record) <= FRAME_BYTES));
        assert!(taken <= most.min(SLOTS));
        taken
    };
    let frame = [7; 256];
    let mut rest = input;
    while let [step, more @ ..] = rest {
        rest = more;
        match (step % 5, more) {
            (0, [low, high, count, more @ ..]) => {
                let (bytes, more) = more.split_at(more.len().min((*count).into()));
                let place = usize::from(u16::from_le_bytes([*low, *high])) % (4096 + SLOTS * SLOT_BYTES);
                let bytes = &bytes[..bytes.len().min(4096 + SLOTS * SLOT_BYTES - place)];
                memory.write_all_at(bytes, place as u64).expect("a memfd can be written to");
                rest = more;
            }
            (1, [count, more @ ..]) => {
                let _ = producer.push(&record(&frame[..usize::from(*count)]));
                rest = more;
            }
            (2, _) => producer.commit(),
            (3, [most, more @ ..]) => {
                take(&mut consumer, (*most).into());
                rest = more;
            }
            (4, _) => {
                consumer.may_sleep();
                assert!(consumer.woke());
            }
            _ => return,
        }
    }
    for _ in 0..2 {
        let _ = producer.push(&record(&frame[..60]));
        producer.commit();
        take(&mut consumer, usize::MAX);
    }
    for _ in 0..2 * SLOTS {
        assert_eq!(producer.push(&record(&frame[..60])), Ok(()));
        producer.commit();
        assert_eq!(take(&mut consumer, usize::MAX), 1);
    }
}

pub(super) fn punt_seeds() -> Vec<Vec<u8>> {
    let write =
        |place: u16, bytes: &[u8]| [&[0][..], &place.to_le_bytes(), &[bytes.len() as u8], bytes].concat();
    let used = [1, 60, 1, 104, 2, 3, 1];
    let then = [4, 1, 0, 2, 3, 9];
    let with = |written: Vec<u8>| [&used[..], &written, &then].concat();
    let index = |place| with(write(place, &7_u64.to_ne_bytes()));
    vec![
        with(Vec::new()),
        with(write(0, &[0xff; 32])),
        index(128),
        index(256),
        index(384),
        with(write(4096, &u64::MAX.to_ne_bytes())),
        // A record of 60 bytes to leave with two tags, as the control program writes it.
        [
            &write(4096, &[60, 0, 0, 0, 2, 0, 1, 0, 0xa8, 0x88, 100, 0, 0, 0x81, 7, 0])[..],
            &write(128, &1_u64.to_ne_bytes()),
            &then,
        ]
        .concat(),
    ]
}
