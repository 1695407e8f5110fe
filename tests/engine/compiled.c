/* SPDX-License-Identifier: MIT
 * Runs compiled programs on random inputs and measures how far their results are from the reference.
 */
#include "compiled.h"

#include <math.h>
#include <stdlib.h>

#include "ane/h13/simulate.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/device/runner.h"
#include "core/mil/ops.h"
#include "support/test.h"

static engine_surface *compile_surface_of(const engine_object *o, const char *name) {
    for (int i = 0; i < o->surface_count; i++)
        if (strcmp(o->surfaces[i].name, name) == 0) return &o->surfaces[i];
    return NULL;
}

static void compile_fill(const mil_function *f, const engine_object *o, mil_tensor *inputs, engine_memory *buffers,
                         rng *r, double scale) {
    propane_error err = {0};
    for (int i = 0; i < f->param_count; i++) {
        int64_t count = mil_type_count(&f->params[i]->type);
        uint16_t *dense = mem_array((size_t)count, 2);
        inputs[i] = (mil_tensor){f->params[i]->type, mem_array((size_t)count, sizeof(double))};
        for (int64_t k = 0; k < count; k++) {
            dense[k] = fp16_from_f64(rng_normal(r) * scale);
            inputs[i].data[k] = (double)fp16_to_f32(dense[k]);
        }
        engine_surface *s = compile_surface_of(o, f->params[i]->name);
        EXPECT_OK(engine_surface_fill(s, dense, buffers[s->bar], &err));
        mem_free(dense);
    }
}

static double compile_difference(const engine_surface *s, engine_memory b, const mil_tensor *want, bool *exact) {
    int64_t count = mil_type_count(&want->type);
    uint16_t *dense = mem_array((size_t)count, 2);
    propane_error err = {0};
    double worst = 0, largest = 1e-3;
    EXPECT_OK(engine_surface_take(s, b, dense, &err));
    for (int64_t k = 0; k < count; k++) {
        double got = (double)fp16_to_f32(dense[k]), expected = want->data[k];
        if (isfinite(expected) && fabs(expected) > largest) largest = fabs(expected);
        if (got == expected || (isnan(got) && isnan(expected))) continue;
        *exact = false;
        if (!(fabs(got - expected) <= worst)) worst = fabs(got - expected);
    }
    mem_free(dense);
    return worst / largest;
}

/* Runs the same inputs on the cpu driver and replaces the reference's outputs. Returns false if it has no plan for
 * f. */
static bool compile_on_cpu(const mil_function *f, const mil_tensor *inputs, mil_tensor *outputs) {
    propane_error err = {0};
    propane_device *d = NULL;
    propane_program *p = NULL;
    runner run = {0};
    propane_compile_options options = {.size = sizeof options, .function = f->name};
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    if (propane_program_compile(d, f->module, &options, &p, &err) != PROPANE_OK) {
        EXPECT_MSG(err.status == PROPANE_ERR_UNSUPPORTED, "%s", err.text);
        printf("no plan: %s\n", err.text);
        propane_device_close(d);
        return false;
    }
    EXPECT_OK(runner_open(&run, d, p, NULL, NULL, &err));
    for (int i = 0; i < run.count; i++) {
        bool in = i < run.inputs;
        const mil_tensor *t = in ? &inputs[i] : &outputs[i - run.inputs];
        int64_t count = mil_type_count(&t->type);
        float *values = mem_array((size_t)count, sizeof *values);
        for (int64_t k = 0; in && k < count; k++) values[k] = (float)t->data[k];
        if (i == run.inputs) EXPECT_OK(runner_run(&run, NULL, &err));
        if (in)
            EXPECT_OK(runner_write(&run, i, PROPANE_FP32, values, &err));
        else
            EXPECT_OK(runner_read(&run, i, PROPANE_FP32, values, &err));
        for (int64_t k = 0; !in && k < count; k++) t->data[k] = (double)values[k];
        mem_free(values);
    }
    runner_close(&run);
    propane_program_free(p);
    propane_device_close(d);
    return true;
}

static double compile_worst(const mil_function *f, const engine_object *o, const engine_memory *buffers,
                            const mil_tensor *outputs, bool *exact) {
    double worst = 0;
    for (int i = 0; i < f->result_count; i++) {
        engine_surface *s = compile_surface_of(o, f->results[i]->name);
        double difference = compile_difference(s, buffers[s->bar], &outputs[i], exact);
        if (difference > worst) worst = difference;
    }
    return worst;
}

double compile_run(const mil_function *f, rng *r, double scale, compile_seen *seen, propane_error *out) {
    propane_error err = {0};
    engine_object *o = NULL;
    engine_memory buffers[ENGINE_BARS] = {{0}};
    mil_tensor inputs[32], *outputs = NULL;
    double worst = 0, on_cpu;
    bool exact = true, cpu_exact = true;
    if (engine_compile(f, &(engine_compile_options){.subtype = seen->subtype}, &o, out) != PROPANE_OK) return -1;
    for (int i = 0; i < o->surface_count; i++) {
        uint64_t bytes = engine_surface_bytes(&o->surfaces[i]);
        buffers[o->surfaces[i].bar] = (engine_memory){mem_alloc(bytes), bytes};
    }
    engine_machine *machine = engine_machine_create(ENGINE_WIDE);
    compile_fill(f, o, inputs, buffers, r, scale);
    EXPECT_OK(engine_simulate_object(machine, o, buffers, &err));
    arena *a = arena_create();
    EXPECT_OK(mil_eval_function(f, inputs, true, a, &outputs, &err));
    worst = compile_worst(f, o, buffers, outputs, &exact);
    if (compile_on_cpu(f, inputs, outputs)) {
        on_cpu = compile_worst(f, o, buffers, outputs, &cpu_exact);
        if (on_cpu > seen->cpu_worst) seen->cpu_worst = on_cpu;
        seen->cpu_exact += cpu_exact;
    } else
        seen->cpu_refused++;
    seen->programs++;
    seen->tasks += o->task_count;
    seen->exact += exact;
    arena_free(a);
    for (int i = 0; i < f->param_count; i++) mem_free(inputs[i].data);
    for (int i = 0; i < ENGINE_BARS; i++) mem_free(buffers[i].data);
    engine_machine_free(machine);
    engine_object_free(o);
    return worst;
}
