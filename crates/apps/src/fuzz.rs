//! Parsers of untrusted bytes, for fuzz targets: a server with any request, a client with any reply.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::client::fuzz as client;
use crate::server::fuzz::{Dialogue, Next};
use crate::server::{Closing, Reply};

/// Bytes that a socket accepts without a reader.
const MOST: usize = 16 * 1024;
/// Bytes of the longest request.
const LONGEST: usize = 4096;

/// A server that receives this in two parts answers as it does to the whole.
pub fn request(input: &[u8]) {
    let input = input.get(..MOST).unwrap_or(input);
    for (reply, _) in Reply::ALL {
        for closing in [Closing::AfterReply, Closing::AfterClient] {
            let whole = answers(reply, closing, &[input]);
            let halves = input.split_at(input.len() / 2);
            let parts = answers(reply, closing, &[halves.0, halves.1]);
            // The first part may be a request by itself; what is longer than any is read as far as it comes at once.
            let comparable = !reply.is_whole(halves.0) && input.len() <= LONGEST;
            assert!(!comparable || whole.len() == parts.len(), "{reply:?}: {whole:?}, {parts:?}");
        }
    }
}

/// What a server says to these parts; the client then ends.
fn answers(reply: Reply, closing: Closing, parts: &[&[u8]]) -> Vec<u8> {
    let (mut client, server) = UnixStream::pair().expect("a pair of sockets");
    server.set_nonblocking(true).expect("a socket");
    let mut dialogue = Dialogue::of(reply, closing);
    let mut next = dialogue.advance(server.as_fd());
    for part in parts {
        // A server that has ended hears no more.
        let _ = client.write_all(part);
        if next != Next::End {
            next = dialogue.advance(server.as_fd());
        }
    }
    let _ = client.shutdown(Shutdown::Write);
    while next == Next::Readable {
        next = dialogue.advance(server.as_fd());
    }
    assert_eq!(next, Next::End, "the client has ended");
    drop(server);
    let mut said = Vec::new();
    // What the server left unread makes the end an error.
    let _ = client.read_to_end(&mut said);
    said
}

/// A client hears this and the end, and says what that was.
pub fn reply(input: &[u8]) {
    let input = input.get(..MOST).unwrap_or(input);
    for (reply, _) in Reply::ALL {
        let (mut server, socket) = UnixStream::pair().expect("a pair of sockets");
        socket.set_nonblocking(true).expect("a socket");
        let mut flight = client::Flight::new(socket.into(), Duration::ZERO, Duration::ZERO);
        let (first, rest) = input.split_at(input.len() / 2);
        let _ = server.write_all(first);
        let news = flight.read(reply, false);
        assert!(matches!(news, client::News::None | client::News::Reply), "it goes on: {news:?}");
        let _ = server.write_all(rest);
        drop(server);
        let news = flight.read(reply, true);
        assert!(matches!(news, client::News::End | client::News::Failed(_)), "it has ended: {news:?}");
    }
}
