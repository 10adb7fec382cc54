// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Both ends of TCP connections through a NAT, without sockets; see tcp.h. Outside, the responder answers each segment of a
 * connection; inside, the initiator goes on after each answer. The generator sends what begins a part of a connection.
 *
 * Each segment is checked as recv.bpf.c checks frames, and of each connection each segment counts once, in its order: who
 * has not seen a SYN answers no data. Nothing is sent twice, so that a connection ends with the first segment that is lost.
 */
#define WEIR_TRANSLATION
#define WEIR_TCP
#include "recv.bpf.c"
#include "tcp.h"

/* Segments, by what they mean; said[] is in this order. */
#define SAID_SYN 0                 /* inside: the answer to it */
#define SAID_ESTABLISHED 1         /* outside: the answer to the answer */
#define SAID_DATA 2
#define SAID_HEARD 3               /* outside: the acknowledgement of the data that was sent back, alone */
#define SAID_FIN 4
#define SAID_CLOSED 5              /* outside: the last acknowledgement */
#define SAID_RESET 6               /* outside */
#define SAID_FLOOD 7               /* outside: a SYN that belongs to nothing */
#define SAID_KINDS 8
#define BIT(event) (1 << (event))

struct weir_talk {
	__u32 salt;
	__u32 first;          /* connection of which the trial sends first */
	__u32 hold;           /* 1: the initiator keeps connections open */
	__u32 pad;
	__u64 said[SAID_KINDS];   /* segments, of each connection once */
	__u64 repeated;
	__u64 unexpected;     /* wrong numbers, flags or order */
};

_Static_assert(sizeof(struct weir_talk) == 32 + 8 * SAID_KINDS, "translation.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct weir_talk);
} talk SEC(".maps");

/* What a segment means, and what must have been said before. */
struct meaning {
	__u8 event;
	__u8 before;          /* event that must be there, as a bit; 0: none */
	__u8 answer;          /* flags; 0: none */
	__u8 last;            /* nothing follows in this part of a connection */
};

/* Outside, of a segment at this place of the stream: `theirs` of the initiator, `own` of what it acknowledges. */
static __always_inline int heard(__u8 flags, __u32 theirs, __u32 own, struct meaning *m)
{
	m->last = 0;
	m->answer = 0;
	if (flags == TCP_SYN && theirs == 0) {
		m->event = SAID_SYN;
		m->before = 0;
		m->answer = TCP_SYN | TCP_ACK;
	} else if (flags == (TCP_PSH | TCP_ACK) && theirs == TCP_AFTER_SYN && own == TCP_AFTER_SYN) {
		m->event = SAID_DATA;
		m->before = BIT(SAID_SYN);
		m->answer = TCP_PSH | TCP_ACK;
	} else if (flags == (TCP_FIN | TCP_ACK) && theirs == TCP_AFTER_DATA && own == TCP_AFTER_DATA) {
		m->event = SAID_FIN;
		m->before = BIT(SAID_DATA);
		m->answer = TCP_FIN | TCP_ACK;
	} else {
		m->last = 1;
		if (flags == TCP_RST && theirs == TCP_AFTER_DATA) {
			m->event = SAID_RESET;
			m->before = BIT(SAID_DATA);
		} else if (flags != TCP_ACK || theirs != own) {
			return 0;
		} else if (own == TCP_AFTER_SYN) {
			m->event = SAID_ESTABLISHED;
			m->before = BIT(SAID_SYN);
		} else if (own == TCP_AFTER_DATA) {
			m->event = SAID_HEARD;
			m->before = BIT(SAID_DATA);
		} else if (own == TCP_AFTER_FIN) {
			m->event = SAID_CLOSED;
			m->before = BIT(SAID_FIN);
		} else {
			return 0;
		}
	}
	return 1;
}

/* The same inside, of an answer. */
static __always_inline int answered(__u8 flags, __u32 theirs, __u32 own, int hold, struct meaning *m)
{
	m->last = 0;
	if (flags == (TCP_SYN | TCP_ACK) && theirs == 0 && own == TCP_AFTER_SYN) {
		m->event = SAID_SYN;
		m->before = 0;
		m->answer = hold ? TCP_ACK : TCP_PSH | TCP_ACK;
	} else if (flags == (TCP_PSH | TCP_ACK) && theirs == TCP_AFTER_SYN && own == TCP_AFTER_DATA) {
		m->event = SAID_DATA;
		m->before = BIT(SAID_SYN);
		m->answer = hold ? TCP_ACK : TCP_FIN | TCP_ACK;
	} else if (flags == (TCP_FIN | TCP_ACK) && theirs == TCP_AFTER_DATA && own == TCP_AFTER_FIN) {
		m->event = SAID_FIN;
		m->before = BIT(SAID_DATA);
		m->answer = TCP_ACK;
	} else {
		return 0;
	}
	return 1;
}

/* Notes what was said, of each connection once and in its order; 0 if it does not count. */
static __noinline int noted(struct weir_talk *t, __u32 number, __u32 round, __u32 event, __u32 before)
{
	struct weir_tuple *own = bpf_map_lookup_elem(&tuples, &number);
	if (!t || !own)
		return 0;
	__u32 had = own->said >> 8 == (round & 0xffffff) ? own->said & 0xff : 0, bit = 1U << (event & 7);
	if (had & bit) {
		__sync_fetch_and_add(&t->repeated, 1);
		return 0;
	}
	if (before && !(had & before)) {
		__sync_fetch_and_add(&t->unexpected, 1);
		return 0;
	}
	/* Data acknowledge the SYN of the responder as well. */
	if (event == SAID_DATA && before && !(had & BIT(SAID_ESTABLISHED))) {
		bit |= BIT(SAID_ESTABLISHED);
		__sync_fetch_and_add(&t->said[SAID_ESTABLISHED], 1);
	}
	own->said = round << 8 | had | bit;
	__sync_fetch_and_add(&t->said[event & (SAID_KINDS - 1)], 1);
	return 1;
}

/* Sums of IPv4 header and TCP segment, both of which must be all ones. */
static __always_inline int sums_are_right(void *data, void *end, int extra, __u16 ip_bytes)
{
	__u16 *ip = data + 14, *tcp = data + 34;
	__u64 addresses = (__u64)ip[6] + ip[7] + ip[8] + ip[9];
	if (fold(addresses + ip[0] + ip[1] + ip[2] + ip[3] + ip[4] + ip[5]) != 0xffff)
		return 0;
	__u64 sum = addresses + __builtin_bswap16(6) + __builtin_bswap16(ip_bytes - 20);
	sum += (__u64)tcp[0] + tcp[1] + tcp[2] + tcp[3] + tcp[4] + tcp[5] + tcp[6] + tcp[7] + tcp[8] + tcp[9];
	if (extra) {
		if (data + TCP_LONGEST > end)
			return 0;
		__u32 *last = data + TCP_HEADERS;
		sum += (__u64)last[0] + last[1];
	}
	return fold(sum) == 0xffff;
}

SEC("xdp.frags")
int receive(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct weir_talk *t = bpf_map_lookup_elem(&talk, &zero);
	struct weir_check *check = bpf_map_lookup_elem(&checks, &zero);

	if (!t || !check || data + TCP_HEADERS > end)
		goto other;
	if (*(__u16 *)(data + 12) != __builtin_bswap16(0x0800) || *(__u8 *)(data + 14) != 0x45 ||
	    *(__u8 *)(data + 23) != 6)
		goto other;
	__u16 ip_bytes = __builtin_bswap16(*(__u16 *)(data + 16));
	const int extra = ip_bytes == TCP_LONGEST - 14;
	if (!extra && ip_bytes != TCP_HEADERS - 14)
		goto other;
	if (!sums_are_right(data, end, extra, ip_bytes)) {
		count(corrupted);
		return XDP_DROP;
	}

	const int outside = check->side == SIDE_OUTSIDE;
	__u8 flags = *(__u8 *)(data + 47) & TCP_FLAGS;
	__u32 seq = __builtin_bswap32(*(__u32 *)(data + 38)), ack = __builtin_bswap32(*(__u32 *)(data + 42));
	__u32 place = (outside ? seq : ack) - t->salt, number = place >> 8;
	__u32 isn = tcp_isn(number, t->salt), answer_isn = tcp_answer_isn(isn);
	__u32 initiator = place & 0xff, responder = (outside ? ack : seq) - answer_isn;
	if (number >= check->count)
		goto other;
	struct weir_tuple *own = bpf_map_lookup_elem(&tuples, &number);
	if (!own)
		goto other;
	struct meaning m;
	if (!(outside ? heard(flags, initiator, responder, &m) : answered(flags, responder, initiator, t->hold, &m)) ||
	    extra != !!(flags & (TCP_SYN | TCP_PSH))) {
		__sync_fetch_and_add(&t->unexpected, 1);
		return XDP_DROP;
	}
	if (!own->dst) {
		/* Nobody is there who would answer a flood. */
		m.event = SAID_FLOOD;
		m.answer = 0;
		m.last = 1;
	} else if (!is_right(ctx, data, 0, number)) {
		return XDP_DROP;
	}
	if (!noted(t, number, check->round, m.event, m.before))
		return XDP_DROP;
	/* is_right() may have changed what the verifier knows of the frame. */
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + TCP_HEADERS > end)
		return XDP_DROP;
	__u16 time = *(__u16 *)(data + 52);
	if (m.last) {
		__u64 now = bpf_ktime_get_ns();
		if (note(0, number - t->first, now - ((__u64)(__u16)(tcp_time(now) - time) << 10), now, TCP_LONGEST)) {
			count(received);
			mark(now);
		}
	}
	if (!m.answer)
		return XDP_DROP;
	int verdict = reflect(ctx, data, 0);
	__u32 taken = flags & (TCP_SYN | TCP_FIN) ? 1 : flags & TCP_PSH ? TCP_EXTRA : 0;
	int written = outside ? tcp_write(data, end, m.answer, answer_isn + (flags == TCP_SYN ? 0 : responder),
					  isn + initiator + taken, time)
			      : tcp_write(data, end, m.answer, isn + initiator, answer_isn + responder + taken, time);
	return written ? verdict : XDP_ABORTED;

other:
	count(other);
	return recv.pass ? XDP_PASS : XDP_DROP;
}
