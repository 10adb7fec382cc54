//! `weir bng why`.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use weir_bng::api::{Frame, Why};
use weir_bng::{Line, Mac};
use weir_port::pcapng::{ETHERNET, Interface, Packet, write};

use super::client::{Client, segment};
use super::write_json;
use crate::cli;

/// The file of the frames, if the user names none.
const USUAL: &str = "why.pcapng";

pub(super) fn run(arguments: &cli::Why, out: &mut impl Write) -> Result<()> {
    let why: Why = Client::of(&arguments.socket).get(&target(&arguments.device)?)?;
    let file = match &arguments.write {
        Some(file) => Some(file.as_path()),
        None if arguments.json => None,
        None => Some(Path::new(USUAL)),
    };
    let file = file.filter(|_| !why.frames.is_empty());
    if let Some(file) = file {
        let capture = pcapng(&arguments.device, &why.frames)?;
        std::fs::write(file, capture).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.json {
        return write_json(&why, out);
    }
    let step = why.step.map(|step| format!(" (step: {step})")).unwrap_or_default();
    let of = why.subscriber.map(|name| format!("; subscriber {name}")).unwrap_or_default();
    let frames = file.map(|file| format!("; last frames in {}", file.display())).unwrap_or_default();
    Ok(writeln!(out, "{}{step}{of}{frames}", why.reason)?)
}

/// The resource of a MAC address or of a line.
fn target(device: &str) -> Result<String> {
    if let Ok(mac) = device.parse::<Mac>() {
        return Ok(format!("/v1/why/mac/{}", segment(&mac.to_string())));
    }
    let line: Line = device.parse().map_err(|_| {
        anyhow!("`{device}` is no MAC address and no line: use 02:00:00:00:00:01, access1 or access1:100.7")
    })?;
    Ok(format!("/v1/why/line/{}", segment(&line.to_string())))
}

fn pcapng(name: &str, frames: &[Frame]) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    write::section(&mut file, &write::Author::default());
    let interface = Interface { name: name.into(), link_type: ETHERNET, snap: 0, ..Interface::default() };
    write::interface(&mut file, &interface);
    for Frame { at_ns, bytes, .. } in frames {
        let bytes = hex(bytes).context("the program sent a frame that is none")?;
        let packet =
            Packet { interface: 0, at_ns: *at_ns, wire_len: bytes.len() as u32, bytes: &bytes, dropped: 0 };
        write::packet(&mut file, &packet);
    }
    Ok(file)
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
    fn devices_are_macs_or_lines() {
        for (device, expected) in [
            ("02-00-00-00-00-0A", "/v1/why/mac/02%3A00%3A00%3A00%3A00%3A0a"),
            ("access2:100.7", "/v1/why/line/access2%3A100.7"),
            ("access1", "/v1/why/line/access1"),
        ] {
            assert_eq!(target(device).unwrap(), expected);
        }
        assert!(target("a:b").unwrap_err().to_string().contains("is no MAC address and no line"));
        assert_eq!((hex("00ff"), hex("0"), hex("zz")), (Some(vec![0, 255]), None, None));
    }
}
