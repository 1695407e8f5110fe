/* SPDX-License-Identifier: MIT
 * Owns the step's programs. Programs that all calls of a kernel share are compiled together. Programs that hold one
 * call's weights as constants are compiled or loaded again, or overwritten, when the weights have changed.
 */
#include "lm/step/step_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/refusal/refusal.h"
#include "lm/step/kernel_rewrite.h"

/* Programs that are compiled together. */
typedef struct batch {
    propane_compile_item *items;
    propane_program ***out;
    const char **names; /* names of the kernels */
    int count, room;
} batch;

static void step_programs_batch_deinit(batch *b) {
    mem_free(b->items);
    mem_free(b->out);
    mem_free(b->names);
}

static propane_status step_programs_batch_init(batch *b, int room, propane_error *err) {
    *b = (batch){mem_array((size_t)room + 1, sizeof *b->items), mem_array((size_t)room + 1, sizeof *b->out),
                 mem_array((size_t)room + 1, sizeof *b->names), 0, room};
    if (b->items && b->out && b->names) return PROPANE_OK;
    step_programs_batch_deinit(b);
    return propane_fail_memory(err, (size_t)room * sizeof *b->items);
}

static void step_programs_batch_add(batch *b, const char *kernel, const mil_function *f, propane_program **out) {
    assert(b->count < b->room);
    b->items[b->count] = (propane_compile_item){.module = f->module, .function = f->name};
    b->out[b->count] = out;
    b->names[b->count++] = kernel;
}

/* Finds the operation for which a kernel was refused. If the device did not report the kernel and a folder is set, each
 * kernel is compiled separately. It may be that the kernels are refused only in combination. */
static propane_status step_programs_explain(const train_step *s, const batch *b, const propane_compile_options *options,
                                            int failed, propane_error *err) {
    const propane_status given = err->status;
    const char *folder = s->options.bisect;
    for (int i = 0; folder && refusal_is(given) && failed < 0 && i < b->count; i++) {
        propane_compile_options own = *options;
        own.function = b->items[i].function;
        propane_program *program = NULL;
        const propane_status status =
            propane_program_compile(step_device(s, false), b->items[i].module, &own, &program, err);
        propane_program_free(program);
        if (refusal_is(status)) failed = i;
    }
    if (failed < 0 && folder && refusal_is(given)) {
        char before[sizeof err->text];
        memcpy(before, err->text, sizeof before);
        return propane_fail(err, given, "%.900s; each of the %d kernels is accepted on its own", before, b->count);
    }
    if (failed < 0) return refusal_explain(step_device(s, false), NULL, options, NULL, err);
    const propane_compile_item *item = &b->items[failed];
    const mil_function *f = mil_module_function(item->module, item->function, NULL);
    if (f) (void)refusal_explain(step_device(s, false), f, options, folder, err);
    return propane_fail_prefix(err, given, "kernel '%s'", b->names[failed]);
}

static propane_status step_programs_batch_compile(train_step *s, batch *b, int *compiles, propane_error *err) {
    propane_compile_options options = {.size = sizeof options};
    propane_compile_report report = {.size = sizeof report};
    if (s->options.bf16) options.precision = PROPANE_PRECISION_BF16;
    propane_status status =
        propane_program_compile_all(step_device(s, false), b->items, b->count, &options, &report, err);
    *compiles = report.compiles;
    s->compiles += report.compiles;
    if (status != PROPANE_OK) return step_programs_explain(s, b, &options, report.failed, err);
    if (b->count) snprintf(s->sharing, sizeof s->sharing, "%s", report.how);
    for (int i = 0; i < b->count; i++) {
        propane_program_free(*b->out[i]);
        *b->out[i] = b->items[i].program;
    }
    return PROPANE_OK;
}

static propane_status step_programs_compile_on_host(train_step *s, const partition_kernel *k, const mil_function *f,
                                                    propane_program **out, propane_error *err) {
    propane_compile_options options = {.size = sizeof options, .function = f->name};
    if (s->options.bf16) options.precision = PROPANE_PRECISION_BF16;
    propane_status status = propane_program_compile(step_device(s, true), f->module, &options, out, err);
    return status == PROPANE_OK ? status : propane_fail_prefix(err, status, "kernel '%s'", k->name);
}

static bool step_programs_reads_weights(const partition_block *b, const partition_kernel *k) {
    for (int i = 0; i < k->function->param_count; i++)
        if (partition_is_weight(b, k->function->params[i]->name)) return true;
    return false;
}

/* Compiles a kernel's programs for the host and adds those for the device to `b`. */
static propane_status step_programs_gather_kernel(train_step *s, const partition_block *block, int index, batch *b,
                                                  propane_error *err) {
    const partition_kernel *k = &s->partition->kernels[index];
    step_kernel *own = &s->kernels[index];
    bool on_device = k->place == PARTITION_DEVICE;
    own->baked = weight_mode_is_constant(s->options.weights) && on_device && step_programs_reads_weights(block, k);
    if (own->baked) return PROPANE_OK;
    if (s->options.weights == WEIGHT_MODE_PACKED && on_device && k->function->param_count > 1)
        PROPANE_TRY(packing_create(k->function, s->partition->options.batch, &own->packing, err));
    const mil_function *forms[2] = {own->packing ? own->packing->function : k->function, NULL};
    if (s->options.accumulate || (k->part == MODEL_HEAD && step_head_pieces(s) > 1)) forms[1] = k->accumulate;
    for (int form = 0; form < 2 && forms[form]; form++) {
        if (on_device)
            step_programs_batch_add(b, k->name, forms[form], &own->program[form]);
        else
            PROPANE_TRY(step_programs_compile_on_host(s, k, forms[form], &own->program[form], err));
    }
    return PROPANE_OK;
}

propane_status step_compile(train_step *s, propane_error *err) {
    batch b;
    int compiles;
    propane_status status = step_programs_batch_init(&b, 2 * s->partition->kernel_count, err);
    if (status != PROPANE_OK) return status;
    for (int i = 0; i < s->partition->block_count; i++)
        for (int n = 0; n < s->partition->blocks[i].count && status == PROPANE_OK; n++)
            status =
                step_programs_gather_kernel(s, &s->partition->blocks[i], s->partition->blocks[i].first + n, &b, err);
    if (status == PROPANE_OK) status = step_programs_batch_compile(s, &b, &compiles, err);
    step_programs_batch_deinit(&b);
    return status;
}

typedef struct bake_context {
    const train_step *s;
    const dataflow_call *call;
    void *scratch; /* fp16 form of the current weight */
} bake_context;

static propane_status step_programs_bake_weight(void *context, const mil_value *param, const void **data,
                                                propane_error *err) {
    bake_context *b = context;
    const model_weights *w = b->s->weights;
    dataflow_ref ref = dataflow_resolve(b->s->dataflow, b->call, param->name);
    if (ref.kind != DATAFLOW_WEIGHT || ref.index >= w->count) return PROPANE_OK; /* adapters are always inputs */
    const model_tensor *t = &w->tensors[ref.index];
    *data = model_weights_data(w, t);
    if (param->type.dtype == MIL_fp32) return PROPANE_OK;
    mem_free(b->scratch);
    b->scratch = mem_array((size_t)t->count, sizeof(uint16_t));
    if (!b->scratch) return propane_fail_memory(err, (size_t)t->count * sizeof(uint16_t));
    fp16_from_f32_array(b->scratch, model_weights_data(w, t), (size_t)t->count);
    *data = b->scratch;
    return PROPANE_OK;
}

/* Returns a program of the call's kernel that can be loaded with other weights, or NULL if there is none yet. */
static const propane_program *step_programs_find_donor(const train_step *s, int call) {
    for (int c = call; c >= 0; c--)
        if (s->calls[c].own && s->dataflow->calls[c].kernel == s->dataflow->calls[call].kernel) return s->calls[c].own;
    return NULL;
}

static propane_status step_programs_compile_baked(train_step *s, int call, const mil_function *f, propane_error *err) {
    const partition_kernel *k = &s->partition->kernels[s->dataflow->calls[call].kernel];
    propane_program *old = s->calls[call].own;
    propane_compile_options options = {
        .size = sizeof options, .function = f->name, .reloadable = s->options.weights != WEIGHT_MODE_BAKED};
    if (s->options.weights == WEIGHT_MODE_RELOAD) options.donor = step_programs_find_donor(s, call);
    if (!options.donor) s->compiles++;
    propane_status status =
        propane_program_compile(step_device(s, false), f->module, &options, &s->calls[call].own, err);
    propane_program_free(old);
    if (status == PROPANE_OK) return status;
    (void)refusal_explain(step_device(s, false), f, &options, s->options.bisect, err);
    return propane_fail_prefix(err, status, "kernel '%s'", k->name);
}

/* Builds a separate module with the kernel and this call's weights as constants. */
static propane_status step_programs_bake_module(train_step *s, int call, mil_module **out, mil_function **f,
                                                propane_error *err) {
    const dataflow_call *c = &s->dataflow->calls[call];
    const partition_kernel *k = &s->partition->kernels[c->kernel];
    bake_context context = {.s = s, .call = c};
    *out = mil_module_create(k->name);
    if (!*out) return propane_fail_memory(err, 0);
    propane_status status = train_bake(k->function, *out, k->name, step_programs_bake_weight, &context, f, err);
    mem_free(context.scratch);
    return status;
}

static propane_status step_programs_bake_call(train_step *s, int call, propane_error *err) {
    mil_module *m = NULL;
    mil_function *f = NULL;
    propane_status status = step_programs_bake_module(s, call, &m, &f, err);
    if (status == PROPANE_OK) status = step_programs_compile_baked(s, call, f, err);
    mil_module_free(m);
    return status;
}

int step_baked_calls(const train_step *s) {
    int n = 0;
    for (int c = 0; c < s->dataflow->call_count; c++) n += step_is_baked(s, c);
    return n;
}

bool step_bakes_what_is_trained(const train_step *s) {
    if (step_baked_calls(s) == 0) return false;
    for (int i = 0; i < s->weights->count; i++)
        if (s->trained[i]) return true;
    return false;
}

/* Compiles all baked programs together. A device that turns them into procedures of one program needs a single
 * compile. */
static propane_status step_programs_bake_together(train_step *s, propane_error *err) {
    batch b;
    int made = 0, count = step_baked_calls(s);
    mil_module **modules = mem_array((size_t)count + 1, sizeof *modules);
    if (!modules) return propane_fail_memory(err, (size_t)count * sizeof *modules);
    propane_status status = step_programs_batch_init(&b, count, err);
    for (int c = 0; c < s->dataflow->call_count && status == PROPANE_OK; c++) {
        mil_function *f = NULL;
        if (!step_is_baked(s, c)) continue;
        propane_program_free(s->calls[c].own); /* no request uses it any more */
        s->calls[c].own = NULL;
        status = step_programs_bake_module(s, c, &modules[made++], &f, err);
        if (status == PROPANE_OK)
            step_programs_batch_add(&b, s->partition->kernels[s->dataflow->calls[c].kernel].name, f, &s->calls[c].own);
    }
    if (status == PROPANE_OK) status = step_programs_batch_compile(s, &b, &s->refresh_compiles, err);
    for (int i = 0; i < made; i++) mil_module_free(modules[i]);
    mem_free(modules);
    step_programs_batch_deinit(&b);
    return status;
}

propane_status step_bake(train_step *s, propane_error *err) {
    int before = s->compiles;
    if (s->options.weights == WEIGHT_MODE_BAKED && propane_device_describe(step_device(s, false))->shares_compiles)
        return step_programs_bake_together(s, err);
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (step_is_baked(s, c) || step_is_patched(s, c)) PROPANE_TRY(step_programs_bake_call(s, c, err));
    s->refresh_compiles = s->compiles - before;
    return PROPANE_OK;
}

/* ---- after an update --------------------------------------------------------------------------------------------------- */

int train_step_refresh_cost(const train_step *s) {
    return s->stale && s->options.weights == WEIGHT_MODE_BAKED ? s->refresh_compiles : 0;
}

propane_status train_step_refresh(train_step *s, propane_error *err) {
    if (!s->stale) return PROPANE_OK;
    if (step_baked_calls(s) == 0) {
        s->stale = false;
        return PROPANE_OK;
    }
    for (int c = 0; c < s->dataflow->call_count; c++) {
        if (!step_is_baked(s, c)) continue;
        propane_request_free(s->calls[c].request[0]);
        s->calls[c].request[0] = NULL;
    }
    PROPANE_TRY(step_bake(s, err));
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (step_is_baked(s, c)) PROPANE_TRY(step_make_request(s, c, 0, err));
    s->stale = false;
    return PROPANE_OK;
}
