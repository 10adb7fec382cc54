//! The program and the node are killed and stopped while customers' devices come up: no session is lost, no address has two holders,
//! and both agree in the end. All of it is in namespaces of the test.
//!
//! ```text
//! devices a ------ b node d ------ c far end          devices, far end: this process; node: this program started again
//!                     |
//!                 weir-bngd
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_bng::api::{Added, Plan, Session, Sessions, State, Subscriber};
use weir_control::client::Client;
use weir_control::request::Apply;
use weir_control::socket::Access;
use weir_cpe::run::{Interfaces, run};
use weir_cpe::{Load, Mac, Options, SHORTEST_FRAME, Summary};
use weir_linux::namespace::Namespace;
use weir_node::{Config, Query, Subscribers, SubscribersQuery};
use weir_plane::SubscriberEntry;
use weir_service::http;
use weir_testkit::kills::{Kills, kill_after};
use weir_testkit::wires::{Wire, join, keep_quiet, set_mtu, set_up};
use weir_testkit::{Folder, PATIENCE, Watch, need_root};

/// Set where this program is the node: the folder.
const IS_NODE: &str = "WEIR_TEST_NODE_OF_BNGD";
pub(crate) const TEXT: &str = "node access1(access, on packet:b) > access(gateway 100.64.0.1/10) > route(default via 198.18.0.2) > \
                    wan(198.18.0.1/24, neighbour 198.18.0.2 02:00:00:00:01:01, on packet:d) run(host none) \
                    bng(store store, socket bng.sock, pool main 100.64.0.2-100.64.7.254 router 100.64.0.1/10, \
                    plan basic down 1Gbit up 1Gbit, limit subscriber 1000)";
pub(crate) const DEVICES: u32 = 200;

/// The node, in a process of its own.
#[test]
fn node() {
    let Some(folder) = std::env::var_os(IS_NODE).map(PathBuf::from) else { return };
    let text = std::fs::read_to_string(folder.join("isp.node")).expect("the file");
    let config = Config::read("isp.node", &text, &|name| Err(format!("no file {name}"))).expect("a node");
    let settings = weir_control::Settings {
        config,
        cpus: None,
        socket: folder.join("node.sock"),
        access: Access::default(),
        prometheus: None,
        events: None,
        blocks: None,
        keeps_privileges: true,
    };
    weir_control::run(settings).expect("a node");
}

/// Both programs between the wires.
pub(crate) struct Rig {
    pub(crate) folder: Folder,
    pub(crate) devices: Namespace,
    pub(crate) bng: Namespace,
    node: Child,
    pub(crate) bngd: Child,
    /// The process in whose mount namespace weir-bngd runs, if it has one of its own.
    mounts: Option<Child>,
    _watches: Vec<Watch>,
}

impl Rig {
    /// `None`, aloud, where that is not allowed.
    fn new() -> Option<Rig> {
        Rig::of(TEXT)
    }

    /// With this text of the node.
    pub(crate) fn of(text: &str) -> Option<Rig> {
        Rig::with_mtu(text, 1500)
    }

    /// The same with this MTU of all wires.
    pub(crate) fn with_mtu(text: &str, mtu: u32) -> Option<Rig> {
        Rig::with_wires(text, mtu, |_| true)
    }

    /// With a file system of so many MiB for the store, which no other process sees.
    pub(crate) fn with_small_disk(text: &str, mib: u32) -> Option<Rig> {
        Rig::begin(text, 1500, |_| true, Some(mib))
    }

    /// The same, with the kernel silent at the ends of these names alone.
    pub(crate) fn with_wires(text: &str, mtu: u32, is_quiet: impl Fn(&str) -> bool) -> Option<Rig> {
        Rig::begin(text, mtu, is_quiet, None)
    }

    fn begin(text: &str, mtu: u32, is_quiet: impl Fn(&str) -> bool, disk_mib: Option<u32>) -> Option<Rig> {
        need_root!(return None);
        let (devices, bng) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        for (number, (here, there)) in (0..).zip([("a", "b"), ("c", "d")]) {
            let ends = [(&devices, here), (&bng, there)];
            join(ends, Wire { number, queues: 1 });
            ends.iter().for_each(|end| set_mtu(*end, mtu));
            ends.iter().filter(|(_, name)| is_quiet(name)).for_each(|end| keep_quiet(*end));
            ends.iter().for_each(|end| set_up(*end, true));
        }
        let folder = Folder::new();
        folder.file("isp.node", text);
        let node = start_node(&bng, &folder);
        let mounts = disk_mib.map(|mib| mount_store(&folder, mib));
        let bngd = start_bngd(&bng, &folder, mounts.as_ref());
        let mut watches = vec![Watch::new(&node), Watch::new(&bngd)];
        watches.extend(mounts.as_ref().map(Watch::new));
        let rig = Rig { folder, devices, bng, node, bngd, mounts, _watches: watches };
        rig.until("ready", |rig| rig.get::<State>("/v1/status").is_some_and(|state| state.ready));
        rig.add_subscribers();
        Some(rig)
    }

    /// The logins of so many emulated devices, `user0@isp` and so on.
    pub(crate) fn add_logins(&self, devices: u32) {
        for number in 0..devices {
            self.add_subscriber(&format!(
                r#"{{"name": "u{number}", "login": "user{number}@isp", "password": "secret", "plan": "basic"}}"#
            ));
        }
    }

    /// Adds a subscriber by its JSON.
    pub(crate) fn add_subscriber(&self, json: &str) {
        let body = json.as_bytes().to_vec();
        let answer = http::request(&self.folder.join("bng.sock"), "POST", "/v1/subscribers", body).unwrap();
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// A socket of another program beside weir-bngd.
    pub(crate) fn socket(&self, address: &str) -> UdpSocket {
        set_up((&self.bng, "lo"), true);
        let address = address.to_string();
        self.bng.run(|| UdpSocket::bind(address)).expect("the address is free")
    }

    /// Writes a file beside that of the node, and has the program read its file again.
    pub(crate) fn write_and_reload(&self, file: &str, text: &str) {
        self.folder.file(file, text);
        self.hang_up();
    }

    /// A path within the file system of [`Rig::with_small_disk`].
    pub(crate) fn on_small_disk(&self, name: &str) -> PathBuf {
        let pid = self.mounts.as_ref().map_or(0, Child::id);
        let folder = self.folder.join("store");
        PathBuf::from(format!("/proc/{pid}/root{}", folder.display())).join(name)
    }

    /// What the program has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("bngd.log")).unwrap_or_default()
    }

    /// An operator ends a session.
    pub(crate) fn disconnect(&self, session: u64) {
        let target = format!("/v1/sessions/{session}");
        let answer = http::request(&self.folder.join("bng.sock"), "DELETE", &target, Vec::new()).unwrap();
        assert!(answer.status < 300, "{}", String::from_utf8_lossy(&answer.body));
    }

    /// The program is killed, and begins anew.
    pub(crate) fn kill_bngd(&mut self) {
        kill_after(&mut self.bngd, Duration::ZERO);
        self.restart_bngd();
        self.until("ready", |rig| rig.get::<State>("/v1/status").is_some_and(|state| state.ready));
    }

    /// The program ends in order, its store is changed, and it begins anew.
    pub(crate) fn upgrade_bngd(&mut self, change: impl FnOnce(&Path)) {
        signal(&self.bngd, Signal::TERM);
        assert_eq!(self.bngd.wait().expect("it ran").code(), Some(0));
        change(&self.folder.join("store"));
        self.restart_bngd();
        self.until("ready", |rig| rig.get::<State>("/v1/status").is_some_and(|state| state.ready));
    }

    pub(crate) fn restart_bngd(&mut self) {
        self.bngd = start_bngd(&self.bng, &self.folder, self.mounts.as_ref());
        self._watches.push(Watch::new(&self.bngd));
    }

    /// The node is killed, and begins anew without sessions.
    pub(crate) fn kill_node(&mut self) {
        kill_after(&mut self.node, Duration::ZERO);
        self.restart_node();
    }

    fn restart_node(&mut self) {
        self.node = start_node(&self.bng, &self.folder);
        self._watches.push(Watch::new(&self.node));
    }

    /// The answer to a GET; `None`: the program is not there.
    pub(crate) fn get<T: serde::de::DeserializeOwned>(&self, target: &str) -> Option<T> {
        let answer = http::request(&self.folder.join("bng.sock"), "GET", target, Vec::new()).ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    fn add_subscribers(&self) {
        let subscriber = |n: u32| Subscriber {
            name: format!("s{n}"),
            mac: Some(format!("02:00:01:00:{:02x}:{:02x}", n >> 8, n & 0xff)),
            line: None,
            circuit: None,
            login: None,
            password: None,
            plan: Plan::Named("basic".into()),
            address: None,
            prefix: None,
            routes: Vec::new(),
            pool: None,
            prefix_pool: None,
            group: None,
            nat: None,
            state: "active".into(),
        };
        let all: Vec<Subscriber> = (0..DEVICES).map(subscriber).collect();
        let body = serde_json::to_vec(&all).unwrap();
        let answer = http::request(&self.folder.join("bng.sock"), "POST", "/v1/subscribers", body).unwrap();
        let added: Added = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((added.added, added.refused), (DEVICES as usize, 0), "{added:?}");
    }

    /// Has the program read the file again.
    pub(crate) fn hang_up(&self) {
        signal(&self.bngd, Signal::HUP);
    }

    pub(crate) fn sessions(&self) -> Option<Vec<Session>> {
        self.get::<Sessions>("/v1/sessions?most=10000").map(|page| page.sessions)
    }

    /// Frames that the node has dropped, by reason.
    pub(crate) fn drops(&self) -> BTreeMap<String, u64> {
        let mut client = Client::connect(&self.folder.join("node.sock")).expect("the node runs");
        client.query(Query::Drops).expect("it answers")
    }

    /// A counter of the node.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        self.drops().get(reason).copied().unwrap_or_default()
    }

    /// Sessions of the node; `None`: it is not there.
    pub(crate) fn entries_of_node(&self) -> Option<Vec<SubscriberEntry>> {
        let mut client = Client::connect(&self.folder.join("node.sock")).ok()?;
        let query = SubscribersQuery { after: None, most: Some(10_000) };
        let page: Subscribers = client.query(Query::Subscribers(query)).ok()?;
        Some(page.subscribers.into_iter().map(|state| state.entry).collect())
    }

    /// The same with their addresses.
    pub(crate) fn of_node(&self) -> Option<BTreeMap<u64, String>> {
        let one = |entry: SubscriberEntry| {
            (entry.session, entry.prefixes.first().map(ToString::to_string).unwrap_or_default())
        };
        Some(self.entries_of_node()?.into_iter().map(one).collect())
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Rig) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            let log = std::fs::read_to_string(self.folder.join("bngd.log")).unwrap_or_default();
            let at_node = self.of_node().map(|sessions| sessions.len());
            assert!(Instant::now() < deadline, "{what}: {at_node:?} sessions in the node, {log}");
            std::thread::yield_now();
        }
    }

    /// Program and node have the same sessions, which have each their own subscriber and address.
    pub(crate) fn agree(&self, name: &str) -> Vec<Session> {
        let wanted = |rig: &Rig| {
            let one = |session: &Session| (session.session, format!("{}/32", session.address));
            rig.sessions().map(|all| all.iter().map(one).collect::<BTreeMap<_, _>>())
        };
        self.until(name, |rig| wanted(rig).is_some_and(|wanted| rig.of_node() == Some(wanted)));
        let sessions = self.sessions().unwrap_or_default();
        let addresses: BTreeSet<Ipv4Addr> = sessions.iter().map(|session| session.address).collect();
        let subscribers: BTreeSet<&str> =
            sessions.iter().map(|session| session.subscriber.as_str()).collect();
        assert_eq!((addresses.len(), subscribers.len()), (sessions.len(), sessions.len()), "{name}");
        sessions
    }

    /// Emulates devices in a thread.
    pub(crate) fn emulate(&self, options: Options) -> Emulated {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = stop.clone();
        let interfaces = Interfaces { access: "a", far: Some("c"), tap: None };
        let work = move || run(options, &interfaces, &is_stopped, &mut |_| ()).expect("interfaces");
        Emulated { thread: self.devices.spawn("devices", work).unwrap(), stop }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for child in [&mut self.bngd, &mut self.node].into_iter().chain(&mut self.mounts) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) struct Emulated {
    thread: JoinHandle<Summary>,
    stop: Arc<AtomicBool>,
}

impl Emulated {
    pub(crate) fn end(self) -> Summary {
        self.thread.join().expect("no panic")
    }

    pub(crate) fn stop(self) -> Summary {
        self.stop.store(true, Ordering::Relaxed);
        self.end()
    }
}

fn start_node(namespace: &Namespace, folder: &Folder) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "restart::node", "--nocapture"]).env(IS_NODE, folder.join(""));
    let log = std::fs::File::create(folder.join("node.log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    namespace.run(|| command.spawn()).expect("this program")
}

/// A process with a small file system for the store in a mount namespace of its own, once it is mounted.
fn mount_store(folder: &Folder, mib: u32) -> Child {
    let place = folder.join("store");
    std::fs::create_dir_all(&place).expect("a folder");
    let script =
        format!(r#"mount -t tmpfs -o mode=700,size={mib}m none "$0" && echo mounted && exec sleep infinity"#);
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).arg(place);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("unshare");
    let mut line = String::new();
    let said = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).expect("a line");
    assert_eq!(line, "mounted\n");
    child
}

fn start_bngd(namespace: &Namespace, folder: &Folder, mounts: Option<&Child>) -> Child {
    let program = env!("CARGO_BIN_EXE_weir-bngd");
    let mut command = Command::new(if mounts.is_some() { "nsenter" } else { program });
    if let Some(mounts) = mounts {
        command.arg(format!("--mount=/proc/{}/ns/mnt", mounts.id())).arg(program);
    }
    command.arg(folder.join("isp.node")).arg("--node-socket").arg(folder.join("node.sock"));
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("bngd.log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    namespace.run(|| command.spawn()).expect("the program")
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Devices that ask again soon.
pub(crate) fn options() -> Options {
    Options {
        // Not those of the wires.
        first_mac: Mac([2, 0, 1, 0, 0, 0]),
        rate_per_s: 400.0,
        timeout: Duration::from_millis(300),
        tries: 12,
        far: Some("198.18.0.2:7".parse().unwrap()),
        own_far: true,
        first_packet_timeout: PATIENCE,
        ..Options::new(DEVICES)
    }
}

#[test]
fn the_program_is_killed_while_devices_come_up() {
    let Some(mut rig) = Rig::new() else { return };
    let emulated = rig.emulate(options());
    let mut kills = Kills::new(4);
    while let Some((delay, name)) = kills.next(Duration::from_millis(300)) {
        kill_after(&mut rig.bngd, delay);
        let in_node = rig.of_node().expect("the node runs");
        rig.restart_bngd();
        rig.until(&name, |rig| rig.get::<State>("/v1/status").is_some_and(|state| state.ready));
        // A client that has its address keeps it.
        let kept: BTreeSet<u64> =
            rig.sessions().expect("it is ready").iter().map(|session| session.session).collect();
        assert!(in_node.keys().all(|session| kept.contains(session)), "{name}: {in_node:?} {kept:?}");
    }
    let summary = emulated.end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    assert_eq!(before.len(), DEVICES as usize);
    kill_after(&mut rig.bngd, Duration::ZERO);
    rig.restart_bngd();
    let after = rig.agree("the last kill");
    let start = |all: &[Session]| -> BTreeMap<u64, (u64, Ipv4Addr)> {
        all.iter().map(|session| (session.session, (session.start_s, session.address))).collect()
    };
    assert_eq!(start(&before), start(&after));
}

#[test]
fn a_node_that_is_killed_gets_all_sessions_again() {
    let Some(mut rig) = Rig::new() else { return };
    let emulated = rig.emulate(options());
    let mut kills = Kills::new(2);
    while let Some((delay, _)) = kills.next(Duration::from_millis(300)) {
        kill_after(&mut rig.node, delay);
        rig.restart_node();
    }
    // First packets are sent until they arrive.
    let summary = emulated.end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    assert_eq!(before.len(), DEVICES as usize);
    rig.kill_node();
    rig.until("a new node", |rig| rig.of_node().is_some_and(|all| all.len() == DEVICES as usize));
    let after = rig.agree("the new node");
    // Counters go on.
    let frames = |all: &[Session]| all.iter().map(|session| session.up_frames).sum::<u64>();
    assert!(frames(&after) >= frames(&before));
}

#[test]
fn the_node_forwards_while_the_program_is_stopped() {
    let Some(mut rig) = Rig::new() else { return };
    let load = Load { from_subscriber_fps: 20.0, to_subscriber_fps: 20.0, frame_bytes: SHORTEST_FRAME };
    let emulated = rig.emulate(Options { hold: None, load: Some(load), ..options() });
    let frames = |rig: &Rig| -> u64 {
        let mut client = Client::connect(&rig.folder.join("node.sock")).expect("the node runs");
        let query = SubscribersQuery { after: None, most: Some(10_000) };
        let page: Subscribers = client.query(Query::Subscribers(query)).expect("it answers");
        page.subscribers.iter().map(|one| one.from_frames).sum()
    };
    // Numbered traffic begins when the last device has its address and its first packet has passed.
    rig.until("all are up", |rig| frames(rig) > 1000);
    signal(&rig.bngd, Signal::STOP);
    let stopped = frames(&rig);
    rig.until("frames while it is stopped", |rig| frames(rig) > stopped + 1000);
    signal(&rig.bngd, Signal::CONT);
    rig.until("ready again", |rig| rig.get::<State>("/v1/status").is_some_and(|state| state.ready));
    let summary = emulated.stop();
    for traffic in [&summary.from_subscriber, &summary.to_subscriber] {
        assert_eq!(traffic.as_ref().map(|traffic| traffic.lost()), Some(0), "{summary:?}");
    }
    assert_eq!((summary.up, summary.foreign), (DEVICES.into(), 0), "{summary:?}");
    signal(&rig.bngd, Signal::TERM);
    assert_eq!(rig.bngd.wait().expect("it ran").code(), Some(0));
}

#[test]
fn a_file_that_has_changed_is_read_again() {
    let Some(rig) = Rig::new() else { return };
    let summary = rig.emulate(options()).end();
    assert!(summary.is_clean(), "{summary:?}");
    let before = rig.agree("all are up");
    // Another plan reaches the sessions of the node.
    let faster = TEXT.replace("down 1Gbit", "down 2Gbit");
    let says = |text: &str| {
        rig.folder.file("isp.node", text);
        signal(&rig.bngd, Signal::HUP);
    };
    says(&faster);
    let rates = |rig: &Rig| -> Option<BTreeSet<Option<u64>>> {
        let mut client = Client::connect(&rig.folder.join("node.sock")).ok()?;
        let query = SubscribersQuery { after: None, most: Some(10_000) };
        let page: Subscribers = client.query(Query::Subscribers(query)).ok()?;
        Some(page.subscribers.iter().map(|one| one.entry.to_bits_per_s).collect())
    };
    let is_fast = |rig: &Rig| rates(rig) == Some([Some(2_000_000_000)].into());
    rig.until("another plan", is_fast);
    // A mistake changes nothing.
    says(&faster.replace("down 2Gbit", "down fast"));
    let has_said = |rig: &Rig| {
        let log = std::fs::read_to_string(rig.folder.join("bngd.log")).unwrap_or_default();
        log.contains("`fast` is no rate of a plan") && log.contains("the configuration stays as it was")
    };
    rig.until("a mistake is logged", has_said);
    assert!(is_fast(&rig));
    // A node that applies a text with another gateway may have ended sessions: they are there again.
    let apply = |text: &str| {
        let mut client = Client::connect(&rig.folder.join("node.sock")).expect("the node runs");
        let texts = Apply { file: "isp.node".into(), text: text.into(), files: BTreeMap::new() };
        client.apply(texts).expect("it is right");
    };
    apply(&TEXT.replace("gateway 100.64.0.1/10", "gateway 100.65.0.1/16"));
    rig.until("no session in the node", |rig| rig.of_node().is_some_and(|sessions| sessions.is_empty()));
    apply(TEXT);
    let after = rig.agree("the text of before");
    // A node that refuses them ends none.
    apply(&TEXT.replace("gateway 100.64.0.1/10", "gateway 100.65.0.1/16"));
    let is_refused = |rig: &Rig| {
        let log = std::fs::read_to_string(rig.folder.join("bngd.log")).unwrap_or_default();
        log.contains("the node refuses session")
    };
    rig.until("refusals", is_refused);
    apply(TEXT);
    rig.agree("the text of before, once more");
    let numbers = |all: &[Session]| all.iter().map(|session| session.session).collect::<Vec<_>>();
    assert_eq!(numbers(&before), numbers(&after));
}
