//! The connection of a client, from the greetings to its end, in one thread.
//!
//! ```text
//!   write what is there > nothing is left > the next line, or news of subscriptions > ...
//!                       > the socket is full, or there is nothing to do > wait
//! ```
//! Invariant: a line is looked at only when all before it is written. So answers have the order of their requests, a client that
//! does not read is not read from, and no more than one answer and some notices wait for it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::answers::Reply;
use crate::hub::Ending;
use crate::request::{Ask, Greeting, Hello, Refusal, Request, Topic, Wants};

use super::lines::{Lines, TooLong};
use super::outgoing::{Outgoing, answer_line, counters_line, error_line, left_out_line, line, notice_line};
use super::places::{Place, Stage};
use super::{Limits, Served};

/// Bytes of notices that are gathered for one write.
const NOTICES_BYTES: usize = 64 << 10;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The client has not greeted.
    Greets,
    /// Requests are answered.
    Open,
    /// It ends when all is written.
    Ends,
}

/// A subscription to counters.
struct Counters {
    id: u64,
    due: Instant,
    every: Duration,
}

/// The connection of a client.
pub(super) struct Connection<'a> {
    stream: UnixStream,
    place: Place<'a>,
    served: &'a Served<'a>,
    phase: Phase,
    began: Instant,
    /// When the last line was handled.
    handled: Instant,
    lines: Lines,
    out: Outgoing,
    counters: Vec<Counters>,
}

impl<'a> Connection<'a> {
    pub(super) fn new(stream: UnixStream, place: Place<'a>, served: &'a Served<'a>) -> Connection<'a> {
        Connection {
            stream,
            place,
            served,
            phase: Phase::Greets,
            began: Instant::now(),
            handled: Instant::now(),
            lines: Lines::new(served.limits.line_bytes),
            out: Outgoing::new(),
            counters: Vec::new(),
        }
    }

    /// Serves the client to its end.
    pub(super) fn attend(mut self) {
        self.out.push(line(&Greeting::own()), Vec::new());
        // A client that has gone, or does not read, gets no more.
        let _ = self.run();
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            if let Some(ending) = self.place.mailbox.ending() {
                return self.end(&ending);
            }
            if self.out.write(&self.stream)? {
                self.lines.restart();
            }
            if self.out.is_empty() {
                if self.phase == Phase::Ends {
                    return Ok(());
                }
                if self.go_on() {
                    continue;
                }
                if self.lines.has_ended && !self.has_subscriptions() {
                    return Ok(());
                }
            }
            self.wait()?;
        }
    }

    /// Gives the reason, as far as the client takes it now: the node does not wait.
    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let why = match ending {
            Ending::Over => "connection closed: the node has ended".to_string(),
            Ending::Replaced { places } => format!(
                "connection closed: all {places} places for clients are taken, and this one was not in use; connect again"
            ),
        };
        self.out.push(error_line(None, &why.into()), Vec::new());
        self.out.write(&self.stream).map(drop)
    }

    /// Handles a line and looks for news; false: there is nothing to do.
    fn go_on(&mut self) -> bool {
        let next = self.lines.next();
        // One that has just lost its place is not answered.
        if next.is_some() && !self.place.set(self.stage_of_work()) {
            return true;
        }
        let has_handled = match next {
            Some(line) => {
                self.handle(line);
                self.handled = Instant::now();
                // Before the client can read its answer.
                self.place.set(self.stage());
                true
            }
            None => self.is_late(),
        };
        // Each of them: none waits until the others have nothing more.
        self.tell_events() | self.tell_counters() | has_handled
    }

    fn stage_of_work(&self) -> Stage {
        if self.phase == Phase::Greets { Stage::Greets } else { Stage::Busy }
    }

    /// The stage when a line has been handled.
    fn stage(&self) -> Stage {
        match self.phase {
            Phase::Open if self.lines.begun.is_none() && !self.has_subscriptions() => {
                Stage::Idle(self.handled)
            }
            _ => self.stage_of_work(),
        }
    }

    fn handle(&mut self, line: Result<Vec<u8>, TooLong>) {
        match (line, self.phase) {
            (Err(TooLong), _) => {
                let most = self.served.limits.line_bytes;
                self.close(format!("the line is longer than {most} bytes"));
            }
            (Ok(line), Phase::Greets) => match Hello::read(&line) {
                Ok(_) => self.phase = Phase::Open,
                Err(why) => self.close(why),
            },
            (Ok(line), _) => match Request::read(&line) {
                Ok(request) => self.serve(request),
                Err(wrong) => self.out.push(error_line(wrong.id, &wrong.why), Vec::new()),
            },
        }
    }

    /// Gives the reason, and ends when the client has taken it.
    fn close(&mut self, why: impl Into<Refusal>) {
        self.out.push(error_line(None, &why.into()), Vec::new());
        self.phase = Phase::Ends;
    }

    fn serve(&mut self, Request { id, wants }: Request) {
        let answered = match wants {
            Wants::Answer(ask) => self.answer(ask),
            Wants::Subscription(topic) => self.subscribe(id, topic),
            Wants::End(subscription) => self.unsubscribe(subscription),
        };
        match answered {
            Ok(reply) => self.out.push(answer_line(id, &reply), reply.fds),
            Err(why) => self.out.push(error_line(Some(id), &why), Vec::new()),
        }
    }

    fn answer(&self, ask: Ask) -> Result<Reply, Refusal> {
        // No request may end the node.
        let caught = catch_unwind(AssertUnwindSafe(|| (self.served.answer)(ask)));
        let failed = "the node failed at this request, and continues: please report it";
        caught.unwrap_or_else(|_| Err(failed.to_string().into()))
    }

    fn subscribe(&mut self, id: u64, topic: Topic) -> Result<Reply, Refusal> {
        let (mailbox, most) = (&self.place.mailbox, self.served.limits.subscriptions);
        if mailbox.has(id) || self.counters.iter().any(|one| one.id == id) {
            return Err(format!("there is a subscription {id} already: use another `id`").into());
        }
        if mailbox.subscriptions() + self.counters.len() >= most {
            return Err(format!("there are {most} subscriptions already: end one with `unsubscribe`").into());
        }
        match topic {
            Topic::Events => self.served.hub.subscribe(mailbox, id, self.served.before_events),
            Topic::Counters { interval_ms } => {
                let every = Duration::from_millis(interval_ms);
                self.counters.push(Counters { id, due: Instant::now(), every });
            }
        }
        Reply::of(&())
    }

    fn unsubscribe(&mut self, id: u64) -> Result<Reply, Refusal> {
        let before = self.counters.len();
        self.counters.retain(|one| one.id != id);
        if self.counters.len() == before && !self.served.hub.unsubscribe(&self.place.mailbox, id) {
            return Err(format!("there is no subscription {id} on this connection").into());
        }
        Reply::of(&())
    }

    fn has_subscriptions(&self) -> bool {
        !self.counters.is_empty() || self.place.mailbox.subscriptions() > 0
    }

    /// Ends the connection of a client that sends no hello, or does not end its line.
    fn is_late(&mut self) -> bool {
        let Some(deadline) = self.deadline() else { return false };
        if Instant::now() < deadline {
            return false;
        }
        let patience = self.served.limits.patience;
        self.close(match self.phase {
            Phase::Greets => {
                format!("no greeting within {patience:?}: the first line is {{\"protocol\": 1}}")
            }
            _ => format!("no complete line within {patience:?}: send a line of JSON"),
        });
        true
    }

    /// When the client must have done what it is to do next.
    fn deadline(&self) -> Option<Instant> {
        let Limits { patience, .. } = self.served.limits;
        let from = match self.phase {
            _ if !self.out.is_empty() => Some(self.out.taken),
            Phase::Greets => Some(self.began),
            _ => self.lines.begun,
        };
        from.map(|from| from + patience)
    }

    /// Writes what the mailbox has.
    fn tell_events(&mut self) -> bool {
        let mut has_told = false;
        while self.out.bytes() < NOTICES_BYTES {
            let Some(notice) = self.place.mailbox.take() else { break };
            self.out.push(notice_line(&notice), Vec::new());
            has_told = true;
        }
        has_told
    }

    /// Writes the counters that are due. Those that were due while the client did not read are left out.
    fn tell_counters(&mut self) -> bool {
        let now = Instant::now();
        let mut due: Vec<&mut Counters> = self.counters.iter_mut().filter(|one| one.due <= now).collect();
        if due.is_empty() {
            return false;
        }
        let counted = match (self.served.counters)() {
            Ok(counted) => counted,
            Err(error) => {
                self.close(error);
                return true;
            }
        };
        for Counters { id, due, every } in &mut due {
            let missed = ((now - *due).as_nanos() / every.as_nanos()) as u32;
            *due += *every * (missed + 1);
            if missed > 0 {
                self.out.push(left_out_line(*id, missed.into()), Vec::new());
            }
            self.out.push(counters_line(*id, &counted), Vec::new());
        }
        true
    }

    /// Waits until the client or another thread has something, or it is time for something; reads what has come.
    fn wait(&mut self) -> io::Result<()> {
        self.place.set(if self.out.is_empty() { self.stage() } else { self.stage_of_work() });
        let awaited = match (self.out.is_empty(), self.lines.has_ended) {
            (false, _) => PollFlags::OUT,
            (true, false) => PollFlags::IN,
            (true, true) => PollFlags::empty(),
        };
        let found = self.poll(awaited)?;
        if !self.out.is_empty() && found.is_empty() && self.deadline() <= Some(Instant::now()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if awaited.contains(PollFlags::IN) && !found.is_empty() {
            self.lines.read(&self.stream)?;
        }
        // It has ended in both directions; what it has sent before has been read.
        let has_gone = self.lines.has_ended && found.intersects(PollFlags::HUP | PollFlags::ERR);
        if has_gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }

    /// What there is of the events that the connection waits for.
    fn poll(&self, awaited: PollFlags) -> io::Result<PollFlags> {
        let next_counters = self.counters.iter().map(|one| one.due).min().filter(|_| self.out.is_empty());
        let until = [self.deadline(), next_counters].into_iter().flatten().min();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec::try_from(left).expect("a time that was computed here"));
        let mut all = [
            PollFd::from_borrowed_fd(self.stream.as_fd(), awaited),
            PollFd::from_borrowed_fd(self.place.mailbox.descriptor(), PollFlags::IN),
        ];
        match poll(&mut all, left.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(PollFlags::empty()),
            Err(error) => return Err(error.into()),
        }
        if !all[1].revents().is_empty() {
            self.place.mailbox.quiet();
        }
        Ok(all[0].revents())
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.served.hub.leave(&self.place.mailbox);
    }
}
