//! The log of a service, on standard error: events of the crate `tracing`, each with a level and, where it has some, fields.
//!
//! ```text
//!   text      note: cannot write nat.jsonl: No space left on device
//!   journal   <4>note: cannot write nat.jsonl: No space left on device
//!   JSON      {"timestamp":"...","level":"WARN","fields":{"message":"note: cannot ...","path":"nat.jsonl"},"target":"..."}
//! ```
//! The message is the same in all of them; text has nothing else. Where standard error is a stream of systemd's journal, a prefix
//! gives each line its priority (sd-daemon(3)). An error of standard error stops no service, see [`say`].

use std::ffi::OsString;
use std::fmt::{self, Debug, Write};
use std::os::fd::AsFd;

use anyhow::{Context, Result, anyhow};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Event, Level, Subscriber, dispatcher};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use weir_config::plain;

use crate::say;

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The message.
    Text,
    /// An object with time, level, target, and fields, of which `message` is one.
    Json,
}

/// What is logged, and how; `None`: as `WEIR_LOG` and `WEIR_LOG_FORMAT` say, or text from level `info` on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Form of the lines.
    pub format: Option<Format>,
    /// The least important level that is logged.
    pub level: Option<LevelFilter>,
}

/// Reads a format.
///
/// # Errors
/// There is none with this name.
pub fn format(name: &str) -> Result<Format, String> {
    match name {
        "text" => Ok(Format::Text),
        "json" => Ok(Format::Json),
        _ => Err(format!("`{name}` is no format of a log: use text or json")),
    }
}

/// Reads a level.
///
/// # Errors
/// There is none with this name.
pub fn level(name: &str) -> Result<LevelFilter, String> {
    match name {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err(format!("`{name}` is no level of a log: use error, warn, info or debug")),
    }
}

/// Logs the events of this process from here on. Call it once, before the first event.
///
/// # Errors
/// A variable of the environment has another value, or there is a log already.
pub fn init(options: Options) -> Result<()> {
    let set = |name| (name, std::env::var_os(name));
    let format = options.format.map_or_else(|| read(set("WEIR_LOG_FORMAT"), format, Format::Text), Ok)?;
    let level = options.level.map_or_else(|| read(set("WEIR_LOG"), level, LevelFilter::INFO), Ok)?;
    let prefix = prefix(std::io::stderr(), std::env::var_os("JOURNAL_STREAM"));
    let log = dispatch(format, level, prefix, std::io::stderr);
    dispatcher::set_global_default(log).context("cannot start the log")
}

/// The error that ends this program: in its log, or on standard error if it has none.
pub fn end_with_error(text: &str) {
    if dispatcher::has_been_set() {
        tracing::error!("{text}");
    } else {
        say::say(text);
    }
}

/// What a variable of the environment says; an empty one says nothing.
fn read<T>(
    (name, value): (&str, Option<OsString>),
    parse: impl Fn(&str) -> Result<T, String>,
    default: T,
) -> Result<T> {
    match value.filter(|value| !value.is_empty()) {
        None => Ok(default),
        Some(value) => parse(&value.to_string_lossy()).map_err(|error| anyhow!("{name}: {error}")),
    }
}

/// What text lines begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prefix {
    None,
    /// Of syslog(3), as `<4>`.
    Priority,
}

/// `JOURNAL_STREAM` has device and inode of the stream that systemd made (systemd.exec(5)); a child may have got another one.
fn prefix(stream: impl AsFd, journal: Option<OsString>) -> Prefix {
    let is_journal = rustix::fs::fstat(stream).is_ok_and(|found| {
        journal.is_some_and(|journal| journal == *format!("{}:{}", found.st_dev, found.st_ino))
    });
    if is_journal { Prefix::Priority } else { Prefix::None }
}

fn dispatch<W>(format: Format, level: LevelFilter, prefix: Prefix, writer: W) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(writer).log_internal_errors(false);
    match format {
        Format::Text => log.event_format(Text { prefix }).into(),
        Format::Json => log.json().with_current_span(false).with_span_list(false).into(),
    }
}

/// Writes messages without their fields.
struct Text {
    prefix: Prefix,
}

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut message = Message::default();
        event.record(&mut message);
        for line in plain(&message.0).split('\n') {
            if self.prefix == Prefix::Priority {
                write!(to, "<{}>", priority(*event.metadata().level()))?;
            }
            writeln!(to, "{line}")?;
        }
        Ok(())
    }
}

/// The text of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // A String takes all.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// The priority of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::MetadataExt;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What the log has after an event of each level.
    fn logged(format: Format, level: LevelFilter, prefix: Prefix) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        dispatcher::with_default(&dispatch(format, level, prefix, move || writer.clone()), || {
            tracing::error!("the node\nfailed");
            tracing::warn!(path = "nat.jsonl", left = 3, "note: cannot write {}", "nat.jsonl\u{1b}");
            tracing::info!(port = %"lan", "lan: AF_XDP");
            tracing::debug!("looked");
        });
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_has_the_messages_alone() {
        assert_eq!(
            logged(Format::Text, LevelFilter::DEBUG, Prefix::None),
            "the node\nfailed\nnote: cannot write nat.jsonl\\u{1b}\nlan: AF_XDP\nlooked\n"
        );
    }

    #[test]
    fn levels_filter() {
        let all =
            ["the node\nfailed\n", "note: cannot write nat.jsonl\\u{1b}\n", "lan: AF_XDP\n", "looked\n"];
        for (n, name) in ["error", "warn", "info", "debug"].into_iter().enumerate() {
            assert_eq!(
                logged(Format::Text, level(name).unwrap(), Prefix::None),
                all[..=n].concat(),
                "{name}"
            );
        }
    }

    #[test]
    fn each_line_in_the_journal_has_its_priority() {
        assert_eq!(
            logged(Format::Text, LevelFilter::DEBUG, Prefix::Priority),
            "<3>the node\n<3>failed\n<4>note: cannot write nat.jsonl\\u{1b}\n<6>lan: AF_XDP\n<7>looked\n"
        );
    }

    #[test]
    fn json_has_an_object_per_event() {
        // A prefix would be no JSON.
        let text = logged(Format::Json, LevelFilter::INFO, Prefix::Priority);
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let shown = |n: usize| (lines[n]["level"].clone(), lines[n]["fields"].clone());
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(shown(0), ("ERROR".into(), serde_json::json!({"message": "the node\nfailed"})));
        let fields = serde_json::json!({"message": "note: cannot write nat.jsonl\u{1b}", "path": "nat.jsonl", "left": 3});
        assert_eq!(shown(1), ("WARN".into(), fields));
        assert_eq!(shown(2), ("INFO".into(), serde_json::json!({"message": "lan: AF_XDP", "port": "lan"})));
        for line in lines {
            assert_eq!(line["target"], "weir_service::log::tests");
            let at = line["timestamp"].as_str().unwrap();
            assert!(at.ends_with('Z') && at.contains('T'), "{at}");
            assert_eq!(line.as_object().unwrap().len(), 4, "{line}");
        }
    }

    #[test]
    fn the_journal_is_known_by_its_stream() {
        let file = File::open("/dev/null").unwrap();
        let about = file.metadata().unwrap();
        let named = |device, inode| Some(format!("{device}:{inode}").into());
        assert_eq!(prefix(&file, named(about.dev(), about.ino())), Prefix::Priority);
        for other in
            [None, Some("".into()), named(about.dev(), about.ino() + 1), named(about.dev() + 1, about.ino())]
        {
            assert_eq!(prefix(&file, other.clone()), Prefix::None, "{other:?}");
        }
    }

    #[test]
    fn a_variable_of_the_environment_is_read() {
        for (value, expected) in [
            (None, Ok(LevelFilter::INFO)),
            (Some(""), Ok(LevelFilter::INFO)),
            (Some("debug"), Ok(LevelFilter::DEBUG)),
            (Some("loud"), Err("WEIR_LOG: `loud` is no level of a log: use error, warn, info or debug")),
        ] {
            let found = read(("WEIR_LOG", value.map(OsString::from)), level, LevelFilter::INFO);
            assert_eq!(
                found.map_err(|error| error.to_string()),
                expected.map_err(str::to_string),
                "{value:?}"
            );
        }
        assert_eq!(format("json"), Ok(Format::Json));
        assert_eq!(format("xml"), Err("`xml` is no format of a log: use text or json".to_string()));
    }
}
