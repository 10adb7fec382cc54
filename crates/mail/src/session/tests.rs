use super::*;

fn manner() -> Manner {
    Manner {
        helo: "weir.test".into(),
        from: "a@weir.test".into(),
        pipelining: true,
        tls: StartTls::Never,
        ending: Ending::Rset,
    }
}

/// Plays a dialogue: lines `C: ` are what the client is to send, `S: ` what the server says. Two recipients are given when
/// the client can take them. Returns the outcomes.
fn play(manner: Manner, script: &str) -> String {
    let mut session = Session::new(Rc::new(manner));
    let mut given = false;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (who, text) = line.split_at(3);
        if session.want() == Want::Transaction {
            if given {
                session.quit()
            } else {
                session.transaction(&[1, 2].map(|id| Recipient { id, attempts: 0 }), &|id, out| {
                    out.extend_from_slice(format!("u{id}@d.test").as_bytes())
                })
            }
            given = true;
        }
        match who {
            "C: " => {
                let sent = String::from_utf8(std::mem::take(&mut session.out)).unwrap();
                assert_eq!(sent.trim_end().replace("\r\n", " | "), text, "{script}");
            }
            "T: " => session.secured(),
            _ => {
                let bytes = text.replace(" | ", "\r\n") + "\r\n";
                let mut rest = bytes.as_bytes();
                while let Ok(Some((reply, length))) = Reply::first(rest) {
                    session.reply(reply);
                    rest = &rest[length..];
                }
            }
        }
    }
    if session.want() != Want::Close {
        session.break_off(Cause::Closed);
    }
    let outcome = |(who, outcome): &(Recipient, Outcome)| match outcome {
        Outcome::Delivered(code) => format!("{} delivered {code}", who.id),
        Outcome::Failed(trouble) => format!("{} failed {trouble}", who.id),
        Outcome::Deferred(trouble) => format!("{} deferred {trouble}", who.id),
    };
    session.outcomes.iter().map(outcome).collect::<Vec<_>>().join("; ")
}

const HELLO: &str = "S: 220 mx\nC: EHLO weir.test\nS: 250-mx | 250 PIPELINING\n";
const GROUP: &str = "C: MAIL FROM:<a@weir.test> | RCPT TO:<u1@d.test> | RCPT TO:<u2@d.test> | RSET\n";

fn check(manner: Manner, script: &str, outcomes: &str) {
    assert_eq!(play(manner, script), outcomes, "{script}");
}

#[test]
fn commands_are_sent_in_one_group_where_the_server_can_take_them() {
    let rest = "S: 250 ok | 250 ok | 250 ok | 250 ok\nC: QUIT\nS: 221 bye";
    check(manner(), &format!("{HELLO}{GROUP}{rest}"), "1 delivered 250; 2 delivered 250");
    let one_by_one = "S: 220 mx
        C: EHLO weir.test
        S: 250 mx
        C: MAIL FROM:<a@weir.test>
        S: 250 ok
        C: RCPT TO:<u1@d.test>
        S: 550 unknown
        C: RCPT TO:<u2@d.test>
        S: 251 elsewhere
        C: RSET
        S: 250 ok";
    check(manner(), one_by_one, "1 failed 550 to RCPT; 2 delivered 250");
}

#[test]
fn each_recipient_has_the_outcome_that_its_reply_says() {
    for (replies, outcomes) in [
        ("250 ok | 450 later | 550 no | 250 ok", "1 deferred 450 to RCPT; 2 failed 550 to RCPT"),
        ("451 no | 503 no | 503 no | 250 ok", "1 deferred 451 to MAIL; 2 deferred 451 to MAIL"),
        ("552 no | 503 no | 503 no | 250 ok", "1 failed 552 to MAIL; 2 failed 552 to MAIL"),
        ("250 ok | 250 ok | 250 ok | 451 no", "1 deferred 451 to RSET; 2 deferred 451 to RSET"),
        // A server that ends in between has taken nothing.
        ("250 ok | 250 ok | 421 bye", "1 deferred 421 to RCPT; 2 deferred 421 to RCPT"),
        ("250 ok | 550 no | 421 bye", "1 failed 550 to RCPT; 2 deferred 421 to RCPT"),
        ("250 ok | 250 ok", "1 deferred connection closed at RCPT; 2 deferred connection closed at RCPT"),
        ("250 ok | 354 go", "1 deferred no SMTP reply to RCPT; 2 deferred no SMTP reply to RCPT"),
        // What is more than was asked for changes nothing of what is settled.
        ("250 ok | 250 ok | 250 ok | 250 ok | 250 what?", "1 delivered 250; 2 delivered 250"),
    ] {
        check(manner(), &format!("{HELLO}{GROUP}S: {replies}"), outcomes);
    }
}

#[test]
fn a_message_is_sent_only_to_somebody() {
    let data = || Manner { ending: Ending::Data(0), ..manner() };
    let group = GROUP.replace("RSET", "DATA");
    let text = "C: From: <a@weir.test> | Subject: weir |  | .\n";
    for (rest, outcomes) in [
        (
            format!("S: 250 ok | 250 ok | 550 no | 354 go\n{text}S: 250 ok"),
            "2 failed 550 to RCPT; 1 delivered 250",
        ),
        (
            format!("S: 250 ok | 250 ok | 250 ok | 354 go\n{text}S: 554 no"),
            "1 failed 554 to message; 2 failed 554 to message",
        ),
        ("S: 250 ok | 250 ok | 250 ok | 451 no".into(), "1 deferred 451 to DATA; 2 deferred 451 to DATA"),
        // RFC 2920, section 3.1: the server sends 354 although no recipient is left.
        (
            "S: 250 ok | 550 no | 550 no | 354 go\nC: .\nS: 554 nobody".into(),
            "1 failed 550 to RCPT; 2 failed 550 to RCPT",
        ),
    ] {
        check(data(), &format!("{HELLO}{group}{rest}"), outcomes);
    }
    let waits = "S: 220 mx
        C: EHLO weir.test
        S: 250 mx
        C: MAIL FROM:<a@weir.test>
        S: 250 ok
        C: RCPT TO:<u1@d.test>
        S: 550 no
        C: RCPT TO:<u2@d.test>
        S: 550 no
        C: RSET
        S: 250 ok";
    check(data(), waits, "1 failed 550 to RCPT; 2 failed 550 to RCPT");
}

#[test]
fn servers_that_are_not_ready_get_no_mail() {
    let none = "";
    check(manner(), "S: 421 busy", none);
    check(manner(), "S: 554 no", none);
    check(
        manner(),
        "S: 220 mx\nC: EHLO weir.test\nS: 502 what?\nC: HELO weir.test\nS: 250 mx\nC: MAIL FROM:<a@weir.test>",
        "1 deferred connection closed at MAIL; 2 deferred connection closed at MAIL",
    );
    check(manner(), "S: 220 mx\nC: EHLO weir.test\nS: 502 what?\nC: HELO weir.test\nS: 502 what?", none);
}

#[test]
fn tls_is_used_as_asked() {
    let with = |tls| Manner { tls, ..manner() };
    let offered = "S: 220 mx\nC: EHLO weir.test\nS: 250-mx | 250-PIPELINING | 250 STARTTLS\nC: STARTTLS\n";
    let both = "1 deferred connection closed at MAIL; 2 deferred connection closed at MAIL";
    check(
        with(StartTls::Required),
        &format!("{offered}S: 220 go\nT: -\nC: EHLO weir.test\nS: 250-mx | 250 PIPELINING\n{GROUP}"),
        both,
    );
    check(with(StartTls::Offered), &format!("{offered}S: 454 no\n{GROUP}"), both);
    check(with(StartTls::Required), &format!("{offered}S: 454 no"), "");
    check(with(StartTls::Required), HELLO, "");
    check(with(StartTls::Offered), &format!("{HELLO}{GROUP}"), both);
}
