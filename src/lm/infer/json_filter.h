/* SPDX-License-Identifier: MIT
 * Keeps what a model writes to one JSON object that ends within the ids that are left: of each id's scores only those
 * stay whose bytes may come next.
 */
#ifndef LM_INFER_JSON_FILTER_H
#define LM_INFER_JSON_FILTER_H

#include "lm/infer/json_text.h"
#include "lm/text/tokenizer.h"

typedef struct json_filter {
    const tokenizer *tokenizer;
    json_text state;
} json_filter;

/* Lowers to -infinity what may not come; `left`: ids that may be drawn, this one included. At least one id that ends
 * the text in time is kept where the vocabulary has one: single bytes suffice. False: no id may come. */
bool json_filter_mask(const json_filter *f, float *logits, int vocab, int64_t left);
void json_filter_take(json_filter *f, int32_t id);
bool json_filter_is_done(const json_filter *f);

#endif
