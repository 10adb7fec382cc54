#!/usr/bin/env python3
"""Adds routes to a node that runs, lists them page by page, and follows its events (docs/control.md).

    python3 examples/routes.py --add 64000 /run/weir/node.sock
"""
import argparse
import ipaddress
import json
import socket
import sys
import time


class Node:
    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        self.lines, self.next = self.stream.makefile("r"), 0
        greeting = self.read()
        if greeting.get("protocol") != 1:
            sys.exit(f"{path}: {greeting}: use an example of the same version as the node")
        self.write({"protocol": 1, "client": "routes.py"})

    def write(self, line):
        self.stream.sendall((json.dumps(line) + "\n").encode())

    def read(self):
        return json.loads(self.lines.readline() or sys.exit("the node has closed the connection"))

    def ask(self, **what):
        self.next += 1
        self.write({"id": self.next, **what})
        answer = self.read()
        return answer["ok"] if "ok" in answer else sys.exit(answer["error"]["message"])


def pages(node, table):
    """The records of a table, page by page."""
    after = None
    while True:
        page = node.ask(query={table: {"after": after, "most": 1000}})
        yield from page[table]
        after = page["next"]
        if after is None:
            return


def neighbour(node):
    """A host of the network of the last port that is not the node."""
    network = ipaddress.ip_interface(node.ask(query="ports")["ports"][-1]["addresses"][0])
    return str(next(host for host in network.network.hosts() if host != network.ip))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--add", type=int, default=0, metavar="NUMBER", help="routes to add, from 11.0.0.0/32 on")
    options.add_argument("--via", help="their next hop [default: a host of the network of the last port]")
    options.add_argument("--follow", action="store_true", help="print events until the node ends")
    options.add_argument("--slow", type=float, default=0, metavar="SECONDS", help="wait before each event")
    options.add_argument("socket", help="the socket of the node")
    chosen = options.parse_args()
    node = Node(chosen.socket)
    target = {"via": [{"address": chosen.via or neighbour(node)}]}
    prefixes = (ipaddress.ip_address("11.0.0.0") + n for n in range(chosen.add))
    commands = [{"route": {"set": {"prefix": f"{prefix}/32", "target": target}}} for prefix in prefixes]
    print(node.ask(commands=commands))
    print(f"{sum(1 for _ in pages(node, 'sessions'))} sessions")
    print(f"{sum(1 for _ in pages(node, 'routes'))} routes")
    if chosen.follow:
        node.ask(subscribe={"events": True})
        while True:
            # The node does not wait for a slow client: a line with left_out says how many lines it did not get.
            time.sleep(chosen.slow)
            print(node.read(), flush=True)


main()
