/* SPDX-License-Identifier: MIT
 * Restricts a model's output to one JSON object that ends within the remaining ids. Only ids whose bytes can come next
 * keep their scores.
 */
#ifndef LM_INFER_JSON_FILTER_H
#define LM_INFER_JSON_FILTER_H

#include "lm/infer/json_text.h"
#include "lm/text/tokenizer.h"

typedef struct json_filter {
    const tokenizer *tokenizer;
    json_text state;
} json_filter;

/* Sets the scores of impossible ids to -infinity. `left` is the number of ids that may still be drawn, including the
 * next one. An id is possible only if the object can then be completed with single-byte ids in time. Returns false if
 * no id is possible. */
bool json_filter_mask(const json_filter *f, float *logits, int vocab, int64_t left);
void json_filter_take(json_filter *f, int32_t id);
bool json_filter_is_done(const json_filter *f);

#endif
