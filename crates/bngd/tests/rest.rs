//! The REST API of a program without a node: subscribers come and go, pages, errors, and what is there after a restart.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use weir_service::http;
use weir_testkit::{Folder, PATIENCE, Watch};

const TEXT: &str = "node access1(access, on packet:b) > access(gateway 100.64.0.1/10) > route(default via 198.18.0.2) > \
                    wan(198.18.0.1/24, on packet:d) \
                    bng(store store, socket bng.sock, pool main 100.64.0.2-100.64.0.9 router 100.64.0.1/10, \
                    plan basic down 20Mbit up 5Mbit)";

struct Program {
    folder: Folder,
    child: Child,
    _watch: Watch,
}

impl Program {
    fn start(folder: Folder) -> Program {
        folder.file("isp.node", TEXT);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bngd"));
        command.arg(folder.join("isp.node")).arg("--node-socket").arg(folder.join("node.sock"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
        let program = Program { folder, _watch: Watch::new(&child), child };
        let deadline = Instant::now() + PATIENCE;
        while http::request(&program.folder.join("bng.sock"), "GET", "/v1/status", Vec::new()).is_err() {
            assert!(Instant::now() < deadline, "it does not answer");
            std::thread::yield_now();
        }
        program
    }

    fn bytes(&self, method: &str, target: &str, body: Vec<u8>) -> (u16, Value) {
        let answer = http::request(&self.folder.join("bng.sock"), method, target, body).expect("an answer");
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    fn get(&self, target: &str) -> Value {
        let (status, answer) = self.bytes("GET", target, Vec::new());
        assert_eq!(status, 200, "{target}: {answer}");
        answer
    }

    /// The status of an answer; that of an error is also in its problem document.
    fn status(&self, method: &str, target: &str, body: &Value) -> u16 {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let (status, answer) = self.bytes(method, target, body);
        if status >= 400 {
            assert_eq!(answer["status"], status, "{method} {target}: {answer}");
            assert!(answer["detail"].as_str().is_some_and(|detail| detail.contains(':')), "{answer}");
        }
        status
    }

    fn end(mut self) -> Folder {
        let folder = std::mem::replace(&mut self.folder, Folder::new());
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ran");
        folder
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn anna() -> Value {
    json!({"name": "anna", "mac": "02:00:00:00:00:01", "plan": "basic"})
}

#[test]
fn subscribers_come_change_and_go() {
    let program = Program::start(Folder::new());
    let own = json!({"down_bits_per_s": 1_000_000, "up_bits_per_s": 500_000});
    for (method, target, body, expected) in [
        ("POST", "/v1/subscribers", anna(), 201),
        ("POST", "/v1/subscribers", anna(), 409),
        ("POST", "/v1/subscribers", json!({"name": "x", "mac": "02:00:00:00:00:01", "plan": "basic"}), 409),
        ("POST", "/v1/subscribers", json!({"name": "x", "mac": "02:00:00:00:00:09", "plan": "gold"}), 422),
        ("POST", "/v1/subscribers", json!({"name": "x", "plan": "basic"}), 400),
        ("POST", "/v1/subscribers", json!({"name": "x", "mac": "02", "plan": "basic"}), 400),
        ("POST", "/v1/subscribers", json!({"nam": "x"}), 400),
        ("POST", "/v1/subscribers", Value::Null, 400),
        ("PUT", "/v1/subscribers/anna", json!({"name": "anna", "line": "access1", "plan": own}), 200),
        ("PUT", "/v1/subscribers/anna", json!({"name": "ben", "line": "access1", "plan": "basic"}), 400),
        (
            "PUT",
            "/v1/subscribers/ben%40isp",
            json!({"name": "ben@isp", "line": "access1:7", "plan": "basic"}),
            201,
        ),
        ("PATCH", "/v1/subscribers/anna", json!({"state": "blocked"}), 200),
        ("PATCH", "/v1/subscribers/anna", json!({"state": "walld"}), 400),
        ("PATCH", "/v1/subscribers/anna", json!({"blocked": true}), 400),
        ("PATCH", "/v1/subscribers/anna", json!({"plan": "gold"}), 422),
        ("PATCH", "/v1/subscribers/carl", json!({"state": "blocked"}), 404),
        ("PATCH", "/v1/subscribers/ben%40isp", json!({"state": "walled", "group": "west"}), 200),
        ("DELETE", "/v1/subscribers/carl", Value::Null, 404),
        ("DELETE", "/v1/sessions/7", Value::Null, 404),
        ("DELETE", "/v1/sessions/anna", Value::Null, 400),
        ("GET", "/v1/why/mac/02", Value::Null, 400),
        ("GET", "/v1/nothing", Value::Null, 404),
        ("POST", "/v1/status", Value::Null, 405),
    ] {
        assert_eq!(program.status(method, target, &body), expected, "{method} {target} {body}");
    }
    let found = program.get("/v1/subscribers");
    assert_eq!((&found["total"], &found["subscribers"][1]["name"]), (&json!(2), &json!("ben@isp")));
    let why = program.get("/v1/why/line/access1");
    assert_eq!((&why["subscriber"], &why["reason"]), (&json!("anna"), &json!("the subscriber is blocked")));
    let status = program.get("/v1/status");
    assert_eq!(status["ready"], false, "{status}");
    // What was answered is there after a crash.
    let program = Program::start(program.end());
    let anna = program.get("/v1/subscribers/anna");
    let expected =
        json!({"name": "anna", "line": "access1", "plan": own, "state": "blocked", "session": null});
    assert_eq!(anna, expected);
    let ben = program.get("/v1/subscribers/ben%40isp");
    assert_eq!(
        (&ben["state"], &ben["group"], &ben["plan"]),
        (&json!("walled"), &json!("west"), &json!("basic"))
    );
    assert_eq!(program.status("DELETE", "/v1/subscribers/anna", &Value::Null), 204);
    assert_eq!(program.get("/v1/pools")["pools"][0]["size"], 8);
}

#[test]
fn sixty_four_thousand_subscribers_come_in_one_request() {
    let program = Program::start(Folder::new());
    let one = |n: u32| json!({"name": format!("s{n:05}"), "line": format!("access1:{}.{}", 1 + n / 4000, 1 + n % 4000), "plan": "basic"});
    let mut all: Vec<Value> = (0..64_000).map(one).collect();
    all[7]["plan"] = json!("gold");
    all[9] = all[8].clone();
    let (status, added) = program.bytes("POST", "/v1/subscribers", serde_json::to_vec(&all).unwrap());
    assert_eq!((status, &added["added"], &added["refused"]), (207, &json!(63_998), &json!(2)), "{added}");
    let places: Vec<_> = added["errors"].as_array().unwrap().iter().map(|error| &error["index"]).collect();
    assert_eq!(places, [7, 9]);
    // Pages have each once, in order.
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = program.get(&format!("/v1/subscribers?most=10000{after}"));
        let some = page["subscribers"].as_array().unwrap().iter();
        names.extend(some.map(|one| one["name"].as_str().unwrap().to_string()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(names.len(), 63_998);
    assert!(names.is_sorted());
}
