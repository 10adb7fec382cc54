//! Whatever is cut or killed at any point of a push, nothing is lost and nothing is there twice.
//!
//! `WEIR_KILLS=1000 cargo test -p weir-archive --test archive kills` makes each a thousand.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_archive::{Old, PostgresArchive, Which, delete_old, push};
use weir_testkit::kills::{Kills, kill_after};
use weir_testkit::{Dice, Folder, number, postgres};

use super::bed::{Bed, small_run, write_all};

/// Runs of a log.
const RUNS: usize = 4;

/// A bed whose log has a few runs.
fn filled() -> Option<Bed> {
    let bed = Bed::new()?;
    for _ in 0..RUNS {
        write_all(&bed.log, &small_run());
    }
    // The tables are there: their making is one transaction, and only the first push of all has it.
    drop(bed.archive());
    Some(bed)
}

/// After the rest of the push the archive is that of the log; then it is emptied. All of this is one process and one connection, so
/// that a thousand rounds are minutes.
fn check(bed: &Bed, what: &str) {
    let server = bed.server(&bed.url);
    let archive = PostgresArchive::open(&server).expect("an archive");
    let pushed = push(bed.log.archive(), &Which::All, &archive);
    let pushed = pushed.unwrap_or_else(|error| panic!("{what}: {error}"));
    let runs = pushed.new + pushed.continued + pushed.present;
    assert_eq!((runs, &*pushed.refused), (RUNS, &[][..]), "{what}");
    bed.check_same_in(&archive, what);
    drop(archive);
    // All runs of the fixture began before this day.
    assert_eq!(delete_old(&server, &Old { days: 0, plan: None }).expect("deleted"), RUNS as u64, "{what}");
}

#[test]
fn a_killed_client_loses_and_duplicates_nothing() {
    let Some(bed) = filled() else { return };
    let begun = Instant::now();
    bed.pushes(&format!("{RUNS} new"));
    let longest = begun.elapsed();
    check(&bed, "no kill");
    let mut kills = Kills::new(25);
    while let Some((delay, what)) = kills.next(longest) {
        let mut command = bed.push_command(&bed.url);
        let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        kill_after(&mut client, delay);
        check(&bed, &what);
    }
}

/// What lies between a client and the server: it passes a number of bytes of both directions, then the event happens.
struct Relay {
    folder: Folder,
    left: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
    cut: Arc<Mutex<Option<Sender<()>>>>,
}

impl Relay {
    fn to(bed: &Bed) -> Relay {
        let folder = Folder::for_all();
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket");
        let server = bed.postgres.folder().join(".s.PGSQL.5432");
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let (passed, cut) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Option<Sender<()>>>>::default());
        let relay = Relay { folder, left: left.clone(), passed: passed.clone(), cut: cut.clone() };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = UnixStream::connect(&server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
                    let (left, passed, cut) = (left.clone(), passed.clone(), cut.clone());
                    std::thread::spawn(move || pass(from, to, &left, &passed, &cut));
                }
            }
        });
        relay
    }

    fn url(&self, bed: &Bed) -> String {
        postgres::url(&self.folder, "owner", &bed.database)
    }

    /// Cuts the connection after so many bytes, and tells it.
    fn cut_after(&self, bytes: u64) -> std::sync::mpsc::Receiver<()> {
        let (sender, receiver) = channel();
        *self.cut.lock().expect("no panic") = Some(sender);
        self.left.store(bytes, Relaxed);
        receiver
    }
}

/// Passes bytes from one socket to another until no more may pass.
fn pass(
    mut from: UnixStream,
    mut to: UnixStream,
    left: &AtomicU64,
    passed: &AtomicU64,
    cut: &Mutex<Option<Sender<()>>>,
) {
    let mut part = [0; 512];
    loop {
        let read = match from.read(&mut part) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let before = left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(read as u64)));
        let may = (before.unwrap_or_default() as usize).min(read);
        passed.fetch_add(may as u64, Relaxed);
        if to.write_all(&part[..may]).is_err() {
            break;
        }
        if may < read {
            if let Some(cut) = cut.lock().expect("no panic").take() {
                let _ = cut.send(());
            }
            break;
        }
    }
    let _ = (from.shutdown(std::net::Shutdown::Both), to.shutdown(std::net::Shutdown::Both));
}

/// Bytes of a whole push.
fn whole(bed: &Bed, relay: &Relay) -> u64 {
    let pushed = bed.push(&relay.url(bed));
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    check(bed, "through the relay");
    relay.passed.load(Relaxed)
}

#[test]
fn a_cut_connection_loses_and_duplicates_nothing() {
    let Some(bed) = filled() else { return };
    let relay = Relay::to(&bed);
    let whole = whole(&bed, &relay);
    let seed = number("WEIR_KILL_SEED", 1);
    let mut dice = Dice::new(seed);
    for n in 0..number("WEIR_KILLS", 25) {
        let bytes = dice.roll(whole as usize) as u64;
        drop(relay.cut_after(bytes));
        let pushed = bed.push(&relay.url(&bed));
        assert!(!pushed.status.success(), "cut {n} after {bytes} of {whole} bytes");
        check(&bed, &format!("cut {n} of seed {seed} after {bytes} of {whole} bytes"));
    }
}

#[test]
fn a_killed_server_loses_and_duplicates_nothing() {
    let Some(mut bed) = filled() else { return };
    let relay = Relay::to(&bed);
    let whole = whole(&bed, &relay);
    let seed = number("WEIR_KILL_SEED", 1);
    let mut dice = Dice::new(seed);
    for n in 0..number("WEIR_KILLS", 10) {
        let bytes = dice.roll(whole as usize) as u64;
        let cut = relay.cut_after(bytes);
        let url = relay.url(&bed);
        let mut command = bed.push_command(&url);
        let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        cut.recv_timeout(Duration::from_secs(60)).expect("the bytes pass");
        bed.postgres.restart();
        client.wait().expect("it ran");
        check(&bed, &format!("kill {n} of seed {seed} after {bytes} of {whole} bytes"));
    }
}
