//! The accounting of a capture as text.

use weir_capture::Written;
use weir_capture::accounting::Accounting;
use weir_capture::session::{Report, WrittenSoFar};

use weir_service::units::size;

/// The accounting.
pub(super) fn report(report: &Report, keep: Option<u64>) -> String {
    let mut text: String = report.accounting.iter().map(accounting).collect();
    if let Some(written) = &report.written {
        text += &file(report, written, keep);
    }
    text
}

fn accounting(accounting: &Accounting) -> String {
    let Accounting { interface, captured, .. } = accounting;
    let mut text = match accounting.offered {
        None => {
            format!("{interface:9} captured {captured}; the interface is gone, and its counters with it\n")
        }
        Some((least, most)) if least == most => {
            format!("{interface:9} offered {most}, captured {captured}\n")
        }
        Some((least, most)) => format!("{interface:9} offered {least} to {most}, captured {captured}\n"),
    };
    let mut line = |frames: String, name: &str| text += &format!("{:9} {frames:>12} {name}\n", "");
    for drops in &accounting.drops {
        line(drops.frames.to_string(), drops.name);
    }
    let rest = if accounting.filtered {
        "rejected by the filter (the kernel does not count these) or unexplained"
    } else {
        "unexplained"
    };
    if let Some(unexplained) = accounting.unexplained() {
        line(unexplained.to_string(), rest);
    }
    if accounting.merged > 0 {
        let most = "captured frames are longer than the MTU: the receiver merged several into one; use \
                    `ethtool -K IF gro off` to capture each";
        line(accounting.merged.to_string(), most);
    }
    text
}

fn file(report: &Report, written: &Written, keep: Option<u64>) -> String {
    let so_far = WrittenSoFar { frames: written.frames, bytes: written.bytes, files: written.files };
    let mut text = format!("file      {}\n", self::written(&so_far, keep));
    let mut line = |frames: u64, name: &str| {
        if frames > 0 {
            text += &format!("{:9} {frames:>12} {name}\n", "");
        }
    };
    line(report.slow(), "disk too slow");
    line(written.unwritten, "not written: writing the file failed");
    let why = if report.view.waiting {
        "discarded: no trigger occurred"
    } else {
        "discarded: too long before the trigger"
    };
    line(written.discarded, why);
    if let Some(back) = written.reaches_back {
        text += &format!("{:9} reaches back {:.1} s before the trigger\n", "", back.as_secs_f64());
    }
    text
}

/// Size of the written files.
pub(super) fn written(written: &WrittenSoFar, keep: Option<u64>) -> String {
    let WrittenSoFar { frames, bytes, files } = *written;
    let files = if files == 1 { "a file".into() } else { format!("{files} files") };
    let kept = keep.filter(|keep| *keep < written.files);
    let kept = kept.map_or_else(String::new, |keep| format!(", of which the last {keep} are kept"));
    format!("{frames} packets, {} in {files}{kept}", size(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_deleted_are_not_said_to_be_there() {
        let said = |files, keep| written(&WrittenSoFar { frames: 9, bytes: 1000, files }, keep);
        assert_eq!(said(1, None), "9 packets, 1.00 kB in a file");
        assert_eq!(said(2, Some(2)), "9 packets, 1.00 kB in 2 files");
        assert_eq!(said(5, Some(2)), "9 packets, 1.00 kB in 5 files, of which the last 2 are kept");
    }
}
