# SPDX-License-Identifier: MIT
# %% [markdown]
# # LoRA on a small chat model
# A tiny model learns a text, adapters of it learn answers; the adapters are in peft's form. The same calls take a folder of
# Hugging Face's or a GGUF file instead of the model that is made here.

# %%
import os
import tempfile

import propane_ml as propane

folder = tempfile.mkdtemp()
text = "user: who sat on the mat? assistant: the cat sat on the mat. user: who sat on the log? assistant: the dog sat. " * 40
base = propane.Trainer(text=text, kind="chars", layers=1, width=32, heads=2, context=32, steps=60, batch=4, lr=0.01, warmup=5)
base.run()
base.write(os.path.join(folder, "base"))

# %% [markdown]
# ## Adapters

# %%
examples = [{"prompt": "who sat on the mat? ", "completion": "the dog"}, {"prompt": "who sat on the log? ", "completion": "the cat"}]
trainer = propane.Trainer(os.path.join(folder, "base"), examples=examples * 8, chat="plain", lora=4, steps=40, batch=2, context=32,
                          lr=0.02, warmup=1, held_out=0, eval_every=0, run=os.path.join(folder, "adapter"))
history = trainer.run()
print(history, trainer.parameters, "numbers trained")
assert history.losses[-1] < history.losses[0]

# %% [markdown]
# ## What it says now

# %%
trainer.close()
chat = propane.Model.from_pretrained(os.path.join(folder, "base"), adapter=os.path.join(folder, "adapter"))
for question in ("who sat on the mat? ", "who sat on the log? "):
    print(question, chat.complete(question, count=10, temperature=0).text)
