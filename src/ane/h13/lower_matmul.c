/* SPDX-License-Identifier: MIT
 * Lowers matrix products to 1x1 convolutions. A constant operand becomes the kernel, and x is transposed on chip so
 * that its rows are pixels. With two computed operands, x is the kernel. It is copied to scratch memory with
 * interleaved rows if a lane holds more than one.
 */
#include <string.h>

#include "ane/h13/kernel.h"
#include "ane/h13/lower_parts.h"
#include "core/base/int_math.h"

enum { MATMUL_ROOM = 0x1ff000 }; /* usable bytes of the on-chip buffer */

/* ---- transposes --------------------------------------------------------------------------------------------------------------- */

/* Returns the bytes from channel to channel of a transposed matrix on chip: n pixels, and padding that keeps
 * channels out of the same banks. */
static int64_t lower_matmul_channel(int64_t n) { return n < 32 ? round_up(2 * n, 16) : round_up(2 * n, 16) + 0x10; }

/* Returns the scheduling words of such an exchange on H14, in which a lane takes 1, 2, 4 or 8 rows side by side;
 * `first` are those of H13. */
static int64_t lower_matmul_turn_shape(const emitter *e, const emit_tensor *x, int64_t first) {
    int64_t rows = 1, code;
    if (e->subtype != ENGINE_H14) return first;
    if (x->h > 1) return 0;
    while (rows < 8 && 32 * rows <= x->c) rows *= 2;
    code = min_i64(3, 4 - emit_log2(rows));
    return code << 16 | (int64_t)emit_shape(1, x->w) << 12 | code << 8;
}

/* Makes a task of the neural engine that reads x as [c = rows, h = 1, w = columns] and exchanges channels and width. */
static emitted *lower_matmul_turn(emitter *e, const emit_tensor *x, int64_t base, int64_t shape) {
    emitted *t = emit_task(e, true);
    int64_t rows = x->c, channel = emit_channel(x->w, true), raw = rows * channel;
    emit_l2 at = {base, channel, raw, raw, raw};
    emit_dims(t, rows, x->h, x->w);
    emit_set(t, 0x24, 0x14001);
    emit_or(t, 0x34, 0x10000000 | lower_matmul_turn_shape(e, x, shape));
    emit_active(t, 16);
    emit_source(t, x, &at, 2);
    emit_set(t, 0xc804, 0x101c0c);
    return t;
}

/* Returns a matrix [1, rows, columns] with its rows as channels. */
static emit_tensor lower_matmul_rows_as_channels(const emit_tensor *x) {
    return (emit_tensor){x->bar, x->base, x->h, 1, x->w, x->total, x->row, x->total};
}

propane_status lower_transpose(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err) {
    int64_t channel = emit_channel(x->w, true), raw = x->c * channel, base = x->h * raw;
    int64_t wide = round_up(2 * x->c, 16), rows = x->w * wide;
    if (base + x->h * rows > 0x200000)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a transpose of [%lld, %lld, %lld] does not fit on chip",
                            (long long)x->c, (long long)x->h, (long long)x->w);
    emitted *t = lower_matmul_turn(e, x, 0, 0);
    emit_store(t, y, base, 1);
    emit_set(t, 0x17800, 0xc1);
    emit_l2 kept = {base, wide, rows, rows, rows};
    emit_keep(t, &kept, 0x500172);
    return PROPANE_OK;
}

/* ---- constant operand ----------------------------------------------------------------------------------------------------------- */

static engine_kernel lower_matmul_kernel(const lower_product *p) {
    engine_kernel k = {.outputs = p->n, .inputs = p->k, .groups = 1, .taps = 1, .interleave = 1};
    int64_t most = min_i64(16, p->n / 16);
    if (p->m > 128) most = min_i64(most, max_i64(1, 32768 / p->k));
    while (2 * k.interleave <= most) k.interleave *= 2;
    k.lanes = (int)min_i64(16, p->n);
    k.bias = p->bias != NULL;
    k.table = p->table != NULL;
    return k;
}

static propane_status lower_matmul_constant_lanes(emitter *e, emitted *t, const lower_product *p, propane_error *err) {
    const engine_kernel kernel = lower_matmul_kernel(p);
    const lower_kernel from = {p->weight, p->bias, p->table, p->weight_from, p->bias_from};
    PROPANE_TRY(lower_kernel_lanes(e, t, &kernel, &from, err));
    emit_or(t, 0x1c, (int64_t)emit_log2(kernel.interleave) << 10);
    emit_active(t, emit_lane_count(p->n));
    return PROPANE_OK;
}

static void lower_matmul_product_words(emitted *t, const lower_product *p) {
    emit_set(t, 0xc804, 0x101c00 | (p->bias ? 0x10 : 0) | (p->table ? 0x20000 : p->relu ? 0x10000 : 0));
    emit_set(t, 0xc810, p->scale);
}

/* Returns the words for few pixels. H14 uses them for up to 64 pixels, provided the kernel is not large. */
static int64_t lower_matmul_small(const emitter *e, const lower_product *p) {
    if (e->subtype == ENGINE_H14) return p->m <= 64 && p->k * p->n <= 1 << 19 ? 4 : 0;
    return p->m <= 8 && p->k <= 512 ? 0x44404 : 0;
}

/* Lowers a plain convolution: the columns of x are already its channels in memory. */
static propane_status lower_matmul_constant_plain(emitter *e, const lower_product *p, const emit_tensor *x,
                                                  const emit_tensor *y, propane_error *err) {
    emitted *t = emit_task(e, true);
    int64_t channel = emit_channel(p->m, true), raw = p->k * channel, row = raw + (channel >= 0x40 ? 0 : 0x30);
    emit_tensor source = {x->bar, x->base, p->k, 1, p->m, x->total, x->row, x->total};
    emit_tensor result = lower_matmul_rows_as_channels(y);
    emit_l2 at = {0, channel, row, raw, raw};
    emit_dims(t, p->k, 1, p->m);
    emit_out(t, p->n, 1, p->m);
    emit_or(t, 0x34, 0x10000000 | lower_matmul_small(e, p));
    emit_source(t, &source, &at, 2);
    emit_store(t, &result, row, 1);
    lower_matmul_product_words(t, p);
    return lower_matmul_constant_lanes(e, t, p, err);
}

/* Transposes x on chip, starting at `base`: channels k, width m. */
static emit_l2 lower_matmul_stage_constant(emitter *e, const lower_product *p, const emit_tensor *x, int64_t base) {
    int64_t channel = lower_matmul_channel(p->m), row = p->k * channel, d = round_up(2 * p->m, 64);
    emit_tensor rows = lower_matmul_rows_as_channels(x);
    emit_l2 kept = {base, channel, row, row, 0};
    e->scratch = max_i64(e->scratch, round_up(max_i64(2 * p->m * p->k, 64 * p->k), ENGINE_PAGE));
    emitted *t = lower_matmul_turn(e, &rows, base + row, p->m <= 8 ? 0x30300 : 0);
    emit_keep(t, &kept, 0x500170);
    emit_result_words(t, ENGINE_BAR_SCRATCH, d, d, p->k * d);
    return kept;
}

/* Makes the matrix product of the value on chip; the caller sets the place of the result. */
static emitted *lower_matmul_on_chip(emitter *e, const lower_product *p, const emit_l2 *source, uint32_t config) {
    emitted *t = emit_task(e, true);
    emit_dims(t, p->k, 1, p->m);
    emit_out(t, p->n, 1, p->m);
    emit_or(t, 0x34, lower_matmul_small(e, p));
    emit_source_l2(t, source, config);
    lower_matmul_product_words(t, p);
    return t;
}

/* Makes the same product of a staged value, with the words of its DMA. */
static emitted *lower_matmul_from_staged(emitter *e, const lower_product *p, const emit_l2 *kept) {
    int64_t d = round_up(2 * p->m, 64);
    emit_tensor staged = {ENGINE_BAR_SCRATCH, 0, p->k, 1, p->m, d, d, p->k * d};
    emitted *t = lower_matmul_on_chip(e, p, kept, 0x160);
    emit_source(t, &staged, kept, 0);
    t->bytes = 0, t->channel_visits = 0;
    emit_set(t, 0x13800, 0x48880);
    emit_source_l2(t, kept, 0x160);
    return t;
}

static void lower_matmul_store_turned(emitted *t, const emit_tensor *y, int64_t base) {
    emit_tensor result = lower_matmul_rows_as_channels(y);
    emit_or(t, 0x34, 0x10000000);
    emit_store(t, &result, base, 1);
    emit_set(t, 0x4830, 0x14a);
}

static propane_status lower_matmul_constant(emitter *e, const lower_product *p, const emit_tensor *x,
                                            const emit_tensor *y, propane_error *err) {
    int64_t row = p->k * lower_matmul_channel(p->m);
    if (row + p->m * emit_channel(p->k, true) > 0x200000)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the transpose of [%lld, %lld] does not fit on chip",
                            (long long)p->m, (long long)p->k);
    emit_l2 kept = lower_matmul_stage_constant(e, p, x, 0);
    emitted *t = lower_matmul_from_staged(e, p, &kept);
    lower_matmul_store_turned(t, y, row);
    return lower_matmul_constant_lanes(e, t, p, err);
}

/* Returns the place of the first product's result as the second one's source: channels n, width m. */
static emit_l2 lower_matmul_between(const lower_product *p) {
    int64_t channel = round_up(2 * p->m, 16), row = p->n * channel;
    return (emit_l2){0, channel, row, row, 0};
}

bool lower_matmul_two_fit(const lower_product *p, const lower_product *q) {
    int64_t staged = p->k * lower_matmul_channel(p->m) + p->m * emit_channel(p->k, true);
    return p->weight && q->weight && !p->transpose_x && !q->transpose_x && p->m == q->m && p->n == q->k &&
           lower_matmul_between(p).row + staged <= 0x200000;
}

propane_status lower_matmul_two(emitter *e, const lower_product *p, const lower_product *q, const emit_tensor *x,
                                const emit_tensor *y, propane_error *err) {
    emit_l2 between = lower_matmul_between(p), kept = lower_matmul_stage_constant(e, p, x, between.row);
    emitted *t = lower_matmul_from_staged(e, p, &kept);
    emit_keep(t, &between, 0x140);
    PROPANE_TRY(lower_matmul_constant_lanes(e, t, p, err));
    t = lower_matmul_on_chip(e, q, &between, 0x120);
    lower_matmul_store_turned(t, y, between.row);
    return lower_matmul_constant_lanes(e, t, q, err);
}

/* ---- computed operands ------------------------------------------------------------------------------------------------------------- */

/* Copies x's rows, interleaved by il, to scratch memory, from which the lanes fetch them. */
static void lower_matmul_stage_rows(emitter *e, const emit_tensor *rows, const emit_tensor *to, int il) {
    bool planar = il % 4 == 0;
    emitted *t = emit_task(e, !planar);
    emit_dims(t, rows->c, 1, rows->w);
    if (planar) {
        emit_l2 at = emit_planar_l2(0, rows->c, rows->w);
        emit_set(t, 0x2c, emit_patch(1, rows->w, false));
        emit_source(t, rows, &at, 2);
        emit_store(t, to, at.row, il);
    } else {
        int64_t channel = emit_channel(rows->w, true), raw = rows->c * channel;
        emit_l2 at = {0, channel, raw, raw, raw};
        emit_set(t, 0x24, 0x14001);
        emit_active(t, 16);
        emit_source(t, rows, &at, 2);
        emit_store(t, to, raw, il);
        emit_set(t, 0xc804, 0x101c0c);
    }
    emit_set(t, 0x17800, 0x040003c1);
}

static void lower_matmul_stage_kernel(emitter *e, const lower_product *p, int il, const emit_tensor *x,
                                      int64_t scratch) {
    int64_t line = il * 2 * p->k, slab = 0xc0000 / emit_channel(p->k, false) / 16 * 16;
    emit_tensor to = {ENGINE_BAR_SCRATCH, scratch, p->m, 1, p->k, line, line, 2 * p->m * p->k};
    emit_tensor rows = lower_matmul_rows_as_channels(x);
    if (p->transpose_x) {
        emitted *t = lower_matmul_turn(e, &rows, 0, 0x31300);
        emit_store(t, &to, rows.c * emit_channel(rows.w, true), il);
        emit_set(t, 0x17800, 0x040003c1);
        return;
    }
    for (int64_t from = 0; from < p->m; from += slab) {
        emit_tensor some = rows, part = to;
        some.c = part.c = min_i64(slab, p->m - from);
        some.base += from * rows.plane;
        part.base += from / il * line;
        lower_matmul_stage_rows(e, &some, &part, il);
    }
}

/* Returns the rows of the first operand that a lane holds side by side. */
static int lower_matmul_interleave(const lower_product *p) {
    int il = 1;
    while (il < 8 && 2 * il * 16 <= p->m && p->m % (2 * il) == 0) il *= 2;
    return il;
}

/* Sets the alias bits of a transpose after the copy of a kernel: they mark which of its places the planar copy's
 * result overlaps. That result streams out line by line and occupies two lines of `line` bytes each, one being
 * written while the other leaves. [inferred from joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/rrmm_r2rr_m64_*_ty1.json: K 32 to 128, N 64 to 2,048; no program shows an effect] */
static void lower_matmul_alias(emitter *e, emitted *t, int64_t source, int64_t bytes, int64_t line) {
    const engine_task *copy = &t[-1].task;
    int64_t from = engine_get(copy, 0x4834), to = from + 2 * line;
    bool planar = e->count > 1 && !engine_get_bits(copy, 0x38, 20, 1), at_source = source < to && from < source + bytes;
    emit_set(t, 0x4804, 0x172 | (planar && at_source ? 0x400000 : 0));
    emit_set(t, 0x4830, 0x170 | (planar && !at_source ? 0x400000 : 0));
}

/* Transposes y [n, k] on chip: channels k, width n. */
static emit_l2 lower_matmul_stage_image(emitter *e, const lower_product *p, const emit_tensor *y, int64_t base,
                                        bool words) {
    int64_t channel = lower_matmul_channel(p->n), row = p->k * channel, d = round_up(2 * p->n, 64);
    emit_tensor rows = lower_matmul_rows_as_channels(y);
    emitted *t = lower_matmul_turn(e, &rows, base + row, 0);
    emit_l2 kept = {base, channel, row, row, 0};
    emit_keep(t, &kept, 0x500170);
    if (words)
        emit_result_words(t, ENGINE_BAR_SCRATCH, d, d, p->k * d);
    else
        lower_matmul_alias(e, t, base + row, p->n * emit_channel(p->k, true),
                           (int64_t)lower_matmul_interleave(p) * 2 * p->k);
    if (p->n >= 2048) emit_set(t, 0x3c, 7);
    return kept;
}

typedef struct matmul_chunk {
    int64_t first, count; /* rows of the result */
    int il, lanes;
    int bar;
    int64_t base;
} matmul_chunk;

/* If y is NULL, the caller sets the place of the result. */
static emitted *lower_matmul_compute(emitter *e, const lower_product *p, const matmul_chunk *c, const emit_tensor *y) {
    emitted *t = emit_task(e, true);
    int64_t line = (int64_t)c->il * 2 * p->k;
    emit_dims(t, p->k, 1, p->n);
    emit_out(t, c->count, 1, p->n);
    emit_or(t, 0x1c, (int64_t)emit_log2(c->il) << 10);
    emit_active(t, emit_lane_count(c->lanes));
    if (c->bar != ENGINE_BAR_CONSTANTS) {
        emit_lanes(t, c->bar, c->lanes, c->base + c->first / c->il * line, line, line);
        emit_set(t, 0xc800, 0x10082);
    }
    if (y) {
        emit_tensor part = {y->bar, y->base + c->first * y->row, c->count, 1, p->n, y->total, y->row, y->total};
        emit_store(t, &part, 0, 1);
    }
    if (p->n >= 2048 && p->transpose_y) emit_set(t, 0x3c, 7);
    if (e->subtype == ENGINE_H14 && p->n <= 64) emit_or(t, 0x34, 4);
    lower_matmul_product_words(t, p);
    return t;
}

/* Returns the number of a constant kernel's outputs per task, which make about a MiB of it. */
static int64_t lower_matmul_fixed_rows(const lower_product *p, int il) {
    int64_t least = 16 * (int64_t)il, most = (1 << 19) / p->k / least * least;
    return max_i64(least, most);
}

/* Packs rows [first, first + count) of a constant first operand as lanes in the constant section. */
static propane_status lower_matmul_fixed_lanes(emitter *e, emitted *t, const lower_product *p, int64_t first,
                                               int64_t count, int il, propane_error *err) {
    lower_kernel from = {.weight_from = p->kernel_from};
    const lower_origin *o = &from.weight_from;
    engine_kernel k = {.outputs = count, .inputs = p->k, .groups = 1, .taps = 1, .interleave = il};
    k.lanes = (int)min_i64(16, count);
    from.weight_from.start += first * o->row;
    uint16_t *rows = arena_alloc(e->arena, (size_t)(2 * count * p->k));
    if (!rows) return propane_fail_memory(err, (size_t)(2 * count * p->k));
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < p->k; j++) rows[i * p->k + j] = p->kernel[o->start + i * o->row + j * o->column];
    from.weight = rows;
    return lower_kernel_lanes(e, t, &k, &from, err);
}

static void lower_matmul_chunk_source(emitted *t, const lower_product *p, const emit_l2 *kept, bool first, bool scratch,
                                      const emit_tensor *b) {
    if (p->transpose_y) {
        if (!scratch) { /* as it was staged, with the words of its DMA */
            int64_t d = round_up(2 * p->n, 64);
            emit_tensor staged = {ENGINE_BAR_SCRATCH, 0, p->k, 1, p->n, d, d, p->k * d};
            emit_source(t, &staged, kept, 0);
            t->bytes -= staged.c * round_up(2 * p->n, 64);
            t->channel_visits = 0;
            emit_set(t, 0x13800, 0x48880);
        }
        emit_source_l2(t, kept, !scratch ? 0x160 : first ? 0x120 : 0x100);
        emit_set(t, 0x4834, kept->row);
        emit_set(t, 0x4830, 0x14a);
        return;
    }
    int64_t channel = emit_channel(p->n, true), raw = p->k * channel;
    emit_tensor image = lower_matmul_rows_as_channels(b);
    emit_l2 at = {0, channel, raw, raw, raw};
    emit_source(t, &image, &at, 2);
    emit_set(t, 0x4834, raw);
    if (scratch) emit_set(t, 0x4804, 0x172), emit_set(t, 0x4830, 0x17a);
}

/* Lowers a product whose first operand is constant: nothing is staged, and each task processes as many of its rows
 * as a kernel may have. */
static propane_status lower_matmul_fixed(emitter *e, const lower_product *p, const emit_tensor *b, const emit_tensor *y,
                                         propane_error *err) {
    int il = lower_matmul_interleave(p);
    int64_t rows = lower_matmul_fixed_rows(p, il), count;
    emit_l2 kept = {0};
    if (p->transpose_y) {
        e->scratch += round_up(2 * p->m * p->k, ENGINE_PAGE);
        kept = lower_matmul_stage_image(e, p, b, 0, true);
    }
    for (int64_t from = 0; from < p->m; from += count) {
        count = min_i64(rows, p->m - from);
        matmul_chunk c = {from, count, il, (int)min_i64(16, count), ENGINE_BAR_CONSTANTS, 0};
        emitted *t = lower_matmul_compute(e, p, &c, y);
        lower_matmul_chunk_source(t, p, &kept, from == 0, false, b);
        t->unfinished = from + count < p->m;
        PROPANE_TRY(lower_matmul_fixed_lanes(e, t, p, from, count, il, err));
    }
    return PROPANE_OK;
}

static propane_status lower_matmul_computed(emitter *e, const lower_product *p, const emit_tensor *x,
                                            const emit_tensor *b, const emit_tensor *y, propane_error *err) {
    if (p->kernel) return lower_matmul_fixed(e, p, b, y, err);
    int il = lower_matmul_interleave(p);
    bool scratch = il > 1 || p->transpose_x || x->row != 2 * p->k;
    int64_t at = e->scratch, kernel_task = e->count;
    emit_l2 kept = {0};
    if (scratch) lower_matmul_stage_kernel(e, p, il, x, at);
    if (scratch || p->transpose_y) e->scratch = at + round_up(2 * p->m * p->k, ENGINE_PAGE);
    if (p->transpose_y) kept = lower_matmul_stage_image(e, p, b, 0, !scratch);
    int64_t planes = p->m / il, whole = planes / 16 * 16, left = planes - whole, chunks = div_up(planes, 16);
    for (int64_t i = 0, from; i < chunks; i++) { /* the remainder first */
        int64_t count = left ? left : 16;
        from = left ? whole : (i - (whole < planes)) * 16;
        left = 0;
        matmul_chunk c = {
            from * il, count * il, il, (int)count, scratch ? ENGINE_BAR_SCRATCH : x->bar, scratch ? at : x->base};
        emitted *t = lower_matmul_compute(e, p, &c, y);
        lower_matmul_chunk_source(t, p, &kept, i == 0, scratch, b);
        t->unfinished = i + 1 < chunks;
        t->kernel_task = kernel_task;
    }
    return PROPANE_OK;
}

/* Returns the on-chip bytes of the second operand, including its transpose if it has one. */
static int64_t lower_matmul_image(const lower_product *p, int64_t k) {
    int64_t kernel = p->transpose_x ? k * emit_channel(p->m, true) : 0;
    int64_t image = p->transpose_y ? k * lower_matmul_channel(p->n) + p->n * emit_channel(k, true)
                                   : 2 * k * emit_channel(p->n, true);
    return max_i64(image, kernel);
}

/* ---- attention ---------------------------------------------------------------------------------------------------------------------- */

int lower_scores_interleave(int64_t m) {
    const lower_product p = {.m = m};
    int il = lower_matmul_interleave(&p);
    return il % 4 == 0 && m / il == 16 ? il : 0;
}

int64_t lower_scores_room(const lower_product *p) { return lower_matmul_image(p, p->k); }

void lower_scores(emitter *e, const lower_product *p, const emit_tensor *q, const emit_tensor *k, const emit_l2 *to) {
    int il = lower_scores_interleave(p->m);
    int64_t first = e->count, scratch = e->scratch, after = to->base + to->row;
    lower_matmul_stage_kernel(e, p, il, q, scratch);
    emit_l2 image = lower_matmul_stage_image(e, p, k, after, false);
    const matmul_chunk all = {0, p->m, il, 16, ENGINE_BAR_SCRATCH, scratch};
    emitted *t = lower_matmul_compute(e, p, &all, NULL);
    t->kernel_task = first;
    emit_source_l2(t, &image, 0x104);
    emit_keep(t, to, 0x140);
    uint32_t code = 0;
    while (code < 4 && p->n < 128 >> code) code++;
    if (e->subtype != ENGINE_H14) emit_or(t, 0x34, code << 16 | code << 12 | code << 8);
}

void lower_context(emitter *e, const lower_product *p, const emit_tensor *v, const emit_tensor *y) {
    int il = lower_scores_interleave(p->m);
    const matmul_chunk all = {0, p->m, il, 16, ENGINE_BAR_SCRATCH, e->scratch};
    emitted *t = lower_matmul_compute(e, p, &all, y);
    lower_matmul_chunk_source(t, p, NULL, true, true, v);
    t->kernel_task = e->count - 2;
    /* v overlaps what the previous planar task still reads, and the result overlaps what it wrote [inferred; no
     * program shows an effect] */
    emit_set(t, 0x4804, 0x100172);
    emit_set(t, 0x4830, 0x40017a);
}

/* Splits a long inner dimension into parts and adds their results in memory (each sum is rounded to fp16). */
static propane_status lower_matmul_in_parts(emitter *e, const lower_product *p, const emit_tensor *x,
                                            const emit_tensor *b, const emit_tensor *y, propane_error *err) {
    int64_t parts = 1;
    while (parts < p->k && lower_matmul_image(p, div_up(p->k, parts)) > MATMUL_ROOM) parts++;
    if (p->relu || p->k / parts < 16 || p->scale != 0x3c00)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the second operand, [%lld, %lld], does not fit on chip",
                            (long long)p->k, (long long)p->n);
    emit_tensor part = *y;
    part.bar = ENGINE_BAR_SCRATCH;
    part.base = e->scratch;
    e->scratch += round_up(y->total, ENGINE_PAGE);
    for (int64_t i = 0, from = 0; i < parts; i++) {
        lower_product q = *p;
        emit_tensor xi = *x, bi = *b;
        int64_t scratch = e->scratch;
        q.k = (p->k - from) / (parts - i);
        q.kernel_from.start += from * p->kernel_from.column;
        xi.base += from * (p->transpose_x ? x->row : 2);
        bi.base += from * (p->transpose_y ? 2 : b->row);
        xi.h = p->transpose_x ? q.k : x->h, xi.w = p->transpose_x ? x->w : q.k;
        bi.h = p->transpose_y ? b->h : q.k, bi.w = p->transpose_y ? q.k : b->w;
        PROPANE_TRY(lower_matmul_computed(e, &q, &xi, &bi, i ? &part : y, err));
        if (i) PROPANE_TRY(lower_binary(e, LOWER_ADD, y, &part, false, y, err));
        e->scratch = max_i64(scratch, e->scratch);
        from += q.k;
    }
    return PROPANE_OK;
}

propane_status lower_matmul(emitter *e, const lower_product *p, const emit_tensor *x, const emit_tensor *b,
                            const emit_tensor *y, propane_error *err) {
    if (p->weight)
        return p->transpose_x ? lower_matmul_constant_plain(e, p, x, y, err) : lower_matmul_constant(e, p, x, y, err);
    return lower_matmul_image(p, p->k) > MATMUL_ROOM ? lower_matmul_in_parts(e, p, x, b, y, err)
                                                     : lower_matmul_computed(e, p, x, b, y, err);
}
