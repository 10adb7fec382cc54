// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Hands the frames with which it is run to the stack of the machine, as if the interface had received them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
