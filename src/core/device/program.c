/* SPDX-License-Identifier: MIT
 * Owns programs: chooses the function, checks it, has the driver compile it, and looks up its inputs and outputs by
 * name (the verifier ensures that the names differ). Rejects inputs and outputs of types that no buffer holds.
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/sized.h"
#include "core/base/text.h"
#include "core/device/device.h"
#include "core/mil/specialize.h"

/* The types that a buffer can hold. */
static const struct {
    mil_dtype from;
    propane_dtype to;
    bool input_only;
} io_dtypes[] = {
    {MIL_fp16, PROPANE_FP16, false},   {MIL_fp32, PROPANE_FP32, false},     {MIL_int32, PROPANE_INT32, false},
    {MIL_bool, PROPANE_BOOL, false},   {MIL_int8, PROPANE_INT8, false},     {MIL_uint8, PROPANE_UINT8, false},
    {MIL_int16, PROPANE_INT16, false}, {MIL_uint16, PROPANE_UINT16, false}, {MIL_bf16, PROPANE_BF16, true},
};

static propane_status program_io_dtype(const mil_value *v, bool input, propane_dtype *out, propane_error *err) {
    const char *role = input ? "input" : "output";
    if (v->type.container == MIL_STATE)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s '%s' is a state: open a session (propane_session_open), or turn states into inputs and "
                            "outputs (propane_module_open_states)",
                            role, v->name);
    for (size_t k = 0; v->type.container == MIL_TENSOR && k < sizeof io_dtypes / sizeof io_dtypes[0]; k++) {
        if (io_dtypes[k].from != v->type.dtype || (io_dtypes[k].input_only && !input)) continue;
        *out = io_dtypes[k].to;
        return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s '%s' has type %s; inputs and outputs must be fp16, fp32, bool, int8, uint8, int16, uint16 "
                        "or int32: cast it",
                        role, v->name, mil_dtype_get(v->type.dtype)->name);
}

propane_status program_check_types(const mil_function *f, propane_error *err) {
    propane_dtype dtype;
    for (int i = 0; i < f->param_count; i++) PROPANE_TRY(program_io_dtype(f->params[i], true, &dtype, err));
    for (int i = 0; i < f->result_count; i++) PROPANE_TRY(program_io_dtype(f->results[i], false, &dtype, err));
    return PROPANE_OK;
}

static propane_status program_choose(const propane_module *module, const propane_compile_options *options,
                                     const mil_function **out, propane_error *err) {
    if (options->precision != PROPANE_PRECISION_AS_TYPED && options->precision != PROPANE_PRECISION_BF16)
        return propane_fail(err, PROPANE_ERR_INVALID, "compile: precision is %d; it must be 0 or 1",
                            (int)options->precision);
    if (options->threads < 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "compile: threads is %d; it must not be negative (0: the device's choice)",
                            options->threads);
    mil_function *f = mil_module_function(module, options->function, err);
    if (!f) return err ? err->status : PROPANE_ERR_NOT_FOUND;
    PROPANE_TRY(mil_settle_refuse(f, err));
    PROPANE_TRY(mil_verify(module, err));
    PROPANE_TRY(program_check_types(f, err));
    *out = f;
    return PROPANE_OK;
}

static const propane_compile_options standard_options = {.size = sizeof standard_options};

propane_status propane_program_supported(propane_device *device, const propane_module *module,
                                         const propane_compile_options *options, propane_error *why) {
    NEED(why, device, module);
    const mil_function *f = NULL;
    propane_compile_options own = standard_options;
    propane_error local = {0};
    if (!why) why = &local;
    PROPANE_TRY(sized_take(&own, sizeof own, options, "propane_compile_options", why));
    PROPANE_TRY(program_choose(module, &own, &f, why));
    return device->driver->supports(device->impl, f, &own, why);
}

/* Checks that memory suffices for the inputs and outputs, which all exist at once. If memory does not suffice, there is
 * no point in compiling. */
static propane_status program_check_memory(const mil_function *f, propane_error *err) {
    uint64_t need = 0;
    char bytes[32], spare[32];
    for (int i = 0; i < f->param_count; i++) need += (uint64_t)mil_type_bytes(&f->params[i]->type);
    for (int i = 0; i < f->result_count; i++) need += (uint64_t)mil_type_bytes(&f->results[i]->type);
    if (need < (uint64_t)1 << 30 || need <= mem_spare()) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_LIMIT,
        "function '%.100s': its inputs and outputs alone need %s of memory, but this machine has only %s available",
        f->name, text_bytes(bytes, (double)need), text_bytes(spare, (double)mem_spare()));
}

static propane_status program_create(propane_device *device, propane_program **out, propane_error *err) {
    propane_program *p = mem_alloc(sizeof *p);
    if (p) p->p.arena = arena_create();
    if (!p || !p->p.arena) {
        mem_free(p);
        return propane_fail_memory(err, sizeof *p);
    }
    p->device = device;
    atomic_init(&p->refs, 1);
    *out = p;
    return PROPANE_OK;
}

/* Enters the names of the inputs and outputs that the driver reported. */
static propane_status program_note_names(propane_program *p, propane_error *err) {
    const int inputs = p->p.input_count, count = inputs + p->p.output_count;
    for (int i = 0; i < count; i++) {
        const char *name = i < inputs ? p->p.inputs[i].name : p->p.outputs[i - inputs].name;
        if (!piece_map_enter(&p->places, name, strlen(name), i))
            return propane_fail_memory(err, (size_t)count * sizeof name);
    }
    return PROPANE_OK;
}

/* Frees a program that the driver has not compiled. */
static void program_discard(propane_program *p) {
    if (!p) return;
    arena_free(p->p.arena);
    mem_free(p);
}

propane_status propane_program_compile(propane_device *device, const propane_module *module,
                                       const propane_compile_options *options, propane_program **out,
                                       propane_error *err) {
    if (out) *out = NULL;
    NEED(err, device, module, out);
    const mil_function *f = NULL;
    propane_program *p = NULL;
    propane_compile_options own = standard_options;
    propane_error local = {0};
    if (!err) err = &local;
    PROPANE_TRY(sized_take(&own, sizeof own, options, "propane_compile_options", err));
    options = &own;
    PROPANE_TRY(program_choose(module, options, &f, err));
    PROPANE_TRY(program_check_memory(f, err));
    if ((options->donor && (!device->driver->reloads || options->donor->device != device)) ||
        (options->reloadable && !device->driver->reloads && !device->driver->patch))
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED, "compile: device '%s' cannot use a compiled program %s", device->uri,
            device->driver->reloads ? "of another device" : "again with other weights: compile it again");
    PROPANE_TRY(program_create(device, &p, err));
    propane_status status = device->driver->compile(device->impl, f, options, &p->p, err);
    if (status != PROPANE_OK) {
        program_discard(p);
        return status;
    }
    device_retain(device);
    status = program_note_names(p, err);
    if (status)
        program_release(p);
    else
        *out = p;
    return status;
}

/* ---- several at once --------------------------------------------------------------------------------------------- */

typedef struct together {
    const mil_function **functions;
    driver_program **programs;
} together;

static propane_status program_compile_together(propane_device *d, propane_compile_item *items, int count,
                                               const propane_compile_options *options, together *t,
                                               propane_compile_report *report, propane_error *err) {
    for (report->failed = 0; report->failed < count; report->failed++) {
        propane_compile_item *item = &items[report->failed];
        propane_compile_options own = *options;
        own.function = item->function;
        PROPANE_TRY(program_choose(item->module, &own, &t->functions[report->failed], err));
        PROPANE_TRY(program_create(d, &item->program, err));
        t->programs[report->failed] = &item->program->p;
    }
    report->failed = -1;
    PROPANE_TRY(d->driver->compile_all(d->impl, t->functions, count, options, t->programs, report, err));
    for (int k = 0; k < count; k++) device_retain(d);
    report->failed = -1;
    propane_status status = PROPANE_OK;
    for (int k = 0; k < count && !status; k++) status = program_note_names(items[k].program, err);
    for (int k = 0; k < count && status; k++) {
        program_release(items[k].program);
        items[k].program = NULL;
    }
    return status;
}

static propane_status program_compile_apart(propane_device *d, propane_compile_item *items, int count,
                                            const propane_compile_options *options, propane_compile_report *report,
                                            propane_error *err) {
    for (int k = 0; k < count; k++) {
        propane_compile_options own = *options;
        own.function = items[k].function;
        report->failed = k;
        report->compiles++;
        propane_status status = propane_program_compile(d, items[k].module, &own, &items[k].program, err);
        if (status == PROPANE_OK) continue;
        for (int i = 0; i < k; i++) program_release(items[i].program);
        return status;
    }
    report->failed = -1;
    return PROPANE_OK;
}

static propane_status program_compile_items(propane_device *device, propane_compile_item *items, int count,
                                            const propane_compile_options *options, propane_compile_report *report,
                                            propane_error *err) {
    propane_compile_options plain = *options;
    plain.function = NULL;
    plain.donor = NULL;
    plain.reloadable = false;
    for (int k = 0; k < count; k++) items[k].program = NULL;
    for (report->failed = 0; report->failed < count; report->failed++)
        if (!items[report->failed].module)
            return propane_fail(err, PROPANE_ERR_INVALID, "propane_program_compile_all: items[%d] has no module",
                                report->failed);
    report->failed = -1;
    if (count == 0) return PROPANE_OK;
    propane_status status;
    if (device->driver->compile_all) {
        together t = {mem_array((size_t)count, sizeof *t.functions), mem_array((size_t)count, sizeof *t.programs)};
        status = t.functions && t.programs ? program_compile_together(device, items, count, &plain, &t, report, err)
                                           : propane_fail_memory(err, (size_t)count * sizeof(void *));
        if (status != PROPANE_OK)
            for (int k = 0; k < count; k++) program_discard(items[k].program);
        mem_free(t.functions);
        mem_free(t.programs);
    } else {
        status = program_compile_apart(device, items, count, &plain, report, err);
    }
    for (int k = 0; k < count && status != PROPANE_OK; k++) items[k].program = NULL;
    return status;
}

propane_status propane_program_compile_all(propane_device *device, propane_compile_item *items, int count,
                                           const propane_compile_options *options, propane_compile_report *report,
                                           propane_error *err) {
    NEED(err, device);
    NEED_LIST(err, items, count);
    propane_compile_options own = standard_options;
    propane_compile_report mine = {.size = sizeof mine, .failed = -1, .how = "a program each"};
    propane_error ours = {0};
    if (!err) err = &ours;
    PROPANE_TRY(sized_take(&own, sizeof own, options, "propane_compile_options", err));
    PROPANE_TRY(sized_check(report, "propane_compile_report", err));
    const propane_status status = program_compile_items(device, items, count, &own, &mine, err);
    (void)sized_give(report, &mine, sizeof mine);
    return status;
}

const driver_program *driver_program_of(const propane_program *p, const propane_driver *driver) {
    return p->device->driver == driver ? &p->p : NULL;
}

/* ---- constants overwritten --------------------------------------------------------------------------------------- */

propane_status propane_program_patch(propane_program *program, const char *constant, propane_dtype dtype,
                                     const void *values, int64_t count, propane_error *err) {
    NEED(err, program, constant);
    NEED_LIST(err, values, count);
    propane_device *d = program->device;
    if (!d->driver->patch)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "device '%s' cannot overwrite constants of a program: compile it again", d->uri);
    if (dtype != PROPANE_FP16 && dtype != PROPANE_FP32)
        return propane_fail(err, PROPANE_ERR_INVALID, "patch '%s': values must be fp16 or fp32", constant);
    if (count <= 0) return propane_fail(err, PROPANE_ERR_INVALID, "patch '%s': no values", constant);
    if (dtype == PROPANE_FP16) return d->driver->patch(d->impl, &program->p, constant, values, count, err);
    uint16_t *halves = mem_array((size_t)count, sizeof *halves);
    if (!halves) return propane_fail_memory(err, (size_t)count * sizeof *halves);
    fp16_from_f32_array(halves, values, (size_t)count);
    propane_status status = d->driver->patch(d->impl, &program->p, constant, halves, count, err);
    mem_free(halves);
    return status;
}

/* ---- profile ----------------------------------------------------------------------------------------------------- */

propane_status propane_program_profile(propane_program *program, bool on, propane_error *err) {
    NEED(err, program);
    const propane_driver *driver = program->device->driver;
    if (!driver->profile)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "device '%s' keeps no profile", program->device->uri);
    driver->profile(&program->p, on);
    return PROPANE_OK;
}

int propane_program_profile_count(const propane_program *program) {
    if (!program) return 0;
    const propane_driver *driver = program->device->driver;
    return driver->profile_count ? driver->profile_count(&program->p) : 0;
}

bool propane_program_profile_get(const propane_program *program, int index, propane_profile_row *out) {
    if (!program || !out) return false;
    propane_profile_row row = {.size = sizeof row};
    if (index < 0 || index >= propane_program_profile_count(program)) return false;
    program->device->driver->profile_row(&program->p, index, &row);
    return sized_give(out, &row, sizeof row);
}

const char *propane_program_fusion(const propane_program *program, int index, int *count) {
    if (!program || !count) return NULL;
    const propane_driver *driver = program->device->driver;
    *count = 0;
    return driver->profile_fusion && index >= 0 ? driver->profile_fusion(&program->p, index, count) : NULL;
}

void propane_program_free(propane_program *program) { program_release(program); }

int propane_program_input_count(const propane_program *program) { return program ? program->p.input_count : 0; }

int propane_program_output_count(const propane_program *program) { return program ? program->p.output_count : 0; }

const propane_io *propane_program_input(const propane_program *program, int index) {
    if (!program) return NULL;
    return index >= 0 && index < program->p.input_count ? &program->p.inputs[index] : NULL;
}

const propane_io *propane_program_output(const propane_program *program, int index) {
    if (!program) return NULL;
    return index >= 0 && index < program->p.output_count ? &program->p.outputs[index] : NULL;
}

int64_t propane_io_count(const propane_io *io) {
    if (!io) return 0;
    int64_t count = 1;
    for (int d = 0; d < io->rank; d++) count *= io->dim[d];
    return count;
}

const propane_io *propane_program_find(const propane_program *program, const char *name) {
    if (!program || !name) return NULL;
    const int at = program_place(program, name), outputs = program->p.input_count;
    return at < 0 ? NULL : at < outputs ? &program->p.inputs[at] : &program->p.outputs[at - outputs];
}

int program_place(const propane_program *p, const char *name) { return piece_map_index(&p->places, name); }

/* ---- inputs and outputs of drivers with dense tensors ------------------------------------------------------------ */

static propane_status program_dense_io(arena *a, const mil_value *v, bool input, propane_io *out, propane_error *err) {
    const mil_type *type = &v->type;
    PROPANE_TRY(program_io_dtype(v, input, &out->dtype, err));
    out->name = arena_string(a, v->name);
    if (!out->name) return propane_fail_memory(err, strlen(v->name) + 1);
    out->rank = type->rank;
    int64_t stride = mil_dtype_get(type->dtype)->bits / 8;
    for (int d = type->rank - 1; d >= 0; d--) {
        out->dim[d] = type->dim[d];
        out->stride[d] = stride;
        stride *= type->dim[d];
    }
    out->bytes = (size_t)stride;
    return PROPANE_OK;
}

propane_status driver_dense_io(driver_program *p, const mil_function *f, propane_error *err) {
    p->inputs = ARENA_ARRAY(p->arena, f->param_count, propane_io);
    p->outputs = ARENA_ARRAY(p->arena, f->result_count, propane_io);
    if (!p->inputs || !p->outputs)
        return propane_fail_memory(err, sizeof(propane_io) * (size_t)(f->param_count + f->result_count));
    p->input_count = f->param_count;
    p->output_count = f->result_count;
    for (int i = 0; i < f->param_count; i++)
        PROPANE_TRY(program_dense_io(p->arena, f->params[i], true, &p->inputs[i], err));
    for (int i = 0; i < f->result_count; i++)
        PROPANE_TRY(program_dense_io(p->arena, f->results[i], false, &p->outputs[i], err));
    return PROPANE_OK;
}
