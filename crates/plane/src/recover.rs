//! After a panic: a bug in the node costs the batch at work, and not the node.
//!
//! ```text
//! panic within a call > the stage at work begins anew, the others live on > what is missing from the accounting was lost
//! ```
//! The state of the stage at work is unknown after a panic, so that nothing of it is kept but its configuration and counters.
//! Routes stay, wherever it happened.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::drops::DropReason;
use crate::kept::Ticket;
use crate::nat::Nat;
use crate::pipeline::Exit;
use crate::plane::Plane;
use crate::stages::OneOf;
use crate::time::Time;
use crate::unread_log::UnreadLog;

/// What became of a plane after a panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Frames that were lost with it.
    pub frames: u64,
    /// The stage that has begun anew, if one was at work: its number in the text, from 0, and what it is.
    pub stage: Option<(usize, &'static str)>,
}

impl Plane {
    /// Recovers after a panic within one of the plane's calls.
    pub fn recover(&mut self, now: Time) -> Recovered {
        let at_work = self.outbox.at_work.take();
        let stage = at_work.and_then(|k| Some((k, self.pipeline.stages.get_mut(k)?)));
        let stage = stage.map(|(k, stage)| {
            // Events that were not read yet; after the panic, even reading them may fail.
            if let Some(nat) = Nat::of_mut(stage)
                && let Ok((events, lost)) = catch_unwind(AssertUnwindSafe(|| nat.table.end_all(now)))
            {
                self.unread_log.add(UnreadLog { events, lost, ..UnreadLog::default() });
            }
            stage.kind_mut().begin_anew(now);
            (k, stage.kind().name())
        });
        self.pipeline.text_epoch = self.pipeline.text_epoch.wrapping_add(1);
        self.outbox.waiting.clear();
        let (mut kept, copies) = self.waiting();
        kept.extend(self.pipeline.subscribers.recover());
        let held = (kept.len() + copies) as u64;
        self.outbox.kept_count = held + self.outbox.kept.recover(&kept);
        if let Some(path) = &mut self.fast {
            // Uses since the last reading are lost.
            path.pause();
            path.resume(&mut self.pipeline);
        }
        Recovered { frames: self.write_off(), stage }
    }

    /// Frames that wait in it: those that are kept, and how many are copies.
    fn waiting(&self) -> (HashSet<Ticket>, usize) {
        let (mut kept, mut copies): (HashSet<Ticket>, _) = (self.steering.waiting().collect(), 0);
        for stage in &self.pipeline.stages {
            let waiting = stage.kind().waiting();
            kept.extend(waiting.kept);
            copies += waiting.copies;
        }
        if let Exit::Router(router) = &self.pipeline.exit {
            kept.extend(router.waiting());
        }
        (kept, copies)
    }

    /// Counts the frames that are missing from the accounting as lost.
    fn write_off(&mut self) -> u64 {
        let accounting = self.accounting();
        let lost = accounting.came().saturating_sub(accounting.gone() + accounting.kept);
        (0..lost).for_each(|_| self.accounting.drops.count(DropReason::Panic));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, Verdict};
    use crate::config::Config;
    use crate::frame::{Frame, HEAD_ROOM, PortId};
    use crate::kept::Emitted;
    use crate::scenario::packet;

    const NODE: &str = "lan > nat(public 192.0.2.1 ports 5000-5000, log sessions) > \
                        filter(accept state established, accept outward) > wan";

    fn sent(plane: &mut Plane, now: Time, frames: &[(&str, u16)]) -> Vec<Verdict> {
        let bytes =
            |line: &str| [&[0; HEAD_ROOM][..], &[2; 12], &[8, 0], &packet(line).expect("a packet")].concat();
        let mut buffers: Vec<_> = frames.iter().map(|(line, _)| bytes(line)).collect();
        let mut batch = Batch::default();
        for (buf, (_, port)) in buffers.iter_mut().zip(frames) {
            let end = buf.len();
            batch.push(Frame::new(buf, HEAD_ROOM, end, PortId(*port)));
        }
        plane.run(now, &mut batch);
        batch.outcome().map(|(_, verdict)| verdict).collect()
    }

    const OUT: (&str, u16) = ("udp 198.18.0.2:1000 > 198.19.0.9:53", 0);
    const LATER: (&str, u16) = ("udp 198.18.0.2 > 198.19.0.9 len 16 whole 64 frag 24+ id 9", 0);
    const BACK: (&str, u16) = ("udp 198.19.0.9:53 > 192.0.2.1:5000", 1);
    /// No plane has such a port: reading it is a bug of the caller.
    const WRONG: (&str, u16) = ("udp 198.19.0.9:53 > 192.0.2.1:5000", 9);

    fn plane() -> Plane {
        Plane::new(&Config::read("n", NODE).expect("a node"), &[[2; 6], [4; 6]])
    }

    #[test]
    fn a_panic_costs_its_batch() {
        let (mut plane, now) = (plane(), Time::from_ms(1));
        let verdicts = sent(&mut plane, now, &[OUT, LATER]);
        assert!(matches!(verdicts[..], [Verdict::Out(PortId(1)), Verdict::Kept(_)]), "{verdicts:?}");
        assert!(catch_unwind(AssertUnwindSafe(|| sent(&mut plane, now, &[BACK, WRONG, BACK]))).is_err());
        assert_eq!(plane.recover(now), Recovered { frames: 3, stage: None });
        let accounting = plane.accounting();
        assert!(
            accounting.balance() && accounting.kept == 1 && accounting.drops[DropReason::Panic] == 3,
            "{accounting:?}"
        );
        assert_eq!(sent(&mut plane, now, &[BACK]), [Verdict::Out(PortId(0))], "its session lives");
    }

    #[test]
    fn a_stage_that_was_at_work_begins_anew_and_the_log_hears_of_it() {
        let (mut plane, now) = (plane(), Time::from_ms(1));
        for (k, stage, verdict) in [
            (1, "filter", Verdict::Dropped(DropReason::FilterPolicy)),
            (0, "nat", Verdict::Dropped(DropReason::NatNoMapping)),
        ] {
            sent(&mut plane, now, &[OUT, LATER]);
            assert_eq!(sent(&mut plane, now, &[BACK]), [Verdict::Out(PortId(0))], "{stage}");
            plane.events();
            plane.outbox.at_work = Some(k);
            assert_eq!(
                plane.recover(now),
                Recovered { frames: u64::from(k == 0) * 2, stage: Some((k, stage)) }
            );
            assert!(plane.accounting().balance(), "{:?}", plane.accounting());
            assert_eq!(sent(&mut plane, now, &[BACK]), [verdict], "{stage}: what it knew is gone");
            // The end of its block and of its session.
            assert_eq!(plane.events().0.len(), if stage == "nat" { 2 } else { 0 });
        }
        assert_eq!(sent(&mut plane, now, &[OUT, BACK]), [Verdict::Out(PortId(1)), Verdict::Out(PortId(0))]);
    }

    fn emitted(plane: &mut Plane) -> Vec<Emitted> {
        std::iter::from_fn(|| plane.next_emitted()).collect()
    }

    #[test]
    fn a_queue_that_begins_anew_gives_the_memory_of_its_frames_back() {
        let config = Config::read("n", "lan > queue(outward 8kbit, aqm fifo) > wan").expect("a node");
        let (mut plane, now) = (Plane::new(&config, &[[2; 6], [4; 6]]), Time::from_ms(1));
        let verdicts = sent(&mut plane, now, &[OUT; 3]);
        let [Verdict::Kept(first), Verdict::Kept(second), Verdict::Kept(third)] = verdicts[..] else {
            panic!("{verdicts:?}")
        };
        plane.tick(now);
        plane.outbox.at_work = Some(0);
        assert_eq!(plane.recover(now), Recovered { frames: 2, stage: Some((0, "queue")) });
        assert_eq!(
            emitted(&mut plane),
            [Emitted::Back(first), Emitted::Free(second), Emitted::Free(third)],
            "the first was on its way"
        );
        let accounting = plane.accounting();
        assert!(accounting.balance() && accounting.kept == 1, "{accounting:?}");
    }

    /// The caller of the plane throws the batch at work away: a frame of it that a stage kept is lost when it is to go on.
    #[test]
    fn frames_that_were_kept_in_the_batch_of_a_panic_are_lost() {
        let (mut plane, now) = (plane(), Time::from_ms(1));
        let verdicts = sent(&mut plane, now, &[OUT, LATER]);
        assert!(matches!(verdicts[1], Verdict::Kept(_)), "{verdicts:?}");
        assert_eq!(plane.recover(now), Recovered { frames: 0, stage: None });
        assert_eq!(plane.accounting().kept, 1);
        let first = ("udp 198.18.0.2:1000 > 198.19.0.9:53 whole 64 len 16 frag 0+ id 9", 0);
        assert_eq!(sent(&mut plane, now, &[first]), [Verdict::Out(PortId(1))]);
        assert_eq!(emitted(&mut plane), []);
        let accounting = plane.accounting();
        assert_eq!((accounting.kept, accounting.drops[DropReason::Panic]), (0, 1), "{accounting:?}");
        assert!(accounting.balance(), "{accounting:?}");
    }
}
