# SPDX-License-Identifier: MIT
"""A client: a small model of Qwen3's architecture, or adapters for one, is trained on a text that stays on this machine. The
text is the node's `data` (flower-supernode --node-config 'data="/where/it/is.txt"'). Simulated nodes, which have none, each
generate a different one."""
import os
import random

import propane_ml as propane
import propane_ml.flower as flower

SIZES = dict(arch="qwen3", layers=2, width=64, heads=4, kv_heads=2, context=64)
LEARNING = dict(batch=8, lr=3e-3, warmup=10, held_out=0.1, threads=1)


def made_up(part):
    """Generates sentences of two forms about names of three letters: the form can be learned in a minute, and the names are
    random."""
    draw, sounds = random.Random(part), "bdfgklmnprstvwxz"
    words = []
    for _ in range(6000):
        one, other, third = (draw.choice(sounds) + draw.choice("aeiou") + draw.choice(sounds) for _ in range(3))
        words.append(draw.choice((f"the {one} saw the {other} and the {third}. ", f"{one} and {other} are as old as {third}. ")))
    return "".join(words)


def learns(context):
    given, run = context.node_config, context.run_config
    options = dict(SIZES, **LEARNING, seed=run["seed"])
    if "data" in given:
        with open(given["data"], encoding="utf-8") as file:
            options["text"] = file.read()
    else:
        options["text"] = made_up(int(given.get("partition-id", 0)))
    if run["lora"]:
        for name in set(SIZES) - {"context"}:
            del options[name]
        options.update(model=os.path.expanduser(str(given.get("model") or run["model"])), lora=run["lora"])
    else:
        options["kind"] = "bytes"  # all clients need one vocabulary; a trained one would reveal their texts
    return options


app = flower.client_app(learns)
