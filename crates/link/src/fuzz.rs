//! What reads texts of people, for fuzz targets.

use weir_queue::Time;

use crate::rate::{Rate, Trace};

/// A trace; the schedule of one that is taken goes on, and never back.
pub fn trace(text: &str) {
    match Trace::read(text) {
        Err(why) => assert!(why.contains(": "), "{why}"),
        Ok(trace) => {
            let mut schedule = Rate::Trace(trace.into()).schedule(Time::from_s(1), 1);
            let mut last = Time::from_s(1);
            for _ in 0..1000 {
                let Some(at) = schedule.next() else { break };
                assert!(at > last, "{at:?} after {last:?}");
                last = at;
                schedule.seek(at + Time::from_ps(1));
            }
        }
    }
}
