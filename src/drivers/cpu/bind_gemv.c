/* SPDX-License-Identifier: MIT
 * Products of a matrix of weights with a few vectors as steps of a plan.
 */
#include "drivers/cpu/bind_gemv.h"

#include <string.h>

typedef struct gemv_args {
    cpu_gemv g;
    cpu_plan_ref w, scales, x, c, residual, scratch;
    cpu_matrix r;
    bool has_scales, has_residual;
} gemv_args;

static propane_status gemv_step(const cpu_run *run, const void *args, propane_error *err) {
    const gemv_args *a = args;
    cpu_gemv g = a->g;
    cpu_matrix r = a->r;
    (void)err;
    g.w = cpu_plan_at(run, a->w);
    g.x.data = cpu_plan_at(run, a->x);
    g.c.data = cpu_plan_at(run, a->c);
    if (a->has_scales) g.scales = cpu_plan_at(run, a->scales);
    if (a->has_residual) {
        r.data = cpu_plan_at(run, a->residual);
        g.residual = &r;
    }
    cpu_gemv_run(&g, cpu_plan_at(run, a->scratch));
    return PROPANE_OK;
}

static bool is_float(const cpu_view *v) { return v->dtype == MIL_fp32 || v->dtype == MIL_fp16 || v->dtype == MIL_bf16; }

bool cpu_plan_gemv_takes(const planner *p, const cpu_plan_gemv *v) {
    if (v->format >= CPU_WEIGHTS_INT8) return v->n <= CPU_GEMV_COLUMNS;
    return p->options.fuse && !p->options.round_each && !p->options.bf16 && v->n <= CPU_GEMV_COLUMNS && v->m >= 16 &&
           v->k >= 16 && v->w_row == v->k && v->w_col == 1 && is_float(&v->w);
}

propane_status cpu_plan_emit_gemv(planner *p, const cpu_plan_gemv *v, const mil_value *makes, propane_error *err) {
    gemv_args *a = ARENA_NEW(p->arena, gemv_args);
    if (!a) return cpu_plan_no_memory(p, err);
    a->g = (cpu_gemv){.isa = p->options.isa, .format = v->format, .m = v->m, .k = v->k, .n = (int)v->n};
    a->g.x = v->x_matrix;
    a->g.c = v->c_matrix;
    a->r = v->residual_matrix;
    a->w = cpu_view_ref(&v->w);
    a->x = cpu_view_ref(&v->x);
    a->c = cpu_view_ref(&v->c);
    cpu_plan_touch(p, v->w.buffer);
    cpu_plan_touch(p, v->x.buffer);
    cpu_plan_touch(p, v->c.buffer);
    double bytes = (double)(v->m * cpu_weights_row_bytes(v->format, v->k));
    if (v->scales) {
        cpu_view scales;
        PROPANE_TRY(cpu_plan_operand(p, v->scales, &scales, err));
        a->scales = cpu_view_ref(&scales);
        a->has_scales = true;
        cpu_plan_touch(p, scales.buffer);
        bytes += 2.0 * (double)cpu_view_count(&scales);
    }
    if (v->has_residual) {
        a->residual = cpu_view_ref(&v->residual);
        a->has_residual = true;
        cpu_plan_touch(p, v->residual.buffer);
    }
    PROPANE_TRY(cpu_plan_scratch(p, (int64_t)cpu_gemv_scratch_bytes(&a->g), &a->scratch, err));
    p->program->gemv_count++;
    return cpu_plan_emit(p, gemv_step, a, "gemv", makes, 2.0 * (double)(v->m * v->k * v->n), bytes, err);
}
