//! A PostgreSQL of a test: its own files, a Unix socket and, if a test asks for it, TLS on loopback; ended with the test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Folder, output};

/// PostgreSQL refuses to run as root; this user has no rights.
const NOBODY: u32 = 65_534;
/// What a server says when it takes connections.
const READY: &str = "database system is ready to accept connections";

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Postgres {
    folder: Folder,
    programs: PathBuf,
    server: Option<Child>,
    databases: AtomicU32,
    /// Port, in the name of the Unix socket as well.
    port: u16,
    /// Options that a test has set.
    options: Vec<String>,
}

impl Postgres {
    /// Starts one; `None`, aloud, where PostgreSQL is not installed.
    pub fn start() -> Option<Postgres> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
        found.sort();
        let Some(programs) = found.into_iter().rfind(|programs| programs.join("initdb").is_file()) else {
            println!("skipped: PostgreSQL is not installed (apt install postgresql)");
            return None;
        };
        let (folder, databases) = (Folder::for_all(), AtomicU32::new(0));
        let mut postgres =
            Postgres { folder, programs, server: None, databases, port: 5432, options: Vec::new() };
        let data = postgres.data();
        fs::create_dir(&data).expect("room");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("it is ours");
        if rustix::process::geteuid().is_root() {
            chown(&data, Some(NOBODY), Some(NOBODY)).expect("root may");
        }
        let mut command = postgres.program("initdb");
        command
            .args(["-A", "trust", "-U", "owner", "--no-sync", "--no-locale", "-E", "UTF8", "-D"])
            .arg(data);
        let made = output(&mut command).expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        postgres.restart();
        Some(postgres)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The folder of its socket, `.s.PGSQL.5432`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program of PostgreSQL, as the user of the server; it ends with the thread that starts it.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig=INT").arg(self.programs.join(name));
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.current_dir(&*self.folder);
        command
    }

    /// Starts it again after a kill. Its last processes may still hold its memory: then it ends, and is started once more.
    pub fn restart(&mut self) {
        self.kill();
        for _ in 0..1000 {
            let mut command = self.program("postgres");
            command.arg("-D").arg(self.data()).arg("-k").arg(&*self.folder);
            command.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]);
            command.args(["-c", "wal_level=minimal", "-c", "max_wal_senders=0"]);
            command.args(["-p", &self.port.to_string()]).args(&self.options);
            let mut server = command.stderr(Stdio::piped()).spawn().expect("postgres starts");
            let mut log = BufReader::new(server.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
            if log.any(|line| line.contains(READY)) {
                // It must never wait for a reader of its log.
                std::thread::spawn(move || log.for_each(drop));
                self.server = Some(server);
                return;
            }
            server.wait().expect("it ran");
        }
        panic!("PostgreSQL does not start in {}", self.data().display());
    }

    /// Starts it again on a port of 127.0.0.1, which is returned: with TLS if there is a certificate with its key, in PEM. Connections
    /// without TLS are then refused.
    pub fn listen(&mut self, tls: Option<(&str, &str)>) -> u16 {
        let any = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        self.port = any.local_addr().expect("an address").port();
        self.options = ["-c", "listen_addresses=127.0.0.1"].map(String::from).to_vec();
        let mut way = "host";
        if let Some((certificate, key)) = tls {
            way = "hostssl";
            self.private("server.crt", certificate);
            self.private("server.key", key);
            self.options.extend(["-c", "ssl=on"].map(String::from));
        }
        let access = format!("local all all trust\n{way} all all 127.0.0.1/32 trust\n");
        self.private("pg_hba.conf", &access);
        drop(any);
        self.restart();
        self.port
    }

    /// Writes a file that only the server may read.
    fn private(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may");
        }
    }

    /// Kills it as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().expect("it is our child");
            server.wait().expect("it ran");
        }
    }

    /// The address of a database, for this role.
    pub fn url(&self, role: &str, database: &str) -> String {
        url(&self.folder, role, database)
    }

    /// The address of a new, empty database for its owner, and its name.
    pub fn database(&self) -> (String, String) {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        (self.url("owner", &name), name)
    }

    /// What the server answers to a statement: a line for each row.
    pub fn sql(&self, database: &str, text: &str) -> String {
        let answered = self.ask(database, text);
        assert!(answered.status.success(), "{text}: {}", String::from_utf8_lossy(&answered.stderr));
        String::from_utf8_lossy(&answered.stdout).trim_end().to_string()
    }

    /// Why the server refuses a statement.
    pub fn refusal(&self, database: &str, text: &str) -> String {
        let answered = self.ask(database, text);
        assert!(!answered.status.success(), "{text} is refused");
        String::from_utf8_lossy(&answered.stderr).into_owned()
    }

    fn ask(&self, database: &str, text: &str) -> Output {
        let mut command = self.program("psql");
        command
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "owner", "-h"])
            .arg(&*self.folder)
            .args(["-p", &self.port.to_string()]);
        output(command.args(["-d", database, "-c", text])).expect("psql starts")
    }
}

/// The address of a database whose server has its socket in this folder.
pub fn url(folder: &Path, role: &str, database: &str) -> String {
    format!("postgres://{role}@{}/{database}", folder.display().to_string().replace('/', "%2F"))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT: it ends its processes, so that the folder can be removed.
        if let Some(mut server) = self.server.take() {
            let _ = kill_process(Pid::from_child(&server), Signal::INT);
            let _ = server.wait();
        }
    }
}
