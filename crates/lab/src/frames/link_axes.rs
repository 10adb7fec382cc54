//! The axes of a bottleneck's link: `rate`, `buffer`, `aqm` and `delay` of `[dut]`.

use toml_edit::Value;
use weir_config::{Section, value};
use weir_testbed::dut::{DutKind, Function};
use weir_testbed::link::LinkSpec;

/// Each list is an axis with at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkAxes {
    /// Rates.
    pub rate: Vec<String>,
    /// Sizes of the buffer.
    pub buffer: Vec<String>,
    /// Queues.
    pub aqm: Vec<String>,
    /// One-way delays.
    pub delay: Vec<String>,
}

impl Default for LinkAxes {
    fn default() -> LinkAxes {
        let LinkSpec { rate, buffer, aqm, delay } = LinkSpec::default();
        let [rate, buffer, aqm, delay] = [rate, buffer, aqm, delay].map(|one| vec![one]);
        LinkAxes { rate, buffer, aqm, delay }
    }
}

impl LinkAxes {
    /// Reads the axes of the section [link]; mistakes are noted.
    pub fn read(section: &Section<'_>) -> LinkAxes {
        // What a value means beside the others, the points say: a delay of some length makes any buffer possible.
        let of = |key: &'static str, link: fn(String) -> LinkSpec| {
            let one = |value: &Value| {
                let text = value::text(value)?;
                link(text.clone()).check().map(|()| text)
            };
            section.axis(key, one)
        };
        let rate = of("rate", |rate| LinkSpec { rate, ..some_link() });
        let buffer = of("buffer", |buffer| LinkSpec { buffer, ..some_link() });
        let aqm = of("aqm", |aqm| LinkSpec { aqm, ..some_link() });
        let delay = of("delay", |delay| LinkSpec { delay, ..LinkSpec::default() });
        let or = LinkAxes::default();
        LinkAxes {
            rate: rate.unwrap_or(or.rate),
            buffer: buffer.unwrap_or(or.buffer),
            aqm: aqm.unwrap_or(or.aqm),
            delay: delay.unwrap_or(or.delay),
        }
    }

    /// All combinations; `None` for a device without a link. The delay runs fastest.
    pub fn all(&self, kind: DutKind) -> Vec<Option<LinkSpec>> {
        if kind.function() != Function::Queue {
            return vec![None];
        }
        let mut list = Vec::new();
        for rate in &self.rate {
            for buffer in &self.buffer {
                for aqm in &self.aqm {
                    list.extend(self.delay.iter().map(|delay| {
                        let (rate, buffer) = (rate.clone(), buffer.clone());
                        Some(LinkSpec { rate, buffer, aqm: aqm.clone(), delay: delay.clone() })
                    }));
                }
            }
        }
        list
    }
}

/// One whose delay is long enough for any buffer in round trips.
fn some_link() -> LinkSpec {
    LinkSpec { delay: "10s".into(), ..LinkSpec::default() }
}
