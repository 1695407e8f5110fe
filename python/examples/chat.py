# SPDX-License-Identifier: MIT
"""Chats with a language model: python chat.py FOLDER-OR-GGUF ["a question"]. Without a model, it uses the tiny one from the
tests."""
import os
import sys

import propane_ml as propane

TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "data", "arch_qwen3")


def main() -> int:
    if len(sys.argv) > 1:
        model = propane.Model.from_pretrained(sys.argv[1])
    elif os.path.isdir(TINY):
        model = propane.Model.from_pretrained(TINY, tokenizer=propane.Tokenizer.train("User: Assistant: \nabcdefghijklmnopqrstuvwxyz.", kind="chars"))
    else:
        print("there is no model: give one")
        return 77
    question = sys.argv[2] if len(sys.argv) > 2 else "hi"
    text = model.chat_stream([{"role": "user", "content": question}], count=40, temperature=0)
    for token in text:
        print(token, end="", flush=True)
    print(f"\n{len(text.result.ids)} ids after a prompt of {text.result.prompt_count}; it ended by: {text.result.finish}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
