//! What is handed over of a ring, and what is accepted in its place.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use weir_punt::{Consumer, Descriptors, How, Injection, Injections, Producer, PuntError, Punts, Tags};

use crate::{geometry, punt};

#[test]
fn records_from_before_and_after_the_other_end_is_there_arrive() {
    let (mut producer, descriptors) = Producer::<Punts>::create(geometry(8)).unwrap();
    let mut room = [0; 128];
    producer.push(&punt(0, &mut room)).unwrap();
    producer.commit();
    let mut consumer = Consumer::<Punts>::attach(descriptors).unwrap();
    producer.push(&punt(1, &mut room)).unwrap();
    let mut numbers = Vec::new();
    let mut take = |consumer: &mut Consumer<Punts>| {
        consumer.take(9, |found| {
            assert_eq!(found, punt(found.arrival_ns, &mut room));
            numbers.push(found.arrival_ns);
        });
        numbers.clone()
    };
    assert_eq!(take(&mut consumer), [0], "the second one was not committed");
    producer.commit();
    assert_eq!(take(&mut consumer), [0, 1]);
}

#[test]
fn a_node_takes_injections() {
    let (mut node, descriptors) = Consumer::<Injections>::create(geometry(8)).unwrap();
    let mut client = Producer::<Injections>::attach(descriptors).unwrap();
    let sent = Injection { how: How::Enter, port: 3, tags: Tags::Untagged, bytes: &[9; 60] };
    assert!(node.may_sleep());
    client.push(&sent).unwrap();
    client.commit();
    assert!(node.wait(None).unwrap(), "it is woken");
    assert_eq!(node.take(9, |found| assert_eq!(found, sent)), 1);
    drop(client);
    assert!(!node.wait(None).unwrap(), "the end of the other process is a wake-up, too");
}

#[test]
fn what_was_put_into_a_ring_outlives_its_producer() {
    let (mut producer, descriptors) = Producer::<Punts>::create(geometry(8)).unwrap();
    let mut consumer = Consumer::<Punts>::attach(descriptors).unwrap();
    producer.push(&punt(0, &mut [0; 128])).unwrap();
    producer.commit();
    producer.push(&punt(1, &mut [0; 128])).unwrap();
    drop(producer);
    assert!(!consumer.woke());
    assert_eq!(consumer.take(9, |found| assert_eq!(found.arrival_ns, 0)), 1);
}

/// A consumer that never takes its wake-ups fills the socket, whatever it does to its end of it.
#[test]
fn a_producer_never_waits_for_a_consumer_that_takes_no_wake_up() {
    let (mut producer, descriptors) = Producer::<Punts>::create(geometry(8)).unwrap();
    let wake = UnixStream::from(descriptors.wake);
    wake.set_nonblocking(false).unwrap();
    let descriptors = Descriptors { memory: descriptors.memory, wake: wake.into() };
    let mut consumer = Consumer::<Punts>::attach(descriptors).unwrap();
    for number in 0..20_000 {
        assert!(consumer.may_sleep());
        producer.push(&punt(number, &mut [0; 128])).unwrap();
        producer.commit();
        assert_eq!(consumer.take(9, |found| assert_eq!(found.arrival_ns, number)), 1);
    }
    // Nor does it for one that has gone, or that receives nothing any more.
    drop(consumer);
    (0..20).for_each(|number| {
        let _ = producer.push(&punt(number, &mut [0; 128]));
        producer.commit();
    });
}

#[test]
fn the_other_process_cannot_take_memory_away() {
    let (mut producer, descriptors) = Producer::<Punts>::create(geometry(8)).unwrap();
    assert!(ftruncate(&descriptors.memory, 0).is_err());
    assert!(ftruncate(&descriptors.memory, 1 << 20).is_err());
    assert!(fcntl_add_seals(&descriptors.memory, SealFlags::WRITE).is_err());
    producer.push(&punt(0, &mut [0; 128])).unwrap();
}

/// Attaches to some other memory.
fn check(memory: impl Into<OwnedFd>, expected: &str) {
    let descriptors = Descriptors {
        memory: memory.into(),
        wake: UnixStream::pair().expect("descriptors are left").0.into(),
    };
    let error = Consumer::<Punts>::attach(descriptors).expect_err(expected);
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn what_is_no_ring_is_refused() {
    let memory = |header: &[u64], bytes: u64, seals| {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap());
        file.write_all_at(header.iter().copied().map(u64::to_ne_bytes).collect::<Vec<_>>().as_flattened(), 0)
            .unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let (_, real) = Producer::<Punts>::create(geometry(8)).unwrap();
    let mut header = [[0; 8]; 4];
    File::from(real.memory).read_exact_at(header.as_flattened_mut(), 0).unwrap();
    let header = header.map(u64::from_ne_bytes);

    check(UnixStream::pair().unwrap().0, "the memory is not sealed");
    check(File::open("/dev/zero").unwrap(), "the memory is not sealed");
    check(memory(&header, 6144, SealFlags::empty()), "the memory is not sealed");
    check(memory(&header, 6144, SealFlags::GROW), "the memory is not sealed");
    check(memory(&[], 0, SealFlags::SHRINK), "the memory holds no ring");
    check(memory(&[0; 4], 6144, SealFlags::SHRINK), "the memory holds no ring");
    check(memory(&header, 6143, SealFlags::SHRINK), "the memory has 6143 bytes, a ring of its geometry 6144");
    check(memory(&header, 1 << 20, SealFlags::SHRINK), "the memory has 1048576 bytes");
    let huge = [header[0], header[1], 1 << 16, 1 << 17];
    check(
        memory(&huge, 6144, SealFlags::SHRINK),
        "the memory has 6144 bytes, a ring of its geometry 8589938688",
    );
    let (_, injections) = Consumer::<Injections>::create(geometry(8)).unwrap();
    check(injections.memory, "the ring is of another kind");
    let descriptors = Descriptors {
        memory: memory(&header, 6144, SealFlags::SHRINK).into(),
        wake: UnixStream::pair().unwrap().0.into(),
    };
    assert!(Consumer::<Punts>::attach(descriptors).is_ok());
    assert!(matches!(weir_punt::Geometry::new(3, 256), Err(PuntError::Slots { found: 3 })));
}
