/* SPDX-License-Identifier: MIT
 * A program with a buffer for each of its inputs and outputs, and the request that binds them: what every caller needs that
 * runs a program on data of the host. Made of public calls alone; one thread at a time.
 */
#ifndef CORE_DEVICE_RUNNER_H
#define CORE_DEVICE_RUNNER_H

#include "propane.h"

typedef struct runner {
    propane_program *program;  /* borrowed */
    int inputs, count;         /* the first `inputs` of `count` are inputs, the others outputs */
    propane_binding *bindings; /* [count]; the names are the program's */
    bool *lent;                /* [count]: the buffer stays somebody else's */
    propane_request *request;
} runner;

/* Chooses the buffer for input or output `index`. *out stays NULL: one is made. *lent becomes true: it stays its
 * owner's, else the runner frees it. */
typedef propane_status runner_choose(void *context, const propane_io *io, int index, propane_buffer **out, bool *lent,
                                     propane_error *err);

/* `choose` NULL: all buffers are made. Whatever the status: runner_close. */
PROPANE_CHECK propane_status runner_open(runner *r, propane_device *device, propane_program *program,
                                         runner_choose *choose, void *context, propane_error *err);
/* Takes a runner of zeros, too. */
void runner_close(runner *r);
/* Another buffer for input or output `index`: the caller's if `lent`, else the runner's from now on. NULL: a new one.
 * The old one is freed where it was the runner's. After a failure the runner is as before. */
PROPANE_CHECK propane_status runner_rebind(runner *r, propane_device *device, int index, propane_buffer *buffer,
                                           bool lent, propane_error *err);
/* A request alone, of buffers that are all lent. */
PROPANE_CHECK propane_status runner_bind(propane_program *program, runner_choose *choose, void *context,
                                         propane_request **out, propane_error *err);

/* Of a program: inputs, then outputs. */
int runner_io_count(const propane_program *program);
const propane_io *runner_io_of(const propane_program *program, int index);
static inline const propane_io *runner_io(const runner *r, int index) { return runner_io_of(r->program, index); }

/* All elements, dense, as `dtype`. */
PROPANE_CHECK propane_status runner_write(runner *r, int index, propane_dtype dtype, const void *values,
                                          propane_error *err);
PROPANE_CHECK propane_status runner_read(const runner *r, int index, propane_dtype dtype, void *values,
                                         propane_error *err);
/* Once, to its end; `done` may be NULL. */
PROPANE_CHECK propane_status runner_run(runner *r, propane_completion *done, propane_error *err);

#endif
