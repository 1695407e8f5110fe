#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads a run's output with other software: the event files with the package tensorboard (every scalar of every step), the
report with an HTML parser (balanced tags, well-formed SVG, nothing loaded from elsewhere).

    python3 tools/telemetry_check.py [PROPANE]        (exit 1: different; 77: a package is missing)
"""
import html.parser
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
program = os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else os.path.join(ROOT, "build", "release", "propane")
if not os.path.exists(program):
    print(f"telemetry_check: {program} is not built: run make")
    sys.exit(77)
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as missing:
    print(f"telemetry_check: {missing}")
    sys.exit(77)

NAMES = {"train/loss": "loss", "train/learning_rate": "lr", "train/gradient_norm": "gradient_norm",
         "train/loss_scale": "loss_scale", "speed/tokens_per_s": "tokens_per_s", "validation/loss": "val_loss",
         "validation/nats_per_byte": "val_nats_per_byte"}


class Page(html.parser.HTMLParser):
    """Checks that open tags are closed in order; links and other sources are counted."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.charts = [], [], 0

    def handle_starttag(self, tag, attributes):
        self.charts += tag == "svg"
        self.wrong += [f"{tag} {name}" for name, _ in attributes if name in ("src", "href", "onload", "onclick")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        done = subprocess.run([program, "train", "--data", os.path.join(ROOT, "README.md"), "--vocab", "300", "--layers", "1",
                               "--width", "32", "--heads", "2", "--context", "32", "--batch", "4", "--steps", "60",
                               "--eval-every", "20", "--eval-batches", "2", "--run", "run", "--logdir", "board"],
                              capture_output=True, text=True)
        if done.returncode:
            print(f"telemetry_check: {done.stderr}")
            return 1
        with open("run/log.jsonl", encoding="utf-8") as file:
            log = [json.loads(line) for line in file]
        board = EventAccumulator("board/run", size_guidance={"scalars": 0})
        board.Reload()
        seen = bad = 0
        for tag, key in NAMES.items():
            want = {row["step"]: row[key] for row in log if key in row and "event" not in row}
            got = {event.step: event.value for event in board.Scalars(tag)}
            seen += len(got)
            if sorted(want) != sorted(got) or not want:
                print(f"{tag}: steps differ: {sorted(want)[:5]} {sorted(got)[:5]}")
                bad += 1
            bad += sum(not math.isclose(want[step], got.get(step, math.nan), rel_tol=1e-6) for step in want)
        page = Page()
        with open("run/report.html", encoding="utf-8") as file:
            page.feed(file.read())
        if page.open or page.wrong or page.charts != 4:
            print(f"report.html: left open {page.open}, wrong {page.wrong}, {page.charts} charts")
            bad += 1
        print(f"{seen} scalars of {len(NAMES)} kinds, {page.charts} charts, {bad} differ")
        return bad != 0


sys.exit(main())
