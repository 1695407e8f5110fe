/* SPDX-License-Identifier: MIT
 * Instruction data: one JSON object a line, each an example with the tokens that are to be learnt marked.
 *
 *     {"prompt": "2+2=", "completion": "4"}            as they stand, one after the other; learnt: the completion
 *     {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
 *                                                      in the model's chat format; learnt: the assistant's answers
 *     {"text": "Once upon a time"}                     learnt: everything
 *
 *     {"prompt": "2+2=", "chosen": "4", "rejected": "5"}
 *                                                      a pair for --method dpo, two examples; messages may stand for texts
 *     ShareGPT's and Alpaca's keys are read as messages (lm/data/example_keys.h)
 *
 * A .csv or .tsv file has the same keys as columns; a .json file is an array of such objects.
 * A prompt or text begins with the tokenizer's bos and ends with its eos, where it has them. Other keys are left alone.
 */
#ifndef LM_DATA_JSONL_H
#define LM_DATA_JSONL_H

#include "lm/text/chat.h"

typedef struct train_examples {
    int64_t count;
    int64_t *start; /* [count + 1]: example i is ids[start[i]] .. ids[start[i + 1] - 1] */
    int32_t *ids;
    uint8_t *learn;     /* beside ids: 1 where the token is a target */
    int64_t learnt;     /* tokens that are */
    bool pairs;         /* examples 2k and 2k + 1 are a chosen and a rejected answer */
    int64_t text_bytes; /* of what was encoded */
    int64_t ids_room;
} train_examples;

/* Whether a file's name says that it holds such lines (".jsonl", ".csv", ".tsv"), or it is a .json file with an
 * array. */
bool train_jsonl_is(const char *path);
/* A line that is not such an object, an example without anything to learn, an unknown role: PROPANE_ERR_INVALID with
 * "PATH:LINE: ". Empty lines are skipped; a file without an example is an error. */
PROPANE_CHECK propane_status train_jsonl_read(const char *path, const tokenizer *t, const chat_template *chat,
                                              train_examples *out, propane_error *err);
PROPANE_CHECK propane_status train_jsonl_parse(const char *data, size_t length, const char *source, const tokenizer *t,
                                               const chat_template *chat, train_examples *out, propane_error *err);
/* Appends to *out, which an error leaves as it is, to be freed. */
PROPANE_CHECK propane_status train_jsonl_append(const char *path, const tokenizer *t, const chat_template *chat,
                                                train_examples *out, propane_error *err);
void train_examples_deinit(train_examples *e);
/* The same for the same ids and marks; other for other ones. */
uint64_t train_examples_sum(const train_examples *e);

#endif
