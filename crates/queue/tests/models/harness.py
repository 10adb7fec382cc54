"""Random arrivals at a link of constant rate, for the models of the queues.

Written from the RFCs and papers, not from the Rust code: plain lists, a timer that fires, no shortcuts. What both must have
in common is the order of random draws, the arrivals below, and picoseconds as integers.
"""

MASK = (1 << 64) - 1
RATE = 10_000_000  # bit/s: a byte lasts 800,000 ps
PS_PER_BYTE = 800_000
LIMIT = 120_000  # bytes, 96 ms
LOADS = [50, 105, 115, 110, 105, 115, 200, 10]  # percent of the rate, 2000 arrivals each
SECOND = 10**12
MS = 10**9


class Rng:
    """splitmix64."""

    def __init__(self, seed):
        self.state = seed & MASK

    def u64(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def unit(self):
        return (self.u64() >> 11) / (1 << 53)

    def below(self, n):
        return (self.u64() * n) >> 64


NOT_ECT, ECT0, ECT1, CE = "not-ect", "ect0", "ect1", "ce"


class Packet:
    def __init__(self, index, size, flow, value):
        self.index = index
        self.size = size
        self.flow = flow
        self.value = value
        self.source = flow % 3
        self.destination = flow % 2
        self.ecn = [NOT_ECT, NOT_ECT, ECT0, ECT1][flow % 4]
        self.time = None  # of its arrival

    @property
    def ect(self):
        return self.ecn != NOT_ECT

    def mark(self):
        """Sets CE if the packet knows ECN; whether it does."""
        if self.ect:
            self.ecn = CE
        return self.ect


def arrivals(seed):
    rng = Rng(seed)
    time = 0
    for index in range(2000 * len(LOADS)):
        mean_gap = 791 * PS_PER_BYTE * 100 // LOADS[index // 2000]
        time += rng.below(2 * mean_gap)
        size = 64 + rng.below(1455)
        flow = rng.below(8)
        value = rng.below(1024)
        yield time, Packet(index, size, flow, value)


class Queue:
    """What models have in common: a list of drops, and a limit in bytes."""

    timer_at = None

    def __init__(self):
        self.drops = []

    def drop(self, packet, reason):
        self.drops.append((packet.index, reason))

    def due(self, now):
        return now


def total(packets):
    return sum(packet.size for packet in packets)


class Link:
    def __init__(self, queue):
        self.queue = queue
        self.free = 0
        self.clock = 0
        self.lines = []
        self.departures = 0
        self.bytes = 0
        self.digest = 0xCBF29CE484222325

    def tick(self, now):
        while self.queue.timer_at is not None and self.queue.timer_at <= now:
            self.queue.timer(self.queue.timer_at)

    def note_drops(self):
        self.lines += [f"drop {index} {reason}" for index, reason in self.queue.drops]
        self.queue.drops.clear()

    def serve(self, until):
        while self.queue.backlog() > 0:
            now = max(self.free, self.clock, self.queue.due(self.clock))
            if until is not None and now > until:
                return
            self.clock = now
            self.tick(now)
            packet = self.queue.take(now)
            self.note_drops()
            if packet is None:
                continue
            if packet.ecn == CE:
                self.lines.append(f"mark {packet.index}")
            self.free = now + packet.size * PS_PER_BYTE
            self.departures += 1
            self.bytes += packet.size
            for number in (packet.index, now):
                self.digest = ((self.digest ^ number) * 0x100000001B3) & MASK

    def run(self, seed):
        for now, packet in arrivals(seed):
            self.serve(now)
            self.clock = now
            self.tick(now)
            packet.time = now
            self.queue.offer(packet, now)
            self.note_drops()
            self.serve(now)
        self.serve(None)
        self.lines.append(f"left {self.departures} packets {self.bytes} bytes digest {self.digest:016x}")
        return self.lines
