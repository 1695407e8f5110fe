# SPDX-License-Identifier: MIT
"""Owns the server of a federated run: averages of what clients send, the outer step of DiLoCo, and the log of each round.
One idea: an answer is checked before it counts. An answer is refused if its tensors do not match those sent, or contain a
number that is not finite. The client and the tensor are logged, and the round continues with the others."""
from __future__ import annotations

import json
import logging
import math
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy.strategy_utils import sample_nodes

from .error import invalid
from .flower_client import payload, to_record
from .trainer import Trainer

_log = logging.getLogger("flwr")

# What the run's configuration ([tool.flwr.app.config], flwr run --run-config) may contain, with defaults.
RUN_CONFIG: Dict[str, Any] = {
    "num-server-rounds": 5,
    "local-steps": 100,          # of each client between two rounds
    "strategy": "outer",         # "fedavg", "fedavgm", "outer"
    "outer-lr": 0.7,             # outer: as in `propane train --outer-lr`
    "outer-momentum": 0.9,       # outer: Nesterov momentum
    "server-learning-rate": 1.0,  # fedavgm
    "server-momentum": 0.9,      # fedavgm
    "min-nodes": 2,              # a round waits for this many clients
    "fraction-train": 1.0,
    "fraction-evaluate": 0.0,    # 0: clients do not evaluate; only their training losses are known
    "secure": False,             # Flower's SecAgg+: the server sees only sums; requires strategy fedavg
    "round-timeout": 3600.0,     # seconds; later answers do not count
    "log": "",                   # a file with one JSON object per round
    "output": "",                # the trained weights: NAME.npz; with server_app(makes), any form that Trainer.write supports
}


# ---- one round ------------------------------------------------------------------------------------------------------------------

def why_not(content: RecordDict, sent: ArrayRecord) -> Optional[str]:
    """Returns the fault in a client's answer as a sentence, or None."""
    records = list(content.array_records.values())
    metrics: List[Dict[str, Any]] = [dict(record) for record in content.metric_records.values()]
    if len(records) != 1 or len(metrics) != 1:
        return f"it holds {len(records)} records of arrays and {len(metrics)} of metrics; one of each is asked for"
    missing, more = set(sent) - set(records[0]), set(records[0]) - set(sent)
    if missing or more:
        return f"it {'lacks' if missing else 'has'} the tensor {min(missing or more)}{'' if missing else ', which was not sent'}"
    for name, array in records[0].items():
        try:
            value = array.numpy()
        except (ValueError, TypeError, EOFError) as failure:
            return f"{name} cannot be read: {failure}"
        if tuple(value.shape) != tuple(sent[name].shape) or value.dtype.kind != "f":
            return f"{name} is {value.dtype} {list(value.shape)}; {list(sent[name].shape)} was sent"
        if not np.isfinite(value).all():
            at = int(np.flatnonzero(~np.isfinite(value.reshape(-1)))[0])
            return f"{name}: element {at} is {value.reshape(-1)[at]}"
    for key in ("num-examples", "loss"):
        number = metrics[0].get(key)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not math.isfinite(number):
            return f"'{key}' is {number}"
    if not metrics[0]["num-examples"] > 0:
        return f"'num-examples' is {metrics[0]['num-examples']}"
    return None


def sums_and_means(contents: List[RecordDict], weighted_by: str) -> MetricRecord:
    """Combines the clients' metrics: the loss is the mean weighted by tokens, the seconds are those of the slowest client,
    and the rest are sums."""
    told: List[Dict[str, Any]] = [dict(next(iter(content.metric_records.values()))) for content in contents]
    total = sum(float(t[weighted_by]) for t in told)
    made: Dict[str, Any] = {"clients": len(told)}
    for key in told[0]:
        values = [t[key] for t in told if isinstance(t.get(key), (int, float))]
        if key == "loss":
            made[key] = sum(float(t[key]) * float(t[weighted_by]) for t in told) / total
        elif key == "seconds":
            made[key] = max(values)
        elif key != weighted_by and values:
            made[key] = sum(values)
    return MetricRecord(made)


class _Checked(flower.FedAvg):
    """Mixin for Flower's strategies, all of which derive from FedAvg. It checks answers, counts bytes, and keeps a record of
    each round in `rounds`."""

    def __init__(self, *, log: str = "", **options: Any) -> None:
        options.setdefault("train_metrics_aggr_fn", sums_and_means)
        super().__init__(**options)
        self.rounds: List[Dict[str, Any]] = []
        self._sent: ArrayRecord = ArrayRecord()
        self._asked = 0
        self._path = log

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self._sent, self._asked = arrays, len(messages)
        return messages

    def aggregate_train(self, server_round: int,
                        replies: Iterable[Message]) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        good, refused, answers = [], [], 0
        for reply in replies:
            # The SuperLink answers for a node that has been silent for a minute, without saying which one.
            lost = reply.metadata.src_node_id == SUPERLINK_NODE_ID
            node = "unknown" if lost else str(reply.metadata.src_node_id)
            answers += not lost
            why = f"it failed: {reply.error.reason}" if reply.has_error() else why_not(reply.content, self._sent)
            if why is None:
                good.append(reply)
                continue
            refused.append({"client": node, "why": why})
            _log.warning("round %d: the answer of client %s is refused: %s", server_round, node, why)
        if answers < self._asked:
            _log.warning("round %d: %d of %d clients gave no answer in time", server_round, self._asked - answers, self._asked)
        arrays, metrics = super().aggregate_train(server_round, good)
        self._print({"round": server_round, "asked": self._asked, "answers": answers, "refused": refused,
                    "bytes_down": payload(self._sent) * self._asked,
                    "bytes_up": sum(payload(r) for reply in good for r in reply.content.array_records.values()),
                    **({k.replace("-", "_"): v for k, v in metrics.items() if k not in ("bytes-down", "bytes-up")}
                       if metrics else {"clients": 0})})
        return arrays, metrics

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Optional[MetricRecord]:
        metrics: Optional[MetricRecord] = super().aggregate_evaluate(server_round, replies)
        if metrics and "loss" in metrics:
            self._print({"round": server_round, "val_loss": metrics["loss"]})
        return metrics

    def _print(self, line: Dict[str, Any]) -> None:
        self.rounds.append(line)
        if self._path:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


class FedAvg(_Checked):
    """Flower's mean of the clients' weights, weighted by their tokens, over the valid answers."""


class FedAvgM(_Checked, flower.FedAvgM):
    """Flower's FedAvgM: the mean, followed by a step with momentum at the server."""


class Outer(FedAvg):
    """The outer step of DiLoCo, as in `propane train --outer`. The changes that the clients made, theta0 - theta, are
    averaged and used as the gradient of a step with Nesterov momentum. With rate 1 and no momentum, this is FedAvg."""

    def __init__(self, *, outer_lr: float = 0.7, outer_momentum: float = 0.9, **options: Any) -> None:
        if not outer_lr > 0 or not 0 <= outer_momentum < 1:
            raise invalid(f"outer-lr is {outer_lr}, outer-momentum {outer_momentum}; they are above 0, and from 0 to below 1")
        super().__init__(**options)
        self.lr, self.momentum = np.float32(outer_lr), np.float32(outer_momentum)
        self.velocity: Dict[str, Any] = {}

    def aggregate_train(self, server_round: int,
                        replies: Iterable[Message]) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        mean, metrics = super().aggregate_train(server_round, replies)
        if mean is None:
            return mean, metrics
        return ArrayRecord({name: Array(self._moved(name, self._sent[name].numpy(), array.numpy()))
                            for name, array in mean.items()}), metrics

    def _moved(self, name: str, common: Any, mean: Any) -> Any:
        """v = mu v + g; theta0 - lr (g + mu v). This is outer.c's step at a constant rate, because the server does not know
        the clients' rates."""
        gradient = (common - mean).astype(np.float32)
        if self.momentum > 0:
            self.velocity[name] = self.momentum * self.velocity.get(name, np.float32(0)) + gradient
            gradient = gradient + self.momentum * self.velocity[name]
        return np.asarray(common - self.lr * gradient, np.float32)


# ---- the run --------------------------------------------------------------------------------------------------------------------

def settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns RUN_CONFIG with the run's values, converted to their types. Keys that belong to the project are ignored."""
    made = dict(RUN_CONFIG)
    for key, value in given.items():
        if key in made:
            made[key] = float(value) if isinstance(made[key], float) else type(made[key])(value)
    if made["strategy"] not in ("fedavg", "fedavgm", "outer"):
        raise invalid(f"strategy is '{made['strategy']}'; it must be fedavg, fedavgm or outer")
    for key in ("num-server-rounds", "local-steps", "min-nodes"):
        if made[key] < 1:
            raise invalid(f"{key} is {made[key]}; it must be at least 1")
    return made


def strategy_of(s: Mapping[str, Any]) -> Any:
    common = {"fraction_train": s["fraction-train"], "fraction_evaluate": s["fraction-evaluate"],
              "min_train_nodes": s["min-nodes"], "min_evaluate_nodes": s["min-nodes"] if s["fraction-evaluate"] > 0 else 0,
              "min_available_nodes": s["min-nodes"], "log": s["log"]}
    if s["strategy"] == "fedavg":
        return FedAvg(**common)
    if s["strategy"] == "fedavgm":
        return FedAvgM(server_learning_rate=s["server-learning-rate"], server_momentum=s["server-momentum"], **common)
    return Outer(outer_lr=s["outer-lr"], outer_momentum=s["outer-momentum"], **common)


def ask_for_weights(grid: Grid, nodes: int, config: ConfigRecord, timeout: float) -> ArrayRecord:
    """Gets the initial weights from a client. All clients begin with the same ones, which the model and the seed determine.
    If a client fails or does not answer, the next one is asked."""
    ids, _ = sample_nodes(grid, nodes, nodes)
    why = ""
    for node in ids:
        asked = Message(content=RecordDict({"config": config}), message_type="query.weights", dst_node_id=node)
        why = f"nothing within {timeout:.0f} s"
        for reply in grid.send_and_receive([asked], timeout=timeout):
            if not reply.has_error():
                return next(iter(reply.content.array_records.values()))
            why = str(reply.error.reason)
        _log.warning("client %s could not provide the initial weights: %s", node, why)
    raise invalid(f"no client could provide the initial weights; the last error: {why}")


def _write(arrays: ArrayRecord, path: str, trainer: Optional[Trainer]) -> None:
    if not path:
        return
    if trainer is not None and not path.endswith(".npz"):
        trainer.set_weights({name: array.numpy() for name, array in arrays.items()})
        trainer.write(path)
        return
    if not path.endswith(".npz"):
        raise invalid(f"output is '{path}'; without a model at the server it must be NAME.npz")
    with open(path + ".new", "wb") as file:
        values: Dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
        np.savez(file, **values)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def server_app(makes: Optional[Callable[[Context], Mapping[str, Any]]] = None, *,
               done: Optional[Callable[[ArrayRecord, List[Dict[str, Any]]], None]] = None) -> ServerApp:
    """Returns a ServerApp that follows RUN_CONFIG.

    makes: None, and a client provides the initial weights. Or the arguments of a Trainer with data at the server: the run
    then begins with that model, its held-out data is evaluated after each round, and `output` can be written in any form.
    done: called with the last weights and the records of the rounds.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        s = settings(context.run_config)
        trainer = None
        if makes is not None:
            trainer = Trainer(**dict(makes(context)), steps=s["num-server-rounds"] * s["local-steps"], eval_every=0,
                              progress=False)
        config = ConfigRecord({"local-steps": s["local-steps"], "num-server-rounds": s["num-server-rounds"]})
        first = to_record(trainer.weights()) if trainer else ask_for_weights(grid, s["min-nodes"], config, s["round-timeout"])

        def evaluate(server_round: int, arrays: ArrayRecord) -> Optional[MetricRecord]:
            if trainer is None or trainer._info().held_out == 0:
                return None
            trainer.set_weights({name: array.numpy() for name, array in arrays.items()})
            return MetricRecord({"loss": trainer.evaluate().loss})
        if s["secure"]:
            from .flower_secure import secure_rounds
            last, rounds = secure_rounds(grid, context, s, first, evaluate)
        else:
            strategy = strategy_of(s)
            result = strategy.start(grid=grid, initial_arrays=first, num_rounds=s["num-server-rounds"], train_config=config,
                                    evaluate_config=config, timeout=s["round-timeout"], evaluate_fn=evaluate)
            last, rounds = result.arrays if len(result.arrays) else first, strategy.rounds
        _write(last, s["output"], trainer)
        if trainer is not None:
            trainer.close()
        if done is not None:
            done(last, rounds)

    return app


__all__ = ["server_app", "FedAvg", "FedAvgM", "Outer", "RUN_CONFIG", "settings", "strategy_of", "why_not", "sums_and_means"]
