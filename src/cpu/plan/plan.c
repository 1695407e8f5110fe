/* SPDX-License-Identifier: MIT
 * Owns the pipeline: the stages of planning. Only this file defines their order.
 *
 *   copy       into a separate module, passes (plan_copy.c)
 *   lower      composite operations to simple ones, permutations before matrix products, constants (lower/)
 *   graph      the operations that results depend on, and readers (graph.c)
 *   fuse       operations to nodes (fuse/)
 *   place      which values are computed directly where they must end up: outputs, parts of a concat (plan_place.c);
 *              which images have their channels innermost (plan_channels.c)
 *   emit       each node's emitter adds steps (ops/)
 *   memory     lifetimes, in place, one block for all (plan_memory.c)
 */
#include "cpu/plan/plan.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/pass/pass.h"
#include "cpu/fuse/fuse.h"
#include "cpu/lower/lower.h"
#include "cpu/ops/emitters.h"
#include "cpu/plan/plan_stages.h"
#include "cpu/plan/table.h"

/* ---- inputs and outputs ------------------------------------------------------------------------------------------ */

static propane_status plan_io_dtype(const char *function, const mil_value *v, propane_dtype *out, propane_error *err) {
    switch (v->type.dtype) {
    case MIL_fp16: *out = PROPANE_FP16; return PROPANE_OK;
    case MIL_fp32: *out = PROPANE_FP32; return PROPANE_OK;
    case MIL_int32: *out = PROPANE_INT32; return PROPANE_OK;
    case MIL_bool: *out = PROPANE_BOOL; return PROPANE_OK;
    case MIL_int8: *out = PROPANE_INT8; return PROPANE_OK;
    case MIL_uint8: *out = PROPANE_UINT8; return PROPANE_OK;
    case MIL_int16: *out = PROPANE_INT16; return PROPANE_OK;
    case MIL_uint16: *out = PROPANE_UINT16; return PROPANE_OK;
    case MIL_bf16: *out = PROPANE_BF16; return PROPANE_OK;
    default:
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "function '%s': the cpu driver does not support inputs or outputs of type %s ('%s'); cast it", function,
            mil_dtype_get(v->type.dtype)->name, v->name);
    }
}

static propane_status plan_describe_io(planner *p, mil_value *const *values, int count, propane_io **out,
                                       propane_error *err) {
    *out = ARENA_ARRAY(p->arena, count + 1, propane_io);
    if (!*out) return cpu_program_no_memory(err);
    for (int i = 0; i < count; i++) {
        propane_io *io = &(*out)[i];
        cpu_view dense = cpu_view_dense(&values[i]->type, 0);
        PROPANE_TRY(plan_io_dtype(p->g.f->name, values[i], &io->dtype, err));
        int64_t element = cpu_view_dtype_bytes(values[i]->type.dtype);
        io->name = arena_string(p->arena, values[i]->name ? values[i]->name : ""); /* a block's literal has no name */
        if (!io->name) return cpu_program_no_memory(err);
        io->rank = dense.rank;
        for (int d = 0; d < dense.rank; d++) {
            io->dim[d] = dense.dim[d];
            io->stride[d] = dense.stride[d] * element;
        }
        io->bytes = (size_t)cpu_view_type_bytes(&values[i]->type);
    }
    return PROPANE_OK;
}

/* Lists inputs and outputs. The names come from the original function, because lowering may have replaced its
 * results. */
static propane_status plan_list_io(planner *p, const mil_function *given, propane_error *err) {
    cpu_program *out = p->program;
    out->input_count = p->g.f->param_count;
    out->output_count = p->g.f->result_count;
    PROPANE_TRY(plan_describe_io(p, given->params, given->param_count, &out->inputs, err));
    PROPANE_TRY(plan_describe_io(p, given->results, given->result_count, &out->outputs, err));
    out->in = ARENA_ARRAY(p->arena, out->input_count + 1, void *);
    out->out = ARENA_ARRAY(p->arena, out->output_count + 1, void *);
    if (!out->in || !out->out) return cpu_program_no_memory(err);
    for (int i = 0; i < p->g.f->param_count; i++) {
        const mil_value *v = p->g.f->params[i];
        int b = cpu_emit_buffer(p, CPU_STORAGE_INPUT, (int64_t)out->inputs[i].bytes);
        if (b < 0) return cpu_program_no_memory(err);
        p->buffers[b].index = i;
        p->views[v->id] = cpu_view_dense(&v->type, b);
    }
    return PROPANE_OK;
}

/* ---- emission ---------------------------------------------------------------------------------------------------- */

static propane_status plan_emit_view(planner *p, const mil_op *op, const cpu_emitter *b, propane_error *err) {
    cpu_view source, out;
    PROPANE_TRY(cpu_emit_operand(p, op->operands[0].values[0], &source, err));
    for (int r = 0; r < op->result_count; r++) {
        if (!b->view(op, r, &source, &out)) {
            PROPANE_TRY(cpu_emit_dense(p, op->results[r], &source, &source, err));
            if (!b->view(op, r, &source, &out))
                return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "the cpu driver has no layout for its result");
        }
        p->views[op->results[r]->id] = out;
    }
    return PROPANE_OK;
}
static propane_status plan_emit_op(planner *p, const cpu_node *n, propane_error *err) {
    const cpu_emitter *e = cpu_emitter_of(n->ops[0]);
    return e->view ? plan_emit_view(p, n->ops[0], e, err) : e->emit(p, n->ops[0], err);
}

static propane_status plan_emit_nothing(planner *p, const cpu_node *n, propane_error *err) { return PROPANE_OK; }

static propane_status (*const plan_emitters[])(planner *p, const cpu_node *n, propane_error *err) = {
    [CPU_NODE_OP] = plan_emit_op,
    [CPU_NODE_TILE] = cpu_emit_elementwise,
    [CPU_NODE_GEMM] = cpu_emit_matmul,
    [CPU_NODE_ATTENTION] = cpu_emit_attention,
    [CPU_NODE_FUSED_CONV] = cpu_emit_fused_conv,
    [CPU_NODE_ABSORBED] = plan_emit_nothing,
};

static propane_status plan_emit_nodes(planner *p, propane_error *err) {
    for (int i = 0; i < p->g.order_count; i++) {
        const cpu_node *n = &p->g.nodes[p->g.order[i]];
        p->current = n->ops[0];
        PROPANE_TRY(plan_emitters[n->kind](p, n, err));
    }
    return PROPANE_OK;
}

static propane_status plan_emit_results(planner *p, propane_error *err) {
    for (int b = 0; b < p->buffer_count; b++) {
        if (p->buffers[b].place != CPU_STORAGE_OUTPUT) continue;
        const mil_value *v = p->g.f->results[p->buffers[b].index];
        cpu_view want = cpu_view_dense(&v->type, b), have;
        PROPANE_TRY(cpu_emit_operand(p, v, &have, err));
        if (!cpu_view_equal(&want, &have)) PROPANE_TRY(cpu_emit_copy(p, v, &have, &want, err));
    }
    return PROPANE_OK;
}

static propane_status plan_keep_constants(planner *p, propane_error *err) {
    cpu_program *out = p->program;
    int64_t bytes = 0;
    for (int b = 0; b < p->buffer_count; b++) {
        cpu_buffer *o = &p->buffers[b];
        if (o->place != CPU_STORAGE_CONST || o->first > o->last) continue;
        o->offset = bytes;
        bytes += (o->bytes + 63) / 64 * 64;
    }
    if (!bytes) return PROPANE_OK;
    out->constants = mem_pages_alloc((size_t)bytes);
    if (!out->constants) return propane_fail_memory(err, (size_t)bytes);
    out->constant_bytes = (size_t)bytes;
    for (int b = 0; b < p->buffer_count; b++) {
        const cpu_buffer *o = &p->buffers[b];
        if (o->place == CPU_STORAGE_CONST && o->first <= o->last)
            memcpy((unsigned char *)out->constants + o->offset, o->data, (size_t)o->bytes);
    }
    return PROPANE_OK;
}

static propane_status plan_count_fusions(planner *p, propane_error *err) {
    cpu_program *out = p->program;
    out->fusion_count = cpu_fuse_rule_count();
    out->fusions = ARENA_ARRAY(p->arena, out->fusion_count, cpu_fusion);
    if (!out->fusions) return cpu_program_no_memory(err);
    for (int r = 0; r < out->fusion_count; r++) out->fusions[r] = (cpu_fusion){cpu_fuse_rule_name(r), p->g.fired[r]};
    return PROPANE_OK;
}

static propane_status plan_finish(planner *p, propane_error *err) {
    cpu_program *out = p->program;
    PROPANE_TRY(cpu_plan_memory(p, err));
    PROPANE_TRY(plan_keep_constants(p, err));
    PROPANE_TRY(plan_count_fusions(p, err));
    out->buffer_count = p->buffer_count;
    out->step_count = p->step_count;
    out->buffers = arena_copy(p->arena, p->buffers, (size_t)p->buffer_count * sizeof *p->buffers);
    out->steps = arena_copy(p->arena, p->steps, (size_t)p->step_count * sizeof *p->steps);
    out->base = ARENA_ARRAY(p->arena, p->buffer_count + 1, unsigned char *);
    if (!out->buffers || !out->steps || !out->base) return cpu_program_no_memory(err);
    for (int b = 0; b < out->buffer_count; b++) {
        out->buffers[b].data = NULL;
        if (out->buffers[b].place == CPU_STORAGE_CONST && out->constants)
            out->base[b] = (unsigned char *)out->constants + out->buffers[b].offset;
    }
    return PROPANE_OK;
}

/* Marks all values as having no buffer and no place. */
static propane_status plan_values(planner *p, propane_error *err) {
    const int values = p->g.f->value_count;
    p->views = ARENA_ARRAY(p->work, values + 1, cpu_view);
    p->placed = ARENA_ARRAY(p->work, values + 1, cpu_view);
    p->is_placed = ARENA_ARRAY(p->work, values + 1, bool);
    if (!p->views || !p->placed || !p->is_placed) return cpu_program_no_memory(err);
    for (int i = 0; i < values; i++) p->views[i].buffer = -1;
    return PROPANE_OK;
}

static propane_status plan_cpu_plan_function(planner *p, const mil_function *f, propane_error *err) {
    PROPANE_TRY(cpu_plan_copy_function(p, f, err));
    PROPANE_TRY(pass_run(p->g.f, &pass_all, err));
    PROPANE_TRY(cpu_lower_function(p->g.f, err));
    PROPANE_TRY(cpu_lower_permutations(p->g.f, err));
    PROPANE_TRY(cpu_lower_constants(p->g.f, p->work, err));
    PROPANE_TRY(cpu_graph_build(&p->g, err));
    PROPANE_TRY(cpu_fuse(&p->g, err));
    PROPANE_TRY(cpu_graph_sort(&p->g, err));
    PROPANE_TRY(plan_values(p, err));
    PROPANE_TRY(plan_list_io(p, f, err));
    PROPANE_TRY(cpu_plan_place_values(p, err));
    PROPANE_TRY(cpu_plan_place_channels(p, err));
    PROPANE_TRY(plan_emit_nodes(p, err));
    PROPANE_TRY(plan_emit_results(p, err));
    return p->check ? PROPANE_OK : plan_finish(p, err);
}

static propane_status plan_make(const mil_function *f, const cpu_plan_options *options, arena *a, bool check,
                                cpu_program **out, propane_error *err) {
    planner p = {
        .arena = a, .work = arena_create(), .threads = pool_threads(), .check = check, .plan = cpu_plan_compile};
    p.g = (cpu_graph){.work = p.work, .options = *options, .threads = p.threads};
    p.program = p.work ? ARENA_NEW(a, cpu_program) : NULL;
    propane_status status;
    if (p.program) {
        p.program->arena = a;
        p.program->threads = options->threads;
        p.program->guard = options->guard;
        p.program->planned_threads = p.threads;
        status = plan_cpu_plan_function(&p, f, err);
    } else {
        status = cpu_program_no_memory(err);
    }
    if (status == PROPANE_OK && p.program->reference_count)
        p.program->module = p.module;
    else
        mil_module_free(p.module);
    arena_free(p.work);
    if (status != PROPANE_OK && p.program) cpu_program_deinit(p.program);
    *out = status == PROPANE_OK ? p.program : NULL;
    return status;
}

propane_status cpu_plan_compile(const mil_function *f, const cpu_plan_options *options, arena *a, cpu_program **out,
                                propane_error *err) {
    return plan_make(f, options, a, false, out, err);
}

propane_status cpu_plan_check(const mil_function *f, const cpu_plan_options *options, propane_error *why) {
    cpu_program *program = NULL;
    arena *a = arena_create();
    if (!a) return cpu_program_no_memory(why);
    const propane_status status = plan_make(f, options, a, true, &program, why);
    cpu_program_deinit(program);
    arena_free(a);
    return status;
}
