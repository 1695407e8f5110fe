# SPDX-License-Identifier: MIT
"""Measures how long valid requests to `propane serve` take during an attack: held and slow connections, bodies that are too
large, too deep or not HTTP at all, and streams that are not read to the end. Prints percentiles before and during the
attack, and the server's memory. Exits with 1 if a valid request was not answered or the server ended.

    python3 tests/campaign/attack.py PROPANE MODEL [SECONDS [CONNECTIONS]]

Uses only Python's standard library. Each valid request has its own connection. Answers of 503 with Retry-After are counted,
and the request is repeated while its time continues.
"""
import asyncio
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

ASKED = json.dumps({"prompt": "line", "max_tokens": 8, "temperature": 0}).encode()


def post(body, length=None, extra=b""):
    return b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n" + \
        extra + b"Content-Length: %d\r\n\r\n" % (len(body) if length is None else length) + body


class Attack:
    def __init__(self, port, connections):
        self.port, self.connections, self.going = port, connections, True
        self.held = self.most = 0
        self.counts = {}

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    async def each(self, what, act):
        """Repeats it on new connections until the attack ends."""
        while self.going:
            try:
                reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", self.port), 10)
            except (OSError, asyncio.TimeoutError):
                await asyncio.sleep(0.05)
                continue
            try:
                await act(reader, writer)
                self.count(what)
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                self.count(what)
            finally:
                writer.transport.abort()
            await asyncio.sleep(0.01)

    async def hold(self, reader, writer):
        """Sends part of a request and then nothing, until the server closes the connection."""
        self.held += 1
        self.most = max(self.most, self.held)
        try:
            whole = post(ASKED)
            writer.write(whole[:random.randrange(len(whole) - 1)])
            while self.going and not reader.at_eof():
                try:
                    await asyncio.wait_for(reader.read(1 << 16), 1)
                except asyncio.TimeoutError:
                    pass
        finally:
            self.held -= 1

    async def slowly(self, reader, writer):
        for byte in post(ASKED):
            if not self.going:
                return
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.2)

    async def giant(self, reader, writer):
        writer.write(post(b" " * (1 << 20), length=1 << 40))
        await writer.drain()
        await asyncio.wait_for(reader.read(1 << 16), 10)

    async def deep(self, reader, writer):
        writer.write(post(b'{"prompt":' + b"[" * (1 << 20)))
        await writer.drain()
        await asyncio.wait_for(reader.read(1 << 16), 10)

    async def noise(self, reader, writer):
        writer.write(random.randbytes(4096))
        await writer.drain()
        await asyncio.wait_for(reader.read(1 << 16), 10)

    async def leave(self, reader, writer):
        writer.write(post(json.dumps({"prompt": "line", "max_tokens": 12, "stream": True}).encode()))
        await writer.drain()
        await asyncio.wait_for(reader.read(64), 10)

    def start(self):
        kinds = [(self.hold, self.connections), (self.slowly, 50), (self.giant, 2), (self.deep, 2), (self.noise, 4), (self.leave, 4)]
        return [asyncio.create_task(self.each(act.__name__, act)) for act, many in kinds for _ in range(many)]


async def ask(port):
    """Returns the milliseconds until a valid request is answered, and how often it got 503; raises ValueError."""
    start, again = time.monotonic(), 0
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post(ASKED))
            answer = await asyncio.wait_for(reader.read(), 30)
            writer.close()
        except (OSError, asyncio.TimeoutError) as error:
            raise ValueError(f"no answer: {error!r}") from error
        head, _, body = answer.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 200"):
            if not json.loads(body)["choices"]:
                raise ValueError("an answer without a choice")
            return 1000 * (time.monotonic() - start), again
        if not head.startswith(b"HTTP/1.1 503") or b"retry-after" not in head.lower() or time.monotonic() - start > 30:
            raise ValueError(f"answered {answer[:200]!r}")
        again += 1
        await asyncio.sleep(0.05)


async def measure(port, seconds):
    """Returns the times of valid requests, one after the other, how many got 503, and what went wrong."""
    end, times, again, wrong = time.monotonic() + seconds, [], 0, []
    while time.monotonic() < end:
        try:
            took, more = await ask(port)
            times.append(took)
            again += more
        except ValueError as error:
            wrong.append(str(error))
        await asyncio.sleep(0.005)
    return sorted(times), again, wrong


def told(name, found):
    times, again, wrong = found
    at = lambda part: times[min(len(times) - 1, int(part * len(times)))] if times else float("nan")
    print(f"{name}: {len(times)} valid requests answered, {len(wrong)} not, {again} times told to come again; "
          f"ms: median {at(0.5):.1f}, 90 % {at(0.9):.1f}, 99 % {at(0.99):.1f}, most {at(1):.1f}", flush=True)


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read()).group(1))


async def attack(port, connections):
    """Runs in a separate process, so that its work is not counted as the server's, until standard input ends."""
    one = Attack(port, connections)
    tasks = one.start()
    await asyncio.to_thread(sys.stdin.read)
    one.going = False
    await asyncio.wait(tasks, timeout=5)
    print("attacks: " + ", ".join(f"{n} {what}" for what, n in sorted(one.counts.items())) + f"; {one.most} connections held at once")
    sys.stdout.flush()
    os._exit(0)


async def attacked(server, port, seconds, connections):
    await measure(port, 1)
    before, calm = memory(server.pid), await measure(port, seconds / 4)
    told("before", calm)
    other = subprocess.Popen([sys.executable, __file__, "--attack", str(port), str(connections)], stdin=subprocess.PIPE)
    await asyncio.sleep(2)
    during = await measure(port, seconds)
    told("during", during)
    most = memory(server.pid)
    other.stdin.close()
    other.wait(30)
    after = await measure(port, seconds / 4)
    told("after", after)
    print(f"memory: {before} kB before, {most} kB during, {memory(server.pid)} kB after")
    wrong = calm[2] + during[2] + after[2]
    for text in wrong[:5]:
        print("    " + text)
    return not wrong and calm[0] and during[0] and after[0]


def main():
    if sys.argv[1] == "--attack":
        return asyncio.run(attack(int(sys.argv[2]), int(sys.argv[3])))
    propane, model = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    connections = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < connections + 500:
        print(f"attack: skipped: only {hard} descriptors for {connections} connections (ulimit -n)")
        return 77
    server = subprocess.Popen([propane, "serve", model, "--port", "0", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = server.stdout.readline()
    while line and "http://" not in line:
        line = server.stdout.readline()
    # From here on, its log is not read, which must not block any request either.
    good = asyncio.run(attacked(server, int(re.search(r"http://[^:]*:(\d+)", line).group(1)), seconds, connections))
    server.send_signal(signal.SIGTERM)
    code = server.wait(30)
    print(f"attack: the server ended with {code}")
    return 0 if good and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
