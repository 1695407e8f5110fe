/* SPDX-License-Identifier: MIT
 * Owns weights in the form of their file: their layout in one block, their conversion, and the fp32 masters made from
 * them.
 */
#include "lm/arch/stored_weights.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/base/fork.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "core/base/pool.h"

enum { ALIGN = 64 };

propane_status stored_weights_reserve(model_weights *w, propane_error *err) {
    int64_t bytes = 0, scales;
    for (int i = 0; i < w->count; i++) {
        model_tensor *t = &w->tensors[i];
        t->place = bytes;
        bytes += round_up(model_packing_bytes(t->form, t->count, &scales), ALIGN);
        t->scales = bytes;
        bytes += round_up(scales, ALIGN);
    }
    w->stored_bytes = (size_t)bytes;
    w->stored = mem_pages_alloc(w->stored_bytes);
    return w->stored ? PROPANE_OK : propane_fail_memory(err, w->stored_bytes);
}

void *stored_weights_at(const model_weights *w, const model_tensor *t, uint16_t **scales) {
    int64_t scale_bytes;
    (void)model_packing_bytes(t->form, t->count, &scale_bytes);
    if (scales) *scales = scale_bytes ? (uint16_t *)(void *)(w->stored + t->scales) : NULL;
    return w->stored + t->place;
}

/* Returns the tensor of `w` that contains the rows of t. In the other model, t may be a piece of a larger table. */
static const model_tensor *stored_weights_source(const model_weights *w, const model_tensor *t) {
    for (int i = 0; i < w->count; i++) {
        const model_tensor *x = &w->tensors[i];
        if (x->layer == t->layer && strcmp(x->stored, t->stored) == 0 && x->first_row <= t->first_row &&
            t->first_row + t->dim[0] <= x->first_row + x->dim[0])
            return x;
    }
    return NULL;
}

void stored_weights_take(model_weights *to, model_weights *from) {
    float *data = to->data;
    for (int i = 0; i < to->count; i++) {
        model_tensor *t = &to->tensors[i];
        const model_tensor *x = stored_weights_source(from, t);
        int64_t scales;
        assert(x && "both models have the same configuration");
        t->form = x->form;
        t->place = x->place + model_packing_bytes(x->form, (t->first_row - x->first_row) * x->dim[1], &scales);
        t->scales = x->scales + scales;
    }
    to->stored = from->stored;
    to->stored_bytes = from->stored_bytes;
    to->data = from->data;
    from->stored = NULL;
    from->data = data;
}

const float *stored_weights_floats(const model_weights *w, const model_tensor *t) {
    if (w->stored && t - w->tensors < w->count) return t->form == MODEL_UNPACKED ? stored_weights_at(w, t, NULL) : NULL;
    return model_weights_data(w, t);
}

void stored_weights_read(const model_weights *w, const model_tensor *t, int64_t first, int64_t count, float *out) {
    const float *floats = stored_weights_floats(w, t);
    uint16_t *scales = NULL;
    if (floats) {
        memcpy(out, floats + first, (size_t)count * sizeof *out);
        return;
    }
    const void *at = stored_weights_at(w, t, &scales);
    model_unpack(t->form, at, scales, first, count, out);
}

const char *stored_weights_not_finite(const model_weights *w) {
    enum { PIECE = 1024 };
    float piece[PIECE];
    for (int i = 0; i < model_weights_total(w); i++) {
        const model_tensor *t = &w->tensors[i];
        for (int64_t at = 0; at < t->count; at += PIECE) {
            const int64_t n = t->count - at < PIECE ? t->count - at : PIECE;
            stored_weights_read(w, t, at, n, piece);
            for (int64_t k = 0; k < n; k++)
                if (!isfinite(piece[k])) return t->name;
        }
    }
    return NULL;
}

/* ---- masters --------------------------------------------------------------------------------------------------------- */

/* One lock for all models, held while a model's masters are made. */
static fork_mutex lock = FORK_MUTEX_INITIALIZER;

typedef struct stored_expansion {
    const model_weights *w;
    float *data;
    bool drop; /* return a tensor's pages to the system after the tensor has been read */
} stored_expansion;

static void stored_weights_expand_task(void *context, int task, int worker) {
    const stored_expansion *e = context;
    const model_tensor *t = &e->w->tensors[task];
    (void)worker;
    int64_t scales;
    stored_weights_read(e->w, t, 0, t->count, e->data + t->offset);
    if (e->drop)
        mem_pages_discard(stored_weights_at(e->w, t, NULL), (size_t)model_packing_bytes(t->form, t->count, &scales));
}

static void stored_weights_drop(model_weights *w) {
    mem_pages_free(w->stored, w->stored_bytes);
    w->stored = NULL;
}

propane_status stored_weights_expand(model_weights *w, propane_error *err) {
    const size_t bytes = (size_t)w->floats * sizeof(float);
    fork_mutex_lock(&lock);
    if (!w->data) {
        float *data = mem_pages_alloc(bytes);
        if (data) pool_run(stored_weights_expand_task, &(stored_expansion){w, data, !w->holders}, w->count);
        w->data = data;
    }
    if (w->data && w->stored && !w->holders) stored_weights_drop(w);
    const bool made = w->data != NULL;
    fork_mutex_unlock(&lock);
    return made ? PROPANE_OK : propane_fail_memory(err, bytes);
}

void stored_weights_hold(model_weights *w) {
    fork_mutex_lock(&lock);
    w->holders++;
    fork_mutex_unlock(&lock);
}

void stored_weights_release(model_weights *w) {
    fork_mutex_lock(&lock);
    w->holders--;
    if (w->data && w->stored && !w->holders) stored_weights_drop(w);
    fork_mutex_unlock(&lock);
}
