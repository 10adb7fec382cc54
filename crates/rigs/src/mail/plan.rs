//! The experiment `mail`: the recipients, and the axes.

use std::time::Duration;

use toml_edit::Value;
use weir_config::{Section, shown, value};
use weir_mail::Job;

/// The experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// Connections at the same time, one point each; may be empty.
    pub connections: Vec<u32>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// Time before each measurement.
    pub warm_up: Duration,
    /// Length of each measurement.
    pub trial: Duration,
    /// The recipients of the message.
    pub job: Job,
    /// The way to a server and back, before each group of replies; in the ramp only.
    pub delay: Duration,
    /// Recipients of a transaction.
    pub per_transaction: u32,
    /// Connections to a domain at the same time.
    pub domain_connections: u32,
    /// Recipients of a connection.
    pub connection_recipients: u32,
    /// Bytes of the message; 0: RSET in place of DATA.
    pub message_bytes: u32,
    /// Is PIPELINING offered and used?
    pub pipelining: bool,
    /// Is STARTTLS offered and used?
    pub starttls: bool,
    /// Share of the domains that are not plain.
    pub odd_domains: f64,
    /// Threads of the engine, and as many of the receivers.
    pub threads: u32,
    /// Connections of the whole task; 0: it is left out.
    pub whole_connections: u32,
    /// Programs to compare with.
    pub peers: Vec<MailPeer>,
    /// Messages that each pair of a sender and a receiver exchanges.
    pub peer_messages: u32,
}

/// Another mail program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailPeer {
    /// Postfix's load generator.
    SmtpSource,
    /// Postfix's receiver for tests.
    SmtpSink,
    /// Postfix itself, which takes each message to its queue and then discards it.
    Postfix,
}

impl MailPeer {
    /// All of them with the names of their programs.
    pub const ALL: [(MailPeer, &'static str); 3] = [
        (MailPeer::SmtpSource, "smtp-source"),
        (MailPeer::SmtpSink, "smtp-sink"),
        (MailPeer::Postfix, "postfix"),
    ];

    /// The name of its program.
    pub fn name(self) -> &'static str {
        MailPeer::ALL.iter().find(|(peer, _)| *peer == self).expect("every peer is in ALL").1
    }
}

/// Reads `[mail]`.
pub(super) fn read(section: Section<'_>) -> Option<Mail> {
    let count = |name, range, default| section.one(name, value::count(range)).unwrap_or(default);
    let flag = |name| section.one(name, value::flag);
    let peers = section.axis("peers", value::choice("mail peer", &MailPeer::ALL)).unwrap_or_default();
    let connections = section.axis("connections", value::count(1..=100_000)).unwrap_or_default();
    let job = Job {
        recipients: count("recipients", 1..=100_000_000, 200_000).into(),
        domains: count("domains", 1..=1_000_000, 9_113),
        skew: section.one("skew", skew).unwrap_or(1.0),
    };
    if job.recipients < job.domains.into() {
        section
            .wrong("domains", "each domain needs a recipient: use fewer domains, or more recipients".into());
    }
    let mail = Mail {
        connections,
        rounds: count("rounds", 1..=1000, 6),
        warm_up: section.one("warm_up_s", value::seconds).unwrap_or(Duration::from_secs(1)),
        trial: section.one("trial_s", value::seconds).unwrap_or(Duration::from_secs(4)),
        job,
        delay: Duration::from_millis(count("delay_ms", 0..=60_000, 50).into()),
        per_transaction: count("recipients_per_transaction", 1..=100, 1),
        domain_connections: count("connections_per_domain", 1..=100_000, 20),
        connection_recipients: count("recipients_per_connection", 1..=100_000, 100),
        message_bytes: count("message_bytes", 0..=10_000_000, 0),
        pipelining: flag("pipelining").unwrap_or(true),
        starttls: flag("starttls").unwrap_or(false),
        odd_domains: section.one("odd_domains", value::ratio).unwrap_or(0.0),
        threads: count("threads", 1..=256, 1),
        whole_connections: count("whole_connections", 0..=100_000, 0),
        peers,
        peer_messages: count("peer_messages", 1..=10_000_000, 2_000),
    };
    if mail.cases().is_empty() {
        section
            .wrong("connections", "nothing to measure: set connections, whole_connections or peers".into());
    }
    section.finish();
    Some(mail)
}

/// An exponent, 0 to 3.
fn skew(value: &Value) -> Result<f64, String> {
    let number = shown(value).parse().ok().filter(|skew| (0.0..=3.0).contains(skew));
    number.ok_or_else(|| format!("`{}` is no exponent of a distribution: use 0 to 3", shown(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PLANS;
    use weir_testkit::{golden, set_mistakes};

    fn mail(name: &str, sets: &[&str]) -> Result<Mail, String> {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        let plan = PLANS.load(name, &sets).map_err(|error| error.to_string())?;
        Ok(plan.experiment.of::<Mail>().expect("of this rig").clone())
    }

    #[test]
    fn mistakes_have_remedies() {
        let sets = [
            "mail.domains=300000",
            "mail.peers=smtp-sinc",
            "mail.recipients_per_transaction=0",
            "mail.skew=-1",
        ];
        golden!("src/mail/mistakes.txt", &set_mistakes(&sets, |sets| PLANS.load("mail", sets)));
    }

    #[test]
    fn the_task_is_that_of_2001_and_the_short_forms_are_short() {
        let full = mail("mail", &[]).unwrap();
        assert_eq!((full.job.recipients, full.job.domains, full.rounds), (200_000, 9_113, 6));
        assert!([1500, 2500, 5000].iter().all(|n| full.connections.contains(n)));
        for name in ["mail", "peers-mail"] {
            let short = PLANS.load_short(name, &[]).unwrap();
            assert!(short.estimate() <= Duration::from_secs(150), "{name}: {:?}", short.estimate());
        }
    }
}
