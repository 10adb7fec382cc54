//! The numbers of ports in a node that runs: frames, neighbours, routes and rules name ports by them.
//!
//! ```text
//! old: lan 0, wan 1, dmz 2    text: lan, guests | wan     new: lan 0, wan 1, (none) 2, guests 3    order: 0 3 1
//! ```
//! Invariant: a port that stays keeps its number, and the number of a port that was removed is not given to another while a frame may
//! name it: the caller says which numbers are free again ([`Config::free_number`]).

use super::Config;
use crate::frame::{MOST_PORTS, PortId};
use crate::port::Port;

impl Config {
    /// Another port may have this number from now on: no frame of a thread names the one that was removed.
    pub fn free_number(&mut self, number: PortId) {
        if !self.free.contains(&number) {
            self.free.push(number);
        }
    }

    /// The same text with the numbers of `old` for ports that stay, and free ones for those that come.
    ///
    /// # Errors
    /// No number is free.
    pub(super) fn numbered_as(self, old: &Config) -> Result<Config, String> {
        let mut free = old.free.clone();
        let mut end = old.ports.len();
        let mut numbers = Vec::with_capacity(self.ports.len());
        for port in &self.ports {
            let same = old.ports.iter().position(|other| other.is_same(port));
            let number = same.or_else(|| free.pop().map(|number| number.0.into())).unwrap_or_else(|| {
                end += 1;
                end - 1
            });
            if number >= MOST_PORTS {
                return Err(format!(
                    "no number is free for port `{}`: of {MOST_PORTS} some rest after ports were removed; try again in a moment, \
                     or begin the node anew",
                    port.name
                ));
            }
            numbers.push(PortId(number as u16));
        }
        let mut numbered = self.renumbered(&numbers);
        numbered.ports.resize_with(end, Port::absent);
        numbered.free = free;
        Ok(numbered)
    }

    /// The same where the port of each number has another one, from this list.
    fn renumbered(mut self, numbers: &[PortId]) -> Config {
        let to = |PortId(number): PortId| numbers[usize::from(number)];
        let all = numbers.iter().map(|number| usize::from(number.0) + 1).max().unwrap_or(0);
        let mut ports: Vec<Port> = (0..all).map(|_| Port::absent()).collect();
        for (&number, port) in numbers.iter().zip(self.ports.drain(..)) {
            ports[usize::from(number.0)] = port;
        }
        self.ports = ports;
        self.order.iter_mut().for_each(|number| *number = to(*number));
        if let Some(routes) = &mut self.routes {
            routes.renumber(to);
        }
        self.subscribers.iter_mut().for_each(|subscriber| subscriber.line.port = to(subscriber.line.port));
        self.stages.iter_mut().for_each(|stage| stage.renumber(&to));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter;
    use crate::stages::OneOf;

    fn config(text: &str) -> Config {
        Config::read("n", text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    }

    /// Names by number, and the order.
    fn shown(config: &Config) -> String {
        let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
        let order: Vec<String> = config.order.iter().map(|number| number.0.to_string()).collect();
        format!("{} / {}", names.join(","), order.join(" "))
    }

    #[test]
    fn ports_that_stay_keep_their_numbers() {
        let mut running = config("a b filter(accept in b udp) > x");
        for (text, freed, expected) in [
            ("b a filter(accept in b udp) > x", None, "a,b,x / 1 0 2"),
            ("b filter(accept in b udp) > y x", None, ",b,x,y / 1 3 2"),
            // The number of `a` rests; then it is free.
            ("b c filter(accept in c udp) > y x", None, ",b,x,y,c / 1 4 3 2"),
            ("b filter(accept in b udp) > z y", Some(0), "z,b,,y, / 1 0 3"),
            // At the other end, or on another interface, it is another port.
            ("z b filter(accept in z udp) > y", None, ",b,,y,,z / 5 1 3"),
            ("b(on eth0) filter(accept in b udp) > y", None, ",,,y,,,b / 6 3"),
        ] {
            freed.into_iter().for_each(|number| running.free_number(PortId(number)));
            let named = config(text);
            let new = named.clone().instead_of(&running, 1).expect("room");
            assert_eq!(shown(&new), expected, "{text}");
            let port_of = |config: &Config| {
                let mut filter = filter::Config::of(&config.stages[0]).expect("a filter").clone();
                let port = *filter.ports_mut().next().expect("a port");
                config.ports[usize::from(port.0)].name.clone()
            };
            assert_eq!(port_of(&new), port_of(&named), "{text}");
            running = new;
        }
    }

    #[test]
    fn numbers_end() {
        let mut running = config("a filter(policy accept) x");
        let mut new = |n: usize| {
            running = config(&format!("a{n} filter(policy accept) x")).instead_of(&running, 1)?;
            Ok::<_, String>(())
        };
        (1..MOST_PORTS - 1).for_each(|n| new(n).expect("one more"));
        let wrong = new(MOST_PORTS).expect_err("all are used");
        assert!(wrong.contains("no number is free for port `a1024`"), "{wrong}");
        running.free_number(PortId(7));
        let new = config("b filter(policy accept) x").instead_of(&running, 1).expect("one is free");
        assert_eq!(new.order, [PortId(7), PortId(1)]);
    }
}
