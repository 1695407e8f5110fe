/* SPDX-License-Identifier: MIT
 * The interpreter: published results of devices from the published files, and every published program of one operation
 * compared with the operation's reference meaning, run from Apple's words with kernels packed here.
 */
#include <math.h>
#include <stdlib.h>

#include "ane/h13/compile.h"
#include "ane/h13/simulate.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/ops.h"
#include "oracle_program.h"
#include "support/test.h"

/* ---- published results -------------------------------------------------------------------------------------------------------- */

/* Runs a file on inputs of `count` values each, repeated to fill the surface, and returns the first outputs. */
static void simulate_file(const char *name, const double *const *inputs, const int *counts, double *out, int outs) {
    char key[80];
    propane_error err = {0};
    engine_object *o = NULL;
    engine_memory buffers[ENGINE_BARS] = {{0}};
    engine_machine *m = engine_machine_create(ENGINE_WIDE);
    snprintf(key, sizeof key, "hwx/%s.hwx", name);
    EXPECT_OK(engine_object_open(test_data(key), &o, &err));
    int input = 0;
    for (int i = 0; i < o->surface_count; i++) {
        engine_surface *s = &o->surfaces[i];
        engine_memory *b = &buffers[s->bar];
        *b = (engine_memory){mem_alloc(engine_surface_bytes(s)), engine_surface_bytes(s)};
        if (s->output) continue;
        uint16_t *dense = mem_array((size_t)(s->n * s->c * s->h * s->w), 2);
        for (int64_t k = 0; k < s->n * s->c * s->h * s->w; k++)
            dense[k] = fp16_from_f64(inputs[input][k % counts[input]]);
        EXPECT_OK(engine_surface_fill(s, dense, *b, &err));
        mem_free(dense);
        input++;
    }
    EXPECT_OK(engine_simulate_object(m, o, buffers, &err));
    for (int i = 0; i < o->surface_count; i++) {
        engine_surface *s = &o->surfaces[i];
        if (!s->output) continue;
        uint16_t *dense = mem_array((size_t)(s->n * s->c * s->h * s->w), 2);
        EXPECT_OK(engine_surface_take(s, buffers[s->bar], dense, &err));
        for (int k = 0; k < outs; k++) out[k] = (double)fp16_to_f32(dense[k]);
        mem_free(dense);
    }
    for (int i = 0; i < ENGINE_BARS; i++) mem_free(buffers[i].data);
    engine_object_free(o);
    engine_machine_free(m);
}

TEST(published_results) {
    static const double one_two_three[] = {1, 2, 3}, three[] = {3}, two[] = {2}, relu[] = {-3, 5},
                        sig[] = {3, -5, 0, 5};
    static const int n1[] = {1, 1}, n2[] = {2}, n3[] = {3}, n4[] = {4};
    double out[8];
    if (!test_data("hwx")) SKIP("hwx/ is not in the shared data");
    simulate_file("tg_1b1855b8", (const double *const[]){three, two}, n1, out, 4);
    for (int i = 0; i < 4; i++) EXPECT(out[i] == 5); /* sum.hwx: 3 + 2 */
    simulate_file("tg_ea5905f3", (const double *const[]){one_two_three}, n3, out, 3);
    for (int i = 0; i < 3; i++) EXPECT(out[i] == 12); /* conv.hwx: nine weights 2.0 */
    simulate_file("tg_dc54cc54", (const double *const[]){relu}, n2, out, 2);
    EXPECT(out[0] == 0 && out[1] == 5);
    simulate_file("tg_7cc79341", (const double *const[]){sig}, n4, out, 4);
    EXPECT(out[0] == 0.95263671875 && fabs(out[1] - 0.007) < 0.0005 && out[2] == 0.5 && fabs(out[3] - 0.993) < 0.0005);
    simulate_file("tg_0f988933", (const double *const[]){two, three}, n1, out, 2);
    EXPECT(out[0] == 2 && out[1] == 2); /* concat.hwx: 16384 channels first */
    simulate_file("tg_50e38bf9", (const double *const[]){one_two_three}, n3, out, 2);
    EXPECT(out[0] == 19 && out[1] == 19); /* inner product with weights 3 and bias 1 */
    simulate_file("tg_8a6bd427", (const double *const[]){one_two_three}, n3, out, 3);
    EXPECT(out[0] < out[1] && out[1] < out[2]); /* rows of halfwords 0..8: lane i is output i */
}

/* ---- programs against their meaning ---------------------------------------------------------------------------------------------- */

typedef struct simulate_seen {
    int programs, exact;
    double worst;
} simulate_seen;

static void simulate_inputs(const mil_function *f, const engine_object *o, mil_tensor *inputs, engine_memory *buffers,
                            uint64_t seed) {
    propane_error err = {0};
    rng r;
    rng_init(&r, seed);
    for (int i = 0; i < f->param_count; i++) {
        int64_t count = mil_type_count(&f->params[i]->type);
        uint16_t *dense = mem_array((size_t)count, 2);
        inputs[i] = (mil_tensor){f->params[i]->type, mem_array((size_t)count, sizeof(double))};
        for (int64_t k = 0; k < count; k++) {
            dense[k] = fp16_from_f64((double)rng_below(&r, 33) / 16 - 1); /* sums of such numbers are exact */
            inputs[i].data[k] = (double)fp16_to_f32(dense[k]);
        }
        for (int s = 0; s < o->surface_count; s++)
            if (strcmp(o->surfaces[s].name, f->params[i]->name) == 0)
                EXPECT_OK(engine_surface_fill(&o->surfaces[s], dense, buffers[o->surfaces[s].bar], &err));
        mem_free(dense);
    }
}

/* Tables are fits: silu is off by up to 0.015 and gelu by 0.006 (as published); an epsilon of 1e-6 is 17 units of
 * fp16. All other differences are fp16 rounding. */
static void simulate_compare(const oracle *o, const engine_surface *s, engine_memory b, const mil_tensor *want,
                             simulate_seen *seen) {
    int64_t count = mil_type_count(&want->type);
    uint16_t *dense = mem_array((size_t)count, 2);
    propane_error err = {0};
    bool exact = true, table = strcmp(oracle_class(o), "unary") == 0 || strcmp(oracle_class(o), "chain") == 0;
    EXPECT_OK(engine_surface_take(s, b, dense, &err));
    for (int64_t k = 0; k < count; k++) {
        double got = (double)fp16_to_f32(dense[k]), expected = want->data[k], difference = fabs(got - expected);
        if (got == expected || (isnan(got) && isnan(expected))) continue;
        exact = false;
        double allowed = table ? 0.016 + 0.008 * fabs(expected) : 1e-3 + 0.004 * fabs(expected);
        if (!table && difference / (1e-3 + fabs(expected)) > seen->worst)
            seen->worst = difference / (1e-3 + fabs(expected));
        EXPECT_MSG(difference <= allowed, "%s: element %lld is %g, not %g", o->id, (long long)k, got, expected);
    }
    seen->programs++;
    seen->exact += exact;
    mem_free(dense);
}

static void simulate_oracle(const oracle *o, void *context) {
    propane_error err = {0};
    mil_module *m = oracle_program(o, &err);
    engine_object *ours = NULL;
    engine_memory buffers[ENGINE_BARS] = {{0}};
    mil_tensor inputs[4], *outputs = NULL;
    if (!m) return;
    mil_function *f = m->functions;
    EXPECT_OK(engine_compile(f, &(engine_compile_options){.subtype = o->subtype}, &ours, &err));
    for (int i = 0; i < ours->surface_count; i++) {
        uint64_t bytes = engine_surface_bytes(&ours->surfaces[i]);
        buffers[ours->surfaces[i].bar] = (engine_memory){mem_alloc(bytes), bytes};
    }
    simulate_inputs(f, ours, inputs, buffers, 7);
    engine_machine *machine = engine_machine_create(ENGINE_WIDE);
    if (ours->task_count == o->task_count) { /* Apple's words with our constants */
        ours->tasks = o->tasks;
        EXPECT_MSG(engine_simulate_object(machine, ours, buffers, &err) == PROPANE_OK, "%s: %s", o->id, err.text);
        arena *a = arena_create();
        EXPECT_OK(mil_eval_function(f, inputs, true, a, &outputs, &err));
        for (int i = 0; i < ours->surface_count; i++)
            if (ours->surfaces[i].output)
                simulate_compare(o, &ours->surfaces[i], buffers[ours->surfaces[i].bar], &outputs[0], context);
        arena_free(a);
    }
    for (int i = 0; i < f->param_count; i++) mem_free(inputs[i].data);
    for (int i = 0; i < ENGINE_BARS; i++) mem_free(buffers[i].data);
    engine_machine_free(machine);
    engine_object_free(ours);
    mil_module_free(m);
}

TEST(apples_words_mean_their_programs) {
    simulate_seen seen = {0};
    if (oracle_each("h13_oracles.jsonl", simulate_oracle, &seen) < 0)
        SKIP("h13_oracles.jsonl is not in the shared data");
    printf("%d programs run from Apple's words, %d equal to the last bit, worst relative difference %.3g\n",
           seen.programs, seen.exact, seen.worst);
    EXPECT(seen.programs >= 109);
}

TEST(apples_words_for_h14_mean_their_programs) {
    simulate_seen seen = {0};
    if (oracle_each("h14_oracles.jsonl", simulate_oracle, &seen) < 0)
        SKIP("h14_oracles.jsonl is not in the shared data");
    printf("%d programs for H14 run from Apple's words, %d equal to the last bit, worst relative difference %.3g\n",
           seen.programs, seen.exact, seen.worst);
    EXPECT(seen.programs >= 94);
}

/* A damaged file can have any numbers, whose products exceed 64 bits. */
TEST(surfaces_that_do_not_fit_are_refused) {
    const engine_surface good = {
        .name = "x", .n = 2, .c = 2, .h = 2, .w = 4, .row = 64, .plane = 128, .batch = 256, .bytes = 256};
    uint8_t bytes[512] = {0};
    uint16_t dense[32] = {0};
    engine_memory m = {bytes, sizeof bytes};
    propane_error err = {0};
    EXPECT_OK(engine_surface_fill(&good, dense, m, &err));
    engine_surface bad[9];
    for (int i = 0; i < 9; i++) bad[i] = good;
    bad[0].w = 33, bad[1].h = 3, bad[2].c = 3, bad[3].n = 3, bad[4].batch = 257, bad[5].w = 0;
    bad[6].plane = 1ull << 63, bad[7].row = 1ull << 63, bad[8].bytes = 1ull << 63;
    for (int i = 0; i < 9; i++) {
        EXPECT_MSG(engine_surface_fill(&bad[i], dense, m, &err) == PROPANE_ERR_INVALID, "surface %d", i);
        EXPECT(strstr(err.text, "surface 'x'") != NULL);
    }
    engine_object o = {.source = "a", .subtype = ENGINE_H13, .surface_count = 1, .surfaces = bad};
    bad[0] = good, bad[0].bytes = 1ull << 40;
    EXPECT(engine_object_runs(&o, &err) == PROPANE_ERR_INVALID && strstr(err.text, "at most") != NULL);
    bad[0] = good;
    EXPECT_OK(engine_object_runs(&o, &err));
}

SUITE("engine/simulate", T(published_results), T(apples_words_mean_their_programs),
      T(apples_words_for_h14_mean_their_programs), T(surfaces_that_do_not_fit_are_refused))
