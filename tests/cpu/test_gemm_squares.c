/* SPDX-License-Identifier: MIT
 * The sum of squares that a matrix product returns for its result, against the sum over the stored result. Covers sizes
 * below, at and above a tile, several blocks and passes, additions to C, and C in other layouts. 1, 2 and 3 threads
 * must produce the same bits.
 *
 * Bound: 2e-6 of the sum, for chains of at most 33 additions in fp32. Observed: 3.1e-8.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "cpu/gemm/gemm.h"
#include "support/test.h"

enum { MOST = 300, MOST_K = 2200, FORMS = 8 };

typedef struct arena3 {
    float *a, *b, *c, *residual;
} arena3;

static const int64_t sizes[] = {1, 2, 12, 14, 15, 28, 31, 32, 33, 48, 64, 65, 97, 300};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static double sum_of(const cpu_gemm *g) {
    double sum = 0;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            double x = (double)((const float *)g->c.data)[i * g->c.row_stride + j * g->c.col_stride];
            sum += x * x;
        }
    return sum;
}

/* `form` bits: 1 adds to C, 2 adds something else, 4 stores C by columns. Every fifth C has gaps in both directions. */
static double run(const arena3 *x, cpu_isa isa, bool bf16, int64_t m, int64_t n, int64_t k, int form, float scale,
                  double *want) {
    double squares = -1;
    cpu_gemm g = {.kernels = cpu_kernels_of(isa),
                  .bf16 = bf16,
                  .m = m,
                  .n = n,
                  .k = k,
                  .batch = 1,
                  .alpha = scale,
                  .squares = &squares};
    const bool gaps = (m + n + form) % 5 == 0;
    g.a = (cpu_matrix){.data = x->a, .row_stride = k, .col_stride = 1};
    g.b = (cpu_matrix){.data = x->b, .row_stride = 1, .col_stride = k};
    g.c = (cpu_matrix){.data = x->c, .row_stride = n, .col_stride = 1};
    if (form & 4) g.c.row_stride = 1, g.c.col_stride = m;
    if (gaps) g.c.row_stride *= 2, g.c.col_stride *= 2;
    cpu_matrix residual = g.c;
    residual.data = x->residual;
    g.accumulate = form & 1;
    if (form & 2) g.residual = &residual;
    for (int64_t i = 0; i < 4 * m * n; i++) x->c[i] = (float)(i % 7) * 0.5f * scale;
    size_t bytes = cpu_gemm_scratch_bytes(&g, pool_threads());
    char *scratch = mem_pages_alloc(bytes + 64);
    EXPECT(scratch);
    memset(scratch, 0xff, bytes);
    memset(scratch + bytes, 0x5a, 64);
    cpu_gemm_run(&g, scratch);
    for (int i = 0; i < 64; i++) EXPECT(scratch[bytes + (size_t)i] == 0x5a);
    mem_pages_free(scratch, bytes + 64);
    *want = sum_of(&g);
    return squares;
}

static void open_arena(arena3 *x) {
    rng r;
    rng_init(&r, 3);
    *x = (arena3){mem_array(MOST * MOST_K, 4), mem_array(MOST * MOST_K, 4), mem_array(4 * MOST * MOST, 4),
                  mem_array(4 * MOST * MOST, 4)};
    EXPECT(x->a && x->b && x->c && x->residual);
    for (int64_t i = 0; i < MOST * MOST_K; i++)
        x->a[i] = (float)(rng_unit(&r) * 2 - 1), x->b[i] = (float)(rng_unit(&r) * 2 - 1);
    for (int64_t i = 0; i < 4 * MOST * MOST; i++) x->residual[i] = (float)rng_unit(&r);
}

static void close_arena(arena3 *x) { mem_free(x->a), mem_free(x->b), mem_free(x->c), mem_free(x->residual); }

typedef struct sums {
    double one[CPU_ISA_COUNT][SIZES][FORMS]; /* results with one thread */
    double worst;
} sums;

static void with_isa(const arena3 *x, cpu_isa isa, int threads, sums *s) {
    static const int64_t ks[] = {5, 64, 1100, 33};
    for (int i = 0; i < SIZES; i++)
        for (int form = 0; form < FORMS; form++) {
            const int64_t m = sizes[i], n = sizes[(i * 5 + form * 3) % SIZES], k = ks[(i + form) % 4];
            double want, got = run(x, isa, form == 3 || form == 4, m, n, k, form, 1, &want);
            EXPECT_MSG(fabs(got - want) <= 2e-6 * want, "%s %dx%dx%d form %d: %.9g, want %.9g", cpu_isa_name(isa),
                       (int)m, (int)n, (int)k, form, got, want);
            s->worst = fmax(s->worst, fabs(got - want) / want);
            if (threads == 1) s->one[isa][i][form] = got;
            EXPECT_MSG(got == s->one[isa][i][form], "%s %dx%dx%d form %d: %d threads give other bits than 1",
                       cpu_isa_name(isa), (int)m, (int)n, (int)k, form, threads);
        }
}

TEST(sizes_and_forms) {
    static sums s;
    propane_error err = {0};
    arena3 x;
    open_arena(&x);
    for (int threads = 1; threads <= 3; threads++) {
        pool_stop();
        EXPECT_OK(pool_set_threads(threads, &err));
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
            if (cpu_isa_available((cpu_isa)isa)) with_isa(&x, (cpu_isa)isa, threads, &s);
    }
    if (getenv("TEST_VERBOSE")) printf("largest error: %.2g of the sum\n", s.worst);
    close_arena(&x);
}

/* Values that fp32 cannot hold must not look like a valid sum. */
TEST(too_large_and_not_a_number) {
    arena3 x;
    open_arena(&x);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available((cpu_isa)isa)) continue;
        for (int edge = 0; edge < 2; edge++) {
            double want, got = run(&x, (cpu_isa)isa, false, 64 + edge, 64 + edge, 64, 0, 1e25f, &want);
            EXPECT(isfinite(want) && want > 1e40 && !(got < 1e38));
            const float kept = x.a[130];
            x.a[130] = NAN;
            got = run(&x, (cpu_isa)isa, false, 64 + edge, 64 + edge, 64, 0, 1, &want);
            EXPECT(isnan(want) && isnan(got));
            x.a[130] = kept;
        }
    }
    close_arena(&x);
}

TEST(nothing) {
    arena3 x;
    double want;
    open_arena(&x);
    EXPECT(run(&x, cpu_isa_best(), false, 40, 50, 0, 0, 1, &want) == 0 && want == 0); /* k = 0 */
    EXPECT(run(&x, cpu_isa_best(), false, 0, 50, 8, 0, 1, &want) == 0);
    close_arena(&x);
}

SUITE("cpu gemm squares", T(sizes_and_forms), T(too_large_and_not_a_number), T(nothing))
