#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A slow network between network namespaces, for bench/run_away.sh. Each namespace gets its own interface. Packets leave at
RATE bits per second and arrive DELAY seconds later. The kernel's netem does this where it is available; this script needs
only /dev/net/tun. Packets that would wait for more than 0.3 s are dropped, as in a home router.

Usage: slow_link.py RATE DELAY NAMESPACE...   (the namespaces exist; number i gets the address 10.77.0.i). Prints "ready".
"""

import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
LONGEST_WAIT = 0.3
libc = ctypes.CDLL(None, use_errno=True)


def interface_in(name, number):
    """Returns the descriptor of a new interface in the namespace; the process then returns to its own."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open("/run/netns/" + name, os.O_RDONLY)
    if libc.setns(there, 0):
        raise OSError(ctypes.get_errno(), "setns " + name)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", b"away0", IFF_TUN | IFF_NO_PI))
    if libc.setns(home, 0):
        raise OSError(ctypes.get_errno(), "setns home")
    for line in ("addr add 10.77.0.%d/24 dev away0" % number, "link set away0 up", "link set lo up"):
        subprocess.run(["ip", "-n", name] + line.split(), check=True)
    return fd


def main():
    rate, delay, names = float(sys.argv[1]) / 8, float(sys.argv[2]), sys.argv[3:]
    fds = {interface_in(name, i + 1): i + 1 for i, name in enumerate(names)}
    out = {number: fd for fd, number in fds.items()}
    free = dict.fromkeys(fds.values(), 0.0)  # when the sender's line is free again
    waiting = {number: collections.deque() for number in out}  # (time, packet, receiver): in order for each sender
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        soonest = min((q[0][0] for q in waiting.values() if q), default=now + 1)
        for fd, _ in poll.poll(max(0, (soonest - now) * 1000)):
            for _ in range(64):
                try:
                    packet = os.read(fd, 65536)
                except BlockingIOError:
                    break
                now, sender = time.monotonic(), fds[fd]
                if packet[0] >> 4 != 4 or packet[19] not in out or free[sender] - now > LONGEST_WAIT:
                    continue
                free[sender] = max(free[sender], now) + len(packet) / rate
                waiting[sender].append((free[sender] + delay, packet, packet[19]))
        now = time.monotonic()
        for queue in waiting.values():
            while queue and queue[0][0] <= now:
                _, packet, to = queue.popleft()
                try:
                    os.write(out[to], packet)
                except (BlockingIOError, OSError):
                    pass


if __name__ == "__main__":
    main()
