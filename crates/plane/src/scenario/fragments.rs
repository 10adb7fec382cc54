//! Fragments that left, put together: no checksum tells whether one of them is right, that of the whole packet does.

use std::collections::BTreeMap;

use super::wire::{self, Origin};

/// Fragments by their packet and their place in it, with whether more follow.
#[derive(Default)]
pub(super) struct Reassembly(BTreeMap<Origin, BTreeMap<u16, (bool, Vec<u8>)>>);

impl Reassembly {
    /// One more packet; what is none of several is let go.
    ///
    /// # Errors
    /// It is the last one of a packet whose checksum is wrong.
    pub(super) fn add(&mut self, packet: &[u8]) -> Result<(), String> {
        let Some(fragment) = wire::as_fragment(packet)? else { return Ok(()) };
        let all = self.0.entry(fragment.origin).or_default();
        all.insert(fragment.offset, (fragment.more, fragment.l4));
        let (mut whole, mut goes_on) = (Vec::new(), true);
        for (offset, (more, l4)) in &*all {
            if usize::from(*offset) != whole.len() {
                return Ok(());
            }
            whole.extend(l4);
            goes_on = *more;
        }
        if goes_on {
            return Ok(());
        }
        self.0.remove(&fragment.origin);
        wire::judge(&fragment.origin, &whole)
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet;
    use super::*;

    #[test]
    fn a_packet_in_fragments_is_judged_as_a_whole() {
        for ends in ["udp 198.18.0.1:1 > 198.19.0.9:2", "udp [2001:db8::1]:1 > [2001:db8::2]:2"] {
            let later = ends.replace(":1 >", " >").replace(":2", "").replace("[", "").replace("]", "");
            let later = later.replace("2001:db8: >", "2001:db8::1 >").replace("> 2001:db8:", "> 2001:db8::2");
            let line = |more: &str| packet(&format!("{ends} len 24 whole 48 frag 0+ {more}")).expect(ends);
            let rest = packet(&format!("{later} len 24 whole 48 frag 32")).expect(&later);
            assert_eq!(
                [Reassembly::default().add(&line("")), Reassembly::default().add(&rest)],
                [Ok(()), Ok(())]
            );
            for (first, is_right) in [(line(""), true), (line("badsum"), false)] {
                for order in [[&first, &rest], [&rest, &first]] {
                    let mut fragments = Reassembly::default();
                    assert_eq!(fragments.add(order[0]), Ok(()));
                    assert_eq!(fragments.add(order[1]).is_ok(), is_right, "{ends}");
                }
            }
        }
    }
}
