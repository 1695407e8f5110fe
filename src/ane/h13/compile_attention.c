/* SPDX-License-Identifier: MIT
 * Compiles attention of one head as one chain: a matrix product, an optional scalar factor, softmax and a matrix
 * product, each read only by the next. All tasks of the chain are made at the last product, so the values in between
 * have no place in memory.
 */
#include "ane/h13/compile_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/mil/ops/shape_util.h"

enum { ATTENTION_ROOM = 0x1ff000 }; /* bytes of the on-chip buffer for a chain */

/* Reads a product of two computed matrices without batches. Returns false for any other operation, or if transpose_y is
 * not `transposed`. */
static bool compile_attention_product(const mil_op *op, bool transposed, lower_product *p) {
    propane_error err;
    mil_matmul m;
    *p = (lower_product){.scale = 0x3c00};
    if (op->info->code != MIL_OP_matmul) return false;
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    if (x->type.rank < 2 || y->type.rank < 2 || mil_matmul_read(op, &m, &err) ||
        mil_attr_bool(op, "transpose_x", &p->transpose_x, &err) ||
        mil_attr_bool(op, "transpose_y", &p->transpose_y, &err))
        return false;
    p->m = m.m, p->k = m.k, p->n = m.n;
    bool plain = mil_type_count(&x->type) == m.m * m.k && mil_type_count(&y->type) == m.k * m.n;
    return plain && !p->transpose_x && p->transpose_y == transposed && !x->constant && !y->constant;
}

static bool compile_attention_softmax(const compile *c, const mil_value *v) {
    propane_error err;
    int axis;
    return v->def && v->def->info->code == MIL_OP_softmax && c->users[v->id] == 1 &&
           !mil_attr_axis(v->def, "axis", v->type.rank, &axis, &err) && axis == v->type.rank - 1;
}

/* Returns the place of the scores on chip; the statistics are in front of them. */
static emit_l2 compile_attention_place(const lower_product *scores) {
    int64_t line = round_up(2 * scores->m, 16), channel = round_up(2 * scores->n, 16), row = scores->m * channel;
    return (emit_l2){line, channel, row, row, 0};
}

bool compile_attention_of(const compile *c, const mil_op *op, compile_attention *out) {
    double scale = 1;
    if (op->info->code != MIL_OP_matmul || !compile_attention_softmax(c, mil_in(op, "x"))) return false;
    *out = (compile_attention){.context = op, .softmax = mil_in(op, "x")->def};
    const mil_op *before = mil_in(out->softmax, "x")->def;
    if (before && before->info->code == MIL_OP_mul && c->users[before->results[0]->id] == 1) {
        bool second = compile_scalar(mil_in(before, "y"), &scale);
        if (!second && !compile_scalar(mil_in(before, "x"), &scale)) return false;
        out->factor = before;
        before = mil_in(before, second ? "x" : "y")->def;
    }
    out->scores = before;
    if (!before || !compile_attention_product(before, true, &out->first) || c->users[before->results[0]->id] != 1 ||
        !compile_attention_product(op, false, &out->second))
        return false;
    out->first.scale = fp16_from_f64(scale);
    emit_l2 place = compile_attention_place(&out->first);
    return lower_scores_interleave(out->first.m) && out->second.k == out->first.n && out->first.n % 32 == 0 &&
           out->first.k % 32 == 0 && place.base + place.row + lower_scores_room(&out->first) <= ATTENTION_ROOM &&
           lower_scores_room(&out->second) <= ATTENTION_ROOM;
}

bool compile_is_inner(const compile *c, const mil_op *op) {
    compile_attention a;
    mil_opcode code = op->info->code;
    engine_table table;
    bool relu;
    if (compile_activation(op, &table, &relu)) {
        const mil_op *user = compile_only_user(c, op->results[0]);
        return user && compile_brought(c, user) == op;
    }
    if (code != MIL_OP_matmul && code != MIL_OP_mul && code != MIL_OP_softmax) return false;
    const mil_op *at = op;
    for (int steps = 0; at && steps < 3; steps++) {
        at = compile_only_user(c, at->results[0]);
        if (at && at->info->code == MIL_OP_matmul)
            return compile_attention_of(c, at, &a) && (op == a.scores || op == a.factor || op == a.softmax);
    }
    return false;
}

propane_status compile_attend(compile *c, const compile_attention *a, propane_error *err) {
    emit_tensor q, k, v, y;
    emit_l2 place = compile_attention_place(&a->first);
    int il = lower_scores_interleave(a->first.m);
    int64_t line = 2 * il * a->first.n;
    PROPANE_TRY(compile_tensor(c, a->scores, mil_in(a->scores, "x"), &q, err));
    PROPANE_TRY(compile_tensor(c, a->scores, mil_in(a->scores, "y"), &k, err));
    PROPANE_TRY(compile_tensor(c, a->context, mil_in(a->context, "y"), &v, err));
    PROPANE_TRY(compile_result(c, a->context, a->context->results[0], &y, err));
    emit_tensor *const matrices[] = {&q, &k, &v, &y};
    for (int i = 0; i < 4; i++) {
        emit_tensor *m = matrices[i];
        m->h *= m->c, m->c = 1, m->plane = m->total;
    }
    emit_tensor to = {ENGINE_BAR_SCRATCH, c->e.scratch, a->first.m, 1,
                      a->first.n,         line,         line,       2 * a->first.m * a->first.n};
    lower_scores(&c->e, &a->first, &q, &k, &place);
    lower_softmax_on_chip(&c->e, &place, &to, il);
    lower_context(&c->e, &a->second, &v, &y);
    c->e.scratch += round_up(2 * a->first.m * max_i64(a->first.n, a->first.k), ENGINE_PAGE);
    return PROPANE_OK;
}
