# SPDX-License-Identifier: MIT
"""Owns the test of examples/flower in the way people run it: a SuperLink and two SuperNodes as separate processes, TLS with
an authority created here, keys that identify nodes, over loopback only, plain and with SecAgg+, and simulated. One idea: the
same five rounds run twice. The first time they are undisturbed. The second time, one client is killed with SIGKILL and
restarted in every round, which then has the answer of only one client. The final losses must be within 2 %.

    flower_check.py PROJECT WORK [tls] [secure] [simulation]      the parts to run; default: all
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np

import propane_ml as propane

BIN = os.path.dirname(sys.executable)
ROUNDS, LOCAL = 5, 60  # as far as the text allows, because final losses are compared, not speed
WAIT = 600  # timeout in seconds for anything that is expected: only a hang takes this long


def say(sentence):
    print(sentence, flush=True)


def fail(sentence):
    say("FAILED: " + sentence)
    raise SystemExit(1)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(true, what, seconds=WAIT):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            fail(f"waited {seconds} s for {what}")
        time.sleep(0.05)


def lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file.read().splitlines()]


def rounds(path):
    return [line for line in lines(path) if "asked" in line or "secure" in line]


def family(root):
    """Returns a process and all its descendants."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                parents[int(pid)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
    found, more = {root}, True
    while more:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
    return found


class Federation:
    """The processes, their folder and their files."""

    def __init__(self, project, work, name):
        self.project, self.work = project, os.path.join(work, name)
        shutil.rmtree(self.work, ignore_errors=True)
        self.certs, self.port = os.path.join(self.work, "certificates"), free_port()
        self.processes, self.starts = {}, 0
        home = os.path.join(self.work, "flwr")
        os.makedirs(home)
        subprocess.run(["sh", os.path.join(project, "certificates.sh"), self.certs], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
            file.write(f'[superlink]\ndefault = "tls"\n\n[superlink.tls]\naddress = "127.0.0.1:{self.port}"\n'
                       f'root-certificates = "{self.certs}/ca.crt"\n\n[superlink.local]\naddress = ":local-in-memory:"\n')
        self.environment = {**os.environ, "FLWR_HOME": home, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1",
                            "PATH": BIN + os.pathsep + os.environ["PATH"], "PROPANE_THREADS": "1",
                            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(free_port()), "FLWR_LOCAL_CONTROL_API_PORT": str(free_port())}

    def start(self, name, *command):
        self.starts += 1
        with open(os.path.join(self.work, name + ".log"), "a", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                    cwd=self.work, start_new_session=True)

    def superlink(self, keys):
        """keys: nodes are identified by their keys, and others are rejected."""
        self.keys = keys
        self.start("superlink", "flower-superlink", "--ssl-ca-certfile", f"{self.certs}/ca.crt", "--ssl-certfile",
                   f"{self.certs}/server.crt", "--ssl-keyfile", f"{self.certs}/server.key", *(["--enable-supernode-auth"] if keys else []),
                   "--disable-runtime-dependency-installation", "--host", "127.0.0.1", "--port", str(self.port))
        until(lambda: self.listens("superlink"), "the SuperLink")
        for node in (0, 1) if keys else ():
            self.flwr("supernode", "register", f"{self.certs}/node{node}.key.pub", "tls")

    def listens(self, name):
        if self.processes[name].poll() is not None:
            fail("the SuperLink ended: " + self.tail(name))
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def supernode(self, node, config=""):
        self.start(f"node{node}", "flower-supernode", "--root-certificates", f"{self.certs}/ca.crt", "--superlink",
                   f"127.0.0.1:{self.port}", 
                   *(["--auth-supernode-private-key", f"{self.certs}/node{node}.key"] if self.keys else []), "--port", str(free_port()),
                   "--node-config", f'name="{node}" partition-id={node} state="{self.work}/state" {config}')

    def kill(self, name):
        """Kills a process and everything that it started, as if the machine had lost power."""
        every = family(self.processes[name].pid)
        for pid in every:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.processes[name].wait()

    def client_works(self, node):
        """Returns the process of the node that is training now: the one that holds the folder of the client's state."""
        for pid in family(self.processes[f"node{node}"].pid):
            try:
                if any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith(f"/client-{node}") for fd in os.listdir(f"/proc/{pid}/fd")):
                    return True
            except OSError:
                continue
        return False

    def flwr(self, *arguments):
        done = subprocess.run(["flwr", *arguments], env=self.environment, cwd=self.work, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=WAIT)
        if done.returncode:
            fail(f"flwr {' '.join(arguments)}: {done.stdout[-1500:]}")
        return done.stdout

    def run(self, connection, **config):
        """Starts a run; its record and its result are files with that name."""
        name = config.pop("name")
        log, output = os.path.join(self.work, name + ".jsonl"), os.path.join(self.work, name + ".npz")
        words = {"num-server-rounds": ROUNDS, "fraction-evaluate": 0.0, "log": log, "output": output, **{k.replace("_", "-"): v for k, v in config.items()}}
        self.flwr("run", self.project, connection, "--run-config", " ".join(f"{k}={json.dumps(v)}" for k, v in words.items()))
        return log, output

    def tail(self, name):
        with open(os.path.join(self.work, name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-2500:]

    def finish(self, output):
        until(lambda: os.path.exists(output) or self.dead(), output)
        if not os.path.exists(output):
            fail("a process ended: " + "".join(self.tail(n) for n, p in self.processes.items() if p.poll() is not None))

    def dead(self):
        return any(p.poll() is not None for p in self.processes.values())

    def close(self):
        for name, process in self.processes.items():
            if process.poll() is None:
                self.kill(name)


def held_out_loss(output, **options):
    """Returns the loss of the trained model on text that no client has."""
    from propane_flower.client_app import SIZES, made_up
    trainer = propane.Trainer(text=made_up(1000), kind="bytes", batch=8, held_out=0.3, eval_batches=20, eval_every=0, threads=1,
                              progress=False, **{**SIZES, **options})
    first = trainer.evaluate().loss
    trainer.set_weights(dict(np.load(output)))
    last = trainer.evaluate().loss
    trainer.close()
    return first, last


@contextlib.contextmanager
def federation(project, work, name, keys):
    f = Federation(project, work, name)
    try:
        f.superlink(keys)
        for node in (0, 1):
            f.supernode(node)
        yield f
    finally:
        f.close()


def tls(project, work):
    with federation(project, work, "quiet", True) as f:
        begin = time.monotonic()
        log, output = f.run("tls", name="rounds", local_steps=LOCAL)
        f.finish(output)
        slowest = (time.monotonic() - begin) / ROUNDS
        quiet = rounds(log)
        if [r["clients"] for r in quiet] != [2] * ROUNDS:
            fail(f"an undisturbed run lost answers: {quiet}")
        say(f"undisturbed: {ROUNDS} rounds of two clients over TLS, {slowest:.1f} s a round, "
            f"{quiet[0]['bytes_down']} bytes down and {quiet[0]['bytes_up']} up a round")
        first, calm = held_out_loss(output)
        adapters(f)
    # A SuperLink keeps a key's place for a minute after its node was last heard of; nodes without one are back at once.
    with federation(project, work, "disturbed", False) as f:
        log, output = f.run("tls", name="rounds", local_steps=LOCAL, round_timeout=max(10.0, 2 * slowest))
        for number in range(ROUNDS):
            victim = number % 2
            until(lambda: len(rounds(log)) == number and f.client_works(victim), f"client {victim} at work in round {number + 1}")
            f.kill(f"node{victim}")
            f.supernode(victim)
            until(lambda: len(rounds(log)) > number, f"the end of round {number + 1}")
        f.finish(output)
        disturbed = rounds(log)
        _, last = held_out_loss(output)
        answers = [r["clients"] for r in disturbed]
        say(f"one client killed in each round: answers {answers}; loss {first:.4f} at first, {calm:.4f} undisturbed, {last:.4f} "
            f"disturbed ({100 * (last / calm - 1):+.2f} %)")
        # On a busy machine a client's answer may have left just before it is killed.
        if not set(answers) <= {1, 2} or answers.count(1) < ROUNDS - 2:
            fail("in most rounds one of two clients should have answered, in none nobody")
        if not (calm < first * 0.75 and abs(last / calm - 1) < 0.02):
            fail("the losses differ by more than 2 %, or nothing was learnt")


def make_qwen3(work):
    """A model of Qwen3's architecture with a byte vocabulary: the clients have it before the run begins."""
    from propane_flower.client_app import LEARNING, SIZES, made_up
    path = os.path.join(work, "qwen3")
    with propane.Trainer(text=made_up(7), kind="bytes", steps=30, eval_every=0, progress=False, seed=1, **SIZES, **LEARNING) as trainer:
        trainer.run()
        trainer.write(path)
    return path


def adapters(f):
    """Adapters of a model that the clients have; only the adapters are sent."""
    model = make_qwen3(f.work)
    log, output = f.run("tls", name="adapters", num_server_rounds=2, lora=4, model=model)
    f.finish(output)
    done, weights = rounds(log), dict(np.load(output))
    numbers, whole = sum(w.size for w in weights.values()), os.path.getsize(os.path.join(model, "model.safetensors"))
    say(f"adapters: {numbers} numbers in {len(weights)} tensors, {done[0]['bytes_up'] // 2} bytes each way and client; the model "
        f"has {whole}; loss {done[0]['loss']:.4f} to {done[-1]['loss']:.4f}")
    if not all("lora_" in name for name in weights) or not 4 * numbers <= done[0]["bytes_up"] / 2 < 4 * numbers + 200 * len(weights):
        fail("more than the adapters travels")
    if not done[-1]["loss"] < done[0]["loss"]:
        fail(f"adapters did not learn: {done}")


def sealed(f, connection, count):
    """Runs the same rounds plain and with SecAgg+. At the end, the server must have the same weights within the precision of
    22 bits."""
    outputs = []
    for name, secure in (("plain", False), ("sealed", True)):
        log, output = f.run(connection, name=name, num_server_rounds=count, local_steps=10, strategy="fedavg", secure=secure)
        f.finish(output)
        outputs.append(dict(np.load(output)))
        done = rounds(log)
        say(f"{connection}, {name}: clients {[r['clients'] for r in done]}, loss {done[0]['loss']:.4f} to {done[-1]['loss']:.4f}")
        if [r["clients"] for r in done] != [2] * count or count > 1 and not done[-1]["loss"] < done[0]["loss"]:
            fail("two clients should have learnt")
        if any(r.get("secure", False) != secure for r in done):
            fail("the rounds were not the requested ones")
    worst = max(float(np.abs(outputs[0][name] - outputs[1][name]).max()) for name in outputs[0])
    say(f"secure aggregation, {connection}: the largest difference to plain means after {count} rounds is {worst:.2g}")
    if not 0 < worst < 1e-3:
        fail("sums under SecAgg+ are not the plain ones, or were not quantized")


def simulation(project, work):
    """`flwr run` without SuperNodes: clients run in Ray on this machine, plain and with SecAgg+."""
    try:
        import ray  # noqa: F401
    except ImportError:
        say("skipped: simulation: ray does not install here")
        return
    f = Federation(project, work, "simulation")
    try:
        port = f.environment["FLWR_LOCAL_SUPERLINK_HTTP_API_PORT"]
        f.start("local", "flower-superlink", "--insecure", "--simulation", "--disable-runtime-dependency-installation", "--host",
                "127.0.0.1", "--port", port)
        f.port = int(port)
        until(lambda: f.listens("local"), "the simulating SuperLink")
        sealed(f, "local", 2)
    finally:
        f.close()


def secure(project, work):
    """SecAgg+ between processes, over TLS."""
    with federation(project, work, "secure", True) as f:
        sealed(f, "tls", 1)


PARTS = {"tls": tls, "secure": secure, "simulation": simulation}


def stop(*_):
    raise SystemExit("stopped")


def main():
    signal.signal(signal.SIGTERM, stop)
    sys.path.insert(0, os.path.abspath(sys.argv[1]))
    project, work, names = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:] or list(PARTS)
    for name in names:
        start = time.monotonic()
        PARTS[name](project, work)
        say(f"ok      {name}: {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
