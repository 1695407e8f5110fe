/* SPDX-License-Identifier: MIT
 * Instruction data. Each line is a JSON object and gives an example in which the tokens to train on are marked.
 *
 *     {"prompt": "2+2=", "completion": "4"}            both unchanged, one after the other; trained: the completion
 *     {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
 *                                                      in the model's chat format; trained: the assistant's answers
 *     {"text": "Once upon a time"}                     trained: everything
 *
 *     {"prompt": "2+2=", "chosen": "4", "rejected": "5"}
 *                                                      a pair for --method dpo, two examples; may be messages instead of texts
 *     ShareGPT's and Alpaca's keys are read as messages (lm/data/example_keys.h)
 *
 * A .csv or .tsv file has these keys as columns; a .json file is an array of such objects. An example without a chat
 * format begins with the tokenizer's bos and ends with its eos, if the tokenizer has them. Other keys are ignored.
 */
#ifndef LM_DATA_JSONL_H
#define LM_DATA_JSONL_H

#include "lm/text/chat.h"

typedef struct train_examples {
    int64_t count;
    int64_t *start; /* [count + 1]: example i is ids[start[i]] .. ids[start[i + 1] - 1] */
    int32_t *ids;
    uint8_t *learn;     /* for each element of ids: 1 if the token is a target */
    int64_t trained;    /* number of target tokens */
    bool pairs;         /* examples 2k and 2k + 1 are a chosen and a rejected answer */
    int64_t text_bytes; /* size of the encoded text */
    int64_t ids_room;
} train_examples;

/* Returns whether a file is instruction data: by its name (".jsonl", ".csv", ".tsv"), or because it is a .json file
 * with an array. */
bool train_jsonl_is(const char *path);
/* Reads a file. Returns PROPANE_ERR_INVALID with the line's number for a line that is not such an object, an example
 * without a target, or an unknown role, and also for a file without examples. Empty lines are skipped. */
PROPANE_CHECK propane_status train_jsonl_read(const char *path, const tokenizer *t, const chat_template *chat,
                                              train_examples *out, propane_error *err);
PROPANE_CHECK propane_status train_jsonl_parse(const char *data, size_t length, const char *source, const tokenizer *t,
                                               const chat_template *chat, train_examples *out, propane_error *err);
/* Appends a file's examples to *out. After an error, *out may hold the examples before the error, and the caller must
 * still free it. */
PROPANE_CHECK propane_status train_jsonl_append(const char *path, const tokenizer *t, const chat_template *chat,
                                                train_examples *out, propane_error *err);
void train_examples_deinit(train_examples *e);
/* Returns a checksum of the ids and marks. */
uint64_t train_examples_sum(const train_examples *e);

#endif
