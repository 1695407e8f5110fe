/* SPDX-License-Identifier: MIT
 * Owns which operations give nothing, and what others make of it. Refuses those that are not listed, by name.
 */
#include "mil/settle_empty.h"

#include <math.h>

#include "mil/eval/eval.h"
#include "mil/ir_edit.h"
#include "mil/ops.h"

/* ---- where it comes from -------------------------------------------------------------------------------------------------- */

/* The known operand; NULL: it is left out, or waits. */
static const mil_const *settle_empty_known(const mil_op *op, mil_value *const *map, const char *param) {
    mil_value *v = mil_in(op, param);
    if (v && !v->is_inline) v = map[v->id];
    return v && mil_know(v) ? v->konst : NULL;
}

static bool settle_empty_non_zero(const mil_op *op, mil_value *const *map, mil_type *out) {
    const mil_const *x = settle_empty_known(op, map, "x");
    if (!x || !x->data || x->type.rank == 0) return false;
    for (int64_t i = 0; i < mil_type_count(&x->type); i++)
        if (mil_const_f64(x, i) != 0.0) return false;
    *out = (mil_type){.dtype = MIL_int32, .rank = 2, .dim = {0, x->type.rank}};
    return true;
}

/* Sizes that are given, as factors of x's where there is one. */
static bool settle_empty_sized(const mil_op *op, mil_value *const *map, const char *param, const mil_type *x,
                               mil_type *out) {
    const mil_const *sizes = settle_empty_known(op, map, param);
    bool none = false;
    if (!sizes || !sizes->data || mil_type_count(&sizes->type) > MIL_MAX_RANK) return false;
    const int rank = (int)mil_type_count(&sizes->type);
    if (x && x->rank != rank) return false;
    mil_type made = {.dtype = op->results[0]->type.dtype, .rank = rank};
    for (int d = 0; d < rank; d++) {
        const int64_t size = mil_const_i64(sizes, d);
        if (size < 0) return false;
        none |= size == 0;
        made.dim[d] = size * (x ? x->dim[d] : 1);
    }
    if (none) *out = made;
    return none;
}

static bool settle_empty_range(const mil_op *op, mil_value *const *map, mil_type *out) {
    const mil_const *start = settle_empty_known(op, map, "start"), *end = settle_empty_known(op, map, "end"),
                    *step = settle_empty_known(op, map, "step");
    if (!start || !end || !step || !start->data || !end->data || !step->data) return false;
    const double count = ceil((mil_const_f64(end, 0) - mil_const_f64(start, 0)) / mil_const_f64(step, 0));
    if (!(count <= 0.0) || mil_const_f64(step, 0) == 0.0) return false;
    *out = (mil_type){.dtype = start->type.dtype, .rank = 1};
    return true;
}

static bool settle_empty_made(const mil_op *op, mil_value *const *map, mil_type *out) {
    const mil_value *x = op->info->code == MIL_OP_tile ? mil_in(op, "x") : NULL;
    if (x && !x->is_inline) x = map[x->id];
    switch (op->info->code) {
    case MIL_OP_non_zero: return settle_empty_non_zero(op, map, out);
    case MIL_OP_range_1d: return settle_empty_range(op, map, out);
    case MIL_OP_fill: return settle_empty_sized(op, map, "shape", NULL, out);
    case MIL_OP_tile: return x && settle_empty_sized(op, map, "reps", &x->type, out);
    default: return false;
    }
}

/* ---- what follows --------------------------------------------------------------------------------------------------------- */

static const mil_type *settle_empty_operand(const mil_op *op, const char *param, const mil_type *empty) {
    const mil_value *v = mil_op_param(op->info, param) < 0 ? NULL : mil_in(op, param);
    return v && !v->is_inline && empty[v->id].dtype ? &empty[v->id] : NULL;
}

/* Element by element, or elements of x in another order: as many as there are. */
static bool settle_empty_keeps(const mil_op *op) {
    switch (op->info->code) {
    case MIL_OP_cast:
    case MIL_OP_select:
    case MIL_OP_transpose:
    case MIL_OP_expand_dims:
    case MIL_OP_gather:
    case MIL_OP_gather_nd:
    case MIL_OP_gather_along_axis: return true;
    default:
        return op->info->rule == mil_shape_rule_same || op->info->rule == mil_shape_rule_broadcast ||
               op->info->rule == mil_shape_rule_compare;
    }
}

static bool settle_empty_scatters(const mil_op *op) {
    return op->info->code == MIL_OP_scatter || op->info->code == MIL_OP_scatter_nd ||
           op->info->code == MIL_OP_scatter_along_axis;
}

/* The declared result: a dimension that is open is the one that has no elements. Two open ones say nothing. */
static bool settle_empty_result(const mil_op *op, mil_type *out) {
    int open = 0;
    *out = op->results[0]->type;
    for (int d = 0; d < out->rank; d++) {
        if (out->dim[d] == MIL_OPEN_RANK) return false;
        if (out->dim[d] != MIL_OPEN) continue;
        out->dim[d] = 0;
        open++;
    }
    return open == 1;
}

static mil_value *settle_empty_shape(mil_builder *b, const mil_op *op, const mil_type *x) {
    double dim[MIL_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dim[d] = (double)x->dim[d];
    const mil_type type = mil_type_tensor(op->results[0]->type.dtype, 1, &(int64_t){x->rank});
    return mil_build_const_f64(b, op->results[0]->name, &type, dim);
}

/* The result is x, under the result's name. */
static mil_value *settle_empty_pass(mil_builder *b, const mil_op *op, mil_value *x) {
    const mil_argument argument = {"x", 1, &x};
    mil_op *made = mil_build_op(b, MIL_OP_identity, op->results[0]->name, &argument, 1);
    return made ? made->results[0] : NULL;
}

static bool settle_empty_reads(const mil_op *op, const mil_type *empty, const char **name) {
    MIL_FOR_OPERANDS (op, v)
        if (!v->is_inline && empty[v->id].dtype) {
            *name = v->name;
            return true;
        }
    return false;
}

bool mil_settle_empty(mil_builder *b, const mil_op *op, mil_value **map, mil_type *empty) {
    const char *name = "";
    const int id = op->result_count ? op->results[0]->id : 0;
    const bool reads = settle_empty_reads(op, empty, &name);
    if (op->result_count != 1) return reads;
    if (!reads) return settle_empty_made(op, map, &empty[id]);
    const mil_type *x = settle_empty_operand(op, "x", empty);
    if (op->info->code == MIL_OP_shape && x) {
        map[id] = settle_empty_shape(b, op, x);
        return true;
    }
    if (settle_empty_scatters(op) && !settle_empty_operand(op, "data", empty)) {
        mil_value *data = mil_in(op, "data");
        if (!data->is_inline) data = map[data->id];
        if (data) map[id] = settle_empty_pass(b, op, data);
        return data != NULL;
    }
    if (!settle_empty_keeps(op) || !settle_empty_result(op, &empty[id])) empty[id] = (mil_type){0};
    return true;
}

propane_status mil_settle_empty_refuse(const mil_function *late, mil_value *const *map, const mil_type *empty,
                                       propane_error *err) {
    const char *name = "";
    for (int i = 0; i < late->result_count; i++)
        if (empty[late->results[i]->id].dtype)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: result '%.60s' has no elements for these inputs",
                                late->module->source, late->results[i]->name);
    for (const mil_op *op = late->first; op; op = op->next)
        if (settle_empty_reads(op, empty, &name) && op->result_count && !map[op->results[0]->id] &&
            !empty[op->results[0]->id].dtype)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                               "'%.60s' has no elements for these inputs, and no result follows from that", name);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: a result waits for values that nothing gives",
                        late->module->source);
}
