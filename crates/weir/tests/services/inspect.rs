//! `weir inspect` of real servers, each in a separate namespace: those that are installed here are recognized as what they are.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_linux::namespace::Namespace;
use weir_testkit::{need_root, output};

use crate::home::Home;
use crate::weir::WEIR;
use weir_testkit::kills::{Kills, kill_after};

const PORT: u16 = 8080;
/// A server listens within this time on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command that starts a server in a folder, or what is missing.
type Start = fn(&Path) -> Result<Command, String>;

/// Servers, and how each is built.
fn servers() -> Vec<(&'static str, Start, Value)> {
    let epoll = |loops: u32| json!({"kind": "event-loop", "by": "epoll", "loops": loops});
    vec![
        ("nginx", nginx, epoll(2)),
        ("haproxy", haproxy, epoll(2)),
        ("Apache, prefork", |folder| apache(folder, "prefork"), json!({"kind": "prefork"})),
        ("Apache, worker", |folder| apache(folder, "worker"), json!({"kind": "thread-pool"})),
        ("Apache, event", |folder| apache(folder, "event"), json!({"kind": "thread-pool"})),
        ("Postfix", postfix, json!({"kind": "prefork"})),
        ("Redis", redis, epoll(1)),
        ("PostgreSQL", postgresql, json!({"kind": "process-per-connection"})),
        ("OpenSSH", openssh, json!({"kind": "process-per-connection"})),
        ("Node.js", node, epoll(1)),
        ("Go", go, epoll(1)),
        ("Python", python, json!({"kind": "thread-per-connection"})),
    ]
}

#[test]
fn servers_are_recognized() {
    need_root!();
    let wrong: Vec<String> = thread::scope(|scope| {
        let all = servers().into_iter();
        let threads: Vec<_> = all.map(|one| scope.spawn(move || inspected(one))).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic").err()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn killed_at_any_instant_it_leaves_a_server_that_can_be_inspected() {
    let home = Home::new(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let inspect = ["inspect", &target, "--connections", "20", "--json"];
    let open = Arc::new(AtomicUsize::new(0));
    let counted = open.clone();
    // A thread for each connection; they end with the test.
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let counted = counted.clone();
            counted.fetch_add(1, Relaxed);
            thread::spawn(move || {
                while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
                counted.fetch_sub(1, Relaxed);
            });
        }
    });
    let (mut kills, mut held) = (Kills::new(5), 0);
    while let Some((delay, trace)) = kills.next(Duration::from_millis(600)) {
        kill_after(&mut home.command(&[WEIR], &inspect).spawn().unwrap(), delay);
        held += open.load(Relaxed);
        let begin = Instant::now();
        while open.load(Relaxed) > 0 {
            assert!(begin.elapsed() < PATIENCE, "{trace}: {} connections are held", open.load(Relaxed));
            thread::yield_now();
        }
    }
    println!("{held} connections were open after kills");
    let output = home.weir(&inspect);
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    // What it is called depends on the other tests of this process.
    let last = verdict["evidence"]["steps"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["held"], &last["accepted"]), (&20.into(), &20.into()), "{verdict}");
}

/// Starts a server and inspects it; what is wrong with the verdict.
fn inspected((name, start, expected): (&str, Start, Value)) -> Result<(), String> {
    let home = Home::new(&[]);
    let mut command = match start(&home.path("")) {
        Ok(command) => command,
        Err(why) => {
            println!("skipped: weir inspect of {name}: {why}");
            return Ok(());
        }
    };
    let namespace = Namespace::new().map_err(|error| error.to_string())?;
    let said = fs::File::create(home.path("said")).map_err(|error| error.to_string())?;
    let errors = said.try_clone().map_err(|error| error.to_string())?;
    command.stdin(Stdio::null()).stdout(said).stderr(errors);
    let child = namespace.run(|| command.spawn()).map_err(|error| format!("{name}: {error}"))?;
    let mut server = Server(child);
    if !namespace.run(|| server.listens()) {
        let said = fs::read_to_string(home.path("said")).unwrap_or_default();
        return Err(format!("{name} does not listen: {said}"));
    }
    let mut weir = Command::new(WEIR);
    weir.args(["inspect", &format!("127.0.0.1:{PORT}"), "--connections", "20", "--json"]);
    let output = namespace.run(|| output(&mut weir)).map_err(|error| error.to_string())?;
    let verdict: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("{name}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let of_it = |key: &String| &verdict["architecture"][key];
    let is_right = expected.as_object().is_some_and(|all| all.iter().all(|(key, value)| of_it(key) == value));
    if is_right { Ok(()) } else { Err(format!("{name} is {expected}, not {verdict}")) }
}

/// A server with all that it has started, which ends with its test.
struct Server(Child);

impl Server {
    /// Looks until it accepts connections: none of them says when.
    fn listens(&mut self) -> bool {
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
            if begin.elapsed() > PATIENCE || !matches!(self.0.try_wait(), Ok(None)) {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: no pointers; the child has not been waited for, so that the number is still its own. It ends what it has started.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

/// A program, wherever it is.
fn program(name: &str, package: &str) -> Result<Command, String> {
    let path =
        std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin:/usr/local/go/bin:/usr/lib/go/bin";
    let found = path.split(':').map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    let found = found.ok_or_else(|| format!("{name} is missing (apt install {package})"))?;
    let mut command = Command::new(found);
    command.env("PATH", path);
    Ok(command)
}

/// A file of a server's folder.
fn file(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Runs a command to its end before the server is started.
fn prepare(mut command: Command) -> Result<(), String> {
    let output = output(&mut command).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(said)
}

/// User and group of a name, as its package has made them.
fn user(name: &str) -> Result<(u32, u32), String> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    let number = |at: usize| line?.split(':').nth(at)?.parse().ok();
    number(1).zip(number(2)).ok_or_else(|| format!("there is no user {name}"))
}

fn nginx(folder: &Path) -> Result<Command, String> {
    let mut command = program("nginx", "nginx-light")?;
    let text = format!(
        "daemon off; pid {0}nginx.pid; error_log stderr; worker_processes 2; events {{ worker_connections 1000; }}
         http {{ access_log off; server {{ listen 127.0.0.1:{PORT}; return 204; }} }}",
        folder.display()
    );
    command.arg("-p").arg(folder).arg("-c").arg(file(folder, "nginx.conf", &text)?);
    Ok(command)
}

fn haproxy(folder: &Path) -> Result<Command, String> {
    let mut command = program("haproxy", "haproxy")?;
    let text = format!(
        "global\n nbthread 2\ndefaults\n mode http\n timeout client 60s\n timeout server 60s\n timeout connect 5s\n\
         frontend f\n bind 127.0.0.1:{PORT}\n http-request return status 204\n"
    );
    command.arg("-f").arg(file(folder, "haproxy.cfg", &text)?);
    Ok(command)
}

fn apache(folder: &Path, mpm: &str) -> Result<Command, String> {
    let mut command = program("apache2", "apache2-bin")?;
    let modules = "/usr/lib/apache2/modules/mod_";
    let text = format!(
        "ServerRoot {0}\nPidFile {0}pid\nErrorLog {0}error\nServerName localhost\nListen 127.0.0.1:{PORT}\n\
         LoadModule mpm_{mpm}_module {modules}mpm_{mpm}.so\nLoadModule authz_core_module {modules}authz_core.so\n\
         User www-data\nGroup www-data\nStartServers 2\n",
        folder.display()
    );
    command.arg("-f").arg(file(folder, "apache.conf", &text)?).arg("-DFOREGROUND");
    // At its end it signals all of its process group.
    command.process_group(0);
    Ok(command)
}

/// Postfix that takes connections; no mail is sent there.
fn postfix(folder: &Path) -> Result<Command, String> {
    let mut check = program("postfix", "postfix")?;
    let (uid, gid) = user("postfix")?;
    for name in ["config", "queue", "data"] {
        fs::create_dir(folder.join(name)).map_err(|error| error.to_string())?;
    }
    std::os::unix::fs::chown(folder.join("data"), Some(uid), Some(gid)).map_err(|error| error.to_string())?;
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {0}queue\ndata_directory = {0}data\nmaillog_file = {0}log\n\
         maillog_file_prefixes = {0}\ninet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmyhostname = mx.weir.test\n\
         mydestination =\nmynetworks = 127.0.0.0/8\nalias_maps =\nsmtpd_client_connection_count_limit = 0\n\
         smtpd_peername_lookup = no\n",
        folder.display()
    );
    file(folder, "config/main.cf", &main)?;
    let master = format!(
        "127.0.0.1:{PORT} inet n - n - 100 smtpd\nrewrite unix - - n - - trivial-rewrite\n\
         anvil unix - - n - 1 anvil\nproxymap unix - - n - - proxymap\npostlog unix-dgram n - n - 1 postlogd\n"
    );
    file(folder, "config/master.cf", &master)?;
    check.arg("-c").arg(folder.join("config")).arg("check");
    prepare(check)?;
    let mut command = Command::new("/usr/lib/postfix/sbin/master");
    command.arg("-s").arg("-c").arg(folder.join("config"));
    Ok(command)
}

fn redis(folder: &Path) -> Result<Command, String> {
    let mut command = program("redis-server", "redis-server")?;
    command.args(["--port", &PORT.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(folder);
    Ok(command)
}

fn postgresql(folder: &Path) -> Result<Command, String> {
    let (uid, gid) = user("postgres")?;
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let bin = versions.map(|entry| entry.path().join("bin")).find(|bin| bin.join("postgres").is_file());
    let bin = bin.ok_or("postgres is missing (apt install postgresql)")?;
    let data = folder.join("data");
    fs::create_dir(&data).map_err(|error| error.to_string())?;
    std::os::unix::fs::chown(&data, Some(uid), Some(gid)).map_err(|error| error.to_string())?;
    let of_it = |name: &str| {
        let mut command = Command::new(bin.join(name));
        command.uid(uid).gid(gid).current_dir(&data).arg("-D").arg(&data);
        command
    };
    let mut make = of_it("initdb");
    make.args(["-A", "trust", "--no-sync", "--no-locale"]);
    prepare(make)?;
    let mut command = of_it("postgres");
    command.args(["-p", &PORT.to_string(), "-c", "listen_addresses=127.0.0.1", "-c"]);
    command.arg(format!("unix_socket_directories={}", data.display()));
    Ok(command)
}

fn openssh(folder: &Path) -> Result<Command, String> {
    program("sshd", "openssh-server")?;
    let mut keys = program("ssh-keygen", "openssh-client")?;
    keys.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join("key"));
    prepare(keys)?;
    let text = format!(
        "Port {PORT}\nListenAddress 127.0.0.1\nHostKey {}key\nUsePAM no\nPidFile none\nMaxStartups 500\n",
        folder.display()
    );
    let configuration = file(folder, "sshd_config", &text)?;
    // Its folder for unprivileged processes, seen in this namespace alone.
    let script = format!(
        "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f {}",
        configuration.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    Ok(command)
}

fn node(_: &Path) -> Result<Command, String> {
    let mut command = program("node", "nodejs")?;
    let server = "require('http').createServer((_, reply) => reply.end('x'))";
    command.arg("-e").arg(format!("{server}.listen({PORT}, '127.0.0.1')"));
    Ok(command)
}

fn go(folder: &Path) -> Result<Command, String> {
    let mut build = program("go", "golang-go")?;
    let text = format!(
        "package main\n\nimport (\n\t\"io\"\n\t\"net\"\n)\n\nfunc main() {{\n\tlistener, err := net.Listen(\"tcp\", \"127.0.0.1:{PORT}\")\n\
         \tif err != nil {{\n\t\tpanic(err)\n\t}}\n\tfor {{\n\t\tconnection, err := listener.Accept()\n\t\tif err != nil {{\n\
         \t\t\tpanic(err)\n\t\t}}\n\t\tgo io.Copy(connection, connection)\n\t}}\n}}\n"
    );
    let source = file(folder, "server.go", &text)?;
    build.args(["build", "-o"]).arg(folder.join("server")).arg(source).env("GO111MODULE", "off");
    build.env("GOTOOLCHAIN", "local").current_dir(folder);
    prepare(build)?;
    Ok(Command::new(folder.join("server")))
}

fn python(folder: &Path) -> Result<Command, String> {
    let mut command = program("python3", "python3")?;
    command.args(["-m", "http.server", &PORT.to_string(), "--bind", "127.0.0.1"]).current_dir(folder);
    Ok(command)
}
