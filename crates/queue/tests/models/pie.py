"""PIE: RFC 8033, appendix A (basic) and appendix B (enhanced)."""

from harness import LIMIT, MS, Queue, Rng, total


class Control:
    """The random early dropping of one queue; `length` returns its bytes."""

    def __init__(self, seed, length, basic=False, by_rate=False, ref=15 * MS, update=15 * MS, burst=150 * MS, sleeps=True):
        self.rng = Rng(seed)
        self.length = length
        self.basic = basic
        self.by_rate = by_rate
        self.ref = ref / 1e12
        self.update = update
        self.max_burst = burst
        self.sleeps = sleeps and not basic
        self.active = not self.sleeps
        self.burst = burst
        self.p = 0.0
        self.accu = 0.0
        self.q = 0.0
        self.q_old = 0.0
        self.sojourn = 0.0
        self.timer_at = update
        self.reset_rate()

    def reset_rate(self):
        self.dq_start = None
        self.dq_count = 0
        self.dq_avg = None

    def timer(self, now):
        self.timer_at = now + self.update
        if not self.active:
            return
        n = self.length()
        if n == 0:
            self.q = 0.0
        elif self.by_rate:
            self.q = n * (self.dq_avg or 0.0) / 16384
        else:
            self.q = self.sojourn
        d = 0.125 * (self.q - self.ref) + 1.25 * (self.q - self.q_old)
        for below, divisor in ((1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)):
            if self.p < below:
                d /= divisor
                break
        if self.basic:
            quiet = self.q == 0.0 and self.q_old == 0.0
        else:
            if self.p >= 0.1 and d > 0.02:
                d = 0.02
            quiet = self.q < self.ref / 2 and self.q_old < self.ref / 2
        self.p += d
        if quiet:
            self.p *= 0.98
        self.p = min(max(self.p, 0.0), 1.0)
        self.q_old = self.q
        self.burst = max(0, self.burst - self.update)
        # the RFC asks this at each arrival: then a queue that has just woken up falls asleep before it is measured
        if self.sleeps and self.p == 0.0 and self.q == 0.0:
            self.active = False

    def early(self, n):
        if (self.q_old < self.ref / 2 and self.p < 0.2) or n <= 2 * 1500:
            return False
        if self.basic:
            return self.rng.unit() < self.p
        if self.p == 0.0:
            self.accu = 0.0
        self.accu += self.p
        if self.accu < 0.85:
            return False
        if self.accu >= 8.5:
            return True
        if self.rng.unit() < self.p:
            self.accu = 0.0
            return True
        return False

    def arrival(self, packet):
        """Whether the packet is accepted; it may be marked."""
        n = self.length()
        if self.basic:
            if self.p == 0.0 and self.q < self.ref / 2 and self.q_old < self.ref / 2:
                self.burst = self.max_burst
            return not (self.burst == 0 and self.early(n))
        accepted = True
        if self.active and self.early(n) and self.burst == 0:
            if self.p < 0.1 and packet.ect:
                packet.mark()
            else:
                accepted = False
                self.accu = 0.0
        self.wake(n)
        return accepted

    def full(self):
        self.accu = 0.0
        self.wake(self.length())

    def wake(self, n):
        if self.sleeps and not self.active and n >= LIMIT / 3:
            self.active = True
            self.q_old = self.p = self.accu = 0.0
            self.burst = self.max_burst
            self.reset_rate()

    def departure(self, packet, now):
        """Called when the packet is no longer in the queue."""
        self.sojourn = (now - packet.time) / 1e12
        if self.dq_start is not None:
            self.dq_count += packet.size
            if self.dq_count >= 16384:
                took = (now - self.dq_start) / 1e12
                self.dq_avg = took if self.dq_avg is None else 0.25 * took + 0.75 * self.dq_avg
                self.dq_start = None
        if self.dq_start is None and self.length() >= 16384:
            self.dq_start = now
            self.dq_count = 0


class Pie(Queue):
    def __init__(self, seed, **kind):
        super().__init__()
        self.q = []
        self.pie = Control(seed, lambda: total(self.q), **kind)

    @property
    def timer_at(self):
        return self.pie.timer_at

    def timer(self, now):
        self.pie.timer(now)

    def backlog(self):
        return len(self.q)

    def offer(self, packet, now):
        if total(self.q) + packet.size > LIMIT:
            self.pie.full()
            self.drop(packet, "overflow")
        elif self.pie.arrival(packet):
            self.q.append(packet)
        else:
            self.drop(packet, "early")

    def take(self, now):
        if not self.q:
            return None
        packet = self.q.pop(0)
        self.pie.departure(packet, now)
        return packet
