//! Random records beside a naive model: what is read is what all records lead to.

use std::collections::BTreeMap;

use weir_testkit::{Dice, number};

use super::*;

const SUBSCRIBERS: usize = 6;

/// Makes records that a control plane could write, and some that it could not.
struct Maker {
    dice: Dice,
    revision: u64,
    /// Sessions that were begun: subscriber, what they counted.
    sessions: BTreeMap<u64, (usize, u64)>,
}

impl Maker {
    fn address(&mut self) -> String {
        format!("100.64.0.{}", 2 + self.dice.roll(5))
    }

    /// Nothing, or a prefix of IPv6 behind the address of a lease.
    fn prefix(&mut self) -> String {
        match self.dice.roll(5) {
            0 => String::new(),
            n => format!(" prefix 2001:db8:0:{n}::/64"),
        }
    }

    fn session(&mut self) -> (u64, usize, u64) {
        let sessions: Vec<_> = self.sessions.keys().copied().collect();
        match self.dice.pick(&sessions) {
            Some(&session) => {
                let (subscriber, counted) = self.sessions[&session];
                let counted = counted + self.dice.roll(9) as u64;
                self.sessions.insert(session, (subscriber, counted));
                (session, subscriber, counted)
            }
            None => (1, 1, 0),
        }
    }

    fn next(&mut self) -> Record {
        // Numbers are left out after a failure.
        self.revision += if self.dice.one_in(20) { 5 } else { 1 };
        let revision = self.revision;
        let n = 1 + self.dice.roll(SUBSCRIBERS);
        let mac = format!("02:00:00:00:00:0{}", self.dice.roll(SUBSCRIBERS));
        let (address, prefix) = (self.address(), self.prefix());
        let account = [
            "",
            " acct 00000000000000ff waits class a timeout 9",
            " acct 00000000000000fe started",
            " acct 0000000000000001 off",
        ][self.dice.roll(4)];
        let line = match self.dice.roll(17) {
            0..=1 => {
                let ends = [
                    "",
                    " blocked",
                    " address 100.64.0.9",
                    " address 100.64.0.8 group west nat none walled",
                    " nat one-to-one 192.0.2.9",
                    " prefix 2001:db8:0:9::/64 blocked",
                ];
                let end = ends[self.dice.roll(ends.len())];
                let key = [format!("mac {mac}"), format!("line a:{n}"), "circuit eth0/1".into()];
                format!("subscriber s{n} {} plan down 1Mbit/s up 2Mbit/s{end}", key[self.dice.roll(3)])
            }
            2..=4 => {
                self.sessions.insert(revision, (n, 0));
                let seat = ["", "", " seat 1", " seat 2"][self.dice.roll(4)];
                format!(
                    "lease {revision} s{n}{seat} a:{n} {mac} {address}{prefix}{account} start 7 granted 1789999990 for 3600 counted 0 0 0 0"
                )
            }
            5..=6 => {
                let (session, n, counted) = self.session();
                let id = ["", " relay 192.0.2.1", " id 0x", " id 0x0102"][self.dice.roll(4)];
                format!(
                    "lease {session} s{n} a:{n} {mac} {address}{prefix}{id}{account} start 7 granted 1789999995 for 60 counted 0 {counted} 0 {counted}"
                )
            }
            7 => {
                let (session, n, counted) = self.session();
                let at = ["", " at 1790000050"][self.dice.roll(2)];
                format!("end {session} s{n} {address} released{at} counted {counted} 1 1 1")
            }
            8 => format!("declined {address} s{n} until {}", 1_790_000_100 + revision),
            9 => {
                let (session, _, counted) = self.session();
                format!("counters {session} counted 1 {counted} 0 {counted}")
            }
            10 => format!("last s{n} {address}"),
            11 => {
                let (session, _, _) = self.session();
                let what = ["start", "start", "interim", "stop"][self.dice.roll(4)];
                format!("accounted {session} {what}")
            }
            13 => {
                let (session, _, counted) = self.session();
                format!("interim {session} at {} counted 0 {counted} 0 {counted}", 1_790_000_000 + revision)
            }
            14 => ["lost-all at 1790000000", "accounted 0 start"][self.dice.roll(2)].into(),
            12 if !prefix.is_empty() => format!("last-prefix s{n}{}", prefix.trim_start_matches(" prefix")),
            _ if self.dice.one_in(3) => format!("removed s{n}"),
            _ => format!("declined {address} s{n} until 1790000200"),
        };
        record(&format!("1 {revision} {line}"))
    }
}

#[test]
fn what_is_read_is_what_all_records_lead_to() {
    let first = number("MODEL_SEED", 0);
    for seed in first..first + number("MODEL_SEEDS", 20) {
        let mut dice = Dice::new(seed);
        let folder = Folder::new();
        let mut maker = Maker { dice: Dice::new(seed + 1_000_000), revision: 0, sessions: BTreeMap::new() };
        let mut all: Vec<Record> = Vec::new();
        for _ in 0..6 {
            let (mut store, found) = open(&folder);
            assert_eq!(state(&found), state(&all), "seed {seed}");
            let addresses = found.iter().filter_map(|record| match &record.change {
                Change::Lease { lease, .. } => Some(lease.address),
                _ => None,
            });
            let mut addresses: Vec<_> = addresses.collect();
            addresses.sort();
            assert!(addresses.is_sorted_by(|a, b| a < b), "seed {seed}: {addresses:?}");
            for _ in 0..dice.roll(40) {
                let record = maker.next();
                all.push(record.clone());
                store.append(record);
                if dice.one_in(4) {
                    wait_for(&mut store, maker.revision);
                }
            }
            store.close().expect("all is written");
        }
    }
}
