/* SPDX-License-Identifier: MIT
 * Owns the sources and results of a task: strided reads and writes of memory and of the on-chip buffer. Every access is
 * checked against its buffer before the first element moves.
 */
#include <string.h>

#include "ane/h13/simulate_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

/* A view of memory. Element (g, d, c, h, w) is at `base` plus each index times its stride. If `interleave` is more than
 * 1, as many channels share the rows of a plane. */
typedef struct sim_view {
    uint8_t *data;
    int64_t bytes, base, g, d, c, h, w;
    int interleave;
    uint8_t *valid; /* one byte per halfword of the on-chip buffer; NULL for memory */
    const char *what;
} sim_view;

static int64_t simulate_memory_view_offset(const sim_view *v, int64_t g, int64_t d, int64_t c, int64_t h) {
    return v->base + g * v->g + d * v->d + c / v->interleave * v->c + h * v->h + 2 * (c % v->interleave);
}

static propane_status simulate_memory_view_check(sim *s, const sim_view *v, const sim_shape *n) {
    int64_t last = simulate_memory_view_offset(v, n->g - 1, n->d - 1, n->c - 1, n->h - 1) + (n->w - 1) * v->w + 2;
    if (v->interleave > 1) last += 2 * v->interleave;
    if (v->interleave > 1) last -= 2 * (1 + (n->c - 1) % v->interleave);
    if (!v->data || last > v->bytes)
        return sim_refuse(s, 0xffffffff, "%s: it reaches byte 0x%llx, but the buffer has only 0x%llx bytes", v->what,
                          (long long)last, (long long)(v->data ? v->bytes : 0));
    return PROPANE_OK;
}

static uint16_t simulate_memory_view_half(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }

static propane_status simulate_memory_view_read(sim *s, const sim_view *v, sim_tensor *to) {
    const sim_shape *n = &to->shape;
    float *out = to->data;
    PROPANE_TRY(simulate_memory_view_check(s, v, n));
    for (int64_t g = 0; g < n->g; g++)
        for (int64_t d = 0; d < n->d; d++)
            for (int64_t c = 0; c < n->c; c++)
                for (int64_t h = 0; h < n->h; h++) {
                    int64_t at = simulate_memory_view_offset(v, g, d, c, h);
                    for (int64_t w = 0; w < n->w; w++, at += v->w) {
                        if (v->valid && !v->valid[at / 2])
                            return sim_refuse(s, 0xffffffff,
                                              "%s reads 0x%llx of the on-chip buffer, which no task wrote", v->what,
                                              (long long)at);
                        *out++ = fp16_to_f32(simulate_memory_view_half(v->data + at));
                    }
                }
    return PROPANE_OK;
}

/* Writes the values, which are already rounded to fp16. */
static propane_status simulate_memory_view_write(sim *s, const sim_view *v, const sim_tensor *from) {
    const sim_shape *n = &from->shape;
    const float *in = from->data;
    PROPANE_TRY(simulate_memory_view_check(s, v, n));
    for (int64_t g = 0; g < n->g; g++)
        for (int64_t d = 0; d < n->d; d++)
            for (int64_t c = 0; c < n->c; c++)
                for (int64_t h = 0; h < n->h; h++) {
                    int64_t at = simulate_memory_view_offset(v, g, d, c, h);
                    for (int64_t w = 0; w < n->w; w++, at += v->w) {
                        uint16_t half = fp16_from_f32(*in++);
                        v->data[at] = (uint8_t)(half & 0xff);
                        v->data[at + 1] = (uint8_t)(half >> 8);
                        if (v->valid) v->valid[at / 2] = 1;
                    }
                }
    return PROPANE_OK;
}

/* ---- places of operands ------------------------------------------------------------------------------------------ */

static propane_status simulate_memory_view(sim *s, int low, uint32_t base, const uint32_t strides[4], const char *what,
                                           sim_view *v) {
    if (!engine_head(s->t, 8, low + 5, 1))
        return sim_refuse(s, 0xffffffff, "%s goes through DMA, but word 8, 0x%08x, enables no base register for it",
                          what, s->t->header[8]);
    const engine_memory *m = &s->buffers[engine_head(s->t, 8, low, 5)];
    *v = (sim_view){.data = m->data,
                    .bytes = (int64_t)m->bytes,
                    .base = engine_get(s->t, base),
                    .w = 2,
                    .interleave = 1,
                    .h = engine_get(s->t, strides[0]),
                    .c = engine_get(s->t, strides[1]),
                    .d = engine_get(s->t, strides[2]),
                    .g = engine_get(s->t, strides[3]),
                    .what = what};
    return PROPANE_OK;
}

static sim_view simulate_memory_buffer_view(sim *s, uint32_t base, const char *what) {
    return (sim_view){.data = s->machine->buffer,
                      .valid = s->machine->valid,
                      .bytes = ENGINE_BUFFER,
                      .base = engine_get(s->t, base),
                      .c = engine_get(s->t, base + 4),
                      .h = engine_get(s->t, base + 8),
                      .d = engine_get(s->t, base + 12),
                      .g = engine_get(s->t, base + 16),
                      .w = 2,
                      .interleave = 1,
                      .what = what};
}

/* Applies the operand flags of the planar engine: repeated dimensions, exchanged channels and width. */
static void simulate_memory_view_flags(sim_view *v, uint32_t flags, bool swapped) {
    if (flags & 1) v->w = 0;
    if (flags & 2) v->h = 0;
    if (flags & 4) v->d = 0;
    if (flags & 8) v->c = 0;
    if (!swapped) return;
    int64_t channel = v->c;
    v->c = flags & 8 ? 0 : 2;
    v->w = flags & 1 ? 0 : channel;
}

static sim_shape simulate_memory_source_shape(const sim *s) {
    return (sim_shape){max_i64(1, sim_bits(s, 0x24, 0, 13)), engine_get(s->t, 4), sim_bits(s, 0xc, 0, 17),
                       sim_bits(s, 0, 16, 15), sim_bits(s, 0, 0, 15)};
}

/* Marks the window of a streamed source in the on-chip buffer as no longer readable. */
static void simulate_memory_buffer_forget(sim *s) {
    int64_t from = engine_get(s->t, 0x4808),
            bytes = (int64_t)engine_get(s->t, 0x4810) * max_i64(1, engine_get(s->t, 0x28));
    if (from >= ENGINE_BUFFER) return;
    bytes = min_i64(bytes, ENGINE_BUFFER - from);
    memset(s->machine->valid + from / 2, 0, (size_t)(bytes / 2));
}

static propane_status simulate_memory_read_first(sim *s) {
    static const uint32_t strides[4] = {0x1380c, 0x13810, 0x13814, 0x13818};
    uint32_t type = sim_bits(s, 0x4804, 0, 2), flags = sim_bits(s, 0x30, 0, 4);
    bool enabled = sim_bits(s, 0x13800, 0, 1), swapped = sim_bits(s, 0x30, 8, 1);
    sim_view v;
    PROPANE_TRY(sim_allocate(s, &s->a, simulate_memory_source_shape(s)));
    if (type == 3 || enabled != (type != 0))
        return sim_refuse(s, 0x4804, "SourceType %u with DMA %s", type, enabled ? "on" : "off");
    if (type == 0) {
        v = simulate_memory_buffer_view(s, 0x4808, "source 1");
        simulate_memory_view_flags(&v, flags, swapped);
        return simulate_memory_view_read(s, &v, &s->a);
    }
    if (flags || swapped) return sim_refuse(s, 0x30, "flags of a source that comes through DMA");
    PROPANE_TRY(simulate_memory_view(s, 0, 0x13808, strides, "source 1", &v));
    PROPANE_TRY(simulate_memory_view_read(s, &v, &s->a));
    if (type == 2) {
        simulate_memory_buffer_forget(s);
        return PROPANE_OK;
    }
    sim_view kept = simulate_memory_buffer_view(s, 0x4808, "source 1, kept,");
    return simulate_memory_view_write(s, &kept, &s->a);
}

/* Reads a pair of rows, each with one value per channel, into s->b as [c][2]. */
static propane_status sim_read_pair(sim *s) {
    sim_view v = simulate_memory_buffer_view(s, 0x481c, "the pair");
    sim_shape n = {1, 1, s->a.shape.c, 2, 1};
    if (sim_bits(s, 0x30, 9, 1)) v.c = 2;
    PROPANE_TRY(sim_allocate(s, &s->b, n));
    return simulate_memory_view_read(s, &v, &s->b);
}

propane_status sim_read_sources(sim *s) {
    static const uint32_t strides[4] = {0x13820, 0x13824, 0x13828, 0x1382c};
    uint32_t mode = sim_bits(s, 0x34, 4, 3), flags = sim_bits(s, 0x30, 4, 4);
    bool dma = sim_bits(s, 0x34, 1, 1), swapped = sim_bits(s, 0x30, 9, 1);
    sim_view v;
    PROPANE_TRY(simulate_memory_read_first(s));
    if (dma != sim_bits(s, 0x4804, 24, 1)) return sim_refuse(s, 0x4804, "DualSource and Source2Dma (0x34) disagree");
    if (s->neural || mode == 2 || mode == 5) {
        if (dma || engine_get(s->t, 0x30) & 0x2f0)
            return sim_refuse(s, 0x30, "a second source of a task that takes one");
        return PROPANE_OK;
    }
    if (mode == 4) return sim_read_pair(s);
    PROPANE_TRY(sim_allocate(s, &s->b, s->a.shape));
    if (dma) {
        if (flags || swapped) return sim_refuse(s, 0x30, "flags of a source that comes through DMA");
        PROPANE_TRY(simulate_memory_view(s, 6, 0x1381c, strides, "source 2", &v));
    } else {
        v = simulate_memory_buffer_view(s, 0x481c, "source 2");
        simulate_memory_view_flags(&v, flags, swapped);
    }
    return simulate_memory_view_read(s, &v, &s->b);
}

/* ---- results -------------------------------------------------------------------------------------------------------------------------- */

/* Exchanges channels and width of s->y. */
static propane_status simulate_memory_result_exchange(sim *s) {
    sim_tensor from = s->y, to = {0};
    sim_shape n = from.shape, out = {n.g, n.d, n.w, n.h, n.c};
    PROPANE_TRY(sim_allocate(s, &to, out));
    for (int64_t i = 0; i < n.g * n.d; i++)
        for (int64_t c = 0; c < n.c; c++)
            for (int64_t h = 0; h < n.h; h++)
                for (int64_t w = 0; w < n.w; w++)
                    to.data[((i * n.w + w) * n.h + h) * n.c + c] = from.data[((i * n.c + c) * n.h + h) * n.w + w];
    mem_free(from.data);
    s->y = to;
    return PROPANE_OK;
}

propane_status sim_write_result(sim *s) {
    static const uint32_t strides[4] = {0x17808, 0x1780c, 0x17810, 0x17814};
    uint32_t type = sim_bits(s, 0x4830, 0, 2), interleave = sim_bits(s, 0x17818, 24, 4);
    bool enabled = sim_bits(s, 0x17800, 0, 1), swapped = sim_bits(s, 0x30, 10, 1);
    sim_view v;
    if (sim_bits(s, 0x34, 28, 1)) {
        if (!s->neural) return sim_refuse(s, 0x34, "Transpose on a planar task");
        PROPANE_TRY(simulate_memory_result_exchange(s));
    }
    if (type == 3 || enabled != (type != 0))
        return sim_refuse(s, 0x4830, "ResultType %u with DMA %s", type, enabled ? "on" : "off");
    if (type == 0) {
        v = simulate_memory_buffer_view(s, 0x4834, "the result");
        if (swapped) v.w = v.c, v.c = 2;
        return simulate_memory_view_write(s, &v, &s->y);
    }
    if (swapped && (type != 1 || interleave != 1)) return sim_refuse(s, 0x30, "SwapOut of a result that streams out");
    if (interleave < 1 || interleave > 15 || sim_bits(s, 0x4830, 8, 4) != interleave)
        return sim_refuse(s, 0x17818, "Interleave %u, and %u in 0x4830", interleave, sim_bits(s, 0x4830, 8, 4));
    PROPANE_TRY(simulate_memory_view(s, 12, 0x17804, strides, "the result", &v));
    v.interleave = (int)interleave;
    v.w = 2 * (int64_t)interleave;
    if (swapped) v.w = v.c, v.c = 2;
    return simulate_memory_view_write(s, &v, &s->y);
}
