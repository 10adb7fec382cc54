//! Grids on the schedulers of others: an array job of Slurm and GNU parallel measure the shards of a plan, each pushes its part to
//! an archive, and `weir merge --from` makes one run of them. The files for schedulers that are not here are held against the
//! fields that those schedulers know.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_linux::namespace::Namespace;
use weir_testkit::postgres::Postgres;
use weir_testkit::schema::mistakes;
use weir_testkit::{Folder, PATIENCE, has, need_root, output};

use crate::weir::WEIR;

/// Twelve points, which are computed.
const GRID: &str = r#"
question = "Which queue is fair?"
experiment = "buffers"
[buffers]
queue = ["fifo", "pie", "fq-codel"]
buffer_bdp = [0.5, 1, 2, 4]
mix = "cubic+bbr1"
rate = "5M"
duration_s = 1
seeds = 2
"#;

/// A folder with the plan, and an archive.
struct Site {
    folder: Folder,
    postgres: Postgres,
    url: String,
}

impl Site {
    fn new() -> Option<Site> {
        if !Path::new(WEIR).with_file_name("weir-archive").exists() {
            println!("skipped: weir-archive is not built (cargo build -p weir-archive)");
            return None;
        }
        let postgres = Postgres::start()?;
        let (url, _) = postgres.database();
        let folder = Folder::new();
        folder.file("grid.toml", GRID);
        Some(Site { folder, postgres, url })
    }

    /// A command in the folder that finds `weir`, and pushes to the archive.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let programs = Path::new(WEIR).parent().expect("a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", programs.display())).env("WEIR_PUSH_TO", &self.url);
        command.current_dir(&self.folder);
        command
    }

    fn shell(&self, line: &str) -> String {
        let ended = output(self.command("sh").args(["-c", line])).expect("a shell");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{line}: {said}");
        String::from_utf8(ended.stdout).expect("text")
    }

    /// The shards in the archive, merged from any one of them, are what one run of the whole plan computes.
    fn check(&self, shards: usize) {
        let database = self.url.rsplit('/').next().expect("a database");
        let states = "SELECT count(*), count(*) FILTER (WHERE state = 'complete') FROM weir.runs";
        assert_eq!(self.postgres.sql(database, states), format!("{shards}|{shards}"));
        let url = &self.url;
        self.shell("env -u WEIR_PUSH_TO weir run grid.toml --seed 7 --quiet --no-report --store whole.db");
        self.shell(&format!("weir merge 2 --others --from {url} --store merged.db"));
        let figures = |store: &str| self.shell(&format!("weir export last --format figures --store {store}"));
        let (whole, merged) = (figures("whole.db"), figures("merged.db"));
        assert_eq!(whole, merged);
        assert!(whole.lines().count() > 12 * 5, "{whole}");
        self.postgres.sql(database, "DELETE FROM weir.runs WHERE id = 1");
        let line = format!("weir merge 2 --others --from {url} --store again.db");
        let missing = output(self.command("sh").args(["-c", &line])).expect("a shell");
        let said = String::from_utf8_lossy(&missing.stderr);
        assert!(said.contains(&format!("of {shards} shards, these are missing: ")), "{said}");
    }
}

#[test]
fn parallel_measures_the_shards_of_a_plan() {
    if !has("parallel") {
        return;
    }
    let Some(site) = Site::new() else { return };
    site.shell(
        "seq 5 | parallel --will-cite -j 2 --halt now,fail=1 \
         'weir run grid.toml --shard {}/5 --seed 7 --quiet --no-report --store {}.db'",
    );
    site.check(5);
}

/// Slurm in a separate namespace: munged, slurmctld and one slurmd. All of them end with it.
struct Slurm {
    namespace: Namespace,
    folder: Folder,
    daemons: Vec<std::process::Child>,
}

impl Slurm {
    fn start() -> Option<Slurm> {
        let programs = ["munged", "slurmctld", "slurmd", "sbatch"];
        let is_there = |name: &&str| {
            ["/usr/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
        };
        if let Some(missing) = programs.iter().find(|name| !is_there(name)) {
            println!("skipped: {missing} is not installed");
            return None;
        }
        let folder = Folder::for_all();
        let host = weir_disk::kernel_text("/proc/sys/kernel/hostname").expect("a name");
        folder.file("munge.key", [0x5a; 1024]);
        let key = output(Command::new("chmod").arg("400").arg(folder.join("munge.key"))).expect("chmod");
        assert!(key.status.success());
        folder.file("slurm.conf", slurm_conf(&folder, host.trim()));
        // The /sys of a namespace has no control groups, by which slurmd would find out their version.
        folder.file("cgroup.conf", "CgroupPlugin=cgroup/v1\n");
        let namespace = Namespace::new().expect("root may");
        let mut slurm = Slurm { namespace, folder, daemons: Vec::new() };
        // Slurm looks for an address that is not of loopback.
        for line in [
            "link set lo up",
            "link add s0 type veth peer name s1",
            "addr add 198.18.0.1/24 dev s0",
            "link set s0 up",
            "link set s1 up",
        ] {
            let mut command = Command::new("ip");
            let ended = slurm.namespace.run(|| output(command.args(line.split(' ')))).expect("it runs");
            assert!(ended.status.success(), "{line}");
        }
        let at = |name: &str| slurm.folder.join(name).display().to_string();
        let munge = [("key-file", "munge.key"), ("socket", "munge.socket"), ("pid-file", "munge.pid")];
        let munge = munge.into_iter().chain([("log-file", "munge.log"), ("seed-file", "munge.seed")]);
        let mut munged: Vec<String> =
            munge.map(|(option, name)| format!("--{option}={}", at(name))).collect();
        munged.extend(["--foreground", "--force", "--origin=198.18.0.1"].map(String::from));
        let config = at("slurm.conf");
        slurm.daemon("munged", &munged);
        slurm.await_file("munge.socket");
        slurm.daemon("slurmctld", &["-D".into(), "-f".into(), config.clone()]);
        slurm.daemon("slurmd", &["-D".into(), "-N".into(), "node".into(), "-f".into(), config]);
        Some(slurm)
    }

    fn daemon(&mut self, name: &str, words: &[String]) {
        let log = std::fs::File::create(self.folder.join(format!("{name}.out"))).expect("room");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", name]).args(words).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        self.daemons.push(self.namespace.run(|| command.spawn()).expect("it starts"));
    }

    fn await_file(&self, name: &str) {
        let begun = Instant::now();
        while !self.folder.join(name).exists() {
            assert!(begun.elapsed() < PATIENCE, "no {name}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the daemons have written.
    fn said(&self) -> String {
        let log = |name| std::fs::read_to_string(self.folder.join(format!("{name}.out"))).unwrap_or_default();
        ["munged", "slurmctld", "slurmd"].map(log).concat()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn slurm_conf(folder: &Folder, host: &str) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    [
        format!("SlurmctldHost={host}(198.18.0.1)"),
        format!("AuthInfo=socket={}", at("munge.socket")),
        format!("StateSaveLocation={}", at("state")),
        format!("SlurmdSpoolDir={}", at("spool")),
        format!("SlurmctldPidFile={}", at("slurmctld.pid")),
        format!("SlurmdPidFile={}", at("slurmd.pid")),
        format!("NodeName=node NodeHostname={host} NodeAddr=198.18.0.1 CPUs=2 RealMemory=4000 State=UNKNOWN"),
    ]
    .join("\n")
        + "
ClusterName=test
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"
}

#[test]
fn an_array_job_of_slurm_measures_the_shards_of_a_plan() {
    need_root!();
    let Some(site) = Site::new() else { return };
    let Some(slurm) = Slurm::start() else { return };
    let script = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/shards.sbatch"));
    let mut sbatch = site.command("timeout");
    sbatch.args(["120", "sbatch"]);
    sbatch.env("SLURM_CONF", slurm.folder.join("slurm.conf"));
    // sbatch asks again while the daemons start.
    sbatch.args(["--wait", "--array=1-5", "--mem=100M"]).arg(script).arg("grid.toml");
    let ended = slurm.namespace.run(|| output(&mut sbatch)).expect("sbatch starts");
    let logs = site.shell("cat slurm-*.out 2>/dev/null || true");
    assert!(ended.status.success(), "{ended:?} {logs} {}", slurm.said());
    assert_eq!(site.shell("ls grid-*.json | wc -l").trim(), "5", "{logs}");
    site.check(5);
    // The files alone are enough, too.
    site.shell("weir merge grid-*.json --store files.db");
}

/// A file of docs as JSON.
fn yaml(name: &str) -> Value {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let program = "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let ended =
        output(Command::new("/usr/bin/python3").args(["-c", program, &path])).expect("python3 starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).expect("JSON")
}

#[test]
fn files_for_other_schedulers_have_only_fields_that_these_know() {
    if !Path::new("/usr/lib/python3/dist-packages/yaml").exists() {
        return println!("skipped: python3-yaml is not installed");
    }
    for (file, schema) in [
        ("shards-job.yaml", include_str!("schemas/kubernetes-job.json")),
        ("shards-github.yml", include_str!("schemas/github-workflow.json")),
    ] {
        let (document, schema) = (yaml(file), serde_json::from_str(schema).expect("JSON"));
        assert_eq!(mistakes(&schema, &document), Vec::<String>::new(), "{file}");
        let mut wrong = document;
        wrong["completion"] = Value::from(5);
        assert_eq!(mistakes(&schema, &wrong).len(), 1, "{file}: an unknown field is found");
    }
    let job = yaml("shards-job.yaml");
    let script = job["spec"]["template"]["spec"]["containers"][0]["args"][0].as_str().expect("a script");
    let completions = job["spec"]["completions"].as_u64().expect("a number");
    assert!(script.contains(&format!("/{completions}\"")), "as many shards as completions: {script}");
}
