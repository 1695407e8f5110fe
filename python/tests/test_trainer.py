# SPDX-License-Identifier: MIT
"""Training from text, ids, examples and arrays in memory; callbacks, Ctrl-C, single steps, and the trained weights."""
import signal

import numpy as np
import pytest
from conftest import data, mil, refused

import propane_ml as propane

WORDS = "the cat sat on the mat. the dog sat on the log. " * 60
SMALL = dict(kind="chars", layers=1, width=16, heads=2, context=16, batch=4, warmup=2, lr=0.01, progress=False)


def test_a_text_is_trained_and_written():
    with propane.Trainer(text=WORDS, steps=30, **SMALL) as trainer:
        history = trainer.run()
        assert len(history.losses) == 30 == trainer.step_count and history.losses[-1] < history.losses[0] - 0.5
        assert "<svg" in history._repr_html_() and "30 steps" in repr(history) and trainer.unit == "tokens"
        assert trainer.evaluate().loss < history.losses[0] and trainer.option("lr") == "0.01"
        assert set(trainer.model().complete("the ", count=10).text) <= set(WORDS)
        assert isinstance(trainer.facts(), dict)


def test_steps_are_the_runs(tmp_path):
    tokenizer = propane.Tokenizer.train(WORDS, kind="chars")
    once = propane.Trainer(text=WORDS, tokenizer=tokenizer, steps=6, **SMALL).run().losses
    trainer = propane.Trainer(ids=tokenizer.encode(WORDS), tokenizer=tokenizer, steps=6, **SMALL)
    assert [step.loss for step in trainer] == once
    with refused("invalid", "steps"):
        trainer.step()
    trainer.write(tmp_path / "m.safetensors")


def test_callbacks_and_ctrl_c(tmp_path):
    class Tell(propane.Callbacks):
        def __init__(self, at, do):
            self.seen, self.at, self.do = [], at, do

        def on_step(self, step):
            self.seen.append(step.step)
            if step.step == self.at:
                self.do()

        def on_checkpoint(self, step, path):
            self.seen.append(path)

    def fail():
        raise KeyError("mine")
    for do, kind in ((fail, KeyError), (lambda: signal.raise_signal(signal.SIGINT), KeyboardInterrupt)):
        tell = Tell(3, do)
        trainer = propane.Trainer(text=WORDS, steps=8, callbacks=[tell], run=tmp_path / kind.__name__, **SMALL)
        with pytest.raises(kind):
            trainer.run()
        assert trainer.step_count in (3, 4) and any(isinstance(s, str) for s in tell.seen)
        assert len(trainer.run().losses) == 8
        trainer.close()


def test_two_threads():
    import threading
    trainer = propane.Trainer(text=WORDS, steps=40, **SMALL)
    said = []

    def go():
        try:
            trainer.run()
        except propane.PropaneError as error:
            said.append(str(error))
    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trainer.step_count == 40 and all("in use by another call" in words for words in said)


def test_examples_and_adapters():
    tokenizer = propane.Tokenizer.train("User: Assistant: \nabcdefghijklmnopqrstuvwxyz.", kind="chars")
    pairs = [{"prompt": "abc", "completion": "def"}, {"prompt": "xyz", "completion": "uvw"}] * 8
    trainer = propane.Trainer(data("tests", "data", "arch_qwen3"), examples=pairs, tokenizer=tokenizer, lora=2, steps=12, context=32,
                              batch=2, lr=0.05, warmup=1, held_out=0, eval_every=0, progress=False)
    losses = trainer.run().losses
    assert losses[-1] < losses[0] and trainer.parameters < 2000
    with refused("not found", "no-such"):
        propane.Trainer(text=WORDS, no_such=1)
    with refused("invalid", "one of data, text"):
        propane.Trainer(text=WORDS, ids=[1])


def test_a_program_learns_its_weights():
    body = 'tensor<fp32, [1, 3]> w = const()[name = string("w"), val = tensor<fp32, [1, 3]>([[0.1, 0.2, 0.3]])];\n'
    program = propane.parse(mil(body + 'tensor<fp32, [1]> b = const()[name = string("b"), val = tensor<fp32, [1]>([0.0])];\n'
                                'tensor<fp32, [1, 1]> y = linear(x = x, weight = w, bias = b)[name = string("y")];',
                                "tensor<fp32, [1, 3]> x", "y"))
    x = np.random.default_rng(1).standard_normal((64, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2], [0.5]], np.float32)
    better = program.finetune({"x": x, "y": y}, loss="mse", trainable="*", lr=0.05, epochs=20, batch=8, progress=False)
    made = better.predict({"x": x[:1]})["y"]
    assert abs(float(made[0, 0] - y[0, 0])) < 0.3 * abs(float(program.predict({"x": x[:1]})["y"][0, 0] - y[0, 0])) + 0.1
    assert len(propane.options("program")) > 20 and "lora_rank" in propane.options().column("option")


def test_a_new_model_learns_examples_from_memory():
    tokenizer = propane.Tokenizer.train("User: Assistant: \nabcdefghijklmnopqrstuvwxyz.", kind="chars")
    trainer = propane.Trainer(examples=[{"prompt": "abc", "completion": "def"}] * 20, tokenizer=tokenizer, steps=3, layers=1, width=16,
                              heads=2, batch=2, context=16, held_out=0, eval_every=0, progress=False)
    assert len(trainer.run().losses) == 3


def test_weights_come_out_and_go_in_and_a_run_goes_on():
    once = propane.Trainer(text=WORDS, steps=7, **SMALL).run().losses
    trainer = propane.Trainer(text=WORDS, steps=7, **SMALL)
    for steps in (3, 2, None):
        trainer.run(steps)
    assert trainer.history.losses == once
    weights, other = trainer.weights(), propane.Trainer(text=WORDS, steps=7, **SMALL)
    assert sum(w.size for w in weights.values()) == trainer.parameters and all(w.dtype == np.float32 for w in weights.values())
    other.set_weights(weights)
    assert other.evaluate().loss == trainer.evaluate().loss
    name = list(weights)[1]
    other.set_weights({name: weights[name].astype(np.float16)})
    bad = weights[name].copy()
    bad.flat[5] = np.nan
    for given, status, sentence in (({name: bad}, "invalid", f"{name}: element 5 is"), ({"x": bad}, "not found", "no tensor 'x'"),
                                    ({name: bad[..., :-1]}, "invalid", "this run trains one of")):
        with refused(status, sentence):
            other.set_weights(given)
    with refused("invalid", "steps is 0"):
        other.run(0)


def test_weights_of_adapters_and_programs(tmp_path):
    tokenizer = propane.Tokenizer.train("User: Assistant: \nabcdefghijklmnopqrstuvwxyz.", kind="chars")
    lora = propane.Trainer(data("tests", "data", "arch_qwen3"), examples=[{"prompt": "abc", "completion": "def"}] * 8,
                           tokenizer=tokenizer, lora=2, steps=2, context=32, batch=2, held_out=0, eval_every=0, progress=False)
    weights = lora.weights()
    assert all("lora_" in name for name in weights) and sum(w.size for w in weights.values()) == lora.parameters
    lora.set_weights({name: w + 0.5 for name, w in weights.items()})
    assert all((lora.weights()[name] == w + 0.5).all() for name, w in weights.items())
    program = propane.parse(mil('tensor<fp32, [1, 3]> w = const()[name = string("w"), val = tensor<fp32, [1, 3]>([[1, 2, 3]])];\n'
                                'tensor<fp32, [1]> b = const()[name = string("b"), val = tensor<fp32, [1]>([0.0])];\n'
                                'tensor<fp32, [1, 1]> y = linear(x = x, weight = w, bias = b)[name = string("y")];',
                                "tensor<fp32, [1, 3]> x", "y"))
    x = np.ones((8, 3), np.float32)
    trainer = propane.Trainer(program, {"x": x, "y": x[:, :1]}, loss="mse", trainable="w", steps=4, progress=False)
    assert {n: w.tolist() for n, w in trainer.weights().items()} == {"w": [[1.0, 2.0, 3.0]]}
    trainer.set_weights({"w": np.array([[1.0, 1, 1]])})
    assert float(trainer.program().predict({"x": x[:1]})["y"][0, 0]) == 3
    assert len(trainer.run(1).losses) == 1
