//! The configuration as a text: items with a comma between them.
//!
//! ```text
//! port access1 mac 02:00:00:00:00:fe trusted relay 192.0.2.1,
//! pool main 100.64.0.2-100.64.0.99 100.64.1.0-100.64.1.9 router 100.64.0.1/16,
//! plan basic down 20Mbit up 5Mbit, dns 192.0.2.53 192.0.2.54,
//! lease 1h renewal 30m rebinding 52m, offer 30s, quarantine 10m, moves refuse,
//! limit line 100 burst 200, limit subscriber 5 burst 20,
//! subscriber anna mac 02:00:00:00:00:01 plan basic address 100.64.0.9 blocked
//! ```
//! `#` begins a comment, up to the end of its line.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_config::{Mistakes, Notes, did_you_mean, unit};

use super::{Config, LeaseTimes, Moves, Port};
use crate::limit::Limit;
use crate::name::Name;
use crate::plan::Rates;
use crate::pool::Pool;
use crate::subscriber::Subscriber;
use crate::words::Words;

const ITEMS: [&str; 10] =
    ["port", "pool", "plan", "dns", "lease", "offer", "quarantine", "moves", "limit", "subscriber"];

/// See [`Config::read`].
pub(super) fn read(file: &str, text: &str) -> Result<(Config, Vec<Subscriber>), Mistakes> {
    let notes = Notes::new("a bng", text);
    let (mut config, mut subscribers) = (Config::default(), Vec::new());
    let without_comments = without_comments(text);
    let mut end = 0;
    for item in without_comments.split(',') {
        let start = end + item.len() - item.trim_start().len();
        end += item.len() + 1;
        if item.trim().is_empty() {
            continue;
        }
        if let Err(wrong) = read_item(item, &mut config, &mut subscribers) {
            notes.add(Some(start..start), "", wrong);
        }
    }
    if notes.is_empty() {
        for wrong in config.contradictions() {
            notes.add(Some(0..0), "", wrong);
        }
    }
    if notes.is_empty() { Ok((config, subscribers)) } else { Err(notes.to_mistakes(file)) }
}

/// The text with blanks in place of comments, as long as it was.
fn without_comments(text: &str) -> String {
    let line = |line: &str| {
        let code = line.find('#').unwrap_or(line.len());
        let (code, comment) = line.split_at(code);
        let blank = comment.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' });
        format!("{code}{}", blank.collect::<String>())
    };
    text.split_inclusive('\n').map(line).collect()
}

fn read_item(item: &str, config: &mut Config, subscribers: &mut Vec<Subscriber>) -> Result<(), String> {
    let words = &mut Words::new(item);
    match words.word("an item")? {
        "port" => {
            let name = words.value("the name of the port")?;
            if config.ports.insert(name, port(words)?).is_some() {
                return Err("there are two ports of this name: remove one".into());
            }
        }
        "pool" => {
            let pool = pool(words)?;
            if config.pools.iter().any(|other| other.name == pool.name) {
                return Err(format!("there are two pools of the name {}: remove one", pool.name));
            }
            config.pools.push(pool);
        }
        "plan" => {
            let name: Name = words.value("the name of the plan")?;
            if name.as_str() == "down" {
                return Err("a plan cannot have the name `down`: use another one".into());
            }
            if config.plans.insert(name, Rates::read(words)?).is_some() {
                return Err("there are two plans of this name: remove one".into());
            }
        }
        "dns" => {
            while words.peek().is_some() {
                config.dns.push(words.number("IPv4 address")?);
            }
        }
        "lease" => config.lease = lease(words)?,
        "offer" => config.offer = time(words, 1)?,
        "quarantine" => config.quarantine = time(words, 1)?,
        "moves" => {
            config.moves = match words.word("`replace` or `refuse`")? {
                "replace" => Moves::Replace,
                "refuse" => Moves::Refuse,
                other => return Err(format!("`{other}` is no rule for moves: use replace or refuse")),
            }
        }
        "limit" => match words.word("`line` or `subscriber`")? {
            "line" => config.line_limit = limit(words)?,
            "subscriber" => config.subscriber_limit = limit(words)?,
            other => return Err(format!("`{other}` has no limit: use line or subscriber")),
        },
        "subscriber" => subscribers.push(Subscriber::read(words)?),
        other => return Err(format!("`{other}` is no item: {}", did_you_mean(other, &ITEMS))),
    }
    words.end()
}

fn port(words: &mut Words<'_>) -> Result<Port, String> {
    words.expect("mac")?;
    let mut port = Port { mac: words.value("a MAC address")?, is_trusted: false, relays: Vec::new() };
    if !port.mac.is_station() {
        return Err(format!("{} is not the address of one port: use one like 02:00:00:00:00:fe", port.mac));
    }
    port.is_trusted = words.takes("trusted");
    while words.takes("relay") {
        port.relays.push(words.number("IPv4 address")?);
    }
    Ok(port)
}

fn pool(words: &mut Words<'_>) -> Result<Pool, String> {
    let (name, mut ranges) = (words.value("the name of the pool")?, Vec::new());
    loop {
        let word = words.word("a range, or `router`,")?;
        if word == "router" {
            break;
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let ends = first.parse().ok().zip(last.parse().ok());
        ranges.push(ends.ok_or_else(|| format!("`{word}` is no range: use 100.64.0.2-100.64.0.99"))?);
    }
    let word = words.word("the address of the router")?;
    let wrong = || format!("`{word}` is no address of a router: use 100.64.0.1/16, or /32 behind it");
    let (router, len) = word.split_once('/').ok_or_else(wrong)?;
    let router: Ipv4Addr = router.parse().map_err(|_| wrong())?;
    let prefix_len = len.parse().ok().filter(|len| (8..=32).contains(len)).ok_or_else(wrong)?;
    Ok(Pool { name, ranges, router, prefix_len })
}

fn lease(words: &mut Words<'_>) -> Result<LeaseTimes, String> {
    let mut times = LeaseTimes::of(seconds(words)?);
    if words.takes("renewal") {
        times.renewal_s = seconds(words)?;
    }
    if words.takes("rebinding") {
        times.rebinding_s = seconds(words)?;
    }
    Ok(times)
}

/// At most a year: a lease of 2^32 - 1 s would be infinite (RFC 2131, section 3.3).
fn seconds(words: &mut Words<'_>) -> Result<u32, String> {
    Ok(u32::try_from(time(words, 1)?.as_secs()).unwrap_or(u32::MAX - 1))
}

fn time(words: &mut Words<'_>, least_s: u64) -> Result<Duration, String> {
    let most = Duration::from_secs(365 * 86_400);
    unit::time(words.word("a time")?, Duration::from_secs(least_s), most)
}

fn limit(words: &mut Words<'_>) -> Result<Limit, String> {
    let number = |words: &mut Words<'_>| {
        let word = words.word("a number of messages")?;
        let number = word.parse().ok().filter(|number| (1..=1_000_000).contains(number));
        number.ok_or_else(|| format!("`{word}` is no limit: use 1 to 1000000 messages per second"))
    };
    let per_s = number(words)?;
    let burst = if words.takes("burst") { number(words)? } else { per_s };
    Ok(Limit { per_s, burst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_are_read() {
        let text = "port access1 mac 02:00:00:00:00:fe trusted relay 192.0.2.1, # the first one, with a comma
            pool main 100.64.0.2-100.64.0.99 100.64.1.1-100.64.1.9 router 100.64.0.1/16,
            plan basic down 20Mbit up 5Mbit, dns 192.0.2.53
            192.0.2.54, lease 1h renewal 20m rebinding 40m, offer 5s, quarantine 1h, moves refuse,
            limit line 10 burst 20, limit subscriber 3,
            subscriber anna mac 02:00:00:00:00:01 plan basic";
        let (config, subscribers) = read("x", text).unwrap();
        assert_eq!(config.lease, LeaseTimes { lease_s: 3600, renewal_s: 1200, rebinding_s: 2400 });
        assert_eq!((config.ports.len(), config.dns.len(), config.pools[0].size()), (1, 2, 107));
        assert_eq!(config.subscriber_limit, Limit { per_s: 3, burst: 3 });
        assert_eq!(subscribers[0].to_string(), "anna mac 02:00:00:00:00:01 plan basic");
        assert_eq!(read("x", "").map(|(config, _)| config), Ok(Config::default()));
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
        let texts = [
            "plan basic down 20Mbit up 5Mbit,\n# not here, é\npol main,\n  port access1,\n\nlease 10m renewal 20m",
            "pool main 100.64.0.2-100.64.0.99 router 100.64.0.1",
            "pool main 100.64.0.2-9 router 100.64.0.1/16",
            "pool main 100.64.0.9-100.64.0.2 router 100.64.0.1/16, lease 1h renewal 2h",
            "pool main 100.64.0.0-100.64.0.9 router 100.64.0.1/24",
            "pool main 100.64.0.9-100.64.0.255 router 100.64.0.1/24",
            "pool main 100.64.0.9-100.64.1.2 router 100.64.0.1/24",
            "pool a 100.64.0.9-100.64.0.12 router 100.64.0.1/24, pool b 100.64.0.12 router 100.64.0.1/24",
            "pool a 100.64.0.9 router 100.64.0.1/24, pool a 100.64.0.12 router 100.64.0.1/24",
            "pool main 0.0.0.1-0.0.0.9 224.0.0.1 router 100.64.0.1/32",
            "port access1 mac ff:ff:ff:ff:ff:ff",
            "moves maybe, limit port 7, limit line 0, offer never, dns here, plan down down 1M up 1M",
        ];
        weir_testkit::golden!(
            "src/config/mistakes.txt",
            &weir_testkit::mistakes(&texts, |text| read("isp.node", text))
        );
    }
}
