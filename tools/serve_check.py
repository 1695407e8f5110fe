#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests `propane serve` with the tools that operators use: lm-evaluation-harness (a task with its own data, with the same
scores as from `propane eval`), Prometheus's text parser, HTTPS with a verified certificate, the page, keys, JSON objects.

usage: serve_check.py PROPANE          exit 0: good; 77: a package is missing; 1: something differs
"""
import http.client
import json
import math
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_DISABLE_TELEMETRY="1")
try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("the Python package prometheus_client is not here")
    sys.exit(77)

propane = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/propane")
work = tempfile.mkdtemp(prefix="propane-serve-")
done, servers = [], []


def check(name, condition, shown=""):
    if not condition:
        print(f"FAILED {name}: {shown}")
        sys.exit(1)
    done.append(name)


def run(*words):
    return subprocess.run([propane, *words], cwd=work, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def serve(*flags):
    server = subprocess.Popen([propane, "serve", "model", "--port", "0", "--no-log", *flags], cwd=work, stdout=subprocess.PIPE, text=True)
    servers.append(server)
    return server.stdout.readline().split(" at ")[1].split("/v1")[0]


def stop():
    for server in servers:
        server.send_signal(signal.SIGTERM)
    try:
        for server in servers:
            server.wait(20)
    finally:
        for server in servers:
            server.kill()  # has no effect if the server has ended
        shutil.rmtree(work, ignore_errors=True)


def get(url, body=None, key=None, context=None):
    headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + key} if key else {})}
    data = json.dumps(body).encode() if body is not None else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), context=context, timeout=60) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def check_https():
    if not shutil.which("openssl"):
        print("skipped: HTTPS: there is no openssl here")
        return
    new_pair()
    url = serve("--tls-cert", "cert.pem", "--tls-key", "key.pem")
    check("https address", url.startswith("https://"), url)
    trusting = ssl.create_default_context(cafile=os.path.join(work, "cert.pem"))
    check("https", get(url + "/health", context=trusting)[0] == 200)
    status, said, _ = get(url + "/v1/completions", {"prompt": "line 1", "max_tokens": 8, "stream": True}, context=trusting)
    check("https stream", status == 200 and said.rstrip().endswith("data: [DONE]"), said)
    try:
        get(url + "/health", context=ssl.create_default_context())
        check("https without trust", False, "the certificate was taken")
    except urllib.error.URLError as error:
        check("https without trust", "CERTIFICATE_VERIFY_FAILED" in str(error), error)
    address = url.split("://")[1]
    seen = subprocess.run(["openssl", "s_client", "-connect", address, "-CAfile", "cert.pem", "-tls1_2"], cwd=work, input="", capture_output=True,
                          text=True).stdout
    check("openssl", "Verify return code: 0" in seen, seen[-400:])
    check_renewal(url, trusting)
    try:
        plain = get(url.replace("https", "http") + "/health")
        check("http on the port of https", False, plain)
    except OSError:
        check("http on the port of https", True)


def new_pair():
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], cwd=work, check=True,
                   stderr=subprocess.DEVNULL)


def check_renewal(url, trusting):
    """A connection outlives the certificate that it started with; new connections use the new one."""
    host, port = url.split("://")[1].split(":")
    kept = http.client.HTTPSConnection(host, int(port), context=trusting, timeout=60)
    kept.request("GET", "/health")
    kept.getresponse().read()
    old = kept.sock.getpeercert(True)
    new_pair()
    servers[-1].send_signal(signal.SIGHUP)
    for _ in range(200):
        new = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))
        if new != old:
            break
        time.sleep(0.05)
    check("a new certificate", new != old)
    sock = kept.sock
    kept.request("POST", "/v1/completions", json.dumps({"prompt": "line 1", "max_tokens": 4}), {"Content-Type": "application/json"})
    check("a connection outlives its certificate", kept.getresponse().status == 200 and kept.sock is sock)
    kept.close()


def check_keys_and_page(url):
    status, page, headers = get(url + "/")
    check("page", status == 200 and page.startswith("<!DOCTYPE html>") and "default-src 'none'" in headers["Content-Security-Policy"])
    check("no key", get(url + "/v1/models")[0] == 401)
    check("key", json.loads(get(url + "/v1/models", key="one")[1])["data"][0]["chat"] is True)


def check_json(url):
    for seed in range(20):
        ask = {"messages": [{"role": "user", "content": "line 1"}], "seed": seed, "max_tokens": 3 + 4 * seed,
               "response_format": {"type": "json_object"}}
        status, said, _ = get(url + "/v1/chat/completions", ask, key="two")
        choice = json.loads(said)["choices"][0]
        check("json object", status == 200 and isinstance(json.loads(choice["message"]["content"]), dict), said)
        check("json ends", choice["finish_reason"] == "stop", choice)


def check_metrics(url):
    families = {f.name: f for f in text_string_to_metric_families(get(url + "/metrics", key="two")[1])}
    check("metrics", len(families) >= 5, list(families))
    counted = [s for f in families.values() for s in f.samples if f.type == "counter" and "requests" in s.name]
    check("requests are counted", sum(s.value for s in counted) >= 20, counted)


# The harness requests echo and logprobs and adds up those after the context; `propane eval` gets the same ids.
def check_harness(url):
    try:
        import lm_eval
        import lm_eval.tasks
        import tenacity  # noqa: F401: lm_eval[api]
        from transformers import AutoTokenizer
    except ImportError as error:
        print(f"skipped: lm-evaluation-harness: {error}")
        return
    lines = [{"question": f"line {i * i % 977}", "answers": [f" of {i % 7}", f" of {(i + 3) % 7}", " ofof"], "right": 0} for i in range(12)]
    with open(os.path.join(work, "lines.jsonl"), "w") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    os.mkdir(os.path.join(work, "tasks"))
    with open(os.path.join(work, "tasks", "lines.yaml"), "w") as f:
        f.write(f"task: propane_lines\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {work}/lines.jsonl\ntest_split: test\n"
                "output_type: multiple_choice\ndoc_to_text: '{{question}}'\ndoc_to_choice: answers\ndoc_to_target: right\n"
                "target_delimiter: ''\nmetric_list:\n  - metric: acc\n")
    manager = lm_eval.tasks.TaskManager(include_path=os.path.join(work, "tasks"), include_defaults=False)
    result = lm_eval.simple_evaluate(
        model="local-completions", tasks=["propane_lines"], task_manager=manager, log_samples=True, bootstrap_iters=0,
        model_args=f"model=model,base_url={url}/v1/completions,tokenizer={work}/model,tokenized_requests=False,num_concurrent=1,max_retries=1")
    scored = result["samples"]["propane_lines"]
    check("harness: all scored", len(scored) == 12)
    check("harness: accuracy", result["results"]["propane_lines"]["acc,none"] >= 0.5, result["results"])
    tokenizer = AutoTokenizer.from_pretrained(os.path.join(work, "model"))
    sample = scored[3]
    for k, answer in enumerate(lines[3]["answers"]):
        want = 0
        for sign, words in ((1, lines[3]["question"] + answer), (-1, lines[3]["question"])):
            ids = tokenizer(words, add_special_tokens=False)["input_ids"]
            with open(os.path.join(work, "ids"), "w") as f:
                f.write(" ".join(map(str, ids)))
            if len(ids) > 1:
                want -= sign * json.loads(run("eval", "model", "--ids", "ids", "--json"))["loss"] * (len(ids) - 1)
        got = float(sample["resps"][k][0][0])
        check("harness: log likelihood", math.isclose(got, want, abs_tol=2e-3), (answer, got, want))  # observed: 1e-5


os.environ["OPENAI_API_KEY"] = "two"
try:
    with open(os.path.join(work, "text"), "w") as f:
        f.write("".join(f"line {i * i % 977} of {i % 7}\n" for i in range(3000)))
    with open(os.path.join(work, "keys"), "w") as f:
        f.write("one\ntwo\n")
    run("train", "--data", "text", "--vocab", "300", "--layers", "1", "--width", "32", "--heads", "2", "--context", "64", "--batch", "8",
        "--steps", "150", "--lr", "1e-2", "--eval-every", "0", "--run", "run")
    run("convert", "run", "model")
    check_https()
    url = serve("--api-key-file", "keys")
    check_keys_and_page(url)
    check_json(url)
    check_metrics(url)
    check_harness(url)
finally:
    stop()
print(f"{len(done)} checks; " + ", ".join(dict.fromkeys(n.split(":")[0] for n in done)))
