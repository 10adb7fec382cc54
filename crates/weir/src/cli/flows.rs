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

  weir flows --to 192.0.2.2 --cc bbr3                  a congestion control that the kernel may lack
  weir flows --to 192.0.2.2 --iperf3 --flows 10        to a machine with iperf3 but without weir

The client sends, the server counts. --json writes one line per interval: the goodput of each flow from the receiver, and the \
cwnd, round-trip time, retransmissions, delivery rate and pacing rate from the sender's TCP_INFO; the last line is the result. \
Bytes that arrive after the deadline are counted separately. Ctrl-C ends all flows with RST.

The server accepts load from every client that reaches its port.")]
pub(crate) struct Flows {
    /// Send to this server: HOST or HOST:PORT; if a name has several addresses, the first that answers is used
    #[arg(long, value_name = "HOST", required_unless_present = "serve", conflicts_with = "serve", value_parser = Host::read)]
    to: Option<Host>,
    /// The server is `iperf3 --server`, by default at port 5201; at most 128 flows
    #[arg(long, requires = "to", conflicts_with_all = ["reset", "serve"])]
    pub(crate) iperf3: bool,
    /// Be the server: receive and count until Ctrl-C
    #[arg(long)]
    pub(crate) serve: bool,
    /// Address and port to listen on [default: all addresses, port 5301]
    #[arg(long, value_name = "ADDR:PORT", requires = "serve", value_parser = host::end)]
    pub(crate) bind: Option<SocketAddr>,
    /// Number of flows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    flows: u32,
    /// Congestion control of all flows: a name from net.ipv4.tcp_available_congestion_control, or dctcp, bbr2 or bbr3. weir loads
    /// these three into the kernel for the run if it lacks them (needs root). dctcp must be set at the server, too
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// Source address of all flows
    #[arg(long, value_name = "ADDR", value_parser = host::own)]
    from: Option<SocketAddr>,
    /// A group of flows, instead of --flows: flows=50,cc=bbr,from=198.18.1.1,start=2s; repeatable
    #[arg(long, value_name = "SETTINGS", value_parser = group, conflicts_with_all = ["flows", "cc", "from"])]
    group: Vec<Group>,
    /// Seconds from the start to the deadline of all flows
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) duration: Duration,
    /// Length of an interval in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: Duration,
    /// Seconds to wait for late bytes after the deadline; then flows end with RST
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) grace: Duration,
    /// End flows with RST instead of FIN
    #[arg(long)]
    pub(crate) reset: bool,
    /// Rate of the bottleneck, if known: warns if the socket memory is too small for one flow to fill it
    #[arg(long, value_name = "BIT/S", value_parser = line_bits_per_s)]
    pub(crate) rate: Option<f64>,
    /// Write one JSON object per interval to standard output; the last line is the result
    #[arg(long)]
    pub(crate) json: bool,
}

impl Flows {
    /// Addresses of the server, in the order in which they are tried; `None`: this program is the server.
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
