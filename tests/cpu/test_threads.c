/* SPDX-License-Identifier: MIT
 * The option `threads` limits every kind of step: programs run on a pool of three threads with kernels that count how
 * many threads are inside at once. A kernel waits a while for the others, so that the observed number is the allowed
 * number. The bits are the same for any number.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "cpu/plan/plan.h"
#include "lm/arch/quantize.h"
#include "support/test.h"

enum { POOL = 3, WAITS = 60, WAIT_NS = 20000000 };

static const cpu_kernels *real; /* called by the counting kernels */
static atomic_int inside, most, waits;

static void enter(void) {
    int now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
    while (seen < now && !atomic_compare_exchange_weak(&most, &seen, now)) {
    }
    if (atomic_load(&most) >= POOL || atomic_fetch_add(&waits, 1) >= WAITS) return;
    const int64_t end = clock_ns() + WAIT_NS;
    while (atomic_load(&most) < POOL && clock_ns() < end) sched_yield();
}

static void leave(void) { atomic_fetch_sub(&inside, 1); }

#define COUNTED(name, member, parameters, arguments)                                                                   \
    static void name parameters {                                                                                      \
        enter();                                                                                                       \
        real->member arguments;                                                                                        \
        leave();                                                                                                       \
    }
#define TALLEST (real->gemm.mr / real->gemm.row_step - 1)
#define TILE_PARAMETERS                                                                                                \
    (const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add, const gemm_next *fetch)
COUNTED(count_tile, gemm.tiles[TALLEST], TILE_PARAMETERS, (a, b, kw, c, ldc, alpha, add, fetch))
COUNTED(count_quads, gemm.quad_tiles[TALLEST], TILE_PARAMETERS, (a, b, kw, c, ldc, alpha, add, fetch))
COUNTED(count_rows, gemm.dot_rows,
        (float *y, const void *w, cpu_dtype dtype, int64_t stride, const float *x, int64_t rows, int64_t k, bool round),
        (y, w, dtype, stride, x, rows, k, round))
COUNTED(count_columns, attention.columns,
        (float *s, int64_t rows, int64_t first, float *largest, float *sums, float *factor),
        (s, rows, first, largest, sums, factor))
COUNTED(count_scores, attention_decode.scores,
        (float *s, const float *q, const void *k, bool half, int64_t row, int64_t width, const int32_t *keys,
         const float *add, int64_t count),
        (s, q, k, half, row, width, keys, add, count))
COUNTED(count_gemv, gemv.tiles[CPU_WEIGHTS_BF16][0],
        (float *y, const void *w, const uint16_t *scales, const float *x, int64_t step, int64_t k, int rows),
        (y, w, scales, x, step, k, rows))

static cpu_kernels counting(void) {
    cpu_kernels k = *real;
    k.gemm.pack_a_tile = k.gemm.pack_a_tile_f16 = NULL; /* so that a tile computes */
    k.gemm.pack_next_tile = k.gemm.pack_next_tile_f16 = NULL;
    for (int i = 0; i < 2; i++) k.gemm.pack_b_tile[i] = k.gemm.pack_b_tile_f16[i] = NULL;
    k.gemm.tiles[TALLEST] = count_tile;
    k.gemm.quad_tiles[TALLEST] = count_quads;
    k.gemm.dot_rows = count_rows;
    k.attention.columns = count_columns;
    k.attention_decode.scores = count_scores;
    k.gemv.tiles[CPU_WEIGHTS_BF16][0] = count_gemv;
    return k;
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static mil_value *param(mil_builder *b, const char *name, int rank, const int64_t *dim) {
    return mil_build_param(b, name, mil_type_tensor(MIL_fp32, rank, dim));
}
#define DIM(...)                                                                                                       \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static void build_product(mil_builder *b) {
    mil_value *x = param(b, "x", DIM(560, 256)), *y = param(b, "y", DIM(256, 192));
    mil_build_result(b, mil_build_matmul(b, x, y, false, false));
}

/* Items that share no operand are whole tasks. */
static void build_items(mil_builder *b) {
    mil_value *x = param(b, "x", DIM(24, 84, 64)), *y = param(b, "y", DIM(24, 64, 64));
    mil_build_result(b, mil_build_matmul(b, x, y, false, false));
}

static void build_vector(mil_builder *b) {
    mil_value *x = param(b, "x", DIM(1, 512)), *y = param(b, "y", DIM(2048, 512));
    mil_build_result(b, mil_build_matmul(b, x, y, false, true));
}

static void build_gemv(mil_builder *b) {
    mil_value *w = model_pack_build(b, MODEL_BF16, MIL_fp32, "w", 1024, 512);
    mil_build_result(b, mil_build_matmul(b, w, param(b, "x", DIM(512, 1)), false, false));
}

static void build_attention(mil_builder *b) {
    mil_value *q = param(b, "q", DIM(6, 128, 32)), *k = param(b, "k", DIM(6, 128, 32)),
              *v = param(b, "v", DIM(6, 128, 32));
    mil_value *p = mil_build_softmax(b, mil_build_matmul(b, q, k, false, true), 2);
    mil_build_result(b, mil_build_matmul(b, p, v, false, false));
}

static void build_decode(mil_builder *b) {
    mil_value *q = param(b, "q", DIM(6, 1, 32)), *k = param(b, "k", DIM(6, 128, 32)),
              *v = param(b, "v", DIM(6, 128, 32));
    mil_value *mask = param(b, "mask", DIM(1, 1, 128));
    mil_value *scores = mil_build_binary(b, MIL_OP_add, mil_build_matmul(b, q, k, false, true), mask);
    mil_build_result(b, mil_build_matmul(b, mil_build_softmax(b, scores, 2), v, false, false));
}

static const struct {
    const char *name;
    void (*build)(mil_builder *b);
} programs[] = {{"a product", build_product},           {"items of a batch", build_items},
                {"a row times a matrix", build_vector}, {"weights in bf16", build_gemv},
                {"attention", build_attention},         {"attention behind a mask", build_decode}};

/* Returns how many threads were in a kernel at once; `out` is the result of the run. */
static int run(size_t index, int threads, void *out, size_t bytes) {
    propane_error err = {0};
    mil_module *module = mil_module_create("threads");
    mil_builder b = {0};
    const char *name = programs[index].name;
    cpu_program *p = NULL;
    arena *a = arena_create();
    void *inputs[8];
    rng r;
    const cpu_kernels kernels = counting();
    rng_init(&r, 3);
    EXPECT(a && module);
    mil_build_begin(&b, module, "main", MIL_IOS18);
    programs[index].build(&b);
    EXPECT_OK(mil_build_end(&b, &err));
    const mil_function *f = b.function;
    const cpu_plan_options o = {.kernels = &kernels, .threads = threads, .fuse = true};
    if (cpu_plan_compile(f, &o, a, &p, &err)) ck_abort_msg("%s: %s", name, err.text);
    for (int i = 0; i < f->param_count; i++) {
        const mil_type *t = &f->params[i]->type;
        const int64_t count = mil_type_count(t);
        double *data = ARENA_ARRAY(a, count, double);
        for (int64_t k = 0; k < count; k++) data[k] = rng_unit(&r) - 0.5;
        inputs[i] = arena_alloc(a, (size_t)mil_type_bytes(t) + 64);
        mil_pack_f64(inputs[i], t->dtype, data, count);
    }
    EXPECT(p->output_count == 1 && p->outputs[0].bytes <= bytes);
    void *block = mem_pages_alloc((size_t)p->block_bytes + 64), *outputs[1] = {out};
    EXPECT(block != NULL);
    atomic_store(&most, 0), atomic_store(&waits, 0);
    EXPECT_OK(cpu_program_run(p, block, inputs, outputs, &err));
    mem_pages_free(block, (size_t)p->block_bytes + 64);
    cpu_program_deinit(p);
    mil_module_free(module);
    arena_free(a);
    return atomic_load(&most);
}

TEST(each_kind_of_step_keeps_to_its_threads) {
    enum { BYTES = 1 << 20 };
    propane_error err = {0};
    cpu_isa isa;
    pool_stop();
    EXPECT_OK(pool_set_threads(POOL, &err));
    EXPECT_OK(cpu_isa_current(&isa, &err));
    real = cpu_kernels_of(isa);
    char *first = mem_alloc(BYTES), *out = mem_alloc(BYTES);
    EXPECT(first && out);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        for (int threads = POOL; threads >= 0; threads--) {
            memset(out, 0, BYTES);
            const int reached = run(i, threads, out, BYTES);
            EXPECT_MSG(reached == (threads ? threads : POOL), "%s, threads = %d: %d were in kernels at once",
                       programs[i].name, threads, reached);
            if (threads == POOL) memcpy(first, out, BYTES);
            EXPECT_MSG(memcmp(first, out, BYTES) == 0, "%s: other bits with %d threads", programs[i].name, threads);
        }
    mem_free(first);
    mem_free(out);
    pool_stop();
    EXPECT_OK(pool_set_threads(0, &err));
}

SUITE("cpu/threads", T(each_kind_of_step_keeps_to_its_threads))
