//! The archive in a browser: pages by HTTP, tokens, and Chromium where it is installed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use weir_record::store::Archive;
use weir_testkit::{Started, output};

use super::bed::{Bed, small_run};

const ARCHIVE: &str = env!("CARGO_BIN_EXE_weir-archive");

/// Pages of an archive, until it is dropped.
pub(crate) struct Pages {
    _server: Started,
    address: String,
}

impl Pages {
    pub(crate) fn start(url: &str, more: &[&str]) -> Pages {
        Pages::of(Path::new(ARCHIVE), url, more)
    }

    fn of(program: &Path, url: &str, more: &[&str]) -> Pages {
        let mut command = Command::new(program);
        command.args(["serve", "--from", url, "--listen", "127.0.0.1:0"]).args(more);
        let mut server = Started::new(command);
        let line = server.line();
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_string();
        Pages { _server: server, address }
    }

    /// The answer to a request: its status and all of its text.
    fn ask(&self, method: &str, path: &str, more: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        weir_testkit::be_patient(&stream);
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n{more}\r\n")
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it answers");
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, text)
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let (status, text) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {text}");
        text
    }
}

/// Two runs of one plan and one of another, which has letters that HTML and URLs need.
fn filled() -> Option<Bed> {
    let bed = Bed::new()?;
    let archive = bed.archive();
    for plan in ["quick", "quick", "a & <b>"] {
        let mut data = small_run();
        data.run.plan = plan.into();
        archive.put(&data).expect("stored");
    }
    Some(bed)
}

#[test]
fn runs_are_listed_filtered_shown_and_compared() {
    let Some(bed) = filled() else { return };
    let pages = Pages::start(&bed.url, &[]);
    let list = pages.get("/");
    for part in
        ["href=\"/runs/1\"", "href=\"/runs/3\"", "a &amp; &lt;b&gt;", "href=\"/?plan=a%20%26%20%3Cb%3E\""]
    {
        assert!(list.contains(part), "{part}: {list}");
    }
    let filtered = pages.get("/?plan=a%20%26%20%3Cb%3E&host=&kernel=&version=");
    assert!(filtered.contains("/runs/3") && !filtered.contains("/runs/1"), "{filtered}");
    assert!(pages.get("/?plan=no").contains("No run matches."));
    assert!(pages.get("/trend?plan=quick").contains("weir: trend of quick"));
    for (method, path, status) in [
        ("GET", "/runs/9", 404),
        ("GET", "/trend?plan=no", 404),
        ("GET", "/runs/x", 400),
        ("GET", "/other", 404),
        ("POST", "/", 405),
        ("DELETE", "/runs/1", 405),
    ] {
        assert_eq!(pages.ask(method, path, "").0, status, "{method} {path}");
    }
}

/// Is the program there that draws reports?
fn has_weir() -> bool {
    let is_there = Path::new(ARCHIVE).with_file_name("weir").exists();
    if !is_there {
        println!("skipped: weir is not built (cargo build -p weir)");
    }
    is_there
}

#[test]
fn weir_draws_reports_and_comparisons() {
    if !has_weir() {
        return;
    }
    let Some(bed) = filled() else { return };
    let pages = Pages::start(&bed.url, &[]);
    assert!(pages.get("/runs/1").contains("<title>weir: quick, run 1</title>"));
    assert!(pages.get("/compare?base=1&run=2").contains("Run 2 against run 1"));
}

#[test]
fn a_missing_program_is_named_in_place_of_a_report() {
    let Some(bed) = filled() else { return };
    // In the folder of the target: a hard link cannot lead to another file system.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alone");
    std::fs::create_dir_all(&folder).expect("room");
    let alone = folder.join("weir-archive");
    let _ = std::fs::remove_file(&alone);
    std::fs::hard_link(ARCHIVE, &alone).expect("the same file system");
    let pages = Pages::of(&alone, &bed.url, &[]);
    let (status, text) = pages.ask("GET", "/runs/1", "");
    assert!(status == 500 && text.contains("install `weir` beside `weir-archive`"), "{text}");
}

#[test]
fn each_filter_leaves_the_runs_that_have_its_value() {
    let Some(bed) = Bed::new() else { return };
    let archive = bed.archive();
    let rows = [
        ("quick", "lab1", "6.1.0 #1", "0.1.0"),
        ("quick", "lab2", "6.12.0 #1", "0.1.0"),
        ("router", "lab2", "6.1.0 #1", "0.2.0"),
    ];
    for (plan, host, kernel, version) in rows {
        let mut data = small_run();
        (data.run.plan, data.run.version) = (plan.into(), version.into());
        (data.run.machine.host, data.run.machine.kernel) = (host.into(), kernel.into());
        archive.put(&data).expect("stored");
    }
    let pages = Pages::start(&bed.url, &[]);
    for (query, expected) in [
        ("plan=quick", &[1, 2][..]),
        ("host=lab2", &[2, 3]),
        ("kernel=6.1.0", &[1, 3]),
        ("version=0.2.0", &[3]),
        ("host=lab2&plan=quick", &[2]),
        ("host=lab2&kernel=6.1.0&plan=quick", &[]),
        ("before=3", &[1, 2]),
    ] {
        let page = pages.get(&format!("/?{query}"));
        let shown: Vec<i32> = (1..=3).filter(|id| page.contains(&format!("href=\"/runs/{id}\""))).collect();
        assert_eq!(shown, expected, "{query}");
    }
    let page = pages.get("/?kernel=6.1.0");
    assert!(page.contains("<option selected>6.1.0</option>") && page.contains("<option>6.12.0</option>"));
    assert_eq!(pages.ask("GET", "/?colour=red", "").0, 400, "an unknown filter is a mistake");
}

#[test]
fn a_server_that_goes_away_is_named_and_pages_return_with_it() {
    let Some(mut bed) = filled() else { return };
    let pages = Pages::start(&bed.url, &[]);
    assert!(pages.get("/").contains("/runs/3"));
    bed.postgres.kill();
    let (status, text) = pages.ask("GET", "/", "");
    assert_eq!(status, 502);
    assert!(text.contains("The archive does not answer") && text.contains("try again"), "{text}");
    bed.postgres.restart();
    assert!(pages.get("/").contains("/runs/3"));
}

#[test]
fn a_token_is_asked_for() {
    let Some(bed) = filled() else { return };
    let tokens = bed.folder.file("tokens", "0123456789abcdef\n");
    let pages = Pages::start(&bed.url, &["--tokens", tokens.to_str().expect("a plain path")]);
    for path in ["/", "/runs/1", "/compare?base=1&run=2", "/trend?plan=quick"] {
        let (status, text) = pages.ask("GET", path, "");
        assert!(status == 401 && !text.contains("quick"), "{path}: {text}");
    }
    assert_eq!(pages.ask("GET", "/", "Authorization: Bearer 0123456789abcdef\r\n").0, 200);
    assert_eq!(pages.ask("GET", "/", "Cookie: weir_token=0123456789abcdef\r\n").0, 200);
    let login = |token: &str| {
        let body = format!("token={token}");
        let head =
            format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
        pages.ask("POST", "/login", &format!("{head}\r\n{body}"))
    };
    assert_eq!(login("wrong").0, 401);
    let (status, text) = login("0123456789abcdef");
    assert!(
        status == 303 && text.contains("set-cookie: weir_token=0123456789abcdef; Path=/; HttpOnly"),
        "{text}"
    );
    let mut open = Command::new(ARCHIVE);
    open.args(["serve", "--from", &bed.url, "--listen", "0.0.0.0:0"]);
    let refused = output(&mut open).expect("it starts");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("give a file of tokens with --tokens"),
        "{refused:?}"
    );
}

#[test]
fn a_browser_shows_the_pages_without_complaints() {
    let Some(bed) = filled() else { return };
    let chromium =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser"].into_iter().find(|path| Path::new(path).exists());
    let Some(chromium) = chromium else { return println!("skipped: chromium is not installed") };
    if !has_weir() {
        return;
    }
    let pages = Pages::start(&bed.url, &[]);
    for (path, part) in [
        ("/", "Choose a base and a run"),
        ("/runs/1", "<svg"),
        ("/compare?base=1&run=2", "Run 2 against run 1"),
        ("/trend?plan=quick", "trend of quick"),
    ] {
        let browse = |what: &str| {
            let mut command = Command::new(chromium);
            command
                .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
                .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
                .arg(format!("--user-data-dir={}", bed.folder.join("chromium").display()))
                .args(["--enable-logging=stderr", "--window-size=1000,800", what])
                .arg(format!("http://{}{path}", pages.address));
            output(&mut command).expect("chromium starts")
        };
        let shown = browse("--dump-dom");
        let (page, log) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
        assert!(page.contains(part), "{path}: {page} {log}");
        assert!(!log.contains("CONSOLE"), "{path}: {log}");
        let file = bed.folder.join("page.png");
        let shown = browse(&format!("--screenshot={}", file.display()));
        let image = std::fs::read(&file).unwrap_or_default();
        assert!(is_drawn(&image), "{path}: a picture of {} bytes: {shown:?}", image.len());
        std::fs::remove_file(&file).expect("it is ours");
    }
}

/// Is it a PNG of 1000 x 800 points that shows something? A white page of this size has some 3 kB.
fn is_drawn(image: &[u8]) -> bool {
    let size = image.get(16..24).unwrap_or_default();
    image.starts_with(b"\x89PNG") && size == [0, 0, 3, 232, 0, 0, 3, 32] && image.len() > 10_000
}
