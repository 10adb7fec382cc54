//! The option negotiation automaton: events, actions and states of RFC 1661, section 4, as one function.
//!
//! Its test reads the table of section 4.1 as the RFC prints it and compares all 160 cells.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

/// State of a protocol (section 4.2), with its number in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum State {
    /// The layer below is down, and no one has opened this one.
    #[default]
    Initial,
    /// The layer below is down; this one was opened.
    Starting,
    /// The layer below is up; this one was not opened.
    Closed,
    /// Negotiation has ended; it begins again when the peer asks.
    Stopped,
    /// Terminate-Request was sent, after a close.
    Closing,
    /// Terminate-Request was sent, but the layer is open.
    Stopping,
    /// Configure-Request was sent.
    ReqSent,
    /// Configure-Request was sent, and was acknowledged.
    AckRcvd,
    /// Configure-Request was sent, and that of the peer acknowledged.
    AckSent,
    /// Both are acknowledged.
    Opened,
}

/// What happens (section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The layer below is up.
    Up,
    /// The layer below is down.
    Down,
    /// Traffic is wanted.
    Open,
    /// No traffic is wanted.
    Close,
    /// The restart timer has expired, with requests left (TO+).
    TimeoutLeft,
    /// The restart timer has expired, with no request left (TO-).
    TimeoutLast,
    /// Configure-Request that is acceptable (RCR+).
    GoodRequest,
    /// Configure-Request that is not (RCR-).
    BadRequest,
    /// Configure-Ack (RCA).
    Ack,
    /// Configure-Nak or Configure-Reject (RCN).
    NakOrReject,
    /// Terminate-Request (RTR).
    TerminateRequest,
    /// Terminate-Ack (RTA).
    TerminateAck,
    /// A code that is unknown (RUC).
    UnknownCode,
    /// Code-Reject or Protocol-Reject that can be lived with (RXJ+).
    HarmlessReject,
    /// Code-Reject or Protocol-Reject of what is needed (RXJ-).
    FatalReject,
    /// Echo-Request, Echo-Reply or Discard-Request (RXR).
    Echo,
}

/// What is to be done (section 4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The layer is up (tlu).
    LayerUp,
    /// The layer is down (tld).
    LayerDown,
    /// The layer below is needed (tls).
    LayerStarted,
    /// The layer below is not needed any more (tlf).
    LayerFinished,
    /// Set the restart counter (irc).
    InitRestart,
    /// Set the restart counter to 0, and wait once (zrc).
    ZeroRestart,
    /// Send Configure-Request (scr).
    SendRequest,
    /// Send Configure-Ack (sca).
    SendAck,
    /// Send Configure-Nak or Configure-Reject (scn).
    SendNak,
    /// Send Terminate-Request (str).
    SendTerminate,
    /// Send Terminate-Ack (sta).
    SendTerminateAck,
    /// Send Code-Reject (scj).
    SendCodeReject,
    /// Send Echo-Reply (ser).
    SendEchoReply,
}

/// Actions, in their order, and the next state.
pub type Transition = (&'static [Action], State);

/// What an event does in a state; `None`: it cannot happen there. No restart option, no passive option.
pub fn transition(state: State, event: Event) -> Option<Transition> {
    use Event as E;
    match event {
        E::Up => up(state),
        E::Down => down(state),
        E::Open => open(state),
        E::Close => close(state),
        E::TimeoutLeft => timeout_left(state),
        E::TimeoutLast => timeout_last(state),
        // The layer below is down: no packet can have come.
        _ if matches!(state, State::Initial | State::Starting) => None,
        E::GoodRequest | E::BadRequest => Some(request(state, event)),
        E::Ack => Some(ack(state)),
        E::NakOrReject => Some(nak(state)),
        E::TerminateRequest => Some(terminate_request(state)),
        E::TerminateAck => Some(terminate_ack(state)),
        E::UnknownCode => Some((&[Action::SendCodeReject], state)),
        E::HarmlessReject => Some(harmless_reject(state)),
        E::FatalReject => Some(fatal_reject(state)),
        E::Echo if state == State::Opened => Some((&[Action::SendEchoReply], state)),
        E::Echo => Some((&[], state)),
    }
}

fn up(state: State) -> Option<Transition> {
    use Action as A;
    match state {
        State::Initial => Some((&[], State::Closed)),
        State::Starting => Some((&[A::InitRestart, A::SendRequest], State::ReqSent)),
        _ => None,
    }
}

fn down(state: State) -> Option<Transition> {
    match state {
        State::Initial | State::Starting => None,
        State::Closed | State::Closing => Some((&[], State::Initial)),
        State::Stopped => Some((&[Action::LayerStarted], State::Starting)),
        State::Opened => Some((&[Action::LayerDown], State::Starting)),
        _ => Some((&[], State::Starting)),
    }
}

fn open(state: State) -> Option<Transition> {
    use Action as A;
    Some(match state {
        State::Initial => (&[A::LayerStarted], State::Starting),
        State::Closed => (&[A::InitRestart, A::SendRequest], State::ReqSent),
        State::Closing => (&[], State::Stopping),
        _ => (&[], state),
    })
}

fn close(state: State) -> Option<Transition> {
    use Action as A;
    Some(match state {
        State::Initial | State::Closed | State::Closing => (&[], state),
        State::Starting => (&[A::LayerFinished], State::Initial),
        State::Stopped => (&[], State::Closed),
        State::Stopping => (&[], State::Closing),
        State::Opened => (&[A::LayerDown, A::InitRestart, A::SendTerminate], State::Closing),
        _ => (&[A::InitRestart, A::SendTerminate], State::Closing),
    })
}

fn timeout_left(state: State) -> Option<Transition> {
    match state {
        State::Closing | State::Stopping => Some((&[Action::SendTerminate], state)),
        State::ReqSent | State::AckRcvd => Some((&[Action::SendRequest], State::ReqSent)),
        State::AckSent => Some((&[Action::SendRequest], state)),
        _ => None,
    }
}

fn timeout_last(state: State) -> Option<Transition> {
    match state {
        State::Closing => Some((&[Action::LayerFinished], State::Closed)),
        State::Stopping | State::ReqSent | State::AckRcvd | State::AckSent => {
            Some((&[Action::LayerFinished], State::Stopped))
        }
        _ => None,
    }
}

fn request(state: State, event: Event) -> Transition {
    use Action as A;
    let is_good = event == Event::GoodRequest;
    match state {
        State::Closed => (&[A::SendTerminateAck], state),
        State::Stopped if is_good => (&[A::InitRestart, A::SendRequest, A::SendAck], State::AckSent),
        State::Stopped => (&[A::InitRestart, A::SendRequest, A::SendNak], State::ReqSent),
        State::AckRcvd if is_good => (&[A::SendAck, A::LayerUp], State::Opened),
        State::AckRcvd => (&[A::SendNak], state),
        State::ReqSent | State::AckSent if is_good => (&[A::SendAck], State::AckSent),
        State::ReqSent | State::AckSent => (&[A::SendNak], State::ReqSent),
        State::Opened if is_good => (&[A::LayerDown, A::SendRequest, A::SendAck], State::AckSent),
        State::Opened => (&[A::LayerDown, A::SendRequest, A::SendNak], State::ReqSent),
        _ => (&[], state),
    }
}

fn ack(state: State) -> Transition {
    use Action as A;
    match state {
        State::Closed | State::Stopped => (&[A::SendTerminateAck], state),
        State::ReqSent => (&[A::InitRestart], State::AckRcvd),
        State::AckRcvd => (&[A::SendRequest], State::ReqSent),
        State::AckSent => (&[A::InitRestart, A::LayerUp], State::Opened),
        State::Opened => (&[A::LayerDown, A::SendRequest], State::ReqSent),
        _ => (&[], state),
    }
}

fn nak(state: State) -> Transition {
    use Action as A;
    match state {
        State::Closed | State::Stopped => (&[A::SendTerminateAck], state),
        State::ReqSent => (&[A::InitRestart, A::SendRequest], state),
        State::AckRcvd => (&[A::SendRequest], State::ReqSent),
        State::AckSent => (&[A::InitRestart, A::SendRequest], state),
        State::Opened => (&[A::LayerDown, A::SendRequest], State::ReqSent),
        _ => (&[], state),
    }
}

fn terminate_request(state: State) -> Transition {
    use Action as A;
    match state {
        State::AckRcvd | State::AckSent => (&[A::SendTerminateAck], State::ReqSent),
        State::Opened => (&[A::LayerDown, A::ZeroRestart, A::SendTerminateAck], State::Stopping),
        _ => (&[A::SendTerminateAck], state),
    }
}

fn terminate_ack(state: State) -> Transition {
    use Action as A;
    match state {
        State::Closing => (&[A::LayerFinished], State::Closed),
        State::Stopping => (&[A::LayerFinished], State::Stopped),
        State::AckRcvd => (&[], State::ReqSent),
        State::Opened => (&[A::LayerDown, A::SendRequest], State::ReqSent),
        _ => (&[], state),
    }
}

fn harmless_reject(state: State) -> Transition {
    if state == State::AckRcvd { (&[], State::ReqSent) } else { (&[], state) }
}

fn fatal_reject(state: State) -> Transition {
    use Action as A;
    match state {
        State::Closed | State::Closing => (&[A::LayerFinished], State::Closed),
        State::Opened => (&[A::LayerDown, A::InitRestart, A::SendTerminate], State::Stopping),
        _ => (&[A::LayerFinished], State::Stopped),
    }
}

#[cfg(test)]
mod tests;
