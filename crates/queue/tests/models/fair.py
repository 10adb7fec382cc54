"""Flow queues of RFC 8290 with CoDel or PIE in each."""

import codel
import pie
from harness import LIMIT, MASK, Queue, Rng, total

QUEUES = 1024
QUANTUM = 1514


class Flow:
    def __init__(self, number, seed, with_pie):
        self.number = number
        self.q = []
        self.credit = 0
        self.pie = None
        if with_pie:
            self.pie = pie.Control((seed + 1 + number) & MASK, lambda: total(self.q), sleeps=False)
        self.codel = codel.Control()


class Fair(Queue):
    def __init__(self, seed, with_pie=False):
        super().__init__()
        self.seed = seed
        self.with_pie = with_pie
        self.flows = {}
        self.new = []
        self.old = []
        self.timer_at = 15 * 10**9 if with_pie else None

    def timer(self, now):
        self.timer_at = now + 15 * 10**9
        for flow in self.flows.values():
            flow.pie.timer(now)

    def backlog(self):
        return sum(len(flow.q) for flow in self.flows.values())

    def bytes(self):
        return sum(total(flow.q) for flow in self.flows.values())

    def flow_of(self, packet):
        number = (Rng(self.seed ^ packet.flow).u64() * QUEUES) >> 64
        if number not in self.flows:
            flow = Flow(number, self.seed, self.with_pie)
            if self.with_pie:
                # its controller has run since the start, on an empty queue
                while flow.pie.timer_at < self.timer_at:
                    flow.pie.timer(flow.pie.timer_at)
            self.flows[number] = flow
        return self.flows[number]

    def offer(self, packet, now):
        if self.with_pie and self.bytes() + packet.size > LIMIT:
            self.drop(packet, "overflow")
            return
        flow = self.flow_of(packet)
        if self.with_pie:
            if not flow.pie.arrival(packet):
                self.drop(packet, "early")
                return
        else:
            flow.codel.saw(packet)
        flow.q.append(packet)
        if flow not in self.new and flow not in self.old:
            flow.credit = QUANTUM
            self.new.append(flow)
        while self.bytes() > LIMIT:
            largest = sorted(self.new + self.old, key=lambda f: (-total(f.q), f.number))[0]
            for _ in range(min(64, (len(largest.q) + 1) // 2)):
                self.drop(largest.q.pop(0), "evicted")

    def take(self, now):
        while self.new or self.old:
            rotation = self.new if self.new else self.old
            flow = rotation[0]
            if flow.credit <= 0:
                flow.credit += QUANTUM
                rotation.pop(0)
                self.old.append(flow)
                continue
            if self.with_pie:
                packet = flow.q.pop(0) if flow.q else None
                if packet:
                    flow.pie.departure(packet, now)
            else:
                packet = flow.codel.dequeue(flow.q, now, self.drop)
            if packet:
                flow.credit -= packet.size
                return packet
            rotation.pop(0)
            if rotation is self.new:
                self.old.append(flow)
        return None
