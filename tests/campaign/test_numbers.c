/* SPDX-License-Identifier: MIT
 * Tests single operations with numbers of all sizes (support/extreme_cases.h) on everything that computes, against the
 * slow double-precision reference: the cpu driver with each instruction set that this machine has, and the simulator
 * without its faults.
 *
 * Results must have NaN where the reference has NaN, and the same infinities. Operations that round once (or move
 * numbers) give the reference's bits, including the sign of zero. Functions of one element are at most a few units of
 * the last place off, at any size. Where many elements contribute to one, the tolerance is the change of the result
 * when each operand changes by its rounding error. An fp32 sum may leave the range of fp32 at an intermediate step
 * although the double does not. Such a result is not compared.
 *
 * NUMBERS=N: number of cases (2000); SEED=N: first seed (1); FIRST=N: the seed of one case, to repeat it;
 * NUMBERS_VERBOSE: prints every wrong element's inputs, and refusals; NUMBERS_WRITE=FILE: adds the cases and the
 * results of the cpu driver's best instruction set to the file, for tools/numbers_check.py, which compares them with
 * NumPy; CAMPAIGN_STATE: counts the cases there.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "cpu/plan/plan.h"
#include "support/case_json.h"
#include "support/device_run.h"
#include "support/extreme_cases.h"
#include "support/test.h"

enum { MOST_RESULTS = 8, MOVES = 6, COLUMNS = CPU_ISA_COUNT + 2, SHOWN = 12, BATCH = 5000 };

static propane_error err;

static uint64_t first_seed(void) { return test_number("FIRST", test_number("SEED", 1) * 100000000); }

/* ---- the reference
 * ------------------------------------------------------------------------------------------------------ */

typedef enum exactness {
    ROUNDED_ONCE, /* identical bits */
    ELEMENT,      /* a function of one element of each operand */
    STEPS,        /* a function of one element in several rounded steps */
    SUM           /* of many elements */
} exactness;

static const mil_opcode steps[] = {MIL_OP_gelu,
                                   MIL_OP_softplus_parametric,
                                   MIL_OP_linear_activation,
                                   MIL_OP_scaled_tanh,
                                   MIL_OP_sigmoid_hard,
                                   MIL_OP_silu,
                                   MIL_OP_log,
                                   MIL_OP_rsqrt,
                                   MIL_OP_inverse,
                                   MIL_OP_prelu};

static exactness exactness_of(const op_case *c) {
    static const char *const element_rules[] = {"same", "broadcast"};
    if (extreme_rounds_once(c->code)) return ROUNDED_ONCE;
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
        if (steps[k] == c->code) return STEPS;
    for (size_t k = 0; k < sizeof element_rules / sizeof *element_rules; k++)
        if (!strcmp(op_rule_name(c->code), element_rules[k])) return ELEMENT;
    return SUM;
}

typedef struct meaning {
    op_case *c;
    arena *a;
    char label[360];
    exactness how;
    mil_tensor *want;
    mil_tensor *rounded;         /* of a pair of operations: the value between them is rounded too; NULL for one */
    double *moved[MOST_RESULTS]; /* SUM: how far each element may move */
    double least;                /* smaller intermediate values are lost: a denormal is scaled afterwards */
    bool leaves; /* exceeds the range of fp32 at an intermediate value, although the double does not: not compared */
} meaning;

/* Moves each float by about `by` units of fp32's last place, up or down. */
static void move(const op_case *c, rng *r, double by, mil_tensor *to) {
    for (int i = 0; i < c->input_count; i++) {
        const int64_t count = mil_type_count(&c->inputs[i].type);
        for (int64_t k = 0; k < count; k++) {
            const double v = c->inputs[i].data[k];
            const bool real = mil_dtype_is_float(c->inputs[i].type.dtype);
            to[i].data[k] = real ? v * (1 + by * rng_normal(r) * (double)FLT_EPSILON) : v;
        }
    }
}

/* `c` is the case, with inputs instead of constants if the operation accepts them. */
static void find_moves(meaning *m, const op_case *c) {
    mil_tensor moved[OP_CASE_INPUTS], *out = NULL;
    rng r;
    rng_init(&r, 1);
    for (int i = 0; i < c->input_count; i++) {
        moved[i] = c->inputs[i];
        moved[i].data = ARENA_ARRAY(m->a, mil_type_count(&moved[i].type) + 1, double);
    }
    for (int k = 0; k < m->c->function->result_count; k++)
        m->moved[k] = ARENA_ARRAY(m->a, mil_type_count(&m->want[k].type) + 1, double);
    for (int n = 0; n < MOVES; n++) {
        move(c, &r, n % 2 ? 1 : 4, moved);
        if (mil_eval_function(c->function, moved, false, m->a, &out, &err)) return;
        for (int k = 0; k < m->c->function->result_count; k++)
            for (int64_t i = 0; i < mil_type_count(&m->want[k].type); i++) {
                const double by = fabs(out[k].data[i] - m->want[k].data[i]);
                const bool same = isnan(by) && (isnan(out[k].data[i]) == isnan(m->want[k].data[i]));
                if (!same && !(by <= m->moved[k][i])) m->moved[k][i] = isnan(by) ? INFINITY : by;
            }
    }
}

/* Adds the effects of intermediate rounding that moving the operands does not show. A wrong mean shifts everything that
 * it centres, even where the result is at its extreme. Gates saturate at 1, and a logarithm begins at it. */
static void add_moves_on_the_way(meaning *m) {
    const mil_opcode code = m->c->code;
    const bool centred = code == MIL_OP_layer_norm || code == MIL_OP_instance_norm;
    const bool full = code == MIL_OP_lstm || code == MIL_OP_gru || code == MIL_OP_rnn ||
                      (code == MIL_OP_log && mil_in(m->c->op, "epsilon")) || code == MIL_OP_reduce_log_sum_exp;
    for (int k = 0; k < m->c->function->result_count; k++) {
        const int64_t count = mil_type_count(&m->want[k].type);
        double most = full ? (double)FLT_EPSILON : 0;
        for (int64_t i = 0; centred && i < count; i++) most = fmax(most, m->moved[k][i]);
        for (int64_t i = 0; i < count; i++) m->moved[k][i] = fmax(m->moved[k][i], most);
    }
}

/* Finds the largest magnitude of all numbers including constants, and the smallest nonzero one. */
static void sizes_of(const op_case *c, double *most, double *least, double *logs, bool *weights_finite) {
    *most = 0, *least = INFINITY, *logs = 0, *weights_finite = true;
    for (int p = 0; p < c->op->info->param_count; p++)
        for (int n = 0; n < c->op->operands[p].count; n++) {
            const mil_value *v = c->op->operands[p].values[n];
            const double *data = NULL;
            for (int i = 0; i < c->input_count; i++)
                if (c->function->params[i] == v) data = c->inputs[i].data;
            if (!mil_dtype_is_float(v->type.dtype) || (!data && !v->constant)) continue;
            for (int64_t k = 0; k < mil_type_count(&v->type); k++) {
                const double size = fabs(data ? data[k] : mil_const_f64(v->constant, k));
                *weights_finite = *weights_finite && (p == 0 || isfinite(size));
                if (!isfinite(size) || size == 0) continue;
                *most = fmax(*most, size), *least = fmin(*least, size), *logs += fabs(log2(size));
            }
        }
}

static bool inputs_are_finite(const op_case *c, int count) {
    for (int k = 0; k < count; k++)
        for (int64_t i = 0; i < mil_type_count(&c->inputs[k].type); i++)
            if (!isfinite(c->inputs[k].data[i])) return false;
    return true;
}

/* Returns whether the operation multiplies by zero: padding, or a factor that vanishes only in fp32. Times infinity
 * it is NaN. */
static bool meets_zero(mil_opcode code) {
    static const mil_opcode codes[] = {MIL_OP_conv,
                                       MIL_OP_conv_transpose,
                                       MIL_OP_conv_quantized,
                                       MIL_OP_softplus_parametric,
                                       MIL_OP_scaled_dot_product_attention,
                                       MIL_OP_lstm,
                                       MIL_OP_gru,
                                       MIL_OP_rnn};
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
        if (codes[k] == code) return true;
    return false;
}

/* These add, with weights of at most 1. */
static const mil_opcode adding[] = {
    MIL_OP_reduce_sum, MIL_OP_reduce_mean,       MIL_OP_reduce_l1_norm,  MIL_OP_reduce_log_sum, MIL_OP_cumsum,
    MIL_OP_avg_pool,   MIL_OP_upsample_bilinear, MIL_OP_resize_bilinear, MIL_OP_resize,         MIL_OP_crop_resize,
    MIL_OP_affine,     MIL_OP_resample,
};

/* Returns whether intermediate values may leave the range of fp32. Sums of squares and products do so long before
 * their result does; so do sums of the largest numbers, and numbers that are scaled. */
static bool leaves_fp32(meaning *m) {
    const op_case *c = m->c;
    double most, least, logs, count = 0;
    bool weights_finite;
    double epsilon = 1;
    if (m->how == SUM && mil_op_param(c->op->info, "epsilon") >= 0 &&
        !mil_attr_float(c->op, "epsilon", &epsilon, &err) && epsilon <= 0)
        return true; /* a variance of 0 becomes one of rounding */
    if (m->how < STEPS || c->code == MIL_OP_softmax || c->code == MIL_OP_reduce_log_sum_exp) return false;
    const bool scaled = mil_op_param(c->op->info, "beta") >= 0, shifted = mil_op_param(c->op->info, "epsilon") >= 0;
    if (m->how == STEPS && !scaled && !shifted) return false;
    if ((c->code == MIL_OP_conv_transpose || c->code == MIL_OP_local_response_norm) &&
        !inputs_are_finite(c, c->input_count > 0))
        return true;
    if (c->code == MIL_OP_einsum && !inputs_are_finite(c, c->input_count)) return true; /* sums in another order */
    sizes_of(c, &most, &least, &logs, &weights_finite);
    m->least = fmax(m->least, 0x1p-149 * most);
    for (int i = 0; i < c->input_count; i++) count += (double)mil_type_count(&c->inputs[i].type);
    /* without bounds on its state, an rnn multiplies by its weights at each step */
    if (c->code == MIL_OP_rnn && most > 0x1p24) return true;
    /* if scores are large and nearly equal, rounding decides which is the largest */
    if (c->code == MIL_OP_scaled_dot_product_attention && most * most > 0x1p24) return true;
    if (c->code == MIL_OP_reduce_prod || c->code == MIL_OP_einsum) return logs > 120;
    if (m->how == STEPS && !scaled) return most > (double)FLT_MAX / 4;
    for (size_t k = 0; k < sizeof adding / sizeof *adding; k++)
        if (adding[k] == c->code) return most * count > FLT_MAX;
    return most * most * count > FLT_MAX || least < 0x1p-60 || (!weights_finite && meets_zero(c->code));
}

/* Returns false if the case is an error (such as a list index), or not a request that a device can get. */
static bool meaning_make(meaning *m, uint64_t seed) {
    *m = (meaning){.c = extreme_case(seed, true, &err)};
    if (!m->c) {
        if (getenv("NUMBERS_VERBOSE")) printf("  case %llu: %s\n", (unsigned long long)seed, err.text);
        return false;
    }
    const op_case *c = m->c;
    EXPECT((m->a = arena_create()) != NULL);
    if (!c->function->result_count || c->function->result_count > MOST_RESULTS) return false;
    for (int k = 0; k < c->function->result_count; k++)
        if (mil_dtype_get(c->function->results[k]->type.dtype)->bits < 8) return false;
    if (mil_eval_function(c->function, c->inputs, false, m->a, &m->want, &err)) return false;
    m->how = exactness_of(c);
    const mil_op *last = c->function->results[0]->def;
    if (last && last != c->op) {
        if (m->how != ROUNDED_ONCE || mil_eval_function(c->function, c->inputs, true, m->a, &m->rounded, &err))
            return false;
        snprintf(m->label, sizeof m->label, "%.300s, %s", c->label, last->info->name);
    } else {
        snprintf(m->label, sizeof m->label, "%.300s", c->label);
    }
    if (m->how >= STEPS) {
        op_case *twin = extreme_case(seed, false, &err);
        find_moves(m, twin ? twin : c);
        op_case_free(twin);
        add_moves_on_the_way(m);
        m->least = 0x1p-142;
    }
    m->leaves = leaves_fp32(m);
    return true;
}

static void meaning_free(meaning *m) {
    if (m->a) arena_free(m->a);
    op_case_free(m->c);
}

/* ---- comparing ---------------------------------------------------------------------------------------------------------- */

/* Returns whether the sign of zero is defined. IEEE does not define which zero is the larger one, and sums begin
 * with a zero. */
static bool keeps_zero_sign(const meaning *m) {
    static const mil_opcode open[] = {MIL_OP_maximum,   MIL_OP_minimum,      MIL_OP_reduce_max,  MIL_OP_reduce_min,
                                      MIL_OP_max_pool,  MIL_OP_relu,         MIL_OP_relu6,       MIL_OP_clip,
                                      MIL_OP_threshold, MIL_OP_clamped_relu, MIL_OP_sigmoid_hard};
    for (size_t k = 0; k < sizeof open / sizeof *open; k++)
        if (open[k] == m->c->code) return false;
    return m->how != SUM;
}

static bool is_same(double want, double got) { return want == got || (isnan(want) && isnan(got)); }

/* Observed: at most 4 units of fp32's last place in a function of one element. */
static bool is_right(const meaning *m, int k, int64_t i, double got) {
    const mil_dtype dtype = m->c->function->results[k]->type.dtype;
    const double want = m->want[k].data[i];
    if (m->rounded) return is_same(mil_round(dtype, want), got) || is_same(m->rounded[k].data[i], got);
    if (!mil_dtype_is_float(dtype)) return got == want;
    if (m->how >= STEPS && isinf(m->moved[k][i])) return true;
    if (m->how == SUM && isfinite(want) && fabs(want) > FLT_MAX)
        return !isfinite(got); /* inf - inf as an intermediate value */
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    const double off = m->how == ROUNDED_ONCE ? 0
                       : m->how == ELEMENT    ? 6 * (double)FLT_EPSILON * fabs(want) + 0x1p-149
                                              : 8 * m->moved[k][i] + 6 * (double)FLT_EPSILON * fabs(want) + m->least;
    const double low = mil_round(dtype, isinf(want) ? want : want - off),
                 high = mil_round(dtype, isinf(want) ? want : want + off);
    if (got == 0 && want == 0) return !keeps_zero_sign(m) || signbit(got) == signbit(want);
    return low <= got && got <= high;
}

typedef struct column {
    char name[40];
    cpu_plan_options options;
    propane_device *device; /* NULL for a plan */
    FILE *file;             /* NULL if not written */
    int cases, refused, wrong, by_row[MIL_OP_COUNT];
} column;

typedef struct tally { /* shared with the processes that run the cases */
    column columns[COLUMNS];
    int count, made, unmade, leaving, rows[MIL_OP_COUNT];
    uint64_t next; /* seed */
} tally;

static void show_inputs(const op_case *c, int64_t at) {
    for (int i = 0; i < c->input_count; i++) {
        const int64_t count = mil_type_count(&c->inputs[i].type);
        printf("    %s:", c->function->params[i]->name);
        if (at < count) printf(" [%lld] %.9g;", (long long)at, c->inputs[i].data[at]);
        for (int64_t k = 0; k < count && k < 24; k++) printf(" %.9g", c->inputs[i].data[k]);
        printf("\n");
    }
}

static void compare(const meaning *m, column *col, uint64_t seed, double *const *got) {
    for (int k = 0; k < m->c->function->result_count; k++)
        for (int64_t i = 0; i < mil_type_count(&m->want[k].type); i++) {
            if (is_right(m, k, i, got[k][i])) continue;
            const mil_dtype dtype = m->c->function->results[k]->type.dtype;
            col->wrong++;
            if (col->by_row[m->c->code]++ < SHOWN || getenv("NUMBERS_VERBOSE")) {
                printf("  %llu %s on %s: result %d [%lld] is %.9g, not %.9g (%.12g)\n", (unsigned long long)seed,
                       m->label, col->name, k, (long long)i, got[k][i], mil_round(dtype, m->want[k].data[i]),
                       m->want[k].data[i]);
                if (getenv("NUMBERS_VERBOSE") && m->how >= STEPS) printf("    moves by %.3g\n", m->moved[k][i]);
                if (getenv("NUMBERS_VERBOSE")) show_inputs(m->c, i);
            }
            return; /* one report per case */
        }
}

/* ---- running ------------------------------------------------------------------------------------------------------------ */

static void run_plan(const meaning *m, column *col, double **got) {
    const op_case *c = m->c;
    cpu_program *plan = NULL;
    void *inputs[OP_CASE_INPUTS], *outputs[MOST_RESULTS];
    if (cpu_plan_compile(c->function, &col->options, m->a, &plan, &err) || cpu_program_memory_check(plan, &err))
        ck_abort_msg("%s: %s", c->label, err.text);
    plan->poison = true;
    for (int i = 0; i < plan->input_count; i++) {
        inputs[i] = mem_alloc(plan->inputs[i].bytes + 1);
        mil_pack_f64(inputs[i], c->inputs[i].type.dtype, c->inputs[i].data, mil_type_count(&c->inputs[i].type));
    }
    for (int k = 0; k < plan->output_count; k++) outputs[k] = mem_alloc(plan->outputs[k].bytes + 8);
    void *block = mem_pages_alloc((size_t)plan->block_bytes + 64);
    if (cpu_program_run(plan, block, inputs, outputs, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    for (int k = 0; k < plan->output_count; k++) {
        const mil_type *type = &c->function->results[k]->type;
        got[k] = mem_array((size_t)mil_type_count(type) + 1, sizeof *got[k]);
        mil_unpack_f64(got[k], type->dtype, outputs[k], mil_type_count(type));
        mem_free(outputs[k]);
    }
    for (int i = 0; i < plan->input_count; i++) mem_free(inputs[i]);
    mem_pages_free(block, (size_t)plan->block_bytes + 64);
    cpu_program_deinit(plan);
}

static void try_on(const meaning *m, column *col, uint64_t seed) {
    const op_case *c = m->c;
    double *got[MOST_RESULTS];
    const bool drawn = !strncmp(mil_op_get(c->code)->name, "random_", 7);
    if (col->device && drawn) return; /* only the cpu driver draws the same numbers as the reference */
    if (!col->device)
        run_plan(m, col, got);
    else if (!device_run(col->device, c->module, c->function, c->inputs, c->label, got, &err)) {
        col->refused++;
        return;
    }
    col->cases++;
    /* a device may store each step of an operation in fp16 */
    if (col->file && !m->rounded) case_json_write(col->file, c, got);
    if (!m->leaves && !(col->device && m->how == STEPS)) compare(m, col, seed, got);
    for (int k = 0; k < c->function->result_count; k++) mem_free(got[k]);
}

static void add_columns(tally *t) {
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available((cpu_isa)isa)) continue;
        column *c = &t->columns[t->count++];
        snprintf(c->name, sizeof c->name, "%s", cpu_isa_name((cpu_isa)isa));
        c->options = (cpu_plan_options){.kernels = cpu_kernels_of((cpu_isa)isa), .guard = true, .fuse = true};
    }
    const char *path = getenv("NUMBERS_WRITE");
    if (path && *path) EXPECT((t->columns[t->count - 1].file = fopen(path, "a")) != NULL);
    static const char *const chips[] = {"m1", "m4"};
    for (int k = 0; k < 2; k++) {
        column *c = &t->columns[t->count++];
        char uri[160];
        snprintf(c->name, sizeof c->name, "sim:%s, exact", chips[k]);
        snprintf(uri, sizeof uri,
                 "sim:%s?refuse=0&faults=0&round=0&sums=0&arithmetic=0&table=0&saturate=0&slice=0&theory=2", chips[k]);
        EXPECT_OK(propane_device_open(uri, &c->device, &err));
    }
}

static void report(const tally *t) {
    int wrong = 0, shown = 0;
    for (int op = 0; op < MIL_OP_COUNT; op++) shown += t->rows[op] > 0;
    for (int k = 0; k < t->count; k++) {
        const column *c = &t->columns[k];
        printf("  %s: %d cases, %d refused, %d wrong\n", c->name, c->cases, c->refused, c->wrong);
        wrong += c->wrong;
        for (int op = 0; op < MIL_OP_COUNT; op++)
            if (c->by_row[op]) printf("    %s: %d\n", mil_op_get((mil_opcode)op)->name, c->by_row[op]);
    }
    printf("  %d cases from seed %llu on (%d more were refused), %d rows of ops.def; %d sums left fp32\n", t->made,
           (unsigned long long)first_seed(), t->unmade, shown, t->leaving);
    const char *path = getenv("CAMPAIGN_STATE");
    FILE *f = path && *path ? fopen(path, "a") : NULL;
    if (f) {
        fprintf(f, "numbers %d %d %llu\n", t->made, wrong, (unsigned long long)first_seed() / 100000000);
        fclose(f);
    }
    fflush(stdout);
    EXPECT_MSG(wrong == 0, "%d results are wrong", wrong);
}

/* Runs in a separate process, which may crash. */
static void try_batch(tally *t, int most) {
    t->count = 0;
    add_columns(t);
    for (int n = 0; n < most; t->next++) {
        meaning m;
        if (meaning_make(&m, t->next)) {
            n++, t->made++, t->leaving += m.leaves, t->rows[m.c->code]++;
            for (int k = 0; k < t->count; k++) try_on(&m, &t->columns[k], t->next);
        } else {
            t->unmade++;
        }
        meaning_free(&m);
    }
    for (int k = 0; k < t->count; k++) {
        if (t->columns[k].file) EXPECT(fclose(t->columns[k].file) == 0);
        if (t->columns[k].device) propane_device_close(t->columns[k].device);
    }
}

TEST(numbers_of_all_sizes_mean_the_same_everywhere) {
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(t != MAP_FAILED);
    const int most = (int)test_number("NUMBERS", 2000);
    t->next = first_seed();
    while (t->made < most) {
        int status = 0;
        fflush(stdout);
        const pid_t child = fork();
        if (!child) {
            try_batch(t, most - t->made < BATCH ? most - t->made : BATCH);
            fflush(stdout);
            _exit(0);
        }
        EXPECT(child > 0 && waitpid(child, &status, 0) == child);
        EXPECT_MSG(status == 0, "case %llu ends the process: %#x", (unsigned long long)t->next, (unsigned)status);
    }
    report(t);
    munmap(t, sizeof *t);
}

SUITE("campaign/numbers", T(numbers_of_all_sizes_mean_the_same_everywhere))
