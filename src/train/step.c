/* SPDX-License-Identifier: MIT
 * Owns the machine that runs a step: devices, programs, buffers, one request a call. The wiring says what is bound where;
 * here is when it runs. All calls are queued at once; the host waits twice a batch, for the logits and at the end.
 */
#include "train/step.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/pool.h"
#include "device/uri.h"
#include "train/dropout.h"
#include "train/embed.h"
#include "train/loss.h"
#include "train/packing.h"
#include "train/prove.h"
#include "train/rewrite.h"
#include "train/wiring.h"

typedef struct step_kernel {
    propane_program *program[2]; /* [1]: the form that adds to the sums */
    bool baked;                  /* each call has a program of its own */
    packing *packing;            /* the form in which the program gets its inputs; NULL: one buffer each */
    int64_t calls, ns;           /* since the step was made */
    int64_t engine_ns;
    bool counted; /* engine_ns is given */
} step_kernel;

typedef struct step_call {
    propane_program *own; /* baked */
    propane_request *request[2];
    propane_buffer *packed; /* its kernel is packed */
} step_call;

/* Calls that were submitted to a queue and not waited for yet: [head, tail) of `calls`. */
typedef struct step_queue {
    propane_device *device;
    propane_event *event;
    uint64_t base; /* the event's value before this run of calls */
    int before;    /* ordinals of calls before it, which are done */
    int *calls;
    int head, tail, depth;
    int64_t busy_ns;
} step_queue;

struct train_step {
    train_step_options options;
    model_weights *weights;
    plan *plan;
    wiring *wiring;
    step_queue queues[2]; /* device, host: the same device twice if there is one queue */
    bool two_queues;
    step_kernel *kernels;
    step_call *calls;
    propane_buffer **buffers; /* [wiring.buffer_count] */
    void *block;              /* on one queue they lie in it */
    propane_buffer **copies;  /* [tensor]: weights that programs read as inputs; NULL: none does */
    propane_io *copy_layout;  /* [tensor] */
    propane_buffer *
        *others; /* [tensor]: the same values for kernels that lay them out in another way; NULL: none does */
    propane_io *other_layout;   /* [tensor] */
    float *between;             /* the largest tensor of `others` */
    bool *is_master;            /* [tensor]: the programs read the master weights themselves */
    propane_buffer **gradients; /* [tensor]: of `buffers` */
    /* [tensor]: what the embedding's share has added to the squares of a table, beyond those that its kernel says. */
    double *scattered;
    double *grown;      /* scratch of train_embed */
    bool summed;        /* the gradients have been handed over and changed since */
    bool *trained;      /* [tensor] */
    int64_t *moment_at; /* [tensor]: in the moments' blocks */
    int64_t moment_floats;
    float *moments[2];
    int *learnt, learnt_count; /* tensors, in the optimiser's order */
    uint64_t dropout;          /* the key of what is in the dropout buffers */
    bool dropout_filled;
    adamw *optimiser;
    adamw *own; /* over `pieces`; NULL: the optimiser is over all */
    train_piece *pieces;
    int piece_count;
    const train_reduce *reduce;
    bool *handed; /* [tensor]: locked for `reduce` */
    bool spent;   /* a forward pass has run over the gradients */
    double *nats;
    train_loss_sums sums; /* of a head in several pieces */
    bool stale;
    int compiles, refresh_compiles; /* the second: what compiling all baked programs again took last time */
    char sharing[300];              /* how the kernels' programs were made */
    int64_t own_ns;                 /* host code that is not a kernel */
    train_simulated simulated;
};

const plan *train_step_plan(const train_step *s) { return s->plan; }
int train_step_compiles(const train_step *s) { return s->compiles; }
const char *train_step_sharing(const train_step *s) { return s->sharing; }
const char *train_step_device_note(const train_step *s) {
    const char *note = propane_device_describe(s->queues[0].device)->note;
    return note ? note : "";
}
bool train_step_trains(const train_step *s, int tensor) { return s->trained[tensor]; }
int train_step_learnt_count(const train_step *s) { return s->learnt_count; }
int train_step_learnt(const train_step *s, int index) { return s->learnt[index]; }

/* Of the head. */
static int head_pieces(const train_step *s) { return s->wiring->instance_count - s->wiring->head; }

float *train_step_moment(train_step *s, int which, int tensor) {
    return s->trained[tensor] ? s->moments[which - 1] + s->moment_at[tensor] : NULL;
}

size_t train_step_state_bytes(const train_step *s) { return 3 * (size_t)s->moment_floats * sizeof(float); }

static int total(const train_step *s) { return model_weights_total(s->weights); }
static propane_device *device_of(const train_step *s, bool host) { return s->queues[host].device; }

int train_step_compile_limit(const train_step *s) {
    return propane_device_describe(s->queues[0].device)->compile_limit;
}

/* ---- programs ---------------------------------------------------------------------------------------------------------- */

/* Programs that are compiled at once. */
typedef struct batch {
    propane_compile_item *items;
    propane_program ***out;
    const char **names; /* of kernels */
    int count, room;
} batch;

static void batch_deinit(batch *b) {
    mem_free(b->items);
    mem_free(b->out);
    mem_free(b->names);
}

static propane_status batch_init(batch *b, int room, propane_error *err) {
    *b = (batch){mem_array((size_t)room + 1, sizeof *b->items), mem_array((size_t)room + 1, sizeof *b->out),
                 mem_array((size_t)room + 1, sizeof *b->names), 0, room};
    if (b->items && b->out && b->names) return PROPANE_OK;
    batch_deinit(b);
    return propane_fail_memory(err, (size_t)room * sizeof *b->items);
}

static void batch_add(batch *b, const char *kernel, const mil_function *f, propane_program **out) {
    assert(b->count < b->room);
    b->items[b->count] = (propane_compile_item){.module = f->module, .function = f->name};
    b->out[b->count] = out;
    b->names[b->count++] = kernel;
}

static propane_status batch_compile(train_step *s, batch *b, int *compiles, propane_error *err) {
    propane_compile_options options = {0};
    propane_compile_report report;
    if (s->options.bf16) options.precision = PROPANE_PRECISION_BF16;
    propane_status status =
        propane_program_compile_all(device_of(s, false), b->items, b->count, &options, &report, err);
    *compiles = report.compiles;
    s->compiles += report.compiles;
    if (status != PROPANE_OK)
        return report.failed >= 0 ? propane_fail_prefix(err, status, "kernel '%s'", b->names[report.failed]) : status;
    if (b->count) snprintf(s->sharing, sizeof s->sharing, "%s", report.how);
    for (int i = 0; i < b->count; i++) {
        propane_program_free(*b->out[i]);
        *b->out[i] = b->items[i].program;
    }
    return PROPANE_OK;
}

static propane_status compile_on_host(train_step *s, const plan_kernel *k, const mil_function *f, propane_program **out,
                                      propane_error *err) {
    propane_compile_options options = {.function = f->name};
    if (s->options.bf16) options.precision = PROPANE_PRECISION_BF16;
    propane_status status = propane_program_compile(device_of(s, true), f->module, &options, out, err);
    return status == PROPANE_OK ? status : propane_fail_prefix(err, status, "kernel '%s'", k->name);
}

static bool reads_weights(const plan_block *b, const plan_kernel *k) {
    for (int i = 0; i < k->function->param_count; i++)
        if (plan_is_weight(b, k->function->params[i]->name)) return true;
    return false;
}

static bool constant_weights(const train_step *s) {
    return s->options.weights == PLAN_BAKED || s->options.weights == PLAN_RELOAD;
}

/* A kernel's programs: on the device they wait in `b`. */
static propane_status gather_kernel(train_step *s, const plan_block *block, int index, batch *b, propane_error *err) {
    const plan_kernel *k = &s->plan->kernels[index];
    step_kernel *own = &s->kernels[index];
    bool on_device = k->place == PLAN_DEVICE;
    own->baked = constant_weights(s) && on_device && reads_weights(block, k);
    if (own->baked) return PROPANE_OK;
    if (s->options.weights == PLAN_PACKED && on_device && k->function->param_count > 1)
        PROPANE_TRY(packing_create(k->function, s->plan->options.batch, &own->packing, err));
    const mil_function *forms[2] = {own->packing ? own->packing->function : k->function, NULL};
    if (s->options.accumulate || (k->part == MODEL_HEAD && head_pieces(s) > 1)) forms[1] = k->accumulate;
    for (int form = 0; form < 2 && forms[form]; form++) {
        if (on_device)
            batch_add(b, k->name, forms[form], &own->program[form]);
        else
            PROPANE_TRY(compile_on_host(s, k, forms[form], &own->program[form], err));
    }
    return PROPANE_OK;
}

static propane_status compile_shared(train_step *s, propane_error *err) {
    batch b;
    int compiles;
    propane_status status = batch_init(&b, 2 * s->plan->kernel_count, err);
    if (status != PROPANE_OK) return status;
    for (int i = 0; i < PLAN_BLOCKS; i++)
        for (int n = 0; n < s->plan->blocks[i].count && status == PROPANE_OK; n++)
            status = gather_kernel(s, &s->plan->blocks[i], s->plan->blocks[i].first + n, &b, err);
    if (status == PROPANE_OK) status = batch_compile(s, &b, &compiles, err);
    batch_deinit(&b);
    return status;
}

typedef struct bake_context {
    const train_step *s;
    const wire_call *call;
    void *scratch; /* fp16 form of the weight at hand */
} bake_context;

static propane_status bake_weight(void *context, const mil_value *param, const void **data, propane_error *err) {
    bake_context *b = context;
    const model_weights *w = b->s->weights;
    wire_ref ref = wiring_resolve(b->s->wiring, b->call, param->name);
    if (ref.kind != WIRE_WEIGHT || ref.index >= w->count) return PROPANE_OK; /* adapters are inputs always */
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

/* A program of the same kernel that can be loaded with other weights; NULL: there is none yet. */
static const propane_program *find_donor(const train_step *s, int call) {
    for (int c = call; c >= 0; c--)
        if (s->calls[c].own && s->wiring->calls[c].kernel == s->wiring->calls[call].kernel) return s->calls[c].own;
    return NULL;
}

static propane_status compile_baked(train_step *s, int call, const mil_function *f, propane_error *err) {
    const plan_kernel *k = &s->plan->kernels[s->wiring->calls[call].kernel];
    propane_program *old = s->calls[call].own;
    propane_compile_options options = {.function = f->name, .reloadable = s->options.weights == PLAN_RELOAD};
    if (options.reloadable) options.donor = find_donor(s, call);
    if (!options.donor) s->compiles++;
    propane_status status = propane_program_compile(device_of(s, false), f->module, &options, &s->calls[call].own, err);
    propane_program_free(old);
    return status == PROPANE_OK ? status : propane_fail_prefix(err, status, "kernel '%s'", k->name);
}

/* The kernel with this call's weights as constants, in a module of its own. */
static propane_status bake_module(train_step *s, int call, mil_module **out, mil_function **f, propane_error *err) {
    const wire_call *c = &s->wiring->calls[call];
    const plan_kernel *k = &s->plan->kernels[c->kernel];
    bake_context context = {.s = s, .call = c};
    *out = mil_module_create(k->name);
    if (!*out) return propane_fail_memory(err, 0);
    propane_status status = train_bake(k->function, *out, k->name, bake_weight, &context, f, err);
    mem_free(context.scratch);
    return status;
}

static propane_status bake_call(train_step *s, int call, propane_error *err) {
    mil_module *m = NULL;
    mil_function *f = NULL;
    propane_status status = bake_module(s, call, &m, &f, err);
    if (status == PROPANE_OK) status = compile_baked(s, call, f, err);
    mil_module_free(m);
    return status;
}

static bool is_baked(const train_step *s, int call) { return s->kernels[s->wiring->calls[call].kernel].baked; }

static int baked_calls(const train_step *s) {
    int n = 0;
    for (int c = 0; c < s->wiring->call_count; c++) n += is_baked(s, c);
    return n;
}

/* All baked programs at once: where a device makes procedures of them, that is one compile. */
static propane_status bake_together(train_step *s, propane_error *err) {
    batch b;
    int made = 0, count = baked_calls(s);
    mil_module **modules = mem_array((size_t)count + 1, sizeof *modules);
    if (!modules) return propane_fail_memory(err, (size_t)count * sizeof *modules);
    propane_status status = batch_init(&b, count, err);
    for (int c = 0; c < s->wiring->call_count && status == PROPANE_OK; c++) {
        mil_function *f = NULL;
        if (!is_baked(s, c)) continue;
        propane_program_free(s->calls[c].own); /* nothing is bound to it any more */
        s->calls[c].own = NULL;
        status = bake_module(s, c, &modules[made++], &f, err);
        if (status == PROPANE_OK) batch_add(&b, s->plan->kernels[s->wiring->calls[c].kernel].name, f, &s->calls[c].own);
    }
    if (status == PROPANE_OK) status = batch_compile(s, &b, &s->refresh_compiles, err);
    for (int i = 0; i < made; i++) mil_module_free(modules[i]);
    mem_free(modules);
    batch_deinit(&b);
    return status;
}

static propane_status bake_all(train_step *s, propane_error *err) {
    int before = s->compiles;
    if (baked_calls(s) == 0) return PROPANE_OK;
    if (s->options.weights == PLAN_BAKED && propane_device_describe(device_of(s, false))->shares_compiles)
        return bake_together(s, err);
    for (int c = 0; c < s->wiring->call_count; c++)
        if (is_baked(s, c)) PROPANE_TRY(bake_call(s, c, err));
    s->refresh_compiles = s->compiles - before;
    return PROPANE_OK;
}

static propane_program *program_of(const train_step *s, int call, int form) {
    const step_kernel *k = &s->kernels[s->wiring->calls[call].kernel];
    return k->baked ? form == 0 ? s->calls[call].own : NULL : k->program[form];
}

/* ---- buffers and requests ---------------------------------------------------------------------------------------------- */

static int io_count(const propane_program *p) {
    return propane_program_input_count(p) + propane_program_output_count(p);
}

static const propane_io *io_at(const propane_program *p, int index) {
    int inputs = propane_program_input_count(p);
    return index < inputs ? propane_program_input(p, index) : propane_program_output(p, index - inputs);
}

/* Where the device is the host and takes fp32, the master weight is what it reads: no copy, and none to keep up to date. */
static propane_status make_copy(train_step *s, int tensor, const propane_io *io, propane_error *err) {
    const model_tensor *t = &s->weights->tensors[tensor];
    s->copy_layout[tensor] = *io;
    if (io->dtype == PROPANE_FP32 && io->bytes == (size_t)t->count * sizeof(float)) {
        propane_error why = {0};
        propane_status status = propane_buffer_wrap(device_of(s, false), model_weights_data(s->weights, t), io->bytes,
                                                    &s->copies[tensor], &why);
        s->is_master[tensor] = status == PROPANE_OK;
        if (status != PROPANE_ERR_UNSUPPORTED)
            return status == PROPANE_OK ? status : propane_fail(err, status, "%s", why.text);
    }
    return propane_buffer_create(device_of(s, false), io->bytes, &s->copies[tensor], err);
}

static bool same_layout(const propane_io *a, const propane_io *b) {
    bool same = a->rank == b->rank && a->dtype == b->dtype;
    for (int d = 0; same && d < a->rank; d++)
        same = a->dim[d] == b->dim[d] && (a->dim[d] == 1 || a->stride[d] == b->stride[d]);
    return same;
}

/* The host's kernels and the device's may differ in how they pad the rows of a weight: then it exists twice. */
static propane_status find_weight(train_step *s, int tensor, const propane_io *io, propane_buffer **out,
                                  propane_error *err) {
    if (!s->copies[tensor]) PROPANE_TRY(make_copy(s, tensor, io, err));
    bool same = same_layout(io, &s->copy_layout[tensor]);
    if (!same && !s->others[tensor]) {
        s->other_layout[tensor] = *io;
        PROPANE_TRY(propane_buffer_create(device_of(s, false), io->bytes, &s->others[tensor], err));
    }
    if (!same && !same_layout(io, &s->other_layout[tensor]))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "'%s' is laid out in three ways by the kernels that read it",
                            io->name);
    *out = same ? s->copies[tensor] : s->others[tensor];
    return PROPANE_OK;
}

static propane_status pack_weights(train_step *s, propane_error *err);

/* After the weights on the device have changed. */
static propane_status copy_others(train_step *s, propane_error *err) {
    for (int i = 0; i < total(s); i++) {
        int64_t count = s->weights->tensors[i].count;
        if (!s->others[i]) continue;
        PROPANE_TRY(propane_buffer_read(s->copies[i], &s->copy_layout[i], PROPANE_FP32, s->between, count, err));
        PROPANE_TRY(propane_buffer_write(s->others[i], &s->other_layout[i], PROPANE_FP32, s->between, count, err));
    }
    return pack_weights(s, err);
}

static propane_status make_between(train_step *s, propane_error *err) {
    int64_t largest = 0;
    for (int i = 0; i < total(s); i++)
        if (s->others[i] && s->weights->tensors[i].count > largest) largest = s->weights->tensors[i].count;
    s->between = mem_array((size_t)largest + 1, sizeof(float));
    return s->between ? PROPANE_OK : propane_fail_memory(err, (size_t)largest * sizeof(float));
}

static const packing *packing_of(const train_step *s, int call) {
    return s->kernels[s->wiring->calls[call].kernel].packing;
}

/* The buffer behind a name; weights' are made when they are first asked for. */
static propane_status find_buffer(train_step *s, const wire_call *c, const propane_io *io, propane_buffer **out,
                                  propane_error *err) {
    wire_ref ref = wiring_resolve(s->wiring, c, io->name);
    if (ref.kind == WIRE_VALUE) {
        *out = s->buffers[s->wiring->values[ref.index].buffer];
        return PROPANE_OK;
    }
    if (ref.kind == WIRE_WEIGHT) return find_weight(s, ref.index, io, out, err);
    *out = s->gradients[ref.index];
    return PROPANE_OK;
}

#define MAX_BINDINGS 64

static propane_status make_request(train_step *s, int call, int form, propane_error *err) {
    const wire_call *c = &s->wiring->calls[call];
    propane_program *p = program_of(s, call, form);
    propane_binding bindings[MAX_BINDINGS];
    if (!p) return PROPANE_OK;
    int count = io_count(p);
    if (count > MAX_BINDINGS)
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "kernel '%s' has %d inputs and results; at most %d are provided for",
                            s->plan->kernels[c->kernel].name, count, MAX_BINDINGS);
    for (int i = 0; i < count; i++) {
        const propane_io *io = io_at(p, i);
        bindings[i].name = io->name;
        if (packing_of(s, call) && i == 0) {
            if (!s->calls[call].packed)
                PROPANE_TRY(propane_buffer_create(device_of(s, false), io->bytes, &s->calls[call].packed, err));
            bindings[i].buffer = s->calls[call].packed;
        } else {
            PROPANE_TRY(find_buffer(s, c, io, &bindings[i].buffer, err));
        }
    }
    propane_request_free(s->calls[call].request[form]);
    s->calls[call].request[form] = NULL;
    propane_status status = propane_request_create(p, bindings, count, &s->calls[call].request[form], err);
    return status == PROPANE_OK ? status
                                : propane_fail_prefix(err, status, "kernel '%s'", s->plan->kernels[c->kernel].name);
}

/* What only packed kernels read and no device wrote (the embedded batch, perhaps) lies dense. */
static propane_status lay_out_packed(train_step *s, int call, propane_error *err) {
    const packing *p = packing_of(s, call);
    for (int i = 0; p && i < p->count; i++) {
        wire_ref ref = wiring_resolve(s->wiring, &s->wiring->calls[call], p->parts[i].name);
        if (ref.kind != WIRE_VALUE || s->wiring->values[ref.index].bytes > 0) continue;
        propane_io io = packing_dense_io(&p->parts[i]);
        PROPANE_TRY(wiring_layout(s->wiring, &s->wiring->calls[call], &io, err));
    }
    return PROPANE_OK;
}

/* One queue means a cpu device, whose memory the host's is. */
static propane_status make_buffers(train_step *s, propane_error *err) {
    const wiring *w = s->wiring;
    s->buffers = mem_array((size_t)w->buffer_count, sizeof(propane_buffer *));
    if (w->buffer_offset) s->block = mem_pages_alloc(w->block_bytes);
    if (!s->buffers || (w->buffer_offset && !s->block)) return propane_fail_memory(err, w->block_bytes);
    for (int b = 0; b < w->buffer_count; b++)
        PROPANE_TRY(s->block ? propane_buffer_wrap(device_of(s, false), (unsigned char *)s->block + w->buffer_offset[b],
                                                   w->buffer_bytes[b], &s->buffers[b], err)
                             : propane_buffer_create(device_of(s, false), w->buffer_bytes[b], &s->buffers[b], err));
    for (int i = 0; i < total(s); i++)
        if (w->gradients[i].wanted) s->gradients[i] = s->buffers[w->gradients[i].buffer];
    return PROPANE_OK;
}

static propane_status lay_out(train_step *s, propane_error *err) {
    wiring *w = s->wiring;
    for (int c = 0; c < w->call_count; c++)
        for (int form = 0; form < 2; form++) {
            const propane_program *p = program_of(s, c, form);
            int begin = p && packing_of(s, c) ? propane_program_input_count(p) : 0;
            for (int i = begin; p && i < io_count(p); i++)
                PROPANE_TRY(wiring_layout(w, &w->calls[c], io_at(p, i), err));
        }
    for (int c = 0; c < w->call_count; c++) PROPANE_TRY(lay_out_packed(s, c, err));
    PROPANE_TRY(wiring_place(w, s->two_queues, s->options.accumulate, err));
    PROPANE_TRY(make_buffers(s, err));
    for (int c = 0; c < w->call_count; c++)
        for (int form = 0; form < 2; form++) PROPANE_TRY(make_request(s, c, form, err));
    return PROPANE_OK;
}

size_t train_step_activation_bytes(const train_step *s) { return wiring_value_bytes(s->wiring); }

/* ---- the optimiser's view ---------------------------------------------------------------------------------------------- */

/* Rows as the sweep writes them: the last dimension that is not 1. */
static void set_rows(adamw_tensor *t, const propane_io *io) {
    int last = io->rank - 1;
    while (last > 0 && io->dim[last] == 1) last--;
    int64_t size = io->dtype == PROPANE_FP16 ? 2 : 4;
    bool dense_row = io->rank == 0 || io->stride[last] == size;
    t->device_fp16 = io->dtype == PROPANE_FP16;
    t->row = dense_row && io->rank > 0 ? io->dim[last] : 1;
    t->row_stride = !dense_row                          ? io->stride[last]
                    : last > 0 && io->dim[last - 1] > 1 ? io->stride[last - 1]
                                                        : t->row * size;
}

static propane_status make_optimiser(train_step *s, propane_error *err) {
    const model_weights *w = s->weights;
    adamw_tensor *list = mem_array((size_t)s->learnt_count, sizeof *list);
    if (!list) return propane_fail_memory(err, (size_t)s->learnt_count * sizeof *list);
    for (int i = 0; i < s->learnt_count; i++) {
        const model_tensor *t = &w->tensors[s->learnt[i]];
        list[i] = (adamw_tensor){.weight = model_weights_data(w, t),
                                 .moment1 = train_step_moment(s, 1, s->learnt[i]),
                                 .moment2 = train_step_moment(s, 2, s->learnt[i]),
                                 .count = t->count,
                                 .decay = t->decay};
        if (s->copies[s->learnt[i]]) set_rows(&list[i], &s->copy_layout[s->learnt[i]]);
    }
    propane_status status = adamw_create(list, s->learnt_count, &s->optimiser, err);
    mem_free(list);
    return status;
}

static propane_status unlock_tensors(train_step *s, int count) {
    for (int i = 0; i < count; i++) {
        int tensor = s->learnt[i];
        propane_buffer_unlock(s->gradients[tensor]);
        if (s->copies[tensor]) propane_buffer_unlock(s->copies[tensor]);
    }
    return PROPANE_OK;
}

static propane_status lock_tensors(train_step *s, propane_error *err) {
    for (int i = 0; i < s->learnt_count; i++) {
        int tensor = s->learnt[i];
        adamw_tensor *t = adamw_tensor_at(s->optimiser, i);
        void *gradient = NULL;
        propane_status status = propane_buffer_lock(s->gradients[tensor], false, &gradient, err);
        if (status == PROPANE_OK && s->copies[tensor]) {
            void *copy = NULL;
            status = propane_buffer_lock(s->copies[tensor], true, &copy, err);
            t->device = s->is_master[tensor] ? NULL : copy;
            if (status != PROPANE_OK) propane_buffer_unlock(s->gradients[tensor]);
        }
        if (status != PROPANE_OK) {
            unlock_tensors(s, i);
            return status;
        }
        t->gradient = gradient;
    }
    for (int i = 0; i < s->piece_count; i++)
        adamw_tensor_at(s->own, i)->gradient =
            adamw_tensor_at(s->optimiser, s->pieces[i].tensor)->gradient + s->pieces[i].begin;
    return PROPANE_OK;
}

static propane_status check_gradients(const train_step *s, propane_error *err) {
    if (!s->spent) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "the gradients' memory was used by a forward pass since; run their batch again, or make the step "
        "for accumulation");
}

/* What is known of a gradient: what its kernel says, and what the embedding's share has added behind it. An infinity is no
 * answer, and of squares that are hardly numbers any more too little is left: from the smallest mean that is one, what is lost
 * is less than the rounding. Nor where the share has taken most of it away again. */
static propane_status read_squares(train_step *s, int index, propane_error *err) {
    const int tensor = s->learnt[index];
    const wire_gradient *g = &s->wiring->gradients[tensor];
    const bool scattered = g->made == s->wiring->call_count, all = scattered && g->first == g->made;
    adamw_tensor *t = adamw_tensor_at(s->optimiser, index);
    void *data = NULL;
    double said = 0;
    t->squared = false;
    if ((g->squares < 0 && !all) || s->plan->options.squares <= 0 || s->summed || s->own) return PROPANE_OK;
    if (g->squares >= 0) {
        propane_buffer *buffer = s->buffers[s->wiring->values[g->squares].buffer];
        PROPANE_TRY(propane_buffer_lock(buffer, false, &data, err));
        said = (double)*(const float *)data;
        propane_buffer_unlock(buffer);
    }
    t->squares = scattered ? said + s->scattered[tensor] : said;
    t->squared =
        isfinite(said) && isfinite(t->squares) && t->squares >= fmax((double)FLT_MIN * (double)t->count, said / 4);
    return PROPANE_OK;
}

propane_status train_step_gradient_norm(train_step *s, double *norm, propane_error *err) {
    int64_t start = clock_ns();
    PROPANE_TRY(check_gradients(s, err));
    for (int i = 0; i < s->learnt_count; i++) PROPANE_TRY(read_squares(s, i, err));
    PROPANE_TRY(lock_tensors(s, err));
    *norm = adamw_gradient_norm(s->own ? s->own : s->optimiser);
    unlock_tensors(s, s->learnt_count);
    s->own_ns += clock_ns() - start;
    return PROPANE_OK;
}

/* With adapters nothing that is a constant ever changes. */
static bool bakes_what_is_learnt(const train_step *s) {
    for (int i = 0; i < s->weights->count; i++)
        if (s->trained[i]) return true;
    return false;
}

propane_status train_step_update(train_step *s, const adamw_step *how, propane_error *err) {
    int64_t start = clock_ns();
    PROPANE_TRY(check_gradients(s, err));
    PROPANE_TRY(lock_tensors(s, err));
    adamw_update(s->own ? s->own : s->optimiser, how);
    unlock_tensors(s, s->learnt_count);
    propane_status status = s->own ? PROPANE_OK : copy_others(s, err);
    s->own_ns += clock_ns() - start;
    s->stale |= bakes_what_is_learnt(s);
    return status;
}

/* The device's copies of what is not learnt: the optimiser does not know them. */
static propane_status publish_others(train_step *s, propane_error *err) {
    for (int i = 0; i < total(s); i++) {
        const model_tensor *t = &s->weights->tensors[i];
        if (s->trained[i] || !s->copies[i] || s->is_master[i]) continue;
        PROPANE_TRY(propane_buffer_write(s->copies[i], &s->copy_layout[i], PROPANE_FP32,
                                         model_weights_data(s->weights, t), t->count, err));
    }
    return PROPANE_OK;
}

propane_status train_step_publish(train_step *s, propane_error *err) {
    PROPANE_TRY(publish_others(s, err));
    PROPANE_TRY(lock_tensors(s, err));
    adamw_publish(s->optimiser);
    unlock_tensors(s, s->learnt_count);
    s->stale = true; /* from outside all may have changed */
    return copy_others(s, err);
}

propane_status train_step_gradient(train_step *s, int tensor, float *out, propane_error *err) {
    void *data = NULL;
    PROPANE_TRY(check_gradients(s, err));
    PROPANE_TRY(propane_buffer_lock(s->gradients[tensor], false, &data, err));
    memcpy(out, data, (size_t)s->weights->tensors[tensor].count * sizeof(float));
    propane_buffer_unlock(s->gradients[tensor]);
    return PROPANE_OK;
}

/* ---- several ranks ------------------------------------------------------------------------------------------------------ */

void train_step_reduce(train_step *s, const train_reduce *reduce) { s->reduce = reduce; }

void train_step_gradient_order(const train_step *s, int *order) {
    int n = 0;
    for (int c = 0; c <= s->wiring->call_count; c++)
        for (int i = 0; i < s->learnt_count; i++)
            if (s->wiring->gradients[s->learnt[i]].made == c) order[n++] = i;
}

/* What `call` was the last to write. */
static propane_status hand_over(train_step *s, int call, propane_error *err) {
    for (int i = 0; s->reduce && i < s->learnt_count; i++) {
        void *gradient = NULL;
        int tensor = s->learnt[i];
        if (s->wiring->gradients[tensor].made != call) continue;
        PROPANE_TRY(propane_buffer_lock(s->gradients[tensor], true, &gradient, err));
        s->handed[tensor] = true;
        PROPANE_TRY(s->reduce->ready(s->reduce->context, i, gradient, err));
    }
    return PROPANE_OK;
}

static void take_back(train_step *s) {
    for (int i = 0; i < total(s); i++) {
        if (s->handed[i]) propane_buffer_unlock(s->gradients[i]);
        s->handed[i] = false;
    }
}

propane_status train_step_own(train_step *s, const train_piece *pieces, int count, propane_error *err) {
    adamw_tensor *list = mem_array((size_t)count + 1, sizeof *list);
    s->pieces = mem_array((size_t)count + 1, sizeof *s->pieces);
    if (!list || !s->pieces) {
        mem_free(list);
        return propane_fail_memory(err, (size_t)count * sizeof *list);
    }
    memcpy(s->pieces, pieces, (size_t)count * sizeof *pieces);
    s->piece_count = count;
    for (int i = 0; i < count; i++) {
        list[i] = *adamw_tensor_at(s->optimiser, pieces[i].tensor);
        list[i].weight += pieces[i].begin;
        list[i].moment1 += pieces[i].begin;
        list[i].moment2 += pieces[i].begin;
        list[i].count = pieces[i].end - pieces[i].begin;
        list[i].device = NULL;
    }
    propane_status status = adamw_create(list, count, &s->own, err);
    if (status != PROPANE_OK) s->piece_count = 0;
    mem_free(list);
    return status;
}

/* ---- packed inputs ------------------------------------------------------------------------------------------------------ */

/* The weights of a call, or what it reads besides: into its one input. */
static propane_status pack(train_step *s, int call, bool weights, propane_error *err) {
    const packing *p = packing_of(s, call);
    const propane_io *packed = propane_program_input(program_of(s, call, 0), 0);
    void *target = NULL;
    PROPANE_TRY(propane_buffer_lock(s->calls[call].packed, true, &target, err));
    propane_status status = PROPANE_OK;
    for (int i = 0; i < p->count && status == PROPANE_OK; i++) {
        wire_ref ref = wiring_resolve(s->wiring, &s->wiring->calls[call], p->parts[i].name);
        if (weights != (ref.kind == WIRE_WEIGHT)) continue;
        if (weights) {
            packing_put_f32(&p->parts[i], target, packed,
                            model_weights_data(s->weights, &s->weights->tensors[ref.index]));
            continue;
        }
        const wire_value *v = &s->wiring->values[ref.index];
        void *source = NULL;
        status = propane_buffer_lock(s->buffers[v->buffer], false, &source, err);
        if (status != PROPANE_OK) break;
        packing_put(&p->parts[i], target, packed, source, &v->io);
        propane_buffer_unlock(s->buffers[v->buffer]);
    }
    propane_buffer_unlock(s->calls[call].packed);
    return status;
}

static propane_status pack_weights(train_step *s, propane_error *err) {
    for (int c = 0; c < s->wiring->call_count; c++)
        if (packing_of(s, c)) PROPANE_TRY(pack(s, c, true, err));
    return PROPANE_OK;
}

/* ---- baked weights ------------------------------------------------------------------------------------------------------ */

int train_step_refresh_cost(const train_step *s) {
    return s->stale && s->options.weights == PLAN_BAKED ? s->refresh_compiles : 0;
}

propane_status train_step_refresh(train_step *s, propane_error *err) {
    if (!s->stale) return PROPANE_OK;
    for (int c = 0; c < s->wiring->call_count; c++) {
        if (!is_baked(s, c)) continue;
        propane_request_free(s->calls[c].request[0]);
        s->calls[c].request[0] = NULL;
    }
    PROPANE_TRY(bake_all(s, err));
    for (int c = 0; c < s->wiring->call_count; c++)
        if (is_baked(s, c)) PROPANE_TRY(make_request(s, c, 0, err));
    s->stale = false;
    return PROPANE_OK;
}

/* ---- running calls ------------------------------------------------------------------------------------------------------ */

static propane_status retire_oldest(train_step *s, step_queue *q, int form_hint, propane_error *err) {
    int call = q->calls[q->head++];
    propane_request *r = s->calls[call].request[form_hint];
    if (!r) r = s->calls[call].request[0];
    propane_completion done = {0};
    propane_status status = propane_wait(r, &done, err);
    s->queues[s->wiring->calls[call].host].busy_ns += done.device_ns;
    s->kernels[s->wiring->calls[call].kernel].calls++;
    s->kernels[s->wiring->calls[call].kernel].ns += done.device_ns;
    if (done.engine_ns >= 0) {
        s->kernels[s->wiring->calls[call].kernel].engine_ns += done.engine_ns;
        s->kernels[s->wiring->calls[call].kernel].counted = true;
    }
    if (done.simulated) {
        s->simulated.simulated = true;
        s->simulated.energy_j += done.energy_j;
        s->simulated.flops += s->plan->kernels[s->wiring->calls[call].kernel].flops;
    }
    if (status == PROPANE_OK) return hand_over(s, call, err);
    return propane_fail_prefix(err, status, "kernel '%s'", s->plan->kernels[s->wiring->calls[call].kernel].name);
}

static propane_status set_events(train_step *s, const wire_call *c, propane_request *r, propane_error *err) {
    if (!s->two_queues) return PROPANE_OK;
    step_queue *own = &s->queues[c->host], *other = &s->queues[!c->host];
    propane_event_point wait = {other->event, other->base + (uint64_t)(c->wait - other->before)};
    propane_event_point signal = {own->event, own->base + (uint64_t)(c->ordinal - own->before)};
    return propane_request_events(r, &wait, c->wait > other->before, &signal, 1, err);
}

/* A packed call's input is filled by the host, so all that it needs must be there before it is queued. */
static propane_status stage(train_step *s, int call, int form, propane_error *err) {
    const wire_call *c = &s->wiring->calls[call];
    step_queue *own = &s->queues[s->two_queues && c->host], *other = &s->queues[1];
    while (own->head < own->tail) PROPANE_TRY(retire_oldest(s, own, form, err));
    while (s->two_queues && other->head < other->tail && s->wiring->calls[other->calls[other->head]].ordinal <= c->wait)
        PROPANE_TRY(retire_oldest(s, other, form, err));
    int64_t start = clock_ns();
    propane_status status = pack(s, call, false, err);
    s->own_ns += clock_ns() - start;
    return status;
}

static void begin_run(train_step *s, int begin) {
    for (int i = 0; i < 2; i++) s->queues[i].head = s->queues[i].tail = s->queues[i].before = 0;
    for (int c = 0; s->two_queues && c < begin; c++) {
        step_queue *q = &s->queues[s->wiring->calls[c].host];
        if (s->wiring->calls[c].ordinal > q->before) q->before = s->wiring->calls[c].ordinal;
    }
}

/* Queues calls [begin, end) and waits for all of them. After a failure the rest is still waited for: nothing is in flight
 * when this returns, so a run of calls may be repeated. */
static propane_status run_calls(train_step *s, int begin, int end, int form, propane_error *err) {
    propane_status status = PROPANE_OK;
    begin_run(s, begin);
    for (int call = begin; call < end && status == PROPANE_OK; call++) {
        const wire_call *c = &s->wiring->calls[call];
        step_queue *q = &s->queues[s->two_queues && c->host];
        propane_request *r = s->calls[call].request[form] ? s->calls[call].request[form] : s->calls[call].request[0];
        if (packing_of(s, call)) status = stage(s, call, form, err);
        while (q->tail - q->head >= q->depth && status == PROPANE_OK) status = retire_oldest(s, q, form, err);
        if (status == PROPANE_OK) status = set_events(s, c, r, err);
        if (status == PROPANE_OK) status = propane_submit(&r, 1, err);
        if (status == PROPANE_OK) q->calls[q->tail++] = call;
    }
    propane_error later = {0};
    for (int i = 0; i < 2; i++)
        for (step_queue *q = &s->queues[i]; q->head < q->tail;) {
            propane_status own = retire_oldest(s, q, form, status == PROPANE_OK ? err : &later);
            if (status == PROPANE_OK) status = own;
        }
    for (int i = 0; i < 2 && s->two_queues; i++) s->queues[i].base += (uint64_t)s->queues[i].tail;
    return status;
}

static propane_status lock_value(train_step *s, int value, bool write, void **out, propane_error *err) {
    return propane_buffer_lock(s->buffers[s->wiring->values[value].buffer], write, out, err);
}

static void unlock_value(train_step *s, int value) {
    propane_buffer_unlock(s->buffers[s->wiring->values[value].buffer]);
}

static train_embed embed_layout(const train_step *s, const propane_io *io) {
    const plan_options *o = &s->plan->options;
    return (train_embed){.batch = (int)o->batch,
                         .context = (int)o->context,
                         .width = (int)s->weights->config.hidden_size,
                         .grown = s->grown,
                         .batch_stride = io->stride[0],
                         .row_stride = io->stride[1]};
}

static propane_status forward(train_step *s, const int32_t *inputs, propane_error *err) {
    const model_tensor *table = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_tokens");
    const model_tensor *positions = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_positions");
    const wire_value *x = &s->wiring->values[0];
    int64_t start = clock_ns(), count = s->plan->options.batch * s->plan->options.context;
    void *stream = NULL;
    assert(table);
    if (s->stale && baked_calls(s) > 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "the baked weights are not up to date; refresh them first");
    for (int64_t i = 0; i < count; i++)
        if (inputs[i] < 0 || inputs[i] >= s->weights->config.vocab_size)
            return propane_fail(err, PROPANE_ERR_INVALID, "token %d is outside the vocabulary of %lld", (int)inputs[i],
                                (long long)s->weights->config.vocab_size);
    s->spent = !s->options.accumulate;
    PROPANE_TRY(lock_value(s, 0, true, &stream, err));
    train_embed e = embed_layout(s, &x->io);
    const float *learned = positions ? model_weights_data(s->weights, positions) : NULL;
    train_embed_gather(&e, model_weights_data(s->weights, table), learned, inputs, stream);
    unlock_value(s, 0);
    s->own_ns += clock_ns() - start;
    const wire_piece *first = s->wiring->pieces; /* a head in one piece belongs to the pass */
    return run_calls(s, 0, head_pieces(s) == 1 ? first->middle : first->begin, 0, err);
}

/* ---- the head -------------------------------------------------------------------------------------------------------------- */

/* Adds a piece's logits up, or turns them into their gradient; a head in one piece does both at once. */
static propane_status take_loss(train_step *s, int piece, const int32_t *targets, double gradient_scale, double *nats,
                                double *loss, propane_error *err) {
    int64_t start = clock_ns();
    int value = wiring_value(s->wiring, s->wiring->head + piece, "logits");
    const propane_io *io = &s->wiring->values[value].io;
    int first = piece * (int)s->weights->config.vocab_piece;
    void *data = NULL;
    PROPANE_TRY(lock_value(s, value, gradient_scale != 0, &data, err));
    train_logits l = {.data = data,
                      .dtype = io->dtype,
                      .batch = (int)io->dim[0],
                      .vocab = (int)io->dim[1],
                      .context = (int)io->dim[3],
                      .batch_stride = io->stride[0],
                      .row_stride = io->stride[1]};
    propane_status status = head_pieces(s) == 1 ? train_loss(&l, targets, gradient_scale, nats, loss, err)
                            : gradient_scale != 0
                                ? train_loss_gradient(&l, first, targets, gradient_scale, &s->sums, err)
                                : train_loss_add(&l, first, targets, &s->sums, err);
    unlock_value(s, value);
    s->own_ns += clock_ns() - start;
    return status;
}

/* The loss of all pieces; no more than one piece's logits are held. With `gradient_scale`, which is for a head in one piece,
 * they become their gradient. */
static propane_status add_up(train_step *s, const int32_t *targets, double gradient_scale, double *nats, double *loss,
                             propane_error *err) {
    for (int i = 0; i < head_pieces(s); i++) {
        if (head_pieces(s) > 1)
            PROPANE_TRY(run_calls(s, s->wiring->pieces[i].begin, s->wiring->pieces[i].middle, 0, err));
        PROPANE_TRY(take_loss(s, i, targets, gradient_scale, nats, loss, err));
    }
    if (head_pieces(s) > 1)
        train_loss_mean(&s->sums, targets, s->plan->options.batch * s->plan->options.context, nats, loss);
    return PROPANE_OK;
}

/* Before the pieces' gradients are added to what is there. */
static propane_status clear_head(train_step *s, propane_error *err) {
    for (int i = 0; i < s->weights->count; i++) {
        const model_tensor *t = &s->weights->tensors[i];
        void *gradient = NULL;
        if (!s->gradients[i] || s->wiring->gradients[i].first != s->wiring->pieces[0].begin) continue;
        PROPANE_TRY(propane_buffer_lock(s->gradients[i], true, &gradient, err));
        memset(gradient, 0, (size_t)t->count * sizeof(float));
        propane_buffer_unlock(s->gradients[i]);
    }
    return PROPANE_OK;
}

/* What the piece's programs say of the residual stream's gradient goes to the first piece's. */
static propane_status add_stream(train_step *s, int piece, propane_error *err) {
    int from = wiring_value(s->wiring, s->wiring->head + piece, "d_x");
    int to = wiring_value(s->wiring, s->wiring->head, "d_x");
    void *source = NULL, *target = NULL;
    PROPANE_TRY(lock_value(s, from, false, &source, err));
    propane_status status = lock_value(s, to, true, &target, err);
    if (status == PROPANE_OK) {
        float *sum = target;
        const float *more = source;
        for (size_t i = 0; i < s->wiring->values[to].bytes / sizeof *sum; i++) sum[i] += more[i];
        unlock_value(s, to);
    }
    unlock_value(s, from);
    return status;
}

/* Forward again, loss and backward, piece by piece; their weight gradients are added up. */
static propane_status run_pieces(train_step *s, const int32_t *targets, bool first, double loss_scale,
                                 propane_error *err) {
    const wire_piece *piece = s->wiring->pieces;
    if (first) PROPANE_TRY(clear_head(s, err));
    for (int i = 0; i < head_pieces(s); i++) {
        PROPANE_TRY(run_calls(s, piece[i].begin, piece[i].middle, 0, err));
        PROPANE_TRY(take_loss(s, i, targets, loss_scale, NULL, NULL, err));
        PROPANE_TRY(run_calls(s, piece[i].middle, piece[i].end, 1, err));
        if (i > 0) PROPANE_TRY(add_stream(s, i, err));
    }
    return PROPANE_OK;
}

/* One table's gradient out of the stream's: the token rows (a tied head's part of it has been made by then) or the
 * positions' rows. */
static propane_status scatter_table(train_step *s, const model_tensor *table, const int32_t *inputs, bool clear,
                                    const float *stream, const train_embed *e, propane_error *err) {
    propane_buffer *buffer = s->gradients[table - s->weights->tensors];
    train_embed part = *e;
    void *gradient = NULL;
    if (!s->trained[table - s->weights->tensors]) return PROPANE_OK;
    PROPANE_TRY(propane_buffer_lock(buffer, true, &gradient, err));
    if (clear) memset(gradient, 0, (size_t)table->count * sizeof(float));
    if (table->dim[0] != table->stored_rows) part.first = table->first_row, part.rows = table->dim[0];
    double *scattered = &s->scattered[table - s->weights->tensors];
    if (clear || s->wiring->gradients[table - s->weights->tensors].squares >= 0) *scattered = 0;
    *scattered += train_embed_scatter(&part, gradient, inputs, stream);
    propane_buffer_unlock(buffer);
    return PROPANE_OK;
}

static propane_status scatter(train_step *s, const int32_t *inputs, bool first, propane_error *err) {
    const model_tensor *table = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_tokens"), *piece;
    const model_tensor *positions = model_weights_param(s->weights, MODEL_EMBED, -1, "embed_positions");
    int64_t start = clock_ns();
    int value = wiring_value(s->wiring, 0, "d_x");
    void *stream = NULL;
    PROPANE_TRY(lock_value(s, value, false, &stream, err));
    train_embed e = embed_layout(s, &s->wiring->values[value].io);
    bool clear = first && !s->weights->config.tie_word_embeddings;
    propane_status status = PROPANE_OK;
    for (int k = 0; !status && (piece = model_weights_piece(s->weights, table, k)); k++)
        status = scatter_table(s, piece, inputs, clear, stream, &e, err);
    if (!status && positions) status = scatter_table(s, positions, NULL, first, stream, &e, err);
    unlock_value(s, value);
    s->own_ns += clock_ns() - start;
    return status;
}

propane_status train_step_batch(train_step *s, const int32_t *inputs, const int32_t *targets, bool first,
                                double loss_scale, double *loss, propane_error *err) {
    if (!first && !s->options.accumulate)
        return propane_fail(err, PROPANE_ERR_INVALID, "this step was made for one batch; ask for accumulation");
    const wire_piece *piece = s->wiring->pieces;
    int backward = piece[0].middle;
    PROPANE_TRY(forward(s, inputs, err));
    PROPANE_TRY(add_up(s, targets, head_pieces(s) == 1 ? loss_scale : 0, s->nats, loss, err));
    if (head_pieces(s) > 1) {
        PROPANE_TRY(run_pieces(s, targets, first, loss_scale, err));
        backward = piece[head_pieces(s) - 1].end;
    }
    PROPANE_TRY(run_calls(s, backward, s->wiring->call_count, !first, err));
    if (wiring_trains_embedding(s->wiring)) PROPANE_TRY(scatter(s, inputs, first, err));
    propane_status status = hand_over(s, s->wiring->call_count, err);
    s->summed = s->reduce != NULL;
    if (s->reduce && status == PROPANE_OK) status = s->reduce->finish(s->reduce->context, err);
    take_back(s);
    if (status == PROPANE_OK) s->spent = false;
    return status;
}

propane_status train_step_evaluate(train_step *s, const int32_t *inputs, const int32_t *targets, double *nats,
                                   double *loss, propane_error *err) {
    PROPANE_TRY(forward(s, inputs, err));
    return add_up(s, targets, 0, nats ? nats : s->nats, loss, err);
}

void train_step_times(train_step *s, int64_t *device_ns, int64_t *host_ns) {
    *device_ns = s->queues[0].busy_ns;
    *host_ns = s->queues[1].busy_ns + s->own_ns;
    s->queues[0].busy_ns = s->queues[1].busy_ns = s->own_ns = 0;
}

int train_step_kernel_count(const train_step *s) { return s->plan->kernel_count; }

train_kernel_time train_step_kernel_time(const train_step *s, int kernel) {
    const plan_kernel *k = &s->plan->kernels[kernel];
    return (train_kernel_time){.name = k->name,
                               .host = k->place == PLAN_HOST,
                               .calls = s->kernels[kernel].calls,
                               .ns = s->kernels[kernel].ns,
                               .engine_ns = s->kernels[kernel].counted ? s->kernels[kernel].engine_ns : -1,
                               .flops = k->flops,
                               .bytes = k->bytes};
}

train_simulated train_step_simulated(train_step *s) {
    train_simulated out = s->simulated;
    s->simulated = (train_simulated){0};
    return out;
}

/* ---- dropout --------------------------------------------------------------------------------------------------------------- */

propane_status train_step_dropout(train_step *s, uint64_t key, propane_error *err) {
    double dropout = s->weights->lora.dropout;
    if (s->weights->lora.rank == 0 || dropout <= 0 || (s->dropout_filled && s->dropout == key)) return PROPANE_OK;
    int64_t start = clock_ns();
    for (int i = 0; i < s->wiring->value_count; i++) {
        const wire_value *v = &s->wiring->values[i];
        void *data = NULL;
        if (!plan_is_dropout(v->name)) continue;
        PROPANE_TRY(lock_value(s, i, true, &data, err));
        train_dropout_fill(data, &v->io, key, train_dropout_mask(v->instance, v->name), dropout);
        unlock_value(s, i);
    }
    s->dropout = key;
    s->dropout_filled = true;
    s->own_ns += clock_ns() - start;
    return PROPANE_OK;
}

/* ---- making and freeing -------------------------------------------------------------------------------------------------- */

/* What a device is not known to do right is tried before it is relied on; what that compiles counts for the process, so
 * the device that the run uses is opened afterwards. */
static propane_status open_device(train_step *s, const char *uri, propane_error *err) {
    PROPANE_TRY(propane_device_open(uri, &s->queues[0].device, err));
    if (!propane_device_describe(s->queues[0].device)->unproven) return PROPANE_OK;
    propane_device_close(s->queues[0].device);
    s->queues[0].device = NULL;
    PROPANE_TRY(train_prove(uri, plan_weights_name(s->options.weights), err));
    return propane_device_open(uri, &s->queues[0].device, err);
}

static const char *device_uri(const train_step *s) { return s->options.device ? s->options.device : "cpu"; }

static bool on_cpu(const train_step *s) { return device_is(device_uri(s), "cpu"); }

static propane_status open_devices(train_step *s, propane_error *err) {
    s->two_queues = s->options.two_queues || !on_cpu(s);
    PROPANE_TRY(open_device(s, device_uri(s), err));
    if (s->two_queues)
        PROPANE_TRY(propane_device_open("cpu", &s->queues[1].device, err));
    else
        s->queues[1].device = s->queues[0].device;
    for (int i = 0; i < 2; i++) {
        s->queues[i].depth = propane_device_describe(s->queues[i].device)->queue_depth;
        s->queues[i].calls = mem_array((size_t)s->wiring->call_count, sizeof(int));
        if (!s->queues[i].calls) return propane_fail_memory(err, 0);
        if (s->two_queues) PROPANE_TRY(propane_event_create(s->queues[i].device, &s->queues[i].event, err));
    }
    return PROPANE_OK;
}

static propane_status make_arrays(train_step *s, propane_error *err) {
    size_t tensors = (size_t)total(s), block = (size_t)s->moment_floats * sizeof(float);
    s->kernels = mem_array((size_t)s->plan->kernel_count, sizeof *s->kernels);
    s->calls = mem_array((size_t)s->wiring->call_count, sizeof *s->calls);
    s->copies = mem_array(tensors, sizeof(propane_buffer *));
    s->copy_layout = mem_array(tensors, sizeof *s->copy_layout);
    s->others = mem_array(tensors, sizeof(propane_buffer *));
    s->other_layout = mem_array(tensors, sizeof *s->other_layout);
    s->is_master = mem_array(tensors, sizeof *s->is_master);
    s->gradients = mem_array(tensors, sizeof(propane_buffer *));
    s->handed = mem_array(tensors, sizeof *s->handed);
    s->scattered = mem_array(tensors, sizeof *s->scattered);
    s->grown = mem_array(TRAIN_EMBED_TASKS((size_t)s->weights->config.hidden_size), sizeof *s->grown);
    s->nats = mem_array((size_t)(s->plan->options.batch * s->plan->options.context), sizeof(double));
    size_t positions = (size_t)(s->plan->options.batch * s->plan->options.context);
    s->sums = (train_loss_sums){.top = mem_array(positions, sizeof(float)),
                                .goal = mem_array(positions, sizeof(float)),
                                .sum = mem_array(positions, sizeof(double)),
                                .vocab = (int)s->weights->config.vocab_size};
    s->moments[0] = mem_pages_alloc(block);
    s->moments[1] = mem_pages_alloc(block);
    if (s->kernels && s->calls && s->copies && s->copy_layout && s->others && s->other_layout && s->is_master &&
        s->gradients && s->handed && s->scattered && s->grown && s->nats && s->sums.top && s->sums.goal &&
        s->sums.sum && s->moments[0] && s->moments[1])
        return PROPANE_OK;
    return propane_fail_memory(err, 2 * block);
}

/* Which tensors are learnt, and where their moments lie. */
static propane_status choose_learnt(train_step *s, propane_error *err) {
    const model_weights *w = s->weights;
    s->trained = mem_array((size_t)total(s), sizeof *s->trained);
    s->moment_at = mem_array((size_t)total(s), sizeof *s->moment_at);
    s->learnt = mem_array((size_t)total(s), sizeof *s->learnt);
    if (!s->trained || !s->moment_at || !s->learnt) return propane_fail_memory(err, (size_t)total(s) * 16);
    for (int i = 0; i < total(s); i++) {
        s->trained[i] = s->options.trained ? s->options.trained[i] : w->adapter_count == 0 || i >= w->count;
        if (!s->trained[i]) continue;
        s->learnt[s->learnt_count++] = i;
        s->moment_at[i] = s->moment_floats;
        s->moment_floats += (w->tensors[i].count + 15) / 16 * 16; /* as in the registry */
    }
    s->options.trained = NULL; /* it was the caller's */
    if (s->learnt_count > 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "none of the model's %d tensors is to be trained", total(s));
}

/* Kernels are shared by all layers: does one of them train it? */
static bool trained_anywhere(const void *context, model_part part, const char *param) {
    const train_step *s = context;
    const model_weights *w = s->weights;
    for (int layer = 0; layer < w->config.num_hidden_layers; layer++) {
        const model_tensor *t = model_weights_param(w, part, layer, param);
        if (t && s->trained[t - w->tensors]) return true;
    }
    return false;
}

static propane_status make_all(train_step *s, propane_error *err) {
    PROPANE_TRY(choose_learnt(s, err));
    plan_options o = s->options.plan;
    o.lora = s->weights->lora.rank > 0 ? &s->weights->lora : NULL;
    o.keep_norms = on_cpu(s) && !o.lora; /* adapters are taken to save memory */
    o.trained = trained_anywhere;
    o.trained_context = s;
    PROPANE_TRY(plan_create(&s->weights->config, &o, &s->plan, err));
    PROPANE_TRY(wiring_create(s->plan, s->weights, s->trained, s->options.recompute, &s->wiring, err));
    PROPANE_TRY(open_devices(s, err));
    PROPANE_TRY(make_arrays(s, err));
    PROPANE_TRY(compile_shared(s, err));
    PROPANE_TRY(bake_all(s, err));
    PROPANE_TRY(lay_out(s, err));
    PROPANE_TRY(make_between(s, err));
    PROPANE_TRY(make_optimiser(s, err));
    PROPANE_TRY(train_step_publish(s, err));
    s->stale = false;
    return train_step_dropout(s, 0, err);
}

propane_status train_step_create(const train_step_options *options, model_weights *weights, train_step **out,
                                 propane_error *err) {
    *out = NULL;
    train_step *s = mem_alloc(sizeof *s);
    if (!s) return propane_fail_memory(err, sizeof *s);
    s->options = *options;
    s->weights = weights;
    propane_status status = make_all(s, err);
    if (status != PROPANE_OK)
        train_step_free(s);
    else
        *out = s;
    return status;
}

static void free_buffers(propane_buffer **list, int count) {
    for (int i = 0; list && i < count; i++) propane_buffer_free(list[i]);
    mem_free(list);
}

void train_step_free(train_step *s) {
    if (!s) return;
    size_t block = (size_t)s->moment_floats * sizeof(float);
    for (int c = 0; s->calls && c < s->wiring->call_count; c++) {
        for (int form = 0; form < 2; form++) propane_request_free(s->calls[c].request[form]);
        propane_program_free(s->calls[c].own);
        propane_buffer_free(s->calls[c].packed);
    }
    for (int k = 0; s->kernels && k < s->plan->kernel_count; k++) packing_free(s->kernels[k].packing);
    for (int k = 0; s->kernels && k < s->plan->kernel_count; k++)
        for (int form = 0; form < 2; form++) propane_program_free(s->kernels[k].program[form]);
    free_buffers(s->buffers, s->wiring ? s->wiring->buffer_count : 0);
    free_buffers(s->copies, total(s));
    free_buffers(s->others, total(s));
    mem_free(s->gradients);
    if (s->block) mem_pages_free(s->block, s->wiring->block_bytes);
    mem_free(s->trained);
    mem_free(s->moment_at);
    mem_free(s->learnt);
    for (int i = 0; i < 2; i++) {
        propane_event_free(s->queues[i].event);
        mem_free(s->queues[i].calls);
        if (s->moments[i]) mem_pages_free(s->moments[i], block);
    }
    if (s->two_queues) propane_device_close(s->queues[1].device);
    propane_device_close(s->queues[0].device);
    adamw_free(s->optimiser);
    adamw_free(s->own);
    mem_free(s->pieces);
    mem_free(s->handed);
    mem_free(s->scattered);
    mem_free(s->grown);
    mem_free(s->nats);
    mem_free(s->sums.top);
    mem_free(s->sums.goal);
    mem_free(s->sums.sum);
    mem_free(s->copy_layout);
    mem_free(s->other_layout);
    mem_free(s->between);
    mem_free(s->is_master);
    mem_free(s->calls);
    mem_free(s->kernels);
    wiring_free(s->wiring);
    plan_free(s->plan);
    mem_free(s);
}
