//! Configuration, command lines and output of other servers and clients.

use std::fs;
use std::io;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use weir_apps::client::{Mode, Outcome, Percentiles};

use super::plan::{ClientPeer, Peer};
use weir_lab::run::programs;

/// What a server is to do.
pub(super) struct Order<'a> {
    pub(super) at: SocketAddrV4,
    pub(super) backlog: u32,
    /// Processes or threads with an event loop each: as many as the server has CPUs.
    pub(super) loops: usize,
    /// Descriptors that it may have.
    pub(super) descriptors: u64,
    /// A separate folder.
    pub(super) folder: &'a Path,
}

/// Writes the configuration of a server; its command.
pub(super) fn server(peer: Peer, order: &Order<'_>) -> io::Result<Command> {
    let (name, text) = match peer {
        Peer::Nginx => ("nginx.conf", nginx(order)),
        Peer::Haproxy => ("haproxy.cfg", haproxy(order)),
    };
    let file = order.folder.join(name);
    fs::write(&file, text)?;
    let mut command = program(peer.name());
    match peer {
        Peer::Nginx => command.arg("-p").arg(order.folder).args(["-e", "stderr", "-c"]).arg(file),
        Peer::Haproxy => command.args(["-db", "-f"]).arg(file),
    };
    Ok(command)
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("PATH", programs::path());
    command
}

/// Without a log, which would cost it a write for each request; otherwise as it comes.
fn nginx(order: &Order<'_>) -> String {
    let Order { at, backlog, loops, descriptors, folder } = order;
    let connections = descriptors.saturating_sub(100);
    let folder = folder.display();
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("  {name}_temp_path {folder}/{name};\n"))
        .concat();
    format!(
        "daemon off;\nuser root;\nworker_processes {loops};\npid {folder}/nginx.pid;\nerror_log stderr error;\n\
         worker_rlimit_nofile {descriptors};\nevents {{ worker_connections {connections}; }}\nhttp {{\n  access_log off;\n{places}  \
         server {{\n    listen {at} backlog={backlog};\n    default_type text/plain;\n    location / {{ return 200 \"{}\"; }}\n  \
         }}\n}}\n",
        weir_apps::server::BODY
    )
}

fn haproxy(order: &Order<'_>) -> String {
    let Order { at, backlog, loops, descriptors, .. } = order;
    // It counts two for a connection, and refuses to start with too few.
    let most = descriptors.saturating_sub(200) / 2;
    format!(
        "global\n  maxconn {most}\n  nbthread {loops}\ndefaults\n  mode http\n  maxconn {most}\n  timeout client 10s\n  \
         timeout server 10s\n  timeout connect 10s\nfrontend http\n  bind {at} backlog {backlog}\n  \
         http-request return status 200 content-type text/plain string \"{}\"\n",
        weir_apps::server::BODY
    )
}

/// The command of a client; wrk counts whole seconds.
pub(super) fn client(peer: ClientPeer, (to, mode): (SocketAddrV4, Mode), seconds: f64) -> Command {
    let Mode::Closed(connections) = mode else {
        unreachable!("plans give it closed loops only");
    };
    let (mut command, connections) = (program(peer.name()), connections.to_string());
    match peer {
        ClientPeer::Wrk => {
            command.args(["-t", "1", "--latency", "-H", "Connection: close", "-c", &connections]);
            command.arg("-d").arg(format!("{}s", seconds.ceil().max(1.0)));
        }
        ClientPeer::Oha => {
            command.args(["--no-tui", "--disable-keepalive", "--output-format", "json", "-c", &connections]);
            command.arg("-z").arg(format!("{:.0}ms", seconds * 1e3));
        }
    }
    command.arg(format!("http://{to}/"));
    command
}

/// What a client has said, as an outcome of ours.
pub(super) fn outcome(peer: ClientPeer, said: &str) -> Result<Outcome, String> {
    let found = match peer {
        ClientPeer::Wrk => wrk(said),
        ClientPeer::Oha => oha(said),
    };
    found.ok_or_else(|| {
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("it has not said a rate and a sum: {last}")
    })
}

/// So many answers at this rate.
fn counted(answered: u64, per_s: f64, latency: Percentiles, failed: Vec<(String, u64)>) -> Outcome {
    let window_s = if per_s > 0.0 { answered as f64 / per_s } else { 0.0 };
    Outcome {
        begun: answered,
        answered,
        in_window: answered,
        window_s,
        worked_s: window_s,
        latency: Percentiles { count: answered, ..latency },
        failed: failed.into_iter().filter(|(_, n)| *n > 0).collect(),
        ..Outcome::default()
    }
}

fn wrk(said: &str) -> Option<Outcome> {
    let after = |word: &str| said.lines().find_map(|line| line.trim().strip_prefix(word)).map(str::trim);
    let rate: f64 = after("Requests/sec:")?.parse().ok()?;
    // `12345 requests in 1.02s, 2.00MB read`
    let total = said.lines().find(|line| line.contains(" requests in "))?;
    let answered: u64 = total.split_whitespace().next()?.parse().ok()?;
    let time = |word| after(word).and_then(duration_ns).unwrap_or(0);
    let latency =
        Percentiles { p50: time("50%"), p90: time("90%"), p99: time("99%"), ..Percentiles::default() };
    let errors = after("Socket errors:").into_iter().flat_map(|line| line.split(", "));
    let failed = errors.filter_map(|error| {
        let (name, n) = error.split_once(' ')?;
        Some((name.to_string(), n.parse().ok()?))
    });
    Some(counted(answered, rate, latency, failed.collect()))
}

/// Its rate counts requests that failed, too.
fn oha(said: &str) -> Option<Outcome> {
    // A note may stand before it.
    let found: serde_json::Value = serde_json::from_str(said.get(said.find('{')?..)?).ok()?;
    let numbers = |name: &str| {
        let map = found[name].as_object().into_iter().flatten();
        map.filter_map(|(key, n)| Some((key.clone(), n.as_u64()?))).collect::<Vec<_>>()
    };
    let answered = numbers("statusCodeDistribution").iter().map(|(_, n)| n).sum::<u64>();
    let total_s = found["summary"]["total"].as_f64()?;
    let ns = |value: &serde_json::Value| (value.as_f64().unwrap_or(0.0) * 1e9) as u64;
    let at = |name: &str| ns(&found["latencyPercentiles"][name]);
    let latency = Percentiles {
        mean: ns(&found["summary"]["average"]),
        p50: at("p50"),
        p90: at("p90"),
        p99: at("p99"),
        p999: at("p99.9"),
        max: ns(&found["summary"]["slowest"]),
        ..Percentiles::default()
    };
    // What was under way at the end is no failure.
    let failed = numbers("errorDistribution").into_iter().filter(|(why, _)| !why.contains("deadline"));
    Some(counted(answered, answered as f64 / total_s.max(1e-9), latency, failed.collect()))
}

/// `1.23ms`, `45.00us`, `1.02s`.
fn duration_ns(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let ns = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| (number * ns) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_read() {
        let said = "Running 1s test @ http://127.0.0.1:8080/\n  1 threads and 100 connections\n  Thread Stats   Avg\n    \
            Latency     2.34ms    1.02ms  20.18ms   93.62%\n  Latency Distribution\n     50%    2.13ms\n     75%    2.40ms\n     \
            90%  900.00us\n     99%    1.05s \n  15313 requests in 1.10s, 2.73MB read\n  Socket errors: connect 0, read 7, \
            write 0, timeout 0\nRequests/sec:  13920.05\nTransfer/sec:      2.48MB\n";
        let outcome = outcome(ClientPeer::Wrk, said).unwrap();
        assert_eq!(
            (outcome.answered, outcome.latency.p50, outcome.latency.p90),
            (15_313, 2_130_000, 900_000)
        );
        assert_eq!(outcome.latency.p99, 1_050_000_000);
        assert!((outcome.window_s - 1.1).abs() < 0.01);
        assert_eq!(outcome.failed.into_iter().collect::<Vec<_>>(), [("read".to_string(), 7)]);
        assert!(
            super::outcome(ClientPeer::Wrk, "unable to connect\n").unwrap_err().contains("unable to connect")
        );
    }

    #[test]
    fn what_oha_says_is_read() {
        let said = r#"{"summary": {"successRate": 1.0, "total": 0.5, "slowest": 0.02, "fastest": 0.0001, "average": 0.002,
            "requestsPerSec": 2100.0}, "latencyPercentiles": {"p50": 0.0015, "p90": 0.003, "p99": 0.01, "p99.9": 0.015},
            "statusCodeDistribution": {"200": 1000}, "errorDistribution": {"aborted due to deadline": 50,
            "connection reset": 3}}"#;
        let outcome = outcome(ClientPeer::Oha, said).unwrap();
        assert_eq!((outcome.answered, outcome.window_s, outcome.latency.count), (1000, 0.5, 1000));
        let Percentiles { mean, p50, p99, p999, max, .. } = outcome.latency;
        assert_eq!([mean, p50, p99, p999, max], [2_000_000, 1_500_000, 10_000_000, 15_000_000, 20_000_000]);
        assert_eq!(outcome.failed.into_iter().collect::<Vec<_>>(), [("connection reset".to_string(), 3)]);
        let error = super::outcome(ClientPeer::Oha, "error: Connection refused\n").unwrap_err();
        assert!(error.contains("Connection refused"), "{error}");
    }
}
