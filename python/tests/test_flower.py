# SPDX-License-Identifier: MIT
"""Federated training without a network: real clients and strategies, with a grid in between that passes the messages.
python/flower_check.py tests them as processes on a network."""
import json
import os

import numpy as np
import pytest
from conftest import data, refused

pytest.importorskip("flwr", reason="flwr is not installed")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict  # noqa: E402

from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

import propane_ml as propane  # noqa: E402
import propane_ml.flower as flower  # noqa: E402
from propane_ml.flower_client import folder_of, from_record, payload, to_record  # noqa: E402
from propane_ml.flower_server import settings, strategy_of, sums_and_means, why_not  # noqa: E402

TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # the identity that Flower's processes normally have
WORDS = "the cat sat on the mat. the dog sat on the log. " * 60
SMALL = dict(kind="bytes", arch="qwen3", layers=1, width=16, heads=2, context=16, batch=4, warmup=1, lr=0.01, threads=1)


def context(tmp_path, node, run=1, **run_config):
    return Context(run_id=run, node_id=node, node_config={"name": str(node), "state": str(tmp_path)}, state=RecordDict(),
                   run_config=run_config)


def learns(_):
    return dict(text=WORDS, **SMALL)


class Grid:
    """Clients that are functions. spoil: {node: the change made to its answer}."""

    def __init__(self, tmp_path, app, nodes=2, spoil=None, **run_config):
        self.app, self.spoil, self.messages = app, spoil or {}, []
        self.contexts = {10 + n: context(tmp_path, 10 + n, **run_config) for n in range(1, nodes + 1)}

    def get_node_ids(self):
        return list(self.contexts)

    def send_and_receive(self, messages, *, timeout=None):
        answers = []
        for message in messages:
            node = message.metadata.dst_node_id
            self.messages.append(message)
            copy = RecordDict(dict(message.content.items()))
            asked = Message(copy, dst_node_id=node, message_type=message.metadata.message_type)
            try:
                answer = self.app(asked, self.contexts[node])
            except Exception as failure:
                answer = Message(Error(code=0, reason=str(failure)), reply_to=asked)
            answer.metadata.__dict__["_src_node_id"] = node
            answer = self.spoil.get(node, lambda a: a)(answer)
            if answer is not None:
                answers.append(answer)
        return answers


def run(grid, tmp_path, **config):
    settled = settings({"num-server-rounds": 2, "local-steps": 3, **config})
    strategy = strategy_of(settled)
    first = to_record(propane.Trainer(**learns(None), steps=1, progress=False).weights())
    told = ConfigRecord({"local-steps": settled["local-steps"], "num-server-rounds": settled["num-server-rounds"]})
    result = strategy.start(grid=grid, initial_arrays=first, num_rounds=settled["num-server-rounds"], train_config=told,
                            evaluate_config=told)
    return strategy, result, first


def numbers(record):
    return {name: array.numpy() for name, array in record.items()}


def test_one_client_learns_as_a_run_of_its_own(tmp_path):
    """With rate 1, no momentum and one client, this is plain training, bit for bit: moments, schedule and data continue
    between rounds, although each round is a separate process as far as the client knows."""
    for round_count in (1, 3):
        grid = Grid(tmp_path / str(round_count), flower.client_app(learns), nodes=1)
        _, result, _ = run(grid, tmp_path, **{"strategy": "fedavg", "min-nodes": 1, "num-server-rounds": round_count,
                                              "local-steps": 6 // round_count})
        plain = propane.Trainer(**learns(None), steps=6, eval_every=0, keep="last", progress=False)
        plain.run()
        for name, value in plain.weights().items():
            assert np.array_equal(value, numbers(result.arrays)[name]), name


def test_outer_step_is_the_librarys(tmp_path):
    """v = mu v + g; theta0 -= lr (g + mu v), where g is the mean of the changes, over two rounds. With rate 1 and no
    momentum, this is FedAvg."""
    outer = flower.Outer(outer_lr=0.7, outer_momentum=0.9, min_train_nodes=1, min_available_nodes=1)
    theta, v, draw = np.float32([1.0, -2.0, 0.5]), np.zeros(3), np.random.default_rng(1)
    for number in (1, 2, 3):
        sent = ArrayRecord({"w": Array(theta)})
        outer._sent, outer._asked = sent, 2
        clients = [theta + draw.standard_normal(3).astype(np.float32) * 0.1 for _ in range(2)]
        replies = []
        for node, moved in enumerate(clients):
            asked = Message(RecordDict(), dst_node_id=node + 1, message_type="train")
            replies.append(Message(RecordDict({"arrays": ArrayRecord({"w": Array(moved)}), "metrics": MetricRecord(
                {"num-examples": 10, "loss": 1.0})}), reply_to=asked))
        made, _ = outer.aggregate_train(number, replies)
        g = theta.astype(np.float64) - np.mean(np.float64(clients), axis=0)
        v = 0.9 * v + g
        want = theta - 0.7 * (g + 0.9 * v)
        theta = made["w"].numpy()
        assert theta.dtype == np.float32 and np.abs(theta - want).max() < 3e-7  # seen: 9e-8
    with refused("invalid", "outer-momentum 1"):
        flower.Outer(outer_momentum=1)


def test_strategies_learn_and_print(tmp_path):
    log = tmp_path / "log.jsonl"
    for kind in ("fedavg", "fedavgm", "outer"):
        grid = Grid(tmp_path / kind, flower.client_app(learns))
        strategy, result, first = run(grid, tmp_path, strategy=kind, log=str(log), **{"fraction-evaluate": 1.0, "server-momentum": 0.5,
                                                                                      "outer-momentum": 0.5, "num-server-rounds": 3})
        rounds = [line for line in strategy.rounds if "asked" in line]
        assert [r["clients"] for r in rounds] == [2] * 3 and rounds[-1]["loss"] < rounds[0]["loss"]
        # 3 steps of 4 x 16 tokens at two clients; the weights of both are sent each way
        assert all(r["tokens"] == 2 * 3 * 64 and r["bytes_down"] == r["bytes_up"] == 2 * payload(first) for r in rounds)
        held_out = [line["val_loss"] for line in strategy.rounds if "val_loss" in line]
        assert len(held_out) == 3 and held_out[-1] < held_out[0]
    assert len(log.read_text().splitlines()) == 18 and all(json.loads(line) for line in log.read_text().splitlines())


def poison(name_part, value, index=7):
    def spoil(answer):
        if answer.has_error() or not answer.content.array_records:
            return answer
        arrays = numbers(answer.content["arrays"])
        name = next(n for n in arrays if name_part in n)
        arrays[name].reshape(-1)[index] = value
        answer.content["arrays"] = to_record(arrays)
        return answer
    return spoil


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused_by_client_and_tensor(tmp_path, caplog, value):
    grid = Grid(tmp_path, flower.client_app(learns), nodes=3, spoil={12: poison("q_proj", value)})
    strategy, result, _ = run(grid, tmp_path)
    for line in (r for r in strategy.rounds if "asked" in r):
        assert line["clients"] == 2 and [r["client"] for r in line["refused"]] == ["12"]
        assert "q_proj" in line["refused"][0]["why"] and f"element 7 is {value}" in line["refused"][0]["why"]
    assert "the answer of client 12 is refused" in caplog.text
    assert all(np.isfinite(a).all() for a in numbers(result.arrays).values())


def test_answers_that_do_not_fit_are_refused():
    sent = ArrayRecord({"a": Array(np.zeros((2, 3), np.float32)), "b": Array(np.zeros(4, np.float32))})

    def answer(arrays=None, **metrics):
        return RecordDict({"arrays": to_record({"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float32), **(arrays or {})}),
                           "metrics": MetricRecord({"num-examples": 5, "loss": 1.0, **metrics})})
    assert why_not(answer(), sent) is None
    assert why_not(answer({"a": np.zeros((3, 2), np.float32)}), sent) == "a is float32 [3, 2]; [2, 3] was sent"
    assert why_not(answer({"b": np.zeros(4, np.int32)}), sent) == "b is int32 [4]; [4] was sent"
    assert why_not(answer({"c": np.zeros(1, np.float32)}), sent) == "it has the tensor c, which was not sent"
    lacking = RecordDict({"arrays": to_record({"a": np.zeros((2, 3), np.float32)}), "metrics": MetricRecord({"num-examples": 1})})
    assert why_not(lacking, sent) == "it lacks the tensor b"
    assert why_not(answer(loss=float("nan")), sent) == "'loss' is nan"
    assert why_not(answer(**{"num-examples": 0}), sent) == "'num-examples' is 0"
    assert "2 records of arrays" in why_not(RecordDict({"x": sent, "y": sent, "m": MetricRecord({})}), sent)
    broken = answer()
    broken["arrays"]["a"].data = b"nothing"
    assert why_not(broken, sent).startswith("a cannot be read")


def test_clients_that_are_silent_or_fail_and_come_back(tmp_path):
    seen = {"n": 0}

    def silent_once(answer):
        seen["n"] += 1
        return None if seen["n"] == 1 else answer
    grid = Grid(tmp_path, flower.client_app(learns), spoil={11: silent_once})
    strategy, _, _ = run(grid, tmp_path)
    assert [(r["asked"], r["answers"], r["clients"]) for r in strategy.rounds] == [(2, 1, 1), (2, 2, 2)]
    grid = Grid(tmp_path / "b", flower.client_app(lambda c: dict(learns(c), lr=-7.0) if c.node_id == 12 else learns(c)))
    strategy, _, _ = run(grid, tmp_path)
    assert all(r["clients"] == 1 and "it failed" in r["refused"][0]["why"] and "lr" in r["refused"][0]["why"] for r in strategy.rounds)
    grid = Grid(tmp_path / "c", flower.client_app(learns), spoil={11: lambda a: None, 12: lambda a: None})
    strategy, result, first = run(grid, tmp_path)
    assert all(r["clients"] == 0 for r in strategy.rounds) and len(result.arrays) == 0


def test_a_client_that_missed_rounds_ends_with_the_schedule(tmp_path, monkeypatch):
    """The client's rate falls with the run, not with its own steps."""
    from propane_ml import flower_client
    ends, rounds, missed = {}, [], {2: 12, 3: 12}  # missed: by round, the absent node
    real = flower_client.train_round

    def spy(trainer, arrays, local):
        answer = real(trainer, arrays, local)
        ends[os.path.basename(trainer.option("run"))] = (trainer.step_count, trainer.steps)
        return answer

    class Lossy(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            messages = list(messages)
            rounds.extend(messages[:1])  # evaluations are none
            there = [m for m in messages if m.metadata.dst_node_id != missed.get(len(rounds))]
            return super().send_and_receive(there, timeout=timeout)
    monkeypatch.setattr(flower_client, "train_round", spy)
    strategy, _, _ = run(Lossy(tmp_path, flower.client_app(learns)), tmp_path, **{"num-server-rounds": 4})
    assert [r["clients"] for r in strategy.rounds] == [2, 1, 1, 2]
    assert ends == {"client-11": (12, 12), "client-12": (6, 6)}


def test_state_stays_and_other_data_begins_anew(tmp_path, caplog):
    app, given = flower.client_app(lambda c: dict(learns(c), text=c.run_config["text"])), context(tmp_path, 1, text=WORDS)
    first = to_record(propane.Trainer(**learns(None), steps=1, progress=False).weights())

    def ask(steps=2):
        message = Message(RecordDict({"arrays": first, "config": ConfigRecord({"local-steps": steps, "num-server-rounds": 1})}),
                          dst_node_id=1, message_type="train")
        return app(message, given).content["metrics"]
    assert ask()["steps"] == 2
    with propane.Trainer(**learns(None), run=folder_of(given), resume=True, steps=2, progress=False, keep="last", eval_every=0) as kept:
        assert kept.step_count == 2
    assert ask()["steps"] == 2  # after the planned rounds it continues
    given.run_config["text"] = WORDS[:-400]
    assert ask()["steps"] == 2
    assert "does not fit and is begun anew" in caplog.text and os.path.exists(os.path.join(folder_of(given) + ".before", "checkpoint.safetensors"))
    given.node_config["name"] = "../../x"
    with refused("invalid", "becomes a folder's name"):
        ask()
    with refused("invalid", "'steps' of a client's trainer"):
        flower.client_app(lambda c: dict(learns(c), steps=3))(Message(RecordDict({"arrays": first}), dst_node_id=1, message_type="train"),
                                                              context(tmp_path, 5))


def test_adapters_only_rounds_of_a_qwen3(tmp_path):
    model, tokenizer = data("tests", "data", "arch_qwen3"), propane.Tokenizer.train("User: Assistant: \nabcdefghijklmnopqrstuvwxyz.",
                                                                                     kind="chars")

    def adapters(_):
        return dict(model=model, lora=2, tokenizer=tokenizer, examples=[{"prompt": "abc", "completion": "def"}] * 8, context=32,
                    batch=2, held_out=0, lr=0.05, warmup=1, threads=1)
    trainer = propane.Trainer(**adapters(None), steps=1, eval_every=0, progress=False)
    first, whole = to_record(trainer.weights()), os.path.getsize(os.path.join(model, "model.safetensors"))
    grid = Grid(tmp_path, flower.client_app(adapters))
    strategy = strategy_of(settings({"outer-momentum": 0.5}))
    result = strategy.start(grid=grid, initial_arrays=first, num_rounds=3,
                            train_config=ConfigRecord({"local-steps": 4, "num-server-rounds": 3}))
    assert all("lora_" in name for name in result.arrays) and strategy.rounds[-1]["loss"] < strategy.rounds[0]["loss"]
    values = 4 * trainer.parameters
    assert values < strategy.rounds[0]["bytes_up"] / 2 < values + 200 * len(first) and values < whole
    trainer.set_weights(numbers(result.arrays))
    trainer.write(tmp_path / "merged")


def test_programs_train_too(tmp_path):
    from conftest import mil
    program = propane.parse(mil('tensor<fp32, [1, 3]> w = const()[name = string("w"), val = tensor<fp32, [1, 3]>([[0, 0, 0]])];\n'
                                'tensor<fp32, [1]> b = const()[name = string("b"), val = tensor<fp32, [1]>([0.0])];\n'
                                'tensor<fp32, [1, 1]> y = linear(x = x, weight = w, bias = b)[name = string("y")];',
                                "tensor<fp32, [1, 3]> x", "y"))
    path = str(tmp_path / "m.mlpackage")
    program.save(path)

    def fits(c):
        x = np.random.default_rng(c.node_id).standard_normal((32, 3)).astype(np.float32)
        return dict(model=path, data={"x": x, "y": x @ np.float32([[1], [-2], [0.5]])}, loss="mse", trainable="w", lr=0.1, batch=8)
    grid = Grid(tmp_path, flower.client_app(fits))
    strategy = strategy_of(settings({"strategy": "fedavg"}))
    result = strategy.start(grid=grid, initial_arrays=ArrayRecord({"w": Array(np.zeros((1, 3), np.float32))}), num_rounds=4,
                            train_config=ConfigRecord({"local-steps": 20, "num-server-rounds": 4}))
    assert np.abs(numbers(result.arrays)["w"] - [[1, -2, 0.5]]).max() < 0.1


def test_the_server_asks_a_client_what_to_begin_with(tmp_path):
    from propane_ml.flower_server import ask_for_weights
    want = propane.Trainer(**learns(None), steps=1, progress=False).weights()
    config = ConfigRecord({"local-steps": 1, "num-server-rounds": 1})
    grid = Grid(tmp_path, flower.client_app(lambda c: dict(learns(c), lr=-7.0) if c.node_id == 12 else learns(c)))
    for _ in range(4):  # the client that is asked first
        got = numbers(ask_for_weights(grid, 2, config, 5.0))
        assert list(got) == list(want) and all(np.array_equal(got[name], want[name]) for name in want)
    with refused("invalid", "no client could provide the initial weights; .*lr"):
        ask_for_weights(Grid(tmp_path / "b", flower.client_app(lambda c: dict(learns(c), lr=-7.0))), 2, config, 5.0)


def test_configuration(tmp_path):
    assert settings({"outer-lr": 1, "mine": "x"})["outer-lr"] == 1.0 and "mine" not in settings({"mine": "x"})
    for wrong, sentence in (({"strategy": "median"}, "it must be fedavg"), ({"local-steps": 0}, "local-steps is 0")):
        with refused("invalid", sentence):
            settings(wrong)
    metrics = [RecordDict({"m": MetricRecord({"num-examples": n, "loss": loss, "seconds": s, "bytes-up": 4})})
               for n, loss, s in ((1, 2.0, 5.0), (3, 4.0, 2.0))]
    assert dict(sums_and_means(metrics, "num-examples")) == {"clients": 2, "loss": 3.5, "seconds": 5.0, "bytes-up": 8}
    assert list(from_record(to_record({"0": np.zeros(1), "1": np.ones(1)}), ["a", "b"])) == ["a", "b"]


def test_a_client_that_insists_on_secure_aggregation(tmp_path):
    app, first = flower.client_app(learns, secure=True), to_record({"a": np.zeros(1, np.float32)})
    with refused("invalid", "under secure aggregation only"):
        app(Message(RecordDict({"arrays": first}), dst_node_id=1, message_type="train"), context(tmp_path, 1))
