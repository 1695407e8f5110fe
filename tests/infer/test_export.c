/* SPDX-License-Identifier: MIT
 * Language models as packages. Written, read again and called token by token or in pieces, they give the logits of
 * transformers and the ids of Propane's own generation.
 */
#include "core/mil/coreml/package.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"
#include "lm/arch/forward.h"
#include "lm/files/export_coreml.h"
#include "lm/infer/generate.h"
#include "support/arch_data.h"

static propane_error err;

/* A package as an app uses it: one shape, buffers for everything, states that are carried over. */
typedef struct caller {
    mil_module *module;
    propane_program *program;
    propane_request *request;
    propane_binding bindings[16];
    int count, inputs;
    int64_t tokens, context;
} caller;

static void open_package(caller *k, propane_device *device, const char *path, int64_t tokens, int64_t context) {
    const mil_shape_choice choices[] = {{"inputIds", {.rank = 2, .dim = {1, tokens}}},
                                        {"causalMask", {.rank = 4, .dim = {1, 1, tokens, context}}}};
    const mil_read_options options = {choices, context ? 2 : 1};
    *k = (caller){.tokens = tokens, .context = context};
    EXPECT_OK(mil_read(path, &options, &k->module, &err));
    mil_function *f = mil_module_function(k->module, NULL, &err);
    EXPECT_OK(pass_states(f, &err));
    EXPECT_OK(propane_program_compile(device, k->module, NULL, &k->program, &err));
    k->inputs = propane_program_input_count(k->program);
    k->count = k->inputs + propane_program_output_count(k->program);
    EXPECT(k->count <= 16);
    for (int i = 0; i < k->count; i++) {
        const propane_io *io =
            i < k->inputs ? propane_program_input(k->program, i) : propane_program_output(k->program, i - k->inputs);
        k->bindings[i].name = io->name;
        EXPECT_OK(propane_buffer_create(device, io->bytes, &k->bindings[i].buffer, &err));
    }
    EXPECT_OK(propane_request_create(k->program, k->bindings, k->count, &k->request, &err));
}

static void close_package(caller *k) {
    propane_request_free(k->request);
    for (int i = 0; i < k->count; i++) propane_buffer_free(k->bindings[i].buffer);
    propane_program_free(k->program);
    mil_module_free(k->module);
}

static propane_buffer *buffer_of(const caller *k, const char *name) {
    for (int i = 0; i < k->count; i++)
        if (strcmp(k->bindings[i].name, name) == 0) return k->bindings[i].buffer;
    EXPECT_MSG(false, "there is no buffer %s", name);
    return NULL;
}

static void copy_buffer(propane_buffer *from, propane_buffer *to) {
    void *source = NULL, *target = NULL;
    EXPECT_OK(propane_buffer_lock(from, false, &source, &err));
    EXPECT_OK(propane_buffer_lock(to, true, &target, &err));
    memcpy(target, source, propane_buffer_bytes(to));
    propane_buffer_unlock(from);
    propane_buffer_unlock(to);
}

/* Runs the tokens at `position` and returns their logits [tokens, V]. `states` holds the caches, with which another
 * caller may continue. */
static void call_package(caller *k, caller *states, const int32_t *ids, int32_t position, float *logits,
                         int64_t vocabulary) {
    float *mask = mem_array((size_t)(k->tokens * k->context), sizeof *mask);
    for (int64_t i = 0; i < k->tokens * k->context; i++)
        mask[i] = i % k->context > position + i / k->context ? (float)MODEL_MASKED : 0;
    EXPECT_OK(propane_buffer_write(buffer_of(k, "inputIds"), propane_program_find(k->program, "inputIds"),
                                   PROPANE_INT32, ids, k->tokens, &err));
    EXPECT_OK(propane_buffer_write(buffer_of(k, "position"), propane_program_find(k->program, "position"),
                                   PROPANE_INT32, &position, 1, &err));
    EXPECT_OK(propane_buffer_write(buffer_of(k, "causalMask"), propane_program_find(k->program, "causalMask"),
                                   PROPANE_FP32, mask, k->tokens * k->context, &err));
    if (states != k) {
        copy_buffer(buffer_of(states, "keyCache"), buffer_of(k, "keyCache"));
        copy_buffer(buffer_of(states, "valueCache"), buffer_of(k, "valueCache"));
    }
    EXPECT_OK(propane_submit(&k->request, 1, &err));
    EXPECT_OK(propane_wait(k->request, NULL, &err));
    copy_buffer(buffer_of(k, "keyCache_out"), buffer_of(states, "keyCache"));
    copy_buffer(buffer_of(k, "valueCache_out"), buffer_of(states, "valueCache"));
    EXPECT_OK(propane_buffer_read(buffer_of(k, "logits"), propane_program_find(k->program, "logits"), PROPANE_FP32,
                                  logits, k->tokens * vocabulary, &err));
    mem_free(mask);
}

static double off(const float *got, const float *want, int64_t count) {
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        worst = isfinite(got[i]) ? fmax(worst, fabs((double)got[i] - (double)want[i])) : INFINITY;
        largest = fmax(largest, fabs((double)want[i]));
    }
    return worst / largest;
}

static void write_package(model_weights *w, model_export_options *o, const char *path) {
    mil_module *m = NULL;
    EXPECT_OK(model_export(w, o, &m, &err));
    EXPECT_OK(mil_package_write(m, path, &err));
    mil_module_free(m);
}

static char *in_folder(char out[500], const char *name) {
    char *dir = test_temp_dir();
    snprintf(out, 500, "%s/%s", dir, name);
    mem_free(dir);
    return out;
}

/* Four tokens in one call, then one at a time, from the same package and with the same caches. */
TEST(packages_give_the_logits_of_transformers) {
    enum { CONTEXT = 20, V = ARCH_VOCABULARY };
    propane_device *device = NULL;
    char path[500];
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    for (int i = 0; i < ARCH_NAMES; i++)
        for (int half = 0; half < 2; half++) {
            arch_data d;
            caller piece, single;
            float got[ARCH_SEQUENCE * V];
            arch_open(&d, arch_names[i]);
            model_export_options o = {
                .dtype = half ? MIL_fp16 : MIL_fp32, .context = CONTEXT, .length_count = 2, .lengths = {1, 4}};
            write_package(d.weights, &o, in_folder(path, "lm.mlpackage"));
            open_package(&piece, device, path, 4, CONTEXT);
            open_package(&single, device, path, 1, CONTEXT);
            call_package(&piece, &single, d.inputs, 0, got, V);
            for (int t = 4; t < ARCH_SEQUENCE; t++) call_package(&single, &single, d.inputs + t, t, got + t * V, V);
            const double worst = off(got, d.logits, ARCH_SEQUENCE * V);
            EXPECT_MSG(worst < (half ? 1e-2 : 5e-6), "%s %s: %g", arch_names[i], half ? "fp16" : "fp32",
                       worst); /* observed 2.4e-3 and 4.3e-7 */
            close_package(&piece);
            close_package(&single);
            arch_close(&d);
        }
    propane_device_close(device);
}

static int largest(const float *values, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

TEST(packages_go_on_as_generation_does) {
    enum { CONTEXT = 24, V = ARCH_VOCABULARY };
    propane_device *device = NULL;
    char path[500];
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    for (int i = 0; i < ARCH_NAMES; i++) {
        arch_data d;
        caller k;
        infer *own = NULL;
        float a[V], b[V];
        int32_t id = 1;
        arch_open(&d, arch_names[i]);
        model_export_options o = {.dtype = MIL_fp16, .context = CONTEXT, .length_count = 1, .lengths = {1}};
        const infer_options options = {.dtype = MIL_fp16};
        write_package(d.weights, &o, in_folder(path, "greedy.mlpackage"));
        open_package(&k, device, path, 1, CONTEXT);
        EXPECT_OK(infer_create(device, d.weights, &options, &own, &err));
        for (int t = 0; t < CONTEXT; t++) {
            call_package(&k, &k, &id, t, a, V);
            EXPECT_OK(infer_read(own, &id, 1, b, &err));
            EXPECT_MSG(largest(a, V) == largest(b, V), "%s: token %d differs", arch_names[i], t);
            id = largest(b, V);
        }
        infer_free(own);
        close_package(&k);
        arch_close(&d);
    }
    propane_device_close(device);
}

/* iOS 15: ids in, logits out. */
TEST(packages_without_states_give_them_too) {
    propane_device *device = NULL;
    char path[500];
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    for (int i = 0; i < ARCH_NAMES; i++) {
        arch_data d;
        caller k = {0};
        float got[ARCH_SEQUENCE * ARCH_VOCABULARY];
        arch_open(&d, arch_names[i]);
        model_export_options o = {.dtype = MIL_fp16, .stateless = ARCH_SEQUENCE};
        write_package(d.weights, &o, in_folder(path, "plain.mlpackage"));
        EXPECT_OK(mil_read(path, NULL, &k.module, &err));
        EXPECT(k.module->package->spec_version == 6 && k.module->functions->opset == MIL_IOS15);
        mil_module_free(k.module);
        open_package(&k, device, path, ARCH_SEQUENCE, 0);
        EXPECT_OK(propane_buffer_write(k.bindings[0].buffer, propane_program_input(k.program, 0), PROPANE_INT32,
                                       d.inputs, ARCH_SEQUENCE, &err));
        EXPECT_OK(propane_submit(&k.request, 1, &err));
        EXPECT_OK(propane_wait(k.request, NULL, &err));
        EXPECT(propane_program_output(k.program, 0)->dtype == PROPANE_FP32);
        EXPECT_OK(propane_buffer_read(k.bindings[1].buffer, propane_program_output(k.program, 0), PROPANE_FP32, got,
                                      ARCH_SEQUENCE * ARCH_VOCABULARY, &err));
        const double worst = off(got, d.logits, ARCH_SEQUENCE * ARCH_VOCABULARY);
        EXPECT_MSG(worst < 1e-2, "%s: %g", arch_names[i], worst); /* observed 2.2e-3 */
        close_package(&k);
        arch_close(&d);
    }
    propane_device_close(device);
}

/* A tied head and its embedding are one blob; open shapes stay open when the package is written again. */
TEST(packages_share_and_stay_open) {
    arch_data d;
    char path[500], again[500];
    mil_module *m = NULL;
    text first = {0}, second = {0};
    arch_open(&d, "gpt2");
    EXPECT(d.weights->config.tie_word_embeddings);
    model_export_options o = {.dtype = MIL_fp16};
    write_package(d.weights, &o, in_folder(path, "tied.mlpackage"));
    EXPECT(o.length_count == 2 && o.lengths[0] == 1 && o.lengths[1] == 16 && o.context == 24);
    EXPECT_OK(mil_read(path, NULL, &m, &err));
    uint64_t table = 0, head = 1;
    for (const mil_op *op = m->functions->first; op; op = op->next) {
        if (op->result_count && strcmp(op->results[0]->name, "embed_tokens") == 0)
            table = op->results[0]->constant->blob_offset;
        if (op->result_count && strcmp(op->results[0]->name, "lm_head") == 0)
            head = op->results[0]->constant->blob_offset;
    }
    EXPECT(table == head);
    EXPECT_OK(mil_package_write(m, in_folder(again, "again.mlpackage"), &err));
    mil_module_free(m);
    const mil_shape_choice choices[] = {{"inputIds", {.rank = 2, .dim = {1, 16}}},
                                        {"causalMask", {.rank = 4, .dim = {1, 1, 16, 24}}}};
    const mil_read_options options = {choices, 2};
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(mil_read(i ? again : path, &options, &m, &err));
        mil_print(i ? &second : &first, m, &(mil_print_options){MIL_SHORT, true});
        mil_module_free(m);
    }
    EXPECT_TEXT(second.data, first.data);
    text_deinit(&first);
    text_deinit(&second);
    arch_close(&d);
}

TEST(options_that_cannot_be_are_refused) {
    arch_data d;
    mil_module *m = NULL;
    arch_open(&d, "gpt2");
    model_export_options far = {.dtype = MIL_fp16, .context = 25}, many = {.dtype = MIL_fp16, .stateless = 25},
                         twice = {.dtype = MIL_fp16, .length_count = 2, .lengths = {4, 4}},
                         longer = {.dtype = MIL_fp16, .context = 8, .length_count = 1, .lengths = {9}};
    EXPECT_FAIL(model_export(d.weights, &far, &m, &err), PROPANE_ERR_INVALID, "a context of 25 positions");
    EXPECT_FAIL(model_export(d.weights, &many, &m, &err), PROPANE_ERR_INVALID, "25 tokens per call");
    EXPECT_FAIL(model_export(d.weights, &twice, &m, &err), PROPANE_ERR_INVALID, "given twice");
    EXPECT_FAIL(model_export(d.weights, &longer, &m, &err), PROPANE_ERR_INVALID, "1 to 8");
    arch_close(&d);
}

SUITE("infer/export", T(packages_give_the_logits_of_transformers), T(packages_go_on_as_generation_does),
      T(packages_without_states_give_them_too), T(packages_share_and_stay_open), T(options_that_cannot_be_are_refused))
