/* SPDX-License-Identifier: MIT
 * Owns the search for the smallest form that holds a part's matrices exactly. For matrices that are stored in fewer
 * bits, the form is known without reading the numbers (lm/arch/stored_weights.h). The numbers of fp32 matrices may be
 * exact in bf16 or fp16, too.
 */
#include <stdatomic.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/pool.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/generate.h"

/* Returns whether the lower half of each number is zero. Blocks of fixed size let compilers vectorise the loop at
 * -O2. */
static bool exact_form_is_bf16(const float *w, int64_t count) {
    enum { BLOCK = 128 };
    for (int64_t at = 0; at < count; at += BLOCK) {
        uint32_t u, low = 0;
        if (count - at >= BLOCK)
            for (int i = 0; i < BLOCK; i++) memcpy(&u, w + at + i, sizeof u), low |= u;
        else
            for (int64_t i = at; i < count; i++) memcpy(&u, w + i, sizeof u), low |= u;
        if (low & 0xffffu) return false;
    }
    return true;
}

static bool exact_form_is_fp16(const float *w, int64_t count) {
    enum { PIECE = 1024 };
    uint16_t half[PIECE];
    float back[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        size_t n = (size_t)(count - at < PIECE ? count - at : PIECE);
        fp16_from_f32_array(half, w + at, n);
        fp16_to_f32_array(back, half, n);
        if (memcmp(back, w + at, n * sizeof *w) != 0) return false;
    }
    return true;
}

static bool exact_form_holds(const model_weights *w, const model_tensor *t, model_packing form) {
    const float *floats = stored_weights_floats(w, t);
    if (form == MODEL_UNPACKED || !floats) return t->form == form;
    return form == MODEL_BF16   ? exact_form_is_bf16(floats, t->count)
           : form == MODEL_FP16 ? exact_form_is_fp16(floats, t->count)
                                : false;
}

typedef struct exact_search {
    const model_weights *weights;
    model_part part;
    model_packing form;
    atomic_bool all;
} exact_search;

static void exact_form_task(void *context, int layer, int worker) {
    exact_search *s = context;
    const arch_tensor *row;
    (void)worker;
    for (int i = 0; (row = model_arch_param(&s->weights->config, s->part, i)); i++) {
        if (row->in == ARCH_1 || !atomic_load(&s->all)) continue;
        const model_tensor *t = model_weights_param(s->weights, s->part, layer, row->param);
        if (!exact_form_holds(s->weights, t, model_arch_packing(&s->weights->config, row, s->form)))
            atomic_store(&s->all, false);
    }
}

model_packing infer_exact_packing(const model_weights *weights, model_part part) {
    static const model_packing forms[] = {
        MODEL_INT4,
        MODEL_INT8,
        MODEL_BF16,
        MODEL_FP16,
#define KQUANT(NAME, name, ...) MODEL_##NAME,
#include "core/base/kquants.def"
#undef KQUANT
    };
    const int tasks = part == MODEL_HEAD ? 1 : (int)weights->config.num_hidden_layers;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        exact_search s = {weights, part, forms[f], true};
        pool_run(exact_form_task, &s, tasks);
        if (atomic_load(&s.all)) return forms[f];
    }
    return MODEL_UNPACKED;
}
