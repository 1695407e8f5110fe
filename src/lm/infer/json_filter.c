/* SPDX-License-Identifier: MIT
 * Owns the test of which ids can continue a JSON text.
 */
#include "lm/infer/json_filter.h"

#include <math.h>

static bool json_filter_allows(const json_filter *f, int32_t id, int64_t left) {
    size_t length = 0;
    const char *piece = tokenizer_piece(f->tokenizer, id, &length);
    json_text s = f->state;
    return length && json_text_take_all(&s, piece, length) && json_text_left(&s) < left;
}

bool json_filter_mask(const json_filter *f, float *logits, int vocab, int64_t left) {
    bool any = false;
    for (int32_t id = 0; id < vocab; id++) {
        const bool allowed = json_filter_allows(f, id, left);
        if (!allowed) logits[id] = -INFINITY;
        any |= allowed && logits[id] > -INFINITY;
    }
    return any;
}

void json_filter_take(json_filter *f, int32_t id) {
    size_t length = 0;
    const char *piece = tokenizer_piece(f->tokenizer, id, &length);
    (void)json_text_take_all(&f->state, piece, length);
}

bool json_filter_is_done(const json_filter *f) { return json_text_is_done(&f->state); }
