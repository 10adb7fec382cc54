// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The frame generator. BPF_PROG_TEST_RUN in live-frames mode calls it again and again with frames from a
 * pool of pages; each run either fills the frame and redirects it to the interface of a stream, or drops it.
 *
 * Pages come back with whatever the DUT did to them, so every header field and the signature are written
 * on every run.
 *
 * The next frame's time is waited for within a run: a run that drops its frame gives the page back under a lock
 * that the DUT's CPU needs for each page that it gives back, and many of them slow the DUT down.
 *
 * The kernel passes redirected frames on at the end of a batch of runs, and waking a receiver that sleeps
 * costs the sender a microsecond or two. At rates where each frame would find a sleeper, frames leave in
 * small groups: the first run of a group waits until its last frame is due, too.
 *
 * The kernel keeps as many pages as a batch has runs. Those that come back when so many wait already are freed, on the DUT's CPU: a
 * device in overload gives many back at once. Then batches are long, and groups are what the kernel passes on before their end.
 *
 * Pacing: a stream has a gap between frames, or two of them in turn (see struct weir_phase). A late generator catches up at 1.25 times the
 * nominal rate, not in one burst: a stall of the tester must not become an overload of the DUT.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "tcp.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_flow);
} flows SEC(".maps");

struct weir_gen gen;

static __always_inline __u32 next_size(struct weir_stream *s)
{
	if (gen.size_count == 0) {
		gen.seed = gen.seed * 6364136223846793005ULL + 1442695040888963407ULL;
		__u64 span = (__u64)gen.size[1] - gen.size[0] + 1;
		return gen.size[0] + (((gen.seed >> 32) * span) >> 32);
	}
	__u32 i = s->size_next;
	s->size_next = i + 1 >= gen.size_count ? 0 : i + 1;
	return gen.size[i & (WEIR_SIZES - 1)];
}

/* 8 buckets per octave; bucket 0 holds everything below 8 ns. */
static __always_inline void note_lateness(struct weir_stream *s, __u64 late)
{
	__u32 e = 0;
	__u64 v = late >> 3;
	if (v >> 16) { v >>= 16; e += 16; }
	if (v >> 8) { v >>= 8; e += 8; }
	if (v >> 4) { v >>= 4; e += 4; }
	if (v >> 2) { v >>= 2; e += 2; }
	if (v >> 1) { e += 1; }
	__u32 bucket = (late >> 3) ? (e + 1) * 8 + ((late >> e) & 7) : late;
	s->late[bucket & (WEIR_LATE_BUCKETS - 1)]++;
	s->late_sum_ns += late;
	if (late > s->late_max_ns)
		s->late_max_ns = late;
	s->late_end_ns = late;
}

/* The frame that leaves now is the first one of the other phase. */
static __always_inline void next_phase(struct weir_stream *s, __u64 now)
{
	__u32 phase = (s->phase_now ^ 1) & 1;
	__u64 frames = s->phase[phase].frames;
	s->phase_now = phase;
	s->gap_q16 = s->phase[phase].gap_q16;
	s->phase_end = frames == ~0ULL ? frames : s->phase_end + frames;
	if (!s->turned_ns)
		s->turned_ns = now;
}

/* The stream whose frame is next, and when it may leave, ns after the start; none if all has been sent. */
static __always_inline struct weir_stream *next_stream(__u32 *index, __u64 *when)
{
	struct weir_stream *a = &gen.stream[0], *b = &gen.stream[1], *s;
	int more_a = a->ifindex && a->sent < a->total;
	int more_b = b->ifindex && b->sent < b->total;
	*when = 0;
	if (!more_a && !more_b) {
		gen.active = 0;
		return 0;
	}
	if (more_a && (!more_b || (a->paced ? a->due_q16 <= b->due_q16 : a->sent <= b->sent))) {
		s = a;
		*index = 0;
	} else {
		s = b;
		*index = 1;
	}
	if (!s->paced)
		return s;
	/* Catching up, the gap is on average never below 4/5 of the nominal one: a leaky bucket that holds two
	 * groups (GCRA, ITU-T I.371). */
	__u64 group_q16 = gen.group_ns << 17;
	__u64 allowed_q16 = s->allowed_q16 > group_q16 ? s->allowed_q16 - group_q16 : 0;
	*when = ((s->due_q16 > allowed_q16 ? s->due_q16 : allowed_q16) + 0xffff) >> 16;
	return s;
}

/* Waits until a time of the clock, though not for long, and returns the time. Not static: so the verifier proves its loop once, and
 * not for each way to it. */
__noinline __u64 wait_until(__u64 time, __u64 until)
{
	for (int i = 0; i < WEIR_LOOKS && time < until; i++)
		time = bpf_ktime_get_ns();
	return time;
}

/* Writes headers, flow and signature; returns 0 if the frame is too short for them. A broadcast is what the next
 * frame would be, but for its destination and its mark. */
static __always_inline int fill(struct xdp_md *ctx, struct weir_stream *s, __u32 index, __u32 size, __u64 time,
				const int cast)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 at = s->flow_next, key = s->flow_first + at;
	struct weir_flow *flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow)
		return 0;
	if (!cast)
		s->flow_next = at + 1 >= s->flow_count ? 0 : at + 1;

	__u32 group = flow->group & (WEIR_GROUPS - 1);
	__u32 seq = cast ? (__u32)s->casts : s->seq[group]++;
	__u32 mark = cast ? SIG_BROADCAST : 0;
	__u64 all = cast ? 0xffffffffffffULL : 0;
	__u64 sum = s->transport_sum + mark + (__u64)flow->sum + group + (seq & 0xffff) + (seq >> 16) +
		    (time & 0xffff) + ((time >> 16) & 0xffff) + ((time >> 32) & 0xffff) + (time >> 48);
	void *above_ip;
	__u16 above_ip_len;

	if (s->header_bytes == 34) {
		if (data + 34 + SIG_END > end)
			return 0;
		__u64 *to = data, *from = (__u64 *)s->header;
		to[0] = from[0] | all;
		to[1] = from[1];
		to[2] = from[2];
		/* 24..33: checksum and addresses, below */
		__u16 ip_len = size - 14;
		*(__u16 *)(data + 16) = __builtin_bswap16(ip_len);
		*(__u32 *)(data + 26) = flow->src;
		*(__u32 *)(data + 30) = flow->dst;
		*(__u16 *)(data + 24) = ~fold((__u64)s->ip_sum + __builtin_bswap16(ip_len) +
			(flow->src & 0xffff) + (flow->src >> 16) + (flow->dst & 0xffff) + (flow->dst >> 16));
		above_ip = data + 34;
		above_ip_len = __builtin_bswap16((__u16)(size - 34));
		/* A page that was a frame of IPv6 before has the rest of its signature here; behind ours all is zero. */
		void *rest = above_ip + SIG_END;
		if (rest + 20 <= end) {
			*(__u64 *)rest = 0;
			*(__u64 *)(rest + 8) = 0;
			*(__u32 *)(rest + 16) = 0;
		}
	} else {
		if (data + 54 + SIG_END > end)
			return 0;
		__u64 *to = data, *from = (__u64 *)s->header;
		to[0] = from[0] | all;
		to[1] = from[1];
		to[2] = from[2];
		to[3] = from[3];
		to[4] = from[4];
		to[5] = from[5];
		*(__u32 *)(data + 48) = *(__u32 *)(s->header + 48);
		above_ip_len = __builtin_bswap16((__u16)(size - 54));
		*(__u16 *)(data + 18) = above_ip_len;
		*(__u32 *)(data + 34) = flow->src;
		*(__u32 *)(data + 50) = flow->dst;
		above_ip = data + 54;
	}
	*(__u16 *)above_ip = flow->sport;
	*(__u16 *)(above_ip + 2) = flow->dport;
	*(__u32 *)(above_ip + SIG_MAGIC) = WEIR_MAGIC | (index | mark) << 16 | (__u32)gen.epoch << 24;
	*(__u64 *)(above_ip + SIG_TIME) = time;
	if (s->syn) {
		*(__u32 *)(above_ip + TCP_SEQ) = seq;
		*(__u16 *)(above_ip + TCP_WORD) = __builtin_bswap16(WEIR_SYN);
		*(__u16 *)(above_ip + TCP_GROUP) = group;
		*(__u16 *)(above_ip + 16) = ~fold(sum + above_ip_len);
	} else {
		__u16 check = ~fold(sum + 2 * (__u64)above_ip_len);
		*(__u16 *)(above_ip + 4) = above_ip_len;
		*(__u16 *)(above_ip + 6) = check ? check : 0xffff;
		*(__u16 *)(above_ip + UDP_GROUP) = group;
		*(__u32 *)(above_ip + UDP_SEQ) = seq;
	}
	return 1;
}

/* A segment of a connection, which has the number of its flow; returns 0 if the frame is too short for it. */
static __noinline int fill_segment(struct xdp_md *ctx, __u32 index, __u64 time)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct weir_stream *s = &gen.stream[index & (WEIR_STREAMS - 1)];
	__u32 at = s->flow_next, key = s->flow_first + at;
	struct weir_flow *flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || data + TCP_LONGEST > end)
		return 0;
	s->flow_next = at + 1 >= s->flow_count ? 0 : at + 1;
	s->seq[0]++;
	__u64 *to = data, *from = (__u64 *)s->header;
	to[0] = from[0];
	to[1] = from[1];
	to[2] = from[2];
	*(__u32 *)(data + 26) = flow->src;
	*(__u32 *)(data + 30) = flow->dst;
	*(__u16 *)(data + 34) = flow->sport;
	*(__u16 *)(data + 36) = flow->dport;
	__u8 flags = s->syn;
	__u32 place = flags & TCP_SYN ? 0 : flags & TCP_PSH ? TCP_AFTER_SYN : TCP_AFTER_DATA;
	__u32 isn = tcp_isn(key, s->transport_sum);
	__u32 ack = flags & TCP_ACK ? tcp_answer_isn(isn) + place : 0;
	return tcp_write(data, end, flags, isn + place, ack, tcp_time(time));
}

/* Sends a broadcast, which is none of the stream's frames and takes none of their time. */
static __noinline int broadcast(struct xdp_md *ctx, __u32 index, __u64 time)
{
	struct weir_stream *s = &gen.stream[index & (WEIR_STREAMS - 1)];
	__u32 size = gen.size_max;
	if (gen.size_count != 1) {
		size = gen.size[s->size_next & (WEIR_SIZES - 1)];
		if (size != gen.size_max && bpf_xdp_adjust_tail(ctx, (int)size - (int)gen.size_max))
			return XDP_DROP;
	}
	if (!fill(ctx, s, index, size, time, 1))
		return XDP_ABORTED;
	s->casts++;
	s->cast_next += s->cast_every;
	return bpf_redirect(s->ifindex, 0);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u32 run = gen.run;
	gen.run = run + 1 >= gen.group ? 0 : run + 1;
	if (!gen.active)
		return XDP_DROP;
	/* At full speed the clock would be a third of the cost of a frame: it is read in every eighth run. */
	if (!(run & gen.clock_mask))
		gen.clock_ns = bpf_ktime_get_ns();
	if (run == 0) {
		gen.left = 0;
		gen.clock_ns = wait_until(gen.clock_ns, gen.start_ns);
	}
	__u64 time = gen.clock_ns;
	if (time < gen.start_ns)
		return XDP_DROP;
	if (time >= gen.stop_ns) {
		gen.active = 0;
		return XDP_DROP;
	}
	__u32 index = 0;
	__u64 when;
	struct weir_stream *s = next_stream(&index, &when);
	if (!s)
		return XDP_DROP;
	__u64 now = time - gen.start_ns, until = run ? when : when + gen.group_ns;
	if (now < until) {
		/* No frame that has left the program waits for the end of this group, unless it is short. */
		if (gen.left && (gen.group_ns || when - now > WEIR_NEAR_NS))
			return XDP_DROP;
		gen.clock_ns = time = wait_until(time, gen.start_ns + until);
		now = time - gen.start_ns;
		if (now < until && !run)
			gen.run = 0;
		if (now < until || time >= gen.stop_ns)
			return XDP_DROP;
	}
	gen.left = 1;

	if (s->sent == s->cast_next)
		return broadcast(ctx, index, time);

	__u32 size = gen.size_max;
	if (gen.size_count != 1) {
		size = next_size(s);
		if (size != gen.size_max && bpf_xdp_adjust_tail(ctx, (int)size - (int)gen.size_max))
			return XDP_DROP;
	}
	if (!(s->syn > 1 ? fill_segment(ctx, index, time) : fill(ctx, s, index, size, time, 0)))
		return XDP_ABORTED;

	if (s->paced) {
		if (s->due_q16 != s->noted_q16) {
			note_lateness(s, now - (s->due_q16 >> 16));
			s->noted_q16 = s->due_q16;
		}
		if (s->sent == s->phase_end)
			next_phase(s, now);
		s->due_q16 += s->gap_q16;
		if (s->allowed_q16 < now << 16)
			s->allowed_q16 = now << 16;
		s->allowed_q16 += s->gap_q16 * 4 / 5;
		s->last_ns = now;
	}
	s->sent++;
	s->bytes += size + 4;
	return bpf_redirect(s->ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
