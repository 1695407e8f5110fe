/* SPDX-License-Identifier: MIT
 * Owns the division of a program between the engine and the CPU, as Core ML would make it. Operations that a rule moves
 * are on the CPU, the others on the engine, and each side runs as long as it has work. Reports how often and where the
 * side changes, and the cost of the changes by the constants of the time model. Core ML's planner may divide the
 * program differently.
 */
#include <stdio.h>
#include <string.h>

#include "ane/chip/check_report.h"
#include "ane/chip/cost_model.h"
#include "core/base/memory.h"
#include "core/mil/ir_edit.h"

/* Sides alternate: segments of the engine have even numbers, those of the CPU odd ones. */
enum { SEGMENT_NONE = -1 };

typedef struct segment_walk {
    const mil_function *function;
    const uint64_t *fallen; /* [0]: bits for all operations; then one entry per operation */
    uint64_t bit;           /* bit of the chip */
    int *of;                /* [value id]: the segment that computes the value */
    int *first;             /* [segment]: the number of its first operation, from 1; 0 if the segment is empty */
    int last;               /* the highest segment number in use */
    double bytes;           /* bytes of operands that change sides */
} segment_walk;

/* Returns true if the operation is computed at run time. Weights, and values that depend only on constants, are
 * computed before the program runs. */
static bool segment_is_computed(const mil_op *op) {
    return op->info->code != MIL_OP_const && strncmp(op->info->name, "constexpr_", 10) != 0 && op->result_count > 0 &&
           !op->results[0]->constant;
}

static void segment_place(segment_walk *w, const mil_op *op, int index) {
    const int side = ((w->fallen[0] | w->fallen[index]) & w->bit) != 0;
    int segment = side;
    MIL_FOR_OPERANDS (op, v) {
        const int made = w->of[v->id];
        if (made == SEGMENT_NONE) continue;
        const int from = made % 2 == side ? made : made + 1;
        if (from > segment) segment = from;
    }
    MIL_FOR_OPERANDS (op, v)
        if (w->of[v->id] != SEGMENT_NONE && w->of[v->id] % 2 != side && !mil_type_is_open(&v->type))
            w->bytes += (double)mil_type_bytes(&v->type);
    for (int i = 0; i < op->result_count; i++) w->of[op->results[i]->id] = segment;
    if (!w->first[segment]) w->first[segment] = index;
    if (segment > w->last) w->last = segment;
}

static const mil_op *segment_op(const mil_function *f, int index) {
    const mil_op *op = f->first;
    while (--index > 0) op = op->next;
    return op;
}

static void segment_add_place(chip_segments *out, const mil_op *op) {
    const size_t used = strlen(out->places);
    const char *name = mil_op_result_name(op);
    if (used + 60 > sizeof out->places) return;
    snprintf(out->places + used, sizeof out->places - used, "%s%s '%.24s'", used ? ", " : "", op->info->name,
             name ? name : "");
}

static void segment_count(const segment_walk *w, const chip *c, chip_segments *out) {
    const cost_constants *q = cost_constants_of(c->id);
    int before = 0;
    for (int i = 0; i <= w->last; i++) {
        if (!w->first[i]) continue;
        if (i % 2)
            out->cpu++;
        else
            out->engine++;
        if (before++) {
            out->switches++;
            segment_add_place(out, segment_op(w->function, w->first[i]));
        }
    }
    const int calls = out->engine > 1 ? out->engine - 1 : 0; /* the first segment is the call itself */
    if (out->engine) out->ms += calls * q->t0_coreml + w->bytes / 1e6 / q->io_coreml;
}

static void segment_walk_over(segment_walk *w, int values, chip_segments *out) {
    int index = 0;
    for (int i = 0; i < values; i++) w->of[i] = SEGMENT_NONE;
    for (const mil_op *op = w->function->first; op; op = op->next) {
        index++;
        if (!segment_is_computed(op)) continue;
        segment_place(w, op, index);
        out->moved += ((w->fallen[0] | w->fallen[index]) & w->bit) != 0;
    }
}

propane_status chip_report_segment(chip_report *r, const mil_function *f, propane_error *err) {
    segment_walk w = {.function = f, .fallen = r->fallen};
    const size_t values = (size_t)f->value_count + 1, segments = 2 * (size_t)f->op_count + 3;
    propane_status status = PROPANE_OK;
    w.of = mem_array(values, sizeof *w.of);
    w.first = mem_array(segments, sizeof *w.first);
    if (!w.of || !w.first) status = propane_fail_memory(err, (values + segments) * sizeof *w.of);
    for (int t = 0; t < r->target_count && status == PROPANE_OK; t++) {
        const chip *c = r->targets[t];
        w.bit = (uint64_t)1 << c->id;
        w.last = 0;
        w.bytes = 0;
        memset(w.first, 0, segments * sizeof *w.first);
        segment_walk_over(&w, (int)values, &r->segments[c->id]);
        segment_count(&w, c, &r->segments[c->id]);
    }
    mem_free(w.of);
    mem_free(w.first);
    return status;
}

const chip_segments *chip_report_segments(const chip_report *r, const chip *target) { return &r->segments[target->id]; }
