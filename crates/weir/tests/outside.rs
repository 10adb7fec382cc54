//! What plays machines of their own: namespaces with wires between them, SSH servers in them, and runs that are ended
//! from outside.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use weir_linux::ethtool::{Offload, set_offload};
use weir_linux::namespace::Namespace;
use weir_testkit::wires::{End, Wire, join, set_up};
use weir_testkit::{PATIENCE, Watch, output};

use crate::home::Home;
use crate::weir::WEIR;

const SSHD: &str = "/usr/sbin/sshd";

/// Is there a server? If not, says so.
pub(crate) fn has_sshd() -> bool {
    let there = Path::new(SSHD).exists();
    if !there {
        println!("skipped: {} needs an SSH server (apt install openssh-server)", module_path!());
    }
    there
}

/// An SSH server that ends with its test.
pub(crate) struct Sshd(Child);

impl Drop for Sshd {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Sshd {
    /// Starts one in a namespace, with keys of its own in `home`, and returns when it listens on `address`. Its shells are at home
    /// there: what the user's own would run for each command takes longer than the command, and may print.
    pub(crate) fn start(home: &Home, namespace: &Namespace, address: &str) -> Sshd {
        Sshd::start_after("true", home, namespace, address)
    }

    /// The same, after a command of a shell that may mount file systems.
    pub(crate) fn start_after(script: &str, home: &Home, namespace: &Namespace, address: &str) -> Sshd {
        let folder = home.path("").display().to_string();
        let config = format!(
            "Port 22\nListenAddress {address}\nHostKey {folder}host_key\nAuthorizedKeysFile {folder}user_key.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nSetEnv HOME={folder}\n"
        );
        fs::write(home.path("sshd_config"), config).expect("room for a file");
        // Its folder for unprivileged processes, seen in this namespace alone.
        let script = format!(
            "mount -t tmpfs none /run && mkdir /run/sshd && {script} && exec {SSHD} -D -e -f {folder}sshd_config"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = namespace.run(|| command.spawn()).expect("a shell");
        let _watch = Watch::new(&child);
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = Vec::new();
        let listens = lines.by_ref().map(|line| line.expect("text")).any(|line| {
            said.push(line);
            said[said.len() - 1].contains("Server listening")
        });
        assert!(listens, "{:?}: {said:?}", child.wait());
        // Whatever else it says must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Sshd(child)
    }
}

/// Keys for the server and its one user, and a client configuration that knows both.
pub(crate) fn make_keys(home: &Home, address: &str) {
    for name in ["host_key", "user_key"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(home.path(name));
        let made = output(&mut command).expect("ssh-keygen is part of the client");
        assert!(made.status.success(), "{made:?}");
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
    let public = fs::read_to_string(home.path("host_key.pub")).expect("made above");
    fs::write(home.path("known_hosts"), format!("{address} {public}")).expect("room for a file");
    let folder = home.path("").display().to_string();
    // One of the newest key exchanges takes longer than what a test has done by it.
    let config = format!(
        "Host *\n IdentityFile {folder}user_key\n IdentitiesOnly yes\n UserKnownHostsFile {folder}known_hosts\n \
         StrictHostKeyChecking yes\n KexAlgorithms curve25519-sha256\n"
    );
    fs::write(home.path("ssh_config"), config).expect("room for a file");
}

/// Processes of a host with this word in their command line.
pub(crate) fn processes(host: &Namespace, word: &str) -> BTreeSet<i32> {
    let (inode, mut found) = (host.inode().unwrap(), BTreeSet::new());
    for pid in fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()) {
        let there = fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| ns.ino() == inode);
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if there && command.contains(word) {
            found.insert(pid);
        }
    }
    found
}

/// Kills them.
pub(crate) fn kill(host: &Namespace, word: &str) {
    let found = processes(host, word);
    assert!(!found.is_empty(), "there is no {word}");
    for pid in found {
        // SAFETY: no pointers; the process is in the namespace of a test. It may have ended meanwhile.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Joins two interfaces that are up then.
pub(crate) fn wire(number: u8, near: End<'_>, remote: End<'_>) {
    join([near, remote], Wire { number, queues: 1 });
    // Without it, a veth drops the frames of its peer's XDP programs.
    remote.0.run(|| set_offload(remote.1, Offload::Gro, true)).unwrap();
    set_up(remote, true);
    set_up(near, true);
}

/// A run that is watched, and ends with its test.
pub(crate) struct Watched {
    pub(crate) run: Child,
    pub(crate) lines: Lines<BufReader<ChildStderr>>,
    _watch: Watch,
}

impl Watched {
    /// Returns the next line that contains this, and those before it.
    pub(crate) fn wait_for_line(&mut self, text: &str) -> Vec<String> {
        let mut said = Vec::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            said.push(line);
            if said.last().is_some_and(|line| line.contains(text)) {
                return said;
            }
        }
        panic!("no line with `{text}`: {said:?}");
    }

    /// Starts a run that tells each trial.
    pub(crate) fn start(home: &Home, namespace: &Namespace, arguments: &[&str]) -> Watched {
        let mut command = home.command(&[WEIR], &[&["run", "-v", "--no-report"], arguments].concat());
        command.stdout(Stdio::null());
        let mut run = namespace.run(|| command.spawn()).expect("weir starts");
        let lines = BufReader::new(run.stderr.take().expect("piped")).lines();
        Watched { _watch: Watch::new(&run), run, lines }
    }

    /// Returns when that many trials have ended: then the next one goes on, or is about to begin.
    pub(crate) fn wait_for_trials(&mut self, number: usize) {
        let (mut said, mut ended) = (Vec::new(), 0);
        for line in self.lines.by_ref().map_while(Result::ok) {
            ended += usize::from(line.starts_with("  trial "));
            if ended == number {
                return;
            }
            said.push(line);
        }
        panic!("only {ended} trials: {said:?}");
    }

    /// Ends it without a chance to tidy up.
    pub(crate) fn kill(mut self) {
        self.run.kill().expect("it is our child");
        self.run.wait().expect("it ran");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

/// What a tester could leave on an interface or beside it.
pub(crate) fn traces(namespace: &Namespace) -> String {
    // Of addresses, the kernel's own come and go with the carrier.
    let script = "ip -o addr show | grep -v fe80 | sed 's/ valid_lft.*//'; ip route | sed 's, linkdown,,'; \
                  ip neigh show nud permanent; nft list ruleset; \
                  ip -d link show | grep -o 'promiscuity [0-9]*\\|allmulti [0-9]*\\|xdp[^ ]*'; \
                  cat /proc/sys/net/ipv4/conf/*/forwarding";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let output = namespace.run(|| output(&mut command)).unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until nothing but `before` is there.
pub(crate) fn wait_for_traces(namespace: &Namespace, before: &str) {
    let deadline = Instant::now() + PATIENCE;
    while traces(namespace) != before {
        if Instant::now() > deadline {
            assert_eq!(traces(namespace), before, "after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
