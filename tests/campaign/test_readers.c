/* SPDX-License-Identifier: MIT
 * Tests generated programs (support/grown_program.h, support/random_program.h) in everything that reads a program
 * without running it: both forms of text, the rules on both paths, the estimate, the compiler of registers, gradients,
 * and the rewrites for engines, whose results must compute the same. Refusals are allowed; crashes, errors without a
 * sentence and different results are not.
 *
 * PROGRAMS=N: number of programs (200); SEED=N: first seed (1); FIRST=N: the seed of one program, to repeat it;
 * PROGRAMS_VERBOSE: prints them as text.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/mil.h"
#include "support/grown_program.h"
#include "support/random_program.h"
#include "support/test.h"

enum { FILES = 10 };

static propane_error err;

typedef struct subject {
    op_case *grown; /* NULL for one of random_program */
    mil_module *module;
    uint64_t seed;
    bool drawn; /* random numbers: different each time */
} subject;

static bool subject_make(subject *s, uint64_t seed) {
    *s = (subject){.seed = seed, .grown = seed % 5 ? grown_program(seed, &err) : NULL};
    if (seed % 5) {
        if (s->grown) s->module = s->grown->module;
        if (s->grown) s->drawn = strncmp(mil_op_get(s->grown->code)->name, "random_", 7) == 0;
        return s->grown != NULL;
    }
    s->module = mil_module_create("random");
    return random_program(s->module, "main", seed, 4 + (int)(seed % 30)) != NULL;
}

static void subject_free(subject *s) {
    if (s->grown)
        op_case_free(s->grown);
    else
        mil_module_free(s->module);
}

#define EXPECT_SAID(status, s, what)                                                                                   \
    EXPECT_MSG((status) == PROPANE_OK || err.text[0], "program %llu: %s gives no sentence",                            \
               (unsigned long long)(s)->seed, what)

static void meet_text(const subject *s, propane_dialect dialect) {
    char *text = NULL, *again = NULL;
    size_t length = 0;
    propane_module *m = NULL;
    EXPECT_OK(propane_module_print(s->module, dialect, &text, &length, &err));
    if (getenv("PROGRAMS_VERBOSE") && dialect == PROPANE_MIL_SHORT) puts(text);
    EXPECT_OK(propane_module_parse(text, length, "again.mil", NULL, &m, &err));
    EXPECT_OK(propane_module_print(m, dialect, &again, &length, &err));
    EXPECT_MSG(strcmp(text, again) == 0, "program %llu: its text read and printed is another",
               (unsigned long long)s->seed);
    propane_free(text);
    propane_free(again);
    propane_module_free(m);
}

static void meet_rules(const subject *s, const char *path) {
    const propane_check_options check = {.size = sizeof check, .target = "all", .path = path};
    const propane_estimate_options estimate = {.size = sizeof estimate, .target = "all", .path = path};
    propane_report *report = NULL;
    propane_estimate *e = NULL;
    char *text = NULL;
    EXPECT_OK(propane_check_module(s->module, &check, &report, &err));
    EXPECT_OK(propane_report_print(report, PROPANE_TEXT, &text, &err));
    propane_free(text);
    propane_report_free(report);
    const propane_status status = propane_estimate_module(s->module, &estimate, &e, &err);
    EXPECT_SAID(status, s, "estimate");
    propane_estimate_free(e);
}

static void meet_gradient(const subject *s) {
    propane_module *m = NULL;
    const propane_status status = propane_module_gradient(s->module, NULL, "gradient", NULL, 0, &m, &err);
    EXPECT_SAID(status, s, "gradient");
    propane_module_free(m);
}

static void meet_registers(const subject *s) {
    propane_module *m = NULL;
    propane_object *object = NULL;
    EXPECT_OK(propane_module_copy(s->module, &m, &err));
    const propane_status status = propane_object_compile(m, NULL, "m1", NULL, &object, &err);
    EXPECT_SAID(status, s, "compile");
    propane_object_free(object);
    propane_module_free(m);
}

/* Returns the largest difference in units of the largest value. Non-finite values are not compared, because some
 * rewrites change them. */
static double apart(const mil_tensor *a, const mil_tensor *b) {
    double worst = 0, scale = 1;
    for (int64_t i = 0; i < mil_type_count(&a->type); i++)
        if (isfinite(a->data[i])) scale = fmax(scale, fabs(a->data[i]));
    for (int64_t i = 0; i < mil_type_count(&a->type); i++)
        if (isfinite(a->data[i]) && isfinite(b->data[i])) worst = fmax(worst, fabs(a->data[i] - b->data[i]) / scale);
    return worst;
}

/* Expects `m` to compute the same as the subject's module. */
static void expect_same(const subject *s, propane_module *m, double most, const char *how) {
    mil_tensor *before = NULL, *after = NULL;
    arena *a = arena_create();
    const mil_function *f = mil_module_function(s->module, NULL, &err), *g = mil_module_function(m, NULL, &err);
    EXPECT(a && f && g);
    EXPECT_OK(mil_eval_function(f, s->grown->inputs, false, a, &before, &err));
    EXPECT_OK(mil_eval_function(g, s->grown->inputs, false, a, &after, &err));
    for (int r = 0; r < f->result_count; r++)
        EXPECT_MSG(apart(&before[r], &after[r]) <= most, "program %llu: '%s' differs by %g once it is %s",
                   (unsigned long long)s->seed, f->results[r]->name, apart(&before[r], &after[r]), how);
    arena_free(a);
}

static void meet_rewrites(const subject *s) {
    propane_module *m = NULL;
    int count = 0;
    EXPECT_OK(propane_module_copy(s->module, &m, &err));
    const propane_status status = propane_module_for_engine(m, &count, NULL, &err);
    EXPECT_SAID(status, s, "for_engine");
    if (!status && count && s->grown && !s->drawn) expect_same(s, m, 2e-3, "rewritten");
    propane_module_free(m);
}

/* Files are synced, so only one in FILES subjects is written. */
static void meet_package(const subject *s, const char *folder) {
    char path[300];
    propane_module *m = NULL, *again = NULL;
    snprintf(path, sizeof path, "%s/%llu.mlpackage", folder, (unsigned long long)s->seed);
    EXPECT_OK(propane_module_copy(s->module, &m, &err));
    const propane_status status = propane_module_write(m, path, PROPANE_MIL_CANONICAL, &err);
    EXPECT_SAID(status, s, "a package");
    if (!status) EXPECT_OK(propane_module_read(path, &again, &err));
    if (!status && !s->drawn) expect_same(s, again, 0, "a package");
    propane_module_free(m);
    propane_module_free(again);
}

static void meet_all(const subject *s, const char *folder) {
    err = (propane_error){0};
    meet_text(s, PROPANE_MIL_SHORT);
    meet_text(s, PROPANE_MIL_CANONICAL);
    meet_rules(s, "direct");
    meet_rules(s, "coreml");
    meet_gradient(s);
    meet_registers(s);
    meet_rewrites(s);
    if (s->grown && s->seed % FILES == 1) meet_package(s, folder);
}

TEST(programs_meet_every_reader) {
    uint64_t seed = test_number("FIRST", test_number("SEED", 1) * 1000000);
    const int most = (int)test_number("PROGRAMS", 200);
    char *folder = test_temp_dir();
    for (int made = 0; made < most;) {
        subject s;
        if (subject_make(&s, seed++)) {
            made++;
            meet_all(&s, folder);
        }
        subject_free(&s);
    }
    mem_free(folder);
}

SUITE("campaign/readers", T(programs_meet_every_reader))
