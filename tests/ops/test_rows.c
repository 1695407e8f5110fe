/* SPDX-License-Identifier: MIT
 * Every row of ops.def has a rule, an evaluation and cases. Every case verifies, evaluates to numbers of the right
 * type, and has a cost. Rows without an evaluation or a gradient are printed by name, so that gaps stay visible.
 */
#include <math.h>

#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "support/op_cases.h"
#include "support/test.h"

static void count_case(const op_case *c, void *context) { ((int *)context)[c->code]++; }

/* Rows that a program of one operation cannot exercise. tests/mil/test_control.c covers them; classify is in
 * test_rules.c. */
static bool needs_more_than_one_op(const mil_op_info *info) {
    bool more = mil_op_blocks(info) > 0 || info->code == MIL_OP_make_list || info->code == MIL_OP_classify;
    for (int p = 0; p < info->param_count; p++)
        more |= info->params[p].type_class == MIL_CLASS_STATE || info->params[p].type_class == MIL_CLASS_LIST;
    return more;
}

TEST(every_row_is_whole) {
    int cases[MIL_OP_COUNT] = {0};
    const int count = op_cases_each(OP_CASES_ALL, 1, count_case, cases);
    printf("  %d rows, %d cases\n", MIL_OP_COUNT, count);
    for (int op = 0; op < MIL_OP_COUNT; op++) {
        const mil_op_info *info = mil_op_get((mil_opcode)op);
        EXPECT_MSG(info->rule != NULL, "%s has no rule", info->name);
        EXPECT_MSG(cases[op] >= 3 || needs_more_than_one_op(info), "%s has %d cases in tests/support/op_lines_*.c",
                   info->name, cases[op]);
        EXPECT_MSG(mil_op_find(info->name, strlen(info->name)) == info, "%s is not found by its name", info->name);
        if (!info->eval) printf("  without evaluation: %s\n", info->name);
        EXPECT_MSG(info->eval || op == MIL_OP_const || op == MIL_OP_classify, "%s has no evaluation", info->name);
        if (!strcmp(op_grad_name((mil_opcode)op), "none")) printf("  without gradient: %s\n", info->name);
    }
}

typedef struct uses {
    const char *param;
    int given, left_out;
} uses;

static void note_uses(const op_case *c, void *context) {
    uses *u = context;
    *(mil_in(c->op, u->param) ? &u->given : &u->left_out) += 1;
}

TEST(every_optional_parameter_is_given_and_left_out) {
    for (int op = 0; op < MIL_OP_COUNT; op++) {
        const mil_op_info *info = mil_op_get((mil_opcode)op);
        for (int p = 0; p < info->param_count; p++) {
            if (info->params[p].need != MIL_OPTIONAL || needs_more_than_one_op(info)) continue;
            uses u = {.param = info->params[p].name};
            op_cases_each(op, 1, note_uses, &u);
            EXPECT_MSG(u.given && u.left_out, "%s: %s is given in %d cases and left out in %d", info->name, u.param,
                       u.given, u.left_out);
        }
    }
}

static void evaluate(const op_case *c, void *context) {
    propane_error err = {0};
    arena *a = arena_create();
    mil_tensor *exact = NULL, *rounded = NULL;
    EXPECT(a != NULL);
    if (mil_eval_function(c->function, c->inputs, false, a, &exact, &err) ||
        mil_eval_function(c->function, c->inputs, true, a, &rounded, &err))
        ck_abort_msg("%s: %s", c->label, err.text);
    const bool ends = strstr(c->label, "~divisor"); /* includes division by zero and by infinity */
    for (int k = 0; k < c->function->result_count; k++) {
        const mil_type *type = &c->function->results[k]->type;
        EXPECT_MSG(mil_type_equal(&exact[k].type, type), "%s: result %d has the wrong type", c->label, k);
        for (int64_t i = 0; i < mil_type_count(type); i++) {
            const double e = exact[k].data[i], r = rounded[k].data[i];
            EXPECT_MSG(ends || isfinite(e), "%s: element %lld is %g", c->label, (long long)i, e);
            if (isnan(e) && isnan(r)) continue;
            EXPECT_MSG(r == mil_round(type->dtype, e), "%s: element %lld %g was rounded to %g", c->label, (long long)i,
                       e, r);
            EXPECT_MSG(mil_dtype_is_float(type->dtype) || r == e, "%s: element %lld %g is not whole", c->label,
                       (long long)i, e);
        }
    }
    arena_free(a);
}

TEST(every_case_evaluates) {
    op_cases_each(OP_CASES_ALL, 1, evaluate, NULL);
    op_cases_each(OP_CASES_ALL, 2, evaluate, NULL);
}

/* Prints, parses and prints: both texts are equal, and the parsed program computes the same bits. */
static void round_trip(const op_case *c, void *context) {
    const mil_print_options options = {*(const mil_dialect *)context, true};
    propane_error err = {0};
    text first = {0}, second = {0};
    mil_module *m = NULL;
    arena *a = arena_create();
    mil_tensor *before = NULL, *after = NULL;
    mil_print(&first, c->module, &options);
    EXPECT(a && !first.failed);
    if (mil_parse(first.data, first.length, "case.mil", NULL, &m, &err))
        ck_abort_msg("%s: %s\n%s", c->label, err.text, first.data);
    mil_print(&second, m, &options);
    EXPECT_MSG(!strcmp(first.data, second.data), "%s: printed\n%s\nand then\n%s", c->label, first.data, second.data);
    const mil_function *f = mil_module_function(m, NULL, &err);
    EXPECT_OK(mil_eval_function(c->function, c->inputs, true, a, &before, &err));
    EXPECT_OK(mil_eval_function(f, c->inputs, true, a, &after, &err));
    for (int k = 0; k < f->result_count; k++)
        EXPECT_MSG(!memcmp(before[k].data, after[k].data, (size_t)mil_type_count(&before[k].type) * sizeof(double)),
                   "%s: computes something else after parsing", c->label);
    text_deinit(&first);
    text_deinit(&second);
    mil_module_free(m);
    arena_free(a);
}

TEST(every_case_prints_and_parses) {
    mil_dialect dialect = MIL_SHORT;
    op_cases_each(OP_CASES_ALL, 1, round_trip, &dialect);
    dialect = MIL_CANONICAL;
    op_cases_each(OP_CASES_ALL, 1, round_trip, &dialect);
}

static void price(const op_case *c, void *context) {
    mil_cost cost;
    mil_op_cost(c->op, &cost);
    if (c->op->info->code == MIL_OP_const) {
        EXPECT_MSG(cost.bytes_in == 0 && cost.flops == 0, "%s: a constant costs nothing", c->label);
        return;
    }
    EXPECT_MSG(cost.bytes_out > 0 && cost.bytes_in >= cost.bytes_const, "%s: no bytes", c->label);
    EXPECT_MSG(cost.flops > 0 || c->op->info->flops_per_element == 0, "%s: no flops", c->label);
}

TEST(every_case_has_a_cost) { op_cases_each(OP_CASES_ALL, 1, price, NULL); }

SUITE("ops/rows", T(every_row_is_whole), T(every_optional_parameter_is_given_and_left_out), T(every_case_evaluates),
      T(every_case_prints_and_parses), T(every_case_has_a_cost))
