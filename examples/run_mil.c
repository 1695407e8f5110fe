/* SPDX-License-Identifier: MIT
 * Runs a MIL program: run_mil FILE.mil [DEVICE]. Each input is filled with 0, 1, 2, ...; each output is printed. It
 * continues where the example at the top of propane.h ends.
 *
 *     $ build/release/examples/run_mil examples/add.mil cpu
 *     total = [2, 3]: 0 2 4 6 8 10
 *     mean = [2, 3]: 0 1 2 3 4 5
 */
#include <stdio.h>
#include <stdlib.h>

#include "propane.h"

typedef struct run {
    propane_module *module;
    propane_device *device;
    propane_program *program;
    propane_request *request;
    propane_binding *bindings; /* inputs, then outputs */
    int inputs, outputs;
} run;

static const propane_io *io_at(const run *r, int i) {
    return i < r->inputs ? propane_program_input(r->program, i) : propane_program_output(r->program, i - r->inputs);
}

/* Fills a buffer from integers, which can be converted to any element type. */
static propane_status fill(const run *r, int i, propane_error *err) {
    const propane_io *io = io_at(r, i);
    int64_t count = propane_io_count(io);
    int32_t *values = malloc((size_t)count * sizeof *values);
    if (!values) return PROPANE_ERR_MEMORY;
    for (int64_t k = 0; k < count; k++) values[k] = (int32_t)(k % (io->dtype == PROPANE_BOOL ? 2 : 100));
    propane_status status = propane_buffer_write(r->bindings[i].buffer, io, PROPANE_INT32, values, count, err);
    free(values);
    return status;
}

/* Prints an output, read as fp32. */
static propane_status print(const run *r, int i, propane_error *err) {
    const propane_io *io = io_at(r, i);
    int64_t count = propane_io_count(io);
    float *values = malloc((size_t)count * sizeof *values);
    if (!values) return PROPANE_ERR_MEMORY;
    propane_status status = propane_buffer_read(r->bindings[i].buffer, io, PROPANE_FP32, values, count, err);
    if (status == PROPANE_OK) {
        printf("%s = [", io->name);
        for (int d = 0; d < io->rank; d++) printf("%s%lld", d ? ", " : "", (long long)io->dim[d]);
        printf("]:");
        for (int64_t k = 0; k < count; k++) printf(" %g", (double)values[k]);
        printf("\n");
    }
    free(values);
    return status;
}

static propane_status run_file(run *r, const char *path, const char *uri, propane_error *err) {
    propane_status status = propane_module_read(path, &r->module, err);
    if (status == PROPANE_OK) status = propane_device_open(uri, &r->device, err);
    if (status == PROPANE_OK) status = propane_program_compile(r->device, r->module, NULL, &r->program, err);
    if (status != PROPANE_OK) return status;

    r->inputs = propane_program_input_count(r->program);
    r->outputs = propane_program_output_count(r->program);
    int count = r->inputs + r->outputs;
    r->bindings = calloc((size_t)count, sizeof *r->bindings);
    if (!r->bindings) return PROPANE_ERR_MEMORY;
    for (int i = 0; i < count && status == PROPANE_OK; i++) {
        r->bindings[i].name = io_at(r, i)->name;
        status = propane_buffer_create(r->device, io_at(r, i)->bytes, &r->bindings[i].buffer, err);
        if (status == PROPANE_OK && i < r->inputs) status = fill(r, i, err);
    }
    if (status == PROPANE_OK) status = propane_request_create(r->program, r->bindings, count, &r->request, err);
    if (status == PROPANE_OK) status = propane_submit(&r->request, 1, err);
    /* The host may do other work here, because the device runs by itself. */
    if (status == PROPANE_OK) status = propane_wait(r->request, NULL, err);
    for (int i = r->inputs; i < count && status == PROPANE_OK; i++) status = print(r, i, err);
    return status;
}

/* Frees children before their device. Every _free accepts NULL, so this is correct after any failure. */
static void run_end(run *r) {
    propane_request_free(r->request);
    for (int i = 0; r->bindings && i < r->inputs + r->outputs; i++) propane_buffer_free(r->bindings[i].buffer);
    free(r->bindings);
    propane_program_free(r->program);
    propane_device_close(r->device);
    propane_module_free(r->module);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: run_mil FILE.mil [DEVICE]\n");
        return 2;
    }
    run r = {0};
    propane_error err = {0};
    propane_status status = run_file(&r, argv[1], argc > 2 ? argv[2] : "cpu", &err);
    if (status != PROPANE_OK) fprintf(stderr, "run_mil: %s\n", err.text[0] ? err.text : propane_status_name(status));
    run_end(&r);
    return status == PROPANE_OK ? 0 : 1;
}
