//! A flame graph: which functions call which, as wide as the time that is spent in and below them.
//!
//! ```text
//!  | memcpy | |
//!  | tpacket_rcv    | fib |            callers are below the functions that they call
//!  | net_rx_action        | poll |
//! ```

use std::collections::BTreeMap;

use crate::profile::cause;
use crate::view::format::percent;
use crate::view::svg::{Anchor, Svg, shorten};

const WIDTH: f64 = 1040.0;
const ROW: f64 = 16.0;
/// Narrower than this nothing can be seen, px.
const NARROW: f64 = 0.5;
/// Room for a name, px.
const NAMED: f64 = 30.0;

/// A function, and those that it calls.
#[derive(Debug, Default)]
struct Node<'a> {
    samples: u64,
    calls: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn add(&mut self, functions: &'a str, n: u64) {
        self.samples += n;
        let mut node = self;
        for function in functions.split(';') {
            node = node.calls.entry(function).or_default();
            node.samples += n;
        }
    }

    /// Rows that it needs, itself included, as far as they are wide enough to be seen.
    fn height(&self, px_per_sample: f64) -> usize {
        let visible = self.calls.values().filter(|node| node.samples as f64 * px_per_sample >= NARROW);
        1 + visible.map(|node| node.height(px_per_sample)).max().unwrap_or(0)
    }
}

/// Draws stacks: functions from the outermost to the innermost with `;` between them, and their samples.
pub fn draw(stacks: &[(String, u64)], title: &str) -> String {
    let mut root = Node::default();
    stacks.iter().for_each(|(stack, n)| root.add(stack, *n));
    if root.samples == 0 {
        return String::new();
    }
    let px_per_sample = WIDTH / root.samples as f64;
    let height = root.height(px_per_sample) as f64 * ROW;
    let mut drawing = Drawing { svg: Svg::new(WIDTH, height), px_per_sample, all: root.samples, height };
    drawing.node(&root, "all", (0.0, 0));
    let description = format!("{} samples; callers are below the functions that they call", root.samples);
    drawing.svg.finish(title, &description)
}

struct Drawing {
    svg: Svg,
    px_per_sample: f64,
    all: u64,
    height: f64,
}

impl Drawing {
    /// Draws a function at its left edge and depth, and what it calls above it.
    fn node(&mut self, node: &Node<'_>, name: &str, (left, depth): (f64, usize)) {
        let width = node.samples as f64 * self.px_per_sample;
        if width < NARROW {
            return;
        }
        let top = self.height - ROW * (depth + 1) as f64;
        let share = percent(node.samples as f64 / self.all as f64);
        let title = format!("{name}: {share}, {} samples", node.samples);
        self.svg.rect((left, top), (width - 0.3, ROW - 1.0), class(name), &title);
        if width >= NAMED {
            let text = shorten(name, width - 4.0);
            self.svg.text((left + 2.0, top + ROW - 4.5), Anchor::Start, "tick", &text);
        }
        let mut left = left;
        for (name, call) in &node.calls {
            self.node(call, name, (left, depth + 1));
            left += call.samples as f64 * self.px_per_sample;
        }
    }
}

/// Causes differ by colour.
fn class(name: &str) -> &'static str {
    match cause(name) {
        "user code" => "flame c3",
        "copies" => "flame c2",
        "allocation" => "flame c4",
        "locks" | "wake-ups and scheduling" => "flame c5",
        "packet socket" | "AF_XDP socket" => "flame c1",
        _ => "flame c0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_shares_and_callers_stand_below() {
        let stacks = [("a;b", 3), ("a;c;d", 1)].map(|(stack, n)| (stack.to_string(), n));
        let svg = draw(&stacks, "title").replace('\u{202f}', " ");
        for part in [
            r#"height="64" role"#,
            r#"x="0.0" y="48.0" width="1039.7""#,
            r#"x="0.0" y="16.0" width="779.7""#,
            "b: 75.0 %, 3 samples",
            r#"x="780.0" y="0.0" width="259.7""#,
        ] {
            assert!(svg.contains(part), "{part}\n--\n{svg}");
        }
        assert_eq!(draw(&[], "title"), "");
    }

    #[test]
    fn what_cannot_be_seen_is_not_drawn() {
        let stacks = [("a", 10_000), ("b;c;d", 1)].map(|(stack, n)| (stack.to_string(), n));
        let svg = draw(&stacks, "title");
        assert!(svg.contains(r#"height="32" role"#) && !svg.contains("d:"), "{svg}");
    }
}
