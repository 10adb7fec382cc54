"""Packet values: drop-min, PVPIE, the core-stateless threshold, and the two markers."""

import math

import pie
from harness import LIMIT, MS, RATE, SECOND, Queue, Rng, total

LEVELS = 1024


class DropMin(Queue):
    def __init__(self):
        super().__init__()
        self.q = []

    def backlog(self):
        return len(self.q)

    def make_room(self, packet):
        while total(self.q) + packet.size > LIMIT:
            worst = min(self.q, key=lambda p: p.value)  # of equal ones the first
            if worst.value >= packet.value:
                self.drop(packet, "overflow")
                return False
            self.q.remove(worst)
            self.drop(worst, "evicted")
        return True

    def offer(self, packet, now):
        if self.make_room(packet):
            self.q.append(packet)

    def take(self, now):
        return self.q.pop(0) if self.q else None


def quantile(packets, share_bytes):
    """The highest value below which there are no more than these bytes."""
    best = 0
    for value in range(LEVELS + 1):
        if sum(p.size for p in packets if p.value < value) <= share_bytes:
            best = value
    return best


class PvPie(Queue):
    def __init__(self, seed):
        super().__init__()
        self.q = []
        self.seen = []
        self.ctv = 0
        self.pie = pie.Control(seed, lambda: total(self.q), basic=True, ref=20 * MS, update=30 * MS, burst=100 * MS)

    @property
    def timer_at(self):
        return self.pie.timer_at

    def timer(self, now):
        self.pie.timer(now)
        self.stale = True

    stale = False

    def refresh(self, now):
        if self.stale:
            self.stale = False
            self.seen = [p for p in self.seen if p.time + SECOND > now]
            self.ctv = quantile(self.seen, self.pie.p * total(self.seen)) if self.pie.p > 0 else 0

    def backlog(self):
        return len(self.q)

    def offer(self, packet, now):
        self.refresh(now)
        self.seen.append(packet)
        below = packet.value < self.ctv
        if below and not packet.ect:
            self.drop(packet, "value")
        elif total(self.q) + packet.size > LIMIT:
            self.drop(packet, "overflow")
        else:
            if below:
                packet.mark()
            self.q.append(packet)

    def take(self, now):
        self.refresh(now)
        packet = self.q.pop(0) if self.q else None
        if packet:
            self.pie.departure(packet, now)
        return packet


class CoreStateless(DropMin):
    STEP, WINDOW, TARGET = 5 * MS, 50 * MS, 5 * MS

    def __init__(self):
        super().__init__()
        self.seen = []
        self.ctv = 0
        self.slot = 0

    def refresh(self, now):
        if now // self.STEP == self.slot:
            return
        self.slot = now // self.STEP
        self.seen = [p for p in self.seen if p.time + self.WINDOW > now]
        room = RATE / 8.0 * (self.WINDOW / 1e12 + self.TARGET / 1e12) - total(self.q)
        excess = total(self.seen) - room
        self.ctv = quantile(self.seen, excess) if excess > 0 else 0

    def offer(self, packet, now):
        self.refresh(now)
        self.seen.append(packet)
        below = packet.value < self.ctv
        if below and not packet.ect:
            self.drop(packet, "value")
        elif self.make_room(packet):
            if below:
                packet.mark()
            self.q.append(packet)

    def take(self, now):
        self.refresh(now)
        return self.q.pop(0) if self.q else None


def value(bits_per_s):
    """1023 at 10 kbit/s and less, 0 at 10 Gbit/s and more, linear in the logarithm."""
    share = max(math.log(1e10 / max(bits_per_s, 1e4)), 0.0) / math.log(1e6)
    return math.floor(share * 1023 + 0.5)


def ladder():
    """A flow's values: packets of the arrivals in harness.py, buckets of 100 ms."""
    rates = [10.0 ** (4.0 + i / 30.0) for i in range(181)]
    tokens = [rate / 8.0 * 0.1 for rate in rates]
    last = 0

    def mark(size, now):
        nonlocal last, tokens
        gap = (now - last) / 1e12
        last = now
        tokens = [min(t + rate / 8.0 * gap, rate / 8.0 * 0.1) for t, rate in zip(tokens, rates)]
        k = len(rates)
        while k > 0 and tokens[k - 1] >= size:
            k -= 1
        tokens = [t - size if j >= k else t for j, t in enumerate(tokens)]
        return value(rates[k]) if k < len(rates) else 0

    return mark


def random(seed):
    """The same from the rate of about 100 ms."""
    rng = Rng(seed)
    rate, last = 0.0, None

    def mark(size, now):
        nonlocal rate, last
        gap = 0.0 if last is None else (now - last) / 1e12
        last = now
        rate = rate * math.exp(-gap / 0.1) + size / 0.1
        return value(rng.unit() * rate * 8.0)

    return mark
