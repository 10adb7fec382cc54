//! Why no frame has been captured yet: one hint.

use weir_capture::session::View;

use super::SILENCE;

pub(super) struct Hint {
    filtered: bool,
    not_promiscuous: bool,
    said: bool,
}

impl Hint {
    pub(super) fn new(filtered: bool, not_promiscuous: bool) -> Self {
        Hint { filtered, not_promiscuous, said: false }
    }

    /// The hint for a view, if there is one.
    pub(super) fn about(&mut self, view: &View) -> Vec<String> {
        let captured: u64 =
            view.queues.iter().map(|queue| queue.reading.frames + queue.reading.account.dropped()).sum();
        if self.said || captured > 0 || view.elapsed < SILENCE {
            return Vec::new();
        }
        self.said = true;
        let seconds = view.elapsed.as_secs();
        let why = match view.offered {
            0 if self.not_promiscuous => {
                "the interface has received none either: frames for other machines need promiscuous mode (omit \
                 --no-promiscuous)"
                    .to_string()
            }
            0 => "the interface has received none either: check the cable, the mirror port, or the sender".into(),
            offered if self.filtered => format!("the interface has received {offered}, but none matches the filter"),
            offered => format!(
                "the interface has received {offered}, but another program takes them first, for example an XDP \
                 program (`ip link` shows it)"
            ),
        };
        vec![format!("no frame in {seconds} s; {why}")]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn silence_has_a_reason_which_is_reported_once() {
        let view = |seconds, offered| View {
            elapsed: Duration::from_secs(seconds),
            queues: Vec::new(),
            written: None,
            waiting: false,
            offered,
            notes: Vec::new(),
        };
        let said = |filtered, not_promiscuous, offered| {
            let mut hint = Hint::new(filtered, not_promiscuous);
            assert!(hint.about(&view(2, offered)).is_empty(), "too early");
            let said = hint.about(&view(3, offered)).concat();
            assert!(hint.about(&view(4, offered)).is_empty(), "once");
            said
        };
        assert!(said(true, false, 7).contains("has received 7, but none matches the filter"));
        assert!(said(false, false, 7).contains("XDP program"));
        assert!(said(false, true, 0).contains("--no-promiscuous"));
        assert!(said(true, false, 0).contains("check the cable"));
    }
}
