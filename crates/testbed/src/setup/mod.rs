//! The complete configuration of an external device under test, as text to paste or to send over SSH.
//!
//! ```text
//! tester 198.18.1.2 --- [side a] 198.18.1.1  box  198.19.1.1 [side b] --- 198.19.1.2 tester
//!   198.18.0.0/16 <--- routes ---                      --- routes ---> 198.19.0.0/16
//! ```
//! Addresses and rules are those of the beds that weir builds itself ([`crate::topology`], [`crate::rules`]); the
//! tuning is that of the comparison of BSD and Linux routers of 2017, as comments, because it depends on the NIC.
//! Applying a set-up twice does no harm. A filter is bound to the test interfaces, so that the connection that the
//! text came through survives it.
//!
//! The Linux texts are run by a test. The others follow the manuals named in their files; they have not been run on
//! such a machine by this project.

use std::fmt;
use std::str::FromStr;

use weir_packet::flow::IpVersion;

use crate::error::{Error, Result};
use crate::rules::RULES;
use crate::topology::Side;

mod freebsd;
mod linux;
mod openbsd;
mod pf;
mod routeros;
#[cfg(test)]
mod tests;
mod vyos;

/// Operating system and filter of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Os {
    /// Linux with nftables.
    LinuxNft,
    /// Linux with iptables.
    LinuxIptables,
    /// FreeBSD with pf.
    FreebsdPf,
    /// FreeBSD with ipfw.
    FreebsdIpfw,
    /// OpenBSD, whose filter is pf.
    OpenbsdPf,
    /// MikroTik RouterOS 7.
    Routeros,
    /// VyOS 1.4 or newer.
    Vyos,
}

impl Os {
    /// All systems with their names on the command line and in plans.
    pub const ALL: [(Os, &'static str); 7] = [
        (Os::LinuxNft, "linux-nft"),
        (Os::LinuxIptables, "linux-iptables"),
        (Os::FreebsdPf, "freebsd-pf"),
        (Os::FreebsdIpfw, "freebsd-ipfw"),
        (Os::OpenbsdPf, "openbsd-pf"),
        (Os::Routeros, "routeros"),
        (Os::Vyos, "vyos"),
    ];

    /// Names that its first two interfaces often have.
    pub fn usual_interfaces(self) -> [&'static str; 2] {
        match self {
            Os::LinuxNft | Os::LinuxIptables | Os::Vyos => ["eth1", "eth2"],
            Os::FreebsdPf | Os::FreebsdIpfw | Os::OpenbsdPf => ["em0", "em1"],
            Os::Routeros => ["ether2", "ether3"],
        }
    }
}

/// What the box does with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Forwards them, without a filter.
    Forward,
    /// Compares each with all rules, without state.
    Stateless,
    /// The same rules, with state.
    Stateful,
}

impl Mode {
    /// All modes with their names on the command line and in plans.
    pub const ALL: [(Mode, &'static str); 3] =
        [(Mode::Forward, "forward"), (Mode::Stateless, "stateless"), (Mode::Stateful, "stateful")];
}

/// Looks a name up, or says which there are.
fn named<T: Copy>(all: &[(T, &str)], what: &str, text: &str) -> std::result::Result<T, String> {
    all.iter().find(|(_, name)| *name == text).map(|(value, _)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(_, name)| *name).collect();
        format!("`{text}` is no {what}: use {}", names.join(", "))
    })
}

impl FromStr for Os {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Os, String> {
        named(&Os::ALL, "system that weir knows", text)
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Mode, String> {
        named(&Mode::ALL, "mode", text)
    }
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Os::ALL.iter().find(|(os, _)| os == self).expect("every system is in ALL").1)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Mode::ALL.iter().find(|(mode, _)| mode == self).expect("every mode is in ALL").1)
    }
}

/// What a box is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its system and filter.
    pub os: Os,
    /// What it does with frames.
    pub mode: Mode,
    /// Source NAT towards side b on top.
    pub nat: bool,
    /// Number of filter rules, of which only the last accepts test traffic; from 1 on, see [`RULES`].
    pub rules: u32,
    /// Its interfaces on side a and side b; the same name twice if it has one port for both.
    pub interfaces: [String; 2],
    /// IP version of the test traffic.
    pub ip: IpVersion,
}

impl Setup {
    /// The text.
    ///
    /// # Errors
    /// [`Error::Input`] for what cannot be: a number of rules that is out of range, NAT without state or of IPv6 with
    /// ipfw, a name that is no interface.
    pub fn text(&self) -> Result<String> {
        self.check()?;
        Ok(match self.os {
            Os::LinuxNft | Os::LinuxIptables => linux::text(self),
            Os::FreebsdPf | Os::FreebsdIpfw => freebsd::text(self),
            Os::OpenbsdPf => openbsd::text(self),
            Os::Routeros => routeros::text(self),
            Os::Vyos => vyos::text(self),
        })
    }

    fn check(&self) -> Result<()> {
        let input = |text: String| Err(Error::Input(text));
        if !(1..=*RULES.end()).contains(&self.rules) {
            return input(format!("{} rules: use 1 to {}", self.rules, RULES.end()));
        }
        if self.nat && self.mode == Mode::Stateless {
            return input("NAT keeps state: use the mode forward or stateful with it".into());
        }
        if self.nat && self.ip == IpVersion::V6 && self.os == Os::FreebsdIpfw {
            return input("ipfw's NAT knows IPv4 only: use freebsd-pf, or --ip 4".into());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match self.interfaces.iter().find(|name| name.is_empty() || !name.chars().all(plain)) {
            Some(name) => input(format!("`{name}` is no name of an interface: use letters, digits, . _ -")),
            None => Ok(()),
        }
    }

    fn filters(&self) -> bool {
        self.mode != Mode::Forward
    }

    /// Both sides with the interface of the box there.
    fn sides(&self) -> [(Side, &str); 2] {
        [(Side::A, &self.interfaces[0]), (Side::B, &self.interfaces[1])]
    }

    /// The interfaces, each once.
    fn ports(&self) -> Vec<&str> {
        let mut ports: Vec<&str> = self.interfaces.iter().map(String::as_str).collect();
        ports.dedup();
        ports
    }

    /// Address of the box with its prefix: just wide enough for the tester's gateway beside it.
    fn address(&self, side: Side) -> String {
        format!("{}/{}", side.dut(self.ip), if self.ip == IpVersion::V4 { 30 } else { 64 })
    }

    fn network(&self, side: Side) -> String {
        let (network, prefix) = side.network(self.ip);
        format!("{network}/{prefix}")
    }

    /// First lines of every text; `system` is what people call it.
    fn heading(&self, system: &str, how: &str) -> String {
        let rules = match (self.filters(), self.rules) {
            (false, _) => String::new(),
            (true, 1) => ", 1 rule, which accepts the test traffic".into(),
            (true, n) => format!(", {n} rules; only the last accepts the test traffic"),
        };
        let nat = if self.nat { ", source NAT towards side b" } else { "" };
        let [a, b] = &self.interfaces;
        let ports = if a == b {
            format!("{a}, which is side a and side b")
        } else {
            format!("{a} (side a), {b} (side b)")
        };
        format!(
            "# {system} as a device under test: {}{rules}{nat}.\n# Interfaces: {ports}. {how}\n",
            self.mode
        )
    }
}

/// Lines of tuning as comments: command, and why in half a sentence.
fn advice(lines: &[(String, &str)]) -> String {
    let width = lines.iter().map(|(command, _)| command.len()).max().unwrap_or(0).min(58);
    lines.iter().map(|(command, why)| format!("# {command:width$}  # {why}\n")).collect()
}
