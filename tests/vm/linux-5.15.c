// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Answers bpf(2) as Linux 5.15 does, for a program that is started with this in LD_PRELOAD: no live frames, no XDP programs
 * that take frames in fragments, no helpers that came later. For kernels of which there is no package to boot.
 * Sources: kernel/bpf/syscall.c, kernel/bpf/verifier.c and net/bpf/test_run.c of that version.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>

/* bpf_trace_vprintk came with 5.16 as the next helper. */
#define LAST_HELPER 176
#define XDP_HAS_FRAGS (1U << 5)
#define TEST_XDP_LIVE_FRAMES (1U << 1)

static int unknown_helper(const union bpf_attr *attr)
{
	const struct bpf_insn *insns = (const struct bpf_insn *)(unsigned long)attr->insns;
	for (unsigned int i = 0; i < attr->insn_cnt; i++)
		if (insns[i].code == (BPF_JMP | BPF_CALL) && insns[i].src_reg == 0 && insns[i].imm > LAST_HELPER)
			return insns[i].imm;
	return 0;
}

static long refused(int command, const union bpf_attr *attr)
{
	if (command == BPF_PROG_TEST_RUN)
		return attr->test.flags & TEST_XDP_LIVE_FRAMES;
	if (command != BPF_PROG_LOAD)
		return 0;
	if (attr->prog_flags & XDP_HAS_FRAGS)
		return 1;
	int helper = unknown_helper(attr);
	if (helper && attr->log_level && attr->log_size)
		snprintf((char *)(unsigned long)attr->log_buf, attr->log_size, "invalid func unknown#%d\n", helper);
	return helper;
}

long syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6];
	va_list list;
	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!next)
		next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_bpf && refused((int)a[0], (const union bpf_attr *)a[1])) {
		errno = EINVAL;
		return -1;
	}
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
