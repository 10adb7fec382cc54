//! Anonymous network namespaces: one worker thread each, that lives in the namespace and runs closures.
//!
//! ```text
//! caller --run(closure)--> worker thread [own netns, own mounts, own /sys] --result--> caller
//! ```
//! Invariant: nothing but threads and descriptors of this process holds the namespace, so it vanishes
//! with the process, SIGKILL included.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle, ThreadId};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Error, Result};
use crate::rtnl::Rtnl;
use crate::sys;

type Job = Box<dyn FnOnce() + Send>;

/// A handle to a network namespace. Clones share it; the last one ends its thread.
#[derive(Clone)]
pub struct Namespace {
    shared: Arc<Shared>,
}

struct Shared {
    net: OwnedFd,
    worker: ThreadId,
    fresh_sysfs: bool,
    // Dropped first, which ends the worker's loop; then the thread is joined.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// What the worker finds after it has moved into its namespace.
struct Entered {
    net: OwnedFd,
    fresh_sysfs: bool,
}

impl Namespace {
    /// A new namespace with `lo` up and, where the kernel allows it, a /sys that shows its devices.
    ///
    /// # Errors
    /// [`Error::NoNamespace`] without CAP_SYS_ADMIN in the user namespace.
    pub fn new() -> Result<Namespace> {
        Namespace::start(enter_new)
    }

    /// The namespace in which this thread is.
    pub fn current() -> Result<Namespace> {
        // A new thread inherits the namespaces of the one that starts it.
        Namespace::start(|| {
            let net = std::fs::File::open("/proc/thread-self/ns/net");
            let net = net.map_err(Error::os("/proc/thread-self/ns/net"))?.into();
            Ok(Entered { net, fresh_sysfs: false })
        })
    }

    fn start(enter: impl FnOnce() -> Result<Entered> + Send + 'static) -> Result<Namespace> {
        let (jobs, queue) = channel::<Job>();
        let (ready, entered) = channel();
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn(move || {
                let entered = enter();
                let failed = entered.is_err();
                if ready.send(entered).is_err() || failed {
                    return;
                }
                queue.into_iter().for_each(|job| job());
            })
            .map_err(Error::os("start the thread of a namespace"))?;
        let entered = entered.recv().expect("the worker reports before it ends")?;
        let shared = Shared {
            net: entered.net,
            worker: thread.thread().id(),
            fresh_sysfs: entered.fresh_sysfs,
            jobs: Some(jobs),
            thread: Some(thread),
        };
        Ok(Namespace { shared: Arc::new(shared) })
    }

    /// Runs a closure on the namespace's thread and waits for its result. Calls from different threads
    /// alternate; a call from inside `run` is run in place. A panic comes back to the caller.
    pub fn run<'a, R: Send + 'a>(&self, f: impl FnOnce() -> R + Send + 'a) -> R {
        if thread::current().id() == self.shared.worker {
            return f();
        }
        let (reply, result) = channel::<std::result::Result<R, Box<dyn Any + Send>>>();
        let job: Box<dyn FnOnce() + Send + 'a> = Box::new(move || {
            let _ = reply.send(catch_unwind(AssertUnwindSafe(f)));
        });
        // SAFETY: only the lifetime changes. The job is run or dropped before `recv` returns: `reply` lives
        // in the job, and `recv` waits until it has sent (the last thing the job does with borrowed data,
        // since `f` is consumed by then) or was dropped. So no borrow of 'a is used after this call.
        let job: Job = unsafe { std::mem::transmute(job) };
        self.shared.jobs.as_ref().expect("open until drop").send(job).expect("the worker lives");
        match result.recv().expect("the worker runs each job") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Starts a thread in this namespace. It keeps the namespace alive while it runs.
    pub fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<R>> {
        // A new thread inherits the namespaces of the thread that starts it.
        self.run(move || thread::Builder::new().name(name.into()).spawn(f))
            .map_err(Error::os(format!("start thread {name}")))
    }

    /// The network namespace, as IFLA_NET_NS_FD and setns(2) want it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.net.as_fd()
    }

    /// Moves the calling thread into this network namespace, for good: for threads of one's own.
    /// /proc/sys/net and new sockets follow; /sys/class/net, a mount, does not.
    pub fn enter(&self) -> Result<()> {
        let entered = move_into_link_name_space(self.fd(), Some(LinkNameSpaceType::Network));
        entered.map_err(|error| Error::os("enter a namespace")(error.into()))
    }

    /// Whether /sys inside [`Namespace::run`] shows this namespace's devices.
    pub fn has_sysfs(&self) -> bool {
        self.shared.fresh_sysfs
    }

    /// Number of the namespace, as `ls -L -i /run/netns/NAME` shows it.
    pub fn inode(&self) -> Result<u64> {
        use std::os::unix::fs::MetadataExt;
        let path = format!("/proc/self/fd/{}", self.fd().as_raw_fd());
        Ok(std::fs::metadata(&path).map_err(Error::os(path))?.ino())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.jobs.take());
        // The last handle may be dropped by a job of the worker itself, which cannot wait for its own end.
        if thread::current().id() != self.worker {
            let _ = self.thread.take().expect("joined once").join();
        }
    }
}

/// Moves the calling thread into new namespaces.
fn enter_new() -> Result<Entered> {
    sys::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS).map_err(Error::NoNamespace)?;
    let own_mounts = own_mounts().is_ok();
    let fresh_sysfs = own_mounts && mount_sysfs().is_ok();
    if own_mounts {
        mount_proc_if_read_only();
    }
    let net =
        std::fs::File::open("/proc/thread-self/ns/net").map_err(Error::os("/proc/thread-self/ns/net"))?;
    let mut rtnl = Rtnl::open()?;
    let lo = rtnl.link("lo")?.ifindex;
    rtnl.set_up(lo, true)?;
    Ok(Entered { net: net.into(), fresh_sysfs })
}

/// What is mounted from now on is seen by this thread's children only.
fn own_mounts() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

const NO_PROGRAMS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// A /sys that shows the devices of this thread's network namespace.
fn mount_sysfs() -> io::Result<()> {
    Ok(mount("none", "/sys", "sysfs", NO_PROGRAMS, c"")?)
}

/// The settings of this thread's network namespace, where those of a container are read-only. If it fails, the caller that
/// writes a setting says so.
fn mount_proc_if_read_only() {
    let setting = std::fs::OpenOptions::new().write(true).open("/proc/sys/net/ipv4/ip_forward");
    if setting.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem) {
        let _ = mount("none", "/proc", "proc", NO_PROGRAMS, c"");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::mount::mount_bind;

    use super::*;
    use weir_testkit::need_root;

    #[test]
    fn closures_run_inside_and_borrow_from_outside() {
        need_root!();
        let ns = Namespace::new().unwrap();
        let mut seen = Vec::new();
        let inner = ns.run(|| {
            seen.extend(std::fs::read_dir("/sys/class/net").unwrap().map(|e| e.unwrap().file_name()));
            std::fs::read_link("/proc/thread-self/ns/net").unwrap()
        });
        assert_eq!(seen, ["lo"]);
        assert_ne!(inner, std::fs::read_link("/proc/thread-self/ns/net").unwrap());
        let spawned = ns.spawn("child", || std::fs::read_link("/proc/thread-self/ns/net").unwrap()).unwrap();
        assert_eq!(spawned.join().unwrap(), inner);
        let entered = thread::scope(|scope| {
            scope.spawn(|| ns.enter().map(|()| std::fs::read_link("/proc/thread-self/ns/net"))).join()
        });
        assert_eq!(entered.unwrap().unwrap().unwrap(), inner);
        assert_eq!(ns.run(|| ns.run(|| 7)), 7, "nested calls run in place");
    }

    /// As in a container, whose /proc/sys is mounted on itself, without the right to write.
    #[test]
    fn settings_can_be_written_where_those_of_the_machine_cannot() {
        need_root!();
        let (container, sysctls) = (Namespace::new().unwrap(), Path::new("/proc/sys"));
        container.run(|| {
            mount_bind(sysctls, sysctls).unwrap();
            rustix::mount::mount_remount(sysctls, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
            let write = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            assert_eq!(write().unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
            Namespace::new().unwrap().run(write).unwrap();
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_worker_survives() {
        need_root!();
        let ns = Namespace::new().unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| ns.run(|| panic!("inside"))));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"inside"));
        assert_eq!(ns.run(|| 1), 1);
    }
}
