/* SPDX-License-Identifier: MIT
 * An interpreter of H13 tasks: both DMA engines, the on-chip buffer, the planar and the neural engine, in software. It
 * executes registers, not operations. Anything it does not understand is refused with the register, the field and the
 * value.
 *
 * It is unknown how an M1 rounds and sums; programs with exact sums have the same result in any case. The default
 * is wide sums (double), with each result rounded to fp16 once, to nearest, ties to even. The alternative is the
 * multiply-add array of M4 and later (ane/h13/accumulate.h) for sums of the neural engine, and rounding half away from
 * zero.
 *
 * The on-chip buffer keeps what tasks leave in it. Reading a place that no task wrote is an error, because such a
 * program would depend on chance. Alias and dependency bits have no effect here.
 */
#ifndef ANE_H13_SIMULATE_H
#define ANE_H13_SIMULATE_H

#include "ane/h13/object.h"

typedef struct engine_memory {
    uint8_t *data; /* NULL without a buffer */
    uint64_t bytes;
} engine_memory;

/* A machine, which keeps its on-chip buffer between programs. The hardware does so too, but programs may not rely on
 * it. */
typedef struct engine_machine engine_machine;
typedef enum engine_arithmetic { ENGINE_WIDE, ENGINE_ACCUMULATOR } engine_arithmetic;
/* Returns the known arithmetic of a generation, or wide sums if it is unknown. */
engine_arithmetic engine_arithmetic_of(uint32_t subtype);
engine_machine *engine_machine_create(engine_arithmetic how); /* NULL if memory runs out; about 4 MiB */
void engine_machine_free(engine_machine *m);

/* Runs all tasks in order. buffers[bar] are the base registers' buffers: 1 constants, 2 and 3 scratch, 4 and up
 * surfaces. Only what a task stores is written. A machine may be used by one thread at a time. */
PROPANE_CHECK propane_status engine_simulate(engine_machine *m, const engine_task *tasks, int count,
                                             const engine_memory buffers[ENGINE_BARS], propane_error *err);

/* Checks whether an object can be run: its tasks are understood, and its surfaces fit into their buffers and into
 * memory. Must be called before buffers are allocated by the sizes of a file. */
PROPANE_CHECK propane_status engine_object_runs(const engine_object *o, propane_error *err);
/* Runs an object and allocates its constants and scratch; the caller passes `surfaces` by base register. */
PROPANE_CHECK propane_status engine_simulate_object(engine_machine *m, const engine_object *o,
                                                    const engine_memory surfaces[ENGINE_BARS], propane_error *err);

/* Copy dense elements [n, c, h, w] to a surface's bytes and back. */
PROPANE_CHECK propane_status engine_surface_fill(const engine_surface *s, const uint16_t *dense, engine_memory to,
                                                 propane_error *err);
PROPANE_CHECK propane_status engine_surface_take(const engine_surface *s, engine_memory from, uint16_t *dense,
                                                 propane_error *err);
/* Returns the bytes of a surface's buffer, for all batches. */
uint64_t engine_surface_bytes(const engine_surface *s);

#endif
