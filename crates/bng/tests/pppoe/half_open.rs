//! Sessions that are being set up: their number and their time are bounded, whatever is sent.

use super::*;

fn world(most: usize, devices: Vec<Device>) -> World {
    World::of(&TEXT.replace("sessions mac 3", &format!("sessions mac 3 half-open {most}")), devices)
}

impl World {
    /// A device dials, and says nothing behind its PADR.
    fn dial_and_fall_silent(&mut self, client: usize) {
        let padi = self.devices[client].client.dial(self.now);
        self.punt(client, &padi);
        for _ in 0..2 {
            while let Some(frame) = self.frames.pop_front() {
                let is_discovery = |bytes: &[u8]| bytes.get(12..14) == Some(&[0x88, 0x63]);
                match &frame {
                    Frame::FromClient(_, bytes) | Frame::ToClient(_, bytes) if !is_discovery(bytes) => {}
                    _ => self.deliver(frame),
                }
            }
        }
    }
}

/// Table 1.3, row 14.
#[test]
fn row_14_the_limit_of_sessions_that_are_set_up_is_counted_and_named_and_ends_with_them() {
    let mut world = world(2, vec![anna(), device(2, "ben@isp", "other"), device(3, "anna@isp", "secret")]);
    (0..2).for_each(|client| world.dial_and_fall_silent(client));
    assert_eq!((world.bng.calls(), world.bng.half_open_calls()), (2, 2));
    world.dial_and_fall_silent(2);
    assert_eq!((world.bng.calls(), world.drops(DropReason::PppoeHalfOpen)), (2, 1));
    let why = world.bng.why_mac(world.devices[2].mac());
    assert_eq!(&*why.reason, DropReason::PppoeHalfOpen.meaning());
    // LCP is given up after a while (row 15), and then others come up, of which none counts any more.
    world.devices.iter_mut().for_each(|device| device.client.reset());
    world.run(Duration::from_secs(60));
    assert_eq!((world.bng.calls(), world.bng.half_open_calls()), (0, 0));
    (0..2).for_each(|client| world.dial(client));
    assert_eq!((world.online().len(), world.bng.half_open_calls()), (2, 0));
    world.assert_counted();
}

/// A flood of devices that answer PADO and nothing more.
#[test]
fn a_flood_of_padr_has_as_many_sessions_as_the_limit_allows_and_leaves_nothing() {
    let made_up = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        let mut device = device(1, "nobody", "x");
        let profile = Profile { mac: Mac([2, 0, 9, a, b, c]), ..device.client.profile().clone() };
        device.client = Client::new(profile, Random::new([1; 32]));
        device
    };
    let mut world = world(100, (0..2000).map(made_up).collect());
    (0..2000).for_each(|client| world.dial_and_fall_silent(client));
    assert_eq!(world.bng.calls(), 100);
    // Limits of MAC addresses and lines are not reached.
    assert_eq!(world.drops(DropReason::PppoeHalfOpen), 1900);
    world.devices.clear();
    world.frames.clear();
    world.run(Duration::from_secs(60));
    world.assert_empty();
    assert_eq!(world.bng.half_open_calls(), 0);
}

#[test]
fn a_client_that_negotiates_again_and_again_is_sent_away() {
    let mut world = World::new(vec![anna()]);
    world.dial_and_fall_silent(0);
    let mut requests = 0;
    while world.bng.calls() > 0 {
        let mru = [1, 4, 5, 0xd4];
        let request = world.devices[0].frame(protocol::LCP, Packet { code: 1, id: requests, data: &mru });
        world.punt(0, &request);
        // It takes what LCP asks for, so that the link opens each time, and answers nothing else.
        while let Some(frame) = world.frames.pop_front() {
            let Frame::ToClient(_, bytes) = frame else { continue };
            let asked = SessionFrame::read(&bytes).ok().filter(|frame| frame.protocol == protocol::LCP);
            let Some(asked) = asked.and_then(|frame| Packet::read(frame.payload)) else { continue };
            if asked.code == 1 {
                let ack = world.devices[0].frame(protocol::LCP, Packet { code: 2, ..asked });
                world.punt(0, &ack);
            }
        }
        world.now += Duration::from_secs(2);
        world.input(Input::Timer);
        requests += 1;
        assert!(requests < 70, "it goes on for more than two minutes");
    }
    assert!(requests >= 60, "{requests}");
    let why = world.bng.why_mac(world.devices[0].mac());
    assert_eq!(why.step, Some(Step::Link));
    assert!(why.reason.contains("not up in time"), "{}", why.reason);
    world.assert_empty();
}
