//! `weir capture` and `weir pps` as a user runs them: what is sent is in the file, bit for bit, and the frame accounting balances.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_linux::rtnl::Rtnl;
use weir_port::capture::Method;
use weir_port::packet::{BATCH, Sender};
use weir_port::pcapng::read::{Item, Reader};
use weir_testkit::wires::{keep_quiet, set_up};
use weir_testkit::{Ended, Folder, PATIENCE, Started, output};

use crate::terminal::InTerminal;
use crate::weir::{self, WEIR, refused};
use weir_testkit::confined;
use weir_testkit::pair::Pair;

/// A pair that carries only frames of the test.
fn quiet_pair() -> Option<Pair> {
    let pair = Pair::new()?;
    for end in [pair.a(), pair.b()] {
        set_up(end, false);
        // Router solicitations come without neighbour discovery, too.
        keep_quiet(end);
    }
    set_up(pair.a(), true);
    set_up(pair.b(), true);
    Some(pair)
}

/// The files of a folder in order of their names.
fn files_in(folder: &Folder) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A `weir capture` to which frames arrive already.
fn capturing(namespace: &Namespace, line: &str) -> Started {
    weir::start(namespace, line, "all is open")
}

/// All that was offered was captured, and all that was captured is in the file.
fn check(ended: &Ended, frames: usize) {
    let accounting = &ended.result;
    assert_eq!(ended.code, Some(0), "{} {accounting}", ended.said);
    let account = &accounting["accounting"][0];
    for name in ["offered_least", "offered_most", "captured"] {
        assert_eq!(account[name], frames, "{name}: {accounting}");
    }
    assert_eq!(
        (&account["unexplained"], account["drops"].as_object().unwrap().len()),
        (&0.into(), 0),
        "{accounting}"
    );
    assert_eq!(
        (&accounting["file"]["frames"], &accounting["file"]["unwritten"]),
        (&frames.into(), &0.into()),
        "{accounting}"
    );
}

/// Frames of all kinds: IPv4 and not, tagged and not, 60 to 1514 bytes.
fn frames(count: usize) -> Vec<Vec<u8>> {
    let frame = |n: usize| {
        let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        match n % 4 {
            0 => bytes.extend([8, 0, 0x45]),
            1 => bytes.extend([0x81, 0, 0, 5, 8, 0, 0x45]),
            2 => bytes.extend([0x86, 0xdd, 0x60]),
            _ => bytes.extend([0x88, 0xb5]),
        }
        // Tags come on top of the MTU.
        let length = 60 + n * 37 % 1455;
        bytes.extend((bytes.len()..length).map(|at| (at * 31 + n * 7) as u8));
        let last = bytes.len();
        bytes[last - 4..].copy_from_slice(&(n as u32).to_be_bytes());
        bytes
    };
    (0..count).map(frame).collect()
}

/// Sends from interface a; a veth hands each frame over before the call returns.
fn send(pair: &Pair, frames: &[Vec<u8>]) {
    let sender = pair.here.run(|| {
        let ifindex = Rtnl::open().unwrap().link("a").unwrap().ifindex;
        Sender::open(ifindex).unwrap()
    });
    let mut rest = frames;
    while !rest.is_empty() {
        let sent = sender.send(&rest[..rest.len().min(BATCH)]).unwrap();
        rest = &rest[sent..];
    }
}

/// All packets of a file, those of each interface in order of time, which are sorted together.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).unwrap();
    let compressed = path.extension().is_some_and(|ending| ending == "zst");
    let input: Box<dyn Read> =
        if compressed { Box::new(zstd::Decoder::new(file).unwrap()) } else { Box::new(BufReader::new(file)) };
    packets_of(input)
}

fn packets_of(input: impl Read) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(input).unwrap();
    let (mut found, mut last) = (Vec::new(), BTreeMap::new());
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Packet(packet) = item {
            assert!(last.insert(packet.interface, packet.at_ns) <= Some(packet.at_ns), "time goes on");
            assert_eq!(packet.wire_len as usize, packet.bytes.len());
            found.push(packet.bytes.to_vec());
        }
    }
    found
}

/// The number at the end of each frame tells its place.
fn in_order(mut packets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    packets.sort_by_key(|bytes| bytes[bytes.len() - 4..].to_vec());
    packets
}

/// All that was sent is in the files or was dropped by name, in rotated files, under overload and at the end. More frames
/// than these: `weir check --capture --frames 5M`.
#[test]
fn every_method_accounts_for_every_frame() {
    // Where there can be none, it says so.
    let Some(_) = Pair::new() else { return };
    let folder = Folder::new();
    let mut command = Command::new(WEIR);
    command.args(["check", "--capture", "--frames", "50k", "--folder"]).arg(&folder);
    let output = output(&mut command).unwrap();
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{said}");
    let rows: Vec<_> =
        text.lines().filter(|line| line.contains("  ") && !line.starts_with("method")).collect();
    let numbers =
        |row: &str| -> Vec<u64> { row.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let methods = Method::all().filter(|method| method.hands_on()).count();
    let of =
        |way: &str| rows.iter().filter(|row| row.contains(way)).map(|row| numbers(row)).collect::<Vec<_>>();
    for numbers in of("rotated") {
        // On a busy machine the sender is late, and gives up; or frames are dropped.
        let files = if numbers[1] < 49_000 { 1 } else { 3 };
        assert!(numbers[1] > 0 && numbers[4] >= files, "sent, in files, files: {text}");
    }
    assert!(of("overload").iter().all(|numbers| numbers[0] == 50_000 && numbers[2] > 0), "dropped: {text}");
    assert!(of("midstream").iter().all(|numbers| numbers[1] > 0 && numbers[3] > 0), "after the end: {text}");
    assert_eq!([of("rotated").len(), of("overload").len(), of("midstream").len()], [methods; 3], "{text}");
}

#[test]
fn what_is_sent_is_in_the_file_bit_for_bit() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let sent = frames(300);
    let methods = Method::all().filter(|&method| method != Method::Count).map(|method| method.to_string());
    for method in &methods.chain(["auto".into()]).collect::<Vec<_>>() {
        let ending = if method == "auto" { "pcapng.zst" } else { "pcapng" };
        let path = folder.join(format!("{method}.{ending}"));
        let line = format!("capture -i b --method {method} --threads 2 --json -w {}", path.display());
        let capture = capturing(&pair.there, &line);
        send(&pair, &sent);
        check(&capture.interrupt(), sent.len());
        assert_eq!(in_order(packets(&path)), sent, "{method}");
        counted_by_others(&path, sent.len());
    }
}

/// capinfos and tcpdump find as many.
fn counted_by_others(path: &Path, frames: usize) {
    let name = path.to_str().unwrap();
    if name.ends_with(".zst") {
        return;
    }
    let run = |program: &str, words: &[&str]| {
        let Ok(output) = output(Command::new(program).args(words)) else {
            println!("skipped: no {program} here");
            return None;
        };
        let said = String::from_utf8_lossy(&output.stderr).to_string();
        assert!(output.status.success() && !said.contains("damaged"), "{program}: {said}");
        Some(String::from_utf8_lossy(&output.stdout).to_string())
    };
    if let Some(text) = run("capinfos", &["-M", "-c", name]) {
        assert!(text.contains(&format!("Number of packets:   {frames}")), "{text}");
    }
    if let Some(text) = run("tcpdump", &["-r", name, "--count"]) {
        assert_eq!(text.trim(), format!("{frames} packets"));
    }
}

#[test]
fn files_follow_each_other_without_a_gap_and_without_privileges() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let line = format!("capture -i b --threads 1 --json -w {} --rotate 1MB", path.display());
    let capture = capturing(&pair.there, &line);
    let sent = frames(5000);
    send(&pair, &sent);
    confined::check(&confined::statuses(capture.pid()), 0, Some("queue"));
    check(&capture.interrupt(), sent.len());
    let files = files_in(&folder);
    assert!(files.len() >= 3 && files[0].ends_with("x-00001.pcapng"), "{files:?}");
    for file in &files {
        assert!(fs::metadata(file).unwrap().len() <= 1_000_000, "{files:?}");
    }
    assert_eq!(files.iter().flat_map(|file| packets(file)).collect::<Vec<_>>(), sent);

    let capture = capturing(&pair.there, &format!("{line} --keep 2"));
    send(&pair, &sent);
    check(&capture.interrupt(), sent.len());
    let left = files_in(&folder);
    assert_eq!(left[..files.len()], files, "those of the first run stay");
    assert_eq!(files.iter().flat_map(|file| packets(file)).collect::<Vec<_>>(), sent);
    let kept: Vec<_> = left[files.len()..].iter().flat_map(|file| packets(file)).collect();
    assert_eq!(left.len(), files.len() + 2, "{left:?}");
    assert_eq!(kept, sent[sent.len() - kept.len()..]);
}

/// A user who is not root, and has called sudo.
const CALLER: u32 = 12346;

#[test]
fn no_file_of_somebody_else_is_written_to() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let (victim, link) = (folder.join("victim"), folder.join("x.pcapng"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &link).unwrap();
    let there = &pair.there;
    let line = format!("capture -i b -w {}", link.display());
    let taken = format!("cannot write {}: it exists already: delete it, or use another file", link.display());
    refused(there, &line, &taken);
    fs::remove_file(&link).unwrap();
    fs::hard_link(&victim, &link).unwrap();
    refused(there, &line, &taken);
    symlink(&victim, folder.join("x-00001.pcapng")).unwrap();
    // Under sudo: the next number is free.
    let mut command = Command::new(WEIR);
    command.env("SUDO_UID", CALLER.to_string()).env("SUDO_GID", CALLER.to_string());
    let line = format!("capture -i b --json -w {} --rotate 1MB", link.display());
    let capture = weir::start_by(command, there, &line, "all is open");
    let sent = frames(10);
    send(&pair, &sent);
    check(&capture.interrupt(), sent.len());
    let file = folder.join("x-00002.pcapng");
    let found = fs::metadata(&file).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (CALLER, CALLER, 0o600));
    assert_eq!(in_order(packets(&file)), sent);
    let found = fs::metadata(&victim).unwrap();
    assert_eq!((fs::read_to_string(&victim).unwrap().as_str(), found.uid()), ("precious", 0));
    // Where the user may not write, root does not in their place.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(WEIR);
    command.args(["capture", "-i", "b", "-w"]).arg(folder.join("y.pcapng"));
    command.env("SUDO_UID", CALLER.to_string()).env("SUDO_GID", CALLER.to_string());
    let denied = there.run(|| output(&mut command)).unwrap();
    let said = String::from_utf8_lossy(&denied.stderr);
    assert!(!denied.status.success() && said.contains("user 12346, who called sudo"), "{said}");
}

/// Waits until something is so; false if it is not for a minute.
fn becomes(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_pipe_is_waited_for_and_nobody_outlives_the_capture() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let line = format!("capture -i b --json -w {}", pipe.display());
    // The pipe has no reader.
    let capture = capturing(&pair.there, &line);
    let children = format!("/proc/{0}/task/{0}/children", capture.pid());
    let child = fs::read_to_string(children).unwrap().trim().to_string();
    assert!(child.parse::<u32>().is_ok(), "`{child}`");
    let state = || fs::read_to_string(format!("/proc/{child}/wchan")).unwrap_or_default();
    assert!(
        becomes(|| ["poll", "partner"].iter().any(|wait| state().contains(wait))),
        "it waits: {}",
        state()
    );
    capture.signal(libc::SIGKILL);
    let gone = becomes(|| !Path::new(&format!("/proc/{child}")).exists());
    // Lets it go in any case.
    drop(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe));
    assert!(gone);
    // Now there is a reader, a little later.
    let capture = capturing(&pair.there, &line);
    let reader = File::open(&pipe).unwrap();
    let read = std::thread::spawn(move || packets_of(reader));
    let sent = frames(100);
    send(&pair, &sent);
    check(&capture.interrupt(), sent.len());
    assert_eq!(in_order(read.join().unwrap()), sent);
}

#[test]
fn the_wait_for_the_reader_of_a_pipe_can_be_interrupted() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let line = format!("capture -i b --json -w {}", pipe.display());
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let capture = capturing(&pair.there, &line);
        capture.signal(signal);
        let ended = capture.end();
        assert!(ended.said.contains("waiting for a reader of the pipe"), "{}", ended.said);
        assert_eq!(ended.code, Some(130), "{}", ended.said);
        assert!(ended.said.contains(&format!("{} has no reader", pipe.display())), "{}", ended.said);
    }
}

/// Awaits that a file has this many packets.
fn await_packets(path: &Path, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while whole_packets(path) < count {
        assert!(Instant::now() < deadline, "{count} packets in {}", path.display());
        std::thread::yield_now();
    }
}

/// Those that are whole so far: the file is made after all is open, and its end may be half a block.
fn whole_packets(path: &Path) -> usize {
    let Ok(file) = File::open(path) else { return 0 };
    let Ok(mut reader) = Reader::open(BufReader::new(file)) else { return 0 };
    let mut count = 0;
    while let Ok(Some(item)) = reader.next_item() {
        count += usize::from(matches!(item, Item::Packet(_)));
    }
    count
}

#[test]
fn a_file_that_was_renamed_is_made_again_at_a_hangup() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let (path, old) = (folder.join("x.pcapng"), folder.join("x.pcapng.1"));
    let mut capture =
        capturing(&pair.there, &format!("capture -i b --threads 1 --json -w {}", path.display()));
    let sent = frames(60);
    send(&pair, &sent[..20]);
    await_packets(&path, 20);
    // Its name is in use: the file is continued.
    capture.signal(libc::SIGHUP);
    capture.await_words("SIGHUP: the file was not renamed; writing continues to it");
    fs::rename(&path, &old).unwrap();
    capture.signal(libc::SIGHUP);
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "a new file");
        std::thread::yield_now();
    }
    send(&pair, &sent[20..]);
    check(&capture.interrupt(), sent.len());
    let [before, behind] = [&old, &path].map(|path| packets(path));
    assert_eq!((before.len(), in_order([before, behind].concat())), (20, sent));
}

#[test]
fn a_terminal_that_closes_leaves_a_whole_file() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let mut command = Command::new(WEIR);
    command.args(["capture", "-i", "b", "-w"]).arg(&path);
    let mut capture = pair.there.run(|| InTerminal::start(command));
    capture.await_words("all is open");
    let sent = frames(400);
    send(&pair, &sent);
    let status = capture.close();
    // It has no place for its last words.
    assert_eq!(status.code(), Some(1), "{status}");
    assert_eq!(in_order(packets(&path)), sent);
    counted_by_others(&path, sent.len());
    let mut reader = Reader::open(File::open(&path).unwrap()).unwrap();
    let mut counted = 0;
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Statistics(last) = item else { continue };
        counted += last.end_ns.and(last.accepted).unwrap_or(0);
    }
    assert_eq!(counted, 400, "the frame accounting of all queues is complete");
}

#[test]
fn a_trigger_writes_what_came_before_it() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let line = format!("capture -i b --json -w {} --ring-before 60s --trigger signal", path.display());
    let mut capture = capturing(&pair.there, &line);
    let sent = frames(200);
    send(&pair, &sent[..100]);
    capture.signal(libc::SIGUSR1);
    capture.await_words("triggered: writing");
    send(&pair, &sent[100..]);
    let ended = capture.interrupt();
    check(&ended, 200);
    assert!(ended.result["file"]["reaches_back_s"].is_number(), "{}", ended.result);
    assert_eq!(in_order(packets(&path)), sent);

    fs::remove_file(&path).unwrap();
    let capture = capturing(&pair.there, &line);
    send(&pair, &sent);
    let ended = capture.interrupt();
    assert_eq!((&ended.result["file"]["let_go"], &ended.result["file"]["frames"]), (&200.into(), &0.into()));
    assert!(packets(&path).is_empty());
}

#[test]
fn a_rate_sets_the_writing_off() {
    let Some(pair) = quiet_pair() else { return };
    for trigger in ["pps>1k", "bps>1M"] {
        let folder = Folder::new();
        let path = folder.join("x.pcapng");
        let line = format!("capture -i b --json -w {} --ring-before 60s --trigger {trigger}", path.display());
        let mut capture = capturing(&pair.there, &line);
        // More in a moment than a second may have, however that falls into the seconds of the trigger.
        let sent = frames(4000);
        send(&pair, &sent);
        capture.await_words("triggered: writing");
        check(&capture.interrupt(), sent.len());
        assert_eq!(in_order(packets(&path)), sent, "{trigger}");
    }
}

#[test]
fn files_follow_each_other_by_time() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let line = format!("capture -i b --threads 1 --json -w {} --rotate 1s", path.display());
    let capture = capturing(&pair.there, &line);
    let all = frames(100_000);
    let mut sent = 0;
    let deadline = Instant::now() + Duration::from_secs(120);
    while files_in(&folder).len() < 3 {
        assert!(
            Instant::now() < deadline && sent < all.len(),
            "a new file each second: {:?}",
            files_in(&folder)
        );
        send(&pair, &all[sent..sent + 1]);
        sent += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    check(&capture.interrupt(), sent);
    assert_eq!(files_in(&folder).iter().flat_map(|file| packets(file)).collect::<Vec<_>>(), all[..sent]);
}

#[test]
fn a_capture_ends_when_it_has_written_enough() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let line = format!("capture -i b --threads 1 --json -w {} --size 1MB", path.display());
    let capture = capturing(&pair.there, &line);
    let sent = frames(5000);
    send(&pair, &sent);
    let ended = capture.end();
    assert_eq!(
        (ended.code, &ended.result["end"]),
        (Some(0), &"limit".into()),
        "{} {}",
        ended.said,
        ended.result
    );
    // What was captured before that was noticed is written, too.
    assert!(fs::metadata(&path).unwrap().len() >= 1_000_000);
    let written = packets(&path);
    assert_eq!(
        (written.as_slice(), ended.result["file"]["frames"].as_u64()),
        (&sent[..written.len()], Some(written.len() as u64))
    );
}

#[test]
fn limits_end_a_capture_and_filters_hold() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let sent = frames(200);
    for method in ["recv", "ring-fanout"] {
        let line = format!("capture -i b --method {method} --json --count 70 -w {}", path.display());
        let capture = capturing(&pair.there, &line);
        send(&pair, &sent);
        let ended = capture.end();
        assert_eq!((ended.code, &ended.result["end"]), (Some(0), &"limit".into()), "{}", ended.said);
        assert_eq!(ended.result["accounting"][0]["captured"], 70, "{}", ended.result);
        assert_eq!(ended.result["file"]["frames"], 70, "{}", ended.result);
        assert_eq!(packets(&path).len(), 70);
        fs::remove_file(&path).unwrap();
    }
    // Ether type 0x88b5 is a quarter of them, and a vlan is another.
    for (filter, quarter, method) in
        [("ether[12:2]=0x88b5", 3, "auto"), ("vlan", 1, "auto"), ("vlan", 1, "libpcap"), ("vlan", 1, "xdp")]
    {
        let line = format!("capture -i b --method {method} --json -w {} --filter {filter}", path.display());
        let capture = capturing(&pair.there, &line);
        send(&pair, &sent);
        let ended = capture.interrupt();
        assert_eq!(ended.result["accounting"][0]["filtered"], true);
        let expected: Vec<_> = sent.iter().skip(quarter).step_by(4).cloned().collect();
        assert_eq!(in_order(packets(&path)), expected, "{filter}, {method}: {}", ended.result);
        fs::remove_file(&path).unwrap();
    }
}

/// Mounts a file system of this size on a folder, in the namespace's own view.
fn mount(namespace: &Namespace, folder: &Folder, options: &str, read_only: bool) {
    let (path, options) = (CString::new(folder.to_str().unwrap()).unwrap(), CString::new(options).unwrap());
    let flags = if read_only { libc::MS_RDONLY } else { 0 };
    let result = namespace.run(|| {
        // SAFETY: four texts that outlive the call.
        unsafe {
            libc::mount(c"none".as_ptr(), path.as_ptr(), c"tmpfs".as_ptr(), flags, options.as_ptr().cast())
        }
    });
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_full_disk_ends_the_capture_and_what_was_written_is_whole() {
    // A file that may not become larger is as a full disk.
    end_of_room("size=2m", 64 << 20, "No space left on device");
    end_of_room("size=64m", 2 << 20, "File too large");
}

fn end_of_room(size: &str, file_bytes: u64, expected: &str) {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    mount(&pair.there, &folder, size, false);
    let path = folder.join("x.pcapng");
    let mut limited = Command::new("prlimit");
    limited.args([&format!("--fsize={file_bytes}"), WEIR]);
    let line = format!("capture -i b --threads 1 --json -w {}", path.display());
    let capture = weir::start_by(limited, &pair.there, &line, "all is open");
    let sent = frames(6000);
    send(&pair, &sent);
    let ended = capture.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(
        ended.said.contains(expected) && ended.said.contains("is valid up to this point"),
        "{}",
        ended.said
    );
    assert_eq!(ended.result["end"], "disk");
    let found = pair.there.run(|| packets(&path));
    assert!(!found.is_empty() && found == sent[..found.len()], "{} packets", found.len());
    assert_eq!(ended.result["file"]["frames"], found.len(), "{}", ended.result);
    let unwritten = ended.result["file"]["unwritten"].as_u64().unwrap();
    assert_eq!(ended.result["accounting"][0]["captured"], found.len() as u64 + unwritten, "{}", ended.result);
}

/// `ip` with these words; false, aloud, where there is none.
fn ip(namespace: &Namespace, line: &str) -> bool {
    let mut command = Command::new("ip");
    let Ok(output) = namespace.run(|| output(command.args(line.split(' ')))) else {
        println!("skipped: no ip here");
        return false;
    };
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn an_interface_that_is_renamed_keeps_its_accounting() {
    let Some(pair) = quiet_pair() else { return };
    let capture = capturing(&pair.there, "capture -i b --json");
    let sent = frames(100);
    send(&pair, &sent);
    set_up(pair.b(), false);
    if !ip(&pair.there, "link set dev b name c") {
        return;
    }
    set_up((&pair.there, "c"), true);
    send(&pair, &sent);
    let ended = capture.interrupt();
    let account = &ended.result["accounting"][0];
    assert_eq!((ended.code, &account["interface"]), (Some(0), &"b".into()), "{}", ended.said);
    assert_eq!(
        (&account["captured"], &account["offered_most"]),
        (&200.into(), &200.into()),
        "{}",
        ended.result
    );
}

#[test]
fn a_tunnel_without_ethernet_is_only_counted() {
    let Some(pair) = quiet_pair() else { return };
    if !ip(&pair.there, "tuntap add dev t mode tun") {
        return;
    }
    refused(
        &pair.there,
        "capture -i t --duration 1",
        "frames of t have no Ethernet header: use the interface below it, or count them with `weir \
             pps t`",
    );
    let mut command = Command::new(WEIR);
    command.args(["pps", "t", "--duration", "0.1"]);
    assert!(pair.there.run(|| output(&mut command)).unwrap().status.success());
}

#[test]
fn an_interface_that_disappears_leaves_a_whole_file() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    let path = folder.join("x.pcapng");
    let capture = capturing(&pair.there, &format!("capture -i b --json -w {}", path.display()));
    let sent = frames(100);
    send(&pair, &sent);
    // The namespace takes its end of the pair with it, and so the other.
    let Pair { here, there } = pair;
    drop(here);
    let ended = capture.end();
    drop(there);
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("interface b has vanished"), "{}", ended.said);
    assert_eq!(
        (&ended.result["end"], &ended.result["accounting"][0]["captured"]),
        (&"interface gone".into(), &100.into())
    );
    assert_eq!(in_order(packets(&path)), sent);
}

#[test]
fn what_cannot_work_is_refused_with_a_remedy() {
    let Some(pair) = quiet_pair() else { return };
    let folder = Folder::new();
    mount(&pair.there, &folder, "size=1m", true);
    let there = &pair.there;
    refused(
        there,
        "capture -i c --duration 1",
        "there is no interface c in this network namespace: did you mean `b`?",
    );
    refused(
        there,
        "pps c --duration 1",
        "there is no interface c in this network namespace: did you mean `b`?",
    );
    refused(
        there,
        "capture -i b --filter xand",
        "the filter `xand` is wrong at `xand`, character 1: syntax error (see `man pcap-filter`)",
    );
    refused(
        there,
        "pps b --filter xand",
        "the filter `xand` is wrong at `xand`, character 1: syntax error (see `man pcap-filter`)",
    );
    let path = folder.join("x").display().to_string();
    let why = format!("cannot write {path}: Read-only file system (os error 30)");
    refused(there, &format!("capture -i b -w {path}"), &why);
    refused(
        there,
        "capture -i b -w /nowhere/x.pcapng",
        "cannot write /nowhere/x.pcapng: No such file or directory (os error 2)",
    );
    // A plain user has no capabilities. The program must be where that user may run it.
    let open = Folder::for_all();
    let mut command = Command::new(weir::copy_to(open.join("weir")));
    let output = there.run(|| output(command.args(["capture", "-i", "b"]).uid(65_534).gid(65_534)));
    let said = String::from_utf8_lossy(&output.unwrap().stderr).to_string();
    assert!(said.contains("no permission to capture: run weir as root"), "{said}");
    // What is down is said, and captured from: it may come up.
    set_up(pair.b(), false);
    let mut capture = capturing(there, "capture -i b");
    capture.await_words("ip link set b up");
}

#[test]
fn pps_counts_and_the_view_says_who_sends() {
    let Some(pair) = quiet_pair() else { return };
    let mut command = Command::new(WEIR);
    command.args(["pps", "b", "--duration", "1.5"]);
    let output = pair.there.run(|| output(&mut command)).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.starts_with("0.00 pps, 0.00 bit/s, lost 0.00 pps\n"), "{said}");

    let mut capture = capturing(&pair.there, "capture -i b --json --stats --threads 1");
    let sent = frames(400);
    send(&pair, &sent);
    // The list of senders covers the time between two lines, one of which may fall between the frames; everything else covers
    // the whole time.
    let sizes = |view: &Value| -> u64 {
        view["sizes"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
    };
    let mut said_who = false;
    let view = std::iter::repeat_with(|| capture.json::<Value>(""))
        .find(|view| {
            said_who |= view["talkers"].as_array().is_some_and(|talkers| !talkers.is_empty());
            view["queues"][0]["frames"] == 400 && sizes(view) == 400 && said_who
        })
        .expect("it goes on");
    assert_eq!(view["protocols"]["other"], 100, "ether type 0x88b5: {view}");
    assert_eq!(view["not_ip"][0]["protocol"], "0x88b5", "{view}");
    assert_eq!(view["offered"], 400, "{view}");
    let ended = capture.interrupt();
    assert!(ended.said.contains("b/0"), "{}", ended.said);
    assert!(ended.result["accounting"].is_array(), "{}", ended.result);
}
