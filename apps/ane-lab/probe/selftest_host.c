/* SPDX-License-Identifier: MIT
 * Owns the questions about the processor next to an engine: how fast it computes the parts of a training step that the
 * engine leaves to it. `propane estimate --rates` uses the answers' figures instead of assumptions
 * (ane/chip/cost_rates.h reads them). The questions are asked for any device. They use all threads of the pool and the
 * best of several rounds, because estimates assume that nothing else runs.
 *
 * The figures are not a verdict: a machine that stays busy yields low figures.
 */
#include <string.h>

#include "apps/ane-lab/probe/selftest.h"
#include "core/base/clock.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "cpu/blas.h"
#include "train/optim/adamw.h"

enum { ROUNDS = 7, PIECE = 1 << 16 };
#define LIMIT_NS 500000000

/* Returns the shortest time of `run` in seconds. Runs ROUNDS rounds after a warm-up, or fewer (at least two) if
 * LIMIT_NS has passed. */
static double selftest_host_seconds(void (*run)(void *context), void *context) {
    double best = 0;
    run(context);
    const int64_t end = clock_ns() + LIMIT_NS;
    for (int i = 0; i < ROUNDS && (i < 2 || clock_ns() < end); i++) {
        const int64_t begin = clock_ns();
        run(context);
        const double now = (double)(clock_ns() - begin) / 1e9;
        if (i == 0 || now < best) best = now;
    }
    return best;
}

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

/* The gradient of a feed-forward weight of Stories110M: 2048 x 768 over 256 positions. */
static const char product[] =
    "tensor<fp32, [1, 1, 2048, 256]> x, tensor<fp32, [1, 1, 768, 256]> y) {\n"
    "        bool no = const()[name = string(\"no\"), val = bool(false)];\n"
    "        bool yes = const()[name = string(\"yes\"), val = bool(true)];\n"
    "        tensor<fp32, [1, 1, 2048, 768]> z = matmul(x = x, y = y, transpose_x = no, transpose_y = yes)[name = "
    "string(\"z\")];\n    } -> (z);\n";

static propane_status selftest_host_tflops(const char *how, double *out, propane_error *err) {
    rig r = {0};
    rig_time time = {0};
    PROPANE_TRY(cpu_blas_choose(how, err));
    propane_status status = rig_open_text(&r, "cpu", product, err);
    for (int i = 0; i < r.run.inputs && status == PROPANE_OK; i++) status = rig_put(&r, i, NULL, err);
    if (status == PROPANE_OK) status = rig_measure(&r, 64, LIMIT_NS, &time, err);
    rig_close(&r);
    *out = time.best_ns > 0 ? 2.0 * 2048 * 768 * 256 / (double)time.best_ns / 1e3 : 0;
    return status;
}

propane_status probe_ask_host_products(probe_target *t, json_t *out, propane_error *err) {
    (void)t;
    const cpu_blas *library = NULL;
    propane_error why = {0};
    double own = 0, other = 0;
    char name[256] = "";
    PROPANE_TRY(selftest_host_tflops("off", &own, err));
    probe_value(out, "own_tflops", own);
    if (cpu_blas_choose("auto", &why) == PROPANE_OK && cpu_blas_current(&library, &why) == PROPANE_OK && library)
        snprintf(name, sizeof name, "%s", library->name);
    if (!*name) {
        probe_say(out, "answer", "built-in kernels %.3f TFLOPS, no library%s%s", own, why.text[0] ? ": " : "",
                  why.text);
        return PROPANE_OK;
    }
    PROPANE_TRY(selftest_host_tflops(name, &other, err));
    probe_say(out, "library", "%s", name);
    probe_value(out, "library_tflops", other);
    probe_say(out, "answer", "own kernels %.3f TFLOPS, %s %.3f", own, name, other);
    return PROPANE_OK;
}

/* ---- memory, conversions ----------------------------------------------------------------------------------------------------- */

typedef struct host_arrays {
    float *from, *to;
    uint16_t *half;
    int64_t count; /* a multiple of PIECE */
    bool bf16;
} host_arrays;

static propane_status selftest_host_arrays(host_arrays *a, int64_t count, propane_error *err) {
    *a = (host_arrays){.from = mem_array((size_t)count, sizeof(float)),
                       .to = mem_array((size_t)count, sizeof(float)),
                       .half = mem_array((size_t)count, sizeof(uint16_t)),
                       .count = count};
    if (!a->from || !a->to || !a->half) return propane_fail_memory(err, (size_t)count * 10);
    for (int64_t i = 0; i < count; i++) a->from[i] = (float)(i % 1000) - 500, a->to[i] = 1;
    return PROPANE_OK;
}

static void selftest_host_free(host_arrays *a) { mem_free(a->from), mem_free(a->to), mem_free(a->half); }

static void selftest_host_add_task(void *context, int task, int worker) {
    const host_arrays *a = context;
    (void)worker;
    const float *from = a->from + (int64_t)task * PIECE;
    float *to = a->to + (int64_t)task * PIECE;
    for (int i = 0; i < PIECE; i++) to[i] += from[i];
}

static void selftest_host_add(void *context) {
    const host_arrays *a = context;
    pool_run(selftest_host_add_task, context, (int)(a->count / PIECE));
}

propane_status probe_ask_host_memory(probe_target *t, json_t *out, propane_error *err) {
    enum { COUNT = 16 << 20 }; /* 64 MB each, larger than any cache */
    (void)t;
    host_arrays a;
    propane_status status = selftest_host_arrays(&a, COUNT, err);
    if (status == PROPANE_OK) {
        const double rate = 12.0 * COUNT / selftest_host_seconds(selftest_host_add, &a) / 1e9;
        probe_value(out, "gb_per_s", rate);
        probe_value(out, "threads", pool_threads());
        probe_say(out, "answer", "%.1f GB/s with %d threads (two arrays read, one written)", rate, pool_threads());
    }
    selftest_host_free(&a);
    return status;
}

static void selftest_host_convert_task(void *context, int task, int worker) {
    const host_arrays *a = context;
    (void)worker;
    const int64_t at = (int64_t)task * PIECE;
    if (a->bf16) {
        bf16_from_f32_array(a->half + at, a->from + at, PIECE);
        bf16_to_f32_array(a->to + at, a->half + at, PIECE);
    } else {
        fp16_from_f32_array(a->half + at, a->from + at, PIECE);
        fp16_to_f32_array(a->to + at, a->half + at, PIECE);
    }
}

static void selftest_host_convert(void *context) {
    const host_arrays *a = context;
    pool_run(selftest_host_convert_task, context, (int)(a->count / PIECE));
}

propane_status probe_ask_host_conversions(probe_target *t, json_t *out, propane_error *err) {
    enum { COUNT = 48 * PIECE }; /* about the activations of twelve layers in a step */
    (void)t;
    double rates[2] = {0, 0};
    host_arrays a;
    propane_status status = selftest_host_arrays(&a, COUNT, err);
    for (int form = 0; form < 2 && status == PROPANE_OK; form++) {
        a.bf16 = form == 1;
        rates[form] = 12.0 * COUNT / selftest_host_seconds(selftest_host_convert, &a) / 1e9;
        probe_value(out, form ? "bf16_gb_per_s" : "fp16_gb_per_s", rates[form]);
    }
    if (status == PROPANE_OK)
        probe_say(out, "answer", "to fp16 and back %.1f GB/s, to bf16 and back %.1f (both sides counted)", rates[0],
                  rates[1]);
    selftest_host_free(&a);
    return status;
}

/* ---- AdamW --------------------------------------------------------------------------------------------------------------------- */

enum { PARAMETERS = 8 << 20 }; /* larger than the caches */

typedef struct host_update {
    adamw *a;
    int64_t step;
} host_update;

static adamw_step selftest_host_next_step(host_update *u, bool guarded) {
    return (adamw_step){.lr = 1e-3,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-8,
                        .weight_decay = 0.1,
                        .gradient_scale = 1,
                        .step = ++u->step,
                        .guarded = guarded};
}

static void selftest_host_update(void *context) {
    host_update *u = context;
    const adamw_step step = selftest_host_next_step(u, false);
    adamw_update(u->a, &step);
}

static void selftest_host_update_early(void *context) {
    host_update *u = context;
    const adamw_step step = selftest_host_next_step(u, true);
    adamw_exchange(u->a);
    adamw_begin(u->a, &step, true);
    adamw_update_tensors(u->a, (const int[]){0}, 1);
}

static bool selftest_host_make_state(moment_form form, adamw_state *s) {
    const size_t bytes = PARAMETERS * moment_bytes(form), blocks = PARAMETERS / MOMENT_BLOCK;
    *s = (adamw_state){mem_array(PARAMETERS, sizeof(float)), mem_alloc(bytes), mem_alloc(bytes),
                       mem_array(blocks, sizeof(float)), mem_array(blocks, sizeof(float))};
    if (!s->weight || !s->moment1 || !s->moment2 || !s->scale1 || !s->scale2) return false;
    memset(s->moment1, 0, bytes), memset(s->moment2, 0, bytes);
    return true;
}

static void selftest_host_free_state(adamw_state *s) {
    mem_free(s->weight), mem_free(s->moment1), mem_free(s->moment2), mem_free(s->scale1), mem_free(s->scale2);
}

/* Sets *ns to the time per parameter of an update in place, and *early_ns to the time per parameter of an update from
 * one state to another. */
static propane_status selftest_host_time_update(moment_form form, double *ns, double *early_ns, propane_error *err) {
    float *g = mem_array(PARAMETERS, sizeof *g);
    uint16_t *device = mem_array(PARAMETERS, sizeof *device);
    adamw_state states[2] = {{0}};
    host_update u = {0};
    propane_status status = PROPANE_OK;
    if (!g || !device || !selftest_host_make_state(form, &states[0]) || !selftest_host_make_state(form, &states[1])) {
        status = propane_fail_memory(err, 2 * PARAMETERS * (sizeof(float) + 2 * moment_bytes(form)));
    } else {
        const adamw_tensor tensor = {.state = states[0],
                                     .other = states[1],
                                     .form = form,
                                     .gradient = g,
                                     .count = PARAMETERS,
                                     .decay = true,
                                     .device = device,
                                     .device_fp16 = true,
                                     .row = PARAMETERS,
                                     .row_stride = 2 * (int64_t)PARAMETERS};
        for (int64_t i = 0; i < PARAMETERS; i++)
            g[i] = (float)(i * 2654435761 % 2001 - 1000) * 1e-6f, states[0].weight[i] = g[i] * 100;
        status = adamw_create(&tensor, 1, &u.a, err);
    }
    if (status == PROPANE_OK) {
        *ns = selftest_host_seconds(selftest_host_update, &u) * 1e9 / PARAMETERS;
        *early_ns = selftest_host_seconds(selftest_host_update_early, &u) * 1e9 / PARAMETERS;
    }
    adamw_free(u.a);
    selftest_host_free_state(&states[0]), selftest_host_free_state(&states[1]);
    mem_free(g), mem_free(device);
    return status;
}

propane_status probe_ask_host_update(probe_target *t, json_t *out, propane_error *err) {
    double ns[MOMENT_INT8 + 1] = {0}, early[MOMENT_INT8 + 1] = {0};
    (void)t;
    for (moment_form form = MOMENT_FP32; form <= MOMENT_INT8; form++) {
        char key[32];
        PROPANE_TRY(selftest_host_time_update(form, &ns[form], &early[form], err));
        snprintf(key, sizeof key, "%s_ns", moment_form_name(form));
        probe_value(out, key, ns[form]);
        snprintf(key, sizeof key, "%s_early_ns", moment_form_name(form));
        probe_value(out, key, early[form]);
    }
    probe_say(out, "answer",
              "%.3f ns per parameter with fp32 moments, %.3f with bf16, %.3f with int8; from one set of them to "
              "another %.3f, %.3f and %.3f (%d threads)",
              ns[MOMENT_FP32], ns[MOMENT_BF16], ns[MOMENT_INT8], early[MOMENT_FP32], early[MOMENT_BF16],
              early[MOMENT_INT8], pool_threads());
    return PROPANE_OK;
}
