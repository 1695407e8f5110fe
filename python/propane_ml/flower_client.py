# SPDX-License-Identifier: MIT
"""Owns a federated client: it takes weights, makes steps on its own data and returns its weights. One idea: the state
between two rounds (moments, position in the data, schedule) is an ordinary checkpoint in a folder of this client, so a
client that was killed continues from its last complete round, in any process."""
from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence, Tuple

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from .error import PropaneError, invalid
from .trainer import Trainer

_log = logging.getLogger("flwr")
Makes = Callable[[Context], Mapping[str, Any]]
_WAIT = 60.0  # seconds for an orphaned process of the same client to end
_NOT_FOR_CLIENTS = ("run", "resume", "steps", "epochs", "keep", "eval_every", "checkpoint_every", "progress")


def payload(arrays: ArrayRecord) -> int:
    """Returns the number of bytes in which the arrays are sent."""
    return sum(len(array.data) for array in arrays.values())


def to_record(weights: Mapping[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.ascontiguousarray(value)) for name, value in weights.items()})


def from_record(record: ArrayRecord, names: Sequence[str]) -> Dict[str, Any]:
    """Returns the arrays by name. Flower's older workflows, such as secure aggregation, send arrays by number: "0", "1", ..."""
    arrays = {name: array.numpy() for name, array in record.items()}
    if names and len(arrays) == len(names) and list(arrays) == [str(i) for i in range(len(names))]:
        return dict(zip(names, arrays.values()))
    return arrays


def folder_of(context: Context) -> str:
    """Returns the folder in which this client keeps its state for this Flower run. The node's `state` determines the
    location, and `name` or `partition-id` its identity, because the number that the server assigns changes when a
    client without a key
    returns."""
    root = str(context.node_config.get("state") or context.run_config.get("state") or
               os.path.join(tempfile.gettempdir(), f"propane-flower-{os.getuid()}"))
    name = context.node_config.get("name", context.node_config.get("partition-id", context.node_id))
    if os.sep in str(name) or str(name).startswith("."):
        raise invalid(f"the node's name is '{name}'; it becomes a folder's name and has no '{os.sep}'")
    folder = os.path.join(root, f"run-{context.run_id}", f"client-{name}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _open(kwargs: Mapping[str, Any], folder: str, steps: int, resume: bool) -> Trainer:
    """A client that was killed may have left its process behind, which holds the folder until it ends."""
    end = time.monotonic() + _WAIT
    while True:
        try:
            return Trainer(**kwargs, run=folder, resume=resume, steps=steps, keep="last", eval_every=0, checkpoint_every=0,
                           progress=False)
        except PropaneError as failure:
            if "another process is training" not in str(failure) or time.monotonic() > end:
                raise
            time.sleep(0.5)


def _trainer(kwargs: Mapping[str, Any], folder: str, steps: int, left: int) -> Trainer:
    """left: the number of steps from here to the end of the run; with 0, no step is made."""
    trainer = _resumed(kwargs, folder, steps)
    end = trainer.step_count + left
    if left == 0 or end == trainer.steps:
        return trainer
    # Rounds were missed, or there are more than planned. The schedule still ends with the run: a client whose rate
    # followed its own steps would make large steps until the end.
    trainer.close()
    return _resumed(kwargs, folder, end)


def _resumed(kwargs: Mapping[str, Any], folder: str, steps: int) -> Trainer:
    kept = os.path.exists(os.path.join(folder, "checkpoint.safetensors"))
    if not kept:
        return _open(kwargs, folder, steps, False)
    try:
        return _open(kwargs, folder, steps, True)
    except PropaneError as failure:
        if failure.status != "invalid":
            raise
        # With other data or options, the moments are useless, but the round is not.
        _log.warning("the state in %s does not fit and is begun anew: %s", folder, failure)
        shutil.rmtree(folder + ".before", ignore_errors=True)
        os.replace(folder, folder + ".before")
        os.makedirs(folder, mode=0o700)
        return _open(kwargs, folder, steps, False)


@contextmanager
def _opened(makes: Makes, context: Context, steps: int, left: int = 0) -> Iterator[Trainer]:
    kwargs = dict(makes(context))
    for name in _NOT_FOR_CLIENTS:
        if name in kwargs:
            raise invalid(f"'{name}' of a client's trainer follows from the run's configuration; leave it out")
    trainer = _trainer(kwargs, folder_of(context), steps, left)
    try:
        yield trainer
    finally:
        trainer.close()


def _asked(message: Message, context: Context) -> Tuple[int, int, int]:
    """Returns the steps of the round, the steps of the whole run (over which the learning rate's schedule extends), and the
    steps from this round to the end."""
    given: Dict[str, Any] = dict(context.run_config)
    for config in message.content.config_records.values():
        given.update(config)
    local = int(given.get("local-steps", 100))
    rounds = int(given.get("num-server-rounds", 1))
    if local < 1 or rounds < 1:
        raise invalid(f"local-steps is {local}, num-server-rounds is {rounds}; both are 1 or more")
    return local, local * rounds, local * max(1, rounds - int(given.get("server-round", 1)) + 1)


def _units(trainer: Trainer) -> int:
    return int(trainer.facts()["log"]["tokens_per_step"])


def train_round(trainer: Trainer, arrays: ArrayRecord, local: int) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Makes local steps from the given weights. Returns the new weights and the metrics."""
    trainer.set_weights(from_record(arrays, list(trainer.weights())))
    start = time.monotonic()
    done = trainer.run(local).steps
    trainer.save()
    units = _units(trainer) * len(done)
    kept = [s.loss for s in done if np.isfinite(s.loss)]
    return trainer.weights(), {"num-examples": units, "tokens": units, "steps": len(done),
                               "loss": float(np.mean(kept)) if kept else float("nan"),
                               "seconds": time.monotonic() - start}


def _first_arrays(message: Message) -> ArrayRecord:
    for record in message.content.array_records.values():
        return record
    raise invalid("the server's message holds no arrays")


def _sealed_by(message: Message) -> bool:
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
    return RECORD_KEY_CONFIGS in message.content.config_records


def _seals(always: bool) -> Any:
    """Wraps messages in Flower's SecAgg+ if they request it. A client that insists on it refuses other messages."""
    def mod(message: Message, context: Context, call_next: Any) -> Message:
        if _sealed_by(message):
            from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
            return secaggplus_mod(message, context, call_next)
        if always or context.node_config.get("secure"):
            raise invalid("this client answers under secure aggregation only; run with secure=true")
        answer: Message = call_next(message, context)
        return answer
    return mod


def client_app(makes: Makes, *, secure: bool = False, mods: Sequence[Any] = ()) -> ClientApp:
    """Returns a ClientApp that trains what `makes(context)` returns: the arguments of a Trainer (model, data, lora, options
    by name). Steps and folders are omitted, because they follow from the run. The app answers train, evaluate (on the
    held-out data) and query.weights.

    If the server requests Flower's SecAgg+, it gets masked weights; with secure (or the node's own `secure=true`), it never
    gets anything else. mods: Flower's mods, applied to every message.
    """
    around = list(mods)
    app = ClientApp()

    @app.train(mods=around + [_seals(secure)])
    def train(message: Message, context: Context) -> Message:
        local, steps, left = _asked(message, context)
        arrays = _first_arrays(message)
        down = payload(arrays)
        with _opened(makes, context, steps, left) as trainer:
            weights, told = train_round(trainer, arrays, local)
        record = to_record(weights)
        told.update({"bytes-down": down, "bytes-up": payload(record)})
        if _sealed_by(message):
            return Message(_sealed(weights, told), reply_to=message)
        return Message(RecordDict({"arrays": record, "metrics": MetricRecord(told)}), reply_to=message)

    @app.evaluate(mods=around)
    def evaluate(message: Message, context: Context) -> Message:
        _, steps, _ = _asked(message, context)
        with _opened(makes, context, steps) as trainer:
            trainer.set_weights(from_record(_first_arrays(message), list(trainer.weights())))
            seen = trainer.evaluate()
            told: Dict[str, Any] = {"loss": seen.loss, "num-examples": max(1, int(trainer._info().held_out))}
        return Message(RecordDict({"metrics": MetricRecord(told)}), reply_to=message)

    @app.query("weights", mods=around)
    def weights(message: Message, context: Context) -> Message:
        _, steps, _ = _asked(message, context)
        with _opened(makes, context, steps) as trainer:
            return Message(RecordDict({"arrays": to_record(trainer.weights())}), reply_to=message)

    return app


def _sealed(weights: Mapping[str, Any], told: Mapping[str, Any]) -> RecordDict:
    """Prepares an answer for SecAgg+, which masks and quantizes the arrays. SecAgg+ cannot detect NaN in them, so the client
    checks for it. Every client has weight 1, because weights scale the quantized values, and small ones would lose digits."""
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
    from flwr.compat.common.recorddict_compat import fitres_to_recorddict
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise invalid(f"{name} has numbers that are not finite; nothing from this round is sent")
    metrics = {name: value for name, value in told.items() if name != "num-examples"}
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(list(weights.values())), 1, metrics)
    return fitres_to_recorddict(result, keep_input=False)


__all__ = ["client_app", "train_round", "folder_of", "payload", "to_record", "from_record"]
