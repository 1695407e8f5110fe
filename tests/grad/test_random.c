/* SPDX-License-Identifier: MIT
 * Random programs: gradients against finite differences, and gradients of programs after the passes against those of
 * the original programs. TEST_RUNS raises the number of programs.
 */
#include <math.h>
#include <stdlib.h>

#include "core/grad/grad.h"
#include "core/pass/pass.h"
#include "support/grad_check.h"
#include "support/random_program.h"
#include "support/test.h"

static int runs(int standard) { return getenv("TEST_RUNS") ? atoi(getenv("TEST_RUNS")) : standard; }

/* Largest seen in 2,000 programs: 1.7e-7. */
TEST(gradients) {
    double worst = 0;
    int count = runs(40);
    for (int seed = 1; seed <= count; seed++) {
        char what[60];
        snprintf(what, sizeof what, "random program %d", seed);
        mil_module *m = mil_module_create("random");
        const mil_function *f = random_program(m, "f", (uint64_t)seed, 30);
        worst = fmax(worst, grad_check_drawn(f, MIL_DRAW_unit, 0, (uint64_t)seed, 2e-6, what));
        mil_module_free(m);
    }
    printf("grad/random: %d programs, largest difference %.1e\n", count, worst);
}

/* Constants are folded in double and rounded once to fp32; everything else is exact. Observed: at most 4.5e-7. */
static double compare(const mil_function *f, const mil_tensor *a, const mil_tensor *b, const char *what) {
    double worst = 0;
    for (int i = 0; i < f->result_count; i++) {
        double largest = 1e-3;
        for (int64_t k = 0; k < mil_type_count(&a[i].type); k++) largest = fmax(largest, fabs(a[i].data[k]));
        for (int64_t k = 0; k < mil_type_count(&a[i].type); k++) {
            double difference = fabs(a[i].data[k] - b[i].data[k]) / largest;
            EXPECT_MSG(difference <= 1e-5, "%s: '%s'[%lld] was %.9g and is %.9g", what, f->results[i]->name,
                       (long long)k, a[i].data[k], b[i].data[k]);
            worst = fmax(worst, difference);
        }
    }
    return worst;
}

static void eval_drawn(const mil_function *f, uint64_t seed, arena *a, mil_tensor **out) {
    propane_error err = {0};
    grad_draws *d = ARENA_NEW(a, grad_draws);
    mil_tensor *in = ARENA_ARRAY(a, f->param_count, mil_tensor);
    rng_init(&d->random, seed);
    d->draw = MIL_DRAW_unit;
    for (int i = 0; i < f->param_count; i++) {
        in[i] = (mil_tensor){f->params[i]->type, ARENA_ARRAY(a, mil_type_count(&f->params[i]->type), double)};
        grad_draw(d, &in[i].type, in[i].data);
    }
    EXPECT_OK(mil_eval_function(f, in, false, a, out, &err));
}

TEST(passes_keep_gradients) {
    int before = 0, after = 0, count = runs(60);
    double worst = 0;
    for (int seed = 1; seed <= count; seed++) {
        propane_error err = {0};
        char what[60];
        snprintf(what, sizeof what, "random program %d", seed);
        mil_module *m = mil_module_create("random");
        arena *a = arena_create();
        mil_function *joint;
        mil_tensor *plain, *passed;
        EXPECT_OK(grad_function(random_program(m, "f", (uint64_t)seed, 30), "joint", NULL, 0, &joint, &err));
        eval_drawn(joint, (uint64_t)seed, a, &plain);
        before += joint->op_count;
        EXPECT_OK(pass_run(joint, &pass_all, &err));
        EXPECT_OK(mil_verify(m, &err));
        after += joint->op_count;
        eval_drawn(joint, (uint64_t)seed, a, &passed);
        worst = fmax(worst, compare(joint, plain, passed, what));
        int again = joint->op_count;
        EXPECT_OK(pass_run(joint, &pass_all, &err));
        EXPECT_MSG(joint->op_count == again, "%s: a second run of the passes finds more", what);
        arena_free(a);
        mil_module_free(m);
    }
    printf("grad/random: passes took %d ops of %d programs to %d, largest difference %.1e\n", before, count, after,
           worst);
    EXPECT(after < before * 9 / 10);
}

SUITE("grad/random", T(gradients), T(passes_keep_gradients))
