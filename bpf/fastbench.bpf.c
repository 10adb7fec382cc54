// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * What a frame costs on the fast path, in memory: each run writes the headers of a random flow over the frame, and passes it
 * on as fast.bpf.c does. Without `passes` it only writes them, so that the difference is the fast path.
 */
#define FAST_BENCH
#include "fast.bpf.c"

/* A frame of a flow: its headers up to the ports, and to the end of a cache line. */
struct fast_sample {
	__u64 header[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fast_sample);
} samples SEC(".maps");

struct fast_bench {
	__u64 seed;
	__u32 flows;
	__u32 passes;
};

struct fast_bench bench SEC(".data.bench");

_Static_assert(sizeof(struct fast_sample) == 64, "bench.rs");
_Static_assert(sizeof(struct fast_bench) == 16, "bench.rs");

SEC("xdp")
int run(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	bench.seed = bench.seed * 6364136223846793005ULL + 1442695040888963407ULL;
	__u32 flow = ((bench.seed >> 32) * bench.flows) >> 32;
	struct fast_sample *sample = bpf_map_lookup_elem(&samples, &flow);
	if (!sample || data + sizeof(*sample) > end)
		return XDP_ABORTED;
	__u64 *to = data;
	for (int i = 0; i < 8; i++)
		to[i] = sample->header[i];
	return bench.passes ? pass(ctx) : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
