/* SPDX-License-Identifier: MIT
 * Interprets H13 tasks in software: both DMA engines, the on-chip buffer, the planar engine and the neural engine. The
 * interpreter executes registers, not operations. It refuses anything that it does not understand, and names the
 * register, the field and the value.
 *
 * It is unknown how an M1 rounds and sums; programs with exact sums have the same result in any case. ENGINE_WIDE sums
 * in double and rounds results to fp16, to nearest with ties to even. ENGINE_ACCUMULATOR uses the multiply-add array of
 * M4 and later (ane/h13/accumulate.h) for sums of the neural engine, and rounds results half away from zero.
 *
 * The on-chip buffer keeps what tasks leave in it. Reading a place that no task wrote is an error, because such a
 * program would depend on chance. The interpreter ignores alias and dependency bits.
 */
#ifndef ANE_H13_SIMULATE_H
#define ANE_H13_SIMULATE_H

#include "ane/h13/object.h"

typedef struct engine_memory {
    uint8_t *data; /* NULL if there is no buffer */
    uint64_t bytes;
} engine_memory;

/* A machine with an on-chip buffer. The hardware's buffer keeps its bytes between programs, but a program that reads
 * them is refused. */
typedef struct engine_machine engine_machine;
typedef enum engine_arithmetic { ENGINE_WIDE, ENGINE_ACCUMULATOR } engine_arithmetic;
/* Returns the known arithmetic of a generation, or ENGINE_WIDE if it is unknown. */
engine_arithmetic engine_arithmetic_of(uint32_t subtype);
engine_machine *engine_machine_create(engine_arithmetic how); /* NULL if memory runs out; about 3 MiB */
void engine_machine_free(engine_machine *m);

/* Runs all tasks in order. buffers[bar] is the buffer of base register `bar`: 1 is for constants, 2 and 3 for scratch
 * memory, 4 and up for surfaces. Only the bytes that a task stores are written. A machine must not be used by several
 * threads at a time. */
PROPANE_CHECK propane_status engine_simulate(engine_machine *m, const engine_task *tasks, int count,
                                             const engine_memory buffers[ENGINE_BARS], propane_error *err);

/* Checks whether an object can be run: its tasks are understood, and its surfaces fit into their bytes and below the
 * interpreter's limit. Call this before buffers are allocated with sizes from a file. */
PROPANE_CHECK propane_status engine_object_runs(const engine_object *o, propane_error *err);
/* Runs an object with its own copies of constants and scratch memory. The caller passes the buffers of surfaces,
 * indexed by base register. */
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
