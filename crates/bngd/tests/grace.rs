//! A port of the node loses its link while the program is not there: the node keeps its sessions for the grace, then ends them, and the
//! program follows when it comes back, with what they had counted.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_control::client::Client;
use weir_node::{EndedSubscribers, EndedSubscribersQuery, Ports, Query};
use weir_plane::AccessState;
use weir_testkit::kills::kill_after;
use weir_testkit::wires::set_up;

use crate::restart::{DEVICES, Rig, TEXT, options};
use crate::walled::NAME;

impl Rig {
    fn access_has_link(&self) -> bool {
        let mut client = Client::connect(&self.folder.join("node.sock")).expect("the node runs");
        let Ports { ports } = client.query(Query::Ports).expect("it answers");
        ports.iter().all(|port| port.port != "access1" || port.up)
    }

    /// Sessions that the node has ended, and frames that they had sent; in small pages.
    fn ended_by_node(&self) -> BTreeMap<u64, u64> {
        let mut client = Client::connect(&self.folder.join("node.sock")).expect("the node runs");
        let (mut all, mut after) = (BTreeMap::new(), None);
        loop {
            let query = EndedSubscribersQuery { after, most: Some(64) };
            let page: EndedSubscribers = client.query(Query::EndedSubscribers(query)).expect("it answers");
            all.extend(page.ended.iter().map(|count| (count.session, count.from_frames)));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }
}

impl Rig {
    /// Ends of sessions with this cause in the store: in its log, and later in its database, or in both.
    fn ends_for(&self, cause: &str) -> usize {
        let files = std::fs::read_dir(self.folder.join("store")).expect("the store");
        let text = |file: std::io::Result<std::fs::DirEntry>| std::fs::read(file.ok()?.path()).ok();
        let texts = files.filter_map(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        texts.map(|text| text.matches(cause).count()).sum()
    }
}

#[test]
fn the_node_ends_sessions_without_a_link_while_the_program_is_away() {
    let text = |grace: &str| TEXT.replace("plan basic down", &format!("grace {grace}, plan basic down"));
    let Some(mut rig) = Rig::of(&text("1h")) else { return };
    let summary = rig.emulate(options()).end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    let own = before.iter().find(|session| session.subscriber == NAME).expect("it is up").session;

    kill_after(&mut rig.bngd, Duration::ZERO);
    set_up((&rig.devices, "a"), false);
    rig.until("the node sees it", |rig| !rig.access_has_link());
    set_up((&rig.devices, "a"), true);
    rig.until("the link is there again", Rig::access_has_link);
    rig.restart_bngd();
    assert_eq!(rig.agree("up in time").len(), before.len());
    assert!(rig.ended_by_node().is_empty());

    rig.write_and_reload("isp.node", &text("1s"));
    rig.until("read again", |rig| rig.log().contains("the file was read again"));
    // The node is told one thing after the other.
    assert_eq!(rig.set_state("walled").session, own);
    rig.until("walled", |rig| rig.state_in_node(own) == Some(AccessState::Walled));
    kill_after(&mut rig.bngd, Duration::ZERO);
    set_up((&rig.devices, "a"), false);
    rig.until("the node has none", |rig| rig.of_node().is_some_and(|all| all.is_empty()));
    let ended = rig.ended_by_node();
    assert_eq!(ended.len(), DEVICES as usize);
    assert!(ended.values().all(|frames| *frames > 0), "{ended:?}");
    set_up((&rig.devices, "a"), true);
    rig.restart_bngd();
    // It adds none of them again.
    rig.until("the program has none", |rig| rig.sessions().is_some_and(|all| all.is_empty()));
    assert!(rig.agree("at the end").is_empty());
    // Each end is on disk with its cause.
    rig.until("all ends are written", |rig| rig.ends_for("link-lost") >= DEVICES as usize);
}
