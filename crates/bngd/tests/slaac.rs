//! The kernel as a device: it takes the prefix of a router advertisement, makes its address and its default route of it, and reaches
//! the far end through the node.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_bng::Mac;
use weir_testkit::PATIENCE;

use crate::pppoe::{FAR6, Wire, dual_stack, packet6_of, with};
use crate::restart::Rig;

/// That of the interface `a`.
const KERNEL: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Sends datagrams until one comes back.
fn exchange(wire: &mut Wire) -> Ipv6Addr {
    let far = SocketAddr::from((FAR6, 7));
    let deadline = Instant::now() + PATIENCE;
    let socket = UdpSocket::bind("[::]:7").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
    loop {
        assert!(Instant::now() < deadline, "nothing has come back");
        // There is no route before the advertisement.
        let _ = socket.send_to(&[1, 2, 3, 4, 5, 6, 7, 8], far);
        for frame in wire.receive() {
            let packet =
                frame.get(14..54).filter(|packet| packet[6] == 17 && packet[24..40] == FAR6.octets());
            let Some(packet) = packet else { continue };
            let source: [u8; 16] = packet[8..24].try_into().expect("sixteen bytes");
            let answer = packet6_of(FAR6, source.into());
            wire.send(&[&frame[6..12], &frame[..6], &[0x86, 0xdd], &*answer].concat());
        }
        let mut buffer = [0; 64];
        if let Ok((_, from)) = socket.recv_from(&mut buffer)
            && from == far
        {
            let own = UdpSocket::bind("[::]:0").and_then(|socket| socket.connect(far).map(|()| socket));
            let SocketAddr::V6(own) = own.and_then(|socket| socket.local_addr()).expect("a route") else {
                panic!("IPv6");
            };
            return *own.ip();
        }
    }
}

#[test]
fn the_kernel_makes_its_address_and_its_route_of_an_advertisement() {
    let Some(rig) = Rig::of(&dual_stack("pppoe")) else { return };
    rig.add_subscriber(&format!(r#"{{"name": "kernel", "mac": "{KERNEL}", "plan": "basic"}}"#));
    let set = |name: &str, value: &str| {
        rig.devices.run(|| std::fs::write(format!("/proc/sys/net/ipv6/conf/a/{name}"), value))
    };
    for (name, value) in [("disable_ipv6", "0"), ("accept_ra", "1"), ("dad_transmits", "0")] {
        set(name, value).expect("a kernel with IPv6");
    }
    let own = with(&rig, || {
        let (mut access, mut far) = (Wire::open("a"), Wire::open("c"));
        let request = weir_bng::scenario::frame(&format!("request {KERNEL} want 100.64.0.9"), 0);
        access.send(&request.expect("a request"));
        exchange(&mut far)
    });
    let session = rig.agree("the kernel is online").remove(0);
    let prefix = session.prefix.expect("a prefix");
    let network = prefix.strip_suffix("::/64").expect("a /64");
    assert!(own.to_string().starts_with(network), "{own} is made of {prefix}");
}
