/* SPDX-License-Identifier: MIT
 * Owns the small programs on which the driver tries features that may not work. All numbers are integers that fp16
 * represents exactly, so results are compared without a tolerance. The first two functions differ only in their
 * constants, because one engine is reported to use the first procedure's weights for every procedure.
 */
#include <string.h>

#include "ane/driver/ane.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"

enum { WIDTH = 64, CHANNELS = 8 };

static int64_t selftest_program_channels_of(int k) { return k == 2 ? CHANNELS / 2 : CHANNELS; }
static int64_t selftest_program_count_of(int k) { return selftest_program_channels_of(k) * WIDTH; }

static float selftest_program_constant(int k, int64_t i) { return k == 0 ? (float)(i % 7) : -2 * (float)(i % 5); }
static float selftest_program_input(int k, int which, int round, int64_t i) {
    return (float)((i * (which + 2) + k + 3 * round) % 11);
}

static float selftest_program_wanted(int k, int round, int64_t i) {
    return k == 2 ? selftest_program_input(k, 0, round, i) - selftest_program_input(k, 1, round, i)
                  : selftest_program_input(k, 0, round, i) + selftest_program_constant(k, i);
}

/* ---- the program ---------------------------------------------------------------------------------------------------------- */

static propane_status selftest_program_build_function(mil_module *m, int k, propane_error *err) {
    static const char *const names[] = {"first", "second", "third"};
    uint16_t data[CHANNELS * WIDTH];
    mil_builder b = {0};
    mil_type type = mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, selftest_program_channels_of(k), 1, WIDTH});
    for (int64_t i = 0; i < selftest_program_count_of(k); i++) data[i] = fp16_from_f32(selftest_program_constant(k, i));
    mil_build_begin(&b, m, names[k], MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", type);
    mil_value *other = k == 2 ? mil_build_param(&b, "a", type) : mil_build_const(&b, "c", &type, data);
    mil_build_result(&b, mil_build_binary(&b, k == 2 ? MIL_OP_sub : MIL_OP_add, x, other));
    return mil_build_end(&b, err);
}

static propane_status selftest_program_compile(ane_rig *r, propane_error *err) {
    static const propane_compile_options options;
    const mil_function *list[ANE_RIG_FUNCTIONS];
    driver_program *out[ANE_RIG_FUNCTIONS];
    const mil_function *f = r->module->functions;
    for (int k = 0; k < r->count; k++, f = f->next) {
        list[k] = f;
        out[k] = &r->programs[k];
        r->programs[k].arena = arena_create();
        if (!r->programs[k].arena) return propane_fail_memory(err, 0);
    }
    PROPANE_TRY(ane_compile_together(r->device, list, r->count, &options, out, err));
    for (int k = 0; k < r->count; k++) r->compiled[k] = true;
    return PROPANE_OK;
}

static propane_status selftest_program_bind(ane_rig *r, int k, propane_error *err) {
    driver_program *p = &r->programs[k];
    for (int i = 0; i <= p->input_count; i++) {
        driver_buffer *b = &r->buffers[k][i];
        b->bytes = i < p->input_count ? p->inputs[i].bytes : p->outputs[0].bytes;
        PROPANE_TRY(ane_buffer_create(r->device, b->bytes, b, err));
        r->bound[k][i] = b;
    }
    r->executions[k] = (driver_execution){.program = p, .inputs = r->bound[k], .outputs = r->bound[k] + p->input_count};
    return ane_request_prepare(r->device, &r->executions[k], err);
}

propane_status ane_rig_open(const ane_api *a, const ane_options *o, int count, ane_rig *out, propane_error *err) {
    *out = (ane_rig){.count = count, .module = mil_module_create("trial")};
    propane_status status = out->module ? PROPANE_OK : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) status = ane_device_create(a, o, &out->device, err);
    /* A single function is of the third kind, which has no constants, so that its program stays in the system's
     * cache. */
    for (int k = 0; k < count && status == PROPANE_OK; k++)
        status = selftest_program_build_function(out->module, count == 1 ? 2 : k, err);
    if (status == PROPANE_OK) status = selftest_program_compile(out, err);
    for (int k = 0; k < count && status == PROPANE_OK; k++) status = selftest_program_bind(out, k, err);
    if (status != PROPANE_OK) ane_rig_close(out);
    return status;
}

void ane_rig_close(ane_rig *r) {
    for (int k = 0; k < r->count; k++) {
        if (r->executions[k].impl) ane_request_free(r->device, &r->executions[k]);
        for (int i = 0; i <= ANE_RIG_INPUTS; i++)
            if (r->buffers[k][i].impl) ane_buffer_free(r->device, &r->buffers[k][i]);
        if (r->compiled[k]) ane_program_free(r->device, &r->programs[k]);
        arena_free(r->programs[k].arena);
    }
    ane_device_free(r->device);
    mil_module_free(r->module);
    *r = (ane_rig){0};
}

/* ---- running ---------------------------------------------------------------------------------------------------------------- */

static propane_status selftest_program_write_input(ane_rig *r, int k, int kind, int which, int round,
                                                   propane_error *err) {
    const propane_io *io = &r->programs[k].inputs[which];
    void *memory = NULL;
    PROPANE_TRY(ane_buffer_lock(r->device, &r->buffers[k][which], true, &memory, err));
    for (int64_t i = 0; i < selftest_program_count_of(kind); i++) {
        uint16_t half = fp16_from_f32(selftest_program_input(kind, which, round, i));
        memcpy((char *)memory + i / WIDTH * io->stride[1] + i % WIDTH * io->stride[3], &half, sizeof half);
    }
    ane_buffer_unlock(r->device, &r->buffers[k][which]);
    return PROPANE_OK;
}

/* Fills the output with NaN, so that elements that the engine does not write are noticed. */
static propane_status selftest_program_spoil_output(ane_rig *r, int k, propane_error *err) {
    driver_buffer *b = r->bound[k][r->programs[k].input_count];
    void *memory = NULL;
    PROPANE_TRY(ane_buffer_lock(r->device, b, true, &memory, err));
    memset(memory, 0xff, b->bytes);
    ane_buffer_unlock(r->device, b);
    return PROPANE_OK;
}

static propane_status selftest_program_compare(ane_rig *r, int k, int kind, int round, propane_error *err) {
    const propane_io *io = &r->programs[k].outputs[0];
    driver_buffer *b = r->bound[k][r->programs[k].input_count];
    propane_status status = PROPANE_OK;
    void *memory = NULL;
    PROPANE_TRY(ane_buffer_lock(r->device, b, false, &memory, err));
    for (int64_t i = 0; i < selftest_program_count_of(kind) && status == PROPANE_OK; i++) {
        uint16_t half;
        memcpy(&half, (char *)memory + i / WIDTH * io->stride[1] + i % WIDTH * io->stride[3], sizeof half);
        float value = fp16_to_f32(half);
        if (value - value != 0)
            status = propane_fail(err, PROPANE_ERR_DEVICE, "element %d of the result of function %d is not written",
                                  (int)i, k);
        else if (value != selftest_program_wanted(kind, round, i))
            status = propane_fail(err, PROPANE_ERR_DEVICE, "element %d of the result of function %d is %g, not %g",
                                  (int)i, k, (double)value, (double)selftest_program_wanted(kind, round, i));
    }
    ane_buffer_unlock(r->device, b);
    return status;
}

propane_status ane_rig_run(ane_rig *r, int k, int round, propane_completion *out, propane_error *err) {
    int kind = r->count == 1 ? 2 : k;
    *out = (propane_completion){.device_ns = -1, .engine_ns = -1};
    for (int i = 0; i < r->programs[k].input_count; i++)
        PROPANE_TRY(selftest_program_write_input(r, k, kind, i, round, err));
    PROPANE_TRY(selftest_program_spoil_output(r, k, err));
    PROPANE_TRY(ane_execute(r->device, &r->executions[k], out, err));
    return selftest_program_compare(r, k, kind, round, err);
}
