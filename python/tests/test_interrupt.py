# SPDX-License-Identifier: MIT
"""Ctrl-C while the library works: a call that would take hours ends at once with KeyboardInterrupt, and everything works
afterwards."""
import contextlib
import inspect
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from conftest import data, mil

import propane_ml as propane
from propane_ml import language

LOOP = mil('int32 zero = const()[name = string("zero"), val = int32(0)];\n'
           "int32 n, tensor<fp32, [4]> y = while_loop(loop_vars = (zero, x)) (int32 i, tensor<fp32, [4]> a) {\n"
           "bool more = less(x = i, y = steps);\n"
           "} -> (more), (int32 j, tensor<fp32, [4]> b) {\n"
           'int32 one = const()[name = string("one"), val = int32(1)];\n'
           "int32 next = add(x = j, y = one);\n"
           "tensor<fp32, [4]> more_of = add(x = b, y = b);\n"
           "} -> (next, more_of);", "int32 steps, tensor<fp32, [4]> x", "y")


@contextlib.contextmanager
def interrupted():
    """Sends Ctrl-C soon after the block began, which must end it. A minute later the process is killed."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    signal.alarm(60)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            yield
            time.sleep(30)  # the block ended before the signal arrived
            pytest.fail("the signal did not come")
    finally:
        signal.alarm(0)


@pytest.mark.parametrize("device", ["cpu", "sim:m4"])
def test_predict(device):
    program = propane.parse(LOOP, device=device)
    x = np.ones(4, np.float32)
    if device == "cpu":
        with interrupted():
            program.predict({"steps": 2**31 - 1, "x": x})
        assert (program.predict({"steps": 3, "x": x})["y"] == 8).all()
    long = propane.parse(mil("\n".join(f"tensor<fp16, [64, 512]> v{i} = tanh(x = v{i - 1});" for i in range(1, 400)),
                             "tensor<fp16, [64, 512]> v0", "v399"), device=device)
    given = {"v0": np.full((64, 512), 0.5, np.float16)}
    expected = long.predict(given)["v399"]
    with interrupted():
        while True:
            long.predict(given)
    assert (long.predict(given)["v399"] == expected).all()


def test_states_are_as_before_the_run():
    text = LOOP.replace("int32 steps,", "state<tensor<fp32, [4]>> sum, int32 steps,").replace("(zero, x)", "(zero, start)")
    text = text.replace("int32 n,", 'tensor<fp32, [4]> kept = read_state(input = sum)[name = string("kept")];\n'
                        "tensor<fp32, [4]> start = add(x = kept, y = x);\n"
                        'write_state(data = start, input = sum)[name = string("w")];\nint32 n,')
    program = propane.parse(text)
    state, x = program.make_state(), np.ones(4, np.float32)
    assert program.predict({"steps": 0, "x": x}, state=state)["y"][0] == 1
    with interrupted():
        program.predict({"steps": 2**31 - 1, "x": x}, state=state)
    assert program.predict({"steps": 0, "x": x}, state=state)["y"][0] == 2


def test_other_threads_go_on():
    program, made = propane.parse(LOOP), []
    thread = threading.Thread(target=lambda: made.append(program.predict({"steps": 400000, "x": np.zeros(4, np.float32)})["y"]))
    thread.start()
    with interrupted():
        propane.parse(LOOP).predict({"steps": 2**31 - 1, "x": np.ones(4, np.float32)})
    thread.join()
    assert len(made) == 1


def test_generation_and_chat():
    model = propane.Model.from_pretrained(data("tests", "data", "arch_qwen3"))
    prompt = [1, 2, 3]
    expected = model.complete(prompt, count=8, temperature=0).ids
    with interrupted():
        while True:
            for _ in model.generate(prompt, count=20, temperature=0):
                pass
    with interrupted():
        while True:
            model.score(list(range(3, 20)))
    assert model.complete(prompt, count=8, temperature=0).ids == expected


class _At:
    """Raises Ctrl-C at the n-th line or call of the package's text streams, as a signal handler would."""

    def __init__(self, count):
        self.left = count

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != language.__file__:
            return None
        # A signal that arrives while a generator advances becomes the generator's own exception; one from a trace function does not.
        if event == "line" or (event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def _one_by_one(model):
    for _ in model.generate([1, 2, 3], count=3, temperature=0):
        pass


def _some(model):
    for token in model.generate([1, 2, 3], count=20, temperature=0):
        if token.id >= 0:
            break


def _whole(model):
    model.complete([1, 2, 3], count=3, temperature=0)


def _until_printed(model):
    model.complete([1, 2, 3], on_token=lambda token: False, count=20, temperature=0)


@pytest.mark.parametrize("use", [_one_by_one, _some, _whole, _until_printed])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # cannot be caught if a text is dropped
def test_a_text_whose_traceback_is_kept_leaves_its_place(use):
    model = propane.Model.from_pretrained(data("tests", "data", "arch_qwen3"))
    expected, kept, count, came = model.complete([1, 2, 3], count=3, temperature=0).ids, [], 0, True
    while came:
        count += 1
        at = _At(count)
        sys.settrace(at)
        try:
            use(model)
        except KeyboardInterrupt as e:
            kept.append(e)
        finally:
            sys.settrace(None)
        came = at.left == 0
        assert model.complete([1, 2, 3], count=3, temperature=0).ids == expected, f"Ctrl-C at event {count}"
    assert count > 20


def test_a_step_whose_callback_is_interrupted_is_in_the_history(monkeypatch):
    from propane_ml import trainer as module

    keep, calls = module._keep, []

    def interrupted_once(*given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        keep(*given)

    trainer = propane.Trainer(text="the cat sat on the mat. " * 40, kind="chars", layers=1, width=16, heads=2, context=16, batch=2,
                              steps=20, eval_every=0, progress=False)
    monkeypatch.setattr(module, "_keep", interrupted_once)
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    trainer.run(steps=2)
    assert [step.step for step in trainer.history.steps] == [1, 2, 3]


def test_a_trainer_goes_on_as_if_nothing_had_happened():
    words = "the cat sat on the mat. the dog sat on the log. " * 60
    size = dict(text=words, kind="chars", layers=2, width=32, heads=2, context=16, batch=4, accumulate=3, warmup=2, lr=0.01,
                eval_every=0, progress=False)
    trainer = propane.Trainer(steps=100000, **size)
    rounds = 0
    while rounds < 2 or (trainer.step_count == 0 and rounds < 60):  # on a busy machine no step may end before the signal
        with interrupted():
            trainer.run()
        rounds += 1
    done = trainer.step_count
    assert done > 0
    trainer.run(steps=1)
    whole = propane.Trainer(steps=100000, **size)
    whole.run(steps=done + 1)
    assert trainer.history.losses == whole.history.losses
    with interrupted():
        while True:
            trainer.evaluate()
