"""Taildrop to the byte; with a step of marks, DCTCP's."""

from harness import LIMIT, Queue, total


class Fifo(Queue):
    def __init__(self, step=None):
        super().__init__()
        self.step = step
        self.q = []

    def backlog(self):
        return len(self.q)

    def offer(self, packet, now):
        queued = total(self.q)
        if queued + packet.size > LIMIT:
            self.drop(packet, "overflow")
            return
        if self.step is not None and queued >= self.step:
            packet.mark()
        self.q.append(packet)

    def take(self, now):
        return self.q.pop(0) if self.q else None
