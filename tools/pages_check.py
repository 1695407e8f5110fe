#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the graph pages of show, check and diff, the report of training runs, and a server called by fetch, in a real
browser: headless Chromium, driven through a pipe with only Python's standard library. Checked: no console messages, no
outside requests, hostile names remain text, search, folding, keyboard and touch work, nothing is wider than a phone,
contrast. Reported but not checked: the time to paint a page with 1,500 operations.

pages_check.py [PROPANE [--shots DIR]]; exits with 77 and the reason if Chromium is missing.
"""
import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROPANE = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/propane")
SHOTS = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[2] == "--shots" else None
LIMIT = 20  # maximum seconds for one answer of the browser
passed, failed = 0, 0


def expect(what, ok, detail=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAILED  {what}: {detail}")


class Browser:
    def __init__(self, program, profile):
        down_r, down_w = os.pipe()
        up_r, up_w = os.pipe()

        def pipes():  # Chromium reads from 3 and writes to 4
            a, b = os.dup(down_r), os.dup(up_w)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--user-data-dir=" + profile, "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down_r)
        os.close(up_w)
        self.to, self.source, self.rest = down_w, up_r, b""
        self.number, self.events, self.session = 0, [], None
        os.set_blocking(self.source, False)

    def read(self, until):
        while b"\0" not in self.rest:
            try:
                more = os.read(self.source, 1 << 20)
                if not more:
                    raise SystemExit("pages_check: the browser ended")
                self.rest += more
            except BlockingIOError:
                if time.monotonic() > until:
                    raise SystemExit("pages_check: the browser does not answer")
                time.sleep(0.002)
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + LIMIT
        while True:
            got = self.read(until)
            if got.get("id") == self.number:
                if "error" in got:
                    raise SystemExit(f"pages_check: {method}: {got['error']}")
                return got["result"]
            self.events.append(got)

    def attach(self):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):  # and the page counts as visible
            self.ask(domain + ".enable")
        self.ask("Page.bringToFront")

    def js(self, expression):
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            return "exception: " + got["exceptionDetails"].get("exception", {}).get("description", "?")
        return got["result"].get("value")

    def open(self, path, width=1280, height=860, dark=False, there="performance.getEntriesByName('graph-painted').length"):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events = []
        self.ask("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        until = time.monotonic() + LIMIT
        while not self.js(there):
            if time.monotonic() > until:
                expect(os.path.basename(path) + " is painted", False, str(self.trouble()))
                return None
            time.sleep(0.02)
        self.settle()
        return self.js("(performance.getEntriesByName('graph-painted')[0] || {}).startTime")

    def settle(self):
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def trouble(self):
        """Returns messages, exceptions, and requests for anything except the page itself and data: addresses."""
        out = []
        for e in self.events:
            p = e.get("params", {})
            if e.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                out.append(p.get("exceptionDetails", {}).get("exception", {}).get("description") or json.dumps(p)[:400])
            if e.get("method") == "Network.requestWillBeSent" and p["type"] != "Document" and not p["request"]["url"].startswith("data:"):
                out.append("request: " + p["request"]["url"])
        return out

    def key(self, key, shift=False):
        code = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39, "Backspace": 8}.get(key, 0)
        extra = {} if len(key) > 1 and key != "Enter" else {"text": "\r" if key == "Enter" else key}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=8 if shift else 0,
                     **(extra if kind == "keyDown" else {}))
        self.settle()

    def shot(self, name):
        if SHOTS:
            os.makedirs(SHOTS, exist_ok=True)
            data = self.ask("Page.captureScreenshot", format="png")["data"]
            pathlib.Path(SHOTS, name + ".png").write_bytes(base64.b64decode(data))


def run(*words, code=0):
    got = subprocess.run([PROPANE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if got.returncode != code:
        raise SystemExit(f"pages_check: propane {' '.join(words)}: exit code {got.returncode}: {got.stdout[-2000:]}")
    return got.stdout


HOSTILE = "</script><script>window.evil = 1</script><img src=x onerror=window.evil=1>"


def fixtures():
    """Creates a language model with 1,500 operations, a small network, one that is refused, and one whose metadata contains
    a script."""
    with open("text", "w") as f:
        f.write("a line of text to learn from\n" * 400)
    run("train", "--data", "text", "--kind", "bytes", "--layers", "26", "--width", "16", "--heads", "2", "--context", "32", "--batch", "1",
        "--steps", "1", "--eval-every", "0", "--run", "big", "--no-report", "--threads", "1")
    run("convert", "big", "big.mlpackage")
    body = "".join(f"""        tensor<fp16, [1, 16, 16, 16]> c{i} = {'sin' if i == 5 else 'tanh'}(x = a{i})[name = string("c{i}")];
        tensor<fp16, [1, 16, 16, 16]> m{i} = mul(x = c{i}, y = c{i})[name = string("m{i}")];
        tensor<fp16, [1, 16, 16, 16]> r{i} = relu(x = m{i})[name = string("r{i}")];
        tensor<fp16, [1, 16, 16, 16]> a{i + 1} = add(x = r{i}, y = a{i})[name = string("a{i + 1}")];
""" for i in range(40))
    head = 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "%s"}})]\n{\n    func main<ios18>(tensor<fp16, [1, 16, 16, 16]> a0) {\n'
    pathlib.Path("small.mil").write_text(head % "3505.4.1" + body + "    } -> (a40);\n}\n")
    evil = "\\x1b[31m\\x07" + HOSTILE.replace('"', "'")
    pathlib.Path("evil.mil").write_text(head % evil + body + "    } -> (a40);\n}\n")
    wide = "W" * 60
    pathlib.Path("long.mil").write_text(head % "3505.4.1" + f"""        tensor<fp16, [1, 16, 16, 16]> {wide} = tanh(x = a0)[name = string("{wide}")];
    }} -> ({wide});\n}}\n""")
    for name, rate in (("one", "3e-3"), ("two", "1e-3")):
        run("train", "--data", "text", "--kind", "bytes", "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2",
            "--steps", "30", "--eval-every", "10", "--run", name, "--lr", rate, "--no-report", "--threads", "1")
    run("report", "one", "two", "--out", "report.html")
    run("show", "big.mlpackage", "--html", "big.html")
    run("show", "evil.mil", "--html", "evil.html")
    run("show", "small.mil", "--html", "small.html")
    run("show", "long.mil", "--html", "long.html")
    run("check", "small.mil", "--target", "m1,m4", "--html", "check.html", code=1)
    run("diff", "small.mil", "--seed", "1", "--tolerance", "1e-4", "--html", "diff.html", code=1)
    run("run", "small.mil", "--seed", "1", "--iterations", "3", "--trace", "trace.json")
    run("show", "small.mil", "--profile", "trace.json", "--html", "time.html")


# Finds text with too little contrast to its background, by WCAG's formula: pairs of the page's own colours.
LIGHT = """const lum = c => { const [r, g, b] = c.map(x => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const rgb = s => s.match(/[0-9.]+/g).slice(0, 3).map(Number), light = s => lum(rgb(s)), ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
"""
CONTRAST = "(() => { " + LIGHT + """
  const bad = [];
  for (const g of document.querySelectorAll('#graph .item')) {
    const box = g.querySelector('.box');
    for (const t of g.querySelectorAll('text')) {
      const r = ratio(light(getComputedStyle(box).fill), light(getComputedStyle(t).fill));
      if (r < 4.5) bad.push(g.getAttribute('class') + ' ' + r.toFixed(2));
    }
  }
  return [...new Set(bad)].join('; ');
})()"""


def check_plain(b, name):
    expect(name + ": console and requests", not b.trouble(), b.trouble())
    expect(name + ": contrast", b.js(CONTRAST) == "", b.js(CONTRAST))
    expect(name + ": has nodes", b.js("document.querySelectorAll('#graph .item').length") > 1)


def check_all_looks(b):
    for page in ("small", "check", "diff", "time", "big"):
        for look, width, dark in (("light", 1280, False), ("dark", 1280, True), ("phone", 400, False)):
            b.open(page + ".html", width, 860, dark)
            check_plain(b, f"{page}, {look}")
            wide = b.js("document.documentElement.scrollWidth")
            expect(f"{page}, {look}: no wider than the window", wide <= width, wide)
            b.shot(f"{page}-{look}")


def check_big(b):
    times = [b.open("big.html") for _ in range(3)]
    torn = b.js("""[...document.querySelectorAll('aside th')].filter(e => { const r = document.createRange(); r.selectNodeContents(e);
      return e.textContent.length <= 13 && r.getClientRects().length > 1; }).map(e => e.textContent)""")
    expect("short names next to long values are on one line", torn == [], torn)
    count = b.js("data.graphs[0].nodes.length")
    print(f"told: a page of {count} operations ({os.path.getsize('big.html') / 1e6:.1f} MB): graph painted after "
          f"{', '.join(f'{t:.0f}' for t in times)} ms, folded")
    expect("big: 1,500 operations", count >= 1500, count)
    expect("big: its layers are blocks", b.js("tree.blocks.length") >= 24, b.js("tree.blocks.length"))
    folded = b.js("view.plan.items.length")
    took = b.js("(() => { const t = performance.now(); document.getElementById('unfold').click(); return new Promise(d => requestAnimationFrame("
                "() => requestAnimationFrame(() => d(performance.now() - t)))); })()")
    unfolded = b.js("view.plan.items.length")
    print(f"told: all blocks unfolded after {took:.0f} ms")
    expect("big: unfolding shows every operation", unfolded >= count and folded < 300, f"{folded} {unfolded}")
    b.shot("big-unfolded")
    overlap = b.js("""(() => { const l = view.plan.items.filter(i => !i.group); let n = 0;
      for (let i = 0; i < l.length; i++) for (let k = i + 1; k < l.length; k++) { const a = l[i], c = l[k];
        if (a.x < c.x + c.w - 1 && c.x < a.x + a.w - 1 && a.y < c.y + c.h - 1 && c.y < a.y + a.h - 1) n++; } return n; })()""")
    expect("big: no two operations overlap", overlap == 0, overlap)
    b.js("document.getElementById('fold').click()")
    b.settle()
    expect("big: folding takes them away", b.js("view.plan.items.length") == folded)
    b.js("document.getElementById('find').focus()")
    for letter in "softmax":
        b.key(letter)
    expect("search counts", b.js("hits.length") == 26, b.js("document.getElementById('hits').textContent"))
    b.key("Enter")
    b.key("Enter")
    expect("search unfolds and picks", b.js("graph.nodes[picked].o") == "softmax" and b.js("document.getElementById('hits').textContent") == "2 / 26")
    expect("what is picked is in sight", b.js("(() => { const e = document.querySelector('.item.picked'); if (!e) return false; const r = e.getBoundingClientRect(), s = document.getElementById('stage').getBoundingClientRect(); return r.left >= s.left && r.right <= s.right && r.top >= s.top && r.bottom <= s.bottom; })()"))
    b.shot("big-found")


def check_hands(b):
    b.open("small.html")
    b.js("document.getElementById('graph').focus()")
    b.key("ArrowDown")
    b.key("ArrowDown")
    first = b.js("document.getElementById('graph').getAttribute('aria-activedescendant')")
    b.key("ArrowDown")
    second = b.js("document.getElementById('graph').getAttribute('aria-activedescendant')")
    expect("arrows go from one to the next", first and second and first != second, f"{first} {second}")
    expect("what is picked is said", b.js("document.getElementById('say').textContent.length") > 5)
    blocks = b.js("tree.blocks.filter(x => x.open).length")
    b.js("pick(tree.blocks[0])")
    b.key("Enter")
    expect("Enter folds or unfolds a block", b.js("tree.blocks.filter(x => x.open).length") != blocks)
    before = b.js("view.scale")
    b.key("+")
    expect("+ zooms", b.js("view.scale") > before)
    b.ask("Input.dispatchMouseEvent", type="mouseWheel", x=400, y=400, deltaX=0, deltaY=240)
    b.settle()
    expect("the wheel zooms", b.js("view.scale") < before * 1.25, b.js("view.scale"))
    at = b.js("[view.x, view.y]")
    for kind, x, buttons in (("mousePressed", 300, 1), ("mouseMoved", 340, 1), ("mouseMoved", 380, 1), ("mouseReleased", 380, 0)):
        b.ask("Input.dispatchMouseEvent", type=kind, x=x, y=300, button="left", buttons=buttons, clickCount=1)
    b.settle()
    now = b.js("[view.x, view.y]")
    expect("the mouse moves it", abs(now[0] - at[0] - 80) < 1 and abs(now[1] - at[1]) < 1, f"{at} {now}")
    b.open("small.html", 400)
    scale = b.js("view.scale")
    b.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": 150, "y": 400, "id": 1}, {"x": 250, "y": 400, "id": 2}])
    for spread in (20, 40, 60):
        b.ask("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": 150 - spread, "y": 400, "id": 1}, {"x": 250 + spread, "y": 400, "id": 2}])
    b.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    b.settle()
    expect("two fingers zoom", b.js("view.scale") > scale * 1.5, f"{scale} {b.js('view.scale')}")


def check_words(b):
    b.open("evil.html")
    check_plain(b, "evil")
    expect("hostile words stay words", b.js("window.evil") is None and b.js("document.scripts.length") == 2)
    expect("they are shown in words", HOSTILE.split(">")[0] in b.js("JSON.stringify(data.model)"), b.js("JSON.stringify(data.model.build_info)"))
    b.open("check.html")
    expect("check opens with verdicts", b.js("mode") == "verdict" and b.js("data.chips[chip].name") == "m1")
    expect("the refused operation says so", b.js("(() => { const i = graph.nodes.findIndex(n => n.n === 'c5'); go(i); return document.getElementById('details').textContent; })()").count("O2") >= 1)
    b.shot("check-refused")
    b.js("document.getElementById('back').click()")
    tall = b.js("[...document.querySelectorAll('th.chip')].map(e => e.getClientRects().length && Math.round((() => { const r = document.createRange(); r.selectNodeContents(e); return r.getClientRects().length; })()))")
    expect("a chip's name is on one line", tall == [1, 1], tall)
    b.open("long.html")
    out = b.js("""[...document.querySelectorAll('#graph .item')].filter(g => { const box = g.querySelector('.box').getBoundingClientRect();
      return [...g.querySelectorAll('text')].some(t => t.getBoundingClientRect().right > box.right); }).length""")
    expect("long names stay in their boxes", out == 0, out)
    b.open("diff.html")
    expect("diff opens with errors", b.js("mode") == "error" and b.js("graph.nodes.filter(n => n.d).length") > 100)
    b.open("time.html")
    expect("times are there", b.js("mode") == "time" and b.js("graph.nodes.filter(n => n.us !== undefined).length") >= 1)
    b.js("document.getElementById('list').open = true")
    b.settle()
    expect("the table has every operation", b.js("document.querySelectorAll('#table tbody tr').length") == b.js("graph.nodes.length"))


# The report's colours: lines and words against the page.
INKS = "(() => { " + LIGHT + """
  const ground = light(getComputedStyle(document.body).backgroundColor), bad = [];
  const judge = (e, colour, least) => { const r = ratio(light(colour), ground); if (r < least) bad.push(e.tagName + ' ' + r.toFixed(2)); };
  document.querySelectorAll('figure svg text').forEach(e => judge(e, getComputedStyle(e).fill, 4.5));
  document.querySelectorAll('figure polyline:not(.raw)').forEach(e => judge(e, getComputedStyle(e).stroke, 3));
  return [...new Set(bad)].join('; ');
})()"""


def check_report(b):
    for look, width, dark in (("light", 1280, False), ("dark", 1280, True), ("phone", 400, False)):
        b.open("report.html", width, 860, dark, there="document.querySelectorAll('figure svg polyline').length > 1 && document.getElementById('smooth') !== null")
        expect(f"report, {look}: console and requests", not b.trouble(), b.trouble())
        expect(f"report, {look}: no wider than the window", b.js("document.documentElement.scrollWidth") <= width, b.js("document.documentElement.scrollWidth"))
        expect(f"report, {look}: contrast", b.js(INKS) == "", b.js(INKS))
        b.shot(f"report-{look}")
        x, y, w = b.js("(() => { const f = document.querySelector('figure'); f.scrollIntoView({block: 'center'}); const r = f.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2, r.width]; })()")
        b.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        b.settle()
        tip = b.js("(() => { const t = document.querySelector('.tip'); if (!t) return ''; const r = t.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth ? t.textContent : 'outside: ' + t.textContent; })()")
        expect(f"report, {look}: values of both runs under the pointer", tip.startswith("step") and "one" in tip and "two" in tip, tip)
        b.shot(f"report-{look}-tip")
    drawn = "[...document.querySelectorAll('figure polyline:not(.raw)')].map(e => e.getAttribute('points')).join(' ')"
    before = b.js(drawn)
    b.js("(() => { const s = document.getElementById('smooth'); s.value = 0.9; s.dispatchEvent(new Event('input')); })()")
    b.settle()
    expect("report: smoothing draws another line, and the one that it smooths", b.js(drawn) != before and b.js("document.querySelectorAll('polyline.raw').length") > 0,
           b.js("document.querySelectorAll('polyline.raw').length"))
    lines = b.js("document.querySelectorAll('figure polyline:not(.raw)').length")
    b.js("document.querySelector('.legend button').click()")
    b.settle()
    expect("report: a run is hidden by its name", 0 < b.js("document.querySelectorAll('figure polyline:not(.raw)').length") < lines)


FETCH = """fetch(URL + '/v1/completions', {method: 'POST', headers: {'Content-Type': 'application/json'},
  body: JSON.stringify({prompt: 'a', max_tokens: 4, temperature: 0})}).then(r => r.json()).then(o => o.choices[0].finish_reason).catch(e => 'refused: ' + e)"""


def check_fetch(b):
    """A page on this machine may call the server, a page from elsewhere (whose origin is "null") may not, and the server's
    own page works."""
    server = subprocess.Popen([PROPANE, "serve", "one", "--port", "0", "--threads", "1", "--no-log"], stdout=subprocess.PIPE, text=True)
    pathlib.Path("page.html").write_text("<!doctype html><title>page</title>")
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    pages.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    try:
        url = re.search(r"http://[^/ ]*", server.stdout.readline()).group(0)
        ask = FETCH.replace("URL", json.dumps(url))
        for name, page, want in (("of this machine", f"http://127.0.0.1:{pages.server_port}/page.html", "length"), ("from nowhere", "data:text/html,hello", "refused"), ("of the server", url + "/", "length")):
            b.ask("Page.navigate", url=page)
            until = time.monotonic() + LIMIT
            while b.js("document.readyState + location.protocol + location.port") != "complete" + re.sub(r"(\w+:)(//[^:]*:(\d+))?.*", r"\1\3", page) and time.monotonic() < until:
                time.sleep(0.02)
            got = b.js(ask)
            expect(f"fetch from a page {name}", str(got).startswith(want), got)
        expect("the server's page has where to write", b.js("document.querySelectorAll('textarea, input').length") >= 1)
        b.shot("serve")
    finally:
        pages.shutdown()
        server.terminate()
        expect("the server ends", server.wait(timeout=20) == 0)


def main():
    program = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    if not program:
        print("Chromium is not here")
        return 77
    work = tempfile.mkdtemp(prefix="propane-pages.")
    try:
        os.chdir(work)
        fixtures()
        browser = Browser(program, os.path.join(work, "profile"))
        try:
            browser.attach()
            check_words(browser)
            check_big(browser)
            check_hands(browser)
            check_all_looks(browser)
            check_report(browser)
            check_fetch(browser)
        finally:
            browser.process.terminate()
            browser.process.wait(timeout=30)
            os.chdir("/")
    finally:
        shutil.rmtree(work, ignore_errors=True)  # the browser's processes may still write there
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
