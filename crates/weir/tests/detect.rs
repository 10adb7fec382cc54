//! `weir detect` as a user runs it: on a veth pair that `weir generate` sends through, and on a file.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use weir_port::pcapng::read::{Item, Reader};
use weir_testkit::{Folder, Watch, accept, output};

use crate::attack::{capture, capture_of, limited, text};
use crate::terminal::InTerminal;
use crate::weir::{self, WEIR};
use weir_testkit::confined;
use weir_testkit::full_disk::shell_with_disk;
use weir_testkit::pair::Pair;

fn detect(arguments: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.arg("detect").args(arguments);
    command
}

/// The lines of a run that ends well.
fn events(mut command: Command) -> Vec<Value> {
    let output = output(&mut command).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_capture_is_judged_by_its_times() {
    let folder = Folder::new();
    let config = limited(&folder, 20_000, "[announce]\ndaemon = \"gobgp\"\nroute = \"flowspec\"\n");
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let lines = events(detect(&["--read", text(&file), "--config", text(&config), "--json"]));
    let [start, end, status] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&start["event"], &end["event"]), (&Value::from("start"), &Value::from("end")));
    assert_eq!(start["host"], "198.19.0.9");
    assert_eq!([&start["class"], &end["class"]], ["DNS amplification"; 2], "at the end, too");
    assert!((29_900.0..30_100.0).contains(&start["rates"]["pps"].as_f64().unwrap()), "{start}");
    let command = "gobgp global rib -a ipv4-flowspec add match destination 198.19.0.9/32 protocol ==udp \
                   source-port ==53 destination-port ==4000 then discard";
    assert_eq!(
        (&start["announcement"]["command"], &start["announcement"]["sent"]),
        (&command.into(), &false.into())
    );
    assert!(end["announcement"]["command"].as_str().unwrap().contains(" del match "), "{end}");
    assert_eq!((&status["event"], &status["frames"]), (&"status".into(), &(30_000 * 3 + 400).into()));
    // And for people.
    let output = output(&mut detect(&["--read", text(&file), "--config", text(&config)])).unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("start 1: DNS amplification, 198.19.0.9 receives 30.0 kpps"), "{said}");
    assert!(said.contains("not sent (send = false): gobgp"), "{said}");
}

#[test]
fn queues_of_a_file_are_judged_in_order_of_time() {
    let folder = Folder::new();
    let config = limited(&folder, 20_000, "");
    let reported = |queues| {
        let file = folder.file("attack.pcapng", capture_of(queues, 30_000, 7));
        events(detect(&["--read", text(&file), "--config", text(&config), "--json"]))
    };
    let of_one = reported(1);
    assert_eq!(of_one.len(), 3, "{of_one:?}");
    assert_eq!(reported(3), of_one);
}

#[test]
fn each_attack_is_captured_from_before_its_start() {
    let folder = Folder::new();
    let captures = format!("[captures]\nfolder = \"{}\"\nframes = 50_000\n", text(&folder.join("deep/er")));
    let config = limited(&folder, 20_000, &captures);
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let lines = events(detect(&["--read", text(&file), "--config", text(&config), "--json"]));
    let start_ns = lines[0]["time_ns"].as_u64().unwrap();
    let written = fs::File::open(lines[0]["capture"].as_str().unwrap()).unwrap();
    let mut reader = Reader::open(BufReader::new(written)).unwrap();
    let mut times = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Packet(packet) = item else { continue };
        assert_eq!((packet.bytes.len(), packet.wire_len), (60, 60));
        times.push(packet.at_ns);
    }
    assert!(times.is_sorted() && times.len() == 50_000, "{}", times.len());
    // All of the calm second before it, too: it fits into the memory.
    assert_eq!(times[0], 1_000_000_000 * 1_000_000_000);
    assert!(times.iter().filter(|&&at| at < start_ns).count() > 20_000 && times[49_999] > start_ns);
}

#[test]
fn an_attack_on_the_wire_is_reported_and_each_frame_is_counted() {
    for (method, transport, protocol) in [("auto", "udp", "UDP"), ("xdp", "syn", "TCP")] {
        let Some(pair) = Pair::new() else { return };
        attacked(&pair, method, transport, protocol);
    }
}

fn attacked(pair: &Pair, method: &str, transport: &str, protocol: &str) {
    let folder = Folder::new();
    let config = limited(&folder, 2000, "");
    let line = format!("detect -i b --method {method} --config {} --json", text(&config));
    let mut watching = weir::start(&pair.there, &line, "watching");
    let mut generate = Command::new(WEIR);
    generate.args(["generate", "-i", "a", "--rate", "10k", "--count", "30k", "--frame", "64", "--json"]);
    generate.args(["--transport", transport]);
    let sent = pair.here.run(|| output(&mut generate)).unwrap();
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let mut start: Value = watching.json("");
    // Some kernels send frames of their own that are no packets.
    while start["event"] == "gap" {
        start = watching.json("");
    }
    confined::check(&confined::statuses(watching.pid()), 0, Some("queue"));
    assert_eq!((&start["event"], &start["direction"]), (&Value::from("start"), &Value::from("in")));
    assert!(start["rates"]["pps"].as_f64().unwrap() > 2000.0, "{start}");
    assert_eq!(start["evidence"]["protocols"][0]["value"], protocol);
    // A generator that is late attacks for longer.
    let mut end: Value = watching.json("");
    while end["event"] == "update" {
        end = watching.json("");
    }
    assert_eq!((&end["event"], &end["attack"]), (&Value::from("end"), &Value::from(1)));
    let status = watching.interrupt().result;
    // Neighbour discovery of the namespaces is foreign.
    let count = |name: &str| status[name].as_u64().unwrap();
    assert_eq!((count("frames") - count("foreign"), count("lost")), (30_000, 0), "{status}");
}

#[test]
fn a_script_and_a_web_service_get_each_event() {
    let folder = Folder::new();
    let heard = folder.join("heard");
    let script =
        folder.file("script", format!("#!/bin/sh\ncat >> {}\necho >> {}\n", text(&heard), text(&heard)));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/attacks", service.local_addr().unwrap());
    let posts = std::thread::spawn(move || (0..2).map(|_| post(&service)).collect::<Vec<_>>());
    let actions = format!("[actions]\nscript = \"{}\"\nwebhook = \"{url}\"\n", text(&script));
    let config = limited(&folder, 20_000, &actions);
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let lines = events(detect(&["--read", text(&file), "--config", text(&config), "--json"]));
    let reported: Vec<_> = lines[..2].iter().map(|line| line["time_ns"].clone()).collect();
    let times = |texts: Vec<String>| -> Vec<Value> {
        let value = |text: &String| serde_json::from_str::<Value>(text).unwrap()["time_ns"].clone();
        texts.iter().map(value).collect()
    };
    assert_eq!(times(fs::read_to_string(heard).unwrap().lines().map(str::to_string).collect()), reported);
    assert_eq!(times(posts.join().unwrap()), reported);
}

#[test]
fn an_attack_is_acted_upon_though_nobody_can_be_reported() {
    let folder = Folder::new();
    let heard = folder.join("heard");
    let script = folder.file("script", format!("#!/bin/sh\nsleep 0.1\ncat >> {}\n", text(&heard)));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config = limited(&folder, 20_000, &format!("[actions]\nscript = \"{}\"\n", text(&script)));
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let mut command = detect(&["--read", text(&file), "--config", text(&config), "--json"]);
    let mut child = command.stdout(fs::File::create("/dev/full").unwrap()).spawn().unwrap();
    let _watch = Watch::new(&child);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(fs::read_to_string(heard).unwrap().contains("\"event\":\"start\""));
}

#[test]
fn a_full_disk_costs_the_capture_of_an_attack_and_no_event() {
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: {} needs root (a file system)", module_path!());
    }
    let folder = Folder::new();
    let config = limited(&folder, 20_000, "[captures]\nfolder = \"disk\"\nframes = 50_000\n");
    let file = folder.file("attack.pcapng", capture(30_000, 7));
    let mut shell = shell_with_disk("256k", &format!("\"{WEIR}\" detect \"$@\" && cp disk/* ."));
    shell.current_dir(&folder).args(["--read", text(&file), "--config", text(&config), "--json"]);
    let output = output(&mut shell).unwrap();
    let (lines, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let named = said.lines().filter(|line| line.contains("ends early: No space left on device")).count();
    assert_eq!(named, 1, "once: {said}");
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["start", "end", "status"], "{lines}");
    // What is there is whole.
    let name = events[0]["capture"].as_str().unwrap().rsplit('/').next().unwrap();
    let mut reader = Reader::open(BufReader::new(fs::File::open(folder.join(name)).unwrap())).unwrap();
    let mut packets = 0;
    while let Some(item) = reader.next_item().unwrap() {
        packets += u64::from(matches!(item, Item::Packet(_)));
    }
    // 256 KiB have room for some 2700 packets of 60 bytes with what is said of each.
    assert!(packets > 2000, "{packets}");
}

#[test]
fn a_terminal_that_closes_leaves_whole_captures_of_attacks() {
    let Some(pair) = Pair::new() else { return };
    let folder = Folder::new();
    let captures = folder.join("captures");
    let config = limited(&folder, 2000, &format!("[captures]\nfolder = \"{}\"\n", text(&captures)));
    let mut command = Command::new(WEIR);
    command.args(["detect", "-i", "b", "--keep-privileges", "--config", text(&config)]);
    let mut watching = pair.there.run(|| InTerminal::start(command));
    watching.await_words("watching");
    let line = "generate -i a --tester packet --rate 10k --frame 64 --json";
    let generate = weir::start(&pair.here, line, "sending on");
    watching.await_words("  captured: ");
    // It has no place for its last words.
    assert_eq!(watching.close().code(), Some(1));
    assert_eq!(generate.interrupt().code, Some(0));
    let file = fs::read_dir(captures).unwrap().next().unwrap().unwrap().path();
    let mut reader = Reader::open(BufReader::new(fs::File::open(file).unwrap())).unwrap();
    let mut packets = 0;
    while let Some(item) = reader.next_item().unwrap() {
        packets += u64::from(matches!(item, Item::Packet(_)));
    }
    assert!(packets > 500, "{packets}");
}

/// Takes one POST and returns its body.
fn post(service: &TcpListener) -> String {
    let mut reader = BufReader::new(accept(service).0);
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "a head has an end");
        if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    String::from_utf8(body).unwrap()
}

#[test]
fn bad_input_is_refused_with_its_place_and_remedy() {
    let folder = Folder::new();
    let good = limited(&folder, 20_000, "");
    let typo =
        folder.file("typo.toml", "networks = [\"198.19.0.0/16\"]\n[in]\nppps = 3\nsyn_share = \"200%\"\n");
    let pipe = folder.join("no-pipe");
    let announce = format!(
        "networks = [\"198.19.0.0/16\"]\n[in]\npps = 3\n[announce]\ndaemon = \"exabgp\"\nnext_hop = \"192.0.2.1\"\n\
         send = true\npipe = \"{}\"\n",
        text(&pipe)
    );
    let announce = folder.file("announce.toml", announce);
    let cut = folder.file("cut.pcapng", &capture(100, 5)[..5000]);
    let packed = folder.file("x.pcapng.zst", zstd::encode_all(&b"packets"[..], 1).unwrap());
    let refused = output(&mut detect(&["-i", "no-such-if", "--config", text(&good)])).unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.starts_with("weir: there is no interface no-such-if in this network namespace: use "),
        "{error}"
    );
    let refuses = |arguments: &[&str], why: &str| {
        let output = output(&mut detect(arguments)).unwrap();
        let error = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        let error = error.trim_end().replace(&folder.display().to_string(), "DIR");
        assert_eq!(error, format!("weir: {why}"), "{arguments:?}");
    };
    for (arguments, why) in [
        (
            ["--read", "no-such-file", "--config", text(&good)],
            "cannot read the capture no-such-file: No such file or directory (os error 2)",
        ),
        (
            ["--read", text(&cut), "--config", text(&good)],
            "DIR/cut.pcapng: at byte 4940: the file ends in the middle of a block: whoever wrote it \
             was stopped, or the disk was full",
        ),
        (
            ["--read", text(&packed), "--config", text(&good)],
            "DIR/x.pcapng.zst: at byte 0: neither pcapng nor pcap: it begins with [28, b5, 2f, \
             fd], as zstd does: unpack it with `zstd -d`",
        ),
        (
            ["--read", text(&cut), "--config", "nowhere.toml"],
            "cannot read the configuration nowhere.toml (write one with `weir detect --example > \
             nowhere.toml`): No such file or directory (os error 2)",
        ),
        (
            ["--read", text(&cut), "--config", text(&typo)],
            "DIR/typo.toml:3: `ppps` is no option of [in]: did you mean `pps`?\n\
             DIR/typo.toml:4: in.syn_share: `200%` is no share below 1: write half a percent as \"0.5%\" or 0.005",
        ),
    ] {
        refuses(&arguments, why);
    }
    refuses(
        &["--read", text(&cut), "--config", text(&announce), "--announce"],
        "cannot open the pipe DIR/no-pipe to ExaBGP (is it running?): No such file or directory (os error 2)",
    );
}

#[test]
fn an_interface_that_goes_is_reported_and_the_others_are_watched() {
    let Some(pair) = Pair::new() else { return };
    let ip = |words: &str| {
        let mut command = Command::new("ip");
        pair.there.run(|| output(command.args(words.split(' ')))).is_ok_and(|output| output.status.success())
    };
    if !ip("link add name c type veth peer name d") {
        println!("skipped: no ip here");
        return;
    }
    let folder = Folder::new();
    let config = limited(&folder, 2000, "");
    let line = format!("detect -i b -i c --config {} --json", text(&config));
    let mut watching = weir::start(&pair.there, &line, "watching");
    assert!(ip("link del dev c"));
    watching.await_words("interface c has vanished; the other queues continue");
    let mut generate = Command::new(WEIR);
    generate.args(["generate", "-i", "a", "--rate", "10k", "--count", "10k", "--frame", "64", "--json"]);
    assert!(pair.here.run(|| output(&mut generate)).unwrap().status.success());
    assert_eq!(watching.json::<Value>("")["event"], "start");
    let ended = watching.interrupt();
    assert_eq!((ended.code, &ended.result["event"]), (Some(1), &"status".into()), "{}", ended.said);
}

#[test]
fn who_was_root_is_reported_what_it_may_not_do_any_more() {
    let Some(pair) = Pair::new() else { return };
    let folder = Folder::new();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let captures = format!("[captures]\nfolder = \"{}\"\n", text(&folder.join("attacks")));
    let config = limited(&folder, 2000, &captures);
    let line = format!("detect -i b --config {}", text(&config));
    let why = format!(
        "user 65534, to which root changed, has no permission: grant it (`chown 65534 ...`), or use --keep-privileges: \
         cannot write captures to {}: Permission denied (os error 13)",
        text(&folder.join("attacks"))
    );
    weir::refused(&pair.there, &line, &why);
}

#[test]
fn the_example_that_is_printed_is_valid() {
    let output = output(&mut detect(&["--example"])).unwrap();
    let folder = Folder::new();
    let config = folder.file("example.toml", output.stdout);
    let file = folder.file("calm.pcapng", capture(100, 5));
    let lines = events(detect(&["--read", text(&file), "--config", text(&config), "--json"]));
    assert_eq!((lines.len(), &lines[0]["event"]), (1, &Value::from("status")));
}
