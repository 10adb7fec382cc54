//! Load for a mail server.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_mail::engine::{Manner, Order, Patience, PerDomain, Retry, Route};
use weir_mail::log::Durability;
use weir_mail::{Ending, Job, StartTls};

use super::frames::seconds;
use super::host::Host;

/// Port of SMTP.
const PORT: u16 = 25;
/// The longest path (RFC 5321, section 4.5.3.1.3), without its brackets.
const LONGEST: usize = 254;

/// `weir mail`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir mail --to 192.0.2.1 --owner-agrees --from me@example.org --rcpt test@example.net
  weir mail --to 192.0.2.1:2525 --owner-agrees --from me@example.org --rcpt test@example.net --message 4096 --rate max
  weir mail --to 192.0.2.1 --owner-agrees --from me@example.org --rcpt t{n}@example.net --recipients 10000 --log outcomes

Without --message each transaction ends with RSET instead of DATA: the server delivers nothing. The exit code is 0 if the \
server accepted all recipients, and 3 if not. Ctrl-C ends the load after the open transactions are complete.")]
pub(crate) struct Mail {
    /// The server: HOST or HOST:PORT; if a name has several addresses, the first that accepts mail is used
    #[arg(long, value_name = "HOST", value_parser = Host::read)]
    pub(crate) to: Host,
    /// Confirm that the owner of the server agrees to this test
    #[arg(long, required = true)]
    pub(crate) owner_agrees: bool,
    /// Sender of the messages
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    from: String,
    /// Recipient; {n} is replaced by its number
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    rcpt: String,
    /// Number of recipients
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    recipients: u64,
    /// Number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=5000))]
    connections: u32,
    /// Recipients per second, or max
    #[arg(long, value_name = "N", default_value = "100", value_parser = rate)]
    rate: Rate,
    /// Recipients per transaction
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    per_transaction: u32,
    /// Recipients per connection
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_connection: u32,
    /// Send messages of this many bytes instead of RSET
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    message: Option<u32>,
    /// Use TLS (STARTTLS); certificates are not verified
    #[arg(long, value_enum, default_value_t)]
    tls: Tls,
    /// Send one command at a time, even if the server offers PIPELINING
    #[arg(long)]
    no_pipelining: bool,
    /// Host name in EHLO
    #[arg(long, value_name = "NAME", default_value = "localhost", value_parser = helo)]
    helo: String,
    /// Number of attempts for a recipient that the server defers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    attempts: u8,
    /// Seconds until the second attempt; each further wait is twice as long
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    retry_after: Duration,
    /// Seconds to wait for the reply to a command [default: five minutes (RFC 5321)]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Write the outcome of each recipient to this file, and continue with the recipients that have none
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// When to use TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Tls {
    /// Without TLS
    Never,
    /// With TLS if the server offers it
    #[default]
    Offered,
    /// Only with TLS: without it nothing is sent
    Required,
}

/// Recipients per second; `None`: as fast as possible.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate(Option<f64>);

impl Mail {
    /// The load, for the engine.
    pub(crate) fn order(&self) -> Order {
        let usual = Patience::default();
        let command_s = self.timeout.map_or(usual.command_s, |timeout| timeout.as_secs_f64());
        Order {
            job: Job { recipients: self.recipients, domains: 1, skew: 0.0 },
            messages: 1,
            route: Route::Host { at: self.to.addresses(PORT), to: Some(self.rcpt.clone()) },
            connections: self.connections,
            rate: self.rate.0,
            threads: 1,
            per_transaction: self.per_transaction,
            per_domain: PerDomain { connections: self.connections, recipients: self.per_connection },
            retry: Retry { attempts: self.attempts, after_s: self.retry_after.as_secs_f64() },
            manner: Manner {
                helo: self.helo.clone(),
                from: self.from.clone(),
                pipelining: !self.no_pipelining,
                tls: match self.tls {
                    Tls::Never => StartTls::Never,
                    Tls::Offered => StartTls::Offered,
                    Tls::Required => StartTls::Required,
                },
                ending: self.message.map_or(Ending::Rset, Ending::Data),
            },
            patience: Patience { command_s, ..usual },
            log: self.log.clone().map(|path| (path, Durability::Power)),
            window: None,
            beside: None,
        }
    }
}

/// Whether a text is safe in an SMTP command: no line ends, spaces or brackets.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"\\".contains(&byte))
}

fn address(text: &str) -> Result<String, String> {
    let is_address = is_plain(text)
        && text.rsplit_once('@').is_some_and(|(name, domain)| !name.is_empty() && !domain.is_empty());
    is_address
        .then(|| text.to_string())
        .ok_or_else(|| format!("`{text}` is no address: use name@example.org"))
}

fn helo(text: &str) -> Result<String, String> {
    is_plain(text)
        .then(|| text.to_string())
        .ok_or_else(|| format!("`{text}` is no host name: use mail.example.org"))
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate(None));
    }
    let rate = weir_config::unit::quantity(text).ok().filter(|rate| (0.01..=1e7).contains(rate));
    rate.map(|rate| Rate(Some(rate))).ok_or_else(|| format!("`{text}` is no rate: use 100, 2k or max"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_more_than_an_address_is_refused() {
        assert_eq!(address("test{n}@example.net").unwrap(), "test{n}@example.net");
        for text in ["", "x", "@x", "x@", "a b@c", "a@b>\r\nDATA", "a@<b>", &"x".repeat(300)] {
            assert!(address(text).unwrap_err().contains("is no address"), "{text}");
        }
        assert!(helo("a\nb").is_err());
    }

    #[test]
    fn rates_are_read() {
        assert_eq!((rate("max"), rate("2k")), (Ok(Rate(None)), Ok(Rate(Some(2000.0)))));
        assert!(rate("0").unwrap_err().contains("use 100, 2k or max"));
    }
}
