/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What congestion controls know of the kernel: the fields that they use, found in the running kernel by its BTF, and
 * the operations that they fill in.
 */
#ifndef WEIR_CC_H
#define WEIR_CC_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

/* enum tcp_ca_state */
#define CA_OPEN 0
#define CA_RECOVERY 3
#define CA_LOSS 4
/* enum tcp_ca_event */
#define TX_START 0
#define ECN_NO_CE 4
#define ECN_IS_CE 5
/* Of icsk_ack.pending. */
#define ACK_TIMER 2
#define ACK_NOW 16
/* Of ecn_flags: both ends use ECN; the next ACK has ECE. */
#define ECN_OK 1
#define ECN_DEMAND_CWR 4
/* Of sk_pacing_status: TCP paces by itself. */
#define PACING_NEEDED 1
/* Of the operations' flags. */
#define NEEDS_ECN 2
#define INFINITE_SSTHRESH 0x7fffffff

#define FROM_KERNEL __attribute__((preserve_access_index))

struct sock {
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
} FROM_KERNEL;

struct inet_connection_sock {
	struct {
		__u8 pending;
	} FROM_KERNEL icsk_ack;
	__u64 icsk_ca_priv[13];
} FROM_KERNEL;

struct tcp_sock {
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 srtt_us;
	__u32 mss_cache;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 packets_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 retrans_out;
	__u32 delivered;
	__u32 delivered_ce;
	__u32 lost;
	__u32 app_limited;
	__u64 tcp_mstamp;
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1;
} FROM_KERNEL;

struct rate_sample {
	__u32 prior_delivered;
	__s32 delivered;
	__s32 delivered_ce;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	__u32 prior_in_flight;
	bool is_app_limited;
} FROM_KERNEL;

/* Members are found by their names; the name comes first so that it can be changed before the object is loaded. */
struct tcp_congestion_ops {
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, int event);
	__u32 (*min_tso_segs)(struct sock *sk);
};

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 most(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* struct_ops programs must have a licence that the kernel knows as compatible; MIT is. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#endif
