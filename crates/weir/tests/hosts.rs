//! What hosts say to each other, and what their stacks know of the path between them.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

use weir_linux::namespace::Namespace;
use weir_testkit::{PATIENCE, accept, be_patient};

/// Bytes that do not occur by chance.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Address and port, as programs write them.
pub(crate) fn at(host: &str, port: u16) -> String {
    SocketAddr::from((host.parse::<IpAddr>().unwrap(), port)).to_string()
}

pub(crate) fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) {
    // SAFETY: an open socket, and a value that lives through the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), 4) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// How long packets to a host may be, as far as the stack knows.
pub(crate) fn path_mtu(host: &Namespace, target: SocketAddr) -> u32 {
    let any: IpAddr = if target.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = host.run(|| UdpSocket::bind((any, 0)).unwrap());
    socket.connect(target).unwrap();
    let (level, option) = match target {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let (mut mtu, mut bytes) = (0_u32, 4);
    // SAFETY: an open socket; both pointers are of values that live through the call.
    let reported =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut mtu).cast(), &raw mut bytes) };
    assert_eq!(reported, 0, "{}", std::io::Error::last_os_error());
    mtu
}

/// A long transfer to the remote end, whose segments are too long at first. It has to arrive, and the stack to know why.
pub(crate) fn find_path_mtu(
    host: &Namespace,
    remote: &Namespace,
    (served, target): (&str, &str),
    expected: u32,
) {
    let target: SocketAddr = target.parse().unwrap();
    assert_eq!(path_mtu(host, target), 1500, "{target} is not known yet");
    let listener = remote.run(|| TcpListener::bind(served).unwrap());
    let sent = pattern(1_000_000);
    let mut client = host.run(|| TcpStream::connect_timeout(&target, PATIENCE).unwrap());
    be_patient(&client);
    let (mut stream, _) = accept(&listener);
    let mut came = vec![];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&sent).unwrap();
            drop(client);
        });
        stream.read_to_end(&mut came).unwrap_or_else(|error| panic!("{target}: {error}"));
    });
    assert!(came == sent, "{target}: {} of {} bytes, or others", came.len(), sent.len());
    assert_eq!(path_mtu(host, target), expected, "{target}");
}
