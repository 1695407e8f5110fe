/* SPDX-License-Identifier: MIT
 * Products that compute nothing: a constant matrix with a single 1 or -1 in each of its rows, on the left, picks lines of
 * the other operand and gives them signs (RoPE's turn of halves). They become elementwise: a tile loads line i from where
 * line pick[i] lies. So that the lines are there to be picked, picking goes in front of products with constants:
 * P (a * c) = (P a) * (|P| c), and the second factor is known now.
 *
 * Refused: vectors (nothing is a line then), and operands that the same step would have to make.
 */
#include <string.h>

#include "drivers/cpu/plan/plan.h"

/* The pick of row `i`; false: the row has none. */
static bool pick_of(const mil_const *p, int64_t i, int64_t inputs, int64_t row_step, int64_t step, cpu_plan_pick *out) {
    int found = 0;
    for (int64_t k = 0; k < inputs; k++) {
        double v = mil_const_f64(p, i * row_step + k * step);
        if (v == 0) continue;
        if ((v != 1 && v != -1) || found++) return false;
        *out = (cpu_plan_pick){(int32_t)k, (float)v};
    }
    return found == 1;
}

/* Rows that the matrix makes; 0: it does not pick. `picks` may be NULL. */
static int64_t read_picks(const mil_op *op, cpu_plan_pick *picks) {
    const mil_value *p = mil_in(op, "x"), *y = mil_in(op, "y");
    bool turned = false, y_turned = false;
    if (!p || !y || !p->konst || !p->konst->data || y->konst || p->type.rank < 2 || y->type.rank < 2) return 0;
    if (mil_attr_bool(op, "transpose_x", &turned, NULL) || mil_attr_bool(op, "transpose_y", &y_turned, NULL)) return 0;
    const int64_t *dim = p->type.dim + p->type.rank - 2, *own = y->type.dim + y->type.rank - 2;
    const int64_t rows = dim[turned], inputs = dim[!turned];
    const mil_dtype dtype = y->type.dtype;
    if (y_turned || own[1] < 2 || rows < 2 || inputs < 2 || mil_type_count(&p->type) != rows * inputs) return 0;
    if (op->results[0]->type.rank != y->type.rank || (dtype != MIL_fp32 && dtype != MIL_fp16) ||
        !mil_dtype_is_float(p->type.dtype))
        return 0;
    for (int64_t i = 0; i < rows; i++) {
        cpu_plan_pick one;
        if (!pick_of(p->konst, i, inputs, turned ? 1 : inputs, turned ? rows : 1, &one)) return 0;
        if (picks) picks[i] = one;
    }
    return rows;
}

bool cpu_plan_picks_lines(const mil_op *op) { return op->info->code == MIL_OP_matmul && read_picks(op, NULL) > 0; }

const cpu_plan_pick *cpu_plan_read_picks(arena *a, const mil_op *op) {
    const mil_type *t = &op->results[0]->type;
    cpu_plan_pick *picks = ARENA_ARRAY(a, t->dim[t->rank - 2], cpu_plan_pick);
    return picks && read_picks(op, picks) ? picks : NULL;
}

bool cpu_plan_node_picks(const cpu_plan_node *n) {
    for (int i = 0; i < n->op_count; i++)
        if (cpu_plan_picks_lines(n->ops[i])) return true;
    return false;
}

const cpu_plan_binding cpu_bind_pick = {.tile = cpu_plan_picks_lines};

/* ---- picking in front of products with constants -------------------------------------------------------------------- */

/* The constant as it stands beside the picked lines; NULL: it cannot be told. */
static mil_value *picked_constant(mil_builder *b, mil_value *c, const cpu_plan_pick *picks, int64_t rows,
                                  int64_t inputs) {
    if (c->type.rank < 2 || c->type.dim[c->type.rank - 2] == 1) return c;
    mil_type type = c->type;
    const int64_t line = type.dim[type.rank - 1] * cpu_plan_dtype_bytes(type.dtype);
    const int64_t planes = mil_type_count(&type) / (inputs * type.dim[type.rank - 1]);
    if (!c->konst->data || type.dim[type.rank - 2] != inputs) return NULL;
    type.dim[type.rank - 2] = rows;
    char *data = arena_array(b->module->arena, (size_t)(planes * rows), (size_t)line);
    if (!data) {
        propane_fail_memory(&b->err, (size_t)(planes * rows * line));
        return NULL;
    }
    for (int64_t p = 0; p < planes; p++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(data + (p * rows + i) * line, (const char *)c->konst->data + (p * inputs + picks[i].line) * line,
                   (size_t)line);
    return mil_build_const(b, "picked", &type, data);
}

/* What `v` is times a constant; NULL: it is no such product. */
static mil_value *times_constant(const mil_value *v, mil_value **c) {
    if (!v->def || v->def->info->code != MIL_OP_mul) return NULL;
    for (int k = 0; k < 2; k++) {
        mil_value *x = mil_in(v->def, k ? "x" : "y"), *other = mil_in(v->def, k ? "y" : "x");
        if (!x->konst || other->konst || !mil_type_equal(&other->type, &v->type) || x->type.rank > v->type.rank)
            continue;
        *c = x;
        return other;
    }
    return NULL;
}

static propane_status push(mil_function *f, mil_op **op, propane_error *err) {
    mil_value *c = NULL, *a = times_constant(mil_in(*op, "y"), &c);
    if (!a || !cpu_plan_picks_lines(*op)) return PROPANE_OK;
    const mil_type *type = &(*op)->results[0]->type, *from = &a->type;
    const cpu_plan_pick *picks = cpu_plan_read_picks(f->module->arena, *op);
    if (!picks) return propane_fail_memory(err, (size_t)type->dim[type->rank - 2] * sizeof *picks);
    mil_builder b = {0};
    bool turned = false;
    mil_build_resume(&b, f);
    b.before = *op;
    b.stage = (*op)->stage;
    b.backward = (*op)->backward;
    PROPANE_TRY(mil_attr_bool(*op, "transpose_x", &turned, err));
    mil_value *beside = picked_constant(&b, c, picks, type->dim[type->rank - 2], from->dim[from->rank - 2]);
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

propane_status cpu_plan_push_picks(mil_function *f, propane_error *err) {
    mil_op *next;
    for (mil_op *op = f->first; op; op = next) {
        next = op->next;
        for (mil_op *before = NULL; op != before && op->info->code == MIL_OP_matmul && !op->results[0]->konst;) {
            before = op;
            PROPANE_TRY(push(f, &op, err));
        }
    }
    return PROPANE_OK;
}
