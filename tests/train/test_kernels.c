/* SPDX-License-Identifier: MIT
 * Every kernel of every plan on the cpu driver against the slow reference of its operations.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/step/partition.h"
#include "support/test.h"

typedef struct trial {
    propane_device *device;
    rng random;
    arena *a;
    double worst;
} trial;

static propane_buffer *make_buffer(trial *t, const propane_io *io, const double *values, int64_t count) {
    propane_error err = {0};
    propane_buffer *b = NULL;
    EXPECT_OK(propane_buffer_create(t->device, io->bytes, &b, &err));
    if (!values) return b;
    float *narrow = mem_array((size_t)count, sizeof *narrow);
    EXPECT(narrow);
    for (int64_t i = 0; i < count; i++) narrow[i] = (float)values[i];
    EXPECT_OK(propane_buffer_write(b, io, PROPANE_FP32, narrow, count, &err));
    mem_free(narrow);
    return b;
}

/* Compares relative to the largest element of each result. */
static void compare(trial *t, const char *kernel, const propane_io *io, propane_buffer *b, const mil_tensor *want,
                    double tolerance) {
    propane_error err = {0};
    int64_t count = mil_type_count(&want->type);
    float *got = mem_array((size_t)count, sizeof *got);
    double off = 0, largest = 1e-30;
    EXPECT(got);
    EXPECT_OK(propane_buffer_read(b, io, PROPANE_FP32, got, count, &err));
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(want->data[i]));
        off = fmax(off, fabs((double)got[i] - want->data[i]));
        if (!isfinite(got[i])) off = INFINITY;
    }
    mem_free(got);
    t->worst = fmax(t->worst, off / largest);
    if (getenv("TEST_VERBOSE") && off / largest > tolerance)
        printf("%s: '%s' off by %.2g\n", kernel, io->name, off / largest);
    else
        EXPECT_MSG(off / largest < tolerance, "%s: '%s' is off by %g of its largest element", kernel, io->name,
                   off / largest);
}

static void run_kernel(trial *t, const mil_function *f, double tolerance) {
    propane_error err = {0};
    propane_compile_options options = {.size = sizeof options, .function = f->name};
    propane_program *p = NULL;
    propane_request *r = NULL;
    propane_binding bindings[40];
    int inputs = f->param_count, count = inputs + f->result_count;
    mil_tensor *in = ARENA_ARRAY(t->a, inputs + 1, mil_tensor), *out = NULL;
    EXPECT(in && count <= 40);
    EXPECT_OK(propane_program_compile(t->device, f->module, &options, &p, &err));
    for (int i = 0; i < inputs; i++) {
        int64_t n = mil_type_count(&f->params[i]->type);
        in[i] = (mil_tensor){.type = f->params[i]->type, .data = ARENA_ARRAY(t->a, n, double)};
        EXPECT(in[i].data);
        for (int64_t k = 0; k < n; k++) in[i].data[k] = mil_round(in[i].type.dtype, 0.5 * rng_normal(&t->random));
        bindings[i].name = f->params[i]->name;
        bindings[i].buffer = make_buffer(t, propane_program_find(p, f->params[i]->name), in[i].data, n);
    }
    for (int i = inputs; i < count; i++) {
        bindings[i].name = f->results[i - inputs]->name;
        bindings[i].buffer = make_buffer(t, propane_program_find(p, bindings[i].name), NULL, 0);
    }
    EXPECT_OK(mil_eval_function(f, in, false, t->a, &out, &err));
    EXPECT_OK(propane_request_create(p, bindings, count, &r, &err));
    EXPECT_OK(propane_submit(&r, 1, &err));
    EXPECT_OK(propane_wait(r, NULL, &err));
    for (int i = inputs; i < count; i++)
        compare(t, f->name, propane_program_find(p, bindings[i].name), bindings[i].buffer, &out[i - inputs], tolerance);
    propane_request_free(r);
    for (int i = 0; i < count; i++) propane_buffer_free(bindings[i].buffer);
    propane_program_free(p);
}

static void run_plan(const char *name, partition_head head, mil_dtype precision, bool keep_norms, int batch,
                     int context, int kv_heads, double tolerance) {
    propane_error err = {0};
    trial t = {0};
    model_config c;
    partition *p = NULL;
    partition_options o = {.name = name,
                           .precision = precision,
                           .batch = batch,
                           .context = context,
                           .keep_norms = keep_norms,
                           .head = head};
    model_config_default(&c);
    c.hidden_size = 24, c.intermediate_size = 40, c.num_hidden_layers = 1, c.num_attention_heads = 4;
    c.num_key_value_heads = kv_heads, c.head_dim = 6, c.vocab_size = 50, c.max_position_embeddings = 64;
    c.bos_token_id = c.eos_token_id = -1;
    if (propane_device_open("cpu", &t.device, &err)) SKIP("there is no cpu driver: %s", err.text);
    rng_init(&t.random, 17);
    EXPECT_OK(partition_create(&c, &o, &p, &err));
    for (int k = 0; k < p->kernel_count; k++) {
        t.a = arena_create();
        EXPECT(t.a);
        run_kernel(&t, p->kernels[k].function, tolerance);
        if (p->kernels[k].accumulate) run_kernel(&t, p->kernels[k].accumulate, tolerance);
        arena_free(t.a);
    }
    if (getenv("TEST_VERBOSE"))
        printf("%s %s batch %d context %d kv %d: within %.2g\n", name, precision == MIL_fp16 ? "fp16" : "fp32", batch,
               context, kv_heads, t.worst);
    partition_free(p);
    propane_device_close(t.device);
}

static void run_shapes(const char *name) {
    static const int shapes[][3] = {{1, 16, 4}, {3, 16, 2}, {2, 33, 1}, {1, 1, 4}};
    for (int i = 0; i < 8; i++) {
        const int *s = shapes[i / 2];
        const partition_head head = i < 6                        ? PARTITION_HEAD_AUTO
                                    : strcmp(name, "layer") == 0 ? PARTITION_HEAD_HOST
                                                                 : PARTITION_HEAD_DEVICE;
        run_plan(name, head, MIL_fp32, i % 2, s[0], s[1], s[2], 2e-6); /* observed 4e-7 */
        run_plan(name, head, MIL_fp16, i % 2, s[0], s[1], s[2], 1e-2); /* observed 2e-3 */
    }
}

TEST(layer) { run_shapes("layer"); }
TEST(six) { run_shapes("six"); }
TEST(ten) { run_shapes("ten"); }

SUITE("train/kernels", T(layer), T(six), T(ten))
