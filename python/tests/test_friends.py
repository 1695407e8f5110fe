# SPDX-License-Identifier: MIT
"""Other packages use this one as their own documentation shows: transformers, peft, notebooks."""
import os
import sys

import numpy as np
import pytest

import propane_ml as propane


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.2)
    path = tmp_path_factory.mktemp("llama")
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return path


def test_transformers_writes_the_same(folder):
    import torch
    import transformers
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    prompt = [1, 5, 9, 33, 7]
    with torch.no_grad():
        wanted = theirs.generate(torch.tensor([prompt]), max_new_tokens=16, do_sample=False, eos_token_id=None)[0, 5:].tolist()
        logits = torch.log_softmax(theirs(torch.tensor([prompt])).logits[0], -1)
    model = propane.Model.from_pretrained(folder)
    assert list(model.complete(prompt, count=16, temperature=0, ignore_end=True).ids) == wanted
    score = [-logits[i, prompt[i + 1]].item() for i in range(4)]
    np.testing.assert_allclose(model.score(prompt), score, atol=2e-5)  # 5e-6 observed


def test_what_is_saved_opens_in_transformers(folder, tmp_path):
    import torch
    import transformers
    propane.Model.from_pretrained(folder).save(tmp_path / "again")
    one, two = (transformers.AutoModelForCausalLM.from_pretrained(p) for p in (folder, tmp_path / "again"))
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name


def test_adapters_of_peft(folder, tmp_path):
    peft = pytest.importorskip("peft")
    import torch
    import transformers
    torch.manual_seed(3)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder)
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    adapted.save_pretrained(tmp_path / "adapter")
    prompt = [1, 5, 9, 33, 7]
    with torch.no_grad():
        logits = torch.log_softmax(adapted(torch.tensor([prompt])).logits[0], -1)
    model = propane.Model.from_pretrained(folder, adapter=tmp_path / "adapter")
    np.testing.assert_allclose(model.score(prompt), [-logits[i, prompt[i + 1]].item() for i in range(4)], atol=2e-5)


def test_a_notebook():
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    make = nbformat.v4
    notebook = make.new_notebook(cells=[make.new_code_cell(source) for source in (
        "import numpy as np, propane_ml as propane\n"
        "from conftest import unary\n"
        "program = propane.parse(unary('relu', 'fp16'))\nprogram",
        "program.check('m1,m4')", "program.estimate('m4')", "program.diff()",
        "trainer = propane.Trainer(text='the cat sat on the mat. ' * 60, kind='chars', steps=5, layers=1, width=16, heads=2,\n"
        "                          context=16, batch=2, warmup=1)\ntrainer.run()")])
    here = os.path.dirname(os.path.abspath(__file__))
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "python3"}
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([here] + [p for p in sys.path if p])
    try:
        client.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": here}}).execute()
    finally:
        os.environ["PYTHONPATH"] = before
    shown = [cell.outputs[-1].data.get("text/html", "") for cell in notebook.cells]
    assert all("<table>" in html for html in shown[:4]) and "<svg" in shown[4]
