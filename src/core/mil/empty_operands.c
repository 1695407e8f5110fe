/* SPDX-License-Identifier: MIT
 * Owns two lists: operations that accept operands without elements, and operations that can produce results without
 * elements. The shape rules of the former must handle a dimension of 0.
 */
#include "core/mil/empty_operands.h"

#include "core/mil/eval/eval.h"

/* Returns true for elementwise operations, operations that rearrange the elements of x, and matrix products without
 * rows. If the result does have elements, its values count as undefined. */
bool mil_empty_keeps(const mil_op *op) {
    switch (op->info->code) {
    case MIL_OP_cast:
    case MIL_OP_select:
    case MIL_OP_transpose:
    case MIL_OP_expand_dims:
    case MIL_OP_squeeze:
    case MIL_OP_reshape:
    case MIL_OP_reverse:
    case MIL_OP_cumsum:
    case MIL_OP_softmax:
    case MIL_OP_stack:
    case MIL_OP_one_hot:
    case MIL_OP_fill_like:
    case MIL_OP_gather:
    case MIL_OP_gather_nd:
    case MIL_OP_gather_along_axis:
    case MIL_OP_linear:
    case MIL_OP_matmul:
    case MIL_OP_slice_by_index:
    case MIL_OP_tile: return true;
    default:
        return op->info->rule == mil_shape_rule_same || op->info->rule == mil_shape_rule_broadcast ||
               op->info->rule == mil_shape_rule_compare;
    }
}

bool mil_empty_scatters(const mil_op *op) {
    return op->info->code == MIL_OP_scatter || op->info->code == MIL_OP_scatter_nd ||
           op->info->code == MIL_OP_scatter_along_axis || op->info->code == MIL_OP_slice_update;
}

bool mil_empty_takes(const mil_op *op) {
    return mil_empty_keeps(op) || mil_empty_scatters(op) || op->info->code == MIL_OP_shape ||
           op->info->code == MIL_OP_concat;
}

bool mil_empty_makes(const mil_op *op) {
    switch (op->info->code) {
    case MIL_OP_fill:
    case MIL_OP_range_1d:
    case MIL_OP_slice_by_index:
    case MIL_OP_slice_by_size:
    case MIL_OP_split:
    case MIL_OP_tile: return true;
    default: return false;
    }
}
