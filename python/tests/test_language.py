# SPDX-License-Identifier: MIT
"""Language models: text as a stream, ids, scores, Ctrl-C and exceptions during generation, several texts at once."""
import signal

import numpy as np
import pytest
from conftest import data, refused

import propane_ml as propane


@pytest.fixture(scope="module")
def model():
    letters = propane.Tokenizer.train("abcdefghijklmnopqrstuvwxyz .", kind="chars")
    return propane.Model.from_pretrained(data("tests", "data", "arch_qwen3"), tokenizer=letters, parallel=2)


def test_tokenizer(tmp_path):
    tokenizer = propane.Tokenizer.train("the cat sat on the mat, the cat sat. " * 20, size=270)
    ids = tokenizer.encode("the cat ä")
    assert tokenizer.decode(ids) == "the cat ä" and len(ids) < 10 and len(tokenizer) <= 270
    tokenizer.save(tmp_path / "t")
    again = propane.Tokenizer.open(tmp_path / "t")
    assert again.hash == tokenizer.hash and again.encode("the cat ä") == ids and tokenizer.encode("") == []
    with refused("not found", "no/such"):
        propane.Tokenizer.open("/no/such")


def test_generate_is_an_iterator(model):
    text = model.generate("once", count=12, temperature=0)
    tokens = list(text)
    assert "".join(map(str, tokens)) == text.result.text and text.result.finish in ("length", "end")
    assert [t.id for t in tokens if t.id >= 0] == list(text.result.ids) and text.closed
    assert model.complete("once", count=12, temperature=0).ids == text.result.ids
    assert model.complete(model.tokenizer.encode("once"), count=12, temperature=0).ids == text.result.ids
    assert f"{tokens[0]}" == tokens[0].text


def test_two_texts_at_once(model):
    alone = [model.complete(p, count=8, seed=3).ids for p in ("ab", "xyz")]
    one, two = model.generate("ab", count=8, seed=3), model.generate("xyz", count=8, seed=3)
    with refused("limit", "parallel is 2"):
        model.generate("c")
    with refused("invalid", "a text is still being generated"):
        model.score("abc")
    for _ in zip(one, two):
        pass
    assert [tuple(t for t in one.result.ids), tuple(t for t in two.result.ids)][0] == alone[0]
    one.close()
    two.close()
    model.generate("dropped")
    assert model.score("abc").shape == (2,)
    one, two = model.embed("abc"), model.embed(list(model.tokenizer.encode("abc")))
    assert one.shape == (model.width,) and abs(float(one @ one) - 1) < 1e-5 and abs(one - two).max() < 1e-6
    with refused("invalid", "nothing to embed"):
        model.embed([])


def test_probabilities(model):
    text = model.generate([1, 2, 3], count=3, temperature=0, logprobs=2)
    tokens = list(text)
    score = model.score([1, 2, 3] + list(text.result.ids))
    np.testing.assert_allclose([-t.logprob for t in tokens if t.id >= 0], score[2:], atol=2e-6)
    assert all(len(t.top) == 2 and t.top[0][1] >= t.top[1][1] for t in tokens if t.id >= 0)
    with refused("invalid", "a score needs at least two"):
        model.score([1])
    with refused("invalid", "there is no option 'temprature'; available: count"):
        model.complete("a", temprature=1)


def test_callers_end_a_text(model):
    seen = []
    assert model.complete("a", lambda t: seen.append(t) or len(seen) < 3, count=20).finish == "cancelled" and len(seen) == 3

    def fail(token):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        model.complete("a", fail)
    with pytest.raises(KeyboardInterrupt):
        model.complete("a", lambda t: signal.raise_signal(signal.SIGINT), count=20)
    assert len(model.complete("a", count=2).ids) == 2


def test_chat():
    words = "User: Assistant: hi\n abcdefghijklmno"
    model = propane.Model.from_pretrained(data("tests", "data", "arch_qwen3"),
                                          tokenizer=propane.Tokenizer.train(words, kind="chars"))
    answer = model.chat([{"role": "user", "content": "hi"}], count=6, temperature=0)
    assert answer.prompt_count > 2 and answer.finish in ("length", "end", "stop")
    streamed = model.chat_stream([{"role": "user", "content": "hi"}], count=6, temperature=0)
    assert "".join(map(str, streamed)) == answer.text
    with refused("not found", "no_such_format"):
        model.chat([{"role": "user", "content": "hi"}], format="no_such_format")


def test_forms(model, tmp_path):
    for name in ("m.safetensors", "folder", "m.gguf"):
        model.save(tmp_path / name)
    again = propane.Model.from_pretrained(tmp_path / "folder")
    assert again.tokenizer is not None and again.complete("ab", count=5, temperature=0).text == \
        model.complete("ab", count=5, temperature=0).text
    program = model.export(wide=True, stateless=4)
    assert program.inputs and program.outputs
    with refused("not found", "no/such"):
        propane.Model.from_pretrained("/no/such")
