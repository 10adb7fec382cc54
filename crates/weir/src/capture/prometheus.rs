//! The counters of a capture in Prometheus' text format.

use weir_capture::mix::{Mix, PROTOCOLS};
use weir_capture::session::{QueueView, View};

use weir_service::prometheus::{metric, quoted};

pub(super) fn page(view: &View) -> String {
    let queues =
        |value: fn(&QueueView) -> u64| view.queues.iter().map(move |queue| (place(queue), value(queue)));
    let drops = view.queues.iter().flat_map(|queue| {
        let of_kernel = queue.reading.account.drops.iter().map(|drops| (drops.name, drops.frames));
        let all = of_kernel.chain([("disk too slow", queue.reading.slow)]);
        all.map(|(name, frames)| (format!("{},place=\"{}\"", place(queue), quoted(name)), frames))
    });
    let protocols = PROTOCOLS.iter().enumerate().map(|(n, protocol)| {
        let frames = view.queues.iter().map(|queue| queue.reading.mix.protocols[n]).sum();
        (format!("protocol=\"{protocol}\""), frames)
    });
    let mut mix = Mix::default();
    view.queues.iter().for_each(|queue| mix.add(&queue.reading.mix));
    let not_ip = mix.not_ip().map(|(unread, frames)| {
        (format!("protocol=\"{}\",reason=\"{}\"", unread.ether_type(), unread.reason()), frames)
    });
    let one = |value| [(String::new(), value)].into_iter();
    let mut page = String::new();
    metric(&mut page, "capture_frames_total", "Frames captured", queues(|queue| queue.reading.frames));
    metric(
        &mut page,
        "capture_bytes_total",
        "Bytes captured, as on the wire without FCS",
        queues(|queue| queue.reading.bytes),
    );
    metric(&mut page, "capture_drops_total", "Frames lost, by place", drops);
    metric(&mut page, "capture_protocol_frames_total", "Frames captured, by protocol", protocols);
    metric(
        &mut page,
        "capture_not_ip_frames_total",
        "Frames captured without a readable IP packet, by EtherType",
        not_ip,
    );
    metric(
        &mut page,
        "capture_offered_frames_total",
        "Frames that the interfaces received",
        one(view.offered),
    );
    if let Some(written) = view.written {
        metric(&mut page, "capture_written_frames_total", "Packets in files", one(written.frames));
        metric(&mut page, "capture_written_bytes_total", "Bytes in files", one(written.bytes));
        metric(&mut page, "capture_files_total", "Files begun", one(written.files));
    }
    page
}

fn place(queue: &QueueView) -> String {
    format!("interface=\"{}\",queue=\"{}\"", quoted(&queue.interface), queue.number)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use weir_capture::session::{Reading, WrittenSoFar};
    use weir_port::capture::{Account, Drops};

    use super::*;
    use weir_service::prometheus::Server;

    fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scraper_gets_the_counters() {
        let account = Account { drops: vec![Drops { name: "ring full", frames: 3 }], ..Account::default() };
        let reading = Reading { frames: 7, bytes: 420, slow: 1, account, ..Reading::default() };
        let queue = QueueView {
            interface: "a\"b".into(),
            number: 0,
            reading,
            frames_per_s: 0.0,
            bits_per_s: 0.0,
            drops_per_s: 0.0,
        };
        let written = Some(WrittenSoFar { frames: 6, bytes: 999, files: 1 });
        let view = View {
            elapsed: Duration::from_secs(1),
            queues: vec![queue],
            written,
            waiting: false,
            offered: 10,
            notes: Vec::new(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::start(listener).unwrap();
        server.publish(page(&view));
        let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        for line in [
            "weir_capture_frames_total{interface=\"a\\\"b\",queue=\"0\"} 7",
            "weir_capture_drops_total{interface=\"a\\\"b\",queue=\"0\",place=\"ring full\"} 3",
            "weir_capture_drops_total{interface=\"a\\\"b\",queue=\"0\",place=\"disk too slow\"} 1",
            "weir_capture_offered_frames_total 10",
            "weir_capture_written_bytes_total 999",
            "# TYPE weir_capture_bytes_total counter",
        ] {
            assert!(answer.lines().any(|found| found == line), "{line} in {answer}");
        }
        assert!(ask(address, "GET /x HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404"));
    }
}
