/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the eBPF programs and user space share: the signature in each test frame and the memory that both
 * map. crates/port/src/shared.rs mirrors every structure; its sizes are asserted on both sides.
 */
#pragma once
#include <linux/types.h>

#define WEIR_MAGIC 0x4557          /* bytes "WE" in memory */
#define WEIR_STREAMS 2             /* side a and side b */
#define WEIR_GROUPS 256            /* flow groups of a stream */
#define WEIR_SIZES 64              /* sizes in a cycle */
#define WEIR_LATE_BUCKETS 256      /* lateness: 8 buckets per octave */
#define WEIR_LATENCY_BUCKETS 1920  /* latency: 64 buckets per octave, error below 1 % */
#define WEIR_LOOKS 1024            /* at the clock, of some 20 ns each, in one wait */
#define WEIR_NEAR_NS 1000          /* a frame that has left a run waits so long for the next one of its group */
#define WEIR_WINDOW_WORDS 1024     /* duplicate detection reaches back 64 K frames */
#define WEIR_GAPS 16               /* gaps that late frames may still fill; a power of two */
#define WEIR_EVENTS 1024           /* periods of loss that are kept; a power of two */
#define WEIR_LATE_EVENTS 4         /* periods in which a very late frame is looked for */
#define WEIR_MARKS 2048            /* slots of time in which arrivals are noted */
#define WEIR_LEAVING 256           /* frames that leave a node at once; a power of two */
#define WEIR_LEAVING_BYTES 2112    /* the longest of them; no power of two, which would have them share cache sets */

/* The signature of a test frame, 18 bytes: the smallest IPv4 frame has just that room (RFC 2544), and IPv6 fits
 * into 84 (RFC 8219, section 4). Little endian. It follows the UDP header, or is in a TCP header and behind it.
 *
 *         magic:16  stream:8  epoch:8  group:16  seq:32  time:64 (CLOCK_MONOTONIC, ns)
 *   UDP   at 8                         at 12     at 14   at 18
 *   TCP   acknowledgement, at 8        window    seq     urgent pointer and data, at 18
 */
#define SIG_MAGIC 8                /* here in both, as all that follow: offsets in the transport header */
#define SIG_STREAM 10              /* and the epoch in the byte after it */
#define SIG_TIME 18
#define SIG_END 26
#define UDP_GROUP 12
#define UDP_SEQ 14
#define TCP_SEQ 4
#define TCP_WORD 12                /* length of the header, flags */
#define TCP_GROUP 14
#define WEIR_SYN 0x5002            /* that word of a SYN without options */
#define SIG_BROADCAST 0x80         /* bit of the stream: not a test frame, but one that goes along with them */

/* One entry of the flow table: the frames of a stream go through the table from front to back, again and
 * again, so that any order of flows is a matter of how user space filled it. 16 bytes. */
struct weir_flow {
	__u32 src;        /* IPv4 source, or the last 4 bytes of the IPv6 source; network order */
	__u32 dst;
	__u16 sport;      /* network order */
	__u16 dport;
	__u16 group;
	__u16 sum;        /* one's complement sum of the four fields above it */
};

/* Frames with the same time between them. */
struct weir_phase {
	__u64 frames;         /* how many; all ones: no end */
	__u64 gap_q16;        /* time to the next frame, ns * 65536 */
};

/* One direction of the generator. User space writes the first part before the start and reads the second. */
struct weir_stream {
	__u32 ifindex;        /* where frames leave; 0: this stream is off */
	__u32 header_bytes;   /* Ethernet + IP: 34 or 54 */
	__u8 header[64];      /* template of these headers, checksums zero */
	__u32 ip_sum;         /* sum of the IPv4 header template, length and addresses left out */
	__u32 transport_sum;  /* sum of what is the same in all frames: pseudo header, transport header, signature */
	struct weir_phase phase[2];   /* in turn; crates/load/src/schedule.rs */
	__u64 total;          /* frames to send */
	__u32 flow_first;     /* part of the flow table that belongs to this stream */
	__u32 flow_count;
	__u32 paced;          /* 0: as fast as possible */

	__u32 phase_now;
	__u64 phase_end;      /* frames sent when it ends */
	__u64 gap_q16;        /* that of the phase */
	__u64 turned_ns;      /* when the first frame of the second phase left, ns after the start */
	__u64 sent;
	__u64 due_q16;        /* when the next frame is due, ns * 65536 after the start */
	__u64 allowed_q16;    /* when the next frame may leave even if it is late; see due_stream() */
	__u64 last_ns;        /* when the last frame left, ns after the start */
	__u64 late_sum_ns;
	__u64 late_max_ns;
	__u64 late_end_ns;    /* how late the last frame left that had a due time of its own */
	__u64 cast_next;      /* a broadcast goes before the frame with this number; all ones: never */
	__u64 casts;          /* broadcasts sent */
	__u32 cast_every;     /* frames from one to the next */
	__u32 syn;            /* 0: UDP; 1: TCP, SYN; more: flags of a segment of connections, see tcp.h */
	__u64 noted_q16;      /* due time for which lateness was noted last: frames due at once count once */
	__u32 flow_next;
	__u32 size_next;
	__u64 bytes;          /* sizes of the sent frames, FCS included */
	__u32 seq[WEIR_GROUPS];
	__u64 late[WEIR_LATE_BUCKETS];
};

struct weir_gen {
	__u64 start_ns;       /* CLOCK_MONOTONIC */
	__u64 stop_ns;        /* no frame leaves later, sent or not */
	__u64 clock_ns;       /* the clock when it was last read */
	__u64 seed;           /* state of the generator of random sizes */
	__u64 group_ns;       /* from the first frame of a group to the last: they leave together */
	__u32 group;          /* runs that belong together: a batch of the kernel, or a part of it */
	__u32 left;           /* a frame has left in this group */
	__u32 run;            /* runs so far in this group */
	__u32 size_count;     /* 0: random between size[0] and size[1] */
	__u16 size[WEIR_SIZES];   /* bytes without FCS */
	__u16 size_max;       /* length of the frames handed in */
	__u8 epoch;           /* number of the trial: frames of an earlier one are not counted */
	__u8 active;          /* user space: go; program: cleared when nothing is left to send */
	__u32 clock_mask;     /* the clock is read in runs whose number has none of these bits */
	struct weir_stream stream[WEIR_STREAMS];
};

/* Counts of one flow group on one CPU. */
struct weir_group {
	__u64 received;       /* duplicates included */
	__u64 duplicated;
	__u64 reordered;
	__u64 extent_max;     /* how far behind the highest number a frame arrived, at most */
	__u64 latency_sum_ns;
	__u64 latency_min_ns; /* 0 with received 0 */
	__u64 latency_max_ns;
	__u64 first_ns;       /* CLOCK_MONOTONIC of the first and last frame */
	__u64 last_ns;
	__u64 bytes;          /* FCS included */
	__u64 latency[WEIR_LATENCY_BUCKETS];
};

/* A frame that arrived. */
struct weir_passed {
	__u64 sent_ns;        /* CLOCK_MONOTONIC */
	__u64 arrived_ns;
};

/* Which sequence numbers of a group have been seen: a word of 64 numbers and which 64 they are. */
struct weir_window {
	__u64 next;           /* highest sequence number so far + 1 */
	struct weir_passed newest;   /* the frame with that number */
	struct {
		__u64 block;
		__u64 seen;
	} word[WEIR_WINDOW_WORDS];
};

/* Latency of a frame minus that of the one before it, of a group. */
struct weir_ipdv {
	__u64 count;
	__s64 min_ns;
	__s64 max_ns;
	__u64 below[WEIR_LATENCY_BUCKETS];   /* negative ones, without their sign */
	__u64 above[WEIR_LATENCY_BUCKETS];   /* the others */
};

/* Missing sequence numbers. */
struct weir_gap {
	__u64 first;
	__u64 last;
	__u64 lost;           /* those between the two that did not arrive */
	struct weir_passed before;   /* the last frame before it; zero if there was none */
	struct weir_passed after;    /* the first frame after it */
};

/* What a group lost, and when. A new gap may be filled by late frames, so that the newest ones are kept apart;
 * those that follow become part of a period. crates/load/src/loss.rs does the same and reads the result. */
struct weir_losses {
	__u64 gaps;           /* gaps so far; the last WEIR_GAPS are in gap[] */
	__u64 events;         /* periods of loss so far; the last WEIR_EVENTS are in event[] */
	__u64 runs;           /* gaps that were not filled: frames lost in a row */
	__u64 run_max;        /* the longest of them, frames */
	struct weir_gap gap[WEIR_GAPS];
	struct weir_gap event[WEIR_EVENTS];
};

/* The first frame that arrived in a slot of time. */
struct weir_mark {
	__u64 at_ns;          /* CLOCK_MONOTONIC; 0: none */
	__u64 frames;         /* weir_recv.received with it */
};

/* What a receiver does, and what it saw that belongs to no group. */
struct weir_recv {
	__u32 reflect;        /* 1: send each test frame back */
	__u32 pass;           /* 1: other frames go on to the kernel; 0: they are dropped */
	__u16 origin;         /* stream and epoch that are expected here, as in the signature */
	__u8 any;             /* 1: every epoch and stream counts, and reflected frames are counted too */
	__u8 ipdv;            /* 1: differences of latencies are counted */
	__u8 pad[4];
	__u64 received;       /* test frames of this epoch, each once, for a cheap look while the trial runs */
	__u64 corrupted;      /* wrong checksum, length or signature */
	__u64 stale;          /* of an earlier epoch */
	__u64 misdelivered;   /* of another stream */
	__u64 other;          /* not a test frame */
	__u64 reflected;
	__u64 broadcasts;     /* of this epoch */
	__u64 timed_from_ns;  /* CLOCK_MONOTONIC: frames sent earlier are counted, but not timed */
	__u64 merge_ns;       /* gaps less than this apart belong to one period of loss */
	__u64 mark_from_ns;   /* CLOCK_MONOTONIC: slot 0 begins; all ones: no arrivals are noted */
	__u32 mark_shift;     /* a slot has 2^so many ns */
	__u32 mark_next;      /* the first slot without an arrival */
};

/* Frames that leave a node. */
struct weir_leave {
	__u32 next;           /* the first that has not left */
	__u16 bytes[WEIR_LEAVING];   /* how long they are */
};

/* Folds a one's complement sum into 16 bits (RFC 1071). */
static inline __attribute__((always_inline)) __u32 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* `bytes`, or 0 where it is beyond `most`. The verifier of Linux before 6.8 does not learn from a comparison with zero
 * that a length is at least 1, and refuses it: it must see a number that may be zero, and 1 that is added to it. */
static inline __attribute__((always_inline)) __u32 length_within(__u32 bytes, __u32 most)
{
	__u32 last = bytes - 1;
	asm volatile("" : "+r"(last)); /* or the compiler undoes it */
	return last < most ? last + 1 : 0;
}

_Static_assert(sizeof(struct weir_flow) == 16, "shared.rs");
_Static_assert(sizeof(struct weir_stream) == 264 + WEIR_GROUPS * 4 + WEIR_LATE_BUCKETS * 8, "shared.rs");
_Static_assert(sizeof(struct weir_gen) == 192 + 2 * sizeof(struct weir_stream), "shared.rs");
_Static_assert(sizeof(struct weir_group) == 80 + WEIR_LATENCY_BUCKETS * 8, "shared.rs");
_Static_assert(sizeof(struct weir_window) == 24 + WEIR_WINDOW_WORDS * 16, "shared.rs");
_Static_assert(sizeof(struct weir_losses) == 32 + (WEIR_GAPS + WEIR_EVENTS) * 56, "shared.rs");
_Static_assert(sizeof(struct weir_ipdv) == 24 + 2 * WEIR_LATENCY_BUCKETS * 8, "shared.rs");
_Static_assert(sizeof(struct weir_recv) == 104, "shared.rs");
_Static_assert(sizeof(struct weir_mark) == 16, "shared.rs");
_Static_assert(sizeof(struct weir_leave) == 4 + 2 * WEIR_LEAVING, "shared.rs");
