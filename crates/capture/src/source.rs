//! An interface with its capture queues: the selected method, and the reason.

use weir_linux::error::Error;
use weir_linux::rtnl::{Link, LinkStats, Rtnl};
use weir_port::capture::{CaptureError, Method, Options, Queue};

use crate::filter::{self, FilterError};
use crate::interface;

/// What is wanted of an interface.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Which way; `None` is the best one that can be had.
    pub method: Option<Method>,
    /// How.
    pub options: Options,
    /// Which frames, in the language of tcpdump; all if it is empty.
    pub filter: String,
}

/// Why an interface cannot be captured from.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The filter.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The kernel.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The interface.
    #[error(transparent)]
    Interface(#[from] Error),
}

/// An interface that is captured from. Frames arrive since it was opened.
pub struct Source {
    /// The interface.
    pub link: Link,
    /// The way.
    pub method: Method,
    /// What the kernel has granted and why this way was taken, in words.
    pub reason: String,
    /// What may keep frames from arriving, each with its remedy.
    pub obstacles: Vec<String>,
    pub(crate) wanted: Wanted,
    pub(crate) queues: Vec<Box<dyn Queue>>,
    pub(crate) rtnl: Rtnl,
    /// The interface's counters just before and just after the queues were opened.
    pub(crate) start: [LinkStats; 2],
}

impl Source {
    /// Opens an interface of the calling thread's network namespace.
    pub fn open(link: &Link, wanted: Wanted) -> Result<Source, SourceError> {
        let mut rtnl = Rtnl::open()?;
        let mut obstacles = interface::obstacles(link);
        let (method, start, queues, why) = match wanted.method {
            Some(method) => {
                let start = interface::counters(&mut rtnl, link)?;
                (method, start, open(method, link, &wanted)?, "as asked for".to_string())
            }
            None => best(&mut rtnl, link, &wanted)?,
        };
        let start = [start, interface::counters(&mut rtnl, link)?];
        if method.steals() && interface::carries_own_traffic(&mut rtnl, link) {
            obstacles.push(format!(
                "with {method} the network stack of this machine gets no frames of {}, although it has an address there",
                link.name
            ));
        }
        if wanted.options.busy_poll {
            obstacles.extend(interface::poll_obstacle(link));
        }
        let granted = queues.first().map(|queue| queue.granted());
        if is_generic(&queues) {
            obstacles.push(format!(
                "the driver of {} has no XDP, and in the kernel's receive path {method} is no faster than a ring: omit --method",
                link.name
            ));
        }
        let reason = granted.map_or(why.clone(), |granted| {
            let (memory, queues) = (granted.memory * queues.len() as u64 / 1024, queues.len());
            format!("{}, {queues} queue(s), {memory} KiB of buffer; {why}", granted.method)
        });
        Ok(Source { link: link.clone(), method, reason, obstacles, wanted, queues, rtnl, start })
    }

    /// Only its queues, for callers without accounting.
    pub fn into_queues(self) -> Vec<Box<dyn Queue>> {
        self.queues
    }
}

type Opened = (Method, LinkStats, Vec<Box<dyn Queue>>, String);

/// The best way that works here, and why it was taken.
fn best(rtnl: &mut Rtnl, link: &Link, wanted: &Wanted) -> Result<Opened, SourceError> {
    let own = interface::carries_own_traffic(rtnl, link);
    let (mut why, mut last) = (Vec::new(), None);
    for method in preferred(link, wanted.options.sockets) {
        if method.steals() && own {
            why.push(format!(
                "with {method} this machine would get no frames of {}, which it uses",
                link.name
            ));
            continue;
        }
        let start = interface::counters(rtnl, link)?;
        match open(method, link, wanted) {
            Ok(queues) if is_generic(&queues) => {
                why.push(format!("not {method}: the driver of {} has no XDP", link.name));
            }
            Ok(queues) => {
                let why = if why.is_empty() { "the fastest method".to_string() } else { why.join("; ") };
                return Ok((method, start, queues, why));
            }
            // No other way would do.
            Err(error @ (SourceError::Filter(_) | SourceError::Capture(CaptureError::NoInterface(_)))) => {
                return Err(error);
            }
            Err(error) => {
                why.push(format!("not {method}: {error}"));
                last = Some(error);
            }
        }
    }
    Err(last.expect("at least one way takes no frames away, and was tried"))
}

/// Are frames taken by an XDP program in the kernel's receive path, for want of one in the driver?
fn is_generic(queues: &[Box<dyn Queue>]) -> bool {
    queues.first().is_some_and(|queue| queue.granted().method.contains("generic XDP"))
}

/// From the best on. AF_XDP is one on hardware only: a virtual interface has frames copied in either way, and a capture
/// that takes them away surprises. Before Linux 6.13 an interface that is down has no fan-out.
fn preferred(link: &Link, sockets: u16) -> Vec<Method> {
    let xdp = link.kind.is_none().then_some(Method::Xdp);
    let several = [Method::RingFanout, Method::Fanout].into_iter().filter(|_| sockets > 1);
    xdp.into_iter().chain(several).chain([Method::Ring, Method::RecvMmsg]).collect()
}

fn open(method: Method, link: &Link, wanted: &Wanted) -> Result<Vec<Box<dyn Queue>>, SourceError> {
    let mut options = wanted.options.clone();
    if !wanted.filter.is_empty() {
        let program = filter::compile(&wanted.filter, &link.name)?;
        if !method.steals() {
            filter::check_for_kernel(&wanted.filter, &program)?;
        }
        options.filter = Some(program);
    }
    Ok(method.open(&link.name, &options)?)
}
