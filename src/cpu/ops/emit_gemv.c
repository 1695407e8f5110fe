/* SPDX-License-Identifier: MIT
 * Emits matrix products of weights with a few vectors.
 */
#include "cpu/ops/emit_gemv.h"

#include <string.h>

typedef struct gemv_args {
    cpu_gemv g;
    cpu_ref w, scales, x, c, residual, scratch;
    cpu_matrix_view r;
    bool has_scales, has_residual;
    struct gemv_args *next; /* another product of the same vectors in the same step */
} gemv_args;

static propane_status emit_gemv_step(const cpu_run *run, const void *args, propane_error *err) {
    const gemv_args *first = args;
    cpu_gemv g[CPU_GEMV_GROUP];
    cpu_matrix_view r = first->r;
    int count = 0;
    (void)err;
    for (const gemv_args *a = first; a; a = a->next, count++) {
        g[count] = a->g;
        g[count].threads = run->threads;
        g[count].w = cpu_ref_at(run, a->w);
        g[count].x.data = cpu_ref_at(run, a->x);
        g[count].c.data = cpu_ref_at(run, a->c);
        if (a->has_scales) g[count].scales = cpu_ref_at(run, a->scales);
    }
    if (first->has_residual) { /* such a step has only one product */
        r.data = cpu_ref_at(run, first->residual);
        g[0].residual = &r;
    }
    cpu_gemv_run_group(g, count, cpu_ref_at(run, first->scratch));
    return PROPANE_OK;
}

static bool emit_gemv_same_ref(cpu_ref a, cpu_ref b) { return a.buffer == b.buffer && a.byte == b.byte; }

/* Returns the last product of the previous step if `a` can join that step, else NULL. Products that join are q, k and
 * v, or the two halves of a feed-forward layer. */
static gemv_args *emit_gemv_group_before(const planner *p, const gemv_args *a) {
    const cpu_step *s = p->step_count ? &p->steps[p->step_count - 1] : NULL;
    if (!s || s->run != emit_gemv_step || a->has_residual) return NULL;
    gemv_args *first = (gemv_args *)(uintptr_t)s->args, *last = first;
    int count = 1;
    for (; last->next; last = last->next) count++;
    const cpu_matrix_view *x = &first->g.x, *y = &a->g.x;
    bool same = first->g.format == a->g.format && first->g.k == a->g.k && first->g.n == a->g.n &&
                emit_gemv_same_ref(first->x, a->x) && x->dtype == y->dtype && x->row_stride == y->row_stride &&
                x->col_stride == y->col_stride;
    return same && !first->has_residual && count < CPU_GEMV_GROUP && a->c.buffer != a->x.buffer ? last : NULL;
}

/* Adds a product to the previous step. */
static propane_status emit_gemv_join(planner *p, gemv_args *last, gemv_args *a, const int *touched, int count,
                                     const mil_value *makes, double flops, double bytes, propane_error *err) {
    cpu_step *s = &p->steps[--p->step_count];
    for (int i = 0; i < count; i++) cpu_emit_touch(p, touched[i]);
    p->step_count++;
    last->next = a;
    s->flops += flops;
    s->bytes += bytes;
    s->name = arena_printf(p->arena, "%s %s", s->name, makes && makes->name ? makes->name : "");
    p->program->gemv_count++;
    return s->name ? PROPANE_OK : cpu_program_no_memory(err);
}

static bool emit_gemv_is_float(const cpu_view *v) {
    return v->dtype == MIL_fp32 || v->dtype == MIL_fp16 || v->dtype == MIL_bf16;
}

bool cpu_emit_takes_gemv(const planner *p, const cpu_emit_vectors *v) {
    if (v->format >= CPU_WEIGHTS_INT8) return v->n <= CPU_GEMV_COLUMNS;
    return p->g.options.fuse && !p->g.options.round_each && !p->g.options.bf16 && v->n <= CPU_GEMV_COLUMNS &&
           v->m >= 16 && v->k >= 16 && v->w_row == v->k && v->w_col == 1 && emit_gemv_is_float(&v->w);
}

propane_status cpu_emit_gemv(planner *p, const cpu_emit_vectors *v, const mil_value *makes, propane_error *err) {
    gemv_args *a = ARENA_NEW(p->arena, gemv_args);
    if (!a) return cpu_program_no_memory(err);
    int touched[5] = {v->w.buffer, v->x.buffer, v->c.buffer}, count = 3;
    a->g = (cpu_gemv){.kernels = p->g.options.kernels, .format = v->format, .m = v->m, .k = v->k, .n = (int)v->n};
    a->g.x = v->x_matrix;
    a->g.c = v->c_matrix;
    a->r = v->residual_matrix;
    a->w = cpu_view_ref(&v->w);
    a->x = cpu_view_ref(&v->x);
    a->c = cpu_view_ref(&v->c);
    double bytes = (double)(v->m * cpu_weights_row_bytes(v->format, v->k)), flops = 2.0 * (double)(v->m * v->k * v->n);
    if (v->scales) {
        cpu_view scales;
        PROPANE_TRY(cpu_emit_operand(p, v->scales, &scales, err));
        a->scales = cpu_view_ref(&scales);
        a->has_scales = true;
        touched[count++] = scales.buffer;
        bytes += 2.0 * (double)cpu_view_count(&scales);
    }
    if (v->has_residual) {
        a->residual = cpu_view_ref(&v->residual);
        a->has_residual = true;
        touched[count++] = v->residual.buffer;
    }
    gemv_args *last = emit_gemv_group_before(p, a);
    if (last) return emit_gemv_join(p, last, a, touched, count, makes, flops, bytes, err);
    for (int i = 0; i < count; i++) cpu_emit_touch(p, touched[i]);
    PROPANE_TRY(cpu_emit_scratch(p, (int64_t)cpu_gemv_scratch_bytes(&a->g), &a->scratch, err));
    p->program->gemv_count++;
    return cpu_emit_step(p, emit_gemv_step, a, "gemv", makes, flops, bytes, err);
}
