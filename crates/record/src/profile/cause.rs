//! Folds stacks into causes: by the innermost function that is known, since that is what was at work.

use super::Profile;

const LOCKS: &str = "locks";
const COPIES: &str = "copies";
const MEMORY: &str = "allocation";
const WAKE: &str = "wake-ups and scheduling";
const CALLS: &str = "system call entry";
const SOCKET: &str = "packet socket";
const XSK: &str = "AF_XDP socket";
const DRIVER: &str = "driver and XDP programs";
const STACK: &str = "softirq and network stack";
const TIME: &str = "clocks";
const USER: &str = Profile::USER;
const CONSUMER: &str = Profile::CONSUMER;
const OTHER: &str = "other kernel code";

/// All causes, in the order in which they are shown.
pub const CAUSES: [&str; 13] =
    [USER, CONSUMER, CALLS, COPIES, MEMORY, LOCKS, WAKE, SOCKET, XSK, DRIVER, STACK, TIME, OTHER];

/// How functions begin that are at work for a cause; the first that fits counts.
const RULES: [(&str, &[&str]); 12] = [
    (USER, &[USER]),
    (CONSUMER, &[CONSUMER]),
    (
        LOCKS,
        &[
            "_raw_spin",
            "_raw_read",
            "_raw_write",
            "native_queued_spin",
            "__pv_queued",
            "__raw_callee_save___pv_queued",
            "mutex_",
            "__mutex",
            "osq_",
        ],
    ),
    (
        COPIES,
        &[
            "copy_to_user",
            "_copy_to",
            "copy_user",
            "rep_movs",
            "memcpy",
            "__memcpy",
            "memmove",
            "__memmove",
            "memset",
            "__memset",
            "clear_page",
            "copy_page",
            "skb_copy_bits",
            "skb_copy_datagram",
            "__skb_datagram_iter",
            "simple_copy_to_iter",
            "put_cmsg",
            "skb_store_bits",
            "__check_object_size",
            "check_heap_object",
        ],
    ),
    (
        MEMORY,
        &[
            "kmem_cache",
            "__kmem_cache",
            "kmalloc",
            "__kmalloc",
            "kfree",
            "__kfree",
            "___slab",
            "__slab",
            "slab_",
            "alloc_",
            "__alloc",
            "free_",
            "__free",
            "page_frag",
            "page_pool",
            "__page_pool",
            "build_skb",
            "__build_skb",
            "napi_build_skb",
            "skb_release",
            "consume_skb",
            "__consume",
            "skb_clone",
            "__skb_clone",
            "skb_free",
            "sock_rfree",
            "napi_consume",
            "put_page",
            "__put_page",
            "get_page",
            "refill_",
            "memcg_",
            "__memcg",
            "xdp_return",
            "__xdp_return",
            "skb_unref",
            "skb_attempt",
            "napi_skb_cache",
            "get_partial",
            "put_cpu_partial",
            "__folio",
            "free_unref",
            "rmqueue",
            "get_page_from",
        ],
    ),
    (
        WAKE,
        &[
            "try_to_wake",
            "ttwu",
            "__wake_up",
            "wake_up",
            "schedule",
            "__schedule",
            "pick_",
            "enqueue_",
            "dequeue_",
            "update_",
            "sched_",
            "sock_def_readable",
            "pollwake",
            "finish_task",
            "switch_",
            "__switch",
            "select_task",
            "select_idle",
            "psi_",
            "autoremove",
            "default_wake",
            "poll_",
            "do_poll",
            "do_sys_poll",
            "add_wait",
            "remove_wait",
            "datagram_poll",
            "packet_poll",
            "hrtimer",
            "__hrtimer",
            "native_smp_send",
            "native_send",
            "x2apic",
            "kick_",
            "resched",
            "set_next",
            "put_prev",
            "place_entity",
            "reweight",
            "check_preempt",
            "wakeup_preempt",
            "prepare_to",
            "finish_wait",
            "__wait_for",
            "wait_for",
            "kthread",
            "smp_call",
            "flush_smp",
            "sysvec_reschedule",
            "pv_ipi",
            "kvm_send",
        ],
    ),
    (
        CALLS,
        &[
            "entry_SYSCALL",
            "do_syscall",
            "syscall",
            "x64_sys",
            "__x64_sys",
            "__sys_",
            "___sys_",
            "do_recvmmsg",
            "sock_recvmsg",
            "__fdget",
            "fdget",
            "fput",
            "sockfd_lookup",
            "copy_msghdr",
            "__copy_msghdr",
            "import_iovec",
            "security_",
            "exit_to_user",
            "srso_",
            "entry_",
            "import_ubuf",
            "move_addr",
            "apparmor_",
            "__import",
        ],
    ),
    (
        SOCKET,
        &[
            "tpacket",
            "packet_",
            "__packet",
            "prb_",
            "fanout",
            "run_filter",
            "__skb_recv",
            "skb_recv",
            "__skb_try",
            "sk_filter",
            "sock_queue",
            "__sock_recv",
            "sock_recv",
            "vnet_hdr",
            "__sock_queue",
            "skb_set_owner",
        ],
    ),
    (XSK, &["xsk", "__xsk", "xp_", "__xp"]),
    (
        DRIVER,
        &[
            "bpf_",
            "__bpf",
            "veth",
            "xdp_",
            "__xdp",
            "bq_",
            "dev_map",
            "htab",
            "array_map",
            "percpu_array",
            "ptr_ring",
            "__dev_map",
            "bpf_prog",
            "generic_xdp",
        ],
    ),
    (
        STACK,
        &[
            "__netif",
            "netif_",
            "napi",
            "__napi",
            "net_rx",
            "gro_",
            "dev_gro",
            "inet_",
            "ip_",
            "udp",
            "skb_",
            "__skb",
            "eth_type",
            "deliver_skb",
            "enqueue_to_backlog",
            "process_backlog",
            "handle_softirqs",
            "__do_softirq",
            "do_softirq",
            "net_timestamp",
            "dst_",
            "fib_",
            "nf_",
            "ip6",
            "ipv6",
            "dev_",
            "__dev",
            "rcu_",
            "__rcu",
            "__local_bh",
            "sk_",
            "eth_",
        ],
    ),
    (TIME, &["ktime", "read_tsc", "clocksource", "timekeeping", "pvclock", "kvm_clock"]),
];

/// The cause of a stack of functions, from the outermost to the innermost with `;` between them.
pub fn cause(functions: &str) -> &'static str {
    let known = |function: &str| {
        let fits = |rule: &&(&str, &[&str])| rule.1.iter().any(|start| function.starts_with(start));
        RULES.iter().find(fits).map(|(cause, _)| *cause)
    };
    functions.rsplit(';').find_map(known).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_known_function_decides() {
        for (functions, expected) in [
            ("user code", USER),
            ("consumer", CONSUMER),
            ("do_syscall_64;packet_recvmsg;skb_copy_datagram_iter;rep_movs_alternative", COPIES),
            ("net_rx_action;tpacket_rcv;strange_function", SOCKET),
            ("net_rx_action;packet_rcv;_raw_spin_lock", LOCKS),
            ("net_rx_action;packet_rcv;sock_def_readable;try_to_wake_up", WAKE),
            ("napi_threaded_poll;veth_poll;bpf_prog_6deef7357e7b4530", DRIVER),
            ("veth_poll;xdp_do_redirect;__xsk_rcv", XSK),
            ("packet_rcv;_raw_spin_lock;__raw_callee_save___pv_queued_spin_unlock", LOCKS),
            ("ktime_get_with_offset;read_tsc", TIME),
            ("strange_function", OTHER),
        ] {
            assert_eq!(cause(functions), expected, "{functions}");
        }
    }

    #[test]
    fn every_cause_is_shown() {
        assert!(RULES.iter().all(|(cause, _)| CAUSES.contains(cause)) && CAUSES.contains(&OTHER));
    }
}
