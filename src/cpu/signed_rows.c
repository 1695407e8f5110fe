/* SPDX-License-Identifier: MIT
 * Owns the recognition of signed permutation matrices.
 */
#include "cpu/signed_rows.h"

#include "core/mil/ops.h"

/* Reads the pick of row `i`. Returns false unless the row's only nonzero element is 1 or -1. */
static bool signed_rows_pick_of(const mil_const *p, int64_t i, int64_t inputs, int64_t row_step, int64_t step,
                                cpu_signed_row *out) {
    int found = 0;
    for (int64_t k = 0; k < inputs; k++) {
        double v = mil_const_f64(p, i * row_step + k * step);
        if (v == 0) continue;
        if ((v != 1 && v != -1) || found++) return false;
        *out = (cpu_signed_row){(int32_t)k, (float)v};
    }
    return found == 1;
}

/* Returns the number of rows of the constant matrix, or 0 if the operation is no such product. `picks` may be NULL. */
static int64_t signed_rows_read_picks(const mil_op *op, cpu_signed_row *picks) {
    const mil_value *p = mil_in(op, "x"), *y = mil_in(op, "y");
    bool turned = false, y_turned = false;
    if (!p || !y || !p->constant || !p->constant->data || y->constant || p->type.rank < 2 || y->type.rank < 2) return 0;
    if (mil_attr_bool(op, "transpose_x", &turned, NULL) || mil_attr_bool(op, "transpose_y", &y_turned, NULL)) return 0;
    const int64_t *dim = p->type.dim + p->type.rank - 2, *own = y->type.dim + y->type.rank - 2;
    const int64_t rows = dim[turned], inputs = dim[!turned];
    const mil_dtype dtype = y->type.dtype;
    if (y_turned || own[1] < 2 || rows < 2 || inputs < 2 || mil_type_count(&p->type) != rows * inputs) return 0;
    if (op->results[0]->type.rank != y->type.rank || (dtype != MIL_fp32 && dtype != MIL_fp16) ||
        !mil_dtype_is_float(p->type.dtype))
        return 0;
    for (int64_t i = 0; i < rows; i++) {
        cpu_signed_row one;
        if (!signed_rows_pick_of(p->constant, i, inputs, turned ? 1 : inputs, turned ? rows : 1, &one)) return 0;
        if (picks) picks[i] = one;
    }
    return rows;
}

bool cpu_signed_rows_is(const mil_op *op) {
    return op->info->code == MIL_OP_matmul && signed_rows_read_picks(op, NULL) > 0;
}

const cpu_signed_row *cpu_signed_rows_read(arena *a, const mil_op *op) {
    const mil_type *t = &op->results[0]->type;
    cpu_signed_row *picks = ARENA_ARRAY(a, t->dim[t->rank - 2], cpu_signed_row);
    return picks && signed_rows_read_picks(op, picks) ? picks : NULL;
}
