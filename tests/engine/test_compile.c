/* SPDX-License-Identifier: MIT
 * Compiled programs compared with their meaning: 500 random programs of one to four operations, and a transformer layer
 * forward. The tasks run in the interpreter. Their results are compared with mil_eval_function, which rounds every
 * value to fp16, and with the cpu driver.
 */
#include <math.h>
#include <stdlib.h>

#include "compiled.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "support/grad_model.h"
#include "support/test.h"

/* ---- random programs --------------------------------------------------------------------------------------------- */

static int64_t draw_size(rng *r) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33, 48, 64, 80, 96, 128};
    return sizes[rng_below(r, sizeof sizes / sizeof sizes[0])];
}

static mil_value *draw_const(mil_builder *b, rng *r, int rank, const int64_t *dim, double scale) {
    mil_type type = mil_type_tensor(MIL_fp16, rank, dim);
    int64_t count = mil_type_count(&type);
    double *data = mem_array((size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = rng_normal(r) * scale;
    mil_value *v = mil_build_const_f64(b, "w", &type, data);
    mem_free(data);
    return v;
}

static mil_value *draw_conv(mil_builder *b, rng *r, mil_value *x) {
    int64_t c = x->type.dim[1], groups = 1, outputs = draw_size(r),
            k = x->type.dim[2] >= 3 && x->type.dim[3] >= 3 && rng_below(r, 2) ? 3 : 1;
    if (rng_below(r, 3) == 0) groups = outputs = c;
    if (groups == 1 && c % 4 == 0 && rng_below(r, 4) == 0) groups = 4, outputs = 4 * (1 + (int64_t)rng_below(r, 20));
    int64_t w[4] = {outputs, c / groups, k, k},
            ones[2] = {1 + (k == 1 && groups == 1 && outputs < 256 ? (int64_t)rng_below(r, 2) : 0), 1};
    ones[1] = ones[0];
    mil_value *weight = draw_const(b, r, 4, w, 1 / sqrt((double)(c / groups * k * k))),
              *strides = mil_build_ints(b, ones, 2);
    mil_value *pad = mil_build_text(b, rng_below(r, 2) ? "same" : "valid"), *g = mil_build_int(b, (int32_t)groups);
    mil_value *bias = rng_below(r, 2) ? draw_const(b, r, 1, &outputs, 1) : NULL;
    mil_argument args[] = {{"x", 1, &x},          {"weight", 1, &weight}, {"strides", 1, &strides},
                           {"pad_type", 1, &pad}, {"groups", 1, &g},      {"bias", 1, &bias}};
    mil_op *op = mil_build_op(b, MIL_OP_conv, NULL, args, bias ? 6 : 5);
    return op ? op->results[0] : NULL;
}

/* Builds x times a matrix, constant or an input, with any of the transposes. */
static mil_value *draw_matmul(mil_builder *b, rng *r, mil_value *x) {
    int rank = x->type.rank;
    bool tx = rng_below(r, 2), ty = rng_below(r, 2), constant = rng_below(r, 2);
    int64_t k = x->type.dim[rank - (tx ? 2 : 1)], n = draw_size(r), w[4] = {1, 1, ty ? n : k, ty ? k : n};
    mil_value *y;
    if (constant)
        y = draw_const(b, r, 2, w + 2, 1 / sqrt((double)k));
    else {
        for (int d = 0; d < rank - 2; d++) w[d] = x->type.dim[d];
        if (rank == 2) w[0] = w[2], w[1] = w[3];
        if (rank == 3) w[1] = w[2], w[2] = w[3], w[0] = x->type.dim[0];
        char name[16];
        snprintf(name, sizeof name, "m%d", b->function->param_count);
        y = mil_build_param(b, name, mil_type_tensor(MIL_fp16, rank, w));
    }
    return mil_build_matmul(b, x, y, tx, ty);
}

static mil_value *draw_binary(mil_builder *b, rng *r, mil_value *x) {
    static const mil_opcode codes[] = {MIL_OP_add, MIL_OP_mul, MIL_OP_sub, MIL_OP_maximum, MIL_OP_minimum};
    mil_opcode code = codes[rng_below(r, 5)];
    int64_t dim[MIL_MAX_RANK];
    char name[16];
    if (rng_below(r, 4) == 0) return mil_build_binary_scalar(b, code, x, 0.75);
    for (int d = 0; d < x->type.rank; d++) dim[d] = rng_below(r, 3) == 0 ? 1 : x->type.dim[d];
    snprintf(name, sizeof name, "z%d", b->function->param_count);
    mil_value *y = rng_below(r, 4) == 0 ? draw_const(b, r, x->type.rank, dim, 1)
                                        : mil_build_param(b, name, mil_type_tensor(MIL_fp16, x->type.rank, dim));
    return mil_build_binary(b, code, x, y);
}

static mil_value *draw_layout(mil_builder *b, rng *r, mil_value *x) {
    int rank = x->type.rank;
    int64_t perm[4], begin[4], size[4];
    if (rng_below(r, 2)) {
        for (int d = 0; d < rank; d++) perm[d] = d;
        int from = rank == 4 ? 1 : rank == 3 && x->type.dim[0] != 1 ? 0 : rank - 2;
        for (int i = rank - 1; i > from; i--) {
            int j = from + (int)rng_below(r, (uint64_t)(i - from + 1));
            int64_t t = perm[i];
            perm[i] = perm[j], perm[j] = t;
        }
        return mil_build_transpose(b, x, perm, rank);
    }
    for (int d = 0; d < rank; d++) {
        begin[d] = (int64_t)rng_below(r, (uint64_t)x->type.dim[d]);
        size[d] = 1 + (int64_t)rng_below(r, (uint64_t)(x->type.dim[d] - begin[d]));
    }
    return mil_build_slice(b, x, begin, size);
}

static mil_value *draw_reduce(mil_builder *b, rng *r, mil_value *x) {
    static const mil_opcode codes[] = {MIL_OP_reduce_sum, MIL_OP_reduce_mean, MIL_OP_reduce_max};
    int64_t axes[4];
    int count = 0, rank = x->type.rank;
    for (int d = rank == 4 ? 1 : 0; d < rank; d++)
        if (rng_below(r, 2)) axes[count++] = d;
    if (!count) axes[count++] = rank - 1;
    return mil_build_reduce(b, codes[rng_below(r, 3)], x, axes, count, true);
}

static mil_value *draw_op(mil_builder *b, rng *r, mil_value *x) {
    static const mil_opcode unary[] = {MIL_OP_relu, MIL_OP_square, MIL_OP_abs};
    switch (rng_below(r, 8)) {
    case 0: return mil_build_unary(b, unary[rng_below(r, 3)], x);
    case 1: return x->type.rank == 4 ? draw_conv(b, r, x) : draw_matmul(b, r, x);
    case 2: return draw_matmul(b, r, x);
    case 3: return draw_layout(b, r, x);
    case 4: return draw_reduce(b, r, x);
    case 5: return mil_build_softmax(b, x, -1);
    default: return draw_binary(b, r, x);
    }
}

static mil_module *draw_program(uint64_t seed, rng *r) {
    mil_builder b = {0};
    propane_error err = {0};
    rng_init(r, seed);
    mil_module *m = mil_module_create("drawn");
    mil_build_begin(&b, m, "main", MIL_IOS18);
    int rank = 2 + (int)rng_below(r, 3);
    int64_t dim[4] = {1, draw_size(r), draw_size(r), draw_size(r)};
    if (rank == 4 && dim[1] * dim[2] * dim[3] > 100000) dim[2] = 3;
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, rank, rank == 2 ? dim + 1 : dim));
    for (int ops = 1 + (int)rng_below(r, 4); ops > 0 && x && !b.err.status; ops--) x = draw_op(&b, r, x);
    if (x) mil_build_result(&b, x);
    EXPECT_MSG(mil_build_end(&b, &err) == PROPANE_OK, "seed %llu: %s", (unsigned long long)seed, err.text);
    return m;
}

static void drawn_programs(uint32_t subtype, int count) {
    compile_seen seen = {.subtype = subtype};
    int drawn = 0;
    for (uint64_t seed = 1; seen.programs < count && seed < 2000; seed++, drawn++) {
        rng r;
        propane_error err = {0};
        mil_module *m = draw_program(seed, &r);
        int without = seen.cpu_refused;
        double worst = compile_run(m->functions, &r, 1, &seen, &err);
        if (seen.cpu_refused > without) printf("  of seed %llu\n", (unsigned long long)seed);
        if (worst < 0) {
            seen.refused++;
            EXPECT_MSG(err.status == PROPANE_ERR_UNSUPPORTED && err.text[0], "seed %llu: %s", (unsigned long long)seed,
                       err.text);
            if (getenv("ENGINE_REFUSED")) printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
        }
        if (worst > seen.worst) seen.worst = worst;
        EXPECT_MSG(worst <= 0.006, "seed %llu: off by %.3g of the largest value", (unsigned long long)seed, worst);
        EXPECT_MSG(seen.cpu_worst <= 0.006, "seed %llu: off from the cpu driver by %.3g of the largest value",
                   (unsigned long long)seed, seen.cpu_worst);
        mil_module_free(m);
    }
    printf(
        "%d programs of %d tasks, %d equal to the last bit, worst difference %.3g of the largest value; %d refused\n",
        seen.programs, seen.tasks, seen.exact, seen.worst, seen.refused);
    printf(
        "seeds 1 to %d; from the cpu driver: %d equal to the last bit, worst difference %.3g; it has no plan for %d\n",
        drawn, seen.cpu_exact, seen.cpu_worst, seen.cpu_refused);
    EXPECT(seen.cpu_refused < 10);
    EXPECT(seen.programs == count);
}

TEST(drawn_programs_keep_their_meaning) { drawn_programs(ENGINE_H13, 500); }

/* Runs the words of H14, read back. */
TEST(drawn_programs_for_m2_keep_their_meaning) { drawn_programs(ENGINE_H14, 300); }

/* Builds a chain in which each value is read once, except for one with `twice`. Returns the number of results that
 * stay on chip. */
static int chain_kept(bool twice) {
    propane_error err = {0};
    mil_builder b = {0};
    mil_module *m = mil_module_create("chain");
    compile_seen seen = {0};
    engine_object *o = NULL;
    int kept = 0;
    rng r;
    rng_init(&r, 4);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 24, 5, 20}));
    mil_value *a = mil_build_binary_scalar(&b, MIL_OP_mul, x, 0.5);
    mil_value *c = mil_build_unary(&b, MIL_OP_abs, a);
    mil_value *d = mil_build_unary(&b, MIL_OP_relu, c);
    mil_value *w = draw_const(&b, &r, 4, (int64_t[]){8, 24, 1, 1}, 0.25);
    mil_value *e = mil_build_conv1x1(&b, d, w);
    mil_value *f = mil_build_binary_scalar(&b, MIL_OP_add, mil_build_unary(&b, MIL_OP_abs, e), 1);
    mil_build_result(&b, f);
    if (twice) mil_build_result(&b, mil_build_unary(&b, MIL_OP_relu, c));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_MSG(compile_run(m->functions, &r, 1, &seen, &err) == 0 || seen.exact == 1, "%s", err.text);
    EXPECT_OK(engine_compile(m->functions, NULL, &o, &err));
    for (int i = 0; i < o->task_count; i++) {
        const engine_task *t = &o->tasks[i];
        bool stays = engine_get_bits(t, 0x4830, 0, 2) == 0;
        EXPECT_MSG(!stays || !engine_get_bits(t, 0x17800, 0, 1), "task %d stays and is stored", i);
        kept += stays;
    }
    engine_object_free(o);
    mil_module_free(m);
    return kept;
}

TEST(values_stay_on_chip) {
    EXPECT(chain_kept(false) == 5);
    EXPECT(chain_kept(true) == 4);
}

/* The first operation produces no task, so the second one's is the first. */
TEST(nothing_is_kept_before_the_first_task) {
    propane_error err = {0};
    mil_builder b = {0};
    mil_module *m = mil_module_create("first");
    compile_seen seen = {0};
    text report = {0};
    engine_object *o = NULL;
    rng r;
    rng_init(&r, 6);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 24, 5, 20}));
    mil_build_result(&b, mil_build_binary(&b, MIL_OP_add, x, mil_build_unary(&b, MIL_OP_relu, x)));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_MSG(compile_run(m->functions, &r, 1, &seen, &err) == 0, "%s", err.text);
    EXPECT_OK(engine_compile(m->functions, &(engine_compile_options){.report = &report}, &o, &err));
    EXPECT(o->task_count == 1 && o->tasks[0].header[6] == 0x30009800);
    text_deinit(&report);
    engine_object_free(o);
    mil_module_free(m);
}

/* The last of an operation's tasks stores all of its value, so the value stays even though there are two. */
TEST(values_stay_after_several_tasks) {
    propane_error err = {0};
    mil_builder b = {0};
    mil_module *m = mil_module_create("chain");
    compile_seen seen = {0};
    rng r;
    rng_init(&r, 5);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 24, 5, 20}));
    mil_value *z = mil_build_param(&b, "z", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 24, 1, 20}));
    mil_build_result(&b, mil_build_unary(&b, MIL_OP_abs, mil_build_binary(&b, MIL_OP_mul, x, z)));
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_MSG(compile_run(m->functions, &r, 1, &seen, &err) == 0, "%s", err.text);
    engine_object *o = NULL;
    EXPECT_OK(engine_compile(m->functions, NULL, &o, &err));
    EXPECT(o->task_count == 3);
    EXPECT(engine_get_bits(&o->tasks[1], 0x4830, 0, 2) == 0 && engine_get_bits(&o->tasks[2], 0x4804, 0, 2) == 0);
    engine_object_free(o);
    mil_module_free(m);
}

/* Builds x [m, k] through two products with constants and a function between them. */
static mil_module *pair_build(rng *r, int64_t m, int64_t k, int64_t n, int64_t last, mil_opcode between, bool twice) {
    propane_error err = {0};
    mil_builder b = {0};
    mil_module *module = mil_module_create("pair");
    const int64_t shape[3] = {1, m, k}, first[2] = {n, k}, second[2] = {last, n};
    mil_build_begin(&b, module, "main", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 3, shape)), *no = mil_build_bool(&b, false),
              *yes = mil_build_bool(&b, true), *h, *y;
    mil_value *w1 = draw_const(&b, r, 2, first, 0.2), *w2 = draw_const(&b, r, 2, second, 0.2);
    const mil_argument one[] = {{"x", 1, &x}, {"y", 1, &w1}, {"transpose_x", 1, &no}, {"transpose_y", 1, &yes}};
    h = mil_build_unary(&b, between, mil_build_op(&b, MIL_OP_matmul, "a", one, 4)->results[0]);
    const mil_argument two[] = {{"x", 1, &h}, {"y", 1, &w2}, {"transpose_x", 1, &no}, {"transpose_y", 1, &yes}};
    y = mil_build_op(&b, MIL_OP_matmul, "b", two, 4)->results[0];
    if (twice) mil_build_result(&b, h);
    mil_build_result(&b, y);
    EXPECT_OK(mil_build_end(&b, &err));
    return module;
}

/* Returns the number of tasks; *worst is the largest difference. */
static int pair_tasks(int64_t m, int64_t k, int64_t n, int64_t last, mil_opcode between, bool twice, double *worst) {
    rng r;
    rng_init(&r, (uint64_t)(m + k));
    propane_error err = {0};
    compile_seen seen = {0};
    mil_module *module = pair_build(&r, m, k, n, last, between, twice);
    *worst = compile_run(module->functions, &r, 1, &seen, &err);
    EXPECT_MSG(*worst >= 0, "%s", err.text);
    mil_module_free(module);
    return seen.tasks;
}

TEST(two_products_are_three_tasks) {
    static const struct {
        int64_t m, k, n, last;
        mil_opcode between;
    } list[] = {{128, 64, 96, 32, MIL_OP_relu},
                {1, 48, 160, 17, MIL_OP_gelu},
                {7, 33, 65, 40, MIL_OP_relu},
                {64, 16, 32, 256, MIL_OP_silu},
                {200, 24, 40, 24, MIL_OP_relu}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        double worst, apart;
        int tasks = pair_tasks(list[i].m, list[i].k, list[i].n, list[i].last, list[i].between, false, &worst);
        EXPECT_MSG(tasks == 3, "program %zu: %d tasks", i, tasks);
        EXPECT_MSG(worst <= 0.03, "program %zu: off by %.3g of the largest value", i, worst);
        /* the value between is also a result, so it must be stored */
        EXPECT(pair_tasks(list[i].m, list[i].k, list[i].n, list[i].last, list[i].between, true, &apart) == 4);
        EXPECT(apart <= 0.03);
    }
    /* 1,024 rows: each product fits on chip, but the value between and the first one's source do not fit together */
    rng r;
    rng_init(&r, 1);
    engine_object *o = NULL;
    propane_error err = {0};
    mil_module *m = pair_build(&r, 1024, 512, 512, 8, MIL_OP_relu, false);
    EXPECT_OK(engine_compile(m->functions, NULL, &o, &err));
    EXPECT(o->task_count == 4);
    engine_object_free(o);
    mil_module_free(m);
}

/* Vectors of more channels than fit on chip are rows of fewer; 2,999 is prime and takes several tasks. */
TEST(many_channels_are_rows) {
    static const struct {
        mil_opcode code; /* with a scalar, if it takes two operands */
        int64_t c, small, w;
        int tasks;
    } list[] = {{MIL_OP_mul, 2048, 2048, 256, 1},     {MIL_OP_add, 3000, 0, 500, 1},  {MIL_OP_mul, 2560, 1, 256, 2},
                {MIL_OP_maximum, 2560, 2560, 200, 1}, {MIL_OP_relu, 6000, 0, 130, 1}, {MIL_OP_add, 2999, 2999, 256, 3}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        for (int chip = 0; chip < 2; chip++) {
            const int64_t shape[4] = {1, list[i].c, 1, list[i].w}, small[4] = {1, list[i].small, 1, list[i].w};
            rng r;
            rng_init(&r, i);
            propane_error err = {0};
            compile_seen seen = {.subtype = chip ? ENGINE_H14 : ENGINE_H13};
            mil_builder b = {0};
            mil_module *module = mil_module_create("many");
            mil_build_begin(&b, module, "main", MIL_IOS18);
            mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 4, shape));
            if (list[i].code == MIL_OP_relu)
                x = mil_build_unary(&b, list[i].code, x);
            else if (!list[i].small)
                x = mil_build_binary_scalar(&b, list[i].code, x, 0.75);
            else
                x = mil_build_binary(&b, list[i].code, x,
                                     mil_build_param(&b, "z", mil_type_tensor(MIL_fp16, 4, small)));
            mil_build_result(&b, x);
            EXPECT_OK(mil_build_end(&b, &err));
            double worst = compile_run(module->functions, &r, 1, &seen, &err);
            EXPECT_MSG(worst >= 0 && worst <= 0.001, "program %zu: off by %.3g; %s", i, worst, err.text);
            EXPECT_MSG(seen.tasks == list[i].tasks, "program %zu: %d tasks", i, seen.tasks);
            mil_module_free(module);
        }
}

typedef struct batch_case {
    int64_t x, w, m, k, n; /* x, w: batches of the operands */
    bool tx, ty;
    int tasks; /* 0 accepts any number */
} batch_case;

/* Builds x [batches, m, k] times w, whose first operand may be constant. */
static mil_module *batch_build(const batch_case *a, rng *r, bool constant) {
    propane_error err = {0};
    mil_builder b = {0};
    mil_module *module = mil_module_create("batches");
    const int64_t x[3] = {a->x, a->tx ? a->k : a->m, a->tx ? a->m : a->k},
                  w[3] = {a->w, a->ty ? a->n : a->k, a->ty ? a->k : a->n};
    mil_build_begin(&b, module, "main", MIL_IOS18);
    mil_value *first =
                  constant ? draw_const(&b, r, 3, x, 0.2) : mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 3, x)),
              *second = mil_build_param(&b, "z", mil_type_tensor(MIL_fp16, 3, w));
    mil_build_result(&b, mil_build_matmul(&b, first, second, a->tx, a->ty));
    EXPECT_OK(mil_build_end(&b, &err));
    return module;
}

static void batch_check(const batch_case *a, bool constant, uint32_t subtype) {
    rng r;
    rng_init(&r, (uint64_t)(a->m + a->k + a->n));
    propane_error err = {0};
    compile_seen seen = {.subtype = subtype};
    mil_module *module = batch_build(a, &r, constant);
    double worst = compile_run(module->functions, &r, 1, &seen, &err);
    EXPECT_MSG(worst >= 0 && worst <= 0.002, "%lldx%lld, %lld x %lld x %lld, transposed %d and %d: off by %.3g; %s",
               (long long)a->x, (long long)a->w, (long long)a->m, (long long)a->k, (long long)a->n, a->tx, a->ty, worst,
               err.text);
    EXPECT_MSG(!a->tasks || constant || seen.tasks == a->tasks, "%lldx%lld, %lld x %lld x %lld: %d tasks",
               (long long)a->x, (long long)a->w, (long long)a->m, (long long)a->k, (long long)a->n, seen.tasks);
    mil_module_free(module);
}

/* Batches are staged together and multiplied apart; a shared kernel processes all of them as rows; with many rows and
 * few
 * columns, the second operand is the kernel. */
TEST(products_take_few_tasks) {
    static const batch_case list[] = {{3, 3, 256, 64, 96, true, false, 7},     {3, 3, 64, 256, 256, false, true, 5},
                                      {1, 4, 64, 64, 80, false, false, 2},     {1, 4, 64, 64, 80, false, true, 3},
                                      {4, 1, 96, 40, 33, false, false, 0},     {4, 1, 64, 40, 33, true, true, 6},
                                      {2, 2, 35, 40, 33, true, true, 0},       {5, 5, 16, 64, 64, false, false, 5},
                                      {2, 2, 375, 128, 64, true, false, 53},   {1, 1, 768, 64, 256, false, false, 4},
                                      {1, 1, 1024, 96, 32, true, false, 2},    {1, 1, 640, 80, 16, true, true, 2},
                                      {1, 1, 1000, 32, 1000, false, false, 11}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        for (int how = 0; how < 4; how++)
            if (how < 2 || list[i].x == 1) batch_check(&list[i], how > 1, how % 2 ? ENGINE_H14 : ENGINE_H13);
}

typedef struct attention_case {
    int64_t m, n, d, out; /* queries, keys, width of both, width of the values */
    double scale;         /* 1 means no factor */
    bool late;            /* the values are computed after the probabilities */
    bool twice;           /* the probabilities are also a result */
    int tasks;            /* 0 accepts any number */
} attention_case;

static mil_value *attention_product(mil_builder *b, mil_value *x, mil_value *y, bool transposed) {
    mil_value *no = mil_build_bool(b, false), *last = mil_build_bool(b, transposed);
    const mil_argument list[] = {{"x", 1, &x}, {"y", 1, &y}, {"transpose_x", 1, &no}, {"transpose_y", 1, &last}};
    return mil_build_op(b, MIL_OP_matmul, NULL, list, 4)->results[0];
}

static void attention_check(const attention_case *a) {
    rng r;
    rng_init(&r, (uint64_t)(a->m + a->n));
    propane_error err = {0};
    compile_seen seen = {0};
    mil_builder b = {0};
    mil_module *module = mil_module_create("attention");
    mil_build_begin(&b, module, "main", MIL_IOS18);
    mil_value *q = mil_build_param(&b, "q", mil_type_tensor(MIL_fp16, 3, (int64_t[]){1, a->m, a->d}));
    mil_value *k = mil_build_param(&b, "k", mil_type_tensor(MIL_fp16, 3, (int64_t[]){1, a->n, a->d}));
    mil_value *v = mil_build_param(&b, "v", mil_type_tensor(MIL_fp16, 3, (int64_t[]){1, a->n, a->out}));
    mil_value *p = attention_product(&b, q, k, true), *axis = mil_build_int(&b, -1);
    if (a->scale != 1) p = mil_build_binary_scalar(&b, MIL_OP_mul, p, a->scale);
    const mil_argument list[] = {{"x", 1, &p}, {"axis", 1, &axis}};
    p = mil_build_op(&b, MIL_OP_softmax, "p", list, 2)->results[0];
    if (a->late) v = mil_build_binary_scalar(&b, MIL_OP_mul, v, 0.5);
    mil_build_result(&b, attention_product(&b, p, v, false));
    if (a->twice) mil_build_result(&b, p);
    EXPECT_OK(mil_build_end(&b, &err));
    double worst = compile_run(module->functions, &r, 1, &seen, &err);
    EXPECT_MSG(worst >= 0, "%lld x %lld: %s", (long long)a->m, (long long)a->n, err.text);
    EXPECT_MSG(worst <= 0.006, "%lld x %lld: off by %.3g of the largest value", (long long)a->m, (long long)a->n,
               worst);
    EXPECT_MSG(!a->tasks || seen.tasks == a->tasks, "%lld x %lld: %d tasks", (long long)a->m, (long long)a->n,
               seen.tasks);
    mil_module_free(module);
}

TEST(attention_is_nine_tasks) {
    static const attention_case list[] = {
        {64, 64, 64, 64, 0.125, false, false, 9},   {64, 64, 64, 64, 1, true, false, 10},
        {128, 128, 64, 64, 0.125, true, false, 10}, {64, 96, 32, 24, 0.25, false, false, 9},
        {128, 32, 96, 160, 0.1, false, false, 9},   {64, 64, 64, 64, 0.125, false, true, 0},
        {48, 64, 64, 64, 0.125, false, false, 0},   {64, 40, 64, 64, 0.125, true, false, 0},
        {256, 256, 64, 64, 0.125, false, false, 0}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) attention_check(&list[i]);
}

TEST(a_transformer_layer_keeps_its_meaning) {
    const grad_model d = {.batch = 1, .width = 64, .positions = 32, .heads = 4, .groups = 2, .head = 16, .hidden = 96};
    compile_seen seen = {0};
    propane_error err = {0};
    rng r;
    rng_init(&r, 3);
    mil_module *m = mil_module_create("layer");
    mil_function *f = grad_model_build(m, "main", &d, MIL_fp16);
    double worst = compile_run(f, &r, 0.2, &seen, &err);
    EXPECT_MSG(worst >= 0, "%s", err.text);
    printf("%d tasks, worst difference %.3g of the largest value\n", seen.tasks, worst);
    EXPECT(worst < 0.02);
    mil_module_free(m);
}

SUITE("engine/compile", T(drawn_programs_keep_their_meaning), T(drawn_programs_for_m2_keep_their_meaning),
      T(values_stay_on_chip), T(values_stay_after_several_tasks), T(nothing_is_kept_before_the_first_task),
      T(two_products_are_three_tasks), T(products_take_few_tasks), T(many_channels_are_rows),
      T(attention_is_nine_tasks), T(a_transformer_layer_keeps_its_meaning))
