"""GSP: draft-lauten-aqm-gsp-03, basic and adaptive; threshold at half of the limit."""

from harness import LIMIT, MS, SECOND, Queue, total

PRESET = 200 * MS


class Gsp(Queue):
    def __init__(self, adaptive=False):
        super().__init__()
        self.adaptive = adaptive
        self.q = []
        self.expiry = 0
        self.last = 0
        self.state = "clear"
        self.cumul = 0.0

    def backlog(self):
        return len(self.q)

    def offer(self, packet, now):
        queued = total(self.q)
        above = queued > LIMIT / 2
        dt = (now - self.last) / 1e12
        self.last = now
        interval = PRESET
        if self.adaptive:
            if self.state == "overflow" and queued == 0:
                self.state = "drained"
            elif self.state == "drained" and above:
                self.state = "clear"
            if above:
                self.cumul += 2.0 * dt
            elif self.state == "clear":
                self.cumul -= dt
            self.cumul = min(max(self.cumul, 0.0), 60.0)
            interval = int(PRESET / (1.0 + self.cumul / 1.0))
        if queued + packet.size > LIMIT:
            self.state = "overflow"
            self.drop(packet, "overflow")
            return
        if above and now > self.expiry:
            self.expiry = now + interval
            if not packet.mark():
                self.drop(packet, "protection")
                return
        self.q.append(packet)

    def take(self, now):
        return self.q.pop(0) if self.q else None
