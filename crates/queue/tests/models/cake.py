"""Like CAKE: shaper, DRR++ with fairness of hosts, COBALT. The shaper runs at 9 Mbit/s, 4 bytes of overhead."""

import math

from harness import LIMIT, MASK, MS, Queue, Rng, total

QUEUES, WAYS = 1024, 8
SHAPER = 9_000_000
OVERHEAD = 4
MTU_TIME = 1514 * 8 * 10**12 // SHAPER
TARGET = max(5 * MS, MTU_TIME * 3 // 2)
INTERVAL = max(100 * MS + TARGET - 5 * MS, 2 * TARGET)
QUANTUM = min(max(SHAPER // 8 // 4096, 300), 1514)


class Flow:
    def __init__(self):
        self.kind = "none"
        self.tag = None
        self.q = []
        self.deficit = 0
        self.count = 0
        self.dropping = False
        self.drop_next = 0
        self.blue = 0.0
        self.blue_time = 0

    def law(self, t):
        return t + int(INTERVAL / math.sqrt(max(self.count, 1)))

    def full(self, now):
        if now - self.blue_time > TARGET:
            self.blue = min(self.blue + 1 / 256, 1.0)
            self.blue_time = now
        self.dropping = True
        self.drop_next = now
        self.count = max(self.count, 1)

    def empty(self, now):
        if self.blue > 0 and now - self.blue_time > TARGET:
            self.blue = max(self.blue - 1 / 4096, 0.0)
            self.blue_time = now
        self.dropping = False
        if self.count and now >= self.drop_next:
            self.count -= 1
            self.drop_next = self.law(self.drop_next)

    def should_drop(self, packet, now, rng):
        sojourn = now - packet.time
        due = self.count > 0 and now >= self.drop_next
        if sojourn > TARGET and sojourn > 4 * MTU_TIME:
            if not self.dropping:
                self.dropping = True
                self.drop_next = self.law(now)
            self.count = max(self.count, 1)
        else:
            self.dropping = False
        reason = None
        if due and self.dropping:
            if not packet.mark():
                reason = "sojourn"
            self.count += 1
            self.drop_next = self.law(self.drop_next)
        elif due:
            while self.count and now >= self.drop_next:
                self.count -= 1
                self.drop_next = self.law(self.drop_next)
        if self.blue > 0 and rng.unit() < self.blue:
            reason = "blue"
        if self.count == 0:
            self.drop_next = now + INTERVAL
        elif now > self.drop_next and reason is None:
            self.drop_next = now
        return reason


class Cake(Queue):
    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.rng = Rng((seed + 1) & MASK)
        self.flows = [Flow() for _ in range(QUEUES)]
        self.sparse, self.bulk, self.decaying = [], [], []
        self.next = 0
        self.left = 0  # of the shaper's division

    def all(self):
        return self.sparse + self.bulk + self.decaying

    def backlog(self):
        return sum(len(flow.q) for flow in self.all())

    def due(self, now):
        return max(now, self.next)

    def quantum(self, flow):
        bulk = [other for other in self.all() if other.kind == "bulk"]
        load = max(
            1,
            sum(other.source == flow.source for other in bulk),
            sum(other.destination == flow.destination for other in bulk),
        )
        return (QUANTUM * (65535 // load) + (self.rng.u64() >> 48)) >> 16

    def find(self, packet):
        direct = (Rng(self.seed ^ packet.flow).u64() * QUEUES) >> 64
        base = direct // WAYS * WAYS
        ways = [self.flows[base + (direct + i) % WAYS] for i in range(WAYS)]
        for flow in ways:
            if flow.kind != "none" and flow.tag == packet.flow:
                return flow
        for flow in ways:
            if flow.kind == "none":
                flow.tag, flow.source, flow.destination = packet.flow, packet.source, packet.destination
                return flow
        return self.flows[direct]

    def offer(self, packet, now):
        if not self.backlog():
            self.next = max(self.next, now)
        flow = self.find(packet)
        if flow.kind in ("none", "decaying"):
            if flow in self.decaying:
                self.decaying.remove(flow)
            flow.deficit = self.quantum(flow)
            flow.kind = "sparse"
            self.sparse.append(flow)
        elif flow.kind == "wait":
            flow.kind = "bulk"
        flow.q.append(packet)
        while sum(total(flow.q) for flow in self.all()) > LIMIT:
            longest = sorted(self.sparse + self.bulk, key=lambda f: (-total(f.q), self.flows.index(f)))[0]
            longest.full(now)
            self.drop(longest.q.pop(0), "evicted")

    def take(self, now):
        while True:
            rotation = self.sparse or self.bulk or self.decaying
            flow = rotation[0]
            if flow.deficit <= 0:
                if flow.kind == "sparse":
                    flow.kind = "bulk" if flow.q else "wait"
                flow.deficit += self.quantum(flow)
                rotation.pop(0)
                self.bulk.append(flow)
                continue
            packet = self.packet_of(flow, now)
            if packet:
                size = packet.size + OVERHEAD
                flow.deficit -= size
                slot, self.left = divmod(size * 8 * 10**12 + self.left, SHAPER)
                self.next += slot
                return packet
            rotation.pop(0)
            flow.empty(now)
            if flow.blue == 0 and flow.count == 0 and now >= flow.drop_next:
                flow.kind = "none"
            else:
                flow.kind = "decaying"
                self.decaying.append(flow)

    def packet_of(self, flow, now):
        while flow.q:
            packet = flow.q.pop(0)
            reason = flow.should_drop(packet, now, self.rng)
            if reason is None or not flow.q:
                return packet
            self.drop(packet, reason)
        return None
