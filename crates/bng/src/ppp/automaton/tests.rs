//! The table of RFC 1661, section 4.1, cell by cell.

use super::*;

/// States 0 to 5, as printed.
const FIRST: &str = "
    Up   |    2     irc,scr/6     -         -         -         -
    Down |    -         -         0       tls/1       0         1
    Open |  tls/1       1     irc,scr/6     3r        5r        5r
    Close|    0       tlf/0       2         2         4         4
     TO+ |    -         -         -         -       str/4     str/5
     TO- |    -         -         -         -       tlf/2     tlf/3
    RCR+ |    -         -       sta/2 irc,scr,sca/8   4         5
    RCR- |    -         -       sta/2 irc,scr,scn/6   4         5
    RCA  |    -         -       sta/2     sta/3       4         5
    RCN  |    -         -       sta/2     sta/3       4         5
    RTR  |    -         -       sta/2     sta/3     sta/4     sta/5
    RTA  |    -         -         2         3       tlf/2     tlf/3
    RUC  |    -         -       scj/2     scj/3     scj/4     scj/5
    RXJ+ |    -         -         2         3         4         5
    RXJ- |    -         -       tlf/2     tlf/3     tlf/2     tlf/3
    RXR  |    -         -         2         3         4         5";

/// States 6 to 9, as printed.
const SECOND: &str = "
    Up   |    -         -         -           -
    Down |    1         1         1         tld/1
    Open |    6         7         8           9r
    Close|irc,str/4 irc,str/4 irc,str/4 tld,irc,str/4
     TO+ |  scr/6     scr/6     scr/8         -
     TO- | tlf/3p    tlf/3p    tlf/3p         -
    RCR+ |  sca/8   sca,tlu/9   sca/8   tld,scr,sca/8
    RCR- |  scn/6     scn/7     scn/6   tld,scr,scn/6
    RCA  |  irc/7     scr/6x  irc,tlu/9   tld,scr/6x
    RCN  |irc,scr/6   scr/6x  irc,scr/8   tld,scr/6x
    RTR  |  sta/6     sta/6     sta/6   tld,zrc,sta/5
    RTA  |    6         6         8       tld,scr/6
    RUC  |  scj/6     scj/7     scj/8       scj/9
    RXJ+ |    6         6         8           9
    RXJ- |  tlf/3     tlf/3     tlf/3   tld,irc,str/5
    RXR  |    6         7         8         ser/9";

const STATES: [State; 10] = [
    State::Initial,
    State::Starting,
    State::Closed,
    State::Stopped,
    State::Closing,
    State::Stopping,
    State::ReqSent,
    State::AckRcvd,
    State::AckSent,
    State::Opened,
];

fn event(name: &str) -> Event {
    match name {
        "Up" => Event::Up,
        "Down" => Event::Down,
        "Open" => Event::Open,
        "Close" => Event::Close,
        "TO+" => Event::TimeoutLeft,
        "TO-" => Event::TimeoutLast,
        "RCR+" => Event::GoodRequest,
        "RCR-" => Event::BadRequest,
        "RCA" => Event::Ack,
        "RCN" => Event::NakOrReject,
        "RTR" => Event::TerminateRequest,
        "RTA" => Event::TerminateAck,
        "RUC" => Event::UnknownCode,
        "RXJ+" => Event::HarmlessReject,
        "RXJ-" => Event::FatalReject,
        "RXR" => Event::Echo,
        other => panic!("{other}"),
    }
}

fn action(name: &str) -> Action {
    match name {
        "tlu" => Action::LayerUp,
        "tld" => Action::LayerDown,
        "tls" => Action::LayerStarted,
        "tlf" => Action::LayerFinished,
        "irc" => Action::InitRestart,
        "zrc" => Action::ZeroRestart,
        "scr" => Action::SendRequest,
        "sca" => Action::SendAck,
        "scn" => Action::SendNak,
        "str" => Action::SendTerminate,
        "sta" => Action::SendTerminateAck,
        "scj" => Action::SendCodeReject,
        "ser" => Action::SendEchoReply,
        other => panic!("{other}"),
    }
}

/// `irc,scr/6`; the letters behind a number name options that are not taken (r, p) or a crossed connection (x).
fn cell(text: &str) -> Option<(Vec<Action>, State)> {
    let (actions, state) = text.rsplit_once('/').unwrap_or(("", text));
    let number = state.trim_end_matches(['r', 'p', 'x']);
    let actions = actions.split(',').filter(|name| !name.is_empty()).map(action).collect();
    (text != "-").then(|| (actions, STATES[number.parse::<usize>().unwrap()]))
}

#[test]
fn l1_rfc1661_every_cell_of_the_table() {
    let mut cells = 0;
    for (table, first) in [(FIRST, 0), (SECOND, 6)] {
        for line in table.lines().filter(|line| !line.is_empty()) {
            let (name, row) = line.split_once('|').unwrap();
            for (state, text) in STATES[first..].iter().zip(row.split_whitespace()) {
                let found = transition(*state, event(name.trim()));
                let found = found.map(|(actions, state)| (actions.to_vec(), state));
                assert_eq!(found, cell(text), "{name} in {state:?}");
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 160);
}
