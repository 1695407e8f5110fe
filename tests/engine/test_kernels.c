/* SPDX-License-Identifier: MIT
 * The kernels of training plans through the compiler and the interpreter, compared with the cpu driver on the same
 * numbers. Covers all kernels of a small model with grouped queries in plans layer, six and ten. The long run adds
 * Stories110M's plan at 256 positions, with each kind of kernel once. Then the same kernels run with their weights as
 * overwritten constants, and must have the same bits as with weights as inputs.
 */
#include <math.h>
#include <stdlib.h>

#include "ane/h13/compile.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/device/runner.h"
#include "lm/step/kernel_rewrite.h"
#include "lm/step/partition.h"
#include "support/test.h"

static bool kernels_is_weight(const char *name) {
    return strcmp(name, "norm_weight") == 0 || strcmp(name, "lm_head") == 0 ||
           (strncmp(name, "d_", 2) && strstr(name, "_proj"));
}

/* Draws numbers of the magnitude in training: activations about 1, and weights that keep products about 1. */
static float *kernels_draw(const propane_io *io, rng *r) {
    int64_t count = propane_io_count(io);
    bool weight = kernels_is_weight(io->name) && io->rank == 2;
    float *values = mem_array((size_t)count, sizeof *values), scale = 1;
    if (weight) scale = 1 / sqrtf((float)io->dim[io->rank - 1]);
    if (strncmp(io->name, "d_", 2) == 0) scale = 0.1f;
    for (int64_t i = 0; i < count; i++) values[i] = (float)rng_normal(r) * scale;
    return values;
}

typedef struct kernels_side {
    propane_device *device;
    propane_program *program;
    runner run;
} kernels_side;

static void kernels_open(kernels_side *s, const char *uri, const mil_function *f, uint64_t seed) {
    propane_error err = {0};
    propane_compile_options options = {.size = sizeof options, .function = f->name};
    rng r;
    rng_init(&r, seed);
    EXPECT_OK(propane_device_open(uri, &s->device, &err));
    EXPECT_MSG(propane_program_compile(s->device, f->module, &options, &s->program, &err) == PROPANE_OK, "%s: %s",
               f->name, err.text);
    EXPECT_OK(runner_open(&s->run, s->device, s->program, NULL, NULL, &err));
    for (int i = 0; i < s->run.inputs; i++) {
        float *values = kernels_draw(runner_io(&s->run, i), &r);
        EXPECT_OK(runner_write(&s->run, i, PROPANE_FP32, values, &err));
        mem_free(values);
    }
    EXPECT_MSG(runner_run(&s->run, NULL, &err) == PROPANE_OK, "%s on %s: %s", f->name, uri, err.text);
}

static void kernels_close(kernels_side *s) {
    runner_close(&s->run);
    propane_program_free(s->program);
    propane_device_close(s->device);
}

/* Returns the largest difference of an output, relative to its largest value. */
static double kernels_part(const kernels_side *a, const kernels_side *b, int index, int other) {
    propane_error err = {0};
    int64_t count = propane_io_count(runner_io(&a->run, index));
    float *x = mem_array((size_t)count, sizeof *x), *y = mem_array((size_t)count, sizeof *y);
    double worst = 0, largest = 1e-6;
    EXPECT_OK(runner_read(&a->run, index, PROPANE_FP32, x, &err));
    EXPECT_OK(runner_read(&b->run, other, PROPANE_FP32, y, &err));
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)x[i] - (double)y[i]);
        if (fabs((double)x[i]) > largest) largest = fabs((double)x[i]);
        if (!(d <= worst)) worst = d;
    }
    mem_free(x);
    mem_free(y);
    return worst / largest;
}

static int kernels_tasks(const mil_function *f, bool patchable) {
    propane_error err = {0};
    engine_object *o = NULL;
    EXPECT_MSG(engine_compile(f, &(engine_compile_options){.patchable = patchable}, &o, &err) == PROPANE_OK, "%s: %s",
               f->name, err.text);
    int tasks = o ? o->task_count : 0;
    engine_object_free(o);
    return tasks;
}

/* ---- weights as constants -------------------------------------------------------------------------------------------------- */

/* Bakes in weights that differ from those it will run with. */
static propane_status kernels_bake(void *context, const mil_value *param, const void **data, propane_error *err) {
    mil_module *into = context;
    if (!kernels_is_weight(param->name) || param->type.dtype != MIL_fp16) return PROPANE_OK;
    int64_t count = mil_type_count(&param->type);
    uint16_t *other = ARENA_ARRAY(into->arena, count, uint16_t);
    if (!other) return propane_fail_memory(err, (size_t)count * 2);
    for (int64_t i = 0; i < count; i++) other[i] = (uint16_t)(0x3800 + i % 7);
    *data = other;
    return PROPANE_OK;
}

static void kernels_patched(const mil_function *f, const kernels_side *inputs, const char *plan, bool print) {
    propane_error err = {0};
    kernels_side s = {0};
    mil_function *baked = NULL;
    mil_module *m = mil_module_create("baked");
    EXPECT_OK(propane_device_open("registers", &s.device, &err));
    EXPECT_MSG(train_bake(f, m, f->name, kernels_bake, m, &baked, &err) == PROPANE_OK, "%s", err.text);
    propane_compile_options options = {.size = sizeof options, .function = f->name, .reloadable = true};
    EXPECT_MSG(propane_program_compile(s.device, m, &options, &s.program, &err) == PROPANE_OK, "%s: %s", f->name,
               err.text);
    EXPECT_OK(runner_open(&s.run, s.device, s.program, NULL, NULL, &err));
    for (int i = 0, own = 0; i < inputs->run.inputs; i++) {
        const propane_io *io = runner_io(&inputs->run, i);
        int64_t count = propane_io_count(io);
        float *values = mem_array((size_t)count, sizeof *values);
        EXPECT_OK(runner_read(&inputs->run, i, PROPANE_FP32, values, &err));
        bool weight = kernels_is_weight(io->name) && io->dtype == PROPANE_FP16;
        propane_status status = weight ? propane_program_patch(s.program, io->name, PROPANE_FP32, values, count, &err)
                                       : runner_write(&s.run, own++, PROPANE_FP32, values, &err);
        EXPECT_MSG(status == PROPANE_OK, "%s: %s", f->name, err.text);
        mem_free(values);
    }
    EXPECT_OK(runner_run(&s.run, NULL, &err));
    int outputs = inputs->run.count - inputs->run.inputs;
    for (int i = 0; i < outputs; i++) {
        double d = kernels_part(inputs, &s, inputs->run.inputs + i, s.run.inputs + i);
        EXPECT_MSG(d == 0, "plan %s, kernel %s, output %d: overwritten constants differ from inputs by %.3g", plan,
                   f->name, i, d);
    }
    if (print) printf("                    %4d tasks with its weights as constants\n", kernels_tasks(baked, true));
    kernels_close(&s);
    mil_module_free(m);
}

static bool kernels_has_weights(const mil_function *f) {
    for (int i = 0; i < f->param_count; i++)
        if (kernels_is_weight(f->params[i]->name)) return true;
    return false;
}

/* Returns whether the kernel has weights, which were then overwritten. */
static bool kernels_compare(const mil_function *f, const char *plan, double tolerance, bool print, double *worst) {
    kernels_side cpu = {0}, registers = {0};
    double most = 0;
    int where = 0;
    kernels_open(&cpu, "cpu", f, 7);
    kernels_open(&registers, "registers", f, 7);
    for (int i = cpu.run.inputs; i < cpu.run.count; i++) {
        double d = kernels_part(&cpu, &registers, i, i);
        EXPECT_MSG(d <= tolerance, "plan %s, kernel %s, %s: off by %.3g of the largest value", plan, f->name,
                   runner_io(&cpu.run, i)->name, d);
        if (d > most) most = d, where = i;
    }
    if (print)
        printf("%-6s %-12s %4d tasks, off by %.2g (%s)\n", plan, f->name, kernels_tasks(f, false), most,
               where ? runner_io(&cpu.run, where)->name : "nothing");
    bool patched = kernels_has_weights(f);
    if (patched) kernels_patched(f, &registers, plan, print);
    if (most > *worst) *worst = most;
    kernels_close(&cpu);
    kernels_close(&registers);
    return patched;
}

/* Returns the number of kernels compared. */
static int kernels_plan(const model_config *c, const char *name, int64_t context, double tolerance, bool print,
                        double *worst, int *patched) {
    partition_options o = {.name = name, .precision = MIL_fp16, .batch = 1, .context = context};
    partition *p = NULL;
    propane_error err = {0};
    EXPECT_OK(partition_create(c, &o, &p, &err));
    for (int k = 0; k < p->kernel_count; k++)
        *patched += kernels_compare(p->kernels[k].function, name, tolerance, print, worst);
    int count = p->kernel_count;
    partition_free(p);
    return count;
}

TEST(kernels_of_a_small_model) {
    model_config c;
    double worst = 0;
    int count = 0, patched = 0;
    model_config_default(&c);
    c.hidden_size = 64, c.intermediate_size = 176, c.num_hidden_layers = 2, c.vocab_size = 200;
    c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 16, c.max_position_embeddings = 48;
    for (int i = 0; i < partition_name_count(); i++)
        count += kernels_plan(&c, partition_name(i), 48, 0.02, getenv("ENGINE_KERNELS") != NULL, &worst, &patched);
    printf("%d kernels, off by at most %.2g of the largest value; weights of %d overwritten\n", count, worst, patched);
    EXPECT(count > 30 && patched > 15);
}

TEST(kernels_of_stories110m) {
    model_config c;
    double worst = 0;
    int patched = 0;
    model_config_default(&c);
    c.hidden_size = 768, c.intermediate_size = 2048, c.num_hidden_layers = 12, c.vocab_size = 32000;
    c.num_attention_heads = c.num_key_value_heads = 12, c.head_dim = 64, c.max_position_embeddings = 1024;
    int count = kernels_plan(&c, "layer", 256, 0.02, true, &worst, &patched);
    printf("%d kernels, off by at most %.2g of the largest value; weights of %d overwritten\n", count, worst, patched);
}

SUITE("engine/kernels", T(kernels_of_a_small_model), T_LONG(kernels_of_stories110m))
