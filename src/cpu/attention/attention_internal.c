/* SPDX-License-Identifier: MIT
 * Owns what both directions of attention share: memory layout, packing, prefetching, and stores to any layout.
 */
#include "cpu/attention/attention_internal.h"

#include <string.h>

#include "core/base/float16.h"

int64_t attention_take(attention_room *r, int64_t floats) {
    int64_t at = r->floats;
    r->floats += round_up(floats, ATTENTION_ALIGN);
    return at;
}

int64_t attention_span(int64_t keys, int64_t span, int64_t step) {
    return max_i64(step, round_up(div_up(keys, max_i64(1, div_up(keys, span))), step));
}

unsigned char *attention_item(const cpu_attention_operand *x, int64_t item) {
    return (unsigned char *)x->data + x->offset[item];
}

static void attention_internal_store_half(uint16_t *to, int64_t col, const float *from, int64_t width) {
    uint16_t block[64];
    if (col == 1) fp16_from_f32_array(to, from, (size_t)width);
    for (int64_t i = 0; col != 1 && i < width; i += 64) {
        const int64_t n = min_i64(width - i, 64);
        fp16_from_f32_array(block, from + i, (size_t)n);
        for (int64_t j = 0; j < n; j++) to[(i + j) * col] = block[j];
    }
}

void attention_store(void *to, cpu_dtype dtype, int64_t row, int64_t col, const float *from, int64_t step, int64_t rows,
                     int64_t width) {
    enum { AHEAD = 8 }; /* lines ahead; they are kilobytes apart, so no hardware prefetcher fetches them in time */
    for (int64_t r = 0; r < rows; r++, from += step) {
        float *line = (float *)to + r * row;
        if (dtype == CPU_F16) {
            attention_internal_store_half((uint16_t *)to + r * row, col, from, width);
        } else if (col == 1) {
            for (int64_t i = 0; r + AHEAD < rows && i < width; i += 16) __builtin_prefetch(line + AHEAD * row + i, 1);
            memcpy(line, from, (size_t)width * sizeof *from);
        } else {
            for (int64_t i = 0; i < width; i++) line[i * col] = from[i];
        }
    }
}

int attention_height(const attention_run *r, int64_t rows) {
    return rows == r->g->mr ? r->g->mr : (int)round_up(rows, r->g->row_step);
}

void attention_pack_rows(const attention_run *r, const cpu_attention_operand *x, int64_t item, float *to, int64_t first,
                         int64_t rows) {
    const unsigned char *from = attention_item(x, item) + first * x->row * cpu_dtype_bytes(x->dtype);
    int64_t mr = r->g->mr, i = 0, width = r->a->width;
    if (x->row == 1 && x->dtype == CPU_F32) {
        i = rows / mr * mr;
        r->rows->strips(to, (const float *)(const void *)from, x->col, i, width);
    }
    for (; i < rows; i += mr)
        r->g->pack(to + i * width, attention_height(r, min_i64(mr, rows - i)),
                   from + i * x->row * cpu_dtype_bytes(x->dtype), x->dtype, x->row, x->col, min_i64(mr, rows - i), 0,
                   width, false);
}

bool attention_pack_turned(const attention_run *r, const cpu_attention_operand *x, int64_t item, float *to,
                           int64_t first, int64_t rows) {
    int64_t mr = r->g->mr, depth = round_up(rows, GEMM_BLOCK);
    bool form = x->row == 1 && x->col != 1;
    for (int64_t c = 0; c < r->a->width; c += mr) {
        int64_t count = min_i64(mr, r->a->width - c);
        const unsigned char *from = attention_item(x, item) + (c * x->col + first * x->row) * cpu_dtype_bytes(x->dtype);
        if (form)
            r->g->pack_quads(to + c * depth, attention_height(r, count), from, x->dtype, x->col, count, 0, rows, false);
        else
            r->g->pack(to + c * depth, attention_height(r, count), from, x->dtype, x->col, x->row, count, 0, rows,
                       false);
    }
    return form;
}

gemm_tile attention_tile(const attention_run *r, int64_t rows, bool form) {
    int index = rows >= r->g->mr ? r->tallest : attention_height(r, rows) / r->g->row_step - 1;
    return form ? r->g->quad_tiles[index] : r->g->tiles[index];
}

/* Returns the bytes of an item, or 0 if the item has gaps. */
static int64_t attention_internal_dense_bytes(const cpu_attention *a, int role) {
    const cpu_attention_operand *x = &a->at[role];
    int64_t rows = role == CPU_ATTENTION_K || role == CPU_ATTENTION_V ? a->keys : a->rows;
    bool dense = x->row == 1 ? x->col == rows : x->col == 1 && x->row == a->width;
    return dense ? rows * a->width * cpu_dtype_bytes(x->dtype) : 0;
}

/* Queues an item of this operand for prefetch, unless the total of bytes (*all) would become too large. */
static void attention_internal_want_item(const attention_run *r, attention_ahead *f, int role, int64_t item,
                                         int64_t *all) {
    int64_t bytes = attention_internal_dense_bytes(r->a, role);
    if (!r->a->at[role].data || *all + bytes > r->a->kernels->attention_sizes.ahead_bytes) return;
    *all += bytes;
    f->at[f->count] = (const char *)attention_item(&r->a->at[role], item);
    f->lines[f->count++] = bytes / 64;
}

attention_ahead attention_look_ahead(const attention_run *r, int64_t item, int64_t end) {
    attention_ahead f = {.count = 0};
    int64_t all = 0;
    for (int role = CPU_ATTENTION_Q; role <= (r->a->backward ? CPU_ATTENTION_O : CPU_ATTENTION_V); role++)
        if (item + 1 < end) attention_internal_want_item(r, &f, role, item + 1, &all);
    attention_internal_want_item(r, &f, r->a->backward ? CPU_ATTENTION_DQ : CPU_ATTENTION_O, item,
                                 &all); /* the operand that is queued last is fetched first */
    return f;
}
