//! A capture as JSON: one object per second, and the accounting at the end.

use serde_json::{Value, json};
use weir_capture::mix::{self, Mix, PROTOCOLS, SIZES};
use weir_capture::session::{End, QueueView, Report, View};

/// Top senders in a line.
const TALKERS: usize = 10;

/// The current state of the capture.
pub(super) fn second(view: &View) -> Value {
    let mut mix = Mix::default();
    view.queues.iter().for_each(|queue| mix.add(&queue.reading.mix));
    let talkers = mix::merge(view.queues.iter().map(|queue| queue.reading.talkers.as_slice()), TALKERS);
    let talker = |t: &mix::Talker| json!({ "address": t.address, "frames": t.frames, "bytes": t.bytes, "uncertain": t.uncertain });
    let not_ip = mix.not_ip().map(|(unread, frames)| {
        json!({ "protocol": unread.ether_type().to_string(), "reason": unread.reason(), "frames": frames })
    });
    json!({
        "elapsed_s": view.elapsed.as_secs_f64(),
        "offered": view.offered,
        "queues": view.queues.iter().map(queue).collect::<Vec<_>>(),
        "protocols": named(PROTOCOLS.iter().map(ToString::to_string), &mix.protocols),
        "not_ip": not_ip.collect::<Vec<_>>(),
        "sizes": named(size_names(), &mix.sizes),
        "talkers": talkers.iter().map(talker).collect::<Vec<_>>(),
        "written": written(view),
        "waiting": view.waiting,
    })
}

/// The accounting.
pub(super) fn end(report: &Report) -> Value {
    let accounting = report.accounting.iter().map(|accounting| {
        json!({
            "interface": accounting.interface,
            "offered_least": accounting.offered.map(|(least, _)| least),
            "offered_most": accounting.offered.map(|(_, most)| most),
            "captured": accounting.captured,
            "drops": named(accounting.drops.iter().map(|d| d.name.into()), &accounting.drops.iter().map(|d| d.frames).collect::<Vec<_>>()),
            "unexplained": accounting.unexplained(),
            "filtered": accounting.filtered,
            "merged": accounting.merged,
        })
    });
    let file = report.written.as_ref().map(|written| {
        json!({
            "frames": written.frames,
            "bytes": written.bytes,
            "files": written.files,
            "disk_too_slow": report.slow(),
            "unwritten": written.unwritten,
            "let_go": written.discarded,
            "reaches_back_s": written.reaches_back.map(|back| back.as_secs_f64()),
            "error": written.error.as_ref().map(ToString::to_string),
        })
    });
    let end = match report.end {
        End::Stopped => "stopped",
        End::Limit => "limit",
        End::NothingLeft => "interface gone",
        End::Disk => "disk",
    };
    json!({ "end": end, "elapsed_s": report.view.elapsed.as_secs_f64(), "accounting": accounting.collect::<Vec<_>>(), "file": file })
}

fn queue(queue: &QueueView) -> Value {
    let reading = &queue.reading;
    let drops = &reading.account.drops;
    json!({
        "interface": queue.interface,
        "queue": queue.number,
        "frames": reading.frames,
        "bytes": reading.bytes,
        "frames_per_s": queue.frames_per_s,
        "bits_per_s": queue.bits_per_s,
        "drops_per_s": queue.drops_per_s,
        "drops": named(drops.iter().map(|d| d.name.into()), &drops.iter().map(|d| d.frames).collect::<Vec<_>>()),
        "disk_too_slow": reading.slow,
        "failed": reading.failed,
    })
}

fn written(view: &View) -> Value {
    view.written.map_or(Value::Null, |w| json!({ "frames": w.frames, "bytes": w.bytes, "files": w.files }))
}

fn named(names: impl Iterator<Item = String>, values: &[u64]) -> Value {
    names.zip(values).map(|(name, value)| (name, json!(value))).collect::<serde_json::Map<_, _>>().into()
}

/// `64`, `65-127`, ..., `1519-`.
pub(super) fn size_names() -> impl Iterator<Item = String> {
    (0..=SIZES.len()).map(|n| match (n.checked_sub(1).map(|before| SIZES[before] + 1), SIZES.get(n)) {
        (None, Some(most)) => format!("-{most}"),
        (Some(least), Some(most)) => format!("{least}-{most}"),
        (Some(least), None) => format!("{least}-"),
        (None, None) => unreachable!("there are sizes"),
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_have_names() {
        let names: Vec<_> = super::size_names().collect();
        assert_eq!(names, ["-64", "65-127", "128-255", "256-511", "512-1023", "1024-1518", "1519-"]);
    }
}
