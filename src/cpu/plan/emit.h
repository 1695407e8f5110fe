/* SPDX-License-Identifier: MIT
 * What emitters (ops/) have: memory for values, steps, copies. An emitter asks where its operands lie and where its
 * results shall lie, fills in its arguments, lists the buffers that the step touches, and adds the step.
 */
#ifndef CPU_PLAN_EMIT_H
#define CPU_PLAN_EMIT_H

#include "core/mil/ops.h"
#include "cpu/cpu_view.h"
#include "cpu/plan/graph.h"
#include "cpu/plan/table.h"

/* An output that may take over an input's memory. */
typedef struct cpu_emit_pair {
    int step, from, to; /* buffers */
} cpu_emit_pair;

struct planner {
    arena *arena; /* the program's */
    arena *work;  /* the planner's: gone after planning */
    mil_module *module;
    cpu_graph g;
    int threads; /* scratch for that many */

    cpu_view *views;  /* by value id; buffer -1 until it has one */
    cpu_view *placed; /* by value id: where it must be computed */
    bool *is_placed;
    const mil_value **roots; /* plan_place.c */

    cpu_buffer *buffers;
    int buffer_count;
    cpu_step *steps;
    int step_count;
    cpu_emit_pair *pairs;
    int pair_count;

    cpu_program *program;
    bool check;            /* it will not run: constants are not prepared */
    void *last_product;    /* the arguments of the step that is one (emit_matmul.c); NULL: none yet */
    void *loop_builder;    /* of the last fused loop (emit_elementwise.c), for the next one; NULL: none yet */
    const mil_op *current; /* for names of steps and messages */
    /* Plans the function of a block: control flow has programs inside (emit_control.c). */
    propane_status (*plan)(const mil_function *f, const cpu_plan_options *options, arena *a, cpu_program **out,
                           propane_error *err);
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* A new buffer; -1: no memory. */
int cpu_emit_buffer(planner *p, cpu_storage place, int64_t bytes);
/* A constant of that many floats, zeros, to be filled now. */
PROPANE_CHECK propane_status cpu_emit_constant(planner *p, int64_t floats, float **out, cpu_ref *at,
                                               propane_error *err);
/* The memory that the next step needs besides its operands. */
PROPANE_CHECK propane_status cpu_emit_scratch(planner *p, int64_t bytes, cpu_ref *out, propane_error *err);
/* Where the operand lies; constants come to the program's memory. */
PROPANE_CHECK propane_status cpu_emit_operand(planner *p, const mil_value *v, cpu_view *out, propane_error *err);
/* Where a result shall be written: its place, or a new dense buffer. */
PROPANE_CHECK propane_status cpu_emit_result(planner *p, const mil_value *v, cpu_view *out, propane_error *err);
/* Also where a kernel that writes densely shall write: there, or, if `out` is not dense, into memory of its own that
 * the caller copies from. */
PROPANE_CHECK propane_status cpu_emit_result_dense(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                                   propane_error *err);
/* The same for an image that is written with its channels next to one another. */
PROPANE_CHECK propane_status cpu_emit_result_channels(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                                      propane_error *err);

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Adds a step; cpu_emit_touch lists the buffers that it touches before it: that counts for the step that is added
 * next. */
void cpu_emit_touch(planner *p, int buffer);
PROPANE_CHECK propane_status cpu_emit_step(planner *p, cpu_step_run run, const void *args, const char *kind,
                                           const mil_value *makes, double flops, double bytes, propane_error *err);
/* Tells that the next step may write `to` over `from` (same layout, element on element). */
PROPANE_CHECK propane_status cpu_emit_may_share(planner *p, const cpu_view *from, const cpu_view *to,
                                                propane_error *err);

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Copies elements; both views have one shape and one element size. */
PROPANE_CHECK propane_status cpu_emit_copy(planner *p, const mil_value *makes, const cpu_view *from, const cpu_view *to,
                                           propane_error *err);
/* `v` dense: itself if it is, else a copy in new memory. */
PROPANE_CHECK propane_status cpu_emit_dense(planner *p, const mil_value *makes, const cpu_view *v, cpu_view *out,
                                            propane_error *err);
/* The image `v` of that type with its channels next to one another: itself, or a copy. */
PROPANE_CHECK propane_status cpu_emit_channels(planner *p, const mil_value *makes, const mil_type *type, cpu_view *v,
                                               propane_error *err);

/* ---- operations whose operands and results lie densely ----------------------------------------------------------- */

enum { CPU_EMIT_IN = 4, CPU_EMIT_OUT = 4 };

/* Used while the operation is planned; `in` of a parameter that was left out has buffer -1. */
typedef struct cpu_emit_io {
    int in_count, out_count;
    cpu_view in[CPU_EMIT_IN], out[CPU_EMIT_OUT], want[CPU_EMIT_OUT];
} cpu_emit_io;

/* Finds or makes dense operands (names, NULL after the last) and dense room for the results. */
PROPANE_CHECK propane_status cpu_emit_begin(planner *p, const mil_op *op, const char *const *params, cpu_emit_io *d,
                                            propane_error *err);
/* Adds the step, and copies of the results that belong elsewhere. Scratch is asked for between the two. */
PROPANE_CHECK propane_status cpu_emit_end(planner *p, const mil_op *op, const cpu_emit_io *d, cpu_step_run run,
                                          const void *args, const char *kind, double flops, propane_error *err);
/* Where the operation stands, for messages of the run; NULL: no memory. */
const char *cpu_emit_where(planner *p, const mil_op *op);

#endif
