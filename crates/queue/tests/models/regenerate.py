#!/usr/bin/env python3
"""Writes the expected drops and marks of every queue: `regenerate.py` in this folder, Python 3.9 or later, no packages.

A file holds a line per drop and per mark, in the order of time, and a digest of all departures and their times.
"""

import pathlib

import cake
import codel
import dualpi2
import fair
import fifo
import gsp
import pie
import ppv
import red
from harness import Link, MASK, arrivals

HERE = pathlib.Path(__file__).parent
ARRIVALS_SEED = 1
SEED = 42

QUEUES = {
    "fifo": lambda: fifo.Fifo(),
    "fifo-step": lambda: fifo.Fifo(step=30_000),
    "red": lambda: red.Red(SEED),
    "red-wait": lambda: red.Red(SEED, wait=True),
    "ared": lambda: red.Red(SEED, adaptive=True),
    "pie-basic": lambda: pie.Pie(SEED, basic=True),
    "pie": lambda: pie.Pie(SEED),
    "pie-rate": lambda: pie.Pie(SEED, by_rate=True),
    "codel": lambda: codel.Codel(),
    "fq-codel": lambda: fair.Fair(SEED),
    "fq-pie": lambda: fair.Fair(SEED, with_pie=True),
    "gsp": lambda: gsp.Gsp(),
    "gsp-adaptive": lambda: gsp.Gsp(adaptive=True),
    "dualpi2": lambda: dualpi2.DualPi2(),
    "cake": lambda: cake.Cake(SEED),
    "ppv-drop-min": lambda: ppv.DropMin(),
    "pvpie": lambda: ppv.PvPie(SEED),
    "core-stateless": lambda: ppv.CoreStateless(),
}


def main():
    for name, make in QUEUES.items():
        lines = Link(make()).run(ARRIVALS_SEED)
        (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")
        print(f"{name}: {len(lines) - 1} drops and marks, {lines[-1]}")
    for name, mark in (("marker-ladder", ppv.ladder()), ("marker-random", ppv.random(SEED))):
        values = [mark(packet.size, now) for now, packet in arrivals(ARRIVALS_SEED)]
        digest = 0xCBF29CE484222325
        for value in values:
            digest = ((digest ^ value) * 0x100000001B3) & MASK
        lines = [" ".join(str(v) for v in values[i : i + 20]) for i in range(0, len(values), 800)]
        (HERE / f"{name}.txt").write_text("\n".join(lines) + f"\ndigest {digest:016x}\n")


main()
