//! TCP load.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use weir_config::rate::line_bits_per_s;
use weir_flows::{Group, IPERF3_PORT, PORT};

use super::frames::seconds;
use super::host::{self, Host};

/// `weir flows`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir flows --serve                                   on one machine
  weir flows --to 192.0.2.2 --flows 100 --cc cubic     on the other
  weir flows --to 192.0.2.2 --group flows=50,cc=cubic --group flows=50,cc=bbr,from=198.18.1.1,start=2s --json

  weir flows --to 192.0.2.2 --cc bbr3                  a congestion control that the kernel need not have
  weir flows --to 192.0.2.2 --iperf3 --flows 10        to a machine that has iperf3 and not weir

The client sends, the server counts. With --json there is a line for each interval: goodput of each flow from the receiver, and
cwnd, round trip, retransmissions, delivery rate and pacing rate from TCP_INFO of the sender; the result is the last line.
Bytes that arrive after the deadline are counted apart. Ctrl-C ends all flows by RST.

The server takes load from everybody who reaches its port.")]
pub(crate) struct Flows {
    /// Send to this server: HOST or HOST:PORT; of a name with several addresses, the first that answers
    #[arg(long, value_name = "HOST", required_unless_present = "serve", conflicts_with = "serve", value_parser = Host::read)]
    to: Option<Host>,
    /// The server is `iperf3 --server`, at port 5201 if no other is named: at most 128 flows
    #[arg(long, requires = "to", conflicts_with_all = ["reset", "serve"])]
    pub(crate) iperf3: bool,
    /// Receive and count, until Ctrl-C
    #[arg(long)]
    pub(crate) serve: bool,
    /// Address and port of a server [default: all addresses, port 5301]
    #[arg(long, value_name = "ADDR:PORT", requires = "serve", value_parser = host::end)]
    pub(crate) bind: Option<SocketAddr>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    flows: u32,
    /// Congestion control of all flows, as in net.ipv4.tcp_available_congestion_control, or dctcp, bbr2 or bbr3, which are
    /// loaded into the kernel meanwhile if it has none (needs root); of a server, that of its connections: dctcp needs both
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// Address that all flows come from
    #[arg(long, value_name = "ADDR", value_parser = host::own)]
    from: Option<SocketAddr>,
    /// Flows of one kind, in place of --flows: flows=50,cc=bbr,from=198.18.1.1,start=2s; can be given more than once
    #[arg(long, value_name = "SETTINGS", value_parser = group, conflicts_with_all = ["flows", "cc", "from"])]
    group: Vec<Group>,
    /// Seconds from the start to the deadline of all flows
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) duration: Duration,
    /// Seconds of an interval
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Seconds in which late bytes may arrive; then flows end by RST
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) grace: Duration,
    /// End flows by RST, in place of FIN
    #[arg(long)]
    pub(crate) reset: bool,
    /// Rate of the bottleneck, if it is known: says when the memory of sockets is less than a flow needs to fill it
    #[arg(long, value_name = "BIT/S", value_parser = line_bits_per_s)]
    pub(crate) rate: Option<f64>,
    /// Write a line of JSON for each interval to standard output, and the result as the last one
    #[arg(long)]
    pub(crate) json: bool,
}

impl Flows {
    /// Addresses of the server, in the order in which they are tried; `None`: this is one.
    pub(crate) fn to(&self) -> Option<Vec<SocketAddr>> {
        let usual = if self.iperf3 { IPERF3_PORT } else { PORT };
        self.to.as_ref().map(|host| host.addresses(usual))
    }

    /// The flows, at least one.
    pub(crate) fn groups(&self) -> Vec<Group> {
        if self.group.is_empty() {
            let (cc, from) = (self.cc.clone(), self.from);
            return vec![Group { flows: self.flows, cc, from, start: Duration::ZERO }];
        }
        self.group.clone()
    }
}

fn group(text: &str) -> Result<Group, String> {
    let mut group = Group { flows: 1, cc: None, from: None, start: Duration::ZERO };
    for setting in text.split(',') {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let wrong = |use_this: &str| format!("`{setting}`: use {use_this}");
        match name {
            "flows" => {
                let flows = value.parse().ok().filter(|flows| (1..=100_000).contains(flows));
                group.flows = flows.ok_or_else(|| wrong("flows=1 to flows=100000"))?;
            }
            "cc" if !value.is_empty() => group.cc = Some(value.into()),
            "from" => group.from = Some(host::own(value).map_err(|_| wrong("from=ADDRESS"))?),
            "start" if value == "0" => group.start = Duration::ZERO,
            "start" => group.start = seconds(value)?,
            _ => return Err(wrong("flows=, cc=, from= or start=")),
        }
    }
    Ok(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read() {
        let read = group("flows=50,cc=bbr,from=198.18.1.1,start=2s").unwrap();
        assert_eq!((read.flows, read.cc.as_deref(), read.start), (50, Some("bbr"), Duration::from_secs(2)));
        for (text, message) in [
            ("flows=0", "flows=1 to"),
            ("flow=1", "use flows=, cc=, from= or start="),
            ("from=here", "use from=ADDRESS"),
            ("cc=", "use flows="),
        ] {
            assert!(group(text).unwrap_err().contains(message), "{text}");
        }
        let scoped = group("from=fe80::1%lo").unwrap().from;
        assert_eq!(scoped, Some("[fe80::1%1]:0".parse().unwrap()));
    }
}
