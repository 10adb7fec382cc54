// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * DCTCP (RFC 8257) as a congestion control of the kernel: for machines whose kernel was built without it.
 *
 * Both ends need it: the receiver reports each change of CE at once (section 3.2), the sender reduces its window by the
 * share of marks, once in a window (section 3.3). Losses halve the window (section 3.4). Growth is that of Reno.
 */
#include "cc.h"

/* Alpha, in 1/1024; g is 1/16. */
#define ONE 1024
#define G_SHIFT 4

struct dctcp {
	/* Alpha: the share of marks. */
	__u32 alpha;
	/* WindowEnd; delivered and marked segments when this window began. */
	__u32 window_end;
	__u32 delivered;
	__u32 marked;
	/* The receiver's: CE of the last segment, and the sequence number up to which it holds. */
	__u32 ce;
	__u32 ce_until;
	/* The window before the last reduction. */
	__u32 former_cwnd;
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline struct dctcp *state(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline void begin_window(const struct tcp_sock *tp, struct dctcp *d)
{
	d->window_end = tp->snd_nxt;
	d->delivered = tp->delivered;
	d->marked = tp->delivered_ce;
}

SEC("struct_ops/dctcp_init")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *d = state(sk);

	d->alpha = ONE;
	d->ce = 0;
	d->ce_until = tp->rcv_nxt;
	d->former_cwnd = 0;
	begin_window(tp, d);
}

/* Where a mark or a loss leads: called once in a window for marks. */
SEC("struct_ops/dctcp_ssthresh")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *d = state(sk);
	__u64 cwnd = tp->snd_cwnd;

	d->former_cwnd = cwnd;
	return most(cwnd - cwnd * d->alpha / (2 * ONE), 2);
}

/* Losses halve the window, whatever the marks say. When the timer expired, the window is a small one already. */
SEC("struct_ops/dctcp_set_state")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 to)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *d = state(sk);

	if (to == CA_RECOVERY)
		d->former_cwnd = tp->snd_cwnd;
	if (to == CA_RECOVERY || to == CA_LOSS)
		tp->snd_ssthresh = most(d->former_cwnd / 2, 2);
}

/* At the end of a window: Alpha = Alpha * (1 - g) + g * M. */
SEC("struct_ops/dctcp_in_ack")
void BPF_PROG(dctcp_in_ack, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *d = state(sk);

	if (before(tp->snd_una, d->window_end))
		return;
	__u32 marked = tp->delivered_ce - d->marked;
	__u32 all = most(tp->delivered - d->delivered, 1);
	__u32 share = least((__u64)marked * ONE / all, ONE);
	/* Rounded up, so that it reaches zero. */
	__u32 alpha = d->alpha - ((d->alpha + (1 << G_SHIFT) - 1) >> G_SHIFT) + (share >> G_SHIFT);
	d->alpha = least(alpha, ONE);
	begin_window(tp, d);
}

static __always_inline void demand_cwr(struct tcp_sock *tp, bool ce)
{
	if (ce)
		tp->ecn_flags = tp->ecn_flags | ECN_DEMAND_CWR;
	else
		tp->ecn_flags = tp->ecn_flags & ~ECN_DEMAND_CWR;
}

/* The receiver: what was received before CE changed is acknowledged with what held for it, and at once. */
SEC("struct_ops/dctcp_event")
void BPF_PROG(dctcp_event, struct sock *sk, int event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct dctcp *d = state(sk);

	if (event != ECN_IS_CE && event != ECN_NO_CE)
		return;
	bool ce = event == ECN_IS_CE;
	if (d->ce != ce) {
		if (icsk->icsk_ack.pending & ACK_TIMER) {
			demand_cwr(tp, d->ce);
			bpf_tcp_send_ack(tp, d->ce_until);
		}
		icsk->icsk_ack.pending = icsk->icsk_ack.pending | ACK_NOW;
	}
	d->ce_until = tp->rcv_nxt;
	d->ce = ce;
	demand_cwr(tp, ce);
}

SEC("struct_ops/dctcp_grow")
void BPF_PROG(dctcp_grow, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/dctcp_undo")
__u32 BPF_PROG(dctcp_undo, struct sock *sk)
{
	return most(tcp_sk(sk)->snd_cwnd, state(sk)->former_cwnd);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.name = "weir_dctcp",
	.flags = NEEDS_ECN,
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.undo_cwnd = (void *)dctcp_undo,
	.cong_avoid = (void *)dctcp_grow,
	.in_ack_event = (void *)dctcp_in_ack,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_event,
};
