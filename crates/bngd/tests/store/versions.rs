//! Databases of versions before this one: the program that is upgraded finds all that was there.

use rusqlite::Connection;

use super::*;

/// What each version has added, the oldest first.
const SCHEMAS: [&str; 9] = [
    include_str!("../../src/store/database/schema.sql"),
    include_str!("../../src/store/database/pppoe.sql"),
    include_str!("../../src/store/database/groups.sql"),
    include_str!("../../src/store/database/prefixes.sql"),
    include_str!("../../src/store/database/accounting.sql"),
    include_str!("../../src/store/database/answers.sql"),
    include_str!("../../src/store/database/interims.sql"),
    include_str!("../../src/store/database/routes.sql"),
    include_str!("../../src/store/database/seats.sql"),
];
const FILLED: &str = "UPDATE filled SET revision = 40;
    INSERT INTO subscribers (name, key, plan, fixed_address, status, last_address, revision)
        VALUES ('anna', 'login anna@isp', 'basic', NULL, 'active', '100.64.0.7', 1),
        ('ben', 'mac 02:00:00:00:00:02', 'basic', '100.64.0.9', 'blocked', NULL, 2);
    INSERT INTO sessions (id, subscriber, line, mac, address, start_s, granted_s, lease_s, down_frames, down_bytes,
        up_frames, up_bytes, revision)
        VALUES (8, 'anna', 'access1:100.7', '02:00:00:00:00:01', '100.64.0.2', 7, 9, 0, 1, 2, 3, 4, 9);
    INSERT INTO quarantines VALUES ('100.64.0.5', 'ben', 1790000600, 12);";
/// What the version of each place alone could have.
const ROWS: [&str; 9] = [
    "",
    "UPDATE sessions SET ppp = '7/1500/1492/1/2'; UPDATE subscribers SET password = 'secret' WHERE name = 'anna'",
    "UPDATE subscribers SET group_name = 'west'",
    "UPDATE sessions SET prefix = '2001:db8:0:7::/64'",
    "UPDATE sessions SET account = '00000000000000ff waits class a';
     INSERT INTO unaccounted VALUES (5, 'ben', 'access1', '02:00:00:00:00:02', '100.64.0.9', NULL, 'ipoe', '00000000000000fe started',
        7, 9, 'lost', 1, 2, 3, 4)",
    "INSERT INTO answers VALUES ('anna@isp', 'at 1790000000 line access1 mac 02:00:00:00:00:01 attributes 0x080664400009', 1790000000, 30)",
    "INSERT INTO interims VALUES (8, 1790000000, 1, 2, 3, 4); INSERT INTO accounting_on VALUES (1, 1790000000);
     UPDATE subscribers SET nat = 'none' WHERE name = 'anna'",
    "UPDATE subscribers SET routes = 'route 203.0.113.0/28', pool = 'main', prefix_pool = 'six' WHERE name = 'anna'",
    "UPDATE sessions SET seat = 1",
];

/// The database of a version, counted from 1.
fn database(folder: &Path, version: usize) {
    let db = Connection::open(folder.join("bng.db")).expect("a database");
    for place in 0..version {
        db.execute_batch(SCHEMAS[place]).expect("the schema");
        db.execute_batch(if place == 0 { FILLED } else { ROWS[place] }).expect("rows");
    }
    db.pragma_update(None, "application_id", 0x7762_6e67).expect("a number");
    db.pragma_update(None, "user_version", version as i64).expect("a number");
}

#[test]
fn an_upgrade_of_each_version_finds_its_subscribers_and_sessions() {
    let mut lines = Vec::new();
    for version in 1..=SCHEMAS.len() {
        let folder = Folder::new();
        database(&folder, version);
        let (mut store, found) = open(&folder);
        lines = found.iter().map(ToString::to_string).collect::<Vec<_>>();
        let seat = if version > 8 { "seat 1 " } else { "" };
        let lease = format!(" lease 8 anna {seat}access1:100.7 ");
        let lease = lines.iter().find(|line| line.contains(&lease)).expect("the session");
        assert_eq!(lease.contains(" ppp 7/1500/1492/1/2 "), version > 1, "version {version}: {lease}");
        assert_eq!(lease.contains(" prefix 2001:db8:0:7::/64 "), version > 3, "version {version}: {lease}");
        assert_eq!(
            lease.contains(" acct 00000000000000ff waits class a "),
            version > 4,
            "version {version}: {lease}"
        );
        assert!(lease.ends_with(" counted 1 2 3 4"), "version {version}: {lease}");
        // It goes on from there.
        store.append(record("1 41 counters 8 counted 9 9 9 9"));
        wait_for(&mut store, 41);
        store.close().expect("all is written");
        let (_store, found) = open(&folder);
        assert_eq!(found.len(), lines.len(), "version {version}");
    }
    weir_testkit::golden!("tests/store/versions.txt", &(lines.join("\n") + "\n"));
}

/// Two sessions without an address, and two of one subscriber.
#[test]
fn sessions_with_ipv6_alone_and_several_of_a_subscriber_do_not_replace_each_other() {
    let folder = Folder::new();
    let (mut store, _) = open(&folder);
    let lease = |revision: u64, name: &str, mac: u8, prefix: u8| {
        format!(
            "1 {revision} lease {revision} {name} access1 02:00:00:00:00:0{mac} 0.0.0.0 prefix 2001:db8:0:{prefix}::/64 \
             ppp {mac}/1492/1492/1/2 start 7 granted 9 for 0 counted 0 0 0 0"
        )
    };
    let leases = [
        lease(3, "anna", 1, 1),
        lease(4, "ben", 2, 2),
        lease(5, "anna seat 1", 3, 3),
        lease(6, "anna", 4, 4),
    ];
    let subscribers =
        ["1 1 subscriber anna login anna plan basic", "1 2 subscriber ben login ben plan basic"];
    for line in subscribers.into_iter().chain(leases.iter().map(String::as_str)) {
        store.append(record(line));
    }
    wait_for(&mut store, 6);
    store.close().expect("all is written");
    let (mut store, found) = open(&folder);
    let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
    let has = |place: usize| {
        let tail = leases[place].split_once(" lease ").expect("a lease").1;
        lines.iter().any(|line| line.ends_with(tail))
    };
    assert_eq!([0, 1, 2, 3].map(has), [false, true, true, true], "{lines:#?}");
    // Their ends have a place, too.
    store.append(record("1 7 end 4 ben 0.0.0.0 released at 9 counted 0 0 0 0"));
    store.append(record("1 8 removed anna"));
    wait_for(&mut store, 8);
    store.close().expect("all is written");
    let (_store, found) = open(&folder);
    let leases = found.iter().filter(|record| record.to_string().contains(" lease "));
    assert_eq!(leases.count(), 0, "{found:?}");
}
