//! Options of the log of a service.

use clap::Args;
use tracing::level_filters::LevelFilter;
use weir_service::log::{self, Format};

/// What a service logs on standard error, and how.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Log on standard error as text, or as json: one object per line [default: text, or what WEIR_LOG_FORMAT says]
    #[arg(long, value_name = "FORMAT", value_parser = log::format)]
    log_format: Option<Format>,
    /// Least important level that is logged: error, warn, info or debug [default: info, or what WEIR_LOG says]
    #[arg(long, value_name = "LEVEL", value_parser = log::level)]
    log_level: Option<LevelFilter>,
}

impl Log {
    /// The values of --log-format and --log-level, for another program.
    pub(crate) fn words(&self) -> (Option<&'static str>, Option<String>) {
        let format = self.log_format.map(|format| match format {
            Format::Text => "text",
            Format::Json => "json",
        });
        (format, self.log_level.map(|level| level.to_string()))
    }

    pub(crate) fn options(&self) -> log::Options {
        log::Options { format: self.log_format, level: self.log_level }
    }
}
