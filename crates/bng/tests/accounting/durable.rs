//! What waits for a server of accounting over restarts beside Starts and Stops: interim updates, Accounting-On.

use super::*;

const INTERIM_60: &str = "accounting interim 60s least-interim 60s";
/// The time of [`World`] at its begin, s since 1970.
const BEGIN_S: u32 = 1_790_000_000;

/// Event-Timestamp of all messages with this status, s after the begin, in the order in which they were answered.
fn times(book: &Book, status: u32) -> Vec<u32> {
    let page = book.0.borrow();
    let of_status = page.requests.iter().filter(|one| one.u32(number::ACCT_STATUS_TYPE) == Some(status));
    of_status.filter_map(|one| one.u32(number::EVENT_TIMESTAMP)).map(|at_s| at_s - BEGIN_S).collect()
}

/// Runs until the next interim update is a record; its time, s after the begin.
fn run_to_interim(world: &mut World) -> u32 {
    let is_interim = |record: &Record| record.to_string().contains(" interim ");
    let before = world.disk.iter().filter(|record| is_interim(record)).count();
    for _ in 0..70 {
        world.run(Duration::from_secs(1));
        if world.disk.iter().filter(|record| is_interim(record)).count() > before {
            return world.now.as_secs() as u32;
        }
    }
    panic!("no interim update in 70 s")
}

#[test]
fn r7_an_interim_update_is_on_disk_with_its_counters_until_a_server_has_it() {
    let (mut world, book) = world_with("accounting interim 15m");
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").id;
    book.set_away(true);
    world.input(Input::Counted { session, counters: counters(5) });
    world.run(Duration::from_secs(900));
    assert_eq!(world.bng.accounting_waits(), 1);
    world.restart();
    world.input(Input::Counted { session, counters: counters(8) });
    world.run(Duration::from_secs(60));
    assert_eq!((world.bng.accounting_waits(), times(&book, INTERIM)), (1, vec![]));
    book.set_away(false);
    let back_s = world.now.as_secs() as u32;
    world.run(Duration::from_secs(400));
    let told = book.told(INTERIM).into_values().next().expect("one");
    let at_s = times(&book, INTERIM)[0];
    assert!((1..=900).contains(&at_s), "{at_s}");
    assert_eq!(told.u32(number::ACCT_INPUT_PACKETS), Some(5), "what was counted at that time");
    assert_eq!(told.u32(number::ACCT_SESSION_TIME), Some(at_s));
    let delay_s = told.u32(number::ACCT_DELAY_TIME).expect("a delay");
    assert!(delay_s >= back_s - at_s, "{delay_s}");
    // It is told once, also after another restart.
    world.restart();
    world.run(Duration::from_secs(10));
    assert_eq!((times(&book, INTERIM).len(), world.bng.accounting_waits()), (1, 0));
}

#[test]
fn r7_an_interim_update_that_is_due_while_one_is_on_its_way_follows_it() {
    let mut world = World::of(
        &format!("{TEXT}, {RADIUS}, {INTERIM_60}"),
        vec![anna(), crate::pppoe::device(2, "ben@isp", "other")],
    );
    let book = Book::default();
    world.accounting = book.server();
    world.dial(0);
    book.set_away(true);
    let first_s = run_to_interim(&mut world);
    // It is sent a second time from 35 to 40 s later on. A server that answers something else meanwhile is not dead.
    world.run(Duration::from_secs(44));
    book.set_away(false);
    world.dial(1);
    book.set_away(true);
    world.run(Duration::from_secs(16));
    book.set_away(false);
    world.run(Duration::from_secs(12));
    let told = times(&book, INTERIM);
    assert_eq!((told[1] - told[0], first_s - told[0] <= 1), (60, true), "the older one first: {told:?}");
}

#[test]
fn r7_a_stop_takes_the_place_of_an_interim_update_that_was_not_sent() {
    let (mut world, book) = world_with(INTERIM_60);
    book.set_away(true);
    world.dial(0);
    run_to_interim(&mut world);
    let session = world.bng.sessions().next().expect("a session").id;
    world.command(Command::Disconnect(session));
    world.restart();
    book.set_away(false);
    world.run(Duration::from_secs(600));
    assert_eq!(book.statuses(), [7, START, STOP]);
    assert_eq!(world.bng.accounting_waits(), 0);
}

/// Table 1.3, row 47.
#[test]
fn r8_accounting_on_is_told_once_although_the_program_was_killed_before_the_answer() {
    let (mut world, book) = world(vec![anna()]);
    book.set_away(true);
    world.dial(0);
    for _ in 0..2 {
        world.restart();
        world.run(Duration::from_secs(100));
    }
    book.set_away(false);
    world.run(Duration::from_secs(600));
    assert_eq!(book.statuses(), [7, START]);
    let on = times(&book, 7);
    assert_eq!(on, [0], "the time of the loss");
    world.restart();
    world.run(Duration::from_secs(600));
    assert_eq!(book.statuses(), [7, START], "it was answered");
}

/// After a power failure, a minute or more after the start.
#[test]
fn counters_are_at_most_a_minute_old_after_a_power_failure_and_never_decrease() {
    let (mut world, _) = world(vec![anna()]);
    world.dial(0);
    let session = world.bng.sessions().next().expect("a session").id;
    let mut last = 0;
    for second in 1..=500 {
        world.run(Duration::from_secs(1));
        world.input(Input::Counted { session, counters: counters(second) });
        if second % 97 == 0 {
            world.restart();
            let found = world.bng.sessions().next().expect("a session").counters;
            assert!(found.up_frames + 60 >= second && found.up_frames >= last, "{second} s: {found:?}");
            last = found.up_frames;
        }
    }
}

/// Takes records to the disk one by one, until so many are there in all; false: the program is killed now.
fn take_records(world: &mut World, most: usize) -> bool {
    while let Some(revision) = world.pending.first().map(|record| record.revision) {
        if world.disk.len() >= most {
            return false;
        }
        let record = world.pending.remove(0);
        world.disk.push(record);
        world.input(Input::Stored { revision });
        world.run(Duration::from_millis(100));
    }
    true
}

/// A session begins, counts, sends an interim update and ends; the program is killed at each of the records of that.
#[test]
fn a_kill_at_each_record_keeps_the_session_of_a_client_that_was_answered_and_each_start_has_a_stop() {
    for most in 3.. {
        let (mut world, book) = world_with(INTERIM_60);
        world.is_disk_slow = true;
        let mut goes_on = true;
        for step in 0..4 {
            match step {
                0 => world.dial(0),
                1 => {
                    let session = world.bng.sessions().next().map(|session| session.id);
                    let session = session.expect("a session");
                    world.input(Input::Counted { session, counters: counters(7) });
                    world.run(Duration::from_secs(61));
                }
                2 => {
                    let session = world.bng.sessions().next().expect("a session").id;
                    world.command(Command::Disconnect(session));
                }
                _ => world.run(Duration::from_secs(100)),
            }
            goes_on = take_records(&mut world, most);
            if !goes_on {
                break;
            }
        }
        let was_up = world.devices[0].address().is_some() && !world.devices[0].client.is_idle();
        world.restart();
        world.is_disk_slow = false;
        assert_eq!(world.online().len(), world.node.len(), "{most} records");
        assert!(!was_up || world.online().len() == 1, "{most} records: a client lost its session");
        world.devices[0].client.reset();
        world.dial(0);
        assert_eq!(world.online().len(), 1, "{most} records");
        let session = world.bng.sessions().next().expect("a session").id;
        world.command(Command::Disconnect(session));
        world.run(Duration::from_secs(1200));
        book.assert_balanced(&format!("{most} records"));
        if goes_on {
            assert!(most > 8, "{most} records alone");
            return;
        }
    }
}
