/* SPDX-License-Identifier: MIT
 * Determines which dimensions of a result are open. One idea: run the operation's rule twice, with a different size for
 * everything unknown each time. Dimensions that differ between the two results are open.
 */
#include "core/mil/probe_types.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops/shape_util.h"

/* Two sizes that do not divide each other and that few files contain. */
static const int64_t sizes[2] = {7, 11};

/* The original state of an operand that is changed during a probe. */
typedef struct probed {
    mil_value *value;
    mil_type type;
    const mil_const *constant;
    bool unknown;
} probed;

typedef struct probe {
    arena *memory;
    mil_op *op;
    probed *changed;
    int count;
} probe;

/* Makes a constant of that type with all elements equal to `size`. */
static const mil_const *probe_constant(probe *p, const mil_type *type, int64_t size) {
    mil_const *c = ARENA_NEW(p->memory, mil_const);
    void *data = arena_alloc(p->memory, (size_t)mil_type_bytes(type) + 1);
    if (!c || !data) return NULL;
    memset(data, 0, (size_t)mil_type_bytes(type));
    for (int64_t i = 0; i < mil_type_count(type); i++)
        if (!mil_element_store_real(data, type->dtype, i, (double)size)) return NULL;
    *c = (mil_const){.type = *type, .data = data, .bytes = mil_type_bytes(type)};
    return c;
}

/* Fills in everything that is open or unknown. Collects all such operands before changing any, because a constant
 * derived from a temporary type would remain. */
static propane_status probe_fill(probe *p, int64_t size, propane_error *err) {
    const mil_op *op = p->op;
    for (int param = 0; param < op->info->param_count; param++)
        for (int i = 0; i < op->operands[param].count; i++) {
            mil_value *v = op->operands[param].values[i];
            const bool unknown = mil_operand_unknown(op, param, v);
            if (mil_type_is_open(&v->type) || unknown)
                p->changed[p->count++] = (probed){v, v->type, v->constant, unknown};
        }
    for (int i = 0; i < p->count; i++) {
        mil_value *v = p->changed[i].value;
        for (int d = 0; d < v->type.rank; d++)
            if (v->type.dim[d] < 0) v->type.dim[d] = size;
    }
    for (int i = 0; i < p->count; i++) {
        mil_value *v = p->changed[i].value;
        if (!p->changed[i].unknown || v->type.dtype == MIL_string) continue;
        v->constant = probe_constant(p, &v->type, size);
        if (!v->constant) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

static void probe_restore(probe *p) {
    while (p->count) {
        const probed *c = &p->changed[--p->count];
        c->value->type = c->type;
        c->value->constant = c->constant;
    }
}

static propane_status probe_ask(probe *p, int64_t size, mil_type *types, int *count, propane_error *err) {
    propane_status status = probe_fill(p, size, err);
    if (!status) status = mil_verify_operands(p->op, err);
    if (!status) status = p->op->info->rule(p->op, types, count, err);
    probe_restore(p);
    return status;
}

/* Sets *out to a type with all dimensions open; returns false if the rank is not possible. */
static bool probe_open(mil_dtype dtype, int64_t rank, mil_type *out, int *count) {
    if (rank < 1 || rank > MIL_MAX_RANK) return false;
    *out = (mil_type){.dtype = dtype, .rank = (int)rank};
    for (int d = 0; d < out->rank; d++) out->dim[d] = MIL_OPEN;
    *count = 1;
    return true;
}

/* Returns the rank of a slice, or 0 if it is not known. */
static int probe_slice_rank(const mil_op *op, int rank) {
    const mil_value *squeeze = mil_in(op, "squeeze_mask");
    bool gone[MIL_MAX_RANK];
    if (!squeeze) return rank;
    if (!squeeze->constant || mil_attr_bools(op, "squeeze_mask", rank, gone, NULL)) return 0;
    int left = rank;
    for (int d = 0; d < rank; d++) left -= gone[d];
    return left;
}

/* Sets a result whose shape is an operand, as in reshape and slice_by_size. Dimensions that are not known or not
 * positive are open. */
static bool probe_named(const mil_value *shape, mil_dtype dtype, mil_type *out, int *count) {
    if (!shape || shape->type.rank != 1 || !probe_open(dtype, shape->type.dim[0], out, count)) return false;
    for (int d = 0; shape->constant && d < out->rank; d++) {
        const int64_t size = mil_const_i64(shape->constant, d);
        if (size > 0) out->dim[d] = size;
    }
    return true;
}

/* Handles operations whose result has a known rank even if its sizes cannot be probed. A reshape has as many dimensions
 * as its shape has elements, a slice has the rank of x without the removed dimensions, and a scatter has the shape of
 * its data. */
static bool probe_known_rank(const mil_op *op, mil_type *out, int *count) {
    const mil_type *x = mil_op_param(op->info, "x") >= 0 && mil_in(op, "x") ? &mil_in(op, "x")->type : NULL;
    const mil_value *data = mil_op_param(op->info, "data") >= 0 ? mil_in(op, "data") : NULL;
    if (data && (op->info->code == MIL_OP_scatter || op->info->code == MIL_OP_scatter_nd ||
                 op->info->code == MIL_OP_scatter_along_axis)) {
        *out = data->type;
        *count = 1;
        return true;
    }
    switch (x ? op->info->code : MIL_OP_COUNT) {
    case MIL_OP_reshape: return probe_named(mil_in(op, "shape"), x->dtype, out, count);
    case MIL_OP_slice_by_size: return probe_named(mil_in(op, "size"), x->dtype, out, count);
    case MIL_OP_non_zero:
        if (!probe_open(MIL_int32, 2, out, count)) return false;
        out->dim[1] = x->rank;
        return true;
    case MIL_OP_slice_by_index: return probe_open(x->dtype, probe_slice_rank(op, x->rank), out, count);
    default: return false;
    }
}

/* Opens the dimensions in which the two sizes give different results. */
static propane_status probe_twice(probe *p, mil_type *types, mil_type *other, int *count, propane_error *err) {
    int again = 0;
    PROPANE_TRY(probe_ask(p, sizes[0], types, count, err));
    PROPANE_TRY(probe_ask(p, sizes[1], other, &again, err));
    if (again != *count)
        return mil_op_fail(p->op, err, PROPANE_ERR_UNSUPPORTED, "the number of results is known only at run time");
    for (int i = 0; i < *count; i++) {
        if (types[i].rank != other[i].rank)
            return mil_op_fail(p->op, err, PROPANE_ERR_UNSUPPORTED, "the rank of its result is known only at run time");
        for (int d = 0; d < types[i].rank; d++)
            if (types[i].dim[d] != other[i].dim[d]) types[i].dim[d] = MIL_OPEN;
    }
    return PROPANE_OK;
}

/* Probes with a single size, for operations that accept only some sizes (to match a dimension of 3, for example).
 * Returns false if the operation refuses the size. Every dimension of that size counts as open, since it may depend on
 * the unknown size. */
static bool probe_once(probe *p, int64_t size, mil_type *types, int *count) {
    propane_error ignored = {0};
    if (probe_ask(p, size, types, count, &ignored)) return false;
    for (int i = 0; i < *count; i++)
        for (int d = 0; d < types[i].rank; d++)
            if (types[i].dim[d] == size) types[i].dim[d] = MIL_OPEN;
    return true;
}

static bool probe_sizes_at_hand(probe *p, mil_type *types, int *count) {
    MIL_FOR_OPERANDS (p->op, v)
        for (int d = 0; v->type.container == MIL_TENSOR && d < v->type.rank; d++)
            if (v->type.dim[d] > 0 && probe_once(p, v->type.dim[d], types, count)) return true;
    return probe_once(p, 2, types, count) || probe_once(p, 1, types, count);
}

propane_status mil_probe_types(mil_op *op, mil_type *types, int *count, propane_error *err) {
    int operands = 0;
    for (int param = 0; param < op->info->param_count; param++) operands += op->operands[param].count;
    if (probe_known_rank(op, types, count)) return PROPANE_OK;
    probe p = {.memory = arena_create(), .op = op, .changed = mem_array((size_t)operands + 1, sizeof *p.changed)};
    mil_type *other = mem_array(MIL_MAX_RESULTS, sizeof *other);
    propane_status status = p.memory && p.changed && other ? PROPANE_OK : propane_fail_memory(err, 0);
    if (!status) {
        propane_error refused = {0};
        status = probe_twice(&p, types, other, count, &refused);
        if (status && status != PROPANE_ERR_MEMORY && probe_sizes_at_hand(&p, types, count)) status = PROPANE_OK;
        if (status) *err = refused;
    }
    arena_free(p.memory);
    mem_free(p.changed);
    mem_free(other);
    return status;
}
