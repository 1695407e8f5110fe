/* SPDX-License-Identifier: MIT
 * Owns the windows of a token array and the access to those of packed examples. Their order in an epoch is a keyed
 * permutation that needs no memory (rng_shuffled).
 */
#include "lm/data/token_windows.h"

#include <assert.h>

#include "core/base/rng.h"

static int64_t token_at(const token_windows *d, int64_t index) {
    if (d->token_bytes == 2) return ((const uint16_t *)d->tokens)[index];
    return ((const uint32_t *)d->tokens)[index];
}

static propane_status token_windows_too_few(const char *source, int64_t held, int context, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: a window needs %d tokens, but %lld %s held out; hold out more, or give more text", source,
                        context + 1, (long long)held, held == 1 ? "is" : "are");
}

propane_status token_windows_init(token_windows *d, const void *tokens, int token_bytes, int64_t count, int vocab,
                                  int context, double held_out, uint64_t seed, const char *source, propane_error *err) {
    if (!(held_out >= 0 && held_out <= 0.5))
        return propane_fail(err, PROPANE_ERR_INVALID, "the held-out part is %g; it must be 0 to 0.5 of the text",
                            held_out);
    const int64_t held = (int64_t)((double)count * held_out);
    PROPANE_TRY(
        token_windows_init_split(d, tokens, token_bytes, count, count - held, vocab, context, seed, source, err));
    if (held_out <= 0 || held > 0) return PROPANE_OK;
    return token_windows_too_few(source, held, context, err);
}

propane_status token_windows_init_split(token_windows *d, const void *tokens, int token_bytes, int64_t count,
                                        int64_t train_count, int vocab, int context, uint64_t seed, const char *source,
                                        propane_error *err) {
    const int64_t held = count - train_count;
    assert(token_bytes == 2 || token_bytes == 4);
    *d = (token_windows){.tokens = tokens,
                         .token_bytes = token_bytes,
                         .train_count = train_count,
                         .count = count,
                         .vocab = vocab,
                         .context = context,
                         .seed = seed};
    if (d->train_count < context + 1)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: only %lld tokens to train on, but a window needs %d; give more text or a smaller context", source,
            (long long)d->train_count, context + 1);
    return held > 0 && held < context + 1 ? token_windows_too_few(source, held, context, err) : PROPANE_OK;
}

propane_status token_windows_init_examples(token_windows *d, const train_examples *e, int vocab, int context, bool pack,
                                           double held_out, uint64_t seed, const char *source, propane_error *err) {
    int64_t held = (int64_t)((double)e->count * held_out);
    if (e->pairs) held -= held % 2;
    return token_windows_init_examples_split(d, e, e->count - held, vocab, context, pack, held_out > 0, seed, source,
                                             err);
}

propane_status token_windows_init_examples_split(token_windows *d, const train_examples *e, int64_t train, int vocab,
                                                 int context, bool pack, bool held_out, uint64_t seed,
                                                 const char *source, propane_error *err) {
    const int64_t held = e->count - train;
    *d = (token_windows){.token_bytes = 4, .vocab = vocab, .context = context, .seed = seed};
    for (int64_t i = 0; i < e->start[e->count]; i++)
        if (e->ids[i] < 0 || e->ids[i] >= vocab)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: token %lld is outside the model's vocabulary of %d",
                                source, (long long)e->ids[i], vocab);
    PROPANE_TRY(packed_windows_init(&d->packs[0], e, 0, train, context, pack, seed, err));
    propane_status status = packed_windows_init(&d->packs[1], e, train, e->count, context, pack, seed, err);
    for (int i = 0; i < 2 && status == PROPANE_OK; i++)
        if (d->packs[i].windows == 0 && (i == 0 || held_out))
            status =
                propane_fail(err, PROPANE_ERR_INVALID,
                             "%s: of its %lld examples, %lld are %s, and none of these has anything to train on within "
                             "a context of %d; give more examples, a larger --context%s",
                             source, (long long)e->count, (long long)(i ? held : train), i ? "held out" : "to train on",
                             context, i ? " or --held-out 0 with --eval-every 0" : "");
    if (status != PROPANE_OK) token_windows_deinit(d);
    return status;
}

void token_windows_deinit(token_windows *d) {
    for (int i = 0; i < 2; i++) packed_windows_deinit(&d->packs[i]);
}

uint64_t token_windows_sum(const void *tokens, int token_bytes, int64_t count) {
    const token_windows d = {.tokens = tokens, .token_bytes = token_bytes};
    uint64_t sum = (uint64_t)count;
    for (int64_t i = 0; i < count; i++) {
        sum = (sum ^ (uint64_t)token_at(&d, i)) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 32;
    }
    return sum;
}

static propane_status token_windows_copy_window(const token_windows *d, int64_t start, int32_t *inputs,
                                                int32_t *targets, propane_error *err) {
    for (int i = 0; i <= d->context; i++) {
        int64_t token = token_at(d, start + i);
        if (token >= d->vocab)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "token %lld of the data is %lld, outside the model's vocabulary of %d",
                                (long long)(start + i), (long long)token, d->vocab);
        if (i < d->context) inputs[i] = (int32_t)token;
        if (i > 0) targets[i - 1] = (int32_t)token;
    }
    return PROPANE_OK;
}

static propane_status token_windows_packed_batch(const token_windows *d, uint64_t position, int batch, int32_t *inputs,
                                                 int32_t *targets) {
    for (int b = 0; b < batch; b++)
        packed_windows_get(&d->packs[0], packed_windows_shuffled(&d->packs[0], d->seed, position + (uint64_t)b),
                           inputs + (int64_t)b * d->context, targets + (int64_t)b * d->context);
    return PROPANE_OK;
}

int64_t token_windows_count(const token_windows *d) {
    if (!d->tokens) return d->packs[0].windows;
    const int64_t windows = (d->train_count - 1) / d->context, spare = d->train_count - 1 - windows * d->context;
    return windows > 1 && spare < d->context / 2 ? windows - 1 : windows;
}

propane_status token_windows_batch(const token_windows *d, uint64_t position, int batch, int32_t *inputs,
                                   int32_t *targets, propane_error *err) {
    if (!d->tokens) return token_windows_packed_batch(d, position, batch, inputs, targets);
    /* every epoch has the same number of windows, so that the position determines the epoch; if there is room, one
     * context is left free for the phase */
    const int64_t windows = token_windows_count(d), spare = d->train_count - 1 - windows * d->context;
    for (int b = 0; b < batch; b++) {
        uint64_t n = position + (uint64_t)b, epoch = n / (uint64_t)windows;
        int64_t phase = (int64_t)(rng_mix(rng_epoch_key(d->seed, epoch)) % (uint64_t)(spare + 1));
        int64_t window = rng_shuffled(d->seed, n, windows);
        PROPANE_TRY(token_windows_copy_window(d, phase + window * d->context, inputs + (int64_t)b * d->context,
                                              targets + (int64_t)b * d->context, err));
    }
    return PROPANE_OK;
}

int64_t token_windows_held_out_windows(const token_windows *d) {
    int64_t held = d->count - d->train_count;
    if (!d->tokens) return d->packs[1].windows;
    return held > d->context ? (held - 1) / d->context : 0;
}

propane_status token_windows_held_out(const token_windows *d, int64_t index, int64_t windows, int32_t *inputs,
                                      int32_t *targets, propane_error *err) {
    if (d->packs[1].windows > 0) {
        packed_windows_get(&d->packs[1], packed_windows_evenly(&d->packs[1], index, windows), inputs, targets);
        return PROPANE_OK;
    }
    int64_t free_tokens = d->count - d->train_count - d->context - 1;
    if (free_tokens < 0) return propane_fail(err, PROPANE_ERR_INVALID, "none of the data is held out");
    int64_t start = windows > 1 ? (int64_t)((double)free_tokens * (double)index / (double)(windows - 1)) : 0;
    return token_windows_copy_window(d, d->train_count + start, inputs, targets, err);
}
