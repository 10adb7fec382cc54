//! `weir bng trace`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use weir_bng::api::{Traced, TracedFrame};

use super::client::Client;
use super::why::{Device, add, pcapng, target};
use super::write_json;
use crate::cli;

/// Follows a device until so many frames have come, or the process is ended.
pub(super) fn run(arguments: &cli::Trace, out: &mut impl Write) -> Result<()> {
    let client = Client::of(&arguments.socket);
    let target = match target(&arguments.device) {
        Device::One(target) => target,
        // A device may give the login at any time; a line is meant where nothing is known of such a login.
        Device::Word { login, line: Some(line) } => {
            let is_login = client.find::<serde_json::Value>(&format!("/v1/why/{login}"))?.is_some();
            if is_login { login } else { line }
        }
        Device::Word { login, line: None } => login,
    };
    let mut capture = match &arguments.pcap {
        Some(path) => Some(Capture::begin(path, &arguments.device)?),
        None => None,
    };
    let (mut after, mut left) = (0, arguments.count.unwrap_or(u64::MAX));
    while left > 0 {
        let Traced { frames, next } = client.get(&format!("/v1/trace/{target}?after={after}"))?;
        after = next;
        for traced in frames.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            left -= 1;
            if let Some(capture) = &mut capture {
                capture.add(&traced)?;
            }
            match arguments.json {
                true => write_json(&traced, out)?,
                false => writeln!(out, "{}", line(&traced))?,
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// A file of frames that is whole after each of them.
struct Capture(File);

impl Capture {
    fn begin(path: &Path, name: &str) -> Result<Capture> {
        let mut file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        file.write_all(&pcapng(name))?;
        Ok(Capture(file))
    }

    fn add(&mut self, traced: &TracedFrame) -> Result<()> {
        let mut block = Vec::new();
        add(&mut block, &traced.frame)?;
        Ok(self.0.write_all(&block)?)
    }
}

/// `12:00:01.123456 access1:100.7 02:00:00:00:00:01 > PADI service ""`: `>` from the device, `<` to it; the time is UTC.
fn line(TracedFrame { line, mac, frame, .. }: &TracedFrame) -> String {
    let at = Duration::from_nanos(frame.at_ns);
    let s = at.as_secs() % 86_400;
    let (hours, minutes, seconds, us) = (s / 3600, s / 60 % 60, s % 60, at.subsec_micros());
    let way = if frame.from_subscriber { '>' } else { '<' };
    format!("{hours:02}:{minutes:02}:{seconds:02}.{us:06} {line} {mac} {way} {}", frame.text)
}

#[cfg(test)]
mod tests {
    use weir_bng::api::Frame;

    use super::*;

    #[test]
    fn a_frame_is_a_line() {
        let (bytes, text) = (String::new(), "PADI service \"\"".to_string());
        let frame = Frame { at_ns: 45_296_000_007_000, from_subscriber: true, bytes, text };
        let (line_, mac) = ("access1:100.7".to_string(), "02:00:00:00:00:01".to_string());
        let traced = TracedFrame { number: 1, line: line_, mac, frame };
        assert_eq!(line(&traced), "12:34:56.000007 access1:100.7 02:00:00:00:00:01 > PADI service \"\"");
    }
}
