/* SPDX-License-Identifier: MIT
 * Attention behind a mask that is an input, found by fuse_attention.c, as one step (attention_decode.h).
 */
#include <string.h>

#include "drivers/cpu/attention/attention_decode.h"
#include "drivers/cpu/ops/emitters.h"
#include "drivers/cpu/plan/emit.h"

typedef struct decode_args {
    cpu_attention_decode a;
    cpu_ref q, k, v, o, mask, scratch;
} decode_args;

static propane_status decode_step(const cpu_run *run, const void *args, propane_error *err) {
    const decode_args *x = args;
    cpu_attention_decode a = x->a;
    a.threads = run->threads;
    (void)err;
    a.q.data = cpu_ref_at(run, x->q);
    a.k.data = cpu_ref_at(run, x->k);
    a.v.data = cpu_ref_at(run, x->v);
    a.o.data = cpu_ref_at(run, x->o);
    a.mask = cpu_ref_at(run, x->mask);
    cpu_attention_decode_run(&a, cpu_ref_at(run, x->scratch));
    return PROPANE_OK;
}

/* The last two dimensions become positions and channels. */
static cpu_view positions_first(const cpu_view *v, bool turned) {
    int perm[MIL_MAX_RANK];
    for (int d = 0; d < v->rank; d++) perm[d] = d;
    if (turned) perm[v->rank - 2] = v->rank - 1, perm[v->rank - 1] = v->rank - 2;
    return cpu_view_permute(v, perm);
}

static propane_status operand_of(planner *p, const mil_op *op, bool is_x, bool turned, cpu_view *out,
                                 propane_error *err) {
    bool transposed = false;
    const mil_value *v = mil_in(op, is_x ? "x" : "y");
    PROPANE_TRY(mil_attr_bool(op, is_x ? "transpose_x" : "transpose_y", &transposed, err));
    PROPANE_TRY(cpu_emit_operand(p, p->g.absorbed[v->id] ? mil_in(v->def, "x") : v, out, err));
    *out = positions_first(out, turned != transposed);
    return PROPANE_OK;
}

static propane_status role(planner *p, const cpu_view *v, const mil_type *scores, int64_t items,
                           cpu_attention_operand *out, cpu_ref *ref, propane_error *err) {
    int64_t *offset = ARENA_ARRAY(p->arena, items + 1, int64_t), stride[MIL_MAX_RANK];
    cpu_view lead = *v;
    if (!offset) return cpu_program_no_memory(err);
    lead.rank = v->rank > 2 ? v->rank - 2 : 0;
    cpu_view_spread(&lead, scores->rank - 2, scores->dim, stride);
    for (int64_t i = 0; i < items; i++) {
        int64_t rest = i;
        for (int d = scores->rank - 3; d >= 0; d--) {
            offset[i] += rest % scores->dim[d] * stride[d] * cpu_view_dtype_bytes(v->dtype);
            rest /= scores->dim[d];
        }
    }
    *out = (cpu_attention_operand){.dtype = v->dtype == MIL_fp16 ? CPU_F16 : CPU_F32,
                                   .row = v->stride[v->rank - 2],
                                   .col = v->stride[v->rank - 1],
                                   .offset = offset};
    *ref = cpu_view_ref(v);
    cpu_emit_touch(p, v->buffer);
    return PROPANE_OK;
}

propane_status cpu_emit_attention_decode(planner *p, const cpu_node *node, bool scores_first, propane_error *err) {
    const cpu_fused_attention *f = node->attention;
    const mil_type *s = &f->scores->results[0]->type;
    decode_args *x = ARENA_NEW(p->arena, decode_args);
    cpu_view q, k, v, o, mask;
    if (!x) return cpu_program_no_memory(err);
    x->a = (cpu_attention_decode){.kernels = p->g.options.kernels,
                                  .items = 1,
                                  .rows = s->dim[s->rank - 2],
                                  .keys = s->dim[s->rank - 1],
                                  .period = f->period,
                                  .scale = (float)f->scale};
    for (int d = 0; d < s->rank - 2; d++) x->a.items *= s->dim[d];
    PROPANE_TRY(operand_of(p, f->scores, true, false, &q, err));
    PROPANE_TRY(operand_of(p, f->scores, false, true, &k, err));
    PROPANE_TRY(operand_of(p, f->mix, !scores_first, !scores_first, &v, err));
    PROPANE_TRY(cpu_emit_operand(p, f->mask, &mask, err));
    PROPANE_TRY(cpu_emit_dense(p, f->mask, &mask, &mask, err));
    x->a.width = q.dim[q.rank - 1];
    if (k.stride[k.rank - 1] != 1) PROPANE_TRY(cpu_emit_dense(p, f->scores->results[0], &k, &k, err));
    if (v.stride[v.rank - 1] != 1) PROPANE_TRY(cpu_emit_dense(p, f->mix->results[0], &v, &v, err));
    PROPANE_TRY(cpu_emit_result(p, f->mix->results[0], &o, err));
    o = positions_first(&o, !scores_first);
    PROPANE_TRY(role(p, &q, s, x->a.items, &x->a.q, &x->q, err));
    PROPANE_TRY(role(p, &k, s, x->a.items, &x->a.k, &x->k, err));
    PROPANE_TRY(role(p, &v, s, x->a.items, &x->a.v, &x->v, err));
    PROPANE_TRY(role(p, &o, s, x->a.items, &x->a.o, &x->o, err));
    x->mask = cpu_view_ref(&mask);
    x->a.mask_dtype = mask.dtype == MIL_fp16 ? CPU_F16 : CPU_F32;
    cpu_emit_touch(p, mask.buffer);
    PROPANE_TRY(cpu_emit_scratch(p, (int64_t)cpu_attention_decode_scratch_bytes(&x->a, p->threads), &x->scratch, err));
    double scores = (double)x->a.items * (double)x->a.rows * (double)x->a.keys;
    p->program->attention_count++;
    return cpu_emit_step(p, decode_step, x, "attention", f->mix->results[0], 4 * scores * (double)x->a.width,
                         8.0 * (double)x->a.items * (double)x->a.keys * (double)x->a.width, err);
}
