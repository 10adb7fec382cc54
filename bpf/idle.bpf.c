// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Notes when some CPUs were idle. A CPU that is idle need not tick, and what is silent then was not stopped.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define IDLE_SPANS 16384 /* of a CPU that are kept; a power of two */

/* What crates/port/src/perf/idle.rs mirrors. */
struct idle_cpu {
	__u64 watched;  /* 0: not; else its ring of spans, from 1 */
	__u64 since_ns; /* CLOCK_MONOTONIC; 0: awake */
	__u64 spans;    /* all that ended */
};

struct idle_span {
	__u64 from_ns, to_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct idle_cpu);
} cpus SEC(".maps");

/* IDLE_SPANS of each CPU that is watched, a ring each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct idle_span);
} spans SEC(".maps");

#define AWAKE ((__u32)-1)

SEC("raw_tp/cpu_idle")
int idle(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = bpf_get_smp_processor_id();
	struct idle_cpu *cpu = bpf_map_lookup_elem(&cpus, &number);

	if (!cpu || !cpu->watched)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if ((__u32)ctx->args[0] != AWAKE) {
		cpu->since_ns = now;
		return 0;
	}
	if (!cpu->since_ns)
		return 0;
	__u32 at = (cpu->watched - 1) * IDLE_SPANS + cpu->spans % IDLE_SPANS;
	struct idle_span *span = bpf_map_lookup_elem(&spans, &at);
	if (span) {
		span->from_ns = cpu->since_ns;
		span->to_ns = now;
		cpu->spans++;
	}
	cpu->since_ns = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
