/* SPDX-License-Identifier: MIT
 * Moves signed permutations (signed_rows.h) before multiplications by constants: P (a * c) = (P a) * (|P| c), where the
 * second factor is a constant. The rows can then be picked directly: a fused loop loads row i from the row of `a` that
 * pick i names.
 *
 * A fused loop cannot pick rows of a value that it makes itself.
 */
#include <string.h>

#include "cpu/lower/lower.h"
#include "cpu/signed_rows.h"

/* Returns the constant with its rows rearranged like the picked lines; NULL if its data is unknown or its shape does
 * not fit. */
static mil_value *lower_permutation_picked_constant(mil_builder *b, mil_value *c, const cpu_signed_row *picks,
                                                    int64_t rows, int64_t inputs) {
    if (c->type.rank < 2 || c->type.dim[c->type.rank - 2] == 1) return c;
    mil_type type = c->type;
    const int64_t line = type.dim[type.rank - 1] * (mil_dtype_get(type.dtype)->bits / 8);
    const int64_t planes = mil_type_count(&type) / (inputs * type.dim[type.rank - 1]);
    if (!c->constant->data || type.dim[type.rank - 2] != inputs) return NULL;
    type.dim[type.rank - 2] = rows;
    char *data = arena_array(b->module->arena, (size_t)(planes * rows), (size_t)line);
    if (!data) {
        propane_fail_memory(&b->err, (size_t)(planes * rows * line));
        return NULL;
    }
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(data + (p * rows + i) * line, (const char *)c->constant->data + (p * inputs + picks[i].line) * line,
                   (size_t)line);
    return mil_build_const(b, "picked", &type, data);
}

/* Returns the value that `v` multiplies by a constant, and sets *c to the constant. NULL if `v` is no such product. */
static mil_value *lower_permutation_times_constant(const mil_value *v, mil_value **c) {
    if (!v->def || v->def->info->code != MIL_OP_mul) return NULL;
    for (int k = 0; k < 2; k++) {
        mil_value *x = mil_in(v->def, k ? "x" : "y"), *other = mil_in(v->def, k ? "y" : "x");
        if (!x->constant || other->constant || !mil_type_equal(&other->type, &v->type) || x->type.rank > v->type.rank)
            continue;
        *c = x;
        return other;
    }
    return NULL;
}

static propane_status lower_permutation_push(mil_function *f, mil_op **op, propane_error *err) {
    mil_value *c = NULL, *a = lower_permutation_times_constant(mil_in(*op, "y"), &c);
    if (!a || !cpu_signed_rows_is(*op)) return PROPANE_OK;
    const mil_type *type = &(*op)->results[0]->type, *from = &a->type;
    const cpu_signed_row *picks = cpu_signed_rows_read(f->module->arena, *op);
    if (!picks) return propane_fail_memory(err, (size_t)type->dim[type->rank - 2] * sizeof *picks);
    mil_builder b = {0};
    bool turned = false;
    mil_build_resume(&b, f);
    b.before = *op;
    b.stage = (*op)->stage;
    b.backward = (*op)->backward;
    PROPANE_TRY(mil_attr_bool(*op, "transpose_x", &turned, err));
    mil_value *beside =
        lower_permutation_picked_constant(&b, c, picks, type->dim[type->rank - 2], from->dim[from->rank - 2]);
    if (!beside && !b.err.status) return PROPANE_OK;
    mil_value *lines = beside ? mil_build_matmul(&b, mil_in(*op, "x"), a, turned, false) : NULL;
    mil_value *y = lines ? mil_build_binary(&b, MIL_OP_mul, lines, beside) : NULL;
    if (b.err.status) {
        if (err) *err = b.err;
        return b.err.status;
    }
    mil_replace_uses(f, (*op)->results[0], y);
    mil_op_remove(*op);
    *op = lines->def;
    return PROPANE_OK;
}

propane_status cpu_lower_permutations(mil_function *f, propane_error *err) {
    mil_op *next;
    for (mil_op *op = f->first; op; op = next) {
        next = op->next;
        for (mil_op *before = NULL; op != before && op->info->code == MIL_OP_matmul && !op->results[0]->constant;) {
            before = op;
            PROPANE_TRY(lower_permutation_push(f, &op, err));
        }
    }
    return PROPANE_OK;
}
