"""DualPI2: RFC 9332, appendix A.1 with the overload code of A.2; weighted round robin as a credit."""

from harness import CE, ECT1, LIMIT, MS, Queue, total

K = 2.0
TARGET = 0.015
TUPDATE = 15 * MS
ALPHA = 0.1 * 0.015 / (0.1 * 0.1)
BETA = 0.3 / 0.1
MTU = 1514


class DualPi2(Queue):
    timer_at = TUPDATE

    def __init__(self):
        super().__init__()
        self.l = []
        self.c = []
        self.p = 0.0
        self.prev = 0.0
        self.counts = {"l": 0.0, "c": 0.0}
        self.credit = MTU * (1 - 15)

    def backlog(self):
        return len(self.l) + len(self.c)

    def timer(self, now):
        self.timer_at = now + TUPDATE
        ages = [now - q[0].time for q in (self.l, self.c) if q]
        delay = max(ages, default=0) / 1e12
        self.p += ALPHA * (delay - TARGET) + BETA * (delay - self.prev)
        self.p = min(max(self.p, 0.0), 1.0)
        self.prev = delay

    def recur(self, queue, likelihood):
        self.counts[queue] += likelihood
        if self.counts[queue] > 1:
            self.counts[queue] -= 1
            return True
        return False

    def offer(self, packet, now):
        if total(self.l) + total(self.c) + packet.size > LIMIT:
            self.drop(packet, "overflow")
        elif packet.ecn in (ECT1, CE):
            self.l.append(packet)
        else:
            self.c.append(packet)

    @staticmethod
    def laqm(sojourn, packets):
        if packets <= 1 or sojourn < 800_000_000:
            return 0.0
        return min((sojourn - 800_000_000) / 400_000_000, 1.0)

    def take(self, now):
        while self.l or self.c:
            if self.l and (not self.c or self.credit <= 0):
                packets = len(self.l)
                packet = self.l.pop(0)
                p_cl = K * self.p
                if p_cl < 1:
                    if self.recur("l", max(self.laqm(now - packet.time, packets), p_cl)):
                        packet.mark()
                else:
                    if self.recur("l", self.p * self.p):
                        self.drop(packet, "early")
                        continue
                    packet.mark()  # the counter of the RFC has no bound where p_CL is above 1
                if self.c:
                    self.credit += packet.size
                return packet
            packet = self.c.pop(0)
            p_c = self.p * self.p
            if self.recur("c", p_c) and (p_c >= 0.25 or not packet.mark()):
                self.drop(packet, "early")
                continue
            if self.l:
                self.credit -= 15 * packet.size
            return packet
        self.credit = MTU * (1 - 15)
        return None
