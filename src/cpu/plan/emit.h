/* SPDX-License-Identifier: MIT
 * Functions that emitters (ops/) use for memory, steps and copies. An emitter asks for the views of its operands and
 * results, fills in its arguments, lists the buffers that the step touches, and adds the step.
 */
#ifndef CPU_PLAN_EMIT_H
#define CPU_PLAN_EMIT_H

#include "core/mil/ops.h"
#include "cpu/cpu_view.h"
#include "cpu/plan/graph.h"
#include "cpu/plan/table.h"

/* A result of a step that may be written over an operand of the step. */
typedef struct cpu_emit_pair {
    int step, from, to; /* buffers */
} cpu_emit_pair;

struct planner {
    arena *arena; /* the program's */
    arena *work;  /* the planner's: freed after planning */
    mil_module *module;
    cpu_graph g;
    int threads; /* number of threads to plan scratch for */

    cpu_view *views;  /* by value id; buffer is -1 until the value has one */
    cpu_view *placed; /* by value id: where the value must be computed */
    bool *is_placed;
    const mil_value **roots; /* plan_place.c */

    cpu_buffer *buffers;
    int buffer_count;
    cpu_step *steps;
    int step_count;
    cpu_emit_pair *pairs;
    int pair_count;

    cpu_program *program;
    bool check;         /* only checks: the program will not run, so constants are not prepared */
    void *last_product; /* arguments of the last matrix product step (emit_matmul.c); NULL if there was none */
    /* Builder of the last fused loop (emit_elementwise.c), for the next one; NULL if there was none. */
    void *loop_builder;
    const mil_op *current; /* the operation that is being emitted, for names and messages */
    /* Plans the function of a block: control flow contains programs (emit_control.c). */
    propane_status (*plan)(const mil_function *f, const cpu_plan_options *options, arena *a, cpu_program **out,
                           propane_error *err);
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Adds a buffer. Returns -1 if memory runs out. */
int cpu_emit_buffer(planner *p, cpu_storage place, int64_t bytes);
/* Adds a constant of that many floats and sets *out to its memory, which is zero until the caller fills it in. */
PROPANE_CHECK propane_status cpu_emit_constant(planner *p, int64_t floats, float **out, cpu_ref *at,
                                               propane_error *err);
/* Adds the scratch memory of the next step. */
PROPANE_CHECK propane_status cpu_emit_scratch(planner *p, int64_t bytes, cpu_ref *out, propane_error *err);
/* Sets *out to the view of an operand. A constant gets a buffer when it is first used. */
PROPANE_CHECK propane_status cpu_emit_operand(planner *p, const mil_value *v, cpu_view *out, propane_error *err);
/* Sets *out to the view that a result must be written to: its place, or a new dense buffer. */
PROPANE_CHECK propane_status cpu_emit_result(planner *p, const mil_value *v, cpu_view *out, propane_error *err);
/* Like cpu_emit_result, but for a kernel that writes densely: also sets *at to `out` if that is dense, else to a new
 * dense buffer, from which the caller copies. */
PROPANE_CHECK propane_status cpu_emit_result_dense(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                                   propane_error *err);
/* Does the same for a kernel that writes images with adjacent channels. */
PROPANE_CHECK propane_status cpu_emit_result_channels(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                                      propane_error *err);

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* cpu_emit_step adds a step. Before that, call cpu_emit_touch for each buffer that the step touches, because
 * cpu_emit_touch applies to the step that is added next. */
void cpu_emit_touch(planner *p, int buffer);
PROPANE_CHECK propane_status cpu_emit_step(planner *p, cpu_step_run run, const void *args, const char *kind,
                                           const mil_value *makes, double flops, double bytes, propane_error *err);
/* Declares that the next step may write `to` over `from` (same layout, element on element). */
PROPANE_CHECK propane_status cpu_emit_may_share(planner *p, const cpu_view *from, const cpu_view *to,
                                                propane_error *err);

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Copies elements. Both views have the same shape and element size. */
PROPANE_CHECK propane_status cpu_emit_copy(planner *p, const mil_value *makes, const cpu_view *from, const cpu_view *to,
                                           propane_error *err);
/* Sets *out to *v if that is dense, else to a copy in a new buffer. */
PROPANE_CHECK propane_status cpu_emit_dense(planner *p, const mil_value *makes, const cpu_view *v, cpu_view *out,
                                            propane_error *err);
/* Replaces *v, the view of an image of that type, by a copy with adjacent channels, unless its channels are
 * adjacent. */
PROPANE_CHECK propane_status cpu_emit_channels(planner *p, const mil_value *makes, const mil_type *type, cpu_view *v,
                                               propane_error *err);

/* ---- operations with dense operands and results ------------------------------------------------------------------ */

enum { CPU_EMIT_IN = 4, CPU_EMIT_OUT = 4 };

/* Views that are used while the operation is planned. For an omitted parameter, the buffer of `in` is -1. `want` is
 * where the results belong, `out` where the step writes them. */
typedef struct cpu_emit_io {
    int in_count, out_count;
    cpu_view in[CPU_EMIT_IN], out[CPU_EMIT_OUT], want[CPU_EMIT_OUT];
} cpu_emit_io;

/* Finds or makes dense operands (`params`: names, terminated by NULL) and dense memory for the results. */
PROPANE_CHECK propane_status cpu_emit_begin(planner *p, const mil_op *op, const char *const *params, cpu_emit_io *d,
                                            propane_error *err);
/* Adds the step, and copies of the results that belong elsewhere. Request scratch between cpu_emit_begin and
 * cpu_emit_end. */
PROPANE_CHECK propane_status cpu_emit_end(planner *p, const mil_op *op, const cpu_emit_io *d, cpu_step_run run,
                                          const void *args, const char *kind, double flops, propane_error *err);
/* Returns the operation's location for runtime messages; NULL if memory runs out. */
const char *cpu_emit_where(planner *p, const mil_op *op);

#endif
