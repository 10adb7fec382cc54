//! Clients that misbehave: a server goes on for the others.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use weir_flows::Server;

const CONTROL: &[u8; 8] = b"WEIRctl1";

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
    assert_eq!(server.connected(), 0);
}
