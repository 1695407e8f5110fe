/* SPDX-License-Identifier: MIT
 * Attention that fuse_attention.c found as one step: where its operands and results lie, position by channel.
 */
#include <string.h>

#include "drivers/cpu/attention/attention.h"
#include "drivers/cpu/ops/emitters.h"
#include "drivers/cpu/plan/emit.h"
#include "mil/ops/shape_util.h"

typedef struct attention_args {
    cpu_attention a;
    cpu_ref at[CPU_ATTENTION_ROLES];
    bool used[CPU_ATTENTION_ROLES];
    cpu_ref scratch;
} attention_args;

static propane_status attention_run(const cpu_run *run, const void *args, propane_error *err) {
    const attention_args *x = args;
    cpu_attention a = x->a;
    a.threads = run->threads;
    (void)err;
    for (int r = 0; r < CPU_ATTENTION_ROLES; r++)
        if (x->used[r]) a.at[r].data = cpu_ref_at(run, x->at[r]);
    cpu_attention_run(&a, cpu_ref_at(run, x->scratch));
    return PROPANE_OK;
}

/* Bytes from the view to each item. */
static int64_t *item_offsets(planner *p, const cpu_view *v, const mil_type *scores, int64_t items) {
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

/* `turned`: the view's last dimension but one are channels. */
static propane_status set_role(planner *p, attention_args *x, cpu_attention_role role, const cpu_view *v, bool turned,
                               const mil_type *scores, propane_error *err) {
    int row = v->rank - (turned ? 1 : 2), col = v->rank - (turned ? 2 : 1);
    int64_t *offset = item_offsets(p, v, scores, x->a.items);
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

static propane_status read_role(planner *p, attention_args *x, cpu_attention_role role, const mil_op *op,
                                const char *param, const mil_type *scores, propane_error *err) {
    bool is_x = strcmp(param, "x") == 0, transposed = false;
    const mil_value *v = mil_in(op, param);
    cpu_view view;
    PROPANE_TRY(mil_attr_bool(op, is_x ? "transpose_x" : "transpose_y", &transposed, err));
    PROPANE_TRY(cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, &view, err));
    /* as first operand rows are positions, as second one they are what is summed over */
    bool turned = is_x ? transposed : !transposed;
    return set_role(p, x, role, &view, turned, scores, err);
}

/* A product with the scores as its first operand has positions as rows; as second one, channels. */
static propane_status write_role(planner *p, attention_args *x, cpu_attention_role role, const mil_op *op,
                                 bool scores_first, const mil_type *scores, propane_error *err) {
    cpu_view view;
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &view, err));
    return set_role(p, x, role, &view, !scores_first, scores, err);
}

/* Values of the forward pass: the other operand of the mix; channels by keys if the scores are second and it is not
 * transposed, or first and it is. */
static propane_status read_values(planner *p, attention_args *x, const mil_op *mix, bool scores_first,
                                  const mil_type *scores, propane_error *err) {
    bool transposed = false;
    const mil_value *v = mil_in(mix, scores_first ? "y" : "x");
    cpu_view view;
    PROPANE_TRY(mil_attr_bool(mix, scores_first ? "transpose_y" : "transpose_x", &transposed, err));
    PROPANE_TRY(cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, &view, err));
    return set_role(p, x, CPU_ATTENTION_V, &view, scores_first == transposed, scores, err);
}

/* Whether the operation's first operand is one that the node makes, and so the scores. */
static bool scores_are_first(const cpu_node *node, const mil_op *op) {
    for (int i = 0; i < node->op_count; i++)
        if (node->ops[i]->results[0] == mil_in(op, "x")) return true;
    return false;
}

static int64_t depth_of(const mil_op *op, bool transposed) {
    const mil_type *x = &mil_in(op, "x")->type;
    return x->dim[x->rank - (transposed ? 2 : 1)];
}

propane_status cpu_emit_attention(planner *p, const cpu_node *node, propane_error *err) {
    const cpu_fused_attention *f = node->attention;
    const mil_type *s = &f->scores->results[0]->type;
    attention_args *x = ARENA_NEW(p->arena, attention_args);
    bool transposed = false;
    if (f->mask) return cpu_emit_attention_decode(p, node, scores_are_first(node, f->mix), err);
    if (!x) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_attr_bool(f->scores, "transpose_x", &transposed, err));
    x->a = (cpu_attention){.kernels = p->g.options.kernels,
                           .backward = !f->mix,
                           .causal = f->causal,
                           .items = 1,
                           .rows = s->dim[s->rank - 2],
                           .keys = s->dim[s->rank - 1],
                           .period = f->period,
                           .width = depth_of(f->scores, transposed),
                           .scale = (float)f->scale};
    for (int d = 0; d < s->rank - 2; d++) x->a.items *= s->dim[d];
    PROPANE_TRY(read_role(p, x, CPU_ATTENTION_Q, f->scores, "x", s, err));
    PROPANE_TRY(read_role(p, x, CPU_ATTENTION_K, f->scores, "y", s, err));
    if (f->mix) {
        bool first = scores_are_first(node, f->mix);
        PROPANE_TRY(read_values(p, x, f->mix, first, s, err));
        PROPANE_TRY(write_role(p, x, CPU_ATTENTION_O, f->mix, first, s, err));
    } else {
        PROPANE_TRY(read_role(p, x, CPU_ATTENTION_O, f->d_probs, "x", s, err));
        PROPANE_TRY(read_role(p, x, CPU_ATTENTION_V, f->d_probs, "y", s, err));
        PROPANE_TRY(write_role(p, x, CPU_ATTENTION_DQ, f->d_query, scores_are_first(node, f->d_query), s, err));
        PROPANE_TRY(write_role(p, x, CPU_ATTENTION_DK, f->d_keys, scores_are_first(node, f->d_keys), s, err));
        PROPANE_TRY(write_role(p, x, CPU_ATTENTION_DV, f->d_values, scores_are_first(node, f->d_values), s, err));
    }
    PROPANE_TRY(cpu_emit_scratch(p, (int64_t)cpu_attention_scratch_bytes(&x->a, p->threads), &x->scratch, err));
    double scores = (double)x->a.items * (double)x->a.rows * (double)(x->a.keys + 1) / 2;
    double elements = (double)x->a.items * (double)(x->a.rows + x->a.keys) * (double)x->a.width;
    p->program->attention_count++;
    const mil_op *makes = f->mix ? f->mix : f->d_query;
    return cpu_emit_step(p, attention_run, x, "attention", makes->results[0],
                         (f->mix ? 4 : 10) * scores * (double)x->a.width, (f->mix ? 8 : 16) * elements, err);
}
