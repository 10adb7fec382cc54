//! Independent readers and writers of packets: pyrad and scapy, by a script beside the tests.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use weir_testkit::Watch;

/// Python of the distribution, which has its packages.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/codecs.py");

/// Are these packages installed? If not, says so.
pub(crate) fn are_installed(packages: &[&str]) -> bool {
    let missing =
        packages.iter().find(|package| !Path::new("/usr/lib/python3/dist-packages").join(package).exists());
    if let Some(package) = missing {
        println!("skipped: python3-{package} is not installed");
    }
    missing.is_none()
}

/// What the script says of each packet.
pub(crate) fn read(kind: &str, packets: &[Vec<u8>]) -> Vec<Value> {
    let mut command = Command::new(PYTHON);
    command.args([SCRIPT, kind]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 starts");
    let _watch = Watch::new(&child);
    let mut input = child.stdin.take().expect("a pipe");
    // Its answers are short: they fit into the pipe.
    for packet in packets {
        writeln!(input, "{}", hex(packet)).expect("it reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("a text");
    assert_eq!((output.status.code(), text.lines().count()), (Some(0), packets.len()), "{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text of hexadecimal digits.
pub(crate) fn bytes(text: &Value) -> Vec<u8> {
    let digits = text.as_str().expect("digits");
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}
