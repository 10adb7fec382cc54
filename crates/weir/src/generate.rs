//! `weir generate`: sends test frames on an interface of the user, and counts those that really left it.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use weir_lab::interface::{check_mtu, check_not_default_route, check_ready, wait_until_ready};
use weir_linux::ethtool;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::{Link, LinkStats};
use weir_load::counts::{Load, StreamCounts, Traffic};
use weir_load::generate::Generator;
use weir_load::xdp::{IdleLoopback, MAX_FRAME_BYTES};
use weir_load::{Control, TesterKind};
use weir_packet::flow::{Direction, FlowSpec, IpVersion};
use weir_packet::frame::Ends;
use weir_port::duplex::Redirectable;

use crate::live::Live;
use crate::outcome::Outcome;
use crate::{cli, interface, run};
use weir_service::say;
use weir_service::units::rate;

/// Longest time to send: the due times of paced frames have 64 bits, 16 of which are fractions of a nanosecond.
const LONGEST: Duration = Duration::from_secs(3 * 86_400);
/// Counters of the interface are final when they do not change for this time.
const QUIET: Duration = Duration::from_millis(30);

/// Sends the frames, and prints the counts.
pub(crate) fn send(arguments: &cli::Generate, out: &mut impl Write) -> Result<Outcome> {
    let link = weir_lab::interface::find(&arguments.interface)?;
    if !arguments.allow_default_route {
        check_not_default_route(&link.name, "--allow-default-route")?;
    }
    check_ready(&link)?;
    check_mtu(&link, arguments.frame.max(), "--frame")?;
    let load = load(arguments, &link)?;
    let mut notes = Vec::new();
    let (kind, _redirectable) = choose_kind(arguments, &link, &mut notes)?;
    let stop = run::stop_flag()?;
    let mut generator = Generator::new(kind, link.ifindex, traffic(arguments, &link))?;
    // The dispatcher's slot is on the loopback of this namespace, which must outlive the generator.
    let idle = (kind == TesterKind::Xdp).then(Namespace::new).and_then(Result::ok);
    let held = idle.as_ref().map(|namespace| namespace.run(|| generator.hold_slot(IdleLoopback(1))));
    if kind == TesterKind::Xdp && !matches!(held, Some(Ok(()))) {
        notes
            .push("Cannot create a namespace for the dispatcher's slot: sending pauses now and then.".into());
    }
    say::notes(&notes);
    let pace = load.fps.map_or("as fast as possible".to_string(), rate);
    say::say(&format!("sending on {}, {}, {pace}", link.name, name(kind)));
    let before = counters(&link.name)?;
    let live = Live::new();
    let update = |sent, _| live.update("sent", sent, "");
    let result = generator.send(&load, &Control::new(&stop, &update));
    live.finish();
    let (sent, time) = result?;
    let left = Left::since(&before, sent.sent, &link.name)?;
    notes.extend(left.remark(&link.name, sent.sent, kind));
    let report = Report { arguments, kind, sent: &sent, time, left: &left, notes: &notes };
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report.json())?)?;
    } else {
        out.write_all(report.text().as_bytes())?;
    }
    let asked_for_end = arguments.duration.is_some() || arguments.count.is_some();
    let stopped = stop.load(std::sync::atomic::Ordering::Relaxed);
    Ok(if stopped && asked_for_end { Outcome::Interrupted } else { Outcome::Done })
}

/// Name of a tester, as `--tester` takes it.
pub(crate) fn name(kind: TesterKind) -> &'static str {
    match kind {
        TesterKind::Xdp => "xdp",
        TesterKind::Packet => "packet",
    }
}

fn load(arguments: &cli::Generate, link: &Link) -> Result<Load> {
    let line = arguments.line.or_else(|| interface::line_bits_per_s(link));
    let fps = arguments.rate.map(|rate| rate.fps(&arguments.frame, line)).transpose();
    let fps =
        fps.map_err(|text| anyhow!("{text}: set --line, because {} does not report its speed", link.name))?;
    let needed = fps.zip(arguments.count).map(|(fps, count)| count as f64 / fps);
    if needed.is_some_and(|s| s > arguments.duration.unwrap_or(LONGEST).as_secs_f64() * 1.000_001) {
        bail!("--count at this --rate takes {:.0} s: raise --rate or --duration", needed.unwrap_or(0.0));
    }
    // With --count alone there is no time limit.
    let duration = arguments.duration.unwrap_or(LONGEST);
    Ok(Load { fps, max_frames: arguments.count, ..Load::full_speed(duration) })
}

/// The generator, and a guard that makes the driver accept its frames. If the driver would drop them, another generator or
/// an error.
fn choose_kind(
    arguments: &cli::Generate,
    link: &Link,
    notes: &mut Vec<String>,
) -> Result<(TesterKind, Option<Redirectable>)> {
    let kind = interface::tester_kind(arguments.tester, notes)?;
    let wanted = arguments.tester == cli::TesterKind::Xdp;
    if kind == TesterKind::Packet {
        return Ok((kind, None));
    }
    if arguments.frame.max() > MAX_FRAME_BYTES && !wanted {
        notes.push(format!("Frames of {} bytes are sent through a packet socket.", arguments.frame));
        return Ok((TesterKind::Packet, None));
    }
    if let Some(redirectable) = Redirectable::make(&link.name)? {
        wait_until_ready(&link.name)?;
        return Ok((kind, Some(redirectable)));
    }
    let name = &link.name;
    let why = format!(
        "the driver of {name} does not accept frames of an XDP program: if it is a veth, start `weir receive` on its \
         peer first, or switch GRO on there (`ethtool -K PEER gro on`) and set {name} down and up"
    );
    if wanted {
        bail!("{why}; or use --tester packet");
    }
    notes.push(format!("Using a packet socket instead of XDP: {why}."));
    Ok((TesterKind::Packet, None))
}

fn traffic(arguments: &cli::Generate, link: &Link) -> Traffic {
    let addresses = &arguments.addresses;
    let (src, dst) = match arguments.ip {
        IpVersion::V4 => (IpAddr::from([198, 18, 0, 1]), IpAddr::from([198, 19, 0, 1])),
        IpVersion::V6 => (test_address_v6(0x18), test_address_v6(0x19)),
    };
    let ((src_prefix, src), (dst_prefix, dst)) =
        (halves(addresses.src.unwrap_or(src)), halves(addresses.dst.unwrap_or(dst)));
    let ends = Ends {
        ip: arguments.ip,
        src_mac: addresses.src_mac.map_or(link.mac, |mac| mac.0),
        dst_mac: addresses.dst_mac.map_or([0xff; 6], |mac| mac.0),
        src_prefix,
        dst_prefix,
        keeps_whole: false,
    };
    let flows = FlowSpec {
        count: arguments.flows,
        order: arguments.order,
        groups: arguments.groups,
        hosts: arguments.hosts,
        networks: 1,
        src,
        dst,
        seed: 1,
    };
    Traffic {
        sizes: arguments.frame.clone(),
        transport: arguments.transport,
        direction: Direction::Forward,
        flows,
        ends: [ends, ends],
        seed: 1,
    }
}

fn test_address_v6(subnet: u16) -> IpAddr {
    [0x2001, 0xdb8, subnet, 0, 0, 0, 0, 1].into()
}

/// Upper 12 bytes of an IPv6 address, and the last 4 of any.
fn halves(address: IpAddr) -> ([u8; 12], u32) {
    match address {
        IpAddr::V4(address) => ([0; 12], address.into()),
        IpAddr::V6(address) => {
            let bits = u128::from(address);
            let prefix = bits.to_be_bytes()[..12].try_into().expect("12 of 16 bytes");
            (prefix, bits as u32)
        }
    }
}

/// Counters of an interface at one moment.
struct Counters {
    link: LinkStats,
    xmit_errors: u64,
}

fn counters(name: &str) -> Result<Counters> {
    let link = weir_lab::interface::find(name).context("the interface is gone")?.stats;
    // Not every driver has counters of its own.
    let driver = ethtool::stats(name).unwrap_or_default();
    let errors = driver.iter().filter(|(counter, _)| counter.contains("xdp_xmit_err"));
    Ok(Counters { link, xmit_errors: errors.map(|(_, n)| n).sum() })
}

/// The interface's own counts of the frames that it got to send.
struct Left {
    frames: u64,
    dropped: u64,
    xmit_errors: u64,
}

impl Left {
    /// Waits until the counters reach the number of sent frames, or stop changing.
    fn since(before: &Counters, sent: u64, name: &str) -> Result<Left> {
        let mut last = (0, Instant::now());
        loop {
            let now = counters(name)?;
            let left = Left {
                frames: now.link.tx_packets.saturating_sub(before.link.tx_packets),
                dropped: now.link.tx_dropped.saturating_sub(before.link.tx_dropped)
                    + now.link.tx_errors.saturating_sub(before.link.tx_errors),
                xmit_errors: now.xmit_errors.saturating_sub(before.xmit_errors),
            };
            if left.frames >= sent || last.1.elapsed() >= QUIET {
                return Ok(left);
            }
            if left.frames != last.0 {
                last = (left.frames, Instant::now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn remark(&self, name: &str, sent: u64, kind: TesterKind) -> Option<String> {
        let missing = sent.saturating_sub(self.frames);
        let why = match (self.dropped.max(self.xmit_errors), kind) {
            _ if missing == 0 => return None,
            (0, TesterKind::Xdp) => {
                "no counter shows them: a veth whose peer has neither GRO nor a native XDP program drops redirected \
                 frames without counting them (start `weir receive` on the peer first, or use --tester packet); some \
                 drivers do not count XDP frames, or count them late"
                    .to_string()
            }
            (0, TesterKind::Packet) => "no counter shows them; some drivers count late".to_string(),
            (dropped, _) => format!("{dropped} were dropped, because the receiver or the line is slower: lower --rate"),
        };
        Some(format!("{missing} of {sent} frames did not leave {name}, by its counter tx_packets; {why}."))
    }
}

/// The result.
struct Report<'a> {
    arguments: &'a cli::Generate,
    kind: TesterKind,
    sent: &'a StreamCounts,
    time: Duration,
    left: &'a Left,
    notes: &'a [String],
}

impl Report<'_> {
    /// Frames/s, 0 when nothing was sent.
    fn fps(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.sent.sent as f64 / seconds } else { 0.0 }
    }

    fn json(&self) -> serde_json::Value {
        let (sent, late) = (self.sent, &self.sent.late);
        json!({
            "interface": self.arguments.interface,
            "tester": name(self.kind),
            "frame": self.arguments.frame.to_string(),
            "transport": self.arguments.transport.to_string(),
            "sent": sent.sent,
            "sent_bytes": sent.sent_bytes,
            "seconds": self.time.as_secs_f64(),
            "fps": self.fps(),
            "interface_tx_packets": self.left.frames,
            "interface_tx_dropped": self.left.dropped,
            "interface_xdp_xmit_errors": self.left.xmit_errors,
            "late_ns_p50": (late.total() > 0).then(|| late.percentile(0.5)),
            "late_ns_p999": (late.total() > 0).then(|| late.percentile(0.999)),
            "late_ns_max": (late.total() > 0).then_some(sent.late_max_ns),
            "groups": sent.groups.iter().map(|group| json!({ "sent": group.sent })).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    fn text(&self) -> String {
        let (sent, late) = (self.sent, &self.sent.late);
        let bits = sent.sent_bytes as f64 * 8.0 / self.time.as_secs_f64().max(1e-9) / 1e6;
        let mut text = format!(
            "sent      {} frames in {:.3} s: {}, {bits:.1} Mbit/s\n",
            sent.sent,
            self.time.as_secs_f64(),
            rate(self.fps())
        );
        text += &format!(
            "left      {} by the counter of the interface, {} dropped\n",
            self.left.frames, self.left.dropped
        );
        if late.total() > 0 {
            let us = |ns: u64| ns as f64 / 1000.0;
            text += &format!(
                "late      p50 {:.1} us, p99.9 {:.1} us, max {:.1} us\n",
                us(late.percentile(0.5)),
                us(late.percentile(0.999)),
                us(sent.late_max_ns)
            );
        }
        self.notes.iter().for_each(|note| text += &format!("note      {note}\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_cut_in_two() {
        assert_eq!(halves([198, 18, 0, 1].into()), ([0; 12], 0xc612_0001));
        let prefix = *b"\x20\x01\x0d\xb8\x00\x18\0\0\0\0\0\0";
        assert_eq!(halves("2001:db8:18::1".parse().unwrap()), (prefix, 1));
    }

    #[test]
    fn what_did_not_leave_is_explained() {
        let left = |frames, dropped| Left { frames, dropped, xmit_errors: 0 };
        assert_eq!(left(10, 0).remark("x", 10, TesterKind::Xdp), None);
        assert!(left(0, 0).remark("x", 10, TesterKind::Xdp).unwrap().contains("without counting them"));
        assert!(left(8, 2).remark("x", 10, TesterKind::Xdp).unwrap().starts_with("2 of 10 frames"));
    }
}
