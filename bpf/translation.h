/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What a receiver checks of frames that a NAT translates; part of recv.bpf.c where WEIR_TRANSLATION is defined.
 *
 *   [a] inside  src:sport > dst:dport  -->  NAT  -->  public:port > dst:dport  [b] outside
 *               src:sport < dst:dport  <--       <--  public:port < dst:dport
 *
 * A frame's number says which flow it is of, as the table has them in the order of sending: the table is read from front
 * to back whatever the order of the flows, so that the check costs the CPU that runs it no cache miss a frame.
 *
 * Outside, the source must be a public address and the same for all frames of a flow in a round, the destination that of
 * the flow, and no two flows may have the same outside tuple. Inside, a frame must be for the flow that its number names.
 */
#pragma once
#include "weir.h"

#define WEIR_PUBLIC 8              /* ranges of public addresses */
#define WEIR_KINDS 8               /* of faults; a power of two */
#define WEIR_KEPT 16               /* frames that are kept of each kind; a power of two */
#define WEIR_KEPT_BYTES 256
#define WEIR_PROBES 16             /* claims that are looked at */

#define SIDE_OUTSIDE 1
#define SIDE_INSIDE 2

/* What is wrong with a frame; faults[] and the frames that are kept are in this order. */
#define FAULT_LEAKED 0             /* outside: the source is no public address */
#define FAULT_CLASHED 1            /* outside: another flow has this tuple */
#define FAULT_SUBSCRIBER 2         /* inside: the frame is for somebody else */
#define FAULT_REMAPPED 3           /* outside: the flow had another tuple before */
#define FAULT_DESTINATION 4        /* outside: it went to somebody else */

/* A flow: as it was sent, and as its first frame of the round arrived. 32 bytes; network order. */
struct weir_tuple {
	__u32 src;            /* inside; IPv6 has its last 4 bytes here */
	__u32 dst;
	__u16 sport;
	__u16 dport;
	__u32 outside;        /* translated source */
	__u16 outside_port;
	__u16 clashed;        /* 1: another flow has the same */
	__u32 seen;           /* round in which `outside` was noted */
	__u32 answered;       /* round in which a frame came back inside */
	__u32 said;           /* of TCP: round in the upper 24 bits, then what was said */
};

struct weir_public {
	__u32 first;          /* host order */
	__u32 last;
};

struct weir_check {
	__u32 side;
	__u32 count;          /* flows in the table */
	__u32 round;          /* what was seen in an earlier one is forgotten; never 0 */
	__u32 claims;         /* entries of claims - 1: a power of two less one */
	struct weir_public allowed[WEIR_PUBLIC];
	__u32 allowed_count;
	__u32 pad;
	__u64 good;           /* frames without a fault */
	__u64 flows;          /* flows of which a frame came in this round */
	__u64 faults[WEIR_KINDS];   /* frames; of clashes, flows */
};

struct weir_kept {
	__u64 time_ns;        /* CLOCK_MONOTONIC */
	__u32 flow;
	__u32 length;         /* on the wire, without FCS */
	__u8 frame[WEIR_KEPT_BYTES];
};

_Static_assert(sizeof(struct weir_tuple) == 32, "translation.rs");
_Static_assert(sizeof(struct weir_check) == 16 + 8 * WEIR_PUBLIC + 8 + 16 + 8 * WEIR_KINDS, "translation.rs");
_Static_assert(sizeof(struct weir_kept) == 16 + WEIR_KEPT_BYTES, "translation.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_tuple);
} tuples SEC(".maps");

/* Who has which outside tuple: open addressing; an entry is the round in the upper half, flow + 1 in the lower. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} claims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_check);
} checks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WEIR_KINDS * WEIR_KEPT);
	__type(key, __u32);
	__type(value, struct weir_kept);
} kept SEC(".maps");

/* Keeps a frame as evidence, if there is room for one more of this kind. */
static __noinline int keep(struct xdp_md *ctx, __u32 kind, __u32 number, __u32 flow)
{
	if (number >= WEIR_KEPT)
		return 0;
	__u32 key = (kind & (WEIR_KINDS - 1)) * WEIR_KEPT + number;
	struct weir_kept *one = bpf_map_lookup_elem(&kept, &key);
	if (!one)
		return 0;
	__u32 wire = bpf_xdp_get_buff_len(ctx);
	one->time_ns = bpf_ktime_get_ns();
	one->flow = flow;
	one->length = wire;
	/* Each test frame has 60 bytes or more. */
	__u32 rest = wire > WEIR_KEPT_BYTES ? WEIR_KEPT_BYTES : wire;
	__u32 bytes = length_within(rest, WEIR_KEPT_BYTES);
	if (bytes)
		bpf_xdp_load_bytes(ctx, 0, one->frame, bytes);
	return 0;
}

static __always_inline int fault(struct xdp_md *ctx, struct weir_check *check, __u32 kind, __u32 flow)
{
	__u64 before = __sync_fetch_and_add(&check->faults[kind], 1);
	keep(ctx, kind, before < WEIR_KEPT ? before : WEIR_KEPT, flow);
	return 0;
}

static __always_inline int is_public(struct weir_check *check, __u32 address)
{
	__u32 host = __builtin_bswap32(address);
	for (int i = 0; i < WEIR_PUBLIC; i++)
		if (i < check->allowed_count && host >= check->allowed[i].first && host <= check->allowed[i].last)
			return 1;
	return 0;
}

/* Claims the outside tuple of a flow: 1 if another flow has it, which is marked as well. */
static __noinline int claimed(struct weir_check *check, struct weir_tuple *own, __u32 flow)
{
	if (!check || !own)
		return 0;
	__u64 hash = ((__u64)own->outside << 32 | own->dst) * 0x9e3779b97f4a7c15ULL;
	hash ^= ((__u64)own->outside_port << 16 | own->dport) * 0xbf58476d1ce4e5b9ULL;
	hash *= 0x94d049bb133111ebULL;
	__u32 at = hash >> 32;
	__u64 entry = (__u64)check->round << 32 | (flow + 1);
	for (__u32 i = 0; i < WEIR_PROBES; i++) {
		__u32 key = (at + i) & check->claims;
		__u64 *claim = bpf_map_lookup_elem(&claims, &key);
		if (!claim)
			return 0;
		__u64 found = *claim;
		if (found >> 32 != check->round) {
			*claim = entry;
			return 0;
		}
		__u32 other = (__u32)found - 1;
		struct weir_tuple *holder = bpf_map_lookup_elem(&tuples, &other);
		if (other == flow || !holder)
			return 0;
		if (holder->outside == own->outside && holder->outside_port == own->outside_port &&
		    holder->dst == own->dst && holder->dport == own->dport) {
			holder->clashed = 1;
			return 1;
		}
	}
	return 0; /* crowded: user space compares all of them at the end of a round */
}

/* Outside: is this frame translated, and as its flow was before? */
static __noinline int translated(struct xdp_md *ctx, struct weir_check *check, __u32 flow, __u64 addresses, __u32 ports)
{
	struct weir_tuple *own = bpf_map_lookup_elem(&tuples, &flow);
	if (!own || !check)
		return 0;
	__u32 src = addresses, dst = addresses >> 32;
	__u16 sport = ports, dport = ports >> 16;
	if (dst != own->dst || dport != own->dport)
		return fault(ctx, check, FAULT_DESTINATION, flow);
	if (!is_public(check, src))
		return fault(ctx, check, FAULT_LEAKED, flow);
	if (own->seen != check->round) {
		own->outside = src;
		own->outside_port = sport;
		own->clashed = 0;
		own->seen = check->round;
		__sync_fetch_and_add(&check->flows, 1);
		if (claimed(check, own, flow)) {
			own->clashed = 1;
			fault(ctx, check, FAULT_CLASHED, flow);
		}
	} else if (own->outside != src || own->outside_port != sport) {
		return fault(ctx, check, FAULT_REMAPPED, flow);
	} else if (own->clashed) {
		/* The other one of the two: its frames are evidence, too. */
		__u64 flows = check->faults[FAULT_CLASHED];
		keep(ctx, FAULT_CLASHED, flows < WEIR_KEPT / 2 ? WEIR_KEPT / 2 + flows : WEIR_KEPT, flow);
	}
	__sync_fetch_and_add(&check->good, 1);
	return 1;
}

/* Inside: is this frame for the flow that it is of? */
static __noinline int returned(struct xdp_md *ctx, struct weir_check *check, __u32 flow, __u64 addresses, __u32 ports)
{
	struct weir_tuple *own = bpf_map_lookup_elem(&tuples, &flow);
	if (!own || !check)
		return 0;
	if ((__u32)addresses != own->dst || addresses >> 32 != own->src || (__u16)ports != own->dport ||
	    ports >> 16 != own->sport)
		return fault(ctx, check, FAULT_SUBSCRIBER, flow);
	if (own->answered != check->round) {
		own->answered = check->round;
		__sync_fetch_and_add(&check->flows, 1);
	}
	__sync_fetch_and_add(&check->good, 1);
	return 1;
}

/* 1 for a frame without a fault, and where nothing is checked. `data` has been found to hold headers and signature. */
static __always_inline int is_right(struct xdp_md *ctx, void *data, int ip6, __u32 number)
{
	__u32 zero = 0;
	struct weir_check *check = bpf_map_lookup_elem(&checks, &zero);
	if (!check || !check->count)
		return 1;
	__u32 src = *(__u32 *)(data + (ip6 ? 34 : 26)), dst = *(__u32 *)(data + (ip6 ? 50 : 30));
	__u32 ports = *(__u32 *)(data + (ip6 ? 54 : 34));
	__u64 addresses = (__u64)dst << 32 | src;
	__u32 flow = number % check->count;
	return check->side == SIDE_OUTSIDE ? translated(ctx, check, flow, addresses, ports)
					   : returned(ctx, check, flow, addresses, ports);
}
