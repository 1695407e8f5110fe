#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares --method dpo with trl's DPOTrainer: a Llama model with random weights makes ten steps over the same pairs in the
same order, and all weights are trained. Compares the loss of each step, and the weights afterwards.

    python3 tools/dpo_check.py [PROPANE]        (exit 1: different; 77: a package is missing)
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
program = os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else os.path.join(ROOT, "build", "release", "propane")
if not os.path.exists(program):
    print(f"dpo_check: {program} is not built: run make")
    sys.exit(77)
try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch
    from datasets import Dataset
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast
    from trl import DPOConfig, DPOTrainer
except ImportError as missing:
    print(f"dpo_check: {missing}")
    sys.exit(77)

STEPS, CONTEXT, LR, BETA = 10, 32, 1e-3, 0.3
WORDS = ["north", "south", "east", "west", "red", "green", "blue", "warm", "cold", "dry"]


def run(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        print(f"dpo_check: propane {' '.join(arguments)}: {done.stderr}")
        sys.exit(1)
    return done.stdout


def losses_of(text):
    return [row["loss"] for row in map(json.loads, text.splitlines()) if "loss" in row and "step" in row]


class Recorded(DPOTrainer):
    """Records the loss of each batch. The learning rate follows the schedule, and the order is that of the file."""
    seen = None

    def compute_loss(self, *arguments, **named):
        out = super().compute_loss(*arguments, **named)
        if self.model.training:
            self.seen.append(float(out[0] if isinstance(out, tuple) else out))
        return out

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        own = Tokenizer(models.BPE())
        own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        own.decoder = decoders.ByteLevel()
        own.train_from_iterator([" ".join(WORDS)] * 3, trainers.BpeTrainer(
            vocab_size=300, special_tokens=["<eos>", "<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=own, eos_token="<eos>", pad_token="<pad>")
        tokenizer.save_pretrained("base")
        torch.manual_seed(7)
        config = LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, vocab_size=len(tokenizer), max_position_embeddings=64,
                             eos_token_id=tokenizer.eos_token_id, bos_token_id=None, initializer_range=0.2)
        AutoModelForCausalLM.from_config(config).save_pretrained("base")
        # Every batch is the same pair, so the order does not matter.
        pair = {"prompt": "north south ", "chosen": "east blue", "rejected": "cold dry red"}
        with open("pairs.jsonl", "w") as out:
            out.write((json.dumps(pair) + "\n") * 4)
        mine = losses_of(run("train", "--init", "base", "--data", "pairs.jsonl", "--method", "dpo", "--beta", str(BETA), "--batch",
                             "2", "--context", str(CONTEXT), "--steps", str(STEPS), "--lr", str(LR), "--min-lr", str(LR),
                             "--warmup", "0", "--schedule", "constant", "--weight-decay", "0", "--clip", "0", "--held-out", "0",
                             "--eval-every", "0", "--run", "mine", "--json"))
        model = AutoModelForCausalLM.from_pretrained("base", dtype=torch.float32)
        options = DPOConfig(output_dir="theirs", beta=BETA, max_steps=STEPS, per_device_train_batch_size=1, learning_rate=LR,
                            lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.0, max_grad_norm=0.0, adam_beta1=0.9,
                            adam_beta2=0.95, adam_epsilon=1e-8, report_to=[], logging_strategy="no", save_strategy="no",
                            use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False, seed=1)
        Recorded.seen = []
        trainer = Recorded(model=model, args=options, train_dataset=Dataset.from_list([pair] * STEPS),
                           processing_class=tokenizer)
        trainer.train()
        theirs = Recorded.seen
        if len(mine) != STEPS or len(theirs) < STEPS:
            print(f"dpo_check: {len(mine)} and {len(theirs)} losses, not {STEPS}")
            return 1
        worst = max(abs(a - b) for a, b in zip(mine, theirs))
        print("propane:", " ".join(f"{x:.6f}" for x in mine))
        print("trl:    ", " ".join(f"{x:.6f}" for x in theirs))
        print(f"dpo_check: losses of {STEPS} steps differ by at most {worst:.2g}")
        return worst > 1e-4


if __name__ == "__main__":
    sys.exit(main())
