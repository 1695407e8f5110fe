# SPDX-License-Identifier: MIT
"""Runs commands in unfavourable surroundings: files that shrink, vanish or grow while they are read; a full or read-only file
system (as root: each a tmpfs); limits on the size of files, on descriptors and on processes; no HOME; names of 255 and paths of
4,000 bytes; pipes, devices, sockets and folders instead of files. Each command must end without a signal, with one line of
errors and a reason. The old file remains, and no temporary file does. Usage: tests/campaign/surroundings.py PROPANE
CUTS=N: files cut per command (8), SEED=N"""
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = os.path.abspath(sys.argv[1])
CUTS, DRAW = int(os.environ.get("CUTS", "8")), random.Random(int(os.environ.get("SEED", "1")))
SMALL = "--kind bytes --layers 1 --width 64 --heads 2 --context 32 --batch 2 --steps 2 --eval-every 0 --no-report --threads 2".split()
counts = {"runs": 0, "failed": 0, "skipped": 0}


def run(command, limits=(), **more):
    def limit():
        for what, most in limits:
            resource.setrlimit(what, (most, most))
    counts["runs"] += 1
    return subprocess.run([PROGRAM, *command], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          preexec_fn=limit, timeout=300, **more)


def expect(good, what, p):
    if not good:
        counts["failed"] += 1
        print("FAILED  %s: exit code %d, %r" % (what, p.returncode, p.stderr[-300:]), flush=True)


def one_error(p):
    return p.returncode == 1 and len(p.stderr.splitlines()) == 1


def prepare():
    with open("text", "w", encoding="ascii") as f:
        f.writelines("line %d of a text to learn from\n" % (i * i % 977) for i in range(30000))
    with open("p.mil", "w", encoding="ascii") as f:
        f.write("program(1.3)\n{\n func main<ios18>(tensor<fp32, [1, 200000]> x) {\n"
                '  tensor<fp32, [1, 200000]> y = relu(x = x)[name = string("y")];\n } -> (y);\n}\n')
    with open("ids", "w", encoding="ascii") as f:
        f.write(" ".join(map(str, range(32))))
    p = run(["train", "--data", "text", "--run", "r", *SMALL])
    assert p.returncode == 0, p.stderr


WRITERS = [  # the file that is written, the command
    ("out/y.npy", ["run", "p.mil", "--seed", "1", "-o", "out"]),
    ("out/x.safetensors", ["convert", "r", "out/x.safetensors"]),
    ("out/x.gguf", ["convert", "r", "out/x.gguf"]),
    ("out/x.bin", ["convert", "r", "out/x.bin"]),
    ("out/x", ["convert", "r", "out/folder"]),
    ("out/x", ["convert", "r", "out/x.mlpackage"]),
    ("out/x.mil", ["convert", "r", "out/x.mil"]),
    ("out/t", ["tokenize", "text", "--tokenizer", "r/tokenizer.json", "--tokens", "out/t"]),
    ("out/x", ["train", "--data", "text", "--run", "out/run", *SMALL]),
    ("out/x", ["report", "r", "-o", "out/x"]),
    ("out/x", ["show", "p.mil", "--html", "out/x"]),
    ("out/x", ["check", "p.mil", "--target", "m4", "--html", "out/x"]),
    ("out/x", ["diff", "p.mil", "--seed", "1", "--html", "out/x"]),
    ("out/x.mil", ["gradient", "p.mil", "out/x.mil"]),
    ("out/x", ["plan", "r", "--write", "out/plan"]),
    ("out/x", ["eval", "r", "--ids", "ids", "--logits", "out/x"]),
    ("out/x", ["eval", "r", "--ids", "ids", "--gradients", "out/x"]),
]


def writers(reason, limits=()):
    """Every writer over an old file."""
    for path, command in WRITERS:
        p = run(command, limits)
        expect(one_error(p) and p.stderr.rstrip().endswith(reason), " ".join(command), p)
        with open(path, "rb") as f:
            expect(f.read() == b"old", "the old %s is lost: %s" % (path, " ".join(command)), p)
        left = [n for n in os.listdir("out") if ".tmp" in n]
        expect(not left, "%s stays: %s" % (left, " ".join(command)), p)
        for name in ("run", "plan", "folder") if reason != "Read-only file system" else ():
            shutil.rmtree("out/" + name, ignore_errors=True)


def mounted(options, then):
    os.makedirs("out", exist_ok=True)
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", "out"], capture_output=True).returncode:
        counts["skipped"] += 1
        print("skipped: a file system of %s: this needs root" % options)
        return
    try:
        then()
    finally:
        subprocess.run(["umount", "out"], check=True)


def make_old():
    for path, _ in WRITERS:
        with open(path, "wb") as f:
            f.write(b"old")


def full():
    make_old()
    with open("out/filler", "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(1024))
        except OSError:
            pass
    writers("No space left on device")


def read_only():
    make_old()
    subprocess.run(["mount", "-o", "remount,ro", "out"], check=True)
    writers("Read-only file system")


READERS = [  # the file that changes, the command
    ("r/model.safetensors", ["generate", "c", "-n", "8", "-p", "a", "--seed", "1"]),
    ("r/model.safetensors", ["convert", "c", "o.gguf"]),
    ("r/model.safetensors", ["eval", "c", "--data", "text"]),
    ("r/checkpoint.safetensors", ["train", "--resume", "c"]),
    ("text", ["tokenize", "c", "--tokenizer", "r/tokenizer.json", "--tokens", "o"]),
    ("text", ["train", "--data", "c", "--run", "n", *SMALL]),
    ("tokens", ["train", "--data", "c", "--run", "n", "--tokenizer", "r/tokenizer.json", *SMALL[2:]]),
    ("x.gguf", ["generate", "c.gguf", "-n", "8", "-p", "a", "--seed", "1"]),
]


def shrinking():
    run(["tokenize", "text", "--tokenizer", "r/tokenizer.json", "--tokens", "tokens"])
    run(["convert", "r", "x.gguf"])
    for source, command in READERS:
        copy = "c.gguf" if source.endswith(".gguf") else "c"
        whole, target = source.split("/")[0], copy + source[source.find("/"):] if "/" in source else copy
        took = None
        for i in range(CUTS + 1):
            for name in (copy, "n"):
                shutil.rmtree(name, ignore_errors=True)
            (shutil.copytree if os.path.isdir(whole) else shutil.copy)(whole, copy)
            start = time.time()
            counts["runs"] += 1
            p = subprocess.Popen([PROGRAM, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                 text=True, errors="replace")
            if took:
                time.sleep(DRAW.random() * took)
                size = os.path.getsize(target) if os.path.exists(target) else 0
                if i % 4 == 3 and size:
                    os.remove(target)
                elif i % 4 == 2:
                    with open(target, "ab") as f:
                        f.write(b"grown" * 1000)
                elif size:
                    os.truncate(target, DRAW.randrange(size) if i % 4 else 0)
            p.returncode, errors = p.wait(), p.stderr.read()
            took = took or time.time() - start
            class Result:
                returncode, stderr = p.returncode, errors
            expect(p.returncode == 0 or (p.returncode in (1, 2) and 1 <= len(errors.splitlines()) <= 2), "changing: " + " ".join(command), Result)
            p.stderr.close()


READERS = [  # @ is the input
    ["show", "@"], ["check", "@"], ["estimate", "@"], ["estimate", "--points", "@"], ["compile", "@", "x.hwx"], ["diff", "@", "--seed", "1"],
    ["run", "@", "--seed", "1"], ["run", "p.mil", "-i", "x=@"], ["show", "p.mil", "--html", "x", "--profile", "@"], ["convert", "@", "x.gguf"],
    ["convert", "r", "x.gguf", "--tokenizer", "@"], ["convert", "r", "x.gguf", "--merge", "@"], ["gradient", "@", "x.mil"], ["where", "@"],
    ["eval", "@", "--ids", "ids"], ["eval", "r", "--ids", "@"], ["eval", "r", "--data", "@"], ["eval", "r", "--data", "text", "--tokenizer", "@"],
    ["eval", "r", "--ids", "ids", "--adapter", "@"], ["generate", "@", "-p", "a"], ["generate", "r", "--prompts", "@"],
    ["tokenize", "@", "--out", "x"], ["tokenize", "text", "--tokenizer", "@", "--tokens", "x"],
    ["tokenize", "@", "--tokenizer", "r/tokenizer.json", "--print-ids", "lines"], ["train", "--data", "@", "--run", "n"],
    ["train", "--data", "text", "--init", "@", "--run", "n"], ["compare", "@"], ["watch", "@", "--once"], ["report", "@", "-o", "x"],
    ["serve", "@", "--port", "0"], ["serve", "r", "--port", "0", "--api-key-file", "@"],
    ["serve", "r", "--port", "0", "--tls-cert", "@", "--tls-key", "@"], ["devices", "--explain", "@"],
]


def interrupted(command):
    """A pipe without a writer: one error, or a sentence about the wait, which Ctrl-C ends within a second."""
    counts["runs"] += 1
    p = subprocess.Popen([PROGRAM, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first, began = p.stderr.readline(), 0.0
    if "waiting for" in first:
        p.send_signal(signal.SIGINT)
        began = time.monotonic()
    rest = p.communicate(timeout=30)[1]
    took = time.monotonic() - began if began else 0

    class Result:
        returncode, stderr = p.returncode, first + rest
    good = p.returncode in (130, -signal.SIGINT) and took < 1 if began else p.returncode in (1, 2) and len(Result.stderr.splitlines()) <= 2
    expect(good, "a pipe without a writer, %.1f s: %s" % (took, " ".join(command)), Result)


def odd_inputs():
    """A pipe, a device, a socket or a folder instead of each input and each output."""
    os.mkfifo("pipe")
    os.makedirs("folder")
    s = socket.socket(socket.AF_UNIX)
    s.bind("socket")
    for command in READERS:
        interrupted([word.replace("@", "pipe") for word in command])
        for odd in ("/dev/zero", "/dev/full", "/dev/null", "socket", "folder"):
            p = run([word.replace("@", odd) for word in command])
            empty = odd == "/dev/null" and p.returncode == 0  # an empty text or table
            # A training without a text in its folder may also point to the help.
            expect(empty or (p.returncode in (1, 2) and 1 <= len(p.stderr.splitlines()) <= 2), "%s: %s" % (odd, " ".join(command)), p)
    for path, command in WRITERS:
        for odd in ("/dev/full", "/dev/null", "pipe", "socket"):
            if path in command:
                p = run([odd if word == path else word for word in command])
                expect(p.returncode in (1, 2) and 1 <= len(p.stderr.splitlines()) <= 2, "%s as an output: %s" % (odd, " ".join(command)), p)
    s.close()


def names():
    long, deep = "n" * 255, "/".join(["d" * 190] * 20)
    for command, reason in ((["show", deep], "No such file or directory"), (["show", deep + "/" + "d" * 100 + "/" + "d" * 200], "File name too long"),
                            (["show", long + "n"], "File name too long"), (["convert", "r", deep + "/x.gguf"], "No such file or directory"),
                            (["run", "p.mil", "-i", "x=" + deep], "No such file or directory"),
                            (["train", "--data", deep, "--run", "n"], "No such file or directory"),
                            (["generate", deep, "-p", "a"], "No such file or directory"),
                            (["convert", "r", "n" * 251 + ".gguf"], "File name too long")):
        p = run(command)
        expect(one_error(p) and p.stderr.rstrip().endswith(reason), "a long name: " + command[0], p)
    p = run(["run", "p.mil", "--seed", "1", "-o", long])
    expect(p.returncode == 0 and os.listdir(long) == ["y.npy"], "a folder's name of 255 bytes", p)


def processes():
    """One process and thread for this user: an error, or one thread less."""
    if os.getuid() or not shutil.which("setpriv") or not shutil.which("prlimit"):
        counts["skipped"] += 1
        print("skipped: a limit on processes: this needs root, setpriv and prlimit")
        return
    os.chmod(".", 0o777)
    alone = ["setpriv", "--reuid=65534", "--clear-groups", "prlimit", "--nproc=1"]
    for command in (["run", "p.mil", "--seed", "1"], ["generate", "r", "-n", "1", "-p", "a", "--seed", "1"], ["convert", "r", "alone.gguf"],
                    ["train", "--data", "text", "--run", "alone", *SMALL], ["serve", "r", "--port", "0"]):
        counts["runs"] += 1
        p = subprocess.run([*alone, PROGRAM, *command], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=100)
        expect(p.returncode == 0 or one_error(p), "one process: " + " ".join(command), p)


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        prepare()
        os.makedirs("out")
        make_old()
        writers("File too large", [(resource.RLIMIT_FSIZE, 100)])
        mounted("size=1m", full)
        mounted("size=1m", read_only)
        names()
        odd_inputs()
        processes()
        p = run(["run", "p.mil", "--seed", "1"], env={})
        expect(p.returncode == 0, "no environment", p)
        shrinking()
        os.chdir("/")
    print("surroundings: %(runs)d runs, %(failed)d failed, %(skipped)d parts skipped" % counts)
    return 1 if counts["failed"] else 0


sys.exit(main())
