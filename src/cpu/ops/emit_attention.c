/* SPDX-License-Identifier: MIT
 * Emits attention (see fuse_attention.c) as one step: forward, backward, or with a mask that is an input. Finds the
 * strides of positions and channels in the memory of its operands and results.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/attention/attention_decode.h"
#include "cpu/ops/emitters.h"
#include "cpu/plan/emit.h"

typedef struct attention_args {
    cpu_attention a;
    cpu_ref at[CPU_ATTENTION_ROLES];
    bool used[CPU_ATTENTION_ROLES], masked;
    cpu_ref mask, scratch;
} attention_args;

static propane_status emit_attention_run(const cpu_run *run, const void *args, propane_error *err) {
    const attention_args *x = args;
    cpu_attention a = x->a;
    a.threads = run->threads;
    (void)err;
    for (int r = 0; r < CPU_ATTENTION_ROLES; r++)
        if (x->used[r]) a.at[r].data = cpu_ref_at(run, x->at[r]);
    if (x->masked) a.mask = cpu_ref_at(run, x->mask);
    (x->masked ? cpu_attention_decode_run : cpu_attention_run)(&a, cpu_ref_at(run, x->scratch));
    return PROPANE_OK;
}

/* Returns the offsets in bytes from the view to each item. */
static int64_t *emit_attention_item_offsets(planner *p, const cpu_view *v, const mil_type *scores, int64_t items) {
    int64_t *out = ARENA_ARRAY(p->arena, items + 1, int64_t), stride[MIL_MAX_RANK];
    cpu_view lead = *v;
    lead.rank = v->rank > 2 ? v->rank - 2 : 0;
    cpu_view_spread(&lead, scores->rank - 2, scores->dim, stride);
    for (int64_t i = 0; out && i < items; i++) {
        int64_t rest = i;
        for (int d = scores->rank - 3; d >= 0; d--) {
            out[i] += rest % scores->dim[d] * stride[d] * cpu_view_dtype_bytes(v->dtype);
            rest /= scores->dim[d];
        }
    }
    return out;
}

/* `turned` means that the view's second-to-last dimension holds the channels. */
static propane_status emit_attention_set_role(planner *p, attention_args *x, cpu_attention_role role, const cpu_view *v,
                                              bool turned, const mil_type *scores, propane_error *err) {
    int row = v->rank - (turned ? 1 : 2), col = v->rank - (turned ? 2 : 1);
    int64_t *offset = emit_attention_item_offsets(p, v, scores, x->a.items);
    if (!offset) return cpu_program_no_memory(err);
    x->a.at[role] = (cpu_attention_operand){.dtype = v->dtype == MIL_fp16 ? CPU_F16 : CPU_F32,
                                            .row = v->stride[row],
                                            .col = v->stride[col],
                                            .offset = offset};
    x->at[role] = cpu_view_ref(v);
    x->used[role] = true;
    cpu_emit_touch(p, v->buffer);
    return PROPANE_OK;
}

static propane_status emit_attention_read_role(planner *p, attention_args *x, cpu_attention_role role, const mil_op *op,
                                               const char *param, const mil_type *scores, propane_error *err) {
    bool is_x = strcmp(param, "x") == 0, transposed = false;
    const mil_value *v = mil_in(op, param);
    cpu_view view;
    PROPANE_TRY(mil_attr_bool(op, is_x ? "transpose_x" : "transpose_y", &transposed, err));
    PROPANE_TRY(cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, &view, err));
    /* Unless transposed, the first operand has positions as rows, and the second has the channels that are summed
     * over. */
    bool turned = is_x ? transposed : !transposed;
    return emit_attention_set_role(p, x, role, &view, turned, scores, err);
}

/* The result of a matrix product has positions as rows if the scores are its first operand, else channels. */
static propane_status emit_attention_write_role(planner *p, attention_args *x, cpu_attention_role role,
                                                const mil_op *op, bool scores_first, const mil_type *scores,
                                                propane_error *err) {
    cpu_view view;
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &view, err));
    return emit_attention_set_role(p, x, role, &view, !scores_first, scores, err);
}

/* Reads the values of the forward pass, which are the other operand of the mix. They are channels by keys if the scores
 * come first and the values are transposed, or if the scores come second and the values are not transposed. */
static propane_status emit_attention_read_values(planner *p, attention_args *x, const mil_op *mix, bool scores_first,
                                                 const mil_type *scores, propane_error *err) {
    bool transposed = false;
    const mil_value *v = mil_in(mix, scores_first ? "y" : "x");
    cpu_view view;
    PROPANE_TRY(mil_attr_bool(mix, scores_first ? "transpose_y" : "transpose_x", &transposed, err));
    PROPANE_TRY(cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, &view, err));
    return emit_attention_set_role(p, x, CPU_ATTENTION_V, &view, scores_first == transposed, scores, err);
}

/* Returns true if the node makes the operation's first operand, which is then the scores. */
static bool emit_attention_scores_are_first(const cpu_node *node, const mil_op *op) {
    for (int i = 0; i < node->op_count; i++)
        if (node->ops[i]->results[0] == mil_in(op, "x")) return true;
    return false;
}

static int64_t emit_attention_depth_of(const mil_op *op, bool transposed) {
    const mil_type *x = &mil_in(op, "x")->type;
    return x->dim[x->rank - (transposed ? 2 : 1)];
}

/* Makes the last two dimensions positions and channels. */
static cpu_view emit_attention_positions_first(const cpu_view *v, bool turned) {
    int perm[MIL_MAX_RANK];
    for (int d = 0; d < v->rank; d++) perm[d] = d;
    if (turned) perm[v->rank - 2] = v->rank - 1, perm[v->rank - 1] = v->rank - 2;
    return cpu_view_permute(v, perm);
}

static propane_status emit_attention_operand_of(planner *p, const mil_op *op, bool is_x, bool turned, cpu_view *out,
                                                propane_error *err) {
    bool transposed = false;
    const mil_value *v = mil_in(op, is_x ? "x" : "y");
    PROPANE_TRY(mil_attr_bool(op, is_x ? "transpose_x" : "transpose_y", &transposed, err));
    PROPANE_TRY(cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, out, err));
    *out = emit_attention_positions_first(out, turned != transposed);
    return PROPANE_OK;
}

/* Reads attention with a mask that is an input (attention_decode.h): positions come first, channels are adjacent. */
static propane_status emit_attention_read_masked(planner *p, attention_args *x, const cpu_node *node,
                                                 propane_error *err) {
    const cpu_fused_attention *f = node->attention;
    const mil_type *s = &f->scores->results[0]->type;
    const bool first = emit_attention_scores_are_first(node, f->mix);
    cpu_view q, k, v, o, mask;
    PROPANE_TRY(emit_attention_operand_of(p, f->scores, true, false, &q, err));
    PROPANE_TRY(emit_attention_operand_of(p, f->scores, false, true, &k, err));
    PROPANE_TRY(emit_attention_operand_of(p, f->mix, !first, !first, &v, err));
    PROPANE_TRY(cpu_emit_operand(p, f->mask, &mask, err));
    PROPANE_TRY(cpu_emit_dense(p, f->mask, &mask, &mask, err));
    if (k.stride[k.rank - 1] != 1) PROPANE_TRY(cpu_emit_dense(p, f->scores->results[0], &k, &k, err));
    if (v.stride[v.rank - 1] != 1) PROPANE_TRY(cpu_emit_dense(p, f->mix->results[0], &v, &v, err));
    PROPANE_TRY(cpu_emit_result(p, f->mix->results[0], &o, err));
    o = emit_attention_positions_first(&o, !first);
    PROPANE_TRY(emit_attention_set_role(p, x, CPU_ATTENTION_Q, &q, false, s, err));
    PROPANE_TRY(emit_attention_set_role(p, x, CPU_ATTENTION_K, &k, false, s, err));
    PROPANE_TRY(emit_attention_set_role(p, x, CPU_ATTENTION_V, &v, false, s, err));
    PROPANE_TRY(emit_attention_set_role(p, x, CPU_ATTENTION_O, &o, false, s, err));
    x->masked = true;
    x->mask = cpu_view_ref(&mask);
    x->a.mask_dtype = mask.dtype == MIL_fp16 ? CPU_F16 : CPU_F32;
    cpu_emit_touch(p, mask.buffer);
    return PROPANE_OK;
}

/* Reads the forward pass, in which each row sees all keys or those up to its position. */
static propane_status emit_attention_read_forward(planner *p, attention_args *x, const cpu_node *node,
                                                  propane_error *err) {
    const cpu_fused_attention *f = node->attention;
    const mil_type *s = &f->scores->results[0]->type;
    const bool first = emit_attention_scores_are_first(node, f->mix);
    PROPANE_TRY(emit_attention_read_role(p, x, CPU_ATTENTION_Q, f->scores, "x", s, err));
    PROPANE_TRY(emit_attention_read_role(p, x, CPU_ATTENTION_K, f->scores, "y", s, err));
    PROPANE_TRY(emit_attention_read_values(p, x, f->mix, first, s, err));
    return emit_attention_write_role(p, x, CPU_ATTENTION_O, f->mix, first, s, err);
}

static propane_status emit_attention_read_backward(planner *p, attention_args *x, const cpu_node *node,
                                                   propane_error *err) {
    const cpu_fused_attention *f = node->attention;
    const mil_type *s = &f->scores->results[0]->type;
    PROPANE_TRY(emit_attention_read_role(p, x, CPU_ATTENTION_Q, f->scores, "x", s, err));
    PROPANE_TRY(emit_attention_read_role(p, x, CPU_ATTENTION_K, f->scores, "y", s, err));
    PROPANE_TRY(emit_attention_read_role(p, x, CPU_ATTENTION_O, f->d_probs, "x", s, err));
    PROPANE_TRY(emit_attention_read_role(p, x, CPU_ATTENTION_V, f->d_probs, "y", s, err));
    PROPANE_TRY(emit_attention_write_role(p, x, CPU_ATTENTION_DQ, f->d_query,
                                          emit_attention_scores_are_first(node, f->d_query), s, err));
    PROPANE_TRY(emit_attention_write_role(p, x, CPU_ATTENTION_DK, f->d_keys,
                                          emit_attention_scores_are_first(node, f->d_keys), s, err));
    return emit_attention_write_role(p, x, CPU_ATTENTION_DV, f->d_values,
                                     emit_attention_scores_are_first(node, f->d_values), s, err);
}

propane_status cpu_emit_attention(planner *p, const cpu_node *node, propane_error *err) {
    const cpu_fused_attention *f = node->attention;
    const mil_type *s = &f->scores->results[0]->type;
    attention_args *x = ARENA_NEW(p->arena, attention_args);
    bool transposed = false;
    if (!x) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_attr_bool(f->scores, "transpose_x", &transposed, err));
    x->a = (cpu_attention){.kernels = p->g.options.kernels,
                           .backward = !f->mix,
                           .causal = f->causal,
                           .items = 1,
                           .rows = s->dim[s->rank - 2],
                           .keys = s->dim[s->rank - 1],
                           .period = f->period,
                           .width = emit_attention_depth_of(f->scores, transposed),
                           .scale = (float)f->scale};
    for (int d = 0; d < s->rank - 2; d++) x->a.items *= s->dim[d];
    PROPANE_TRY((f->mask  ? emit_attention_read_masked
                 : f->mix ? emit_attention_read_forward
                          : emit_attention_read_backward)(p, x, node, err));
    const size_t scratch =
        (f->mask ? cpu_attention_decode_scratch_bytes : cpu_attention_scratch_bytes)(&x->a, p->threads);
    PROPANE_TRY(cpu_emit_scratch(p, (int64_t)scratch, &x->scratch, err));
    const double rows = (double)x->a.rows, keys = (double)x->a.keys, items = (double)x->a.items;
    const double scores = f->mask ? items * rows * keys : items * rows * (keys + 1) / 2;
    const double elements = items * (f->mask ? keys : rows + keys) * (double)x->a.width;
    p->program->attention_count++;
    return cpu_emit_step(p, emit_attention_run, x, "attention", (f->mix ? f->mix : f->d_query)->results[0],
                         (f->mix ? 4 : 10) * scores * (double)x->a.width, (f->mix ? 8 : 16) * elements, err);
}
