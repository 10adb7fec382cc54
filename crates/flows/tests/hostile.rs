//! Hostile peers: a load ends with the reason, a server continues for the others.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_flows::{FlowsError, Group, Load, Observe, Outcome, Server, run};

const CONTROL: &[u8; 8] = b"WEIRctl1";
const READY: &str = "{\"ready\":{\"backlog\":128,\"descriptors\":1000,\"receive_buffer\":1000000}}\n";
const CONNECTED: &str = "{\"connected\":{\"missing\":[]}}\n";

/// One flow, for a second at most.
fn load(to: SocketAddr) -> Load {
    let group = Group { flows: 1, cc: None, from: None, start: Duration::ZERO };
    let (duration, interval) = (Duration::from_secs(1), Duration::from_millis(100));
    let grace = Duration::from_millis(100);
    Load { to, groups: vec![group], duration, interval, grace, reset: false, iperf3: false, rate: None }
}

fn send(load: &Load, stop: &AtomicBool) -> Result<Outcome, FlowsError> {
    run(load, Observe { stop, see: &mut |_| {} })
}

/// A server that does this with the control connection, and keeps flows without reading them.
fn server(behaviour: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut behaviour, mut flows) = (Some(behaviour), Vec::new());
        for stream in listener.incoming() {
            let (mut stream, mut word) = (stream.unwrap(), [0; 8]);
            match stream.read_exact(&mut word) {
                Ok(()) if word == *CONTROL => {
                    let behaviour = behaviour.take().expect("one control connection");
                    // The client hangs up: that is no mistake of the test.
                    thread::spawn(move || drop(behaviour(stream)));
                }
                _ => flows.push(stream),
            }
        }
    });
    at
}

/// Waits for the client to hang up.
fn hold(mut stream: TcpStream) -> io::Result<()> {
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

fn forever(mut stream: TcpStream, first: &[&str], rest: &str) -> io::Result<()> {
    first.iter().try_for_each(|line| stream.write_all(line.as_bytes()))?;
    loop {
        stream.write_all(rest.as_bytes())?;
    }
}

/// The load ends with this message.
fn check(message: &str, behaviour: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static) {
    let error = send(&load(server(behaviour)), &AtomicBool::new(false)).expect_err(message).to_string();
    assert!(error.contains(message), "{message}: {error}");
}

#[test]
fn servers_of_all_kinds_end_a_load() {
    const INTERVAL: &str = "{\"interval\":{\"number\":0,\"from_ns\":0,\"to_ns\":1,\"bytes\":[1]}}\n";
    // At the same time: some wait for their limit.
    thread::scope(|scope| {
        scope.spawn(|| check("nothing arrived on the control connection for 10 s", hold));
        scope.spawn(|| {
            // A byte now and then is no answer.
            check("nothing arrived on the control connection for 10 s", |mut stream| {
                loop {
                    stream.write_all(b" ")?;
                    thread::sleep(Duration::from_millis(50));
                }
            });
        });
        scope
            .spawn(|| check("unexpected answer `xxxxxxxx", |stream| forever(stream, &[], &"x".repeat(1000))));
        scope.spawn(|| check("unexpected answer `SSH-2.0", |stream| forever(stream, &[], "SSH-2.0-x\r\n")));
        scope.spawn(|| {
            // What was read before it is closed ends by FIN.
            check("closed the control connection", |mut stream| stream.read(&mut [0; 4096]).map(drop))
        });
        scope.spawn(|| check("unexpected answer", |stream| forever(stream, &[READY], READY)));
        scope.spawn(|| {
            check("1 flows did not connect", |stream| {
                forever(stream, &[READY], "{\"connected\":{\"missing\":[4294967295]}}\n")
            });
        });
        scope.spawn(|| {
            check("counts of 3 flows, not of 1", |stream| {
                forever(stream, &[READY, CONNECTED], &INTERVAL.replace("[1]", "[1,2,3]"))
            });
        });
        scope.spawn(|| {
            check("more than 12 intervals", |stream| forever(stream, &[READY, CONNECTED], INTERVAL))
        });
    });
}

#[test]
fn counts_that_cannot_be_are_added_up_without_overflow() {
    let all = u64::MAX;
    let end = format!(
        "{{\"end\":{{\"window_ns\":{all},\"bytes\":[{all}],\"late\":[{all}],\"closed\":[true],\"first_ns\":[null]}}}}\n"
    );
    let at = server(move |mut stream| {
        [READY, CONNECTED, &end].iter().try_for_each(|line| stream.write_all(line.as_bytes()))?;
        hold(stream)
    });
    let outcome = send(&load(at), &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome.flows[0].received_bytes, u64::MAX);
    assert_eq!(outcome.incomplete, [0], "what arrived is not what was sent");
}

#[test]
fn a_load_that_waits_for_a_silent_server_can_be_interrupted() {
    let stop = AtomicBool::new(false);
    let at = server(hold);
    let load = load(at);
    thread::scope(|scope| {
        let running = scope.spawn(|| send(&load, &stop).expect_err("interrupted"));
        stop.store(true, Ordering::Relaxed);
        assert!(running.join().unwrap().to_string().contains("interrupted"));
    });
}

#[test]
fn who_says_nothing_is_hung_up_on_and_others_are_served() {
    let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut silent: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for (n, stream) in silent.iter_mut().enumerate() {
        // Nothing; a word without an order; half an order.
        let said: &[u8] = [&b""[..], CONTROL, b"WEIRctl1{\"hello\":{\"test\":1,"][n % 3];
        stream.write_all(said).unwrap();
    }
    for mut stream in silent {
        // By FIN, or by RST where it was not read.
        let end = stream.read(&mut [0; 64]);
        assert!(matches!(&end, Ok(0)) || end.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset));
    }
    let outcome = send(&load(server.address()), &AtomicBool::new(false)).unwrap();
    assert!(outcome.flows[0].received_bytes > 0, "{outcome:?}");
}

/// The order comes before the flows begin; a flow that sends nothing has no first byte.
#[test]
fn a_server_says_which_flows_have_begun() {
    let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let connect = || TcpStream::connect(server.address()).unwrap();
    let mut control = connect();
    let hello =
        "{\"hello\":{\"test\":7,\"flows\":2,\"duration_ms\":100,\"interval_ms\":100,\"grace_ms\":10000}}\n";
    control.write_all(&[CONTROL, hello.as_bytes()].concat()).unwrap();
    let mut lines = BufReader::new(control.try_clone().unwrap()).lines().map(|line| line.unwrap());
    assert!(lines.next().unwrap().contains("ready"));
    let header = |flow: u32| [&b"WEIRflo1"[..], &7_u64.to_be_bytes(), &flow.to_be_bytes()].concat();
    let mut flows = [connect(), connect()];
    (0..).zip(&mut flows).for_each(|(number, flow)| flow.write_all(&header(number)).unwrap());
    assert_eq!(lines.next().unwrap(), CONNECTED.trim());
    control.write_all(b"{\"start\":{\"after_us\":1000}}\n").unwrap();
    flows[1].write_all(b"content").unwrap();
    flows.iter().for_each(|flow| flow.shutdown(Shutdown::Write).unwrap());
    assert!(lines.next().unwrap().contains("\"from_ns\":0,"));
    let end: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let first = &end["end"]["first_ns"];
    assert!(first[0].is_null() && first[1].is_i64(), "{end}");
    assert_eq!(end["end"]["closed"], serde_json::json!([true, true]));
}

#[test]
fn a_server_says_its_last_word_before_it_hangs_up() {
    let server = Server::start("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut client = TcpStream::connect(server.address()).unwrap();
    client.write_all(CONTROL).unwrap();
    let none = "{\"hello\":{\"test\":1,\"flows\":0,\"duration_ms\":1,\"interval_ms\":10,\"grace_ms\":0}}\n";
    client.write_all(none.as_bytes()).unwrap();
    let mut said = String::new();
    // A reset would be an error, and discards what is still under way.
    client.read_to_string(&mut said).unwrap();
    assert!(said.contains("refused"), "{said}");
}
