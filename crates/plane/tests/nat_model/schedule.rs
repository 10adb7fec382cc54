//! Schedules of packets, time and reconfiguration: random ones, and those that fail made short.

use weir_testkit::Dice;

use super::model::Filtering;
use super::packet::{ACK, End, FIN, ICMP, Packet, RST, SYN, TCP, UDP};

/// What happens next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Milliseconds after the step before.
    pub(crate) after_ms: u64,
    pub(crate) event: Event,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// The NAT becomes another one.
    Apply { udp_ms: u64, first: u32 },
    /// A packet from inside.
    Out(Packet),
    /// One from outside, to the outside end that an inside end has or had last, or `ago` ends before.
    Back { packet: Packet, inside: End, ago: usize },
}

/// So many steps, which follow from a seed.
pub(crate) fn schedule(seed: u64, filtering: Filtering, steps: usize) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    let step = |_| Step { after_ms: pause_ms(&mut dice), event: event(&mut dice, filtering) };
    (0..steps).map(step).collect()
}

fn pause_ms(dice: &mut Dice) -> u64 {
    match dice.roll(100_u32) {
        0..90 => dice.roll(3_000),
        90..98 => dice.roll(150_000),
        98 => dice.roll(500_000),
        _ => dice.roll(9_000_000),
    }
}

fn event(dice: &mut Dice, filtering: Filtering) -> Event {
    if dice.one_in(200) {
        return Event::Apply { udp_ms: one(dice, &[120_000, 300_000]), first: dice.roll(3) };
    }
    let remote = (0xc613_0000 + dice.roll(3_u32), 50 + dice.roll(2_u16));
    let is_out = dice.one_in(2);
    let protos: &[u8] = match filtering {
        // TCP with filtering by addresses is for the scenarios.
        Filtering::Address => &[UDP, ICMP],
        _ => &[UDP, TCP, TCP, ICMP],
    };
    let proto = one(dice, protos);
    let flags: &[u8] = match (proto, is_out) {
        (TCP, true) => &[SYN, SYN | ACK, ACK, ACK, ACK, FIN | ACK, FIN | ACK, RST],
        (TCP, false) => &[SYN, SYN | ACK, ACK, ACK, FIN | ACK, RST],
        _ => &[0],
    };
    let flags = one(dice, flags);
    let data = if flags & (SYN | RST) != 0 { 0 } else { dice.roll(3) };
    let inside = (0x0a00_0001 + dice.roll(4_u32), 1000 + dice.roll(4_u16));
    let packet = Packet { proto, src: inside, dst: remote, flags, data, nosum: dice.one_in(4) };
    if is_out {
        Event::Out(packet)
    } else {
        let packet = Packet { src: remote, dst: (0, 0), ..packet };
        Event::Back { packet, inside, ago: usize::from(dice.one_in(4)) }
    }
}

fn one<T: Copy>(dice: &mut Dice, list: &[T]) -> T {
    *dice.pick(list).expect("no list is empty")
}

/// The steps without those that are not needed to fail, and without the time that is not.
pub(crate) fn shortened(mut steps: Vec<Step>, fails: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut length = steps.len().div_ceil(2);
    loop {
        let before = steps.len();
        let mut at = 0;
        while at < steps.len() {
            let fewer = without(&steps, at, length);
            if fails(&fewer) {
                steps = fewer;
            } else {
                at += length;
            }
        }
        if length == 1 && steps.len() == before {
            break;
        }
        length = length.div_ceil(2);
    }
    for at in 0..steps.len() {
        while let Some(earlier) = sooner(&steps, at).into_iter().find(|steps| fails(steps)) {
            steps = earlier;
        }
    }
    steps
}

/// Without so many steps; what comes later comes when it came.
fn without(steps: &[Step], at: usize, length: usize) -> Vec<Step> {
    let end = (at + length).min(steps.len());
    let passed_ms: u64 = steps[at..end].iter().map(|step| step.after_ms).sum();
    let mut fewer = [&steps[..at], &steps[end..]].concat();
    if let Some(next) = fewer.get_mut(at) {
        next.after_ms += passed_ms;
    }
    fewer
}

/// One step comes sooner after the one before.
fn sooner(steps: &[Step], at: usize) -> Vec<Vec<Step>> {
    let now_ms = steps[at].after_ms;
    let less = [0, now_ms / 2, now_ms * 9 / 10].into_iter().filter(|&ms| ms < now_ms);
    let with = |after_ms| {
        let mut steps = steps.to_vec();
        steps[at].after_ms = after_ms;
        steps
    };
    less.map(with).collect()
}
