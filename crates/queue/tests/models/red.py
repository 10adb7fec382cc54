"""RED in bytes with the gentle region; Adaptive RED."""

import math

from harness import LIMIT, RATE, SECOND, Queue, Rng, total

MEAN = 1000.0


class Red(Queue):
    def __init__(self, seed, adaptive=False, wait=False):
        super().__init__()
        self.q = []
        self.rng = Rng(seed)
        self.rate = RATE / 8.0 / MEAN
        self.w = 1.0 - math.exp(-1.0 / self.rate)
        self.low = max(5.0 * MEAN, 0.005 * RATE / 8.0 / 2.0)
        self.high = 3.0 * self.low
        self.max_p = 0.1
        self.avg = 0.0
        self.n = 0
        self.idle = 0
        self.adaptive = adaptive
        self.adapt_at = SECOND // 2
        self.wait = wait

    def backlog(self):
        return len(self.q)

    def offer(self, packet, now):
        queued = total(self.q)
        if not self.q:
            self.avg *= (1.0 - self.w) ** ((now - self.idle) / 1e12 * self.rate)
            self.idle = now
        self.avg = (1.0 - self.w) * self.avg + self.w * queued
        if self.adaptive and now >= self.adapt_at:
            self.adapt_at = now + SECOND // 2
            d = 0.4 * (self.high - self.low)
            if self.avg > self.high - d:
                if self.max_p <= 0.5:
                    self.max_p += min(self.max_p / 4.0, 0.01)
            elif self.avg < self.low + d and self.max_p >= 0.01:
                self.max_p *= 0.9
        signal = False
        if self.avg < self.low:
            self.n = 0
        elif self.avg >= 2.0 * self.high:
            self.n = 0
            self.drop(packet, "early")
            return
        else:
            self.n += 1
            if self.avg < self.high:
                pb = self.max_p * (self.avg - self.low) / (self.high - self.low)
            else:
                pb = self.max_p + (1.0 - self.max_p) * (self.avg - self.high) / self.high
            pb = pb * packet.size / MEAN
            f = self.n * pb
            if self.wait:
                pa = 0.0 if f < 1.0 else pb / (2.0 - f) if f < 2.0 else 1.0
            else:
                pa = pb / (1.0 - f) if f < 1.0 else 1.0
            if self.rng.unit() < pa:
                self.n = 0
                signal = True
        if signal and not packet.ect:
            self.drop(packet, "early")
        elif queued + packet.size > LIMIT:
            self.drop(packet, "overflow")
        else:
            if signal:
                packet.mark()
            self.q.append(packet)

    def take(self, now):
        if not self.q:
            return None
        packet = self.q.pop(0)
        if not self.q:
            self.idle = now
        return packet
