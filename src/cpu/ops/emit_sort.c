/* SPDX-License-Identifier: MIT
 * Emits topk and argsort. A task sorts some lines. Elements become 64-bit keys, so that a comparison is one
 * instruction. The upper half orders the values (NaN last) and the lower half is the index, so equal elements keep
 * their order in both directions. A whole line is radix-sorted. If only the first few of many are needed, a selection
 * keeps the best keys so far.
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/plan/emit.h"

typedef struct sort_args {
    int64_t outer, size, inner, k;
    bool ascending;
    mil_dtype dtype, index_type;
    cpu_ref x, values, places, scratch; /* values, places: buffer -1 if not requested */
} sort_args;

typedef struct sort_call {
    const sort_args *a;
    const unsigned char *x;
    unsigned char *values, *places;
    uint64_t *scratch; /* 2 * size per worker */
} sort_call;

/* Maps the value to 32 bits in the order of the sort, with NaN last. */
static uint32_t emit_sort_rank_of_float(float v, bool ascending) {
    uint32_t bits;
    if (v != v) return UINT32_MAX;
    v += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &v, 4);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return ascending ? bits : UINT32_MAX - 1 - bits;
}

static uint32_t emit_sort_rank_of_whole(int32_t v, bool ascending) {
    const uint32_t bits = (uint32_t)v ^ 0x80000000u;
    return ascending ? bits : ~bits;
}

static uint64_t emit_sort_key_of(const sort_call *c, int64_t at, int64_t index) {
    const bool up = c->a->ascending;
    uint32_t rank;
    switch (c->a->dtype) {
    case MIL_fp32: rank = emit_sort_rank_of_float(((const float *)(const void *)c->x)[at], up); break;
    case MIL_fp16: rank = emit_sort_rank_of_float(fp16_to_f32(((const uint16_t *)(const void *)c->x)[at]), up); break;
    case MIL_int32: rank = emit_sort_rank_of_whole(((const int32_t *)(const void *)c->x)[at], up); break;
    default: {
        double small;
        cpu_dense_load(&small, c->a->dtype, c->x, at, 1, 1);
        rank = emit_sort_rank_of_whole((int32_t)small, up);
    }
    }
    return (uint64_t)rank << 32 | (uint64_t)index;
}

/* Sorts by the upper half of the keys, eight bits at a time, skipping digits that are all equal. Returns the array with
 * the result. */
static uint64_t *emit_sort_keys(uint64_t *keys, uint64_t *other, int64_t count) {
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t start[257] = {0};
        for (int64_t i = 0; i < count; i++) start[(keys[i] >> shift & 255) + 1]++;
        if (start[(keys[0] >> shift & 255) + 1] == count) continue;
        for (int d = 0; d < 256; d++) start[d + 1] += start[d];
        for (int64_t i = 0; i < count; i++) other[start[keys[i] >> shift & 255]++] = keys[i];
        uint64_t *swap = keys;
        keys = other, other = swap;
    }
    return keys;
}

static void emit_sort_insert_sorted(uint64_t *keys, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        const uint64_t key = keys[i];
        int64_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

/* Selects the first k keys of a line. `room` holds 2 k keys; each time it is full, only the better half is kept. */
static uint64_t *emit_sort_select_keys(const sort_call *c, int64_t base, uint64_t *room, uint64_t *other) {
    const sort_args *a = c->a;
    const int64_t limit = 2 * a->k;
    uint64_t bound = UINT64_MAX;
    int64_t count = 0;
    for (int64_t s = 0; s < a->size; s++) {
        const uint64_t key = emit_sort_key_of(c, base + s * a->inner, s);
        if (key >= bound) continue;
        room[count++] = key;
        if (count < limit) continue;
        uint64_t *sorted = emit_sort_keys(room, other, count);
        if (sorted != room) other = room, room = sorted;
        count = a->k;
        bound = room[count - 1];
    }
    if (count > 32) return emit_sort_keys(room, other, count);
    emit_sort_insert_sorted(room, count);
    return room;
}

static void emit_sort_put_place(const sort_call *c, int64_t at, int64_t index) {
    if (c->a->index_type == MIL_int32)
        ((int32_t *)(void *)c->places)[at] = (int32_t)index;
    else
        cpu_dense_store(c->places, c->a->index_type, at, 1, &(double){(double)index}, 1);
}

static void emit_sort_lines(const void *context, int64_t first, int64_t last, int worker) {
    const sort_call *c = context;
    const sort_args *a = c->a;
    const size_t element = (size_t)cpu_view_dtype_bytes(a->dtype);
    uint64_t *keys = c->scratch + worker * 2 * a->size, *other = keys + a->size, *sorted;
    for (int64_t l = first; l < last; l++) {
        const int64_t base = l / a->inner * a->size * a->inner + l % a->inner;
        if (a->k * 4 <= a->size) {
            sorted = emit_sort_select_keys(c, base, keys, other);
        } else {
            for (int64_t s = 0; s < a->size; s++) keys[s] = emit_sort_key_of(c, base + s * a->inner, s);
            sorted = keys;
            if (a->size <= 32)
                emit_sort_insert_sorted(keys, a->size);
            else
                sorted = emit_sort_keys(keys, other, a->size);
        }
        for (int64_t s = 0; s < a->k; s++) {
            const int64_t index = (int64_t)(sorted[s] & UINT32_MAX),
                          to = (l / a->inner * a->k + s) * a->inner + l % a->inner;
            if (c->values)
                memcpy(c->values + (size_t)to * element, c->x + (size_t)(base + index * a->inner) * element, element);
            if (c->places) emit_sort_put_place(c, to, index);
        }
    }
}

static propane_status emit_sort_run(const cpu_run *run, const void *args, propane_error *err) {
    const sort_args *a = args;
    sort_call c = {a, cpu_ref_at(run, a->x), NULL, NULL, cpu_ref_at(run, a->scratch)};
    (void)err;
    if (a->values.buffer >= 0) c.values = cpu_ref_at(run, a->values);
    if (a->places.buffer >= 0) c.places = cpu_ref_at(run, a->places);
    cpu_dense_each(run, a->outer * a->inner, cpu_dense_part(4 * a->size), emit_sort_lines, &c);
    return PROPANE_OK;
}

static propane_status emit_sort(planner *p, const mil_op *op, propane_error *err) {
    static const char *const names[] = {"x", NULL};
    const mil_type *x = &mil_in(op, "x")->type;
    const bool top = op->info->code == MIL_OP_topk;
    sort_args *a = ARENA_NEW(p->arena, sort_args);
    cpu_emit_io d;
    int axis = 0;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "ascending", &a->ascending, err));
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    a->outer = a->inner = 1;
    for (int i = 0; i < axis; i++) a->outer *= x->dim[i];
    for (int i = axis + 1; i < x->rank; i++) a->inner *= x->dim[i];
    a->size = x->dim[axis];
    a->k = op->results[0]->type.dim[axis];
    a->dtype = x->dtype;
    a->x = cpu_view_ref(&d.in[0]);
    a->values.buffer = a->places.buffer = -1;
    const int places = top ? 1 : 0;
    if (top) a->values = cpu_view_ref(&d.out[0]);
    if (places < d.out_count) {
        a->places = cpu_view_ref(&d.out[places]);
        a->index_type = d.out[places].dtype;
    }
    PROPANE_TRY(cpu_emit_scratch(p, 2 * a->size * p->threads * (int64_t)sizeof(uint64_t), &a->scratch, err));
    return cpu_emit_end(p, op, &d, emit_sort_run, a, top ? "topk" : "argsort", 0, err);
}

static bool emit_sort_takes_sort(const mil_op *op) {
    const mil_type *x = &mil_in(op, "x")->type;
    int axis = 0;
    return x->dtype != MIL_bool && x->rank > 0 && !mil_attr_axis(op, "axis", x->rank, &axis, NULL) &&
           x->dim[axis] <= UINT32_MAX;
}

const cpu_emitter cpu_emitter_sort = {.emit = emit_sort, .takes = emit_sort_takes_sort};
