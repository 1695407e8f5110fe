/* SPDX-License-Identifier: MIT
 * The search for a refused operation, run on artificial compilers. They refuse programs that contain certain values,
 * each for a reason, may change their answers, and may stop answering.
 */
#include <stdlib.h>

#include "core/base/text.h"
#include "core/mil/ops.h"
#include "core/mil/text/mil_text.h"
#include "core/refusal/search.h"
#include "support/test.h"

typedef struct compiler {
    const char *refused[4][4]; /* [rule]: refuses a program with all of these operations or values; NULL ends a list */
    const char *reasons[4];    /* [rule]; NULL means "no" */
    const char *unused;        /* refuses an input of that name */
    int wrong;                 /* number of first answers that are wrongly "refused" */
    bool drops;                /* ignores operations that no output depends on */
    bool forgets;              /* refuses only every second time */
    int most;                  /* number of programs it answers for; 0 means no limit */
    int asked, refusals, operations;
} compiler;

static bool is_used(const mil_function *f, const mil_op *maker) {
    bool used = maker->result_count == 0;
    for (int i = 0; i < f->result_count; i++) used |= f->results[i]->def == maker;
    for (const mil_op *op = maker->next; op && !used; op = op->next)
        MIL_FOR_OPERANDS (op, v) used |= v->def == maker && is_used(f, op);
    return used;
}

static bool has(const mil_function *f, const char *word, bool drops) {
    for (const mil_op *op = f->first; op; op = op->next) {
        if (drops && !is_used(f, op)) continue;
        if (strcmp(op->info->name, word) == 0) return true;
        for (int i = 0; i < op->result_count; i++)
            if (strcmp(op->results[i]->name, word) == 0) return true;
        for (int b = 0; b < op->block_count; b++)
            if (has(op->blocks[b], word, drops)) return true;
    }
    return false;
}

static propane_status ask(void *context, const mil_function *f, search_answer *out, char why[SEARCH_REASON],
                          propane_error *err) {
    compiler *c = context;
    (void)err;
    EXPECT(f->module->functions == f || c->unused);
    EXPECT(f->result_count > 0);
    *out = SEARCH_CLOSED;
    snprintf(why, SEARCH_REASON, "the budget is used up");
    if (c->most && c->asked >= c->most) return PROPANE_OK;
    *out = SEARCH_TAKEN;
    c->asked++;
    c->operations += search_operations(f);
    if (c->asked <= c->wrong || (c->forgets && c->asked % 2)) *out = SEARCH_REFUSED;
    snprintf(why, SEARCH_REASON, "'%s' (compile %d): no", f->name, c->asked);
    for (int r = 0; r < 4 && c->refused[r][0] && !c->forgets; r++) {
        bool all = true;
        for (int i = 0; i < 4 && c->refused[r][i]; i++) all &= has(f, c->refused[r][i], c->drops);
        if (!all) continue;
        *out = SEARCH_REFUSED;
        snprintf(why, SEARCH_REASON, "'%s' (compile %d): %s", f->name, c->asked, c->reasons[r] ? c->reasons[r] : "no");
        break;
    }
    for (int i = 0; c->unused && i < f->param_count; i++)
        if (strcmp(f->params[i]->name, c->unused) == 0) *out = SEARCH_REFUSED;
    c->refusals += *out == SEARCH_REFUSED;
    return PROPANE_OK;
}

static mil_module *parse(const char *program) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    return m;
}

static mil_module *body(const char *params, const char *ops, const char *results) {
    text t = {0};
    text_printf(&t, "program(1.3)\n{\n    func main<ios18>(%s) {\n%s    } -> (%s);\n}\n", params, ops, results);
    mil_module *m = parse(t.data);
    text_deinit(&t);
    return m;
}

/* Runs the search. Expects that the result is refused when it is compiled again, and that its size is as reported. */
static search_result find(const mil_module *m, compiler *c) {
    propane_error err = {0};
    search_result r;
    c->asked = c->refusals = 0;
    EXPECT_OK(search_refused(m->functions, ask, c, &r, &err));
    EXPECT(r.asked == c->asked && r.refused == c->refusals);
    if (!r.smallest) return r;
    char why[SEARCH_REASON];
    search_answer answer;
    compiler again = *c;
    again.asked = again.most = again.wrong = 0;
    EXPECT_OK(mil_verify(r.smallest, &err));
    EXPECT_OK(ask(&again, r.smallest->functions, &answer, why, &err));
    EXPECT_MSG(answer == SEARCH_REFUSED, "the smallest program is taken");
    EXPECT_MSG(search_operations(r.smallest->functions) == r.operations || r.inside[0], "%d operations, not %d",
               search_operations(r.smallest->functions), r.operations);
    return r;
}

static void find_in(const char *params, const char *ops, const char *results, compiler *c, search_verdict verdict,
                    const char *name, const char *others, int operations) {
    mil_module *m = body(params, ops, results);
    search_result r = find(m, c);
    EXPECT_MSG(r.verdict == verdict, "%s, with %s: verdict %d, not %d", r.name, r.others, r.verdict, verdict);
    EXPECT_TEXT(r.name, name);
    EXPECT_TEXT(r.others, others);
    EXPECT_MSG(r.operations == operations, "%d operations", r.operations);
    mil_module_free(r.smallest);
    mil_module_free(m);
}

/* Builds v0 = x + x, v1 = v0 * x, ...: each reads the previous one and an earlier one. */
static mil_module *chain(int length) {
    static const char *const kinds[] = {"add", "mul", "sub", "maximum"};
    text t = {0};
    for (int i = 0; i < length; i++) {
        char before[12] = "x", other[12] = "x";
        if (i) snprintf(before, sizeof before, "v%d", i - 1);
        if (i > 4) snprintf(other, sizeof other, "v%d", i * 3 / 7);
        text_printf(&t, "        tensor<fp16, [2]> v%d = %s(x = %s, y = %s);\n", i, kinds[i % 4], before, other);
    }
    char last[12];
    snprintf(last, sizeof last, "v%d", length - 1);
    mil_module *m = body("tensor<fp16, [2]> x", t.data, last);
    text_deinit(&t);
    return m;
}

/* ---- one operation ----------------------------------------------------------------------------------------------------------- */

TEST(each_position) {
    enum { LENGTH = 61 };
    mil_module *m = chain(LENGTH);
    int most = 0, dear = 0;
    for (int i = 0; i < LENGTH; i++) {
        char value[16];
        snprintf(value, sizeof value, "v%d", i);
        compiler c = {.refused = {{value}}};
        search_result r = find(m, &c);
        EXPECT_MSG(r.verdict == SEARCH_ALONE && r.place == i + 1 && r.count == LENGTH && r.operations == 1,
                   "v%d: verdict %d, place %d, %d operations", i, r.verdict, r.place, r.operations);
        EXPECT(strstr(r.name, value) && !r.changed && !r.rest_refused && !r.others[0]);
        most = c.asked > most ? c.asked : most;
        dear = c.refusals > dear ? c.refusals : dear;
        mil_module_free(r.smallest);
    }
    EXPECT_MSG(most <= 22 && dear <= 9, "%d programs, %d refused", most, dear); /* observed: 20 and 8 */
    mil_module_free(m);
}

TEST(the_first_of_several) {
    mil_module *m = chain(30);
    compiler c = {.refused = {{"v21"}, {"v9"}, {"v28"}}, .reasons = {"one thing", "another thing", NULL}};
    search_result r = find(m, &c);
    EXPECT(r.verdict == SEARCH_ALONE && r.place == 10 && r.operations == 1);
    EXPECT(strstr(r.reason, "another thing"));
    mil_module_free(r.smallest);
    mil_module_free(m);
}

TEST(several_results) {
    static const char ops[] = "        tensor<fp16, [4, 2]> a = relu(x = x);\n"
                              "        tensor<fp16, [2, 2]> b, tensor<fp16, [2, 2]> c = split(x = a, num_splits = 2, "
                              "axis = 0);\n"
                              "        tensor<fp16, [2, 2]> d = add(x = b, y = b);\n"
                              "        tensor<fp16, [2, 2]> e = tanh(x = d);\n";
    compiler split = {.refused = {{"split"}}}, add = {.refused = {{"add"}}}, both = {.refused = {{"split", "tanh"}}};
    find_in("tensor<fp16, [4, 2]> x", ops, "e", &split, SEARCH_ALONE, "split 'b'", "", 1);
    find_in("tensor<fp16, [4, 2]> x", ops, "e", &add, SEARCH_ALONE, "add 'd'", "", 1);
    find_in("tensor<fp16, [4, 2]> x", ops, "e", &both, SEARCH_TOGETHER, "tanh 'e'", "split 'b'", 2);
}

/* ---- several operations ------------------------------------------------------------------------------------------ */

TEST(pairs) {
    enum { LENGTH = 14 };
    mil_module *m = chain(LENGTH);
    for (int i = 0; i < LENGTH; i++)
        for (int k = 0; k < i; k++) {
            char first[12], second[12], wanted[40];
            snprintf(first, sizeof first, "v%d", k);
            snprintf(second, sizeof second, "v%d", i);
            snprintf(wanted, sizeof wanted, "'%s'", first);
            compiler c = {.refused = {{first, second}}};
            search_result r = find(m, &c);
            EXPECT_MSG(r.verdict == SEARCH_TOGETHER && r.place == i + 1 && r.operations == 2 && !r.rest_refused &&
                           strstr(r.others, wanted),
                       "v%d and v%d: verdict %d, %s with %s, %d operations", k, i, r.verdict, r.name, r.others,
                       r.operations);
            mil_module_free(r.smallest);
        }
    mil_module_free(m);
}

TEST(three_together_and_one_beside) {
    mil_module *m = chain(40);
    compiler c = {.refused = {{"v3", "v17", "v31"}, {"v38"}}};
    search_result r = find(m, &c);
    EXPECT_MSG(r.verdict == SEARCH_TOGETHER && r.place == 32 && r.operations == 3, "%s with %s", r.name, r.others);
    mil_module_free(r.smallest);
    /* in parallel: neither is computed from the other */
    compiler apart = {.refused = {{"p", "q"}}};
    find_in("tensor<fp16, [2]> x",
            "        tensor<fp16, [2]> p = relu(x = x);\n        tensor<fp16, [2]> n = tanh(x = x);\n"
            "        tensor<fp16, [2]> q = exp(x = x);\n        tensor<fp16, [2]> s = add(x = p, y = q);\n",
            "s, n", &apart, SEARCH_TOGETHER, "exp 'q'", "relu 'p'", 2);
    mil_module_free(m);
}

/* The second operation is refused alone as well, but for another reason, which does not count. */
TEST(another_reason_is_another_thing) {
    mil_module *m = chain(12);
    compiler c = {.refused = {{"v2", "v9"}, {"v9"}}, .reasons = {"a pair", "one alone"}};
    search_result r = find(m, &c);
    EXPECT_MSG(r.verdict == SEARCH_TOGETHER && r.place == 10 && r.operations == 2, "%s with %s: %d", r.name, r.others,
               r.operations);
    EXPECT(strstr(r.reason, "a pair"));
    mil_module_free(r.smallest);
    mil_module_free(m);
}

/* The cut is not made at values that a function can neither accept nor return. */
TEST(types_of_the_inside) {
    static const char ops[] = "        tensor<fp16, [2]> a = relu(x = x);\n"
                              "        tensor<bool, [2]> b = greater(x = a, y = x);\n"
                              "        tensor<fp16, [2]> c = select(cond = b, a = a, b = x);\n"
                              "        tensor<fp16, [2]> d = tanh(x = c);\n";
    compiler inner = {.refused = {{"greater"}}}, outer = {.refused = {{"select"}}}, behind = {.refused = {{"d"}}};
    find_in("tensor<fp16, [2]> x", ops, "d", &inner, SEARCH_BOUND, "greater 'b'", "relu 'a'", 2);
    inner = (compiler){.refused = {{"greater"}}, .drops = true};
    find_in("tensor<fp16, [2]> x", ops, "d", &inner, SEARCH_BOUND, "select 'c'", "greater 'b'", 2);
    find_in("tensor<fp16, [2]> x", ops, "d", &outer, SEARCH_BOUND, "select 'c'", "greater 'b'", 2);
    find_in("tensor<fp16, [2]> x", ops, "d", &behind, SEARCH_ALONE, "tanh 'd'", "", 1);
    find_in("tensor<fp16, [2]> x, bool p", ops, "d", &inner, SEARCH_ALONE, "greater 'b'", "", 1);
}

/* ---- constants ----------------------------------------------------------------------------------------------------------------- */

static const char with_weights[] =
    "        tensor<fp16, [1, 2, 1, 2]> a = relu(x = x);\n"
    "        tensor<fp16, [2, 2, 1, 1]> w = const()[val = tensor<fp16, [2, 2, 1, 1]>([[[[1]], [[2]]], [[[3]], "
    "[[4]]]])];\n"
    "        tensor<fp16, [2, 2, 1, 1]> q = constexpr_affine_dequantize()[axis = 0, quantized_data = tensor<int8, "
    "[2, 2, 1, 1]>([[[[1]], [[2]]], [[[3]], [[4]]]]), scale = fp16(0x1p-2), zero_point = int8(0)];\n"
    "        tensor<fp16, [1, 2, 1, 2]> b = conv(x = a, weight = w);\n"
    "        tensor<fp16, [1, 2, 1, 2]> c = conv(x = b, weight = q);\n"
    "        tensor<int32, [4]> s = shape(x = c);\n"
    "        tensor<fp16, [1, 2, 1, 2]> d = reshape(x = c, shape = s);\n"
    "        tensor<fp16, [1, 2, 1, 2]> e = tanh(x = d);\n";

TEST(weights_come_along) {
    static const char x[] = "tensor<fp16, [1, 2, 1, 2]> x";
    compiler first = {.refused = {{"b"}}}, second = {.refused = {{"c"}}}, reshape = {.refused = {{"reshape"}}},
             compressed = {.refused = {{"constexpr_affine_dequantize"}}};
    mil_module *m = body(x, with_weights, "e");
    search_result r = find(m, &first);
    const mil_op *op = r.smallest->functions->last;
    EXPECT(r.operations == 1 && mil_const_f64(mil_in(op, "weight")->constant, 3) == 4);
    mil_module_free(r.smallest);
    mil_module_free(m);
    find_in(x, with_weights, "e", &second, SEARCH_ALONE, "conv 'c'", "", 1);
    find_in(x, with_weights, "e", &reshape, SEARCH_ALONE, "reshape 'd'", "", 1);
    find_in(x, with_weights, "e", &compressed, SEARCH_BOUND, "constexpr_affine_dequantize 'q'", "conv 'c'", 1);
}

/* A compressed weight that the refusal does not depend on becomes a plain constant. */
TEST(compressed_weights_become_plain) {
    compiler second = {.refused = {{"c"}}}, both = {.refused = {{"c", "a"}}};
    mil_module *m = body("tensor<fp16, [1, 2, 1, 2]> x", with_weights, "e");
    search_result r = find(m, &both);
    EXPECT(r.verdict == SEARCH_TOGETHER && r.operations == 2);
    EXPECT(!has(r.smallest->functions, "constexpr_affine_dequantize", false));
    mil_module_free(r.smallest);
    r = find(m, &second);
    EXPECT(!has(r.smallest->functions, "constexpr_affine_dequantize", false));
    mil_module_free(r.smallest);
    mil_module_free(m);
}

/* ---- control flow -------------------------------------------------------------------------------------------------------------- */

static const char control[] =
    "        fp32 two = const()[val = fp32(2)];\n        tensor<fp32, [2]> a = relu(x = x);\n"
    "        tensor<fp32, [2]> y = cond(pred = p) {\n            tensor<fp32, [2]> t = mul(x = a, y = two);\n"
    "            tensor<fp32, [2]> u = tanh(x = t);\n        } -> (u), {\n"
    "            tensor<fp32, [2]> v = exp(x = a);\n            tensor<fp32, [2]> w = sub(x = v, y = a);\n"
    "        } -> (w);\n        tensor<fp32, [2]> z = sub(x = y, y = two);\n";

TEST(blocks) {
    static const char params[] = "tensor<fp32, [2]> x, bool p";
    compiler inner = {.refused = {{"tanh"}}}, second = {.refused = {{"v", "w"}}}, itself = {.refused = {{"cond"}}},
             front = {.refused = {{"relu"}}}, behind = {.refused = {{"z"}}};
    find_in(params, control, "z", &inner, SEARCH_ALONE, "tanh 'u'", "", 1);
    find_in(params, control, "z", &second, SEARCH_TOGETHER, "sub 'w'", "exp 'v'", 2);
    find_in(params, control, "z", &itself, SEARCH_ALONE, "cond 'y'", "", 1);
    find_in(params, control, "z", &front, SEARCH_ALONE, "relu 'a'", "", 1);
    find_in(params, control, "z", &behind, SEARCH_ALONE, "sub 'z'", "", 1);
    mil_module *m = body(params, control, "z");
    compiler c = {.refused = {{"tanh"}}};
    search_result r = find(m, &c);
    EXPECT_TEXT(r.inside, "cond 'y'");
    EXPECT(r.place == 2 && r.count == 3);
    mil_module_free(r.smallest);
    mil_module_free(m);
}

TEST(loops) {
    static const char ops[] =
        "        tensor<fp32, [2]> a = relu(x = x);\n"
        "        fp32 n, tensor<fp32, [2]> y = while_loop(loop_vars = (k, a)) (fp32 i, "
        "tensor<fp32, [2]> s) {\n            bool go = less(x = i, y = fp32(3));\n        } -> (go), "
        "(fp32 i, tensor<fp32, [2]> s) {\n            fp32 j = add(x = i, y = fp32(1));\n"
        "            tensor<fp32, [2]> r = exp(x = s);\n            tensor<fp32, [2]> o = "
        "tanh(x = r);\n        } -> (j, o);\n";
    static const char params[] = "tensor<fp32, [2]> x, fp32 k";
    compiler body_op = {.refused = {{"exp"}}}, condition = {.refused = {{"less"}}},
             itself = {.refused = {{"while_loop"}}};
    find_in(params, ops, "n, y", &body_op, SEARCH_ALONE, "exp 'r'", "", 1);
    find_in(params, ops, "n, y", &condition, SEARCH_ALONE, "less 'go'", "", 1);
    find_in(params, ops, "n, y", &itself, SEARCH_ALONE, "while_loop 'n'", "", 1);
}

/* ---- compilers that change their answer, crash, or depend on something else -------------------------------------- */

TEST(answers_that_change) {
    mil_module *m = chain(20);
    compiler taken = {0};
    search_result r = find(m, &taken);
    EXPECT(r.verdict == SEARCH_PASSES && !r.smallest && taken.refusals == 0);
    compiler forgetful = {.forgets = true};
    r = find(m, &forgetful);
    EXPECT_MSG((r.verdict == SEARCH_WAVERS || r.verdict == SEARCH_PASSES) && !r.smallest, "verdict %d", r.verdict);
    for (int wrong = 1; wrong < 7; wrong++) { /* a search needs no more than seven */
        compiler c = {.wrong = wrong};
        r = find(m, &c);
        EXPECT_MSG((r.verdict == SEARCH_WAVERS || r.verdict == SEARCH_PASSES) && !r.smallest,
                   "after %d wrong answers: verdict %d", wrong, r.verdict);
    }
    for (int wrong = 1; wrong < 4;
         wrong++) { /* a prefix that will be accepted is refused at first, and the right operation is still found */
        compiler c = {.refused = {{"v12"}}, .wrong = wrong};
        r = find(m, &c);
        EXPECT_MSG(r.verdict == SEARCH_ALONE && r.place == 13 && r.operations == 1 && (wrong < 2 || r.changed),
                   "after %d wrong answers: verdict %d, place %d, changed %d", wrong, r.verdict, r.place, r.changed);
        mil_module_free(r.smallest);
    }
    mil_module_free(m);
}

TEST(no_more_questions) {
    mil_module *m = chain(40);
    for (int most = 1; most < 30; most++) {
        compiler c = {.refused = {{"v7", "v23"}}, .most = most};
        search_result r = find(m, &c);
        if (r.verdict == SEARCH_TOGETHER) {
            EXPECT(r.operations == 2);
        } else {
            EXPECT_MSG(r.verdict == SEARCH_OPEN && r.smallest && r.place <= 24 && r.operations >= 24,
                       "%d questions: verdict %d, from %d", most, r.verdict, r.place);
            EXPECT(strstr(r.reason, "used up"));
        }
        mil_module_free(r.smallest);
    }
    mil_module_free(m);
}

TEST(what_the_function_declares) {
    mil_module *m =
        body("tensor<fp16, [2]> x, tensor<fp16, [2]> idle", "        tensor<fp16, [2]> y = relu(x = x);\n", "y");
    compiler c = {.unused = "idle"};
    search_result r = find(m, &c);
    EXPECT(r.verdict == SEARCH_SIGNATURE && r.operations == 1 && r.smallest->functions->param_count == 2);
    mil_module_free(r.smallest);
    mil_module_free(m);
}

SUITE("refusal/search", T(each_position), T(the_first_of_several), T(several_results), T(pairs),
      T(three_together_and_one_beside), T(another_reason_is_another_thing), T(types_of_the_inside),
      T(weights_come_along), T(compressed_weights_become_plain), T(blocks), T(loops), T(answers_that_change),
      T(no_more_questions), T(what_the_function_declares))
