/* SPDX-License-Identifier: MIT
 * The slow meanings against what PyTorch and numpy computed (tests/data/ops_reference.txt, written by
 * tools/ops_reference.py): the independent proof that the truth of all other tests is true.
 */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/op_cases.h"
#include "support/test.h"

typedef struct record {
    char name[64], dtype[16];
    char *line, *want;
} record;

/* Cuts two lines off `at`; false at the end. */
static bool next_record(char **at, record *r) {
    int used = 0;
    if (!**at) return false;
    char *end = strchr(*at, '\n');
    EXPECT(end && sscanf(*at, "%63s %15s %n", r->name, r->dtype, &used) == 2);
    *end = 0;
    r->line = *at + used;
    r->want = end + 1;
    end = strchr(r->want, '\n');
    EXPECT(end != NULL);
    *end = 0;
    *at = end + 1;
    return true;
}

/* "[2,3] 1 2 3 4 5 6" against one result; returns what follows. The largest error, relative to max(|want|, 1), is kept. */
static char *compare(const op_case *c, int index, const mil_tensor *have, char *want, double *worst) {
    char shape[200] = "[";
    for (int d = 0; d < have->type.rank; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", d ? "," : "",
                 (long long)have->type.dim[d]);
    strcat(shape, "]");
    want += strspn(want, " ");
    EXPECT_MSG(!strncmp(want, shape, strlen(shape)), "%s: result %d is %s, not %.40s", c->label, index, shape, want);
    want += strlen(shape);
    for (int64_t i = 0; i < mil_type_count(&have->type); i++) {
        char *end = NULL;
        const double value = strtod(want, &end), error = fabs(have->data[i] - value) / fmax(fabs(value), 1);
        EXPECT_MSG(end > want, "%s: a value is missing", c->label);
        EXPECT_MSG(error < 1e-13, "%s: result %d element %lld is %.17g, not %.17g", c->label, index, (long long)i,
                   have->data[i], value);
        *worst = fmax(*worst, error);
        want = end;
    }
    return want;
}

/* Worst seen: 4.8e-15 (sums in another order); the bound is 20 times that. */
TEST(meanings_agree_with_other_frameworks) {
    propane_error err = {0};
    char *data = NULL;
    size_t length = 0;
    EXPECT_OK(file_read("tests/data/ops_reference.txt", 1 << 24, &data, &length, &err));
    bool seen[MIL_OP_COUNT] = {false};
    double worst = 0;
    int cases = 0, ops = 0;
    record r;
    for (char *at = data; next_record(&at, &r); cases++) {
        const mil_op_info *info = mil_op_find(r.name, strlen(r.name));
        EXPECT_MSG(info != NULL, "no operation %s", r.name);
        op_case *c = op_case_make(info->code, mil_dtype_from_name(r.dtype, strlen(r.dtype)), r.line, 1, &err);
        if (!c) ck_abort_msg("%s: %s", r.line, err.text);
        arena *a = arena_create();
        mil_tensor *out = NULL;
        if (mil_eval_function(c->function, c->inputs, false, a, &out, &err)) ck_abort_msg("%s: %s", c->label, err.text);
        char *want = r.want;
        for (int k = 0; k < c->function->result_count; k++) want = compare(c, k, &out[k], want, &worst);
        EXPECT_MSG(want[strspn(want, " ")] == 0, "%s: fewer results than expected: %s", c->label, want);
        seen[info->code] = true;
        arena_free(a);
        op_case_free(c);
    }
    for (int op = 0; op < MIL_OP_COUNT; op++) {
        ops += seen[op];
        if (!seen[op]) printf("  not in the reference: %s\n", mil_op_get((mil_opcode)op)->name);
    }
    printf("  %d cases of %d operations, worst error %.1e\n", cases, ops, worst);
    EXPECT(cases > 350);
    mem_free(data);
}

SUITE("ops/reference", T(meanings_agree_with_other_frameworks))
