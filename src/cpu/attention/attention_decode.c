/* SPDX-License-Identifier: MIT
 * Owns the work split of masked attention. The mask's rows are read once. Then each task handles one of these rows for
 * a group of heads, so that a key is fetched once for all heads of its group.
 */
#include "cpu/attention/attention_decode.h"

#include <assert.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/pool.h"
#include "cpu/attention/attention_internal.h"

enum { ALIGN = 64 };

static int64_t decode_padded(int64_t n) { return (n + 15) / 16 * 16; }

/* Layout of the scratch memory. For each mask row, it holds the number of keys that the row sees, what the mask adds to
 * their scores, and their indices. Each worker has its own part after these. */
typedef struct decode_room {
    int64_t stride, counts, adds, keys, own, worker; /* sizes and offsets in floats */
} decode_room;

static decode_room decode_layout(const cpu_attention *a) {
    decode_room s = {.stride = decode_padded(a->keys)};
    s.adds = decode_padded(2 * a->period); /* the counts, which are int64_t, come first */
    s.keys = s.adds + a->period * s.stride;
    s.own = s.keys + a->period * s.stride;
    s.worker = 2 * decode_padded(a->width) + s.stride;
    return s;
}

size_t cpu_attention_decode_scratch_bytes(const cpu_attention *a, int threads) {
    decode_room s = decode_layout(a);
    return (size_t)(s.own + s.worker * threads) * sizeof(float) + ALIGN;
}

typedef struct decode_run {
    const cpu_attention *a;
    const cpu_attention_decode_kernels *kernels;
    const cpu_reduce_kernels *rows;
    decode_room at;
    float *scratch;
} decode_run;

/* Lists the keys that a row of the mask sees and what the mask adds to their scores. Returns their number. With `all`,
 * lists every key. */
static int64_t decode_read_row(const decode_run *r, int64_t row, bool all, float *add, int32_t *keys) {
    int64_t n = 0, length = r->a->keys;
    const uint16_t *half = (const uint16_t *)r->a->mask + row * length;
    const float *whole = (const float *)r->a->mask + row * length;
    bool is_half = r->a->mask_dtype == CPU_F16;
    for (int64_t t = 0; t < length; t++) {
        float x = is_half ? fp16_to_f32(half[t]) : whole[t];
        add[n] = x;
        keys[n] = (int32_t)t;
        n += all || !(x < CPU_ATTENTION_UNSEEN);
    }
    return n;
}

static void decode_read_task(void *context, int task, int worker) {
    const decode_run *r = context;
    float *add = r->scratch + r->at.adds + task * r->at.stride;
    int32_t *keys = (int32_t *)(void *)(r->scratch + r->at.keys) + task * r->at.stride;
    int64_t n = decode_read_row(r, task, false, add, keys);
    (void)worker;
    if (!n) n = decode_read_row(r, task, true, add, keys);
    ((int64_t *)(void *)r->scratch)[task] = n;
}

static void decode_load_query(const cpu_attention_operand *x, int64_t item, int64_t row, int64_t width, float scale,
                              float *to) {
    const unsigned char *base = attention_item(x, item);
    for (int64_t c = 0; c < width; c++) {
        int64_t at = row * x->row + c * x->col;
        to[c] = (x->dtype == CPU_F16 ? fp16_to_f32(((const uint16_t *)base)[at]) : ((const float *)base)[at]) * scale;
    }
}

static void decode_store_mix(const cpu_attention_operand *x, int64_t item, int64_t row, int64_t width,
                             const float *from) {
    unsigned char *base = attention_item(x, item);
    for (int64_t c = 0; c < width; c++) {
        int64_t at = row * x->row + c * x->col;
        if (x->dtype == CPU_F16)
            ((uint16_t *)base)[at] = fp16_from_f32(from[c]);
        else
            ((float *)base)[at] = from[c];
    }
}

static void decode_row_task(void *context, int task, int worker) {
    const decode_run *r = context;
    const cpu_attention *a = r->a;
    int64_t item = task / a->period, row = task % a->period, count = ((const int64_t *)(void *)r->scratch)[row];
    const float *add = r->scratch + r->at.adds + row * r->at.stride;
    const int32_t *keys = (const int32_t *)(void *)(r->scratch + r->at.keys) + row * r->at.stride;
    float *q = r->scratch + r->at.own + worker * r->at.worker, *o = q + decode_padded(a->width),
          *s = o + decode_padded(a->width);
    for (int64_t i = row; i < a->rows; i += a->period) {
        decode_load_query(&a->at[CPU_ATTENTION_Q], item, i, a->width, a->scale, q);
        r->kernels->scores(s, q, attention_item(&a->at[CPU_ATTENTION_K], item), a->at[CPU_ATTENTION_K].dtype == CPU_F16,
                           a->at[CPU_ATTENTION_K].row, a->width, keys, add, count);
        r->rows->softmax(s, s, 1, count, count, count);
        r->kernels->mix(o, s, attention_item(&a->at[CPU_ATTENTION_V], item), a->at[CPU_ATTENTION_V].dtype == CPU_F16,
                        a->at[CPU_ATTENTION_V].row, a->width, keys, count);
        decode_store_mix(&a->at[CPU_ATTENTION_O], item, i, a->width, o);
    }
}

void cpu_attention_decode_run(const cpu_attention *a, void *scratch) {
    decode_run r = {.a = a,
                    .kernels = &a->kernels->attention_decode,
                    .rows = &a->kernels->reduce,
                    .at = decode_layout(a),
                    .scratch = scratch};
    assert((uintptr_t)scratch % ALIGN == 0 && a->at[CPU_ATTENTION_K].col == 1 && a->at[CPU_ATTENTION_V].col == 1);
    if (a->period == 1)
        decode_read_task(&r, 0, 0);
    else
        pool_run_most(decode_read_task, &r, (int)a->period, a->threads);
    pool_run_most(decode_row_task, &r, (int)(a->items * a->period), a->threads);
}
