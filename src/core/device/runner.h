/* SPDX-License-Identifier: MIT
 * A program with a buffer for each of its inputs and outputs, and the request that binds them, for every caller that
 * runs a program on host data. Uses only public calls. A runner is used by one thread at a time.
 */
#ifndef CORE_DEVICE_RUNNER_H
#define CORE_DEVICE_RUNNER_H

#include "propane.h"

typedef struct runner {
    propane_program *program;  /* borrowed */
    int inputs, count;         /* the first `inputs` of `count` are inputs, the others outputs */
    propane_binding *bindings; /* [count]; the names are the program's */
    bool *lent;                /* [count]: the buffer belongs to someone else */
    propane_request *request;
} runner;

/* Chooses the buffer for input or output `index`. If *out stays NULL, the runner makes one. If *lent becomes true, the
 * buffer stays its owner's; otherwise the runner frees it. */
typedef propane_status runner_choose(void *context, const propane_io *io, int index, propane_buffer **out, bool *lent,
                                     propane_error *err);

/* If `choose` is NULL, the runner makes all buffers. The caller calls runner_close even after a failure. */
PROPANE_CHECK propane_status runner_open(runner *r, propane_device *device, propane_program *program,
                                         runner_choose *choose, void *context, propane_error *err);
/* Frees the request, and the buffers that are not lent. Also accepts a zeroed runner. */
void runner_close(runner *r);
/* Binds another buffer to input or output `index`. The buffer stays the caller's if `lent`, else it becomes the
 * runner's. If `buffer` is NULL, the runner makes one. The old buffer is freed if it was the runner's. After a failure
 * the runner is unchanged. */
PROPANE_CHECK propane_status runner_rebind(runner *r, propane_device *device, int index, propane_buffer *buffer,
                                           bool lent, propane_error *err);
/* Makes only a request. `choose` supplies all buffers, which stay their owners'. */
PROPANE_CHECK propane_status runner_bind(propane_program *program, runner_choose *choose, void *context,
                                         propane_request **out, propane_error *err);

/* Return the number of a program's inputs and outputs, and one of them by its index. Inputs are counted first. */
int runner_io_count(const propane_program *program);
const propane_io *runner_io_of(const propane_program *program, int index);
static inline const propane_io *runner_io(const runner *r, int index) { return runner_io_of(r->program, index); }

/* Write or read all elements of input or output `index`, as a dense array of `dtype`. */
PROPANE_CHECK propane_status runner_write(runner *r, int index, propane_dtype dtype, const void *values,
                                          propane_error *err);
PROPANE_CHECK propane_status runner_read(const runner *r, int index, propane_dtype dtype, void *values,
                                         propane_error *err);
/* Runs the program once and waits for its end. `done` may be NULL. */
PROPANE_CHECK propane_status runner_run(runner *r, propane_completion *done, propane_error *err);

#endif
