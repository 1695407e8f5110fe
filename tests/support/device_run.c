/* SPDX-License-Identifier: MIT
 * Owns running a program on a device, which names its inputs and outputs and may have them in another order.
 */
#include "support/device_run.h"

#include "core/base/memory.h"
#include "core/device/runner.h"
#include "support/test.h"

static mil_dtype dtype_of(const char *label, const propane_io *io) {
    static const mil_dtype types[] = {MIL_fp16, MIL_fp32,  MIL_int32, MIL_bool,
                                      MIL_int8, MIL_uint8, MIL_int16, MIL_uint16};
    EXPECT_MSG(io->dtype >= PROPANE_FP16 && io->dtype <= PROPANE_UINT16, "%s: '%s' has no type", label, io->name);
    return types[io->dtype];
}

static propane_status give_inputs(const mil_function *f, const mil_tensor *inputs, const char *label, runner *r,
                                  propane_error *err) {
    for (int i = 0; i < r->inputs; i++) {
        const propane_io *io = runner_io(r, i);
        int from = 0;
        while (strcmp(f->params[from]->name, io->name) != 0) from++;
        const int64_t count = mil_type_count(&inputs[from].type);
        void *data = mem_alloc((size_t)count * 8 + 8);
        mil_pack_f64(data, dtype_of(label, io), inputs[from].data, count);
        propane_status status = runner_write(r, i, io->dtype, data, err);
        mem_free(data);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

static propane_status take_outputs(const mil_function *f, const char *label, runner *r, double **got,
                                   propane_error *err) {
    for (int k = 0; k < r->count - r->inputs; k++) {
        const propane_io *io = runner_io(r, r->inputs + k);
        int of = 0;
        while (strcmp(f->results[of]->name, io->name) != 0) of++;
        const int64_t count = mil_type_count(&f->results[of]->type);
        void *data = mem_alloc((size_t)count * 8 + 8);
        propane_status status = runner_read(r, r->inputs + k, io->dtype, data, err);
        if (!status) mil_unpack_f64(got[of], dtype_of(label, io), data, count);
        mem_free(data);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

bool device_run(propane_device *d, mil_module *m, const mil_function *f, const mil_tensor *inputs, const char *label,
                double **got, propane_error *err) {
    propane_program *compiled = NULL;
    runner r = {0};
    if (propane_program_compile(d, m, NULL, &compiled, err)) {
        EXPECT_MSG(err->text[0], "%s: refused without a word", label);
        return false;
    }
    for (int k = 0; k < f->result_count; k++) {
        got[k] = mem_array((size_t)mil_type_count(&f->results[k]->type) + 1, sizeof *got[k]);
        EXPECT(got[k] != NULL);
    }
    propane_status status = runner_open(&r, d, compiled, NULL, NULL, err);
    if (!status) status = give_inputs(f, inputs, label, &r, err);
    if (!status) status = runner_run(&r, NULL, err);
    if (!status) status = take_outputs(f, label, &r, got, err);
    EXPECT_MSG(!status, "%s: %s", label, err->text);
    runner_close(&r);
    propane_program_free(compiled);
    return true;
}
