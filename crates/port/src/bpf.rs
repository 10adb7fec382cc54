//! Loading eBPF programs, attaching them to interfaces, mapping their memory, running them.
//!
//! The only module that knows libbpf. Everything is released by closing file descriptors, so that nothing
//! of it outlives the process, whatever ends it.

use std::ffi::{CStr, c_void};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::ptr::NonNull;

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

use crate::refusal;
use crate::shared::Shared;

pub mod congestion;
mod slot;

pub use slot::{SLOW_CALL, Slot};

/// Objects, compiled from `bpf/*.bpf.c` by `bpf/build`.
pub mod object {
    /// Bytes aligned as the ELF reader wants them.
    #[repr(align(8))]
    pub struct Aligned<T: ?Sized>(pub T);
    /// Frame generator.
    pub static GENERATOR: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/gen.bpf.o"));
    /// Frame receiver.
    pub static RECEIVER: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/recv.bpf.o"));
    /// Frame receiver behind a NAT.
    pub static NAT_RECEIVER: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/nat.bpf.o"));
    /// Both ends of TCP connections through a NAT.
    pub static TCP: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/tcp.bpf.o"));
    /// NAT without state that does wrong on request.
    pub static PREFIX_NAT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/prefix.bpf.o"));
    /// Sink.
    pub static DROP: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/drop.bpf.o"));
    /// Counter of frames.
    pub(crate) static COUNT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/count.bpf.o"));
    /// Hands frames to AF_XDP sockets.
    pub static XSK: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/xsk.bpf.o"));
    /// Hands frames to the AF_XDP sockets of a node.
    pub static NODE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/node.bpf.o"));
    /// Fast path of a node.
    pub(crate) static FAST: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/fast.bpf.o"));
    /// What a frame costs on the fast path.
    pub(crate) static FAST_BENCH: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/fastbench.bpf.o"));
    /// Hands frames to the stack of the machine.
    pub(crate) static PASS: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/pass.bpf.o"));
    /// Has frames of a node leave.
    pub(crate) static LEAVE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/leave.bpf.o"));
    /// Router.
    pub static FORWARD: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/forward.bpf.o"));
    /// Notes when CPUs are idle.
    pub static IDLE: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/idle.bpf.o"));
    /// DCTCP.
    pub(crate) static DCTCP: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/dctcp.bpf.o"));
    /// BBR version 2.
    pub(crate) static BBR2: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/bbr2.bpf.o"));
    /// BBR version 3.
    pub(crate) static BBR3: &Aligned<[u8]> = &Aligned(*include_bytes!("../../../bpf/bbr3.bpf.o"));

    /// All but the congestion controls, with what they are.
    pub static ALL: [(&str, &Aligned<[u8]>); 15] = [
        ("generator", GENERATOR),
        ("receiver", RECEIVER),
        ("receiver behind a NAT", NAT_RECEIVER),
        ("ends of TCP connections", TCP),
        ("NAT without state", PREFIX_NAT),
        ("sink", DROP),
        ("counter of frames", COUNT),
        ("AF_XDP redirector", XSK),
        ("AF_XDP redirector of a node", NODE),
        ("fast path of a node", FAST),
        ("cost of the fast path", FAST_BENCH),
        ("program that passes frames on", PASS),
        ("program by which frames leave", LEAVE),
        ("router", FORWARD),
        ("witness of idle CPUs", IDLE),
    ];
}

/// What went wrong with an eBPF program.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The kernel or libbpf refused an object.
    #[error("the kernel ({}) refused the eBPF {what}: {source}{}", refusal::kernel(), load_hint(.source, .report))]
    Load {
        /// Which program.
        what: &'static str,
        /// libbpf's error.
        source: libbpf_rs::Error,
        /// Where it is written what the verifier said.
        report: Option<PathBuf>,
    },
    /// Attaching failed.
    #[error("cannot attach an XDP program to interface {ifindex}: {source}{}", attach_hint(.source))]
    Attach {
        /// Interface index.
        ifindex: u32,
        /// Kernel's error.
        source: io::Error,
    },
    /// The kernel has no such tracepoint, or we may not use it.
    #[error(
        "cannot attach an eBPF program to the tracepoint {name:?}: {source} (needs CAP_PERFMON: run as root)"
    )]
    Trace {
        /// Name of the tracepoint.
        name: &'static CStr,
        /// Kernel's error.
        source: io::Error,
    },
    /// The kernel does not take a congestion control.
    #[error(
        "the kernel ({}) does not take the congestion control {name}: {source} (that needs root, and Linux {needs} or newer with \
         BTF){}",
        refusal::kernel(), report_hint(.report)
    )]
    Register {
        /// Name that it would have had.
        name: String,
        /// The first kernel that takes it.
        needs: &'static str,
        /// libbpf's error.
        source: libbpf_rs::Error,
        /// Where it is written what the verifier said.
        report: Option<PathBuf>,
    },
    /// Running a program failed.
    #[error(
        "the kernel ({release}) runs no XDP program on live frames: {0} (that needs Linux 5.18 or newer, and frames of at most \
         3392 bytes)",
        release = refusal::kernel()
    )]
    Run(io::Error),
    /// A map could not be read, written or mapped.
    #[error("eBPF map {name}: {source}")]
    Map {
        /// Name of the map.
        name: &'static str,
        /// Kernel's error.
        source: io::Error,
    },
}

fn load_hint(error: &libbpf_rs::Error, report: &Option<PathBuf>) -> String {
    match (report, error.kind()) {
        (Some(_), _) => report_hint(report),
        (None, libbpf_rs::ErrorKind::PermissionDenied) => {
            " (needs CAP_BPF and CAP_NET_ADMIN: run as root)".into()
        }
        (None, libbpf_rs::ErrorKind::InvalidInput) => " (Linux 5.18 or newer has what it needs)".into(),
        _ => String::new(),
    }
}

fn report_hint(report: &Option<PathBuf>) -> String {
    let hint = |path: &PathBuf| format!("; what its verifier said is in {}", path.display());
    report.as_ref().map_or_else(String::new, hint)
}

fn attach_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY) => {
            " (another XDP program is attached; remove it with `ip link set dev IF xdp off`)"
        }
        Some(libc::EPERM) => " (run as root)",
        Some(libc::EOPNOTSUPP) => " (the driver has no native XDP)",
        Some(libc::ERANGE | libc::EINVAL) => " (the driver refuses it: MTU too large, or too few queues)",
        _ => "",
    }
}

/// A loaded object with one program.
pub struct Program {
    object: Object,
    name: &'static str,
}

impl Program {
    /// Loads `bytes`; `entries` sets the sizes of its maps by name.
    pub fn load(
        what: &'static str,
        bytes: &'static object::Aligned<[u8]>,
        entries: &[(&str, u32)],
    ) -> Result<Self, BpfError> {
        Program::load_with(what, bytes, entries, |_| None)
    }

    /// The same; maps with these names are those of another program.
    pub(crate) fn load_sharing(
        what: &'static str,
        bytes: &'static object::Aligned<[u8]>,
        entries: &[(&str, u32)],
        other: &Program,
        names: &[&str],
    ) -> Result<Self, BpfError> {
        Program::load_with(what, bytes, entries, |name| names.contains(&name).then(|| other.map(name)))
    }

    fn load_with<'p>(
        what: &'static str,
        bytes: &'static object::Aligned<[u8]>,
        entries: &[(&str, u32)],
        shared: impl Fn(&str) -> Option<libbpf_rs::Map<'p>>,
    ) -> Result<Self, BpfError> {
        refusal::listen();
        let fail = |source| BpfError::Load { what, report: refusal::keep(what, &source), source };
        let mut builder = ObjectBuilder::default();
        let mut open = builder.open_memory(&bytes.0).map_err(fail)?;
        for mut map in open.maps_mut() {
            if let Some((_, n)) = entries.iter().find(|(name, _)| map.name() == *name) {
                map.set_max_entries(*n).map_err(fail)?;
            }
            if let Some(other) = map.name().to_str().and_then(&shared) {
                map.reuse_fd(other.as_fd()).map_err(fail)?;
            }
        }
        Ok(Program { object: open.load().map_err(fail)?, name: what })
    }

    fn fd(&self) -> RawFd {
        self.object.progs().next().expect("each object holds one program").as_fd().as_raw_fd()
    }

    fn map(&self, name: &str) -> libbpf_rs::Map<'_> {
        self.object
            .maps()
            .find(|map| map.name().to_string_lossy().ends_with(name))
            .unwrap_or_else(|| panic!("{} has no map {name}", self.name))
    }

    /// Attaches the program to an interface of the calling thread's network namespace; dropping the link
    /// detaches it.
    pub fn attach(&self, ifindex: u32, mode: Mode) -> Result<Link, BpfError> {
        // SAFETY: all-zero is a valid bpf_link_create_opts; sz and flags are set below.
        let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.flags = match mode {
            Mode::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Mode::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
        };
        // SAFETY: plain integers and a pointer to options that lives through the call.
        let fd =
            unsafe { libbpf_sys::bpf_link_create(self.fd(), ifindex as i32, libbpf_sys::BPF_XDP, &options) };
        Link::of(fd).map_err(|source| BpfError::Attach { ifindex, source })
    }

    /// Has the program run at a tracepoint of the kernel, on all CPUs; dropping the link ends that.
    pub(crate) fn attach_tracepoint(&self, name: &'static CStr) -> Result<Link, BpfError> {
        // SAFETY: the name lives for ever.
        let fd = unsafe { libbpf_sys::bpf_raw_tracepoint_open(name.as_ptr(), self.fd()) };
        Link::of(fd).map_err(|source| BpfError::Trace { name, source })
    }

    /// Maps a memory-mappable array (or `.bss`) of `T` entries.
    pub fn memory<T: Shared>(&self, name: &'static str, entries: usize) -> Result<Memory<T>, BpfError> {
        Memory::map(self.map(name).as_fd().as_raw_fd(), entries)
            .map_err(|source| BpfError::Map { name, source })
    }

    /// Reads entry `key` of a per-CPU array: one value per possible CPU.
    pub fn read_per_cpu<T: Shared>(&self, name: &'static str, key: u32) -> Result<Vec<T>, BpfError> {
        let values =
            self.map(name).lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY).map_err(map_error(name))?;
        Ok(values.unwrap_or_default().iter().map(|bytes| from_bytes(bytes)).collect())
    }

    /// Sets entry `key` of a per-CPU array on all CPUs.
    pub fn write_per_cpu<T: Shared>(&self, name: &'static str, key: u32, value: &T) -> Result<(), BpfError> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(map_error(name))?;
        let values = vec![as_bytes(value).to_vec(); cpus];
        self.map(name).update_percpu(&key.to_ne_bytes(), &values, MapFlags::ANY).map_err(map_error(name))
    }

    /// Sets entry `key` of an array.
    pub fn write<T: Shared>(&self, name: &'static str, key: u32, value: &T) -> Result<(), BpfError> {
        self.map(name).update(&key.to_ne_bytes(), as_bytes(value), MapFlags::ANY).map_err(map_error(name))
    }

    /// Puts a socket into entry `key` of a map of sockets.
    pub(crate) fn set_socket(
        &self,
        name: &'static str,
        key: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<(), BpfError> {
        let value = socket.as_raw_fd().to_ne_bytes();
        self.map(name).update(&key.to_ne_bytes(), &value, MapFlags::ANY).map_err(map_error(name))
    }

    /// Empties entry `key` of a map of sockets.
    pub(crate) fn remove_socket(&self, name: &'static str, key: u32) -> Result<(), BpfError> {
        self.map(name).delete(&key.to_ne_bytes()).map_err(map_error(name))
    }

    /// Reads entry `key` of an array.
    pub fn read<T: Shared>(&self, name: &'static str, key: u32) -> Result<T, BpfError> {
        let value = self.map(name).lookup(&key.to_ne_bytes(), MapFlags::ANY).map_err(map_error(name))?;
        let missing = || BpfError::Map { name, source: io::ErrorKind::NotFound.into() };
        value.map(|bytes| from_bytes(&bytes)).ok_or_else(missing)
    }

    /// Runs the program `repeat` times on live frames that hold `frame` at first, `batch` at a time.
    /// Returns early, with success, when a signal arrives.
    pub fn run_live(&self, frame: &[u8], repeat: u32, batch: u32) -> Result<(), BpfError> {
        // SAFETY: all-zero is a valid bpf_test_run_opts.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.data_in = frame.as_ptr().cast::<c_void>();
        options.data_size_in = frame.len() as u32;
        options.repeat = repeat as i32;
        options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
        options.batch_size = batch;
        self.test_run(&mut options)
    }

    /// Runs the program once on a live frame that came in by the first queue of an interface of the calling thread's
    /// network namespace, which has an XDP program attached in the driver.
    pub fn run_at(&self, frame: &[u8], ifindex: u32) -> Result<(), BpfError> {
        let context = libbpf_sys::xdp_md {
            data: 0,
            data_end: frame.len() as u32,
            data_meta: 0,
            ingress_ifindex: ifindex,
            rx_queue_index: 0,
            egress_ifindex: 0,
        };
        // SAFETY: all-zero is a valid bpf_test_run_opts.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.data_in = frame.as_ptr().cast::<c_void>();
        options.data_size_in = frame.len() as u32;
        options.ctx_in = std::ptr::from_ref(&context).cast();
        options.ctx_size_in = size_of_val(&context) as u32;
        options.repeat = 1;
        options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
        options.batch_size = 1;
        self.test_run(&mut options)
    }

    /// Runs the program on a frame in memory of our own; returns its verdict, and the frame as it left it.
    pub(crate) fn run_on(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), BpfError> {
        let mut out = vec![0; frame.len()];
        // SAFETY: all-zero is a valid bpf_test_run_opts.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.data_in = frame.as_ptr().cast::<c_void>();
        options.data_size_in = frame.len() as u32;
        options.data_out = out.as_mut_ptr().cast::<c_void>();
        options.data_size_out = out.len() as u32;
        options.repeat = 1;
        self.test_run(&mut options)?;
        out.truncate(options.data_size_out as usize);
        Ok((options.retval, out))
    }

    /// Runs the program so often, one after the other, on one frame in memory of our own; returns the ns of a run.
    pub(crate) fn run_many(&self, frame: &[u8], repeat: u32) -> Result<u32, BpfError> {
        // SAFETY: all-zero is a valid bpf_test_run_opts.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.data_in = frame.as_ptr().cast::<c_void>();
        options.data_size_in = frame.len() as u32;
        options.repeat = repeat as i32;
        self.test_run(&mut options)?;
        Ok(options.duration)
    }

    fn test_run(&self, options: &mut libbpf_sys::bpf_test_run_opts) -> Result<(), BpfError> {
        // SAFETY: what goes in and comes out points to as many bytes as it says, which live through the call, as all callers
        // see to.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd(), options) };
        match -result {
            0 | libc::EINTR => Ok(()),
            code => Err(BpfError::Run(io::Error::from_raw_os_error(code))),
        }
    }
}

/// Runs a program that drops what it gets on a live frame.
///
/// # Errors
/// [`BpfError::Run`] if the kernel has no live frames.
pub fn try_live_frames() -> Result<(), BpfError> {
    Program::load("sink", object::DROP, &[])?.run_live(&[0; 60], 1, 1)
}

/// How an XDP program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the kernel's receive path, after a socket buffer exists.
    Generic,
}

/// Keeps a program attached.
#[derive(Debug)]
pub struct Link(#[allow(dead_code, reason = "closing it detaches the program")] OwnedFd);

impl Link {
    /// Of what libbpf has just returned: a descriptor, or a negative error.
    fn of(fd: RawFd) -> io::Result<Link> {
        if fd < 0 {
            return Err(io::Error::from_raw_os_error(-fd));
        }
        // SAFETY: the kernel has just returned this descriptor, and it has no other owner.
        Ok(Link(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// An array of `T` that an eBPF program shares with us.
///
/// The kernel side writes at any time, so there are no references into it: values are copied in and out
/// with volatile accesses. Single fields are at most 8 bytes and aligned, so each is whole.
pub struct Memory<T: Shared> {
    start: NonNull<T>,
    entries: usize,
    bytes: usize,
    of: PhantomData<T>,
}

// SAFETY: all access is volatile copying; there is no reference that a second thread could invalidate.
unsafe impl<T: Shared> Send for Memory<T> {}
// SAFETY: as above; values torn between fields are the caller's business, as with any counter.
unsafe impl<T: Shared> Sync for Memory<T> {}

impl<T: Shared> Memory<T> {
    fn map(fd: RawFd, entries: usize) -> io::Result<Self> {
        let page = 4096;
        let bytes = (entries * size_of::<T>()).next_multiple_of(page);
        // SAFETY: a fresh shared mapping of a map's memory; the kernel checks length and flags.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<T>()).expect("mmap returns no null");
        Ok(Memory { start, entries, bytes, of: PhantomData })
    }

    /// Pointer to entry `i`, for access to single fields with `read`/`write` of [`std::ptr`].
    fn at(&self, i: usize) -> *mut T {
        assert!(i < self.entries, "entry {i} of {}", self.entries);
        // SAFETY: within the mapping, by the assertion and the length chosen in map().
        unsafe { self.start.as_ptr().add(i) }
    }

    /// Number of entries, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Copies entry `i` out.
    pub fn get(&self, i: usize) -> T {
        // SAFETY: valid, aligned (page start, repr(C) size), and any bit pattern is a T.
        unsafe { self.at(i).read_volatile() }
    }

    /// Copies `value` into entry `i`.
    pub fn set(&self, i: usize, value: &T) {
        // SAFETY: as in get().
        unsafe { self.at(i).write_volatile(*value) }
    }

    /// Copies bytes to the beginning of entry `i`.
    pub fn fill(&self, i: usize, bytes: &[u8]) {
        assert!(bytes.len() <= size_of::<T>(), "{} bytes in an entry", bytes.len());
        // SAFETY: within the entry; a T may hold any bytes, and what is copied from is borrowed memory of our own.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(i).cast(), bytes.len()) }
    }

    /// Where a field of entry `i` is.
    fn place<F: Shared>(&self, i: usize, field: Field<T, F>) -> *mut F {
        // Whatever a field says of itself: it is within the entry, and aligned as the entry is.
        let is_within = field.offset + size_of::<F>() <= size_of::<T>();
        assert!(
            is_within && align_of::<F>() <= align_of::<T>() && field.offset.is_multiple_of(align_of::<F>())
        );
        // SAFETY: within entry i, by the assertion.
        unsafe { self.at(i).byte_add(field.offset).cast() }
    }

    /// Copies one field of entry `i` out.
    pub fn field<F: Shared>(&self, i: usize, field: Field<T, F>) -> F {
        // SAFETY: valid and aligned, as place() says, and any bit pattern is an F.
        unsafe { self.place(i, field).read_volatile() }
    }

    /// Sets one field of entry `i`.
    pub fn set_field<F: Shared>(&self, i: usize, value: F, field: Field<T, F>) {
        // SAFETY: as in field().
        unsafe { self.place(i, field).write_volatile(value) }
    }
}

/// A field of type `F` of a shared `T`, made by [`field!`](crate::field).
#[derive(Debug)]
pub struct Field<T, F> {
    offset: usize,
    of: PhantomData<fn(T) -> F>,
}

impl<T, F> Field<T, F> {
    /// The field at this offset; the function, which is not called, says what type it has.
    pub const fn at(offset: usize, _of: fn(&T) -> &F) -> Field<T, F> {
        Field { offset, of: PhantomData }
    }

    /// A field of this field.
    pub fn then<G>(self, inner: Field<F, G>) -> Field<T, G> {
        Field { offset: self.offset + inner.offset, of: PhantomData }
    }
}

impl<T, E, const N: usize> Field<T, [E; N]> {
    /// An entry of this array.
    pub fn entry(self, i: usize) -> Field<T, E> {
        assert!(i < N, "entry {i} of {N}");
        Field { offset: self.offset + i * size_of::<E>(), of: PhantomData }
    }
}

/// `field!(Structure, name)`: a field of a structure, for [`Memory`](crate::bpf::Memory).
#[macro_export]
macro_rules! field {
    ($of:ty, $name:ident) => {
        $crate::bpf::Field::<$of, _>::at(::std::mem::offset_of!($of, $name), |of| &of.$name)
    };
}

impl<T: Shared> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: start and bytes are those of the mapping made in map(); no reference into it exists.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn as_bytes<T: Shared>(value: &T) -> &[u8] {
    // SAFETY: Shared types are integers without padding, so each byte is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn from_bytes<T: Shared>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "the kernel's value is shorter than ours");
    // SAFETY: long enough, any bit pattern is a T, and the read does not need alignment.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

fn map_error(name: &'static str) -> impl FnOnce(libbpf_rs::Error) -> BpfError {
    move |error| BpfError::Map { name, source: io::Error::other(error.to_string()) }
}

/// CLOCK_MONOTONIC in ns, the clock of all signatures.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
