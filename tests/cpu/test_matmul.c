/* SPDX-License-Identifier: MIT
 * Matrix products of whole programs against their meaning in double: batches with broadcast dimensions, operands that
 * are transposed, sliced or reshaped views, several products of one operand, sums after them. Each runs with a guard
 * after every buffer, so that a kernel that writes more than planned is found even if nothing reads the overwritten
 * data. Each also runs with one thread and with more, which must produce the same bits, and with PROPANE_BLAS a third
 * time, with all products by that library.
 */
#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/blas.h"
#include "cpu/plan/plan.h"
#include "support/test.h"

#define MAX_IO    16
#define MAX_FLOPS 4e6 /* of a product, because the reference is slow */

typedef struct matmul_test {
    mil_module *module;
    mil_builder b;
    arena *arena;
    mil_dtype dtype;
    cpu_isa isa;
    rng r;
    int64_t terms; /* the largest number of terms in a result */
    mil_tensor in[MAX_IO];
    mil_tensor *want;
} matmul_test;

static double worst[2]; /* fp32, fp16; as a fraction of the bound */

static void begin(matmul_test *t, mil_dtype dtype, uint64_t seed) {
    *t = (matmul_test){.module = mil_module_create("matmul"), .arena = arena_create(), .dtype = dtype};
    EXPECT(t->module && t->arena);
    do t->isa = (cpu_isa)(seed++ % CPU_ISA_COUNT);
    while (!cpu_isa_available(t->isa));
    rng_init(&t->r, seed);
    mil_build_begin(&t->b, t->module, "main", MIL_IOS18);
}

static int pick(matmul_test *t, int count) { return (int)rng_below(&t->r, (uint32_t)count); }

/* ---- running -------------------------------------------------------------------------------------------------------------- */

static void compare(const matmul_test *t, const mil_tensor *want, const void *out, const char *label) {
    const int64_t count = mil_type_count(&want->type);
    double *got = mem_array((size_t)count, sizeof *got), scale = 1;
    EXPECT(got != NULL);
    mil_unpack_f64(got, want->type.dtype, out, count);
    for (int64_t i = 0; i < count; i++) scale = fmax(scale, fabs(want->data[i]));
    const bool half = t->dtype == MIL_fp16;
    /* A product, a sum and a sum over the batch, each rounded once. Sums are in fp32, whose errors hardly
     * accumulate. */
    const double bound = scale * ((half ? 3 * 0x1p-11 : 0) + (4 + sqrt((double)t->terms)) * 0x1p-23);
    for (int64_t i = 0; i < count; i++) {
        const double error = fabs(got[i] - want->data[i]) / bound;
        EXPECT_MSG(error <= 1, "%s: element %lld is %.8g, not %.8g", label, (long long)i, got[i], want->data[i]);
        worst[half] = fmax(worst[half], error);
    }
    mem_free(got);
}

/* Returns the library that the environment names, for products of any size; NULL if there is none. */
static const cpu_blas *library(void) {
    static cpu_blas any_size;
    const cpu_blas *found = NULL;
    propane_error err = {0};
    EXPECT_OK(cpu_blas_current(&found, &err));
    if (!found) return NULL;
    any_size = *found;
    any_size.least_flops = 0;
    any_size.measured = false;
    return &any_size;
}

static void run(matmul_test *t, const cpu_blas *blas, int threads, void *const *inputs, void **outputs,
                const char *label) {
    propane_error err = {0};
    cpu_program *program = NULL;
    const cpu_plan_options o = {.kernels = cpu_kernels_of(t->isa), .blas = blas, .fuse = true, .guard = true};
    pool_stop();
    EXPECT_OK(pool_set_threads(threads, &err));
    if (cpu_plan_compile(t->b.function, &o, t->arena, &program, &err)) ck_abort_msg("%s: %s", label, err.text);
    if (cpu_program_memory_check(program, &err)) ck_abort_msg("%s: %s", label, err.text);
    program->poison = true;
    for (int i = 0; i < program->output_count; i++) {
        outputs[i] = mem_alloc(program->outputs[i].bytes);
        EXPECT(outputs[i] != NULL);
        memset(outputs[i], 0xff, program->outputs[i].bytes);
    }
    void *block = mem_pages_alloc((size_t)program->block_bytes + 64);
    EXPECT(block != NULL);
    if (cpu_program_run(program, block, inputs, outputs, &err)) ck_abort_msg("%s: %s", label, err.text);
    for (int i = 0; i < program->output_count; i++) compare(t, &t->want[i], outputs[i], label);
    mem_pages_free(block, (size_t)program->block_bytes + 64);
    cpu_program_deinit(program);
}

/* Builds, runs and frees the program. */
static void check(matmul_test *t, const char *label) {
    propane_error err = {0};
    void *inputs[MAX_IO] = {0}, *alone[MAX_IO] = {0}, *more[MAX_IO] = {0};
    if (mil_build_end(&t->b, &err)) ck_abort_msg("%s: %s", label, err.text);
    const mil_function *f = t->b.function;
    EXPECT(f->param_count <= MAX_IO && f->result_count <= MAX_IO);
    for (int i = 0; i < f->param_count; i++) {
        const int64_t count = mil_type_count(&f->params[i]->type);
        double *data = arena_array(t->arena, (size_t)count, sizeof *data);
        for (int64_t k = 0; k < count; k++) data[k] = mil_round(t->dtype, 2 * rng_unit(&t->r) - 1);
        t->in[i] = (mil_tensor){f->params[i]->type, data};
        inputs[i] = mem_alloc((size_t)mil_type_bytes(&f->params[i]->type));
        mil_pack_f64(inputs[i], t->dtype, data, count);
    }
    EXPECT_OK(mil_eval_function(f, t->in, false, t->arena, &t->want, &err));
    run(t, NULL, 1, inputs, alone, label);
    run(t, NULL, 2 + pick(t, 4), inputs, more, label);
    for (int i = 0; i < f->result_count; i++)
        EXPECT_MSG(memcmp(alone[i], more[i], (size_t)mil_type_bytes(&f->results[i]->type)) == 0,
                   "%s: result %d has other bits with more threads", label, i);
    for (int i = 0; i < f->result_count && library(); i++) mem_free(more[i]);
    if (library()) run(t, library(), 2 + pick(t, 4), inputs, more, label);
    for (int i = 0; i < MAX_IO; i++) mem_free(inputs[i]), mem_free(alone[i]), mem_free(more[i]);
    mil_module_free(t->module);
    arena_free(t->arena);
}

/* ---- operands ------------------------------------------------------------------------------------------------------------- */

static mil_value *source(matmul_test *t, const int64_t *dim, int rank) {
    mil_type type = mil_type_tensor(t->dtype, rank, dim);
    if (pick(t, 4)) {
        char name[20];
        snprintf(name, sizeof name, "p%d", t->b.function->param_count);
        return mil_build_param(&t->b, name, type);
    }
    const int64_t count = mil_type_count(&type);
    double *data = arena_array(t->arena, (size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = mil_round(t->dtype, 2 * rng_unit(&t->r) - 1);
    return mil_build_const_f64(&t->b, NULL, &type, data);
}

/* Makes a slice of a larger value. */
static mil_value *cut(matmul_test *t, const int64_t *dim, int rank) {
    int64_t whole[MIL_MAX_RANK], begin_at[MIL_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        begin_at[d] = pick(t, 3);
        whole[d] = dim[d] + begin_at[d] + pick(t, 2);
    }
    return mil_build_slice(&t->b, source(t, whole, rank), begin_at, dim);
}

/* Makes a value whose two adjacent dimensions were a single one before. */
static mil_value *split(matmul_test *t, const int64_t *dim, int rank) {
    int64_t merged[MIL_MAX_RANK];
    const int at = pick(t, rank - 1);
    for (int d = 0; d + 1 < rank; d++) merged[d] = dim[d + (d > at)];
    merged[at] = dim[at] * dim[at + 1];
    return mil_build_reshape(&t->b, source(t, merged, rank - 1), dim, rank);
}

static mil_value *view(matmul_test *t, const int64_t *dim, int rank) {
    switch (pick(t, 3)) {
    case 0: return cut(t, dim, rank);
    case 1: return split(t, dim, rank);
    default: return source(t, dim, rank);
    }
}

/* Shuffles the first `count` elements. */
static void shuffle(matmul_test *t, int64_t *perm, int rank, int count) {
    for (int d = 0; d < rank; d++) perm[d] = d;
    for (int d = count - 1; d > 0; d--) {
        const int other = pick(t, d + 1);
        const int64_t kept = perm[d];
        perm[d] = perm[other], perm[other] = kept;
    }
}

/* Makes a value of that shape, possibly stored in another order. */
static mil_value *operand(matmul_test *t, const int64_t *dim, int rank) {
    int64_t perm[MIL_MAX_RANK], stored[MIL_MAX_RANK];
    if (!pick(t, 3)) return view(t, dim, rank);
    shuffle(t, perm, rank, pick(t, 2) ? rank : rank - 2); /* or only the items */
    for (int d = 0; d < rank; d++) stored[perm[d]] = dim[d];
    return mil_build_transpose(&t->b, view(t, stored, rank), perm, rank);
}

/* ---- random products ------------------------------------------------------------------------------------------------------ */

typedef struct batch {
    int rank;
    int64_t dim[3];
} batch;

static int64_t any_size(matmul_test *t) {
    static const int64_t sizes[] = {1, 4, 7, 8, 15, 16, 16, 31, 31, 32, 33, 48, 63, 64, 100, 127, 128};
    return sizes[pick(t, (int)(sizeof sizes / sizeof sizes[0]))];
}

static batch any_batch(matmul_test *t) {
    static const int64_t sizes[] = {1, 2, 3, 4, 8, 16};
    batch b = {.rank = (pick(t, 7) + 1) / 2};
    int64_t items = 1;
    for (int d = 0; d < b.rank; d++) {
        do b.dim[d] = sizes[pick(t, 6)];
        while (items * b.dim[d] > 128);
        items *= b.dim[d];
    }
    return b;
}

/* Makes one matrix per item, with some batch dimensions of 1 or, at the front, omitted. */
static mil_value *matrices(matmul_test *t, const batch *b, int64_t rows, int64_t cols) {
    int64_t dim[5];
    int rank = 0;
    const bool shared = !pick(t, 4); /* shared by all items */
    for (int d = 0; d < b->rank; d++) {
        const bool one = shared || !pick(t, 3);
        if (one && rank == 0 && pick(t, 2)) continue;
        dim[rank++] = one ? 1 : b->dim[d];
    }
    const bool turned = pick(t, 2);
    dim[rank++] = turned ? cols : rows;
    dim[rank++] = turned ? rows : cols;
    mil_value *v = operand(t, dim, rank);
    if (!turned) return v;
    int64_t perm[] = {0, 1, 2, 3, 4};
    perm[rank - 1] = rank - 2, perm[rank - 2] = rank - 1;
    return mil_build_transpose(&t->b, v, perm, rank);
}

/* Adds operations that may come after a product. */
static void finish(matmul_test *t, mil_value *v) {
    const int rank = v->type.rank;
    int64_t dim[MIL_MAX_RANK], order[MIL_MAX_RANK];
    switch (pick(t, 5)) {
    case 0:
        for (int d = 0; d < rank; d++) dim[d] = pick(t, 3) ? v->type.dim[d] : 1;
        v = mil_build_binary(&t->b, MIL_OP_add, v, operand(t, dim, rank));
        break;
    case 1:
        shuffle(t, order, rank, rank);
        v = mil_build_transpose(&t->b, v, order, rank);
        break;
    case 2:
        if (rank < 3) break;
        v = mil_build_reduce(&t->b, MIL_OP_reduce_sum, v, (const int64_t[]){0, 1, 2}, rank - 2, true);
        break;
    default: break;
    }
    mil_build_result(&t->b, v);
}

static int64_t items_of(const batch *b) {
    int64_t items = 1;
    for (int d = 0; d < b->rank; d++) items *= b->dim[d];
    return items;
}

static void random_products(mil_dtype dtype, uint64_t seed) {
    matmul_test t;
    char label[60];
    begin(&t, dtype, seed);
    const batch b = any_batch(&t);
    const int64_t items = items_of(&b), k = items == 1 && !pick(&t, 3) ? 1000 + 150 * pick(&t, 8) : any_size(&t);
    int64_t m = any_size(&t), n = any_size(&t);
    while (m > 1 && (double)(m * n * k * items) > MAX_FLOPS) m /= 2;
    while (n > 1 && (double)(m * n * k * items) > MAX_FLOPS) n /= 2;
    t.terms = k * items;
    mil_value *x = matrices(&t, &b, m, k), *y = matrices(&t, &b, k, n);
    finish(&t, mil_build_matmul(&t.b, x, y, false, false));
    for (int more = pick(&t, 3); more > 0; more--) { /* the same operand again */
        const int64_t other = pick(&t, 2) ? 2 * m : pick(&t, 2) ? n : 1 + m / 2;
        if (pick(&t, 3))
            x = matrices(&t, &b, other, k);
        else
            y = matrices(&t, &b, k, n);
        finish(&t, mil_build_matmul(&t.b, x, y, false, false));
    }
    snprintf(label, sizeof label, "%s, %s, seed %llu", cpu_isa_name(t.isa), dtype == MIL_fp16 ? "fp16" : "fp32",
             (unsigned long long)seed);
    check(&t, label);
}

TEST(products_of_random_views) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_products(MIL_fp32, seed);
        random_products(MIL_fp16, seed);
    }
    printf("  worst of the bound: fp32 %.2f, fp16 %.2f\n", worst[0], worst[1]);
}

/* ---- past failures --------------------------------------------------------------------------------------------------------- */

/* Rows of an image, then its columns, with one table of relative positions: every item has the same B, and A's items
 * are two strides apart. */
static void check_positions(mil_dtype dtype, int64_t heads, int64_t d, int64_t w, int isa) {
    matmul_test t;
    begin(&t, dtype, (uint64_t)isa);
    t.terms = d;
    mil_value *table = mil_build_param(&t.b, "r", mil_type_tensor(dtype, 2, (const int64_t[]){2 * w - 1, d}));
    for (int form = 0; form < 4; form++) {
        const bool columns = form & 1, last = form & 2; /* the channels are last */
        const int64_t first_dim[] = {heads, d, w * w}, last_dim[] = {heads, w * w, d};
        const int64_t first_image[] = {heads, d, w, w}, last_image[] = {heads, w, w, d};
        const int64_t first_perm[] = {0, columns ? 3 : 2, columns ? 2 : 3, 1};
        const int64_t last_perm[] = {0, columns ? 2 : 1, columns ? 1 : 2, 3};
        char name[] = {'q', (char)('0' + form), 0};
        mil_value *q = mil_build_param(&t.b, name, mil_type_tensor(dtype, 3, last ? last_dim : first_dim));
        mil_value *image = mil_build_reshape(&t.b, q, last ? last_image : first_image, 4);
        mil_value *x = mil_build_transpose(&t.b, image, last ? last_perm : first_perm, 4);
        mil_build_result(&t.b, mil_build_matmul(&t.b, x, table, false, true));
    }
    check(&t, "relative positions");
}

TEST(relative_positions) {
    static const int64_t heads[] = {1, 4, 7}, sizes[] = {20, 64, 128};
    for (int h = 0; h < 3; h++)
        for (int s = 0; s < 3; s++)
            for (int form = 0; form < 4; form++)
                for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
                    if (cpu_isa_available((cpu_isa)isa))
                        check_positions(form & 1 ? MIL_fp16 : MIL_fp32, heads[h], sizes[s], form & 2 ? 8 : 16, isa);
}

/* B is divided along k at other points if C has more rows than columns. */
static void check_square_and_tall(int isa) {
    matmul_test t;
    begin(&t, MIL_fp32, (uint64_t)isa);
    const int64_t k = 2048, n = 96;
    t.terms = k;
    mil_value *b = mil_build_param(&t.b, "b", mil_type_tensor(MIL_fp32, 2, (const int64_t[]){k, n}));
    for (int i = 0; i < 2; i++) {
        const mil_type type = mil_type_tensor(MIL_fp32, 2, (const int64_t[]){n * (1 + i), k});
        mil_value *a = mil_build_param(&t.b, i ? "a1" : "a0", type);
        mil_build_result(&t.b, mil_build_matmul(&t.b, a, b, false, false));
    }
    check(&t, "square and tall");
}

TEST(a_square_product_and_a_tall_one_share_b) {
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_isa_available((cpu_isa)isa)) check_square_and_tall(isa);
}

SUITE("cpu/matmul", T(products_of_random_views), T(relative_positions), T(a_square_product_and_a_tall_one_share_b))
