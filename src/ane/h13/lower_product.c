/* SPDX-License-Identifier: MIT
 * Lowers products of two computed operands, and products whose first operand is constant. The first operand is the
 * kernel of a 1x1 convolution, and the second operand its image. A kernel with several rows per lane is first copied to
 * scratch memory with its rows interleaved. Batches are staged together, as rows of one task, and multiplied one after
 * the other (joshuaswarren/mil-hwx-compiler research/oracles/h13/batched).
 */
#include "ane/h13/kernel.h"
#include "ane/h13/lower_matmul.h"
#include "core/base/int_math.h"

enum {
    PRODUCT_ROOM = 0x1ff000, /* usable bytes of the on-chip buffer */
    PRODUCT_APPLE_ROWS = 512 /* published programs show which operand is the kernel for up to this many rows */
};

/* ---- the kernel --------------------------------------------------------------------------------------------------- */

/* The kernel: the addresses from which lanes fetch the rows of the first operand. */
typedef struct product_kernel {
    int bar, il;              /* `il` is the number of rows that a lane holds side by side */
    int64_t base, line;       /* `line` is the number of bytes of a lane */
    int64_t lane_step, batch; /* bytes from lane to lane and from batch to batch */
    int64_t task;             /* index of the task that staged the kernel */
    bool staged, planar;      /* `planar`: staged by the planar engine */
} product_kernel;

/* Returns how many rows of the first operand a lane holds side by side: the largest power of two up to 8 with which
 * every task uses all lanes, or else one. An even number of at least 32 rows gets two instead of one
 * (joshuaswarren/mil-hwx-compiler research/oracles/h13/rrmm_r2rr_m48_*, ..._m96_*, ..._m192_*). For more rows than
 * published programs show, the largest power of two up to 8 that divides the rows. */
static int lower_product_interleave(const lower_product *p) {
    enum { MOST = 8 };
    int il = 1, lanes = p->m > PRODUCT_APPLE_ROWS ? 1 : ENGINE_LANES;
    while (il < MOST && p->m % (2 * il * lanes) == 0) il *= 2;
    return il == 1 && p->m >= 2 * ENGINE_LANES && p->m % 2 == 0 ? 2 : il;
}

/* Copies `rows` to scratch memory at `to`, with `il` rows interleaved. The planar engine copies a kernel that a single
 * task uses, and the neural engine any other (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/rrmm_r2rr_m128_k64_n64_tx0_ty0.json, ..._m256_*, ..._m96_*). */
static void lower_product_stage_rows(emitter *e, const emit_tensor *rows, const emit_tensor *to, int il, bool planar) {
    emitted *t = emit_task(e, !planar);
    int64_t channel = emit_channel(rows->w, true), raw = rows->c * channel;
    emit_l2 at = {0, channel, raw, raw, raw};
    if (planar) at = emit_planar_l2(0, rows->c, rows->w);
    int64_t tile = emit_tile(rows->h, at.row, 1);
    emit_dims(t, rows->c, rows->h, rows->w);
    emit_set(t, 0x28, tile);
    emit_source(t, rows, &at, 2);
    emit_store(t, to, tile * at.row, il);
    emit_set(t, 0x17800, 0x040003c1);
    if (planar) {
        emit_set(t, 0x2c, emit_patch(rows->h, rows->w, false));
        return;
    }
    emit_set(t, 0x24, 0x14001);
    emit_active(t, 16);
    emit_set(t, 0xc804, 0x101c0c);
}

/* Transposes `rows` and stores the result as the kernel. On H13, a result with one row per lane is first assembled on
 * chip if it fits. */
static void lower_product_stage_turned(emitter *e, const emit_tensor *rows, const emit_tensor *to, int il) {
    int64_t code = emit_shape(rows->h, rows->w);
    int64_t channel = round_up(2 * rows->c, 16), row = rows->w * channel;
    emitted *t = lower_matmul_turn(e, rows, 0, rows->h > 1 ? code << 16 | code << 12 | code << 8 : 0x31300);
    int64_t base = engine_get(&t->task, 0x28) * rows->c * emit_channel(rows->w, true);
    emit_store(t, to, base, il);
    emit_set(t, 0x17800, 0x040003c1);
    bool known = e->subtype != ENGINE_H14; /* no published program for H14 shows a result that is assembled on chip */
    if (!known || il > 1 || base + rows->h * row > ENGINE_BUFFER) return;
    emit_l2 kept = {base, channel, row, row, row};
    emit_set(t, 0x17800, 0x3c1);
    emit_keep(t, &kept, 0x500172);
}

/* Stages the kernels of all batches of x in scratch memory, unless lanes can fetch the rows of x itself. */
static product_kernel lower_product_stage_kernel(emitter *e, const lower_product *p, const emit_tensor *x) {
    int il = lower_product_interleave(p);
    product_kernel k = {.bar = x->bar, .il = il, .base = x->base, .line = (int64_t)il * 2 * p->k, .task = e->count};
    k.staged = il > 1 || p->transpose_x || x->row != 2 * p->k;
    k.lane_step = x->row, k.batch = x->plane;
    if (!k.staged) return k;
    k.bar = ENGINE_BAR_SCRATCH, k.base = e->scratch;
    k.lane_step = x->c * k.line, k.batch = k.line;
    k.planar = p->m == ENGINE_LANES * il && x->c == 1 && !p->transpose_x;
    int64_t bytes = 2 * p->m * p->k * x->c, slab = 0xc0000 / emit_channel(p->k, !k.planar) / 16 * 16;
    emit_tensor to = {k.bar, k.base, p->m, x->c, p->k, k.line, k.lane_step, bytes};
    emit_tensor rows = lower_matmul_rows_as_channels(x);
    e->scratch += round_up(bytes, ENGINE_PAGE);
    if (p->transpose_x) {
        lower_product_stage_turned(e, &rows, &to, il);
        return k;
    }
    for (int64_t from = 0; from < p->m; from += slab) {
        emit_tensor some = rows, part = to;
        some.c = part.c = min_i64(slab, p->m - from);
        some.base += from * rows.plane;
        part.base += from / il * k.lane_step;
        lower_product_stage_rows(e, &some, &part, il, k.planar);
    }
    return k;
}

/* ---- the image ---------------------------------------------------------------------------------------------------- */

/* The second operand as [inputs, rows, pixels]: in memory, or transposed on chip at `kept`. */
typedef struct product_image {
    emit_tensor memory;
    emit_l2 kept;
    int64_t rows, end; /* `end` is the first byte after everything on chip */
    bool on_chip, words, first;
} product_image;

/* Sets the alias bits of a task that follows a planar task. The planar result streams out line by line and occupies two
 * lines of `line` bytes: one is written while the other leaves. If the task's source overlaps the planar result, the
 * source's word gets OVER_RESULT. Otherwise the result's word gets OVER_RESULT, and the source's word gets OVER_SOURCE
 * if the source overlaps the planar task's source. [inferred from joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/rrmm_r2rr_m32_*, ..._m64_*_ty1, ..._m128_*: K 32 to 128, N 32 to 2,048, and chain_attn_s64_dh64;
 * no program shows an effect] */
static void lower_product_alias(emitter *e, emitted *t, int64_t source, int64_t bytes, int64_t line) {
    enum { OVER_SOURCE = 0x100000, OVER_RESULT = 0x400000 };
    const engine_task *copy = &t[-1].task;
    if (e->count < 2 || engine_get_bits(copy, 0x38, 20, 1)) return;
    int64_t from = engine_get(copy, 0x4834), to = from + 2 * line, first = engine_get(copy, 0x4808);
    int64_t last = first + (int64_t)engine_get(copy, 0x28) * engine_get(copy, 0x4810);
    bool result = source < to && from < source + bytes, over = source < last && first < source + bytes;
    emit_or(t, 0x4804, result ? OVER_RESULT : over ? OVER_SOURCE : 0);
    emit_or(t, 0x4830, result ? 0 : OVER_RESULT);
}

/* Transposes the batches of y, each [n, k], on chip starting at `base`, to k channels of width n. */
static product_image lower_product_stage_image(emitter *e, const lower_product *p, const emit_tensor *y, int64_t base,
                                               bool staged) {
    int64_t channel = lower_matmul_channel(p->n), row = p->k * channel, d = round_up(2 * p->n, 64);
    emit_tensor rows = lower_matmul_rows_as_channels(y);
    product_image image = {.kept = {base, channel, row, row, 0}, .rows = y->c, .end = base + y->c * row};
    image.on_chip = image.first = true;
    image.words = !staged && y->c == 1;
    emitted *t = lower_matmul_turn(e, &rows, image.end, 0);
    emit_keep(t, &image.kept, 0x500170);
    if (image.words)
        emit_result_words(t, ENGINE_BAR_SCRATCH, d, d, p->k * d);
    else if (staged) {
        emit_set(t, 0x4804, 0x172);
        emit_set(t, 0x4830, 0x170);
        lower_product_alias(e, t, image.end, p->n * emit_channel(p->k, true),
                            (int64_t)lower_product_interleave(p) * 2 * p->k);
    }
    if (p->n >= 2048) emit_set(t, 0x3c, 7);
    return image;
}

/* Sets the source of a product whose image is on chip. */
static void lower_product_source_on_chip(emitted *t, const lower_product *p, product_image *image) {
    if (image->words) { /* the image as it was staged, including the words of its DMA */
        int64_t d = round_up(2 * p->n, 64);
        emit_tensor staged = {ENGINE_BAR_SCRATCH, 0, p->k, 1, p->n, d, d, p->k * d};
        emit_source(t, &staged, &image->kept, 0);
        t->bytes -= staged.c * d;
        t->channel_visits = 0;
        emit_set(t, 0x13800, 0x48880);
    }
    emit_source_l2(t, &image->kept, image->words ? 0x160 : image->first ? 0x120 : 0x100);
    emit_set(t, 0x4834, image->end);
    emit_set(t, 0x4830, 0x14a);
}

/* Sets the source of a product whose image is in memory. If `more` is set, the image stays on chip for further tasks,
 * provided it fits (joshuaswarren/mil-hwx-compiler research/oracles/h13/rrmm_r2rr_m256_k64_n64_tx0_ty0.json). */
static void lower_product_source_memory(emitter *e, emitted *t, const lower_product *p, product_image *image,
                                        const product_kernel *k, bool more) {
    int64_t channel = emit_channel(p->n, true), wide = round_up(2 * p->n, 16), raw = p->k * channel;
    bool keep = more && image->rows * p->k * wide + 2 * ENGINE_LANES * wide <= ENGINE_BUFFER;
    if (keep) channel = wide, raw = p->k * wide;
    emit_l2 at = {0, channel, raw, raw, raw};
    int64_t tile = keep ? image->rows : emit_tile(image->rows, raw, 1);
    emit_set(t, 0x28, tile);
    emit_source(t, &image->memory, &at, keep ? 1 : 2);
    emit_set(t, 0x4834, tile * raw);
    if (k && k->staged) emit_set(t, 0x4804, keep ? 0x171 : 0x172), emit_set(t, 0x4830, 0x17a);
    if (k && k->planar) lower_product_alias(e, t, 0, tile * raw, k->line);
    if (!keep) return;
    image->on_chip = true;
    at.group = 0;
    image->kept = at;
    image->end = tile * raw;
}

/* Sets the source of a product. `k` is NULL for a constant kernel. `more` means that further tasks have the same
 * source. */
static void lower_product_source(emitter *e, emitted *t, const lower_product *p, product_image *image,
                                 const product_kernel *k, bool more) {
    if (image->on_chip)
        lower_product_source_on_chip(t, p, image);
    else
        lower_product_source_memory(e, t, p, image, k, more);
    image->first = false;
}

/* ---- the product -------------------------------------------------------------------------------------------------- */

/* Rows of the result: `count` rows starting at `first`. */
typedef struct product_chunk {
    int64_t first, count;
    int il, lanes;
} product_chunk;

/* Makes the task that computes chunk `c` of the result from an image of `rows` rows. The caller sets kernel, source and
 * result. */
static emitted *lower_product_task(emitter *e, const lower_product *p, const product_chunk *c, int64_t rows) {
    emitted *t = emit_task(e, true);
    emit_dims(t, p->k, rows, p->n);
    emit_out(t, c->count, rows, p->n);
    emit_or(t, 0x1c, (int64_t)emit_log2(c->il) << 10);
    emit_active(t, emit_lane_count(c->lanes));
    if (p->n >= 2048 && p->transpose_y) emit_set(t, 0x3c, 7);
    if (e->subtype == ENGINE_H14 && p->n <= 64) emit_or(t, 0x34, 4);
    lower_matmul_product_words(t, p);
    return t;
}

static void lower_product_lanes(emitted *t, const product_kernel *k, const product_chunk *c) {
    emit_lanes(t, k->bar, c->lanes, k->base + c->first / k->il * k->lane_step, k->lane_step, k->line);
    emit_set(t, 0xc800, 0x10082);
    t->kernel_task = k->task;
}

/* Stores a chunk as rows of y, [batches, m, n], or, if `turned`, as columns of y, [1, n, m]. */
static void lower_product_store(emitted *t, const emit_tensor *y, const product_chunk *c, bool turned) {
    emit_tensor part = lower_matmul_rows_as_channels(y);
    if (turned)
        part.base += 2 * c->first, part.w = c->count;
    else
        part.base += c->first * y->row, part.c = c->count;
    emit_store(t, &part, 0, 1);
    if (turned) emit_or(t, 0x34, 0x10000000);
}

/* Returns the number of lanes of the task that computes the last of `planes` groups of rows: the largest power of two
 * up to 16 that divides `planes`. */
static int64_t lower_product_last(int64_t planes) {
    int64_t left = planes % ENGINE_LANES;
    return left ? left & -left : ENGINE_LANES;
}

static int64_t lower_product_task_count(const lower_product *p) {
    int64_t planes = p->m / lower_product_interleave(p), count = 0;
    for (; planes; planes -= lower_product_last(planes)) count++;
    return count;
}

/* Multiplies one kernel by an image, each row of which is a batch of y. The tasks compute the last rows of the result
 * first (joshuaswarren/mil-hwx-compiler research/oracles/h13/batched/bmm_r3rr_m375_k128_n749_tx1_ty0_b8.json). */
static void lower_product_one(emitter *e, const lower_product *p, const product_kernel *k, product_image *image,
                              const emit_tensor *y, bool turned) {
    for (int64_t planes = p->m / k->il, count; planes; planes -= count) {
        count = lower_product_last(planes);
        const product_chunk c = {(planes - count) * k->il, count * k->il, k->il, (int)count};
        emitted *t = lower_product_task(e, p, &c, image->rows);
        lower_product_lanes(t, k, &c);
        lower_product_store(t, y, &c, turned);
        lower_product_source(e, t, p, image, k, planes > count);
        t->unfinished = planes > count;
    }
}

/* Returns batches [first, first + count) of x. If x is a single matrix, returns x, which serves all batches. */
static emit_tensor lower_product_batches(const emit_tensor *x, int64_t first, int64_t count) {
    emit_tensor part = *x;
    if (x->c == 1) return part;
    part.base += first * x->plane;
    part.c = count;
    return part;
}

static product_image lower_product_image_memory(const emit_tensor *b) {
    return (product_image){.memory = lower_matmul_rows_as_channels(b), .rows = b->c};
}

/* Returns how many transposed batches fit on chip at a time. */
static int64_t lower_product_group(const lower_product *p, int64_t batches) {
    int64_t row = p->k * lower_matmul_channel(p->n), source = p->n * emit_channel(p->k, true);
    return max_i64(1, min_i64(batches, (PRODUCT_ROOM - source) / row));
}

/* Transposes the images of a group of batches on chip and multiplies the batches, the last batch first. A single image
 * serves all batches. */
static void lower_product_group_of_images(emitter *e, const lower_product *p, const product_kernel *k,
                                          const emit_tensor *b, const emit_tensor *y, int64_t first) {
    int64_t count = b->c == 1 ? y->c : b->c;
    product_image all = lower_product_stage_image(e, p, b, 0, k->staged);
    for (int64_t i = count; i-- > 0;) {
        product_kernel one = *k;
        product_image image = all;
        emit_tensor to = lower_product_batches(y, first + i, 1);
        one.base += (first + i) * k->batch;
        image.rows = 1;
        image.first = i == count - 1;
        image.kept.base += b->c == 1 ? 0 : i * all.kept.row;
        lower_product_one(e, p, &one, &image, &to, false);
    }
}

/* Multiplies one kernel by the images of all batches, which form the rows of one image. */
static void lower_product_shared(emitter *e, const lower_product *p, const product_kernel *k, const emit_tensor *b,
                                 const emit_tensor *y) {
    int64_t group = p->transpose_y ? lower_product_group(p, b->c) : b->c;
    for (int64_t first = 0; first < b->c; first += group) {
        int64_t count = min_i64(group, b->c - first);
        emit_tensor some = lower_product_batches(b, first, count), to = lower_product_batches(y, first, count);
        product_image image =
            p->transpose_y ? lower_product_stage_image(e, p, &some, 0, k->staged) : lower_product_image_memory(&some);
        lower_product_one(e, p, k, &image, &to, false);
    }
}

/* Multiplies batch by batch, the last batch first. */
static void lower_product_batched(emitter *e, const lower_product *p, const product_kernel *k, const emit_tensor *b,
                                  const emit_tensor *y) {
    int64_t group = p->transpose_y ? lower_product_group(p, b->c) : 1, count = p->transpose_y ? b->c : y->c;
    for (int64_t i = div_up(count, group); i-- > 0;) {
        emit_tensor some = lower_product_batches(b, i * group, min_i64(group, count - i * group));
        if (p->transpose_y) {
            lower_product_group_of_images(e, p, k, &some, y, i * group);
            continue;
        }
        product_kernel one = *k;
        product_image image = lower_product_image_memory(&some);
        emit_tensor to = lower_product_batches(y, i, 1);
        one.base += i * k->batch;
        lower_product_one(e, p, &one, &image, &to, false);
    }
}

static void lower_product_plain(emitter *e, const lower_product *p, const emit_tensor *x, const emit_tensor *b,
                                const emit_tensor *y) {
    int64_t scratch = e->scratch;
    product_kernel k = lower_product_stage_kernel(e, p, x);
    if (p->transpose_y && y->c == 1 && !k.staged) e->scratch = scratch + round_up(2 * p->m * p->k, ENGINE_PAGE);
    if (x->c == 1 && y->c > 1)
        lower_product_shared(e, p, &k, b, y);
    else
        lower_product_batched(e, p, &k, b, y);
}

/* ---- the second operand as the kernel ------------------------------------------------------------------------------ */

/* Returns the product's transpose: y' = b' x'. */
static lower_product lower_product_transposed(const lower_product *p) {
    lower_product q = *p;
    q.m = p->n, q.n = p->m;
    q.transpose_x = !p->transpose_y, q.transpose_y = !p->transpose_x;
    return q;
}

/* Returns the on-chip bytes that the second operand needs, including its transpose if there is one. If the transpose of
 * the first operand needs more, returns those bytes instead. */
static int64_t lower_product_room(const lower_product *p, int64_t k) {
    int64_t kernel = p->transpose_x ? k * emit_channel(p->m, true) : 0;
    int64_t image = p->transpose_y ? k * lower_matmul_channel(p->n) + p->n * emit_channel(k, true)
                                   : 2 * k * emit_channel(p->n, true);
    return max_i64(image, kernel);
}

/* Returns how many pixels of the image of the transposed product q a task can process: a multiple of 32. Returns 0 if q
 * has at most 32 pixels, or 32 pixels do not fit. */
static int64_t lower_product_columns(const lower_product *q) {
    enum { UNIT = 32 };
    lower_product some = *q;
    for (int64_t parts = 1; some.n > UNIT; parts++) {
        some.n = round_up(div_up(q->n, parts), UNIT);
        if (lower_product_room(&some, q->k) <= PRODUCT_ROOM) return some.n;
    }
    return 0;
}

/* Returns whether the transposed product takes fewer tasks: a second operand with few columns is a smaller kernel than
 * the first operand. The result is transposed back when it is stored, like the result of a product with a constant. [No
 * published program has both a computed kernel and a transposed result] */
static bool lower_product_exchange(const lower_product *p, const emit_tensor *y) {
    lower_product q = lower_product_transposed(p);
    if (p->kernel || y->c > 1 || p->m <= PRODUCT_APPLE_ROWS) return false;
    int64_t columns = lower_product_columns(&q), plain = 1 + p->transpose_y + lower_product_task_count(p);
    if (!columns) return false;
    return 1 + div_up(q.n, columns) * (q.transpose_y + lower_product_task_count(&q)) < plain;
}

static void lower_product_exchanged(emitter *e, const lower_product *p, const emit_tensor *x, const emit_tensor *b,
                                    const emit_tensor *y) {
    lower_product q = lower_product_transposed(p);
    int64_t columns = lower_product_columns(&q), all = q.n;
    product_kernel k = lower_product_stage_kernel(e, &q, b);
    for (int64_t from = 0; from < all; from += columns) {
        emit_tensor image_part = *x, to = *y;
        q.n = to.h = min_i64(columns, all - from);
        to.base += from * y->row;
        image_part.base += from * (q.transpose_y ? x->row : 2);
        if (q.transpose_y)
            image_part.h = q.n;
        else
            image_part.w = q.n;
        product_image image = q.transpose_y ? lower_product_stage_image(e, &q, &image_part, 0, k.staged)
                                            : lower_product_image_memory(&image_part);
        lower_product_one(e, &q, &k, &image, &to, true);
    }
}

/* ---- a constant first operand --------------------------------------------------------------------------------------- */

/* Returns how many outputs of a constant kernel a task computes. Their weights take about 1 MiB. */
static int64_t lower_product_fixed_rows(const lower_product *p, int il) {
    int64_t least = 16 * (int64_t)il, most = (1 << 19) / p->k / least * least;
    return max_i64(least, most);
}

/* Packs the rows of chunk `c` of a constant first operand as lanes in the constant section. */
static propane_status lower_product_fixed_lanes(emitter *e, emitted *t, const lower_product *p, const product_chunk *c,
                                                propane_error *err) {
    lower_kernel from = {.weight_from = p->kernel_from};
    const lower_origin *o = &from.weight_from;
    engine_kernel k = {.outputs = c->count, .inputs = p->k, .groups = 1, .taps = 1, .interleave = c->il};
    k.lanes = c->lanes;
    from.weight_from.start += c->first * o->row;
    uint16_t *rows = arena_alloc(e->arena, (size_t)(2 * c->count * p->k));
    if (!rows) return propane_fail_memory(err, (size_t)(2 * c->count * p->k));
    for (int64_t i = 0; i < c->count; i++)
        for (int64_t j = 0; j < p->k; j++) rows[i * p->k + j] = p->kernel[o->start + i * o->row + j * o->column];
    from.weight = rows;
    return lower_kernel_lanes(e, t, &k, &from, err);
}

/* Lowers a product whose first operand is constant. The kernel is not staged, each task uses as many of its rows as
 * lower_product_fixed_rows allows, and batches are the rows of an image. */
static propane_status lower_product_fixed(emitter *e, const lower_product *p, const emit_tensor *b,
                                          const emit_tensor *y, propane_error *err) {
    int il = lower_product_interleave(p);
    int64_t rows = lower_product_fixed_rows(p, il), group = p->transpose_y ? lower_product_group(p, b->c) : b->c;
    if (p->transpose_y) e->scratch += round_up(2 * p->m * p->k, ENGINE_PAGE);
    for (int64_t first = 0; first < b->c; first += group) {
        int64_t batches = min_i64(group, b->c - first), count;
        emit_tensor some = lower_product_batches(b, first, batches), to = lower_product_batches(y, first, batches);
        product_image image =
            p->transpose_y ? lower_product_stage_image(e, p, &some, 0, false) : lower_product_image_memory(&some);
        for (int64_t from = 0; from < p->m; from += count) {
            count = min_i64(rows, p->m - from);
            const product_chunk c = {from, count, il, (int)min_i64(ENGINE_LANES, count)};
            emitted *t = lower_product_task(e, p, &c, image.rows);
            lower_product_store(t, &to, &c, false);
            lower_product_source(e, t, p, &image, NULL, from + count < p->m);
            t->unfinished = from + count < p->m;
            PROPANE_TRY(lower_product_fixed_lanes(e, t, p, &c, err));
        }
    }
    return PROPANE_OK;
}

/* ---- all products --------------------------------------------------------------------------------------------------- */

static propane_status lower_product_whole(emitter *e, const lower_product *p, const emit_tensor *x,
                                          const emit_tensor *b, const emit_tensor *y, propane_error *err) {
    if (p->kernel) return lower_product_fixed(e, p, b, y, err);
    if (lower_product_exchange(p, y))
        lower_product_exchanged(e, p, x, b, y);
    else
        lower_product_plain(e, p, x, b, y);
    return PROPANE_OK;
}

/* Splits a long inner dimension into parts and adds their results in memory (each sum is rounded to fp16). */
static propane_status lower_product_in_parts(emitter *e, const lower_product *p, const emit_tensor *x,
                                             const emit_tensor *b, const emit_tensor *y, propane_error *err) {
    int64_t parts = 1;
    while (parts < p->k && lower_product_room(p, div_up(p->k, parts)) > PRODUCT_ROOM) parts++;
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
        q.k = (p->k - from) / (parts - i);
        q.kernel_from.start += from * p->kernel_from.column;
        xi.base += from * (p->transpose_x ? x->row : 2);
        bi.base += from * (p->transpose_y ? 2 : b->row);
        xi.h = p->transpose_x ? q.k : x->h, xi.w = p->transpose_x ? x->w : q.k;
        bi.h = p->transpose_y ? b->h : q.k, bi.w = p->transpose_y ? q.k : b->w;
        PROPANE_TRY(lower_product_whole(e, &q, &xi, &bi, i ? &part : y, err));
        if (i) PROPANE_TRY(lower_binary(e, LOWER_ADD, y, &part, false, y, err));
        from += q.k;
    }
    return PROPANE_OK;
}

propane_status lower_matmul(emitter *e, const lower_product *p, const emit_tensor *x, const emit_tensor *b,
                            const emit_tensor *y, propane_error *err) {
    if (p->weight) return lower_matmul_by_constant(e, p, x, y, err);
    lower_product q = *p;
    emit_tensor rows = *x, result = *y;
    if (b->c == 1 && x->c > 1 && !p->transpose_x) { /* the batches are rows of one matrix */
        q.m = rows.h = result.h = x->c * p->m;
        rows.c = result.c = 1;
        rows.plane = rows.total, result.plane = result.total;
    }
    return lower_product_room(&q, q.k) > PRODUCT_ROOM ? lower_product_in_parts(e, &q, &rows, b, &result, err)
                                                      : lower_product_whole(e, &q, &rows, b, &result, err);
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

int lower_scores_interleave(int64_t m) {
    const lower_product p = {.m = m};
    int il = lower_product_interleave(&p);
    return il % 4 == 0 && m / il == ENGINE_LANES ? il : 0;
}

int64_t lower_scores_room(const lower_product *p) { return lower_product_room(p, p->k); }

void lower_scores(emitter *e, const lower_product *p, const emit_tensor *q, const emit_tensor *k, const emit_l2 *to) {
    const int64_t scratch = e->scratch;
    product_kernel kernel = lower_product_stage_kernel(e, p, q);
    product_image image = lower_product_stage_image(e, p, k, to->base + to->row, true);
    const product_chunk all = {0, p->m, kernel.il, 16};
    emitted *t = lower_product_task(e, p, &all, 1);
    lower_product_lanes(t, &kernel, &all);
    emit_source_l2(t, &image.kept, 0x104);
    emit_keep(t, to, 0x140);
    uint32_t code = 0;
    while (code < 4 && p->n < 128 >> code) code++;
    if (e->subtype != ENGINE_H14) emit_or(t, 0x34, code << 16 | code << 12 | code << 8);
    e->scratch = scratch; /* the caller reserves the same memory for the probabilities */
}

void lower_context(emitter *e, const lower_product *p, const emit_tensor *v, const emit_tensor *y) {
    int il = lower_scores_interleave(p->m);
    int64_t line = (int64_t)il * 2 * p->k;
    const product_chunk all = {0, p->m, il, 16};
    const product_kernel kernel = {ENGINE_BAR_SCRATCH, il, e->scratch, line, line, line, e->count - 1, true, true};
    product_image image = lower_product_image_memory(v);
    emitted *t = lower_product_task(e, p, &all, 1);
    lower_product_lanes(t, &kernel, &all);
    lower_product_store(t, y, &all, false);
    lower_product_source(e, t, p, &image, &kernel, false);
}
