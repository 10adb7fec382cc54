//! What every method of the capture ladder promises, on a wire between two namespaces.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use weir_port::capture::{Account, Buffer, BufferSize, Fanout, Method, Options, Queue};
use weir_testkit::{PATIENCE, need_root};

use crate::wire::{LISTENER, Wire, frames, number_of};

/// Fan-outs have several sockets in all tests; methods without one do not care.
const SOCKETS: u16 = 3;

fn options() -> Options {
    Options { sockets: SOCKETS, ..Options::default() }
}

/// All methods that hand frames on.
fn capturing() -> impl Iterator<Item = Method> {
    Method::all().filter(|method| method.hands_on())
}

/// Waits for frames.
const WAIT: Duration = Duration::from_millis(30);

/// A frame that outlived its buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    bytes: Vec<u8>,
    wire_len: u32,
    at: u64,
    lost_before: u64,
}

/// What one queue captured.
struct Captured {
    frames: Vec<Kept>,
    account: Account,
}

fn take(queue: &mut dyn Queue, into: &mut Vec<Kept>) -> usize {
    let before = into.len();
    let took = queue.take(WAIT, &mut |frame| {
        let bytes = frame.bytes.to_vec();
        into.push(Kept { bytes, wire_len: frame.wire_len, at: frame.at, lost_before: frame.lost_before });
    });
    let took = took.unwrap();
    assert_eq!(took, into.len() - before, "take() says how many it handed on");
    took
}

/// Stops a queue and takes what is left in it.
fn drain(queue: &mut dyn Queue, mut frames: Vec<Kept>) -> Captured {
    queue.stop().unwrap();
    while take(queue, &mut frames) > 0 {}
    Captured { frames, account: queue.account().unwrap() }
}

/// Ends the readers, whatever becomes of the thread that waits for them.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends `sent` while all queues are read; returns what they captured and how many frames the wire lost.
fn capture(
    wire: &Wire,
    method: Method,
    options: &Options,
    sent: &[Vec<u8>],
    expected: u64,
) -> (Vec<Captured>, u64) {
    let queues = wire.tool.run(|| method.open(LISTENER, options).unwrap());
    let received: Vec<AtomicU64> = queues.iter().map(|_| AtomicU64::new(0)).collect();
    let all = || received.iter().map(|one| one.load(Ordering::Relaxed)).sum::<u64>();
    let (lost, deadline) = (AtomicU64::new(0), Instant::now() + PATIENCE);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = End(&is_over);
        let (is_over, received) = (&is_over, &received);
        let readers = queues.into_iter().enumerate().map(|(i, mut queue)| {
            scope.spawn(move || {
                let mut frames = vec![];
                while !is_over.load(Ordering::Relaxed) {
                    take(&mut *queue, &mut frames);
                    received[i].store(queue.account().unwrap().received, Ordering::Relaxed);
                }
                drain(&mut *queue, frames)
            })
        });
        let readers: Vec<_> = readers.collect();
        lost.store(wire.send(sent), Ordering::Relaxed);
        while all() + lost.load(Ordering::Relaxed) < expected && Instant::now() < deadline {
            std::thread::yield_now();
        }
        drop(end);
        let captured = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        (captured, lost.load(Ordering::Relaxed))
    })
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn check_stamps(captured: &[Captured], from: u64, what: &str) {
    for queue in captured {
        let stamps: Vec<u64> = queue.frames.iter().map(|frame| frame.at).collect();
        // A kernel dates frames on arrival from some time after the first socket has asked for it (net_enable_timestamp);
        // those before are dated when they are read, which may be after the arrival of the next.
        let backwards = stamps.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(backwards <= 1, "{what}: time goes backwards {backwards} times");
        let now = now_ns();
        assert!(stamps.iter().all(|at| (from..=now).contains(at)), "{what}: stamps are of now");
    }
}

#[test]
fn each_frame_is_captured_as_it_was_sent() {
    need_root!();
    for method in capturing() {
        let (wire, sent) = (Wire::new(), frames(3000));
        let from = now_ns();
        let (captured, lost) = capture(&wire, method, &options(), &sent, sent.len() as u64);
        check_stamps(&captured, from, &method.to_string());
        let accounts: Vec<_> = captured.iter().map(|queue| &queue.account).collect();
        assert!(accounts.iter().all(|account| account.waiting() == 0), "{method}: {accounts:?}");
        let received: u64 = accounts.iter().map(|account| account.received).sum();
        assert_eq!(received + lost, sent.len() as u64, "{method}: {accounts:?}");
        let dropped: u64 = accounts.iter().map(|account| account.dropped()).sum();
        let frames: Vec<_> = captured.iter().flat_map(|queue| &queue.frames).collect();
        assert_eq!(frames.len() as u64 + dropped, received, "{method}: {accounts:?}");
        for frame in frames {
            assert_eq!(frame.bytes, sent[number_of(&frame.bytes) as usize], "{method}");
            assert_eq!(frame.wire_len as usize, frame.bytes.len(), "{method}");
        }
    }
}

#[test]
fn a_frame_is_cut_to_the_snap_length_and_keeps_its_length() {
    need_root!();
    for method in capturing() {
        let (wire, sent) = (Wire::new(), frames(50));
        let options = Options { snap: 96, ..options() };
        let (captured, lost) = capture(&wire, method, &options, &sent, 50);
        let frames: Vec<_> = captured.iter().flat_map(|queue| &queue.frames).collect();
        assert_eq!(frames.len() as u64 + lost, 50, "{method}");
        for frame in frames {
            let whole = sent.iter().find(|whole| whole.starts_with(&frame.bytes)).expect("was sent");
            assert_eq!(frame.bytes.len(), whole.len().min(96), "{method}");
            assert_eq!(frame.wire_len as usize, whole.len(), "{method}");
        }
    }
}

/// Accepts frames with destination port 9: those with an even number.
fn port_9() -> Vec<libc::sock_filter> {
    let one = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    vec![
        one(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 36),
        one(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, 9),
        one(libc::BPF_RET | libc::BPF_K, 0, 0, 262_144),
        one(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ]
}

#[test]
fn a_filter_keeps_frames_out() {
    need_root!();
    for method in capturing() {
        let (wire, sent) = (Wire::new(), frames(50));
        let options = Options { filter: Some(port_9()), ..options() };
        let (captured, lost) = capture(&wire, method, &options, &sent, 25);
        let mut numbers: Vec<_> =
            captured.iter().flat_map(|queue| &queue.frames).map(|frame| number_of(&frame.bytes)).collect();
        numbers.sort_unstable();
        if lost == 0 {
            assert_eq!(numbers, (0..50).step_by(2).collect::<Vec<_>>(), "{method}");
        }
        let received: u64 = captured.iter().map(|queue| queue.account.received).sum();
        assert_eq!(received, numbers.len() as u64, "{method}: refused frames are no drops");
    }
}

#[test]
fn a_tag_is_back_in_its_place() {
    need_root!();
    for method in capturing() {
        let mut sent = frames(20);
        for (i, frame) in sent.iter_mut().enumerate() {
            if frame.len() < 1400 && i % 3 > 0 {
                let tag = if i % 3 == 1 { [0x81, 0x00, 0x20, i as u8] } else { [0x88, 0xa8, 0x00, i as u8] };
                frame.splice(12..12, tag);
            }
        }
        let (captured, lost) = capture(&Wire::new(), method, &options(), &sent, 20);
        let frames: Vec<_> = captured.iter().flat_map(|queue| &queue.frames).collect();
        assert_eq!(frames.len() as u64 + lost, 20, "{method}");
        for frame in frames {
            assert!(sent.contains(&frame.bytes), "{method}: {:02x?}", frame.bytes);
            assert_eq!(frame.wire_len as usize, frame.bytes.len(), "{method}");
        }
    }
}

#[test]
fn the_accounting_close_when_nobody_takes_frames_in_time() {
    need_root!();
    for method in capturing() {
        let (wire, sent) = (Wire::new(), frames(3000));
        let size = BufferSize::Time { rate: 1e6, time: Duration::from_micros(256) };
        let buffer = Buffer { size, frame_bytes: 512 };
        let options = Options { buffer, block_bytes: 4096 * 4, ..options() };
        let mut queues = wire.tool.run(|| method.open(LISTENER, &options).unwrap());
        let lost = wire.send(&sent);
        let deadline = Instant::now() + PATIENCE;
        let received = |queues: &mut Vec<Box<dyn Queue>>| -> u64 {
            queues.iter_mut().map(|queue| queue.account().unwrap().received).sum()
        };
        while received(&mut queues) + lost < 3000 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        // Those after the gap say how long it was: so many flows that each socket of a fan-out has one.
        let mut frames = vec![];
        queues.iter_mut().for_each(|queue| while take(&mut **queue, &mut frames) > 0 {});
        let more = wire.send(&sent[..60]);
        while received(&mut queues) + lost + more < 3060 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let mut captured = queues.iter_mut().map(|queue| drain(&mut **queue, vec![])).collect::<Vec<_>>();
        captured[0].frames.splice(0..0, frames);
        let dropped: u64 = captured.iter().map(|queue| queue.account.dropped()).sum();
        let taken: usize = captured.iter().map(|queue| queue.frames.len()).sum();
        assert!(dropped > 1000, "{method}: {dropped} dropped, {:?}", queues[0].granted());
        assert!(taken > 10, "{method}: what fitted into the buffer was kept");
        assert_eq!(taken as u64 + dropped + lost + more, 3060, "{method}");
        let reported: u64 =
            captured.iter().flat_map(|queue| &queue.frames).map(|frame| frame.lost_before).sum();
        assert_eq!(reported, dropped, "{method}: each drop has its place");
    }
}

#[test]
fn what_arrived_before_the_end_can_still_be_taken() {
    need_root!();
    for method in capturing() {
        let (wire, sent) = (Wire::new(), frames(200));
        let mut queues = wire.tool.run(|| method.open(LISTENER, &options()).unwrap());
        let lost = wire.send(&sent[..100]);
        let deadline = Instant::now() + PATIENCE;
        let mut received = || queues.iter_mut().map(|queue| queue.account().unwrap().received).sum::<u64>();
        while received() + lost < 100 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        queues.iter_mut().for_each(|queue| queue.stop().unwrap());
        wire.send(&sent[100..]);
        let captured: Vec<_> = queues.iter_mut().map(|queue| drain(&mut **queue, vec![])).collect();
        let mut numbers: Vec<_> =
            captured.iter().flat_map(|queue| &queue.frames).map(|frame| number_of(&frame.bytes)).collect();
        numbers.sort_unstable();
        assert_eq!(numbers.len() as u64 + lost, 100, "{method}");
        assert!(numbers.last() < Some(&100), "{method}: nothing arrives after the end");
    }
}

/// Times that this thread has given its CPU away of its own accord.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn the_floor_counts_what_it_drops() {
    need_root!();
    let (wire, sent) = (Wire::new(), frames(100));
    let mut queues = wire.tool.run(|| Method::Count.open(LISTENER, &options()).unwrap());
    let lost = wire.send(&sent);
    let deadline = Instant::now() + PATIENCE;
    let (mut counted, mut take) = (0, || {
        let before = sleeps();
        let n = queues[0].take(WAIT, &mut |_| panic!("it hands nothing on")).unwrap() as u64;
        assert!(sleeps() > before, "a reader that never sleeps takes the CPU from the kernel that receives");
        n
    });
    while counted + lost < 100 && Instant::now() < deadline {
        counted += take();
    }
    assert_eq!(counted + lost, 100);
    queues[0].stop().unwrap();
    wire.send(&sent[..10]);
    let account = queues[0].account().unwrap();
    assert_eq!((account.received, account.taken, account.waiting()), (counted, counted, 0));
}

#[test]
fn a_queue_can_be_opened_again_at_once() {
    need_root!();
    let wire = Wire::new();
    for method in Method::all() {
        for _ in 0..3 {
            wire.tool.run(|| {
                drop(method.open(LISTENER, &options()).unwrap_or_else(|error| panic!("{method}: {error}")))
            });
        }
    }
}

#[test]
fn a_vanished_interface_is_an_error_with_its_name() {
    need_root!();
    for method in Method::all() {
        let wire = Wire::new();
        let mut queues = wire.tool.run(|| method.open(LISTENER, &options()).unwrap());
        let _tool = wire.cut();
        for queue in &mut queues {
            let deadline = Instant::now() + PATIENCE;
            let error = loop {
                match queue.take(WAIT, &mut |_| ()) {
                    Ok(_) => assert!(Instant::now() < deadline, "{method} does not notice"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.to_string(), format!("interface {LISTENER} has vanished"), "{method}");
        }
    }
}

#[test]
fn every_way_of_spreading_frames_gives_each_to_one_socket() {
    need_root!();
    use Fanout::*;
    for method in [Method::Fanout, Method::RingFanout] {
        for fanout in [Hash, Lb, Cpu, Qm, Rnd, Rollover, Cbpf] {
            let (wire, sent) = (Wire::new(), frames(300));
            let (captured, lost) = capture(&wire, method, &Options { fanout, ..options() }, &sent, 300);
            assert_eq!(captured.len(), usize::from(SOCKETS));
            let mut numbers: Vec<_> = captured
                .iter()
                .flat_map(|queue| &queue.frames)
                .map(|frame| number_of(&frame.bytes))
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len() as u64 + lost, 300, "{method}, {fanout}");
            let busy = captured.iter().filter(|queue| !queue.frames.is_empty()).count();
            // There is one receive queue, a CPU may be the only one that is at work, and the first socket never fills.
            assert!(
                busy == usize::from(SOCKETS) || matches!(fanout, Cpu | Qm | Rollover),
                "{method}, {fanout}: {busy}"
            );
        }
    }
}

#[test]
fn a_fan_out_has_as_many_sockets_as_the_kernel_allows() {
    need_root!();
    let wire = Wire::new();
    for sockets in [0, 257] {
        let error =
            wire.tool.run(|| Method::Fanout.open(LISTENER, &Options { sockets, ..options() }).err().unwrap());
        assert_eq!(error.to_string(), format!("capturing: a fan-out has 1 to 256 sockets, not {sockets}"));
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    for method in Method::all() {
        let error = method.open("nowhere", &options()).err().expect("no such interface");
        assert_eq!(error.to_string(), "there is no interface nowhere; `ip link` lists them", "{method}");
    }
}
