/* SPDX-License-Identifier: MIT
 * Runs a program on a simulated M4 without waiting in between: events FILE.mil [DEVICE]. Two requests are queued at
 * once. The first waits for the host's event, the second for the first one's event. The host opens the gate and waits
 * only at the end. On sim:m4 times and energy come from a model; the results are computed with the chip's rounding
 * rules.
 */
#include <stdio.h>
#include <stdlib.h>

#include "propane.h"

enum { MAX_IO = 16 };

typedef struct work {
    propane_module *module;
    propane_device *device;
    propane_program *program;
    propane_event *gate, *progress;
    propane_binding bindings[MAX_IO];
    propane_request *requests[2];
    int count;
} work;

static propane_status prepare(work *w, const char *path, const char *uri, propane_error *err) {
    propane_status status = propane_module_read(path, &w->module, err);
    if (!status) status = propane_device_open(uri, &w->device, err);
    if (!status) status = propane_program_compile(w->device, w->module, NULL, &w->program, err);
    if (!status) status = propane_event_create(w->device, &w->gate, err);
    if (!status) status = propane_event_create(w->device, &w->progress, err);
    const int inputs = status ? 0 : propane_program_input_count(w->program);
    const int count = status ? 0 : inputs + propane_program_output_count(w->program);
    for (int i = 0; i < count && i < MAX_IO && !status; i++, w->count++) { /* buffers hold zeros */
        const propane_io *io =
            i < inputs ? propane_program_input(w->program, i) : propane_program_output(w->program, i - inputs);
        w->bindings[i].name = io->name;
        status = propane_buffer_create(w->device, io->bytes, &w->bindings[i].buffer, err);
    }
    for (int i = 0; i < 2 && !status; i++)
        status = propane_request_create(w->program, w->bindings, w->count, &w->requests[i], err);
    return status;
}

static propane_status run(work *w, propane_error *err) {
    const propane_event_point open = {w->gate, 1}, first = {w->progress, 1}, second = {w->progress, 2};
    propane_status status = propane_request_events(w->requests[0], &open, 1, &first, 1, err);
    if (!status) status = propane_request_events(w->requests[1], &first, 1, &second, 1, err);
    if (!status) status = propane_submit(w->requests, 2, err);
    if (status) return status;
    printf("queued; the device is at %llu\n", (unsigned long long)propane_event_value(w->progress));
    propane_event_signal(w->gate, 1);
    status = propane_event_wait(w->progress, 2, 10000, err);
    if (!status) printf("the device is at %llu\n", (unsigned long long)propane_event_value(w->progress));
    for (int i = 0; i < 2 && !status; i++) {
        propane_completion done = {.size = sizeof done};
        status = propane_wait(w->requests[i], &done, err);
        printf("run %d: %.3f ms%s\n", i + 1, (double)done.device_ns / 1e6, done.simulated ? " simulated" : "");
    }
    return status;
}

static void end(work *w) {
    for (int i = 0; i < 2; i++) propane_request_free(w->requests[i]);
    for (int i = 0; i < w->count; i++) propane_buffer_free(w->bindings[i].buffer);
    propane_event_free(w->gate);
    propane_event_free(w->progress);
    propane_program_free(w->program);
    propane_device_close(w->device);
    propane_module_free(w->module);
}

int main(int argc, char **argv) {
    work w = {0};
    propane_error err = {0};
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: events FILE.mil [DEVICE]\n");
        return 2;
    }
    propane_status status = prepare(&w, argv[1], argc > 2 ? argv[2] : "sim:m4", &err);
    if (!status) status = run(&w, &err);
    if (status) fprintf(stderr, "events: %s\n", err.text);
    end(&w);
    return status != PROPANE_OK;
}
