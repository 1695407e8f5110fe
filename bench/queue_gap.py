#!/usr/bin/env python3
"""Prints how long the device's queue is idle between two batches, from traces of 'propane train --trace FILE'.

    bench/queue_gap.py TRACE...      per file, medians over its steps, in ms:
      gap      from the end of a batch's last request, on either queue, to the beginning of the next batch's first one
      rest     the time of a step in which the device's queue runs nothing
      update   the time of AdamW in a step, and how much of it overlaps with requests of the two queues
"""
import json
import statistics
import sys


def overlap(a, b):
    return max(0.0, min(a[1], b[1]) - max(a[0], b[0]))


def describe(path):
    with open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    events.sort(key=lambda e: e["ts"])
    starts = [e["ts"] for e in events if e["name"] == "embed"]
    gaps, rests, updates, beside = [], [], [], []
    for begin, end in list(zip(starts, starts[1:]))[2:]:
        inside = [(e["cat"], e["ts"], e["ts"] + e["dur"]) for e in events if begin <= e["ts"] < end]
        before = [e["ts"] + e["dur"] for e in events if e["ts"] < begin and "queue" in e["cat"]]
        queues = [(b, e) for lane, b, e in inside if "queue" in lane]
        device = [e - b for lane, b, e in inside if lane == "device queue"]
        update = [(b, e) for lane, b, e in inside if lane == "update"]
        if before and queues:
            gaps.append(queues[0][0] - max(before))
        rests.append(end - begin - sum(device))
        updates.append(sum(e - b for b, e in update))
        beside.append(sum(overlap(u, q) for u in update for q in queues))
    values = [statistics.median(v) / 1e3 for v in (gaps, rests, updates, beside)]
    print("%s: gap %.2f, rest %.2f, update %.2f of which during requests %.2f" % (path, *values))


for name in sys.argv[1:]:
    describe(name)
