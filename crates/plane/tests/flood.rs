//! A flood of one subscriber beside the traffic of another one.

use weir_packet::checksum::write_ipv4;
use weir_plane::{PortId, PuntReason, SubscriberCommand, UnknownSessions, Verdict};
use weir_testkit::Dice;

use crate::sessions::{ANNA, BEN, Line, Node, WAN, hop, ip, solicitation};

/// A packet as a fragment with any number: the first one, or one of the middle.
fn fragment(mut packet: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    let number = dice.roll(65_536) as u16;
    packet[4..6].copy_from_slice(&number.to_be_bytes());
    let more_and_offset = 0x2000 | (dice.roll(2) as u16 * 185);
    packet[6..8].copy_from_slice(&more_and_offset.to_be_bytes());
    write_ipv4(&mut packet[..20]);
    packet
}

/// What one customer floods the node with (SYN, spoofed sources, fragments, unknown sessions and devices, PADI, RS, ARP), while another one sends and receives: that one loses nothing.
#[test]
fn a_flood_of_one_subscriber_takes_nothing_from_another() {
    let mut node = Node::with_two();
    node.command(SubscriberCommand::UnknownSessions(UnknownSessions::Terminate)).expect("done");
    let (up, down) = (ip("udp 100.64.0.3:1 > 198.51.100.9:53"), ip("udp 198.51.100.9:53 > 100.64.0.3:1"));
    let mut dice = Dice::new(7);
    let packets = [
        "tcp 100.64.0.2:1 > 198.51.100.9:80 S",
        "udp 100.64.0.9:1 > 198.51.100.9:53",
        "udp 100.64.0.2:1 > 100.64.0.1:53",
        "icmp 133/0 [fe80::5] > [ff02::2]",
    ]
    .map(ip);
    for round in 0..300 {
        for _ in 0..30 {
            let line = Line(0, [0, 0], dice.roll(250) as u8, dice.roll(65_536) as u16);
            let frame = match dice.roll(9) {
                8 => ANNA.up(&fragment(packets[0].clone(), &mut dice)),
                0 => line.frame(line.own(), line.mac(), &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]),
                1 => line.frame([0xff; 6], line.mac(), &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]),
                2 => line.frame(line.own(), line.mac(), &line.ppp(0xc021, &[9, 1, 0, 8, 0, 0, 0, 0])),
                3 => ANNA.frame(ANNA.own(), ANNA.mac(), &ANNA.ppp(0xc021, &[9, 1, 0, 8, 0, 0, 0, 0])),
                4 => [
                    &[0xff; 6],
                    &line.mac()[..],
                    &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
                    &[dice.roll(256) as u8; 20],
                ]
                .concat(),
                5 => line.up(&packets[dice.roll(4)]),
                6 => solicitation(ANNA, "fe80::7", "2001:db8:100::1"),
                _ => ANNA.up(&packets[dice.roll(4)]),
            };
            node.frame(0, &frame);
        }
        node.departures();
        assert_eq!(node.up(BEN, &up).0, Verdict::Out(PortId(WAN)), "round {round}");
        assert_eq!(node.inward(&down).1, BEN.down(&hop(down.clone())), "round {round}");
        let discovery = BEN.frame([0xff; 6], BEN.mac(), &[0x88, 0x63, 0x11, 9, 0, 0, 0, 0]);
        if round % 30 == 0 {
            assert_eq!(
                node.frame(1, &discovery).0,
                Verdict::Control(PuntReason::PppoeDiscovery),
                "round {round}"
            );
            let terminate = BEN.frame(BEN.own(), BEN.mac(), &BEN.ppp(0xc021, &[5, 1, 0, 4]));
            assert_eq!(
                node.frame(1, &terminate).0,
                Verdict::Control(PuntReason::PppControl),
                "round {round}"
            );
        }
    }
}
