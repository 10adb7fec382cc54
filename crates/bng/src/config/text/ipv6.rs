//! Items of IPv6 of a configuration: pools of prefixes, times of router advertisements.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_config::unit;

use super::Words;
use crate::config::AdvertiseTimes;
use crate::name::Name;
use crate::prefix::{LinkPrefix, PrefixPool};

/// Lengths of the networks that prefixes are in.
const LENGTHS: RangeInclusive<u8> = 16..=LinkPrefix::LEN;

/// Reads what is behind the name of a pool.
pub(super) fn pool(name: Name, words: &mut Words<'_>) -> Result<PrefixPool, String> {
    let word = words.word("a prefix")?;
    let wrong = || {
        format!("`{word}` is no prefix of a pool, which has a /64 for each session: use 2001:db8:100::/48")
    };
    let (network, len) = network(word).ok_or_else(wrong)?;
    let first = LinkPrefix::of(network);
    let host_bits = u128::MAX.checked_shr(len.into()).unwrap_or(0);
    if u128::from(network) & host_bits != 0 {
        return Err(format!("{word} has bits behind its length: write them as 0"));
    }
    words.expect("router")?;
    let word = words.word("the address of the router")?;
    let wrong = || format!("`{word}` is no address of a router: use 2001:db8:100::1/40");
    let (router, router_len) = self::network(word).ok_or_else(wrong)?;
    Ok(PrefixPool { name, first, len, router, router_len })
}

fn network(word: &str) -> Option<(Ipv6Addr, u8)> {
    let (address, len) = word.split_once('/')?;
    Some((address.parse().ok()?, len.parse().ok().filter(|len| LENGTHS.contains(len))?))
}

/// Reads what is behind the word `ra`.
pub(super) fn times(words: &mut Words<'_>) -> Result<AdvertiseTimes, String> {
    let mut times = AdvertiseTimes::default();
    while let Some(word) = words.next() {
        match word {
            // Bounds of RFC 4861, section 6.2.1.
            "interval" => times.interval = time(words, 4, 1800)?,
            "router" => times.router_s = time(words, 4, 9000)?.as_secs() as u16,
            "valid" => times.valid_s = lifetime_s(words)?,
            "preferred" => times.preferred_s = lifetime_s(words)?,
            other => {
                return Err(format!(
                    "`{other}` is no option of ra: use interval, router, valid or preferred"
                ));
            }
        }
    }
    Ok(times)
}

fn lifetime_s(words: &mut Words<'_>) -> Result<u32, String> {
    Ok(time(words, 4, 30 * 86_400)?.as_secs() as u32)
}

fn time(words: &mut Words<'_>, least_s: u64, most_s: u64) -> Result<Duration, String> {
    unit::time(words.word("a time")?, Duration::from_secs(least_s), Duration::from_secs(most_s))
}
