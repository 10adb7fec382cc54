//! What other ends of TCP load, of mail and of applications say, and texts of /proc.

use super::of_texts;

/// A mail server.
pub(super) fn mail(input: &[u8]) {
    weir_mail::fuzz::replies(input);
}

pub(super) fn mail_seeds() -> Vec<Vec<u8>> {
    const HELLO: &str = "220 mx\r\n250-mx\r\n250-PIPELINING\r\n250 STARTTLS\r\n";
    let ok = "250 ok\r\n".repeat(12);
    let texts = [
        format!("\u{1}{HELLO}{ok}221 bye\r\n"),
        format!("\u{0}220 mx\r\n500 what?\r\n{ok}221 bye\r\n"),
        format!("\u{5}{HELLO}220 go\r\n250-mx\r\n250 PIPELINING\r\n{ok}421 closing\r\n"),
        format!("\u{3}{HELLO}250 ok\r\n250 ok\r\n550 no\r\n354 go\r\n250 taken\r\n{ok}"),
        format!("\u{2}220 mx\r\n250 mx\r\n450 later\r\n{ok}554 no\r\n{ok}"),
    ];
    of_texts(texts)
}

/// A client of the receivers of mail.
pub(super) fn sink(input: &[u8]) {
    weir_mail::fuzz::commands(input);
}

pub(super) fn sink_seeds() -> Vec<Vec<u8>> {
    of_texts([
        "\u{4}EHLO x\r\nMAIL FROM:<a>\r\nRCPT TO:<b>\r\nRSET\r\nQUIT\r\n",
        "\u{1}EHLO x\r\nSTARTTLS\r\nEHLO x\r\nMAIL FROM:<a>\r\nRCPT TO:<b>\r\nDATA\r\ntext\r\n..\r\n.\r\nNOOP\r\n",
        "\u{12}HELO x\r\nMAIL FROM:<a>\r\nRCPT TO:<b>\r\nRCPT TO:<c>\r\nDATA\r\n.\r\nquit\r\n",
    ])
}

/// A query to the name server, and an answer to the resolver.
pub(super) fn dns(input: &[u8]) {
    weir_mail::fuzz::query(input);
    weir_mail::fuzz::answer(input);
}

pub(super) fn dns_seeds() -> Vec<Vec<u8>> {
    weir_mail::fuzz::messages()
}

/// An outcome log of mail.
pub(super) fn outcomes(input: &[u8]) {
    weir_mail::fuzz::outcomes(input);
}

pub(super) fn outcomes_seeds() -> Vec<Vec<u8>> {
    vec![weir_mail::fuzz::lines()]
}

/// A client of the servers, and a server of the client.
pub(super) fn apps(input: &[u8]) {
    weir_apps::fuzz::request(input);
    weir_apps::fuzz::reply(input);
}

pub(super) fn apps_seeds() -> Vec<Vec<u8>> {
    of_texts([
        "the quick brown fox jumps over the lazy dog, and back again\n",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        "450 too busy\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\nHello, world!",
    ])
}

/// The control connection of a TCP load, from both sides.
pub(super) fn flows(input: &[u8]) {
    weir_flows::fuzz::orders(input);
    weir_flows::fuzz::answers(input);
}

pub(super) fn flows_seeds() -> Vec<Vec<u8>> {
    of_texts([
        "{\"hello\":{\"test\":7,\"flows\":2,\"duration_ms\":1000,\"interval_ms\":100,\"grace_ms\":50}}\n{\"start\":{\"after_us\":20000}}\n",
        "{\"interval\":{\"number\":0,\"from_ns\":0,\"to_ns\":1000000000,\"bytes\":[1,2]}}\n\
         {\"end\":{\"window_ns\":1000000000,\"bytes\":[1,2],\"late\":[0,3],\"closed\":[true,false],\"first_ns\":[5,null]}}\n",
        "{\"refused\":\"no\"}\n",
        "{\"ready\":{\"backlog\":4096,\"descriptors\":1000,\"receive_buffer\":6291456}}\n{\"connected\":{\"missing\":[1]}}\n",
    ])
}

/// Texts of /proc that say how a server is built.
pub(super) fn proc(input: &[u8]) {
    weir_inspect::fuzz::proc(input);
}

pub(super) fn proc_seeds() -> Vec<Vec<u8>> {
    of_texts([
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n",
        "4711 (a name (with) all) S 1 4711 4711 0 -1 4194560 100 5 0 0 1 2 3 4 20 0 1 0 12345 1000 100\n",
        "232 0x4 0x7f 0x400 0xffffffff 0x0 0x8 0x7ffd 0x7f\nrunning\nsocket:[4711]\n",
    ])
}
