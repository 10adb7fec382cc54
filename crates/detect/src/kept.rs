//! The file of the announcements, from which the next program withdraws those of a killed one.
//!
//! ```text
//! exabgp<TAB>/run/exabgp/exabgp.in<TAB>withdraw route 198.18.0.9/32 next-hop 192.0.2.1
//! gobgp<TAB>gobgp global rib -a ipv4 del 198.18.0.9/32
//! ```
//! What stands there is said to a daemon: a line that weir does not write is refused.

use crate::announce::Daemon;

/// An announcement that may be in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The daemon that may have it.
    pub daemon: Daemon,
    /// The command that takes it back.
    pub withdraw: String,
}

/// The file that says this.
pub fn write(kept: &[Kept]) -> String {
    let line = |Kept { daemon, withdraw }: &Kept| match daemon {
        Daemon::ExaBgp(pipe) => format!("exabgp\t{pipe}\t{withdraw}\n"),
        Daemon::GoBgp => format!("gobgp\t{withdraw}\n"),
    };
    kept.iter().map(line).collect()
}

/// What a file says.
///
/// # Errors
/// The number of a line that weir did not write.
pub fn read(text: &str) -> Result<Vec<Kept>, usize> {
    text.lines().enumerate().map(|(n, line)| one(line).ok_or(n + 1)).collect()
}

fn one(line: &str) -> Option<Kept> {
    let (daemon, withdraw) = match line.split('\t').collect::<Vec<_>>()[..] {
        ["exabgp", pipe, withdraw] => (Daemon::ExaBgp(pipe.to_string()), withdraw),
        ["gobgp", withdraw] => (Daemon::GoBgp, withdraw),
        _ => return None,
    };
    let is_withdrawal = match &daemon {
        Daemon::ExaBgp(pipe) => {
            !pipe.is_empty()
                && ["withdraw route ", "withdraw flow route "].iter().any(|verb| withdraw.starts_with(verb))
        }
        Daemon::GoBgp => {
            let words: Vec<_> = withdraw.split(' ').collect();
            matches!(words[..], ["gobgp", "global", "rib", "-a", _, "del", _, ..])
        }
    };
    let is_plain = line.chars().all(|c| c == '\t' || !c.is_control()) && withdraw.is_ascii();
    (is_withdrawal && is_plain).then(|| Kept { daemon, withdraw: withdraw.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let exabgp =
            |withdraw: &str| Kept { daemon: Daemon::ExaBgp("/run/a b/in".into()), withdraw: withdraw.into() };
        let gobgp = |withdraw: &str| Kept { daemon: Daemon::GoBgp, withdraw: withdraw.into() };
        let all = [
            exabgp("withdraw route 198.18.0.9/32 next-hop 192.0.2.1"),
            exabgp("withdraw flow route destination 198.18.0.9/32 protocol [ udp ] discard"),
            gobgp("gobgp global rib -a ipv4 del 198.18.0.9/32"),
            gobgp("gobgp global rib -a ipv6-flowspec del match destination 2001:db8::9/128 then discard"),
        ];
        assert_eq!(read(&write(&all)), Ok(all.to_vec()));
        assert_eq!(read(""), Ok(vec![]));
    }

    #[test]
    fn what_weir_does_not_write_is_refused_by_its_line() {
        let good = "gobgp\tgobgp global rib -a ipv4 del 198.18.0.9/32\n";
        for wrong in [
            "",
            "hello",
            "gobgp\trm -rf /",
            "gobgp\tgobgp global rib -a ipv4 add 198.18.0.9/32",
            "gobgp\tgobgp global rib -a ipv4 del",
            "exabgp\twithdraw route 198.18.0.9/32",
            "exabgp\t\twithdraw route 198.18.0.9/32",
            "exabgp\t/run/x\tannounce route 198.18.0.9/32",
            "exabgp\t/run/x\twithdraw route 198.18.0.9/32\u{1b}[2J",
            "exabgp\t/run/x\twithdraw route 198.18.0.9/32\tmore",
        ] {
            assert_eq!(read(&format!("{good}{wrong}\n")), Err(2), "{wrong}");
        }
    }
}
