//! A real Prometheus reads what a node, `weir detect` and `weir capture` report, and every panel of the dashboard has something
//! to draw.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use weir_linux::rtnl::Rtnl;
use weir_testkit::{PATIENCE, need_root, output};

use crate::street::{Street, echo_over_tcp};
use crate::weir::{self, WEIR};

const NODE: &str = "127.0.0.1:9103";
const CAPTURE: &str = "127.0.0.1:9104";
const DETECT: &str = "127.0.0.1:9105";
const PROMETHEUS: &str = "127.0.0.1:9090";
const DASHBOARD: &str = include_str!("../../../../docs/grafana-weir.json");

/// A Prometheus, until it is dropped.
struct Prometheus<'a> {
    street: &'a Street,
    child: Child,
}

impl<'a> Prometheus<'a> {
    /// One that asks these in the node's namespace; `None` where there is no Prometheus.
    fn start(street: &'a Street, targets: &[&str]) -> Option<Prometheus<'a>> {
        let config = street.folder.join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs: [{{ job_name: weir, static_configs: [{{ targets: {targets:?} }}] }}]\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", street.folder.join("series").display()));
        command.arg(format!("--web.listen-address={PROMETHEUS}")).stdout(Stdio::null()).stderr(Stdio::null());
        let child = street.node.run(|| command.spawn()).ok()?;
        Some(Prometheus { street, child })
    }

    /// The answer to a query: its series.
    fn ask(&self, query: &str) -> Vec<Value> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--get", "--data-urlencode", &format!("query={query}")]);
        command.arg(format!("http://{PROMETHEUS}/api/v1/query"));
        let output = self.street.node.run(|| output(&mut command)).expect("curl");
        // Nothing yet, while it starts.
        let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) else { return Vec::new() };
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The queries of the dashboard, for whatever is there.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let query = |target: &Value| {
        let text = target["expr"].as_str().expect("a query");
        // A panel may leave out what is zero, and so may be empty.
        text.replace("$instance", ".*").replace("$__rate_interval", "1m").replace(" > 0", "")
    };
    targets.map(query).collect()
}

#[test]
fn prometheus_has_all_that_the_dashboard_asks_for() {
    need_root!();
    let street = Street::new();
    street.node.run(|| {
        let mut rtnl = Rtnl::open().unwrap();
        let index = rtnl.link("lo").unwrap().ifindex;
        rtnl.set_up(index, true).unwrap();
        let _ = rtnl.add_address(index, Ipv4Addr::LOCALHOST.into(), 8);
    });
    let Some(prometheus) = Prometheus::start(&street, &[NODE, CAPTURE, DETECT]) else {
        return println!("skipped: no program prometheus (Debian: apt-get install prometheus)");
    };
    let mut node = Command::new(WEIR);
    let text = "node lan(198.18.0.1/24, on n0) > nat(public 192.0.2.1) > route > wan(192.0.2.1/24, on n1)\n\
                run(io packet)";
    node.args(["node", "run"]).arg(street.file(text)).args(["--json", "--prometheus", NODE]);
    for name in ["events", "blocks"] {
        node.arg(format!("--{name}")).arg(street.folder.join(name));
    }
    let node = street.run_command(node);
    let limits = street.folder.join("detect.toml");
    std::fs::write(&limits, "networks = [\"198.18.0.0/15\"]\n[in]\npps = \"1M\"\n").unwrap();
    let detect = format!("detect -i n0 --config {} --prometheus {DETECT}", Path::new(&limits).display());
    let _detect = weir::start(&street.node, &detect, "");
    let _capture = weir::start(&street.node, &format!("capture -i n1 --prometheus {CAPTURE}"), "all is open");

    let deadline = Instant::now() + PATIENCE;
    let mut missing = queries();
    assert!(missing.len() >= 10, "{missing:?}");
    while !missing.is_empty() && Instant::now() < deadline {
        echo_over_tcp(&street, 10_000);
        // The node has no route there: a drop with a reason.
        street
            .left
            .run(|| UdpSocket::bind("198.18.0.2:0").unwrap().send_to(b"lost", "198.19.0.1:9").unwrap());
        missing.retain(|query| prometheus.ask(query).is_empty());
    }
    assert!(missing.is_empty(), "no series for {missing:#?}; targets: {:?}", prometheus.ask("up"));
    let frames = prometheus.ask("sum(weir_capture_frames_total)");
    let frames: f64 = frames[0]["value"][1].as_str().and_then(|text| text.parse().ok()).expect("a number");
    assert!(frames > 10.0, "{frames}");
    node.end();
}
