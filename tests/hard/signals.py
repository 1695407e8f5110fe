# SPDX-License-Identifier: MIT
"""Sends SIGINT or SIGTERM to long commands at random moments. Each must end soon, by that signal or by finishing, and leave no process
and no temporary file.
Usage: tests/hard/signals.py PROPANE [NAME...]     SIGNALS=N (2): signals per command; SEED=N: other moments
                                         SIGNALS_LIMIT=S (5): seconds in which a command must end on a busy machine
Prints one line per command; exits 1 if one failed."""
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

OPS = 1500
TRAIN = "--kind bytes --layers 2 --width 64 --heads 2 --context 1024 --batch 1 --eval-every 0 --threads 1".split()
COMMANDS = {
    "train": ["train", "--data", "text", "--run", "n", "--steps", "1000000", "--checkpoint-every", "20", *TRAIN],
    "resume": ["train", "--data", "text", "--run", "r", "--resume", "--steps", "1000000", "--checkpoint-every", "20"],
    "generate": ["generate", "r", "--prompt", "ab", "--count", "1000", "--ignore-end", "--seed", "1"],
    "eval": ["eval", "r", "--data", "long"],
    "tokenize": ["tokenize", "long", "--vocab", "4096", "--out", "t.json", "--tokens", "t.bin"],
    "folder": ["convert", "big", "c"],
    "gguf": ["convert", "big", "c.gguf", "--dtype", "q4_k"],
    "safetensors": ["convert", "big", "c.safetensors", "--dtype", "bf16"],
    "package": ["convert", "big", "c.mlpackage"],
    "check": ["check", "chain.mil"],
    "estimate": ["estimate", "chain.mil", "--target", "m4"],
    "run": ["run", "chain.mil", "--seed", "1", "--iterations", "1000000"],
    "diff": ["diff", "chain.mil", "chain.mil", "--seed", "1"],
    "compile": ["compile", "chain.mil", "-o", "c.anec"],
    "serve": ["serve", "r", "--port", "0"],
}


def chain():
    line = '  tensor<fp16, [1, 64, 1, 64]> v%d = %s(x = %s)[name = string("v%d")];\n'
    kinds = ("relu", "tanh", "sigmoid")
    body = "".join(line % (i, kinds[i % 3], "v%d" % (i - 1) if i else "x", i) for i in range(OPS))
    return ("program(1.3)\n{\n func main<ios18>(tensor<fp16, [1, 64, 1, 64]> x) {\n%s } -> (v%d);\n}\n" % (body, OPS - 1))


def prepare(program, base):
    with open(base + "/text", "w") as f:
        f.writelines("line %d\n" % (i * i % 97) for i in range(2000))
    with open(base + "/long", "w") as f:
        f.writelines("line %d\n" % (i * i % 9973) for i in range(200000))
    with open(base + "/chain.mil", "w") as f:
        f.write(chain())
    big = [w for w in TRAIN]
    big[big.index("--width") + 1] = "512"
    for name, sizes in (("r", TRAIN), ("big", big)):
        subprocess.run([program, "train", "--data", "text", "--run", name, "--steps", "1", "--no-report", *sizes], cwd=base,
                       check=True, stdout=subprocess.DEVNULL)


def group_lives(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False


def temporary(folder):
    return [name for _, folders, files in os.walk(folder) for name in folders + files if ".tmp-" in name]


def duration(program, words, base):
    """Returns the time of the undisturbed command, at most a second."""
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(base, work + "/at")
        begin = time.monotonic()
        p = subprocess.Popen([program, *words], cwd=work + "/at", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        try:
            p.wait(1)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        return time.monotonic() - begin


def attempt(program, words, base, moment, number, limit):
    """Returns the fault or "", the seconds until the end, and whether the signal arrived in time."""
    with tempfile.TemporaryDirectory() as work:
        at = work + "/at"
        shutil.copytree(base, at)
        with open(work + "/err", "w+") as err:
            p = subprocess.Popen([program, *words], cwd=at, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                                 start_new_session=True)
            time.sleep(moment)
            done = p.poll()
            begin = time.monotonic()
            p.send_signal(number)
            try:
                code = p.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
                return "has not ended after %g s" % limit, limit, True
            took = time.monotonic() - begin
            err.seek(0)
            told = err.read()[:300]
        wrong = ""
        if code not in (0, -number, 128 + number) or done not in (None, 0):
            wrong = "exit code %d: %s" % (code, told)
        elif group_lives(p.pid):
            os.killpg(p.pid, signal.SIGKILL)
            wrong = "left a process"
        elif temporary(at):
            wrong = "left " + ", ".join(temporary(at))
        return wrong, took, done is None


def main():
    program = os.path.abspath(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores SIGINT, and its children inherit that
    count, limit = int(os.environ.get("SIGNALS", "2")), float(os.environ.get("SIGNALS_LIMIT", "5"))
    draw, failed = random.Random(int(os.environ.get("SEED", "1"))), 0
    with tempfile.TemporaryDirectory() as base:
        prepare(program, base)
        for name, words in COMMANDS.items():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            longest, wrongs, early, most = 0.0, 0, 0, duration(program, words, base)
            for _ in range(count):
                moment, number = draw.uniform(0, most), draw.choice((signal.SIGINT, signal.SIGTERM))
                wrong, took, running = attempt(program, words, base, moment, number, limit)
                longest = max(longest, took)
                early += running
                if wrong:
                    wrongs += 1
                    print("%s, %s after %.3f s: %s" % (name, number.name, moment, wrong))
            failed += wrongs
            print("%-12s %4d signals, %d while it ran, %d wrong, the slowest end took %.2f s" % (name, count, early, wrongs, longest), flush=True)
    return 1 if failed else 0


sys.exit(main())
