//! Accounting to Debian's FreeRADIUS, over a kill of the program, and Disconnect by its radclient.

use std::collections::BTreeSet;
use std::process::Command;

use weir_bng::ppp::auth::Method;
use weir_testkit::output;
use weir_testkit::wires::set_up;

use crate::device::{Device, Outcome};
use crate::freeradius::{FreeRadius, Setup, is_installed};
use crate::pppoe::with;
use crate::restart::{Rig, TEXT};

const USERS: &str = "DEFAULT Cleartext-Password := \"pw\"\n\tFilter-Id = \"30000/7000\"\n";

/// Acct-Session-Ids of the messages of a kind in the detail file.
fn ids(rig: &Rig, kind: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(rig.folder.join("one/acct")).unwrap_or_default();
    let is_kind = |record: &&str| record.contains(&format!("Acct-Status-Type = {kind}\n"));
    let id = |record: &str| {
        let line = record.lines().find_map(|line| line.trim().strip_prefix("Acct-Session-Id = "))?;
        Some(line.trim_matches('"').to_string())
    };
    text.split("\n\n").filter(is_kind).filter_map(id).collect()
}

#[test]
fn freeradius_counts_a_stop_for_each_start_and_radclient_ends_a_session() {
    if !is_installed() {
        return;
    }
    let radius = "pppoe auth pap, radius one 127.0.0.1:1812 secret-file one.secret accounting 1912 require, \
                  dynamic-authorization 127.0.0.1:3799 client 127.0.0.1 secret-file one.secret";
    let text = TEXT.replace("limit subscriber 1000", &format!("limit subscriber 1000, {radius}"));
    let Some(mut rig) = Rig::of(&text) else { return };
    set_up((&rig.bng, "lo"), true);
    let setup = Setup::new("one", 1812, USERS);
    let _server = FreeRadius::start(&rig.bng, &rig.folder, &setup);
    rig.write_and_reload("one.secret", setup.secret);
    rig.until("the secret is read", |rig| rig.log().contains("the file was read again"));
    let mut devices = with(&rig, || {
        let mut devices: Vec<Device> =
            (0..3).map(|number| Device::new(&format!("d{number}"), "pw", Method::Pap)).collect();
        let outcomes: Vec<Outcome> = devices.iter_mut().map(Device::dial).collect();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Up(_))), "{outcomes:?}");
        devices
    });
    rig.until("three Starts", |rig| ids(rig, "Start").len() == 3);
    rig.kill_bngd();
    // One ends its session, and radclient another one.
    let mut devices = with(&rig, move || {
        devices[0].hang_up();
        devices
    });
    rig.until("a Stop", |rig| ids(rig, "Stop").len() == 1);
    let open = ids(&rig, "Start").difference(&ids(&rig, "Stop")).next().cloned().expect("two are open");
    let request = format!(
        "printf 'Acct-Session-Id={open}\\n' | radclient -x -t 2 -r 3 127.0.0.1:3799 disconnect '{}'",
        setup.secret
    );
    let asked = rig.bng.run(|| output(Command::new("sh").args(["-c", &request]))).expect("sh");
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.contains("Received Disconnect-ACK"), "{said} {}", rig.log());
    rig.until("its Stop", |rig| ids(rig, "Stop").contains(&open));
    with(&rig, move || devices.iter_mut().for_each(Device::hang_up));
    rig.until("a Stop for each Start", |rig| ids(rig, "Start") == ids(rig, "Stop"));
}
