// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The sink of generators: drops every frame where it arrives. The driver counts them
 * (rx_queue_N_xdp_drops), so that all generators are judged by the same counter at the same cost.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp.frags")
int drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
