"""CoDel: RFC 8289, section 5; packets that know ECN are marked, as in section 4.5 of RFC 8290."""

import math

from harness import LIMIT, MS, Queue, total

TARGET = 5 * MS
INTERVAL = 100 * MS


class Control:
    def __init__(self):
        self.first_above = 0
        self.drop_next = 0
        self.count = 0
        self.lastcount = 0
        self.dropping = False
        self.maxpacket = 512

    def saw(self, packet):
        self.maxpacket = max(self.maxpacket, packet.size)

    def law(self, t):
        return t + int(INTERVAL / math.sqrt(self.count))

    def dodequeue(self, q, now):
        if not q:
            self.first_above = 0
            return None, False
        packet = q.pop(0)
        if now - packet.time < TARGET or total(q) <= self.maxpacket:
            self.first_above = 0
        elif self.first_above == 0:
            self.first_above = now + INTERVAL
        else:
            return packet, now >= self.first_above
        return packet, False

    def dequeue(self, q, now, drop):
        packet, ok = self.dodequeue(q, now)
        if packet is None:
            self.dropping = False
            return None
        if self.dropping:
            if not ok:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if packet.mark():
                    self.drop_next = self.law(self.drop_next)
                    break
                drop(packet, "sojourn")
                packet, ok = self.dodequeue(q, now)
                if ok:
                    self.drop_next = self.law(self.drop_next)
                else:
                    self.dropping = False
        elif ok:
            if not packet.mark():
                drop(packet, "sojourn")
                packet, _ = self.dodequeue(q, now)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * INTERVAL:
                self.count = delta
            self.drop_next = self.law(now)
            self.lastcount = self.count
        return packet


class Codel(Queue):
    def __init__(self):
        super().__init__()
        self.q = []
        self.codel = Control()

    def backlog(self):
        return len(self.q)

    def offer(self, packet, now):
        if total(self.q) + packet.size > LIMIT:
            self.drop(packet, "overflow")
            return
        self.codel.saw(packet)
        self.q.append(packet)

    def take(self, now):
        return self.codel.dequeue(self.q, now, self.drop)
