//! `weir bng why`.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use weir_bng::api::{Frame, Why};
use weir_bng::{Line, Mac};
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

use super::client::{Client, segment};
use super::write_json;
use crate::cli;

/// The file of the frames, if the user names none.
const USUAL: &str = "why.pcapng";

pub(super) fn run(arguments: &cli::Why, out: &mut impl Write) -> Result<()> {
    let client = Client::of(&arguments.socket);
    let why: Why = match target(&arguments.device) {
        // A word may be a login or an untagged line.
        Device::Word { login, line } => match (client.find(&format!("/v1/why/{login}"))?, line) {
            (Some(found), _) => found,
            (None, Some(line)) => client.get(&format!("/v1/why/{line}"))?,
            (None, None) => client.get(&format!("/v1/why/{login}"))?,
        },
        Device::One(target) => client.get(&format!("/v1/why/{target}"))?,
    };
    let file = match &arguments.pcap {
        Some(file) => Some(file.as_path()),
        None if arguments.json => None,
        None => Some(Path::new(USUAL)),
    };
    let file = file.filter(|_| !why.frames.is_empty());
    if let Some(file) = file {
        let mut capture = pcapng(&arguments.device);
        for frame in &why.frames {
            add(&mut capture, frame)?;
        }
        std::fs::write(file, capture).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        return write_json(&why, out);
    }
    let step = why.step.map(|step| format!(" (step: {step})")).unwrap_or_default();
    let of = why.subscriber.map(|name| format!("; subscriber {name}")).unwrap_or_default();
    let frames = file.map(|file| format!("; last frames in {}", file.display())).unwrap_or_default();
    writeln!(out, "{}{step}{of}{frames}", why.reason)?;
    if let (Some(mac), Some(line)) = (&why.mac, &why.line) {
        let login = why.login.map(|login| format!("  login {login}")).unwrap_or_default();
        let ago = why.at_ns.map(|at_ns| format!("  {}", ago(at_ns))).unwrap_or_default();
        writeln!(out, "device {mac}  line {line}{login}{ago}")?;
    }
    for (reason, count) in &why.drops {
        writeln!(out, "  dropped {reason:24} {count}")?;
    }
    Ok(())
}

/// `12 s ago`.
fn ago(at_ns: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago = now.saturating_sub(Duration::from_nanos(at_ns));
    format!("{} s ago", ago.as_secs())
}

/// What a user names.
pub(super) enum Device {
    /// A MAC address or a line with tags: the end of its resources.
    One(String),
    /// A word that is a login, and perhaps a line without tags.
    Word { login: String, line: Option<String> },
}

/// The resources of a MAC address, a line or a login.
pub(super) fn target(device: &str) -> Device {
    if let Ok(mac) = device.parse::<Mac>() {
        return Device::One(format!("mac/{}", segment(&mac.to_string())));
    }
    let line = device.parse::<Line>().ok();
    let line = line.map(|line| format!("line/{}", segment(&line.to_string())));
    match line {
        Some(line) if device.contains(':') => Device::One(line),
        line => Device::Word { login: format!("login/{}", segment(device)), line },
    }
}

/// The beginning of a file of frames.
pub(super) fn pcapng(name: &str) -> Vec<u8> {
    let mut file = Vec::new();
    write::section(&mut file, &write::Author::default());
    let interface = Interface { name: name.into(), link_type: ETHERNET, snap: 0, ..Interface::default() };
    write::interface(&mut file, &interface);
    file
}

/// Adds a frame to it.
pub(super) fn add(file: &mut Vec<u8>, frame: &Frame) -> Result<()> {
    let bytes = hex(&frame.bytes).context("the program sent a frame that is none")?;
    let wire_len = bytes.len() as u32;
    let packet = Packet { interface: 0, at_ns: frame.at_ns, wire_len, bytes: &bytes, dropped: 0 };
    write::packet(file, &packet);
    Ok(())
}

/// Bytes in hexadecimal digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_macs_lines_or_logins() {
        for (device, expected) in [
            ("02-00-00-00-00-0A", "mac/02%3A00%3A00%3A00%3A00%3A0a"),
            ("access2:100.7", "line/access2%3A100.7"),
            ("access1", "login/access1, line/access1"),
            ("anna@isp", "login/anna%40isp"),
        ] {
            let shown = match target(device) {
                Device::One(target) => target,
                Device::Word { login, line } => {
                    [Some(login), line].into_iter().flatten().collect::<Vec<_>>().join(", ")
                }
            };
            assert_eq!(shown, expected);
        }
        assert_eq!((hex("00ff"), hex("0"), hex("zz")), (Some(vec![0, 255]), None, None));
    }
}
