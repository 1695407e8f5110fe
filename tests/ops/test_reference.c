/* SPDX-License-Identifier: MIT
 * The reference evaluation against results of PyTorch, numpy and Python, which independently confirms the reference for
 * all other tests. Every row has at least MINIMUM combinations of arguments there, or a reason below.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "support/op_cases.h"
#include "support/reference.h"
#include "support/test.h"

enum { MINIMUM = 5 };

static const struct {
    mil_opcode code;
    const char *reason;
} excused[] = {
    {MIL_OP_classify, "its results are labels and a dictionary, which are never computed; tests/ops/test_rules"},
};

typedef struct tally {
    int cases[MIL_OP_COUNT];
    double worst;
} tally;

/* Checks that each bin has the expected count, within five standard deviations. */
static void compare_distribution(const reference_case *c, const mil_tensor *have) {
    const mil_tensor *edges = &c->want[0], *p = &c->want[1];
    const int64_t bins = p->type.dim[1], rows = p->type.dim[0], count = mil_type_count(&have->type) / rows;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t bin = 0; bin < bins; bin++) {
            int64_t found = 0;
            for (int64_t i = 0; i < count; i++) {
                const double v = have->data[row * count + i];
                found += (bin == 0 || v >= edges->data[bin - 1]) && (bin == bins - 1 || v < edges->data[bin]);
            }
            const double q = p->data[row * bins + bin], want = q * (double)count;
            EXPECT_MSG(fabs((double)found - want) <= 5 * sqrt(want * (1 - q)),
                       "%s: %lld of %lld are in bin %lld, not %g", c->label, (long long)found, (long long)count,
                       (long long)bin, want);
        }
}

/* Largest seen: 4.8e-15 (sums in another order); the bound is 20 times that. */
static void compare_values(const reference_case *c, const mil_tensor *have, const mil_tensor *want, tally *t) {
    char a[160], b[160];
    mil_type bare = mil_type_bare(&have->type);
    bare.dtype = want->type.dtype;
    EXPECT_MSG(mil_type_equal(&bare, &want->type), "%s: a result is %s, not %s", c->label, mil_type_print(a, &bare),
               mil_type_print(b, &want->type));
    for (int64_t i = 0; i < mil_type_count(&bare); i++) {
        const double x = have->data[i], y = want->data[i], error = fabs(x - y) / fmax(fabs(y), 1);
        if (x == y || (isnan(x) && isnan(y))) continue;
        EXPECT_MSG(error < 1e-13, "%s: element %lld is %.17g, not %.17g", c->label, (long long)i, x, y);
        t->worst = fmax(t->worst, error);
    }
}

static void check(const reference_case *c, void *context) {
    tally *t = context;
    propane_error err = {0};
    arena *a = arena_create();
    mil_tensor *out = NULL, *again = NULL;
    int results = c->function->result_count;
    for (int i = 0; i < c->function->param_count; i++) results += c->function->params[i]->type.container == MIL_STATE;
    if (mil_eval_function(c->function, c->inputs, false, a, &out, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    if (c->is_distribution) {
        EXPECT(c->want_count == 2);
        compare_distribution(c, &out[0]);
        EXPECT_OK(
            /* The same seed produces the same numbers. */
            mil_eval_function(c->function, c->inputs, false, a, &again, &err));
        EXPECT(!memcmp(out[0].data, again[0].data, (size_t)mil_type_count(&out[0].type) * sizeof(double)));
    } else {
        EXPECT_MSG(results == c->want_count, "%s: %d results, not %d", c->label, results, c->want_count);
        for (int k = 0; k < results; k++) compare_values(c, &out[k], &c->want[k], t);
    }
    for (int r = 0; r < c->row_count; r++) t->cases[c->rows[r]]++;
    arena_free(a);
}

static const char *excuse(mil_opcode code) {
    for (size_t k = 0; k < sizeof excused / sizeof excused[0]; k++)
        if (excused[k].code == code) return excused[k].reason;
    return NULL;
}

TEST(meanings_agree_with_other_frameworks) {
    static tally t;
    const int cases = reference_each(check, &t);
    int fewest = cases;
    for (int op = 0; op < MIL_OP_COUNT; op++) {
        const char *name = mil_op_get((mil_opcode)op)->name, *reason = excuse((mil_opcode)op);
        if (getenv("PROPANE_ROWS_VERBOSE")) printf("  %-28s %d\n", name, t.cases[op]);
        if (reason) {
            printf("  not in the reference: %s: %s\n", name, reason);
            continue;
        }
        if (t.cases[op] < fewest) fewest = t.cases[op];
        EXPECT_MSG(t.cases[op] >= MINIMUM,
                   "%s has %d cases in tests/data/ops_reference.txt, not %d (tools/ops_reference.py)", name,
                   t.cases[op], MINIMUM);
    }
    printf("  %d cases of %d operations, at least %d each, worst error %.1e\n", cases, MIL_OP_COUNT, fewest, t.worst);
}

static void draw(const char *seed, double out[64]) {
    propane_error err = {0};
    char line[64];
    arena *a = arena_create();
    mil_tensor *results = NULL;
    snprintf(line, sizeof line, "shape=[64] seed=%s", seed);
    op_case *c = op_case_make(MIL_OP_random_uniform, MIL_fp32, line, 1, &err);
    EXPECT(c && a);
    EXPECT_OK(mil_eval_function(c->function, c->inputs, false, a, &results, &err));
    memcpy(out, results[0].data, 64 * sizeof *out);
    op_case_free(c);
    arena_free(a);
}

TEST(another_seed_gives_other_numbers) {
    double one[64], two[64];
    draw("1", one);
    draw("2", two);
    for (int i = 0; i < 64; i++) EXPECT_MSG(one[i] != two[i], "element %d is %g with both seeds", i, one[i]);
}

SUITE("ops/reference", T(meanings_agree_with_other_frameworks), T(another_seed_gives_other_numbers))
