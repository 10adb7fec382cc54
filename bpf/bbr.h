/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * BBR version 3 (draft-ietf-ccwg-bbr) as a congestion control of the kernel; version 2 has other rules on the same
 * engine. Functions have the names of the draft's pseudo-code. Volumes are segments, times us, rates segments per us
 * times 2^24, gains 1/256.
 *
 * The kernel does not remember what was in flight, and lost, when a segment was sent. A ring does: each ACK notes how
 * much was delivered and lost until then; a segment carries what was delivered when it was sent, and so leads to the
 * entry of that time. What was in flight there is too large by the segments of one ACK at most. Losses are seen by ACK,
 * not by segment.
 *
 *   ACK: [rate_sample] > signals, round > bandwidth, aggregation, losses > state > pacing rate, cwnd
 *
 * ECN is that of google/bbr (the draft has none), where a connection has it and its round trip is 5 ms at most: a round
 * trip with marks lowers the short-term bound of the volume in flight, by a third of the average share of marks at
 * most; half of the segments marked sets the long-term bound while it probes, and ends Startup. A server that reports
 * each mark once (DCTCP) makes the share exact; others repeat it for a round trip (RFC 3168).
 *
 * Left out: the rules for tail loss probes and PLB (the kernel does not report either), and the probe at once after
 * marks without losses.
 *
 * A program defines the rules (see bbr3.bpf.c) and includes this.
 */
#ifndef WEIR_BBR_H
#define WEIR_BBR_H

#include "cc.h"

#define UNIT_SHIFT 24
#define GAIN_SHIFT 8
#define INFINITE ((__u32)~0)
#define INFINITE_BW ((__u64)~0)
#define MIN_PIPE_CWND 4
#define INITIAL 10
#define SECOND 1000000ull
#define PROBE_RTT_DURATION (200 * 1000)
#define PROBE_RTT_INTERVAL (5 * SECOND)
#define MIN_RTT_FILTER (10 * SECOND)
/* A maximum of aggregation lives for two halves of this many round trips. */
#define EXTRA_ACKED_HALF 5
#define CWND_GAIN 512
#define UP_GAIN 320
#define PROBE_RTT_GAIN 128
/* 1 % less than the estimate, so that queues drain. */
#define MARGIN_PERCENT 99
/* Shares of marks are 1/1024; the average's gain is 1/16, and it lowers a bound by a third at most. */
#define ONE 1024
#define ALPHA_SHIFT 4
#define ECN_LONGEST_RTT 5000
#define ECN_STARTUP_ROUNDS 2
#define SLOTS 256
#define SLOT_MASK (SLOTS - 1)

enum phase { STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT };
enum ack_phase { ACKS_INIT, ACKS_REFILLING, ACKS_STARTING, ACKS_FEEDBACK, ACKS_STOPPING };
/* What is restored where a recovery was not necessary. */
enum undo { UNDO_NONE, UNDO_STARTUP, UNDO_UP };

struct slot {
	__u32 delivered;
	__u32 lost;
	__u32 in_flight;
};

struct bbr {
	__u64 bw_cycles[2];
	__u64 bw_shortterm;
	__u64 bw_latest;
	__u64 full_bw;
	__u64 undo_bw_shortterm;
	__u64 min_rtt_stamp;
	__u64 probe_rtt_min_stamp;
	__u64 probe_rtt_done_stamp;
	__u64 extra_acked_start;
	__u64 cycle_stamp;
	__u64 up_stamp;
	__u32 inflight_longterm;
	__u32 inflight_shortterm;
	__u32 inflight_latest;
	__u32 undo_inflight_longterm;
	__u32 undo_inflight_shortterm;
	__u32 min_rtt;
	__u32 probe_rtt_min_delay;
	__u32 bw_probe_wait;
	__u32 extra_acked[2];
	__u32 extra_acked_rounds;
	__u32 extra_acked_delivered;
	__u32 loss_round_delivered;
	__u32 loss_events;
	__u32 next_round_delivered;
	__u32 round_count;
	__u32 drain_start_round;
	__u32 full_bw_count;
	__u32 rounds_since_probe_up;
	__u32 probe_up_acked_per_inc;
	__u32 bw_probe_up_acked;
	__u32 bw_probe_up_rounds;
	__u32 prior_cwnd;
	/* Average share of marks; delivered and marked segments when this round trip began; marked ones at the last ACK. */
	__u32 ecn_alpha;
	__u32 ecn_delivered;
	__u32 ecn_marked;
	__u32 ecn_seen;
	__u8 ecn_startup_rounds;
	/* Marks count, and there were some in this round trip. */
	bool ecn_eligible;
	bool is_ecn_in_round;
	__u8 phase;
	__u8 ack_phase;
	__u8 undo;
	__u8 ca_state;
	bool round_start;
	bool loss_round_start;
	bool is_loss_in_round;
	bool full_bw_now;
	bool full_bw_reached;
	bool is_bw_probe_sample;
	bool prev_probe_too_high;
	bool prev_probe_precautionary;
	bool probe_rtt_expired;
	bool probe_rtt_round_done;
	bool idle_restart;
	bool has_srtt;
	/* Entries of the ring are 2^this delivered segments apart. */
	__u8 slot_shift;
	__u32 newest;
	struct slot sent[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bbr);
} sockets SEC(".maps");

/* What an ACK says. */
struct ack {
	__u32 delivered;
	/* The rate sample; without one bw is 0. */
	__u64 bw;
	__u32 rs_delivered;
	__u32 prior_delivered;
	__u32 lost;
	__u32 tx_in_flight;
	/* Of those that the sample is of. */
	__u32 rs_marked;
	__s64 rtt;
	bool is_app_limited;
};

static __always_inline __u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline bool is_probe_bw(const struct bbr *b)
{
	return b->phase >= DOWN && b->phase <= UP;
}

static __always_inline __u64 max_bw(const struct bbr *b)
{
	return most(b->bw_cycles[0], b->bw_cycles[1]);
}

static __always_inline __u64 bw(const struct bbr *b)
{
	return least(max_bw(b), b->bw_shortterm);
}

static __always_inline __u32 pacing_gain(const struct bbr *b)
{
	switch (b->phase) {
	case STARTUP:
		return STARTUP_PACING_GAIN;
	case DRAIN:
		return DRAIN_GAIN;
	case DOWN:
		return DOWN_GAIN;
	case UP:
		return UP_GAIN;
	default:
		return 1 << GAIN_SHIFT;
	}
}

static __always_inline __u32 cwnd_gain(const struct bbr *b)
{
	switch (b->phase) {
	case STARTUP:
		return STARTUP_CWND_GAIN;
	case UP:
		return UP_CWND_GAIN;
	case PROBE_RTT:
		return PROBE_RTT_GAIN;
	default:
		return CWND_GAIN;
	}
}

/* Segments that arrive in this time, rounded up. */
static __always_inline __u32 arriving(__u64 rate, __u64 us)
{
	return least((rate * us + (1 << UNIT_SHIFT) - 1) >> UNIT_SHIFT, 1 << 24);
}

static __always_inline __u32 bdp_multiple(const struct bbr *b, __u64 rate, __u32 gain)
{
	if (b->min_rtt == INFINITE)
		return INITIAL;
	return ((__u64)arriving(rate, b->min_rtt) * gain + (1 << GAIN_SHIFT) - 1) >> GAIN_SHIFT;
}

/* A ms at the pacing rate, 64 KiB at most: what leaves at once. */
static __always_inline __u32 send_quantum(struct sock *sk)
{
	__u64 segments = sk->sk_pacing_rate / 1000 / most(tcp_sk(sk)->mss_cache, 1);

	return least(most(segments, 2), 45);
}

static __always_inline __u32 quantization_budget(struct sock *sk, const struct bbr *b, __u64 inflight)
{
	inflight = most(most(inflight, 3 * send_quantum(sk)), MIN_PIPE_CWND);
	return least(b->phase == UP ? inflight + 2 : inflight, 1 << 24);
}

static __always_inline __u32 inflight(struct sock *sk, const struct bbr *b, __u64 rate, __u32 gain)
{
	return quantization_budget(sk, b, bdp_multiple(b, rate, gain));
}

static __always_inline __u32 inflight_with_headroom(const struct bbr *b)
{
	__u32 longterm = b->inflight_longterm;

	if (longterm == INFINITE)
		return INFINITE;
	/* 15 % */
	__u32 headroom = most((__u64)longterm * 15 / 100, 1);
	return longterm > headroom + MIN_PIPE_CWND ? longterm - headroom : MIN_PIPE_CWND;
}

static __always_inline __u32 probe_rtt_cwnd(const struct bbr *b)
{
	return most(bdp_multiple(b, bw(b), PROBE_RTT_GAIN), MIN_PIPE_CWND);
}

static __always_inline __u32 target_inflight(struct sock *sk, const struct bbr *b)
{
	return least(bdp_multiple(b, bw(b), 1 << GAIN_SHIFT), tcp_sk(sk)->snd_cwnd);
}

/* More than 2 % of it. */
static __always_inline bool is_inflight_too_high(__u32 lost, __u32 tx_in_flight)
{
	return (__u64)lost * 50 > tx_in_flight;
}

static __always_inline void start_round(struct sock *sk, struct bbr *b)
{
	b->next_round_delivered = tcp_sk(sk)->delivered;
}

static __always_inline void reset_full_bw(struct bbr *b)
{
	b->full_bw = 0;
	b->full_bw_count = 0;
	b->full_bw_now = false;
}

static __always_inline void reset_shortterm(struct bbr *b)
{
	b->bw_shortterm = INFINITE_BW;
	b->inflight_shortterm = INFINITE;
}

/* --- pacing and window */

/* The pacing rate for this rate and gain, in bytes/s. */
static __always_inline __u64 bytes_per_s(struct sock *sk, __u64 rate, __u32 gain)
{
	__u64 bytes = (rate * tcp_sk(sk)->mss_cache >> GAIN_SHIFT) * gain;

	/* 10^6 is 15625 * 2^6. */
	return least(bytes / 100 * MARGIN_PERCENT * 15625 >> (UNIT_SHIFT - 6),
		     sk->sk_max_pacing_rate);
}

/* Before the first round trip is known it counts as 1 ms. */
static __always_inline void init_pacing_rate(struct sock *sk, struct bbr *b)
{
	__u32 srtt = tcp_sk(sk)->srtt_us >> 3;

	b->has_srtt = srtt > 0;
	__u64 rate = ((__u64)INITIAL << UNIT_SHIFT) / (srtt > 0 ? srtt : 1000);
	sk->sk_pacing_rate = bytes_per_s(sk, rate, STARTUP_PACING_GAIN);
}

static __always_inline void set_pacing_rate_with_gain(struct sock *sk, struct bbr *b, __u32 gain)
{
	if (!b->has_srtt && tcp_sk(sk)->srtt_us >> 3)
		init_pacing_rate(sk, b);
	__u64 rate = bytes_per_s(sk, bw(b), gain);
	if (rate > 0 && (b->full_bw_reached || rate > sk->sk_pacing_rate))
		sk->sk_pacing_rate = rate;
}

static __always_inline __u32 cwnd_cap(const struct bbr *b)
{
	__u32 cap = INFINITE;

	if (b->phase == DOWN || b->phase == REFILL || b->phase == UP)
		cap = b->inflight_longterm;
	else if (b->phase == PROBE_RTT || b->phase == CRUISE)
		cap = inflight_with_headroom(b);
	return most(least(cap, b->inflight_shortterm), MIN_PIPE_CWND);
}

static __always_inline void set_cwnd(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 extra = most(b->extra_acked[0], b->extra_acked[1]);
	__u32 limit = quantization_budget(sk, b, bdp_multiple(b, bw(b), cwnd_gain(b)) + extra);
	__u64 cwnd = tp->snd_cwnd;

	if (b->full_bw_reached)
		cwnd = least(cwnd + ack->delivered, limit);
	else if (cwnd < limit || tp->delivered < INITIAL)
		cwnd += ack->delivered;
	cwnd = most(cwnd, MIN_PIPE_CWND);
	if (b->phase == PROBE_RTT)
		cwnd = least(cwnd, probe_rtt_cwnd(b));
	tp->snd_cwnd = least(least(cwnd, cwnd_cap(b)), tp->snd_cwnd_clamp);
}

static __always_inline void save_cwnd(struct sock *sk, struct bbr *b)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (b->ca_state >= CA_RECOVERY || b->phase == PROBE_RTT)
		cwnd = most(cwnd, b->prior_cwnd);
	b->prior_cwnd = cwnd;
}

static __always_inline void restore_cwnd(struct sock *sk, struct bbr *b)
{
	tcp_sk(sk)->snd_cwnd = most(tcp_sk(sk)->snd_cwnd, b->prior_cwnd);
}

static __always_inline void save_state_upon_loss(struct sock *sk, struct bbr *b)
{
	save_cwnd(sk, b);
	b->undo = UNDO_NONE;
	b->undo_bw_shortterm = b->bw_shortterm;
	b->undo_inflight_shortterm = b->inflight_shortterm;
	b->undo_inflight_longterm = b->inflight_longterm;
}

/* --- states */

static __always_inline void start_down(struct sock *sk, struct bbr *b)
{
	__u32 random = bpf_get_prandom_u32();

	b->is_loss_in_round = false;
	b->is_ecn_in_round = false;
	b->bw_latest = 0;
	b->inflight_latest = 0;
	b->probe_up_acked_per_inc = INFINITE;
	b->rounds_since_probe_up = random & 1;
	/* 2 to 3 s */
	b->bw_probe_wait = 2 * SECOND + ((random >> 1) * SECOND >> 31);
	b->cycle_stamp = tcp_sk(sk)->tcp_mstamp;
	b->ack_phase = ACKS_STOPPING;
	start_round(sk, b);
	b->phase = DOWN;
}

static __always_inline void start_refill(struct sock *sk, struct bbr *b)
{
	reset_shortterm(b);
	b->bw_probe_up_rounds = 0;
	b->bw_probe_up_acked = 0;
	b->prev_probe_precautionary = false;
	b->ack_phase = ACKS_REFILLING;
	start_round(sk, b);
	b->phase = REFILL;
}

static __always_inline void raise_longterm_slope(struct sock *sk, struct bbr *b)
{
	__u32 rounds = least(b->bw_probe_up_rounds, 30);

	b->bw_probe_up_rounds = least(rounds + 1, 30);
	b->probe_up_acked_per_inc = most(tcp_sk(sk)->snd_cwnd >> rounds, 1);
}

static __always_inline void start_up(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	b->ack_phase = ACKS_STARTING;
	start_round(sk, b);
	reset_full_bw(b);
	b->full_bw = ack->bw;
	b->up_stamp = tcp_sk(sk)->tcp_mstamp;
	b->phase = UP;
	raise_longterm_slope(sk, b);
}

static __always_inline void handle_inflight_too_high(struct sock *sk, struct bbr *b, __u32 tx_in_flight,
						     bool is_app_limited)
{
	b->prev_probe_too_high = true;
	b->is_bw_probe_sample = false;
	if (!is_app_limited)
		b->inflight_longterm = most(tx_in_flight, (__u64)target_inflight(sk, b) * 7 / 10);
	if (b->phase == UP) {
		b->undo = UNDO_UP;
		start_down(sk, b);
	}
}

static __always_inline void check_full_bw_reached(struct bbr *b, const struct ack *ack)
{
	if (b->full_bw_now || !b->round_start || ack->is_app_limited)
		return;
	__u64 rate = PLATEAU_OF_MAX_BW ? max_bw(b) : ack->bw;
	if (rate >= b->full_bw + b->full_bw / 4) {
		reset_full_bw(b);
		b->full_bw = rate;
		return;
	}
	b->full_bw_count++;
	b->full_bw_now = b->full_bw_count >= 3;
	if (b->full_bw_now)
		b->full_bw_reached = true;
}

/* The path is full. */
static __always_inline void queue_too_high_in_startup(struct bbr *b)
{
	b->full_bw_reached = true;
	b->full_bw_now = true;
	b->inflight_longterm = most(bdp_multiple(b, max_bw(b), 1 << GAIN_SHIFT), b->inflight_latest);
}

static __always_inline void check_startup_high_loss(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	if (!b->loss_round_start)
		return;
	bool many = b->loss_events >= STARTUP_LOSS_EVENTS;
	bool high = b->ca_state == CA_RECOVERY && is_inflight_too_high(ack->lost, ack->tx_in_flight);
	b->loss_events = 0;
	if (b->full_bw_reached || b->phase != STARTUP || !many || !high)
		return;
	b->undo = UNDO_STARTUP;
	queue_too_high_in_startup(b);
}

static __always_inline void check_startup_done(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	check_startup_high_loss(sk, b, ack);
	if (b->phase == STARTUP && b->full_bw_reached) {
		b->phase = DRAIN;
		b->drain_start_round = b->round_count;
	}
}

static __always_inline void check_drain_done(struct sock *sk, struct bbr *b)
{
	if (b->phase != DRAIN)
		return;
	bool empty = in_flight(tcp_sk(sk)) <= inflight(sk, b, bw(b), 1 << GAIN_SHIFT);
	bool is_long = DRAIN_ROUNDS && b->round_count > b->drain_start_round + DRAIN_ROUNDS;
	if (empty || is_long)
		start_down(sk, b);
}

static __always_inline void probe_longterm_upward(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || tp->snd_cwnd < b->inflight_longterm)
		return;
	b->bw_probe_up_acked += ack->delivered;
	__u32 per = most(b->probe_up_acked_per_inc, 1);
	if (b->bw_probe_up_acked >= per) {
		__u32 steps = b->bw_probe_up_acked / per;
		b->bw_probe_up_acked -= steps * per;
		b->inflight_longterm += steps;
	}
	if (b->round_start)
		raise_longterm_slope(sk, b);
}

/* Whether it decided on a state. */
static __always_inline bool adapt_longterm_model(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	if (b->ack_phase == ACKS_STARTING && b->round_start)
		b->ack_phase = ACKS_FEEDBACK;
	if (b->ack_phase == ACKS_STOPPING && b->round_start) {
		b->is_bw_probe_sample = false;
		b->ack_phase = ACKS_INIT;
		/* A cycle without samples does not count. */
		if (is_probe_bw(b) && !ack->is_app_limited && b->bw_cycles[1] > 0) {
			b->bw_cycles[0] = b->bw_cycles[1];
			b->bw_cycles[1] = 0;
		}
		if (is_probe_bw(b) && b->prev_probe_precautionary && !b->prev_probe_too_high) {
			start_refill(sk, b);
			return true;
		}
	}
	if (b->ecn_eligible && 2 * ack->rs_marked > ack->rs_delivered) {
		if (b->is_bw_probe_sample) {
			/* A recovery that was not necessary undoes no marks. */
			__u8 undo = b->undo;
			handle_inflight_too_high(sk, b, ack->tx_in_flight, ack->is_app_limited);
			b->undo = undo;
		}
	} else if (!is_inflight_too_high(ack->lost, ack->tx_in_flight) && b->inflight_longterm != INFINITE) {
		b->inflight_longterm = most(b->inflight_longterm, ack->tx_in_flight);
		if (b->phase == UP)
			probe_longterm_upward(sk, b, ack);
	}
	return false;
}

static __always_inline bool is_time_to_go_down(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 now_in_flight = in_flight(tp);

	if (b->prev_probe_too_high && now_in_flight >= b->inflight_longterm) {
		b->prev_probe_precautionary = true;
		return true;
	}
	if (UP_ENDS_AT_GAIN)
		return tp->tcp_mstamp > b->up_stamp + b->min_rtt &&
		       now_in_flight >= inflight(sk, b, max_bw(b), UP_ENDS_AT_GAIN);
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) && tp->snd_cwnd >= b->inflight_longterm) {
		reset_full_bw(b);
		b->full_bw = ack->bw;
		return false;
	}
	return b->full_bw_now;
}

static __always_inline void update_probe_bw_cycle(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!b->full_bw_reached || adapt_longterm_model(sk, b, ack))
		return;
	if (b->phase == DOWN || b->phase == CRUISE) {
		__u32 now_in_flight = in_flight(tp);
		/* As often as Reno would have lost something. */
		if (tp->tcp_mstamp > b->cycle_stamp + b->bw_probe_wait ||
		    b->rounds_since_probe_up >= least(target_inflight(sk, b), 63))
			start_refill(sk, b);
		else if (b->phase == DOWN && now_in_flight <= inflight_with_headroom(b) &&
			 now_in_flight <= inflight(sk, b, max_bw(b), 1 << GAIN_SHIFT))
			b->phase = CRUISE;
	} else if (b->phase == REFILL) {
		if (b->round_start) {
			b->is_bw_probe_sample = true;
			start_up(sk, b, ack);
		}
	} else if (b->phase == UP && is_time_to_go_down(sk, b, ack)) {
		b->prev_probe_too_high = false;
		start_down(sk, b);
	}
}

static __always_inline void check_probe_rtt_done(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!b->probe_rtt_done_stamp || tp->tcp_mstamp <= b->probe_rtt_done_stamp)
		return;
	b->probe_rtt_min_stamp = tp->tcp_mstamp;
	restore_cwnd(sk, b);
	reset_shortterm(b);
	if (b->full_bw_reached) {
		start_down(sk, b);
		b->phase = CRUISE;
	} else {
		b->phase = STARTUP;
	}
}

static __always_inline void handle_probe_rtt(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 now_in_flight = in_flight(tp);

	/* Rates that are measured now say little. */
	tp->app_limited = most(tp->delivered + now_in_flight, 1);
	if (!b->probe_rtt_done_stamp) {
		if (now_in_flight <= probe_rtt_cwnd(b)) {
			b->probe_rtt_done_stamp = tp->tcp_mstamp + PROBE_RTT_DURATION;
			b->probe_rtt_round_done = false;
			start_round(sk, b);
		}
		return;
	}
	if (b->round_start)
		b->probe_rtt_round_done = true;
	if (b->probe_rtt_round_done)
		check_probe_rtt_done(sk, b);
}

static __always_inline void check_probe_rtt(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	if (b->phase != PROBE_RTT && b->probe_rtt_expired && !b->idle_restart) {
		save_cwnd(sk, b);
		b->phase = PROBE_RTT;
		b->probe_rtt_done_stamp = 0;
		b->ack_phase = ACKS_STOPPING;
		start_round(sk, b);
	}
	if (b->phase == PROBE_RTT)
		handle_probe_rtt(sk, b);
	if (ack->rs_delivered > 0)
		b->idle_restart = false;
}

/* --- signals */

static __always_inline void update_latest_signals(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	b->bw_latest = most(b->bw_latest, ack->bw);
	b->inflight_latest = most(b->inflight_latest, ack->rs_delivered);
	b->loss_round_start = !before(ack->prior_delivered, b->loss_round_delivered);
	if (b->loss_round_start)
		b->loss_round_delivered = tcp_sk(sk)->delivered;
}

/* InitLowerBounds and LossLowerBounds. */
static __always_inline void lower_shortterm(struct sock *sk, struct bbr *b)
{
	if (b->bw_shortterm == INFINITE_BW)
		b->bw_shortterm = max_bw(b);
	if (b->inflight_shortterm == INFINITE)
		b->inflight_shortterm = tcp_sk(sk)->snd_cwnd;
	b->bw_shortterm = most(b->bw_latest, b->bw_shortterm / 10 * 7);
	b->inflight_shortterm = most(b->inflight_latest, (__u64)b->inflight_shortterm * 7 / 10);
}

/* The average share of marks, once in a round trip; many in two of Startup say that the path is full. */
static __always_inline void update_marks(struct sock *sk, struct bbr *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (b->round_start) {
		__u32 marked = tp->delivered_ce - b->ecn_marked;
		if (tp->ecn_flags & ECN_OK && b->min_rtt <= ECN_LONGEST_RTT)
			b->ecn_eligible = true;
		__u32 share = least((__u64)marked * ONE / most(tp->delivered - b->ecn_delivered, 1), ONE);
		if (b->ecn_eligible) {
			b->ecn_alpha -= (b->ecn_alpha + (1 << ALPHA_SHIFT) - 1) >> ALPHA_SHIFT;
			b->ecn_alpha = least(b->ecn_alpha + (share >> ALPHA_SHIFT), ONE);
			b->ecn_startup_rounds = 2 * share >= ONE ? b->ecn_startup_rounds + 1 : 0;
			if (!b->full_bw_reached && b->ecn_startup_rounds >= ECN_STARTUP_ROUNDS)
				queue_too_high_in_startup(b);
		}
		b->ecn_delivered = tp->delivered;
		b->ecn_marked = tp->delivered_ce;
	}
	if (b->ecn_eligible && tp->delivered_ce != b->ecn_seen)
		b->is_ecn_in_round = true;
	b->ecn_seen = tp->delivered_ce;
}

/* To the lower of what losses and what marks demand. */
static __always_inline void adapt_shortterm(struct sock *sk, struct bbr *b)
{
	__u64 bound = b->inflight_shortterm == INFINITE ? tcp_sk(sk)->snd_cwnd : b->inflight_shortterm;
	__u32 by_marks = bound * (3 * ONE - b->ecn_alpha) / (3 * ONE);

	if (b->is_loss_in_round)
		lower_shortterm(sk, b);
	if (b->is_ecn_in_round)
		b->inflight_shortterm = least(b->inflight_shortterm, by_marks);
}

static __always_inline void update_congestion_signals(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	b->round_start = !before(ack->prior_delivered, b->next_round_delivered);
	if (b->round_start) {
		start_round(sk, b);
		b->round_count++;
		b->rounds_since_probe_up++;
	}
	update_marks(sk, b);
	if (ack->bw >= max_bw(b) || !ack->is_app_limited)
		b->bw_cycles[1] = most(b->bw_cycles[1], ack->bw);
	if (b->loss_round_start) {
		bool probing = b->phase == STARTUP || b->phase == REFILL || b->phase == UP;
		if (!probing)
			adapt_shortterm(sk, b);
		b->is_loss_in_round = false;
		b->is_ecn_in_round = false;
	}
}

static __always_inline void update_ack_aggregation(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	__u64 now = tcp_sk(sk)->tcp_mstamp;
	__u32 expected = arriving(bw(b), least(now - b->extra_acked_start, SECOND));

	if (b->extra_acked_delivered <= expected) {
		b->extra_acked_delivered = 0;
		b->extra_acked_start = now;
		expected = 0;
	}
	b->extra_acked_delivered += ack->delivered;
	if (b->round_start && ++b->extra_acked_rounds >= (b->full_bw_reached ? EXTRA_ACKED_HALF : 1)) {
		b->extra_acked_rounds = 0;
		b->extra_acked[0] = b->extra_acked[1];
		b->extra_acked[1] = 0;
	}
	__u32 extra = b->extra_acked_delivered > expected ? b->extra_acked_delivered - expected : 0;
	b->extra_acked[1] = most(b->extra_acked[1], least(extra, tcp_sk(sk)->snd_cwnd));
}

static __always_inline void update_min_rtt(struct sock *sk, struct bbr *b, const struct ack *ack)
{
	__u64 now = tcp_sk(sk)->tcp_mstamp;

	b->probe_rtt_expired = now > b->probe_rtt_min_stamp + PROBE_RTT_INTERVAL;
	if (ack->rtt >= 0 && (ack->rtt < b->probe_rtt_min_delay || b->probe_rtt_expired)) {
		b->probe_rtt_min_delay = most(ack->rtt, 1);
		b->probe_rtt_min_stamp = now;
	}
	if (b->probe_rtt_min_delay < b->min_rtt || now > b->min_rtt_stamp + MIN_RTT_FILTER) {
		b->min_rtt = b->probe_rtt_min_delay;
		b->min_rtt_stamp = b->probe_rtt_min_stamp;
	}
}

/* NoteLoss and HandleLostPacket, for all segments that an ACK shows lost: one gap. */
static __always_inline void handle_losses(struct sock *sk, struct bbr *b, const struct ack *ack, __u32 losses)
{
	if (!b->is_loss_in_round) {
		b->loss_round_delivered = tcp_sk(sk)->delivered;
		b->loss_events = 0;
		save_state_upon_loss(sk, b);
	}
	b->is_loss_in_round = true;
	b->loss_events++;
	if (!b->is_bw_probe_sample || !is_inflight_too_high(ack->lost, ack->tx_in_flight))
		return;
	/* InflightAtLoss: where within the volume in flight did losses cross the threshold of 2 %? */
	__u32 before_them = ack->tx_in_flight > losses ? ack->tx_in_flight - losses : 0;
	__u32 lost_before = ack->lost > losses ? ack->lost - losses : 0;
	__u32 at = before_them;
	if (before_them > lost_before * 50)
		at += (before_them - lost_before * 50) / 49;
	handle_inflight_too_high(sk, b, at, ack->is_app_limited);
}

/* --- the ring of what was in flight */

static __always_inline void look_up(const struct tcp_sock *tp, struct bbr *b, struct ack *ack)
{
	struct slot *slot = &b->sent[ack->prior_delivered >> (b->slot_shift & 31) & SLOT_MASK];
	__u32 apart = ack->prior_delivered - slot->delivered;

	if (apart + (1u << (b->slot_shift & 31)) <= 2u << (b->slot_shift & 31) && slot->in_flight) {
		ack->lost = tp->lost - slot->lost;
		ack->tx_in_flight = slot->in_flight;
	}
}

static __always_inline void note(const struct tcp_sock *tp, struct bbr *b)
{
	/* Twice the window fits; entries of another distance count no more. */
	if (tp->snd_cwnd >> (b->slot_shift & 31) > SLOTS / 2 && b->slot_shift < 20)
		b->slot_shift++;
	b->newest = tp->delivered >> (b->slot_shift & 31) & SLOT_MASK;
	struct slot *slot = &b->sent[b->newest & SLOT_MASK];
	slot->delivered = tp->delivered;
	slot->lost = tp->lost;
	slot->in_flight = 0;
}

static __always_inline struct bbr *state(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

/* --- operations */

SEC("struct_ops/bbr_init")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *b = bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!b)
		return;
	__builtin_memset(b, 0, __builtin_offsetof(struct bbr, sent));
	reset_shortterm(b);
	b->undo_bw_shortterm = INFINITE_BW;
	b->undo_inflight_longterm = b->undo_inflight_shortterm = b->inflight_longterm = INFINITE;
	b->min_rtt = b->probe_rtt_min_delay = INFINITE;
	b->probe_up_acked_per_inc = INFINITE;
	b->min_rtt_stamp = b->probe_rtt_min_stamp = b->extra_acked_start = tp->tcp_mstamp;
	b->next_round_delivered = b->loss_round_delivered = b->ecn_delivered = tp->delivered;
	b->ecn_marked = b->ecn_seen = tp->delivered_ce;
	b->ecn_alpha = ONE;
	b->phase = STARTUP;
	tp->snd_ssthresh = INFINITE_SSTHRESH;
	init_pacing_rate(sk, b);
	sk->sk_pacing_status = PACING_NEEDED;
	note(tp, b);
}

SEC("struct_ops/bbr_main")
void BPF_PROG(bbr_main, struct sock *sk, __u32 acked, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *b = state(sk);

	if (!b)
		return;
	struct ack ack = {
		.delivered = rs->acked_sacked,
		.prior_delivered = rs->prior_delivered,
		.rtt = rs->rtt_us,
		.is_app_limited = rs->is_app_limited,
		.lost = rs->losses > 0 ? rs->losses : 0,
		.tx_in_flight = rs->prior_in_flight,
	};
	b->sent[b->newest & SLOT_MASK].in_flight = rs->prior_in_flight;
	bool is_sample = rs->delivered > 0 && rs->interval_us > 0;
	if (is_sample) {
		ack.rs_delivered = rs->delivered;
		ack.rs_marked = rs->delivered_ce > 0 ? rs->delivered_ce : 0;
		ack.bw = ((__u64)ack.rs_delivered << UNIT_SHIFT) / (__u64)rs->interval_us;
		look_up(tp, b, &ack);
	}
	if (rs->losses > 0)
		handle_losses(sk, b, &ack, rs->losses);
	if (is_sample) {
		update_latest_signals(sk, b, &ack);
		update_congestion_signals(sk, b, &ack);
		update_ack_aggregation(sk, b, &ack);
		check_full_bw_reached(b, &ack);
		check_startup_done(sk, b, &ack);
		check_drain_done(sk, b);
		update_probe_bw_cycle(sk, b, &ack);
		update_min_rtt(sk, b, &ack);
		check_probe_rtt(sk, b, &ack);
		if (b->loss_round_start) {
			b->bw_latest = ack.bw;
			b->inflight_latest = ack.rs_delivered;
		}
		set_pacing_rate_with_gain(sk, b, pacing_gain(b));
	}
	set_cwnd(sk, b, &ack);
	note(tp, b);
}

/* A recovery begins, or the timer has expired. */
SEC("struct_ops/bbr_ssthresh")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	struct bbr *b = state(sk);

	if (b)
		save_state_upon_loss(sk, b);
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops/bbr_set_state")
void BPF_PROG(bbr_set_state, struct sock *sk, __u8 to)
{
	struct bbr *b = state(sk);

	if (!b)
		return;
	if (b->ca_state >= CA_RECOVERY && to < CA_RECOVERY)
		restore_cwnd(sk, b);
	b->ca_state = to;
}

/* HandleSpuriousLossDetection. */
SEC("struct_ops/bbr_undo")
__u32 BPF_PROG(bbr_undo, struct sock *sk)
{
	struct bbr *b = state(sk);

	if (!b)
		return tcp_sk(sk)->snd_cwnd;
	restore_cwnd(sk, b);
	b->is_loss_in_round = false;
	reset_full_bw(b);
	b->bw_shortterm = most(b->bw_shortterm, b->undo_bw_shortterm);
	b->inflight_shortterm = most(b->inflight_shortterm, b->undo_inflight_shortterm);
	b->inflight_longterm = most(b->inflight_longterm, b->undo_inflight_longterm);
	if (b->undo == UNDO_STARTUP && b->phase != STARTUP) {
		b->full_bw_reached = false;
		if (b->phase != PROBE_RTT)
			b->phase = STARTUP;
	} else if (b->undo == UNDO_UP && b->phase != UP && b->phase != PROBE_RTT) {
		start_refill(sk, b);
	}
	b->undo = UNDO_NONE;
	return tcp_sk(sk)->snd_cwnd;
}

/* Sending begins anew after a pause of the application. */
SEC("struct_ops/bbr_event")
void BPF_PROG(bbr_event, struct sock *sk, int event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *b = state(sk);

	if (!b || event != TX_START || !tp->app_limited)
		return;
	b->idle_restart = true;
	b->extra_acked_start = tp->tcp_mstamp;
	if (is_probe_bw(b))
		set_pacing_rate_with_gain(sk, b, 1 << GAIN_SHIFT);
	else if (b->phase == PROBE_RTT)
		check_probe_rtt_done(sk, b);
}

SEC("struct_ops/bbr_segments")
__u32 BPF_PROG(bbr_segments, struct sock *sk)
{
	/* Below 1.2 Mbit/s a segment at a time. */
	return sk->sk_pacing_rate < 150000 ? 1 : 2;
}

#define BBR_OPERATIONS                                                                                                 \
	.init = (void *)bbr_init, .ssthresh = (void *)bbr_ssthresh, .undo_cwnd = (void *)bbr_undo,                    \
	.cong_control = (void *)bbr_main, .set_state = (void *)bbr_set_state, .cwnd_event = (void *)bbr_event,        \
	.min_tso_segs = (void *)bbr_segments

#endif
