/* SPDX-License-Identifier: MIT
 * Matrix products against sums in double. Covers every layout, dtype, residual and batch form, sizes around the tiles
 * and blocks, misaligned memory, and all instruction sets of this machine. 1, 2 and 3 threads must produce the same
 * bits.
 *
 * Bound per element: (k + 8) eps sum |a||b|, and the rounding of stored results. Observed: at most 0.23 of that bound
 * with fp32 results (the error of a chain of k sums grows like sqrt(k), not k), 1.0 with fp16 results (half a unit in
 * the last place).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "cpu/gemm/gemm.h"
#include "support/test.h"

typedef enum layout { ROWS, COLS, ODD, SAME, LAYOUTS } layout; /* SAME: stride 0 in one direction */

typedef struct plan {
    int64_t m, n, k, batch;
    layout a, b, c;
    cpu_dtype a_type, b_type, c_type;
    float alpha;
    bool own_residual; /* C itself is the addend */
    bool accumulate, residual, bf16, pointers, share_a, share_b, pack_a, pack_b;
} plan;

typedef struct storage {
    cpu_matrix matrix;
    void *memory; /* the whole memory, with a margin */
    int64_t elements;
    const void *items[16];
} storage;

enum { MARGIN = 7 };

static float load(const cpu_matrix *x, int64_t item, int64_t i, int64_t j) {
    const void *data = x->batch ? x->batch[item] : x->data;
    int64_t at = i * x->row_stride + j * x->col_stride + (x->batch ? 0 : item * x->batch_stride);
    return x->dtype == CPU_F16 ? fp16_to_f32(((const uint16_t *)data)[at]) : ((const float *)data)[at];
}

/* Fills with random numbers in (-1, 1); memory begins at an odd element. */
static void make(storage *s, rng *r, int64_t rows, int64_t cols, int64_t batch, layout l, cpu_dtype dtype, bool shared,
                 bool pointers, bool is_c) {
    cpu_matrix *x = &s->matrix;
    *x = (cpu_matrix){.dtype = dtype};
    int64_t gap = (int64_t)rng_below(r, 3);
    if (is_c && l == SAME) l = ODD;
    switch (l) {
    case ROWS: x->row_stride = cols + gap, x->col_stride = 1; break;
    case COLS: x->row_stride = 1, x->col_stride = rows + gap; break;
    case ODD: x->row_stride = 2 * cols + 1, x->col_stride = 2; break;
    default: x->row_stride = gap ? 0 : 1, x->col_stride = gap ? 1 : 0; break;
    }
    int64_t item = (rows > 0 ? rows - 1 : 0) * x->row_stride + (cols > 0 ? cols - 1 : 0) * x->col_stride + 1;
    x->batch_stride = shared ? 0 : item + gap;
    s->elements = (shared ? 0 : (batch > 0 ? batch - 1 : 0) * x->batch_stride) + item + 2 * MARGIN;
    s->memory = mem_array((size_t)s->elements, 4);
    EXPECT(s->memory);
    for (int64_t i = 0; i < s->elements; i++) {
        float v = (float)(rng_unit(r) * 2 - 1);
        if (dtype == CPU_F16)
            ((uint16_t *)s->memory)[i] = fp16_from_f32(v);
        else
            ((float *)s->memory)[i] = v;
    }
    x->data = (char *)s->memory + MARGIN * (dtype == CPU_F16 ? 2 : 4);
    if (pointers) {
        for (int64_t b = 0; b < batch; b++)
            s->items[b] = (const char *)x->data + b * x->batch_stride * (dtype == CPU_F16 ? 2 : 4);
        x->batch = s->items;
        x->data = NULL;
    }
}

static uint64_t hash(const void *data, size_t bytes) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    return h;
}

typedef struct work {
    storage a, b, c, residual;
    void *before; /* C's original memory */
    bool own_residual;
} work;

/* sum_k a b and sum_k |a b| of every element, in double. All instruction sets multiply the same matrices, so it is
 * computed only once. */
typedef struct products {
    double *sum, *magnitude; /* [item][i][j]; NULL before they are computed */
} products;

static void load_in_double(const cpu_gemm *g, const cpu_matrix *x, int64_t item, int64_t rows, int64_t cols,
                           double *out) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            float v = load(x, item, i, j);
            out[i * cols + j] = (double)(g->bf16 ? bf16_to_f32(bf16_from_f32(v)) : v);
        }
}

static void multiply_in_double(const cpu_gemm *g, const work *w, products *out) {
    const size_t count = (size_t)(g->batch * g->m * g->n);
    double *a = mem_array((size_t)(g->m * g->k) + 1, sizeof *a), *b = mem_array((size_t)(g->k * g->n) + 1, sizeof *b);
    out->sum = mem_array(count + 1, sizeof(double)), out->magnitude = mem_array(count + 1, sizeof(double));
    EXPECT(a && b && out->sum && out->magnitude);
    memset(out->sum, 0, count * sizeof(double)), memset(out->magnitude, 0, count * sizeof(double));
    for (int64_t item = 0; item < g->batch; item++) {
        load_in_double(g, &w->a.matrix, item, g->m, g->k, a);
        load_in_double(g, &w->b.matrix, item, g->k, g->n, b);
        for (int64_t i = 0; i < g->m; i++) {
            double *sum = out->sum + (item * g->m + i) * g->n, *magnitude = out->magnitude + (item * g->m + i) * g->n;
            for (int64_t k = 0; k < g->k; k++)
                for (int64_t j = 0; j < g->n; j++) {
                    const double product = a[i * g->k + k] * b[k * g->n + j];
                    sum[j] += product;
                    magnitude[j] += fabs(product);
                }
        }
    }
    mem_free(a), mem_free(b);
}

static void products_free(products *p) {
    mem_free(p->sum), mem_free(p->magnitude);
    *p = (products){0};
}

/* Returns the largest error as a fraction of its bound. Elements between those of C must not change. */
static double check(const cpu_gemm *g, const work *w, products *reference, const char *what) {
    double worst = 0;
    int64_t size = g->c.dtype == CPU_F16 ? 2 : 4;
    if (!reference->sum) multiply_in_double(g, w, reference);
    for (int64_t item = 0; item < g->batch; item++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                const int64_t element = (item * g->m + i) * g->n + j;
                double sum = reference->sum[element], magnitude = reference->magnitude[element];
                sum *= (double)g->alpha, magnitude *= fabs((double)g->alpha);
                cpu_matrix old = g->c;
                int64_t offset = (const char *)(g->c.batch ? g->c.batch[item] : g->c.data) - (const char *)w->c.memory;
                int64_t at =
                    offset / size + i * old.row_stride + j * old.col_stride + (old.batch ? 0 : item * old.batch_stride);
                double was = (double)(size == 2 ? fp16_to_f32(((uint16_t *)w->before)[at]) : ((float *)w->before)[at]);
                double terms[2] = {g->accumulate ? was : 0, w->own_residual ? was
                                                            : g->residual
                                                                ? (double)load(&w->residual.matrix, item, i, j)
                                                                : 0};
                for (int t = 0; t < 2; t++) sum += terms[t], magnitude += fabs(terms[t]);
                double got = (double)load(&g->c, item, i, j), error = fabs(got - sum);
                double bound =
                    (double)(g->k + 8) * 0x1p-24 * magnitude + (size == 2 ? fabs(sum) * 0x1p-11 + 0x1p-25 : 0) + 1e-30;
                EXPECT_MSG(error <= bound * 1.001, "%s item %d (%d,%d): %.9g, want %.9g (bound %.3g)", what, (int)item,
                           (int)i, (int)j, got, sum, bound);
                if (error / bound > worst) worst = error / bound;
                if (size == 2)
                    ((uint16_t *)w->before)[at] = ((uint16_t *)w->c.memory)[at];
                else
                    ((float *)w->before)[at] = ((float *)w->c.memory)[at];
            }
    EXPECT_MSG(memcmp(w->before, w->c.memory, (size_t)(w->c.elements * size)) == 0, "%s: writes between C's elements",
               what);
    return worst;
}

static void name_of(const plan *p, cpu_isa isa, char *text, size_t size) {
    snprintf(text, size, "%s%s %dx%dx%d batch %d%s a %d/%d%s b %d/%d%s c %d/%d alpha %g%s%s", cpu_isa_name(isa),
             p->bf16 ? " bf16" : "", (int)p->m, (int)p->n, (int)p->k, (int)p->batch, p->pointers ? " by pointer" : "",
             p->a, p->a_type, p->pack_a ? " packed" : "", p->b, p->b_type, p->pack_b ? " packed" : "", p->c, p->c_type,
             (double)p->alpha, p->accumulate ? " accumulate" : "", p->residual ? " residual" : "");
}

/* Runs the plan with the pool's threads and returns the hash of C. With a reference, C is checked. */
static uint64_t run(const plan *p, cpu_isa isa, uint64_t seed, products *reference, double *worst) {
    char what[256];
    name_of(p, isa, what, sizeof what);
    rng r;
    rng_init(&r, seed);
    work w = {.own_residual = false};
    make(&w.a, &r, p->m, p->k, p->batch, p->a, p->a_type, p->share_a, p->pointers, false);
    make(&w.b, &r, p->k, p->n, p->batch, p->b, p->b_type, p->share_b, p->pointers, false);
    make(&w.c, &r, p->m, p->n, p->batch, p->c, p->c_type, false, p->pointers, true);
    cpu_gemm g = {.kernels = cpu_kernels_of(isa),
                  .bf16 = p->bf16,
                  .m = p->m,
                  .n = p->n,
                  .k = p->k,
                  .batch = p->batch,
                  .a = w.a.matrix,
                  .b = w.b.matrix,
                  .c = w.c.matrix,
                  .alpha = p->alpha,
                  .accumulate = p->accumulate};
    if (p->residual) {
        make(&w.residual, &r, p->m, p->n, p->batch, p->c, p->a_type, false, false, true);
        g.residual = &w.residual.matrix;
    }
    cpu_matrix own = g.c;
    if (p->own_residual) g.residual = &own, w.own_residual = true;
    size_t size = g.c.dtype == CPU_F16 ? 2 : 4, pack_bytes[2] = {0, 0};
    w.before = mem_array((size_t)w.c.elements, 4);
    EXPECT(w.before);
    memcpy(w.before, w.c.memory, (size_t)w.c.elements * size);
    void *packed[2] = {NULL, NULL};
    for (int side = 0; side < 2; side++) {
        if (!(side ? p->pack_b : p->pack_a)) continue;
        pack_bytes[side] = cpu_gemm_pack_bytes(&g, (cpu_gemm_side)side);
        if (!pack_bytes[side]) continue;
        packed[side] = mem_pages_alloc(pack_bytes[side]);
        EXPECT(packed[side]);
        cpu_gemm_pack(&g, (cpu_gemm_side)side, packed[side]);
    }
    g.a.packed = packed[0], g.b.packed = packed[1];
    size_t bytes = cpu_gemm_scratch_bytes(&g, pool_threads());
    char *scratch = mem_pages_alloc(bytes + 64);
    EXPECT(scratch);
    memset(scratch, 0xff, bytes); /* NaN, so that scratch that is read before it is written shows */
    memset(scratch + bytes, 0x5a, 64);
    uint64_t allocations = mem_alloc_count();
    cpu_gemm next = g; /* prefetching for it must change nothing */
    next.m = (next.m + 1) / 2;
    if (seed % 2) g.next = &next;
    cpu_gemm_run(&g, scratch);
    EXPECT_MSG(mem_alloc_count() == allocations || pool_threads() > 1, "%s allocates", what);
    for (int i = 0; i < 64; i++) EXPECT_MSG(scratch[bytes + (size_t)i] == 0x5a, "%s: writes beyond its scratch", what);
    uint64_t h = hash(w.c.memory, (size_t)w.c.elements * size);
    if (reference) {
        double e = check(&g, &w, reference, what);
        if (e > *worst && g.c.dtype == CPU_F32) *worst = e;
    }
    mem_pages_free(scratch, bytes + 64);
    for (int side = 0; side < 2; side++)
        if (packed[side]) mem_pages_free(packed[side], pack_bytes[side]);
    mem_free(w.a.memory), mem_free(w.b.memory), mem_free(w.c.memory), mem_free(w.residual.memory), mem_free(w.before);
    return h;
}

/* Runs all plans with 1 thread against the reference, all with 2 threads and every fourth with 3: the same bits. */
static void with_threads(const plan *p, int count) {
    propane_error err = {0};
    double worst = 0;
    uint64_t *first = mem_array((size_t)count * CPU_ISA_COUNT, sizeof *first);
    EXPECT(first);
    for (int threads = 1; threads <= 3; threads++) {
        if (pool_threads() != threads) {
            pool_stop();
            EXPECT_OK(pool_set_threads(threads, &err));
        }
        for (int i = 0; i < count; i += threads == 3 ? 4 : 1) {
            products reference = {0};
            for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
                if (!cpu_isa_available((cpu_isa)isa)) continue;
                uint64_t h = run(&p[i], (cpu_isa)isa, (uint64_t)i + 1, threads == 1 ? &reference : NULL, &worst),
                         *one = &first[i * CPU_ISA_COUNT + isa];
                char what[256];
                name_of(&p[i], (cpu_isa)isa, what, sizeof what);
                if (threads == 1)
                    *one = h;
                else
                    EXPECT_MSG(h == *one, "%s: %d threads give other bits than 1", what, threads);
            }
            products_free(&reference);
        }
    }
    if (getenv("TEST_VERBOSE")) printf("largest error of fp32 results: %.3f of its bound\n", worst);
    mem_free(first);
}

/* The three shapes of training and their layouts, at sizes below, at and above tile and vector sizes. */
TEST(sizes) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 31, 32, 33, 48, 65};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    plan p[SIZES * 6];
    int count = 0;
    for (int i = 0; i < SIZES; i++)
        for (int form = 0; form < 6; form++)
            p[count++] = (plan){.m = sizes[i],
                                .n = sizes[(i * 7 + form * 3) % SIZES],
                                .k = sizes[(i * 5 + form) % SIZES],
                                .batch = 1,
                                .alpha = 1,
                                .a = form & 1 ? COLS : ROWS,
                                .b = form & 2 ? COLS : ROWS,
                                .accumulate = form > 3};
    with_threads(p, count);
}

static plan random_plan(rng *r, int64_t most) {
    plan p = {.m = 1 + (int64_t)rng_below(r, (uint64_t)most),
              .n = 1 + (int64_t)rng_below(r, (uint64_t)most),
              .k = (int64_t)rng_below(r, (uint64_t)most),
              .batch = 1};
    if (rng_below(r, 3) == 0) p.batch = 2 + (int64_t)rng_below(r, 5);
    if (rng_below(r, 6) == 0) p.n = 1;
    if (rng_below(r, 6) == 0) p.m = 1;
    p.a = (layout)rng_below(r, LAYOUTS), p.b = (layout)rng_below(r, LAYOUTS), p.c = (layout)rng_below(r, LAYOUTS);
    p.a_type = (cpu_dtype)rng_below(r, 2), p.b_type = (cpu_dtype)rng_below(r, 2), p.c_type = (cpu_dtype)rng_below(r, 2);
    p.alpha = rng_below(r, 2) ? 1.0f : -0.375f;
    p.accumulate = rng_below(r, 3) == 0;
    p.residual = rng_below(r, 2);
    p.bf16 = rng_below(r, 3) == 0;
    p.pointers = rng_below(r, 4) == 0;
    p.share_a = rng_below(r, 3) == 0, p.share_b = rng_below(r, 3) == 0;
    bool a_once = p.batch == 1 || (p.share_a && !p.pointers), b_once = p.batch == 1 || (p.share_b && !p.pointers);
    p.pack_a = a_once && rng_below(r, 3) == 0, p.pack_b = b_once && rng_below(r, 3) == 0;
    return p;
}

TEST(everything_mixed) {
    enum { COUNT = 200 };
    static plan p[COUNT];
    rng r;
    rng_init(&r, 11);
    for (int i = 0; i < COUNT; i++) p[i] = random_plan(&r, 70);
    with_threads(p, COUNT);
}

/* More than one block of k (1024), with results that can and cannot hold partial sums. */
TEST(long_sums) {
    plan p[24];
    int count = 0;
    for (int form = 0; form < 12; form++)
        p[count++] = (plan){.m = 13 + form * 7,
                            .n = 37,
                            .k = 1000 + form * 110,
                            .batch = form % 3 == 2 ? 3 : 1,
                            .alpha = 0.5f,
                            .a = form & 1 ? COLS : ROWS,
                            .b = form & 2 ? COLS : ROWS,
                            .c = form % 5 == 4 ? ODD : ROWS,
                            .c_type = form & 4 ? CPU_F16 : CPU_F32,
                            .accumulate = form % 4 == 3,
                            .residual = form % 5 == 0,
                            .bf16 = form % 6 == 5,
                            .pack_a = form % 8 == 1 && form % 3 != 2,
                            .pack_b = form % 8 == 3 && form % 3 != 2};
    with_threads(p, count);
}

/* Addends that the tiles add in the first block of k as they write C. Covers whole tiles and edges, one and several
 * blocks of k, items by stride and by pointer, and C itself. Also covers cases in which that is impossible (alpha,
 * fp16). */
TEST(residuals) {
    static const int64_t m[] = {12, 14, 28, 45}, n[] = {32, 37, 64}, k[] = {3, 64, 1030, 2100};
    plan p[4 * 3 * 4 + 4];
    int count = 0;
    for (int i = 0; i < 4 * 3 * 4; i++)
        p[count++] = (plan){.m = m[i % 4],
                            .n = n[i / 4 % 3],
                            .k = k[i / 12],
                            .batch = 1 + i % 3 % 2,
                            .alpha = 1,
                            .a = i & 1 ? COLS : ROWS,
                            .share_a = i % 5 == 0,
                            .pointers = i % 7 < 3,
                            .residual = i % 4 != 3,
                            .own_residual = i % 4 == 3};
    for (int i = 0; i < 4; i++)
        p[count++] = (plan){.m = 30,
                            .n = 70,
                            .k = 1500,
                            .batch = 2,
                            .alpha = i == 0 ? 0.5f : 1,
                            .a_type = i == 1 ? CPU_F16 : CPU_F32,
                            .c = i == 2 ? COLS : ROWS,
                            .accumulate = i == 3,
                            .residual = true};
    with_threads(p, count);
}

/* Large enough for several blocks and tasks in each direction, and attention's batches. */
TEST(blocks) {
    static const plan p[] = {
        {.m = 300, .n = 520, .k = 70, .batch = 1, .alpha = 1},
        {.m = 700, .n = 90, .k = 65, .batch = 1, .alpha = 1, .b = COLS},
        {.m = 300, .n = 290, .k = 64, .batch = 1, .alpha = 1, .a = COLS, .pack_a = true},
        {.m = 400, .n = 100, .k = 64, .batch = 1, .alpha = 1, .pack_b = true, .c_type = CPU_F16},
        {.m = 400, .n = 120, .k = 64, .batch = 2, .alpha = 1, .share_a = true},
        {.m = 120, .n = 300, .k = 64, .batch = 2, .alpha = 1, .share_b = true},
        {.m = 128, .n = 128, .k = 48, .batch = 12, .alpha = 0.125f, .a = COLS},
        {.m = 48, .n = 128, .k = 128, .batch = 12, .alpha = 1, .b = COLS},
        {.m = 270, .n = 280, .k = 270, .batch = 2, .alpha = 1},
    };
    with_threads(p, sizeof p / sizeof p[0]);
}

/* A with contiguous columns, in several blocks over enough columns of B: tiles copy the next block's words on the fly.
 * Full and last panels, parts of k that are and are not whole blocks, several passes, and rounded operands. */
TEST(passing) {
    static const plan p[] = {
        {.m = 336, .n = 256, .k = 64, .batch = 1, .alpha = 1, .a = COLS},
        {.m = 391, .n = 261, .k = 48, .batch = 1, .alpha = 0.5f, .a = COLS, .a_type = CPU_F16, .residual = true},
        {.m = 340, .n = 261, .k = 71, .batch = 1, .alpha = 1, .a = COLS, .accumulate = true},
        {.m = 340, .n = 256, .k = 32, .batch = 2, .alpha = 1, .a = COLS, .share_b = true, .residual = true},
        {.m = 330, .n = 256, .k = 48, .batch = 1, .alpha = 1, .a = COLS, .bf16 = true},
        {.m = 337, .n = 200, .k = 1040, .batch = 1, .alpha = 1, .a = COLS, .residual = true},
        /* Passes of equal length, which continue into the next. */
        {.m = 341, .n = 200, .k = 1088, .batch = 1, .alpha = 1, .a = COLS},
        {.m = 341, .n = 200, .k = 1088, .batch = 2, .alpha = 1, .a = COLS, .share_b = true},
        /* Blocks of more panels than a tile copies. */
        {.m = 350, .n = 1040, .k = 272, .batch = 1, .alpha = 1, .a = COLS},
    };
    with_threads(p, sizeof p / sizeof p[0]);
}

/* A with contiguous rows, in multiples of four k: the first tiles pack it from fp32 or fp16, and the last panel is
 * packed before. */
TEST(copying) {
    static const plan p[] = {
        {.m = 336, .n = 128, .k = 64, .batch = 1, .alpha = 1},
        {.m = 336, .n = 128, .k = 64, .batch = 1, .alpha = 1, .a_type = CPU_F16},
        {.m = 341, .n = 133, .k = 4, .batch = 1, .alpha = 0.5f, .a_type = CPU_F16, .accumulate = true},
        {.m = 341, .n = 133, .k = 8, .batch = 2, .alpha = 1, .a_type = CPU_F16, .share_b = true, .residual = true},
        {.m = 300, .n = 64, .k = 1300, .batch = 1, .alpha = 1, .a_type = CPU_F16, .residual = true},
        {.m = 300, .n = 64, .k = 1302, .batch = 1, .alpha = 1, .a_type = CPU_F16},
    };
    with_threads(p, sizeof p / sizeof p[0]);
}

/* B with contiguous rows and a stationary A: the first tiles pack it, from fp32 or fp16, for both forms of A. Covers
 * edges in columns, a single panel of A, several passes and items, and k that is not a multiple of four. */
TEST(copying_columns) {
    static const int64_t k[] = {64, 4, 1300, 66}, m[] = {60, 61, 14}, n[] = {336, 341};
    plan p[48];
    int count = 0;
    for (int i = 0; i < 48; i++)
        p[count++] = (plan){.m = m[i % 3],
                            .n = n[i / 3 % 2],
                            .k = k[i / 12],
                            .batch = 1 + i % 4 / 3,
                            .alpha = i % 5 ? 1 : 0.5f,
                            .a = i & 1 ? COLS : ROWS,
                            .a_type = (cpu_dtype)(i >> 2 & 1),
                            .b_type = (cpu_dtype)(i >> 1 & 1),
                            .share_a = true,
                            .accumulate = i % 7 == 3,
                            .residual = i % 7 == 4 || i % 7 == 5,
                            .bf16 = i % 11 == 10};
    with_threads(p, count);
}

/* Items that share A, with their B side by side. Covers each layout of A and B, edges in rows and columns of each item,
 * several passes, pointers, and what happens to C item by item. */
TEST(side_by_side) {
    plan p[24];
    int count = 0;
    for (int i = 0; i < 24; i++)
        p[count++] = (plan){.m = i % 4 == 0 ? 300 : 90 + 7 * i,
                            .n = i % 3 == 0 ? 64 : 33 + i,
                            .k = i % 8 == 7 ? 1100 : 30 + 16 * (i % 3),
                            .batch = 2 + i % 3,
                            .alpha = i % 5 ? 1 : 0.5f,
                            .a = (layout)(i & 1),
                            .b = (layout)(i >> 1 & 1),
                            .b_type = (cpu_dtype)(i % 7 == 3),
                            .c_type = (cpu_dtype)(i % 9 == 4),
                            .share_a = true,
                            .pointers = i % 6 == 5,
                            .residual = i % 6 == 1 || i % 8 == 3,
                            .accumulate = i % 6 == 2};
    with_threads(p, count);
}

TEST(vectors) {
    plan p[64];
    int count = 0;
    for (int form = 0; form < 32; form++)
        p[count++] = (plan){.m = form & 1 ? 1 : 333 + form,
                            .n = form & 1 ? 333 + form : 1,
                            .k = 100 + 37 * form,
                            .batch = form % 5 == 4 ? 3 : 1,
                            .alpha = 1,
                            .a = (layout)(form >> 1 & 1),
                            .b = (layout)(form >> 2 & 1),
                            .a_type = (cpu_dtype)(form >> 3 & 1),
                            .b_type = (cpu_dtype)(form >> 4 & 1),
                            .bf16 = form % 7 == 6,
                            .residual = form % 6 == 5,
                            .accumulate = form % 3 == 2,
                            .pack_a = form % 4 == 3};
    with_threads(p, count);
}

TEST(empty) {
    static const plan p[] = {{.m = 0, .n = 5, .k = 5, .batch = 1, .alpha = 1},
                             {.m = 5, .n = 0, .k = 5, .batch = 1, .alpha = 1},
                             {.m = 5, .n = 5, .k = 0, .batch = 1, .alpha = 1},
                             {.m = 5, .n = 5, .k = 5, .batch = 0, .alpha = 1},
                             {.m = 5, .n = 5, .k = 0, .batch = 1, .alpha = 1, .accumulate = true, .residual = true},
                             {.m = 1, .n = 5, .k = 0, .batch = 1, .alpha = 1, .c_type = CPU_F16}};
    with_threads(p, sizeof p / sizeof p[0]);
}

/* A zero does not hide its factor: 0 * inf is NaN, and stays in its row and column. */
TEST(infinities) {
    enum { N = 40 };
    float a[N * N], b[N * N], c[N * N];
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available((cpu_isa)isa)) continue;
        for (int i = 0; i < N * N; i++) a[i] = 1, b[i] = i % N == 3 ? 0.0f : 1.0f;
        a[5 * N + 7] = INFINITY;
        cpu_gemm g = {.kernels = cpu_kernels_of((cpu_isa)isa),
                      .m = N,
                      .n = N,
                      .k = N,
                      .batch = 1,
                      .a = {.data = a, .row_stride = N, .col_stride = 1},
                      .b = {.data = b, .row_stride = N, .col_stride = 1},
                      .c = {.data = c, .row_stride = N, .col_stride = 1},
                      .alpha = 1};
        size_t bytes = cpu_gemm_scratch_bytes(&g, pool_threads());
        void *scratch = mem_pages_alloc(bytes);
        EXPECT(scratch);
        cpu_gemm_run(&g, scratch);
        for (int i = 0; i < N * N; i++) {
            int row = i / N, col = i % N;
            if (row == 5 && col == 3)
                EXPECT(c[i] != c[i]);
            else
                EXPECT(c[i] == (row == 5 ? INFINITY : col == 3 ? 0.0f : (float)N));
        }
        mem_pages_free(scratch, bytes);
    }
}

TEST(instruction_sets) {
    propane_error err = {0};
    cpu_isa isa;
    setenv("PROPANE_ISA", "plain", 1);
    EXPECT_OK(cpu_isa_current(&isa, &err));
    EXPECT(isa == CPU_ISA_PLAIN);
    setenv("PROPANE_ISA", "", 1);
    EXPECT_OK(cpu_isa_current(&isa, &err));
    EXPECT(isa == cpu_isa_best() && cpu_isa_available(isa));
    setenv("PROPANE_ISA", "mmx", 1);
    EXPECT_FAIL(cpu_isa_current(&isa, &err), PROPANE_ERR_INVALID, "PROPANE_ISA=mmx: unknown instruction set");
    for (int i = 0; i < CPU_ISA_COUNT; i++) {
        setenv("PROPANE_ISA", cpu_isa_name((cpu_isa)i), 1);
        if (cpu_isa_available((cpu_isa)i))
            EXPECT_OK(cpu_isa_current(&isa, &err));
        else
            EXPECT_FAIL(cpu_isa_current(&isa, &err), PROPANE_ERR_UNSUPPORTED, "this machine does not support it");
    }
}

/* k in separate pieces, in any order, equals one product after the other. Bound: 1e-6 of the sum of magnitudes, which
 * is at most k. Observed: 1.3e-6 for k = 288. */
static void check_pieces(cpu_isa isa, int64_t m, int64_t n, int64_t piece, bool turn_a, bool turn_b) {
    enum { PIECES = 3 };
    int64_t k = piece * PIECES, order[PIECES] = {2, 0, 1}, at_a[PIECES], at_b[PIECES];
    float *a = mem_array((size_t)(m * k), 4), *b = mem_array((size_t)(k * n), 4), *c = mem_array((size_t)(m * n), 4);
    EXPECT(a && b && c);
    rng r;
    rng_init(&r, (uint64_t)(m + n + k));
    for (int64_t i = 0; i < m * k; i++) a[i] = (float)(rng_unit(&r) * 2 - 1);
    for (int64_t i = 0; i < k * n; i++) b[i] = (float)(rng_unit(&r) * 2 - 1);
    for (int i = 0; i < PIECES; i++) at_a[i] = order[i] * m * piece * 4, at_b[i] = order[i] * n * piece * 4;
    cpu_gemm g = {.kernels = cpu_kernels_of(isa), .m = m, .n = n, .k = k, .piece = piece, .batch = 1, .alpha = 1};
    g.a = (cpu_matrix){.data = a, .row_stride = turn_a ? 1 : piece, .col_stride = turn_a ? m : 1, .pieces = at_a};
    g.b = (cpu_matrix){.data = b, .row_stride = turn_b ? 1 : n, .col_stride = turn_b ? piece : 1, .pieces = at_b};
    g.c = (cpu_matrix){.data = c, .row_stride = n, .col_stride = 1};
    size_t bytes = cpu_gemm_scratch_bytes(&g, pool_threads());
    void *scratch = mem_pages_alloc(bytes + 64);
    cpu_gemm_run(&g, scratch);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < PIECES; p++)
                for (int64_t l = 0; l < piece; l++)
                    sum += (double)a[p * m * piece + (turn_a ? l * m + i : i * piece + l)] *
                           (double)b[p * n * piece + (turn_b ? j * piece + l : l * n + j)];
            double error = fabs((double)c[i * n + j] - sum);
            EXPECT_MSG(error <= 1e-6 * (double)k, "isa %d %dx%dx%d: off by %g", (int)isa, (int)m, (int)n, (int)k,
                       error);
        }
    mem_pages_free(scratch, bytes + 64);
    mem_free(a), mem_free(b), mem_free(c);
}

TEST(pieces) {
    static const int64_t sizes[] = {2, 13, 40, 100};
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int i = 0; cpu_isa_available((cpu_isa)isa) && i < 64; i++)
            check_pieces((cpu_isa)isa, sizes[i % 4], sizes[i / 4 % 4], i & 16 ? 96 : 512, i & 32, i & 8);
}

SUITE("cpu gemm", T(sizes), T(everything_mixed), T(long_sums), T(residuals), T(blocks), T(passing), T(copying),
      T(copying_columns), T(side_by_side), T(vectors), T(empty), T(infinities), T(pieces), T(instruction_sets))
