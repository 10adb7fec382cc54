//! `weir bottleneck` between two hosts with stacks of their own, offloads at their defaults.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_queue::{Bottleneck, Config, Pace, Time};
use weir_testkit::{PATIENCE, Started, Watch, accept, golden, has, need_root, output};

use crate::link::Street;
use crate::weir::{self, WEIR};
use weir_testkit::confined;
use weir_testkit::full_disk::{refuses_output, shell_with_disk};
use weir_testkit::kills::{Kills, kill_after};

/// Sends bytes from left to right over TCP, and has them all arrive.
fn transfer(street: &Street, bytes: usize) {
    let listener = street.right.run(|| TcpListener::bind("198.18.0.2:0").unwrap());
    let address = listener.local_addr().unwrap();
    let content: Vec<u8> = (0..bytes).map(|i| (i / 7 + i / 1000) as u8).collect();
    let expected = content.clone();
    let receiver = std::thread::spawn(move || {
        let mut got = Vec::new();
        accept(&listener).0.read_to_end(&mut got).unwrap();
        assert!(got == expected, "{} bytes of {}", got.len(), expected.len());
    });
    let mut stream = street.left.run(|| TcpStream::connect(address).unwrap());
    stream.write_all(&content).unwrap();
    drop(stream);
    receiver.join().unwrap();
}

/// Has datagrams come from the left while this is done.
fn under_load<T>(street: &Street, work: impl FnOnce() -> T) -> T {
    let socket = street.left.run(|| UdpSocket::bind("198.18.0.1:0").unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // ARP has no answer while there is no bottleneck.
                let _ = socket.send_to(&[0; 1000], "198.18.0.2:9");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// What a program could leave behind at the interfaces: settings, promiscuous mode, programs, sockets.
fn traces(street: &Street) -> String {
    street.middle.run(|| {
        let mut text = String::new();
        for line in ["ip -details link show", "ethtool -k m0", "ethtool -k m1", "tc qdisc show"] {
            let words: Vec<&str> = line.split(' ').collect();
            let output = Command::new(words[0]).args(&words[1..]).output();
            text += &output.map_or(String::new(), |out| String::from_utf8_lossy(&out.stdout).into_owned());
        }
        text + &std::fs::read_to_string("/proc/thread-self/net/packet").unwrap()
    })
}

/// The same, once the kernel has seen that the interfaces have a carrier, which it does a moment after they are up.
fn settled(street: &Street) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let traces = traces(street);
        if !traces.contains("NO-CARRIER") {
            return traces;
        }
        assert!(Instant::now() < deadline, "{traces}");
        std::thread::yield_now();
    }
}

fn file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// What a queue does with the same arrivals in virtual time: when each packet starts, and whether it is dropped.
fn replayed(log: &[Value], config: &Config, at: &Bottleneck) -> Vec<(Option<u64>, bool)> {
    let (mut queue, mut pace) = (config.build::<usize>(at).unwrap(), Pace::new(at.bits_per_s));
    let (mut free, mut now) = (Time::ZERO, Time::ZERO);
    let mut outcomes = vec![(None, false); log.len()];
    for number in 0..=log.len() {
        let arrives =
            log.get(number).map_or(Time::MAX, |entry| Time::from_ps(entry["at_ps"].as_u64().unwrap()));
        while let Some(start) = queue.due(now).map(|due| due.max(free)).filter(|&start| start <= arrives) {
            now = start;
            if let Some(packet) = queue.take(start) {
                outcomes[packet.payload].0 = Some(start.ps());
                free = start + pace.slot(packet.bytes.into());
            }
        }
        let Some(entry) = log.get(number) else { break };
        now = arrives;
        let field = |name: &str| entry[name].as_u64().unwrap() as u32;
        let mut packet = weir_queue::Packet::new(field("bytes"), field("flow"), number);
        (packet.source, packet.destination) = (field("source"), field("destination"));
        packet.ecn = serde_json::from_value(entry["ecn"].clone()).unwrap();
        queue.offer(packet, arrives);
        queue.dropped().drain(..).for_each(|drop| outcomes[drop.packet.payload].1 = true);
    }
    outcomes
}

#[test]
fn real_traffic_meets_the_same_queue_as_in_virtual_time() {
    need_root!();
    for (aqm, rate, buffer) in [("fifo", 50_000_000_u64, 30_001), ("pie", 30_000_000, 40_003)] {
        let street = Street::new();
        let path = file(aqm);
        let line = format!(
            "--rate {rate} --delay 2ms --buffer {buffer} --aqm {aqm} --json --log {}",
            path.display()
        );
        let link = street.start(&line);
        transfer(&street, 4_000_000);
        let ended = link.interrupt();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let log: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let at = Bottleneck { limit_bytes: buffer, bits_per_s: rate, seed: 1 };
        let expected = replayed(&log, &Config::named(aqm).unwrap(), &at);
        let dropped = expected.iter().filter(|(_, dropped)| *dropped).count();
        assert!(log.len() > 2700 && dropped > 0, "{aqm}: {} frames, {dropped} dropped", log.len());
        for (number, (entry, (starts, dropped))) in log.iter().zip(&expected).enumerate() {
            let real = (entry["starts_ps"].as_u64(), entry["dropped"].as_bool().unwrap());
            // The last ones may still have waited at the end.
            assert!(real == (*starts, *dropped) || real == (None, false), "{aqm}: frame {number}: {real:?}");
            assert!(entry["bytes"].as_u64().unwrap() <= 1514, "large frames are cut: {entry}");
        }
        let result = &ended.result;
        for way in result["directions"].as_array().unwrap() {
            assert_eq!(way["unexplained"].as_i64(), Some(0), "{result}");
        }
        let there = &result["directions"][0];
        assert_eq!(there["entered"].as_u64(), Some(log.len() as u64));
        let counted: u64 = there["dropped"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(counted, dropped as u64);
        let late = there["lateness_ns"]["p99"].as_u64() > there["slot_ns"].as_u64();
        assert_eq!(late, ended.code == Some(3), "late frames make the result invalid: {result}");
    }
}

#[test]
fn lines_change_it_while_it_runs() {
    need_root!();
    let street = Street::new();
    let mut command = Command::new(WEIR);
    let line = "bottleneck m0 m1 --rate 1gbit --delay 0 --path 198.18.0.2/32=5ms --json --interval 0.1";
    command.args(line.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut link = Started::of(street.middle.run(|| command.spawn().unwrap()));
    link.await_words("bottleneck between");
    let mut input = link.child.stdin.take().unwrap();
    for (line, answer) in [
        ("rate 20mbit", "changed: rate 20mbit"),
        ("aqm codell", "not changed: `codell` is no queue: did you mean `codel`"),
        ("aqm codel", "changed: aqm codel"),
        ("buffer 100kB", "changed: buffer"),
        ("speed 1", "not changed: `speed` is no setting"),
    ] {
        writeln!(input, "{line}").unwrap();
        link.await_words(answer);
    }
    transfer(&street, 1_000_000);
    let _intervals: [Value; 2] = [(); 2].map(|()| link.json(""));
    let result = link.interrupt().result;
    assert_eq!(result["directions"][0]["rate_bits_per_s"], 20_000_000, "{result}");
    assert_eq!(result["directions"][0]["unexplained"], 0);
}

#[test]
fn the_example_of_the_help_works_as_it_is_printed() {
    need_root!();
    if !["curl", "python3", "ip", "unshare"].into_iter().all(has) {
        return;
    }
    let help = Command::new(WEIR).args(["bottleneck", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let from = help.find("  ip netns add left").unwrap_or_else(|| panic!("no example: {help}"));
    let example = &help[from..];
    let example = &example[..example.find("\n\n").unwrap()];
    let bin = PathBuf::from(WEIR).parent().unwrap().to_path_buf();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // The names of its namespaces are private.
    let script = format!("mount -t tmpfs none /run && mkdir /run/netns && cd / \n{example}\nip netns list");
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", &script]).env("PATH", path).process_group(0);
    let output = output(&mut command).unwrap();
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let speed = out.lines().find_map(|line| line.strip_suffix(" bytes/s")?.parse::<f64>().ok());
    assert!(speed.is_some_and(|speed| speed > 1000.0), "{out}\n{said}");
    assert!(
        out.contains("m0 > m1: ") && out.contains("m1 > m0: ") && out.contains(" sent\n"),
        "{out}\n{said}"
    );
    assert!(!out.contains("unexplained") && !out.contains("left\n"), "{out}\n{said}");
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    need_root!();
    let street = Street::new();
    for (line, message) in [
        ("bottleneck m0 m0", "IF1 and IF2 are both m0: give two different interfaces"),
        ("bottleneck m0 m7", "there is no interface m7 in this network namespace: did you mean `m0`?"),
        (
            "bottleneck m0 m1 --buffer 100",
            "--buffer: a buffer of 100 bytes cannot hold a frame of 1514 bytes: use a larger one",
        ),
        (
            "bottleneck m0 m1 --log /etc/hostname",
            "cannot create /etc/hostname: it exists already: delete it, or use another file",
        ),
        (
            "bottleneck m0 m1 --log /proc/self/exe",
            "cannot create /proc/self/exe: it is a symbolic link: use its target, or another file",
        ),
    ] {
        weir::refused(&street.middle, line, message);
    }
}

#[test]
fn a_mistyped_option_is_a_wrong_command_line() {
    let mut text = String::new();
    for options in [
        "--rate fast",
        "--rate trace:/nowhere",
        "--rate trace:/dev/zero",
        "--back-rate some",
        "--delay 20",
        "--path 198.18.0.0/33=1ms",
        "--buffer 0bdp",
        "--aqm codell",
        "--aqm pie:target=1",
        "--loss 100%",
        "--burst 0",
        "--jitter 2",
        "--reorder 2",
        "--reorder-by x",
        "--duration -1",
        "--interval 0",
        "--cpu x",
        "--seed x",
        "--speed 1mbit",
    ] {
        let mut command = Command::new(WEIR);
        command.args(["bottleneck", "m0", "m1"]).args(options.split(' '));
        let output = output(&mut command).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options}: {said}");
        text += &format!("$ weir bottleneck m0 m1 {options}\n{said}\n");
    }
    golden!("tests/golden/bottleneck-mistyped.txt", &text);
}

/// Connections of TCP in a namespace, as the kernel lists them: not those that listen, and not those that only wait for old
/// segments.
fn connections(namespace: &Namespace) -> usize {
    let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
    let state = |line: &str| line.split_whitespace().nth(3).map(str::to_string);
    text.lines().skip(1).filter_map(state).filter(|state| !["0A", "06"].contains(&state.as_str())).count()
}

#[test]
fn flows_cross_it_and_a_killed_client_leaves_nothing() {
    need_root!();
    let street = Street::new();
    let link = street.start("--rate 50mbit --delay 5ms --buffer 1bdp --aqm fq-codel --json");
    let server = weir::start(&street.right, "flows --serve --bind 198.18.0.2:5301", "serving at");
    for process in [&link, &server] {
        confined::check(&confined::statuses(process.pid()), 0, None);
    }
    let line = "flows --to 198.18.0.2 --group flows=5,cc=cubic --group flows=5,cc=reno,start=0.3s --duration 1 \
                --interval 0.25 --grace 60 --json";
    let output = weir::run(&street.left, line);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = lines.last().unwrap();
    assert!(lines.len() == 5 && result["incomplete"].as_array().unwrap().is_empty(), "{text}");
    for flow in result["flows"].as_array().unwrap() {
        assert!(flow["sent_bytes"] == flow["received_bytes"] && flow["end"] == "closed", "{flow}");
        assert_eq!(flow["cc"], ["cubic", "reno"][flow["group"].as_u64().unwrap() as usize], "{flow}");
    }
    // What the link carried is more than what arrived, and no more than its rate allows.
    let sum = result["sum_bits_per_s"].as_f64().unwrap();
    assert!(sum > 0.0 && sum < 50e6, "{sum}");
    let line = "flows --to 198.18.0.2 --flows 20 --duration 600 --interval 0.1 --json";
    let mut client = weir::start(&street.left, line, "");
    client.line();
    client.signal(libc::SIGKILL);
    client.end();
    assert_eq!(connections(&street.left), 0, "it left connections");
    let patience = Instant::now() + PATIENCE;
    while connections(&street.right) > 0 && Instant::now() < patience {
        std::thread::yield_now();
    }
    assert_eq!(connections(&street.right), 0, "the server kept connections");
    assert_eq!(server.interrupt().code, Some(0));
    let ended = link.interrupt();
    assert_eq!(ended.result["directions"][0]["unexplained"], 0, "{}", ended.result);
}

/// Congestion controls are those of the whole host: a test that reads their names must run alone.
fn alone_with_congestion_controls() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current congestion controls of the kernel.
fn controls() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    text.split_whitespace().map(str::to_string).collect()
}

/// What a program said of a congestion control that it brought along: the name that it has in the kernel.
fn loaded<'s>(said: &'s str, cc: &str) -> Option<&'s str> {
    let of = |line: &'s str| line.strip_prefix(&format!("{cc} is loaded as "))?.split_whitespace().next();
    said.lines().find_map(of)
}

#[test]
fn congestion_controls_that_the_kernel_lacks_are_loaded_while_flows_use_them() {
    need_root!();
    let _turn = alone_with_congestion_controls();
    let lacking: Vec<&str> = ["dctcp", "bbr2", "bbr3"]
        .into_iter()
        .filter(|cc| !controls().iter().any(|known| known == cc))
        .collect();
    let street = Street::new();
    let link = street.start("--rate 20mbit --delay 5ms --buffer 20bdp --aqm codel --json");
    let serve = "flows --serve --bind 198.18.0.2:5301 --cc dctcp";
    let server = weir::start(&street.right, serve, "serving at");
    confined::check(&confined::statuses(server.pid()), 0, None);
    let line = "flows --to 198.18.0.2 --group flows=2,cc=bbr2 --group flows=2,cc=bbr3 --group flows=2,cc=dctcp \
                --duration 3 --interval 0.1 --grace 60 --json";
    let output = weir::run(&street.left, line);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("does not take the congestion control") {
        return eprintln!("skipped: {}: {said}", module_path!());
    }
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    for flow in result["flows"].as_array().unwrap() {
        let asked = ["bbr2", "bbr3", "dctcp"][flow["group"].as_u64().unwrap() as usize];
        let expected = if lacking.contains(&asked) { loaded(&said, asked).unwrap() } else { asked };
        assert_eq!(flow["cc"], expected, "{flow}");
        assert!(flow["sent_bytes"] == flow["received_bytes"] && flow["end"] == "closed", "{flow}");
        assert!(flow["received_bytes"].as_u64() > Some(100_000), "{flow}");
    }
    let named = |cc: &str| {
        result["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| loaded(&said, cc).is_some_and(|name| note.as_str().unwrap().starts_with(name)))
    };
    assert!(lacking.iter().all(|cc| named(cc)), "{result}");
    // A link that is used by six flows and marks is full.
    assert!(result["sum_bits_per_s"].as_f64().unwrap() > 14e6, "{result}");
    drop(server);
    let ended = link.interrupt();
    assert!(ended.result["directions"][0]["marked"].as_u64() > Some(0), "{}", ended.result);
    for cc in lacking {
        let name = loaded(&said, cc).unwrap();
        assert!(!controls().iter().any(|known| known == name), "{name} is left in the kernel");
    }
}

#[test]
fn dctcp_gives_way_to_marks_without_losses() {
    need_root!();
    let _turn = alone_with_congestion_controls();
    let street = Street::new();
    let link = street.start("--rate 20mbit --delay 5ms --buffer 100bdp --aqm codel --json");
    let serve = "flows --serve --bind 198.18.0.2:5301 --cc dctcp";
    let server = weir::start(&street.right, serve, "serving at");
    let line = "flows --to 198.18.0.2 --cc dctcp --duration 3 --interval 0.1 --grace 60 --json";
    let output = weir::run(&street.left, line);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("does not take the congestion control") {
        return eprintln!("skipped: {}: {said}", module_path!());
    }
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (result, intervals) = lines.split_last().unwrap();
    // A busy machine may come to no reading within an interval.
    let windows: Vec<u64> =
        intervals.iter().filter_map(|interval| interval["info"][0]["cwnd"].as_u64()).collect();
    let fell = windows.windows(2).any(|pair| pair[1] < pair[0]);
    assert!(fell, "the window was never reduced: {windows:?}");
    assert_eq!(result["flows"][0]["info"]["retransmissions"], 0, "{result}");
    drop(server);
    let ended = link.interrupt();
    // What CoDel drops is without ECN: the connection by which client and server agree.
    assert!(ended.result["directions"][0]["marked"].as_u64() > Some(0), "{}", ended.result);
}

/// Two flows of BBR 3 through a link of 100 Mbit/s and 4 ms whose queue is `aqm`, with ECN or without: what the link and the
/// flows did, unless the kernel takes no such congestion control.
fn bbr3_through(aqm: &str, ecn: &str) -> Option<(Value, Value)> {
    let street = Street::new();
    street.left.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_ecn", ecn)).unwrap();
    let link = street.start(&format!("--rate 100mbit --delay 2ms --buffer 20bdp --aqm {aqm} --json"));
    let serve = "flows --serve --bind 198.18.0.2:5301 --cc dctcp";
    let server = weir::start(&street.right, serve, "serving at");
    let line = "flows --to 198.18.0.2 --flows 2 --cc bbr3 --duration 4 --grace 60 --json";
    let output = weir::run(&street.left, line);
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("does not take the congestion control") {
        eprintln!("skipped: {}: {said}", module_path!());
        return None;
    }
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let flows = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    drop(server);
    let ended = link.interrupt();
    Some((ended.result["directions"][0].clone(), flows))
}

/// With ECN a bound of the volume in flight follows from marks; without it two flows keep a queue.
#[test]
fn bbr3_gives_way_to_marks_on_a_short_path() {
    need_root!();
    let _turn = alone_with_congestion_controls();
    let Some((kept, _)) = bbr3_through("fifo", "0") else { return };
    let marking = "red:min_bytes=5000,max_bytes=100000,max_p=1,weight=1";
    let Some((short, flows)) = bbr3_through(marking, "1") else { return };
    let p50 = |link: &Value| link["sojourn_ns"]["p50"].as_u64().unwrap();
    println!("median time in the queue: {} ns without ECN, {} with; {short}", p50(&kept), p50(&short));
    assert!(short["marked"].as_u64() > Some(100), "{short}");
    assert!(p50(&short) * 2 < p50(&kept), "{} ns of {}", p50(&short), p50(&kept));
    assert!(flows["sum_bits_per_s"].as_f64().unwrap() > 50e6, "{flows}");
}

#[test]
fn a_killed_client_leaves_no_congestion_control() {
    need_root!();
    let _turn = alone_with_congestion_controls();
    if controls().iter().any(|cc| cc == "bbr3") {
        return eprintln!("skipped: {}: the kernel has bbr3 by itself", module_path!());
    }
    let street = Street::new();
    let link = street.start("--rate 100mbit --delay 1ms --json");
    let server = weir::start(&street.right, "flows --serve --bind 198.18.0.2:5301", "serving at");
    let mut command = Command::new(WEIR);
    command.args("flows --to 198.18.0.2 --cc bbr3 --duration 600 --interval 0.1 --json".split(' '));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = street.left.run(|| command.spawn()).unwrap();
    let _watch = Watch::new(&client);
    let mut said = String::new();
    let mut words = std::io::BufReader::new(client.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut words, &mut said).unwrap();
    let Some(name) = loaded(&said, "bbr3") else {
        client.kill().unwrap();
        client.wait().unwrap();
        return eprintln!("skipped: {}: {said}", module_path!());
    };
    // A connection has it: an interval was seen.
    let mut intervals = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut intervals, &mut String::new()).unwrap();
    assert!(controls().iter().any(|known| known == name), "{name} in {:?}", controls());
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(!controls().iter().any(|known| known == name), "{name} is left in the kernel");
    assert_eq!(server.interrupt().code, Some(0));
    link.interrupt();
}

#[test]
fn killed_at_any_instant_it_gives_both_interfaces_back() {
    need_root!();
    let street = Street::new();
    let (before, log) = (settled(&street), file("killed"));
    assert!(before.contains("m0") && before.contains("promiscuity 0"), "{before}");
    let line =
        format!("bottleneck m0 m1 --rate 5mbit --delay 20ms --json --interval 0.05 --log {}", log.display());
    let mut kills = Kills::new(5);
    while let Some((delay, trace)) = kills.next(Duration::from_millis(600)) {
        let mut command = Command::new(WEIR);
        command.args(line.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        under_load(&street, || kill_after(&mut street.middle.run(|| command.spawn().unwrap()), delay));
        assert_eq!(traces(&street), before, "{trace}");
        let _ = std::fs::remove_file(&log);
    }
    let link = street.start("--rate 50mbit --delay 1ms --json");
    assert_ne!(traces(&street), before, "what is there while it runs is seen");
    transfer(&street, 200_000);
    assert_eq!(link.interrupt().result["directions"][0]["unexplained"], 0);
    assert_eq!(traces(&street), before);
}

#[test]
fn a_log_without_room_costs_only_the_log() {
    need_root!();
    let street = Street::new();
    let mut shell = shell_with_disk("16k", &format!("exec {WEIR} \"$@\" --log disk/log"));
    let folder = file("disk");
    std::fs::create_dir_all(&folder).unwrap();
    shell.current_dir(&folder);
    let line = "bottleneck m0 m1 --rate 20mbit --delay 1ms --json";
    let link = weir::start_by(shell, &street.middle, line, "bottleneck between");
    transfer(&street, 1_000_000);
    let ended = link.interrupt();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    let expected =
        "cannot write disk/log completely: free space on the disk, and run again: No space left on device";
    assert!(ended.said.contains(expected), "{}", ended.said);
    assert_eq!(ended.result["directions"][0]["unexplained"], 0, "it is reported: {}", ended.result);
}

#[test]
fn a_result_that_nobody_can_keep_is_named_and_the_log_is_whole() {
    need_root!();
    let street = Street::new();
    for json in [&["--json"][..], &[]] {
        let log = file("unreported");
        let mut command = Command::new(WEIR);
        command.args([
            "bottleneck",
            "m0",
            "m1",
            "--rate",
            "20mbit",
            "--interval",
            "1.5",
            "--duration",
            "2",
            "--log",
        ]);
        command.arg(&log).args(json);
        under_load(&street, || {
            street.middle.run(|| refuses_output(command, &format!("bottleneck {json:?}")))
        });
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        let frames = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
        assert!(frames > 0 && frames == text.lines().count(), "{json:?}: {frames} frames in the log");
    }
}
