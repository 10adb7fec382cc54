//! The log as untrusted bytes, for fuzz targets.

use super::frame::{self, Segment};

/// Reads bytes as a file of the log, and as the texts of its frames, with an empty line between two of them. What is read is the same
/// when it is written and read again, and a file that is cut short has a part of it.
///
/// # Panics
/// It is not so.
pub fn log(input: &[u8]) {
    check(input);
    let frames: Vec<u8> = String::from_utf8_lossy(input).split("\n\n").flat_map(frame_of).collect();
    check(&frames);
    check(frames.get(..frames.len() / 2).unwrap_or_default());
}

fn frame_of(text: &str) -> Vec<u8> {
    frame::frame(format!("{text}\n"))
}

fn check(bytes: &[u8]) {
    match frame::read(bytes) {
        Ok(Some(segment)) => {
            assert_eq!(frame::read(&written(&segment)), Ok(Some(segment.clone())));
            let torn = frame::read(bytes.get(..bytes.len() - 1).unwrap_or_default());
            let groups = torn.map(|torn| torn.map_or(0, |torn| torn.groups.len()));
            assert!(
                groups
                    .is_ok_and(|groups| groups == segment.groups.len() || groups + 1 == segment.groups.len())
            );
        }
        Ok(None) => {}
        Err(damage) => assert!(damage.offset < bytes.len()),
    }
}

fn written(segment: &Segment) -> Vec<u8> {
    let groups = segment.groups.iter().flat_map(|group| frame::group(group.at_s, &group.records));
    frame::header(segment.number, segment.after).into_iter().chain(groups).collect()
}

/// A file of the log, and the texts of its frames.
pub fn log_seeds() -> [Vec<u8>; 2] {
    let texts = "1 segment 3 after 7\n\nat 1790000000\n1 8 removed anna\n1 9 last ben 100.64.0.2\n\nat 1790000001\n1 12 removed ben";
    [texts.split("\n\n").flat_map(frame_of).chain([0; 40]).collect(), texts.into()]
}
