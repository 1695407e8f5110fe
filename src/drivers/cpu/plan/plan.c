/* SPDX-License-Identifier: MIT
 * The planner's main line and what its stages share: buffers, steps, operands. See plan.h for the way of a function.
 */
#include "drivers/cpu/plan/plan.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"
#include "mil/coreml/blob.h"
#include "pass/pass.h"

/* ---- bindings: the CPU column ------------------------------------------------------------------------------------------ */

#define CPU_NONE 0
#include "drivers/cpu/simd/elementwise.h"

static const struct {
    const cpu_plan_binding *binding;
    int code;
} bindings[MIL_OP_COUNT] = {
#define CPU(bind, code)                                        {&cpu_bind_##bind, (int)CPU_##code}
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) [MIL_OP_##name] = cpu,
#include "mil/ops.def"
};

const cpu_plan_binding *cpu_plan_binding_of(const mil_op *op) {
    const cpu_plan_binding *b = bindings[op->info->code].binding;
    if (b == &cpu_bind_matmul && cpu_plan_picks_lines(op)) return &cpu_bind_pick;
    if (b->takes && !b->takes(op)) return &cpu_bind_reference;
    if (b->tile && !b->tile(op)) return cpu_plan_takes_scalar(op) ? &cpu_bind_scalar : &cpu_bind_reference;
    return b->tile || b->view || b->emit ? b : &cpu_bind_reference;
}

const cpu_plan_binding *cpu_plan_lowering_of(const mil_op *op) {
    const cpu_plan_binding *b = bindings[op->info->code].binding;
    return b->lower ? b : NULL;
}

int cpu_plan_code_of(const mil_op *op) { return bindings[op->info->code].code; }

/* ---- buffers, steps ------------------------------------------------------------------------------------------------------ */

propane_status cpu_plan_no_memory(planner *p, propane_error *err) {
    (void)p;
    return propane_fail(err, PROPANE_ERR_MEMORY, "no memory for the plan of a program");
}

/* Room for one more in an array of the work arena. */
static bool grow(planner *p, void **array, int count, int *capacity, size_t size) {
    if (count < *capacity) return true;
    int more = *capacity ? *capacity * 2 : 64;
    void *bigger = arena_array(p->work, (size_t)more, size);
    if (!bigger) return false;
    if (count) memcpy(bigger, *array, (size_t)count * size);
    *array = bigger;
    *capacity = more;
    return true;
}

int cpu_plan_buffer_add(planner *p, cpu_plan_place place, int64_t bytes) {
    if (!grow(p, (void **)&p->buffers, p->buffer_count, &p->buffer_capacity, sizeof *p->buffers)) return -1;
    p->buffers[p->buffer_count] =
        (cpu_plan_buffer){.place = place, .bytes = bytes, .first = 1 << 30, .last = -1, .alias = -1};
    return p->buffer_count++;
}

void cpu_plan_touch(planner *p, int buffer) {
    cpu_plan_buffer *b = &p->buffers[buffer];
    if (b->first > p->step_count) b->first = p->step_count;
    b->last = p->step_count;
}

propane_status cpu_plan_scratch(planner *p, int64_t bytes, cpu_plan_ref *out, propane_error *err) {
    int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, bytes ? bytes : 64);
    if (b < 0) return cpu_plan_no_memory(p, err);
    cpu_plan_touch(p, b);
    *out = (cpu_plan_ref){b, 0};
    return PROPANE_OK;
}

propane_status cpu_plan_emit(planner *p, cpu_plan_step_run run, const void *args, const char *kind,
                             const mil_value *makes, double flops, double bytes, propane_error *err) {
    if (!grow(p, (void **)&p->steps, p->step_count, &p->step_capacity, sizeof *p->steps))
        return cpu_plan_no_memory(p, err);
    cpu_plan_step *s = &p->steps[p->step_count++];
    *s = (cpu_plan_step){.run = run, .args = args, .kind = kind, .flops = flops, .bytes = bytes};
    s->name = arena_string(p->arena, makes && makes->name ? makes->name : "");
    const char *stage = makes && makes->def ? makes->def->stage : NULL;
    s->stage = stage ? arena_string(p->arena, stage) : NULL;
    return s->name && (!stage || s->stage) ? PROPANE_OK : cpu_plan_no_memory(p, err);
}

propane_status cpu_plan_may_share(planner *p, const cpu_view *from, const cpu_view *to, propane_error *err) {
    if (p->buffers[from->buffer].bytes != p->buffers[to->buffer].bytes) return PROPANE_OK;
    if (!grow(p, (void **)&p->pairs, p->pair_count, &p->pair_capacity, sizeof *p->pairs))
        return cpu_plan_no_memory(p, err);
    p->pairs[p->pair_count++] = (cpu_plan_pair){p->step_count, from->buffer, to->buffer};
    return PROPANE_OK;
}

propane_status cpu_plan_operand(planner *p, const mil_value *v, cpu_view *out, propane_error *err) {
    *out = p->views[v->id];
    if (out->buffer >= 0) return PROPANE_OK;
    assert(v->konst);
    mil_type type = v->konst->type;
    const mil_dtype_info *info = mil_dtype_get(type.dtype);
    if (!v->konst->data || info->kind == MIL_KIND_STRING || info->bits < 8)
        return mil_op_fail(p->current, err, PROPANE_ERR_UNSUPPORTED, "the cpu driver cannot read a constant of %s",
                           info->name);
    int b = cpu_plan_buffer_add(p, CPU_PLAN_CONST, mil_type_count(&type) * cpu_plan_dtype_bytes(type.dtype));
    if (b < 0) return cpu_plan_no_memory(p, err);
    p->buffers[b].data = v->konst->data;
    p->views[v->id] = cpu_view_dense(&type, b);
    *out = p->views[v->id];
    return PROPANE_OK;
}

propane_status cpu_plan_result(planner *p, const mil_value *v, cpu_view *out, propane_error *err) {
    if (p->is_placed[v->id]) {
        *out = p->views[v->id] = p->placed[v->id];
        return PROPANE_OK;
    }
    int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, mil_type_count(&v->type) * cpu_plan_dtype_bytes(v->type.dtype));
    if (b < 0) return cpu_plan_no_memory(p, err);
    *out = p->views[v->id] = cpu_view_dense(&v->type, b);
    return PROPANE_OK;
}

propane_status cpu_plan_result_dense(planner *p, const mil_value *v, cpu_view *out, cpu_view *at, propane_error *err) {
    PROPANE_TRY(cpu_plan_result(p, v, out, err));
    *at = *out;
    if (cpu_view_is_dense(out)) return PROPANE_OK;
    int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, cpu_view_count(out) * cpu_plan_dtype_bytes(out->dtype));
    if (b < 0) return cpu_plan_no_memory(p, err);
    *at = cpu_view_dense(&v->type, b);
    return PROPANE_OK;
}

propane_status cpu_plan_make_dense(planner *p, const mil_value *makes, const cpu_view *v, cpu_view *out,
                                   propane_error *err) {
    cpu_view from = *v; /* `out` may be `v` */
    *out = from;
    if (cpu_view_is_dense(&from)) return PROPANE_OK;
    mil_type type = mil_type_tensor(from.dtype, from.rank, from.dim);
    int b = cpu_plan_buffer_add(p, CPU_PLAN_TEMP, mil_type_count(&type) * cpu_plan_dtype_bytes(type.dtype));
    if (b < 0) return cpu_plan_no_memory(p, err);
    *out = cpu_view_dense(&type, b);
    return cpu_plan_copy(p, makes, &from, out, err);
}

/* ---- the planner's own copy ---------------------------------------------------------------------------------------------- */

static propane_status load_constants(const mil_function *f, propane_error *err) {
    for (const mil_op *op = f->first; op; op = op->next) {
        for (int b = 0; b < op->block_count; b++) PROPANE_TRY(load_constants(op->blocks[b], err));
        for (int r = 0; r < op->result_count; r++) {
            const mil_const *c = op->results[r]->konst;
            if (c && !c->data) PROPANE_TRY(mil_blob_load(f->module, (mil_const *)c, err));
        }
    }
    return PROPANE_OK;
}

/* Weights of another element type than what they are applied to: kernels want one. */
static void cast_weights(mil_builder *b, mil_op *op) {
    for (int i = 1; op && i < op->info->param_count; i++) {
        mil_operand *o = &op->operands[i];
        const mil_type *x = &op->operands[0].values[0]->type;
        if (op->info->params[i].klass != MIL_CLASS_WEIGHT || !o->count || o->values[0]->type.dtype == x->dtype)
            continue;
        b->before = op;
        mil_value *cast = mil_build_cast(b, o->values[0], x->dtype);
        b->before = NULL;
        if (cast) o->values[0] = cast;
    }
}

/* Result i. A block may give a literal, what it was given, or one value twice; a function may not. */
static mil_value *own_result(mil_builder *b, const mil_function *f, int i, mil_value *const *map) {
    const mil_value *v = f->results[i];
    mil_value *own = map[v->id];
    if (!f->owner) return own;
    if (!own && v->konst) own = mil_build_const(b, NULL, &v->konst->type, v->konst->data);
    bool again = own && !own->def && !own->konst;
    for (int k = 0; k < i; k++) again |= f->results[k] == v;
    return own && again ? mil_build_unary(b, MIL_OP_identity, own) : own;
}

static propane_status copy_function(planner *p, const mil_function *f, propane_error *err) {
    PROPANE_TRY(load_constants(f, err));
    p->module = mil_module_create(f->module->source);
    mil_value **map = ARENA_ARRAY(p->work, f->value_count + 1, mil_value *);
    if (!p->module || !map) return cpu_plan_no_memory(p, err);
    mil_builder b = {0};
    mil_build_begin(&b, p->module, f->name, f->opset);
    for (int i = 0; i < f->param_count; i++)
        map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, f->params[i]->type);
    for (const mil_op *op = f->first; op && !b.err.status; op = op->next) cast_weights(&b, mil_build_copy(&b, op, map));
    for (int i = 0; i < f->result_count && !b.err.status; i++) mil_build_result(&b, own_result(&b, f, i, map));
    p->f = b.function;
    if (p->f) p->f->was_block = f->owner != NULL;
    return mil_build_end(&b, err);
}

/* ---- constants that are computed ------------------------------------------------------------------------------------------ */

#define FOLD_LIMIT ((int64_t)1 << 20)

static bool all_constant(const mil_op *op) {
    for (int k = 0; k < op->info->param_count; k++)
        for (int j = 0; j < op->operands[k].count; j++)
            if (!op->operands[k].values[j]->konst) return false;
    return op->info->eval != NULL;
}

static const mil_tensor *unpacked(planner *p, const mil_const *c) {
    int64_t count = mil_type_count(&c->type);
    mil_tensor *t = ARENA_NEW(p->work, mil_tensor);
    if (!t) return NULL;
    t->type = c->type;
    if (mil_dtype_get(c->type.dtype)->kind == MIL_KIND_STRING) return t;
    t->data = ARENA_ARRAY(p->work, count + 1, double);
    if (!t->data) return NULL;
    mil_unpack_f64(t->data, c->type.dtype, c->data, count);
    return t;
}

static propane_status evaluate(planner *p, mil_op *op, propane_error *err) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {NULL};
    for (int k = 0; k < op->info->param_count; k++) {
        const mil_tensor **list = ARENA_ARRAY(p->work, op->operands[k].count + 1, const mil_tensor *);
        if (!list) return cpu_plan_no_memory(p, err);
        for (int j = 0; j < op->operands[k].count; j++)
            if (!(list[j] = unpacked(p, op->operands[k].values[j]->konst))) return cpu_plan_no_memory(p, err);
        in[k] = list;
    }
    mil_tensor *out = ARENA_ARRAY(p->work, op->result_count, mil_tensor);
    if (!out) return cpu_plan_no_memory(p, err);
    for (int r = 0; r < op->result_count; r++) {
        out[r].type = op->results[r]->type;
        out[r].data = ARENA_ARRAY(p->work, mil_type_count(&out[r].type) + 1, double);
        if (!out[r].data) return cpu_plan_no_memory(p, err);
    }
    PROPANE_TRY(mil_eval_op(op, in, out, err));
    for (int r = 0; r < op->result_count; r++) {
        mil_const *c = ARENA_NEW(p->module->arena, mil_const);
        int64_t bytes = mil_type_bytes(&out[r].type);
        void *data = c ? arena_alloc(p->module->arena, (size_t)bytes + 1) : NULL;
        if (!data) return cpu_plan_no_memory(p, err);
        mil_pack_f64(data, out[r].type.dtype, out[r].data, mil_type_count(&out[r].type));
        *c = (mil_const){.type = out[r].type, .data = data, .bytes = bytes};
        op->results[r]->konst = c;
    }
    return PROPANE_OK;
}

static propane_status fold_constants(planner *p, propane_error *err) {
    for (mil_op *op = p->f->first; op; op = op->next) {
        bool small = true;
        for (int r = 0; r < op->result_count; r++) small &= mil_type_count(&op->results[r]->type) <= FOLD_LIMIT;
        const cpu_plan_binding *b = bindings[op->info->code].binding;
        if (op->info->code == MIL_OP_const || !all_constant(op) || !(small || b == &cpu_bind_fold)) continue;
        p->current = op;
        PROPANE_TRY(evaluate(p, op, err));
    }
    return PROPANE_OK;
}

/* ---- tables --------------------------------------------------------------------------------------------------------------- */

/* Only what results depend on. */
static propane_status list_ops(planner *p, propane_error *err) {
    int values = p->f->value_count;
    bool *needed = ARENA_ARRAY(p->work, values + 1, bool);
    p->op_of = ARENA_ARRAY(p->work, values + 1, int);
    p->uses = ARENA_ARRAY(p->work, values + 1, int);
    p->absorbed = ARENA_ARRAY(p->work, values + 1, bool);
    p->views = ARENA_ARRAY(p->work, values + 1, cpu_view);
    p->placed = ARENA_ARRAY(p->work, values + 1, cpu_view);
    p->is_placed = ARENA_ARRAY(p->work, values + 1, bool);
    p->ops = ARENA_ARRAY(p->work, p->f->op_count + 1, mil_op *);
    if (!needed || !p->op_of || !p->uses || !p->absorbed || !p->views || !p->placed || !p->is_placed || !p->ops)
        return cpu_plan_no_memory(p, err);
    for (int i = 0; i < values; i++) {
        p->op_of[i] = -1;
        p->views[i].buffer = -1;
    }
    for (int i = 0; i < p->f->result_count; i++) {
        needed[p->f->results[i]->id] = true;
        p->uses[p->f->results[i]->id]++;
    }
    for (mil_op *op = p->f->last; op; op = op->prev) {
        bool wanted = false;
        for (int r = 0; r < op->result_count; r++) wanted |= needed[op->results[r]->id] && !op->results[r]->konst;
        if (!wanted) continue;
        p->ops[p->op_count++] = op;
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++) {
                needed[op->operands[k].values[j]->id] = true;
                p->uses[op->operands[k].values[j]->id]++;
            }
    }
    for (int i = 0; i < p->op_count / 2; i++) {
        mil_op *other = p->ops[i];
        p->ops[i] = p->ops[p->op_count - 1 - i];
        p->ops[p->op_count - 1 - i] = other;
    }
    for (int i = 0; i < p->op_count; i++)
        for (int r = 0; r < p->ops[i]->result_count; r++) p->op_of[p->ops[i]->results[r]->id] = i;
    return PROPANE_OK;
}

static propane_status io_dtype(const char *function, const mil_value *v, propane_dtype *out, propane_error *err) {
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
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "function '%s': the cpu driver has no inputs or outputs of type %s ('%s'); cast it",
                            function, mil_dtype_get(v->type.dtype)->name, v->name);
    }
}

static propane_status describe_io(planner *p, mil_value *const *values, int count, propane_io **out,
                                  propane_error *err) {
    *out = ARENA_ARRAY(p->arena, count + 1, propane_io);
    if (!*out) return cpu_plan_no_memory(p, err);
    for (int i = 0; i < count; i++) {
        propane_io *io = &(*out)[i];
        cpu_view dense = cpu_view_dense(&values[i]->type, 0);
        PROPANE_TRY(io_dtype(p->f->name, values[i], &io->dtype, err));
        int64_t element = cpu_plan_dtype_bytes(values[i]->type.dtype);
        io->name = arena_string(p->arena, values[i]->name);
        if (!io->name) return cpu_plan_no_memory(p, err);
        io->rank = dense.rank;
        for (int d = 0; d < dense.rank; d++) {
            io->dim[d] = dense.dim[d];
            io->stride[d] = dense.stride[d] * element;
        }
        io->bytes = (size_t)(mil_type_count(&values[i]->type) * element);
    }
    return PROPANE_OK;
}

/* Names are those of the function that was given: lowering may have put other values in the place of its results. */
static propane_status list_io(planner *p, const mil_function *given, propane_error *err) {
    cpu_program *out = p->program;
    out->input_count = p->f->param_count;
    out->output_count = p->f->result_count;
    PROPANE_TRY(describe_io(p, given->params, given->param_count, &out->inputs, err));
    PROPANE_TRY(describe_io(p, given->results, given->result_count, &out->outputs, err));
    out->in = ARENA_ARRAY(p->arena, out->input_count + 1, void *);
    out->out = ARENA_ARRAY(p->arena, out->output_count + 1, void *);
    if (!out->in || !out->out) return cpu_plan_no_memory(p, err);
    for (int i = 0; i < p->f->param_count; i++) {
        const mil_value *v = p->f->params[i];
        int b = cpu_plan_buffer_add(p, CPU_PLAN_INPUT, (int64_t)out->inputs[i].bytes);
        if (b < 0) return cpu_plan_no_memory(p, err);
        p->buffers[b].index = i;
        p->views[v->id] = cpu_view_dense(&v->type, b);
    }
    return PROPANE_OK;
}

/* ---- emission --------------------------------------------------------------------------------------------------------------- */

static propane_status emit_view(planner *p, const mil_op *op, const cpu_plan_binding *b, propane_error *err) {
    cpu_view source, out;
    PROPANE_TRY(cpu_plan_operand(p, op->operands[0].values[0], &source, err));
    for (int r = 0; r < op->result_count; r++) {
        if (!b->view(op, r, &source, &out)) {
            PROPANE_TRY(cpu_plan_make_dense(p, op->results[r], &source, &source, err));
            if (!b->view(op, r, &source, &out))
                return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "the cpu driver finds no layout for its result");
        }
        p->views[op->results[r]->id] = out;
    }
    return PROPANE_OK;
}

static propane_status emit_node(planner *p, const cpu_plan_node *n, propane_error *err) {
    p->current = n->ops[0];
    if (n->kind == CPU_PLAN_NODE_ABSORBED) return PROPANE_OK;
    if (n->kind == CPU_PLAN_NODE_TILE) return cpu_plan_emit_tile(p, n, err);
    if (n->kind == CPU_PLAN_NODE_GEMM) return cpu_plan_emit_gemm(p, n, err);
    if (n->kind == CPU_PLAN_NODE_ATTENTION) return cpu_plan_emit_attention(p, n, err);
    if (n->kind == CPU_PLAN_NODE_LAYER) return cpu_plan_emit_layer(p, n, err);
    const cpu_plan_binding *b = cpu_plan_binding_of(n->ops[0]);
    if (b->view) return emit_view(p, n->ops[0], b, err);
    return b->emit(p, n->ops[0], err);
}

static propane_status emit_results(planner *p, propane_error *err) {
    for (int b = 0; b < p->buffer_count; b++) {
        if (p->buffers[b].place != CPU_PLAN_OUTPUT) continue;
        const mil_value *v = p->f->results[p->buffers[b].index];
        cpu_view want = cpu_view_dense(&v->type, b), have;
        PROPANE_TRY(cpu_plan_operand(p, v, &have, err));
        if (!cpu_view_equal(&want, &have)) PROPANE_TRY(cpu_plan_copy(p, v, &have, &want, err));
    }
    return PROPANE_OK;
}

static propane_status keep_constants(planner *p, propane_error *err) {
    cpu_program *out = p->program;
    int64_t bytes = 0;
    for (int b = 0; b < p->buffer_count; b++) {
        cpu_plan_buffer *o = &p->buffers[b];
        if (o->place != CPU_PLAN_CONST || o->first > o->last) continue;
        o->offset = bytes;
        bytes += (o->bytes + 63) / 64 * 64;
    }
    if (!bytes) return PROPANE_OK;
    out->constants = mem_pages_alloc((size_t)bytes);
    if (!out->constants) return propane_fail_memory(err, (size_t)bytes);
    out->constant_bytes = (size_t)bytes;
    for (int b = 0; b < p->buffer_count; b++) {
        const cpu_plan_buffer *o = &p->buffers[b];
        if (o->place == CPU_PLAN_CONST && o->first <= o->last)
            memcpy((unsigned char *)out->constants + o->offset, o->data, (size_t)o->bytes);
    }
    return PROPANE_OK;
}

static propane_status finish(planner *p, propane_error *err) {
    cpu_program *out = p->program;
    PROPANE_TRY(cpu_plan_memory(p, err));
    PROPANE_TRY(keep_constants(p, err));
    out->buffer_count = p->buffer_count;
    out->step_count = p->step_count;
    out->buffers = arena_copy(p->arena, p->buffers, (size_t)p->buffer_count * sizeof *p->buffers);
    out->steps = arena_copy(p->arena, p->steps, (size_t)p->step_count * sizeof *p->steps);
    out->base = ARENA_ARRAY(p->arena, p->buffer_count + 1, unsigned char *);
    if (!out->buffers || !out->steps || !out->base) return cpu_plan_no_memory(p, err);
    for (int b = 0; b < out->buffer_count; b++) {
        out->buffers[b].data = NULL;
        if (out->buffers[b].place == CPU_PLAN_CONST && out->constants)
            out->base[b] = (unsigned char *)out->constants + out->buffers[b].offset;
    }
    return PROPANE_OK;
}

static propane_status cpu_plan_function(planner *p, const mil_function *f, propane_error *err) {
    PROPANE_TRY(copy_function(p, f, err));
    PROPANE_TRY(pass_run(p->f, &pass_all, err));
    PROPANE_TRY(cpu_plan_lower(p->f, err));
    PROPANE_TRY(cpu_plan_push_picks(p->f, err));
    PROPANE_TRY(fold_constants(p, err));
    PROPANE_TRY(list_ops(p, err));
    PROPANE_TRY(list_io(p, f, err));
    PROPANE_TRY(cpu_plan_causal(p, err));
    PROPANE_TRY(cpu_plan_fuse(p, err));
    PROPANE_TRY(cpu_plan_place_values(p, err));
    PROPANE_TRY(cpu_plan_place_channels(p, err));
    for (int i = 0; i < p->order_count; i++) PROPANE_TRY(emit_node(p, &p->nodes[p->order[i]], err));
    PROPANE_TRY(emit_results(p, err));
    return finish(p, err);
}

propane_status cpu_plan_compile(const mil_function *f, const cpu_plan_options *options, arena *a, cpu_program **out,
                                propane_error *err) {
    planner p = {.arena = a, .work = arena_create(), .options = *options, .threads = pool_threads()};
    p.program = p.work ? ARENA_NEW(a, cpu_program) : NULL;
    propane_status status;
    if (p.program) {
        p.program->arena = a;
        p.program->threads = options->threads;
        p.program->planned_threads = p.threads;
        status = cpu_plan_function(&p, f, err);
    } else {
        status = cpu_plan_no_memory(&p, err);
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

void cpu_program_deinit(cpu_program *program) {
    if (!program) return;
    for (cpu_program *block = program->inside; block; block = block->outside) cpu_program_deinit(block);
    program->inside = NULL;
    mem_pages_free(program->constants, program->constant_bytes);
    mil_module_free(program->module);
    program->constants = NULL;
    program->module = NULL;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------ */

typedef struct limited {
    void (*task)(void *context, int task, int worker);
    void *context;
    int count;
    atomic_int next;
} limited;

static void limited_task(void *context, int index, int worker) {
    limited *l = context;
    (void)index;
    for (int i = atomic_fetch_add(&l->next, 1); i < l->count; i = atomic_fetch_add(&l->next, 1))
        l->task(l->context, i, worker);
}

void cpu_plan_parallel(const cpu_run *run, void (*task)(void *context, int task, int worker), void *context,
                       int count) {
    if (run->threads <= 0 || run->threads >= count || run->threads >= pool_threads()) {
        pool_run(task, context, count);
        return;
    }
    limited l = {.task = task, .context = context, .count = count};
    atomic_init(&l.next, 0);
    pool_run(limited_task, &l, run->threads);
}

/* Fills the memory of buffers that are not alive behind step `at` with NaN. */
static void poison(cpu_program *program, int at) {
    for (int b = 0; b < program->buffer_count; b++) {
        const cpu_plan_buffer *o = &program->buffers[b];
        if (o->place != CPU_PLAN_TEMP || o->first > o->last || o->last != at || o->alias >= 0) continue;
        bool taken_over = false;
        for (int c = 0; c < program->buffer_count; c++) {
            const cpu_plan_buffer *n = &program->buffers[c];
            taken_over |= n->place == CPU_PLAN_TEMP && n->first <= at && n->last > at &&
                          n->offset < o->offset + o->bytes && o->offset < n->offset + n->bytes;
        }
        if (!taken_over) memset(program->base[b], 0xff, (size_t)o->bytes);
    }
}

static propane_status run_steps(cpu_program *program, propane_error *err) {
    cpu_run run = {program->base, program->threads, NULL};
    for (int i = 0; i < program->step_count; i++) {
        cpu_plan_step *s = &program->steps[i];
        int64_t start = program->profile ? clock_ns() : 0;
        run.next = i + 1 < program->step_count ? s + 1 : NULL;
        PROPANE_TRY(s->run(&run, s->args, err));
        if (program->profile) {
            s->ns += clock_ns() - start;
            s->runs++;
        }
        if (program->poison) poison(program, i);
    }
    return PROPANE_OK;
}

/* One thread: loops inside of a loop run on their caller, so the whole program is a task. */
typedef struct alone {
    cpu_program *program;
    propane_error *err;
    propane_status status;
} alone;

static void alone_task(void *context, int task, int worker) {
    alone *a = context;
    if (task == 0) a->status = run_steps(a->program, a->err);
}

propane_status cpu_program_run(cpu_program *program, void *block, void *const *inputs, void *const *outputs,
                               propane_error *err) {
    if (pool_threads() > program->planned_threads)
        return propane_fail(err, PROPANE_ERR_DEVICE, "the program was compiled for %d threads, but the pool has %d now",
                            program->planned_threads, pool_threads());
    for (int b = 0; b < program->buffer_count; b++) {
        const cpu_plan_buffer *o = &program->buffers[b];
        if (o->place == CPU_PLAN_INPUT)
            program->base[b] = inputs[o->index];
        else if (o->place == CPU_PLAN_OUTPUT)
            program->base[b] = outputs[o->index];
        else if (o->place == CPU_PLAN_TEMP)
            program->base[b] = (unsigned char *)block + o->offset;
    }
    for (int b = 0; b < program->buffer_count; b++) {
        int root = b;
        while (program->buffers[root].alias >= 0) root = program->buffers[root].alias;
        program->base[b] = program->base[root];
    }
    if (program->poison) memset(block, 0xff, (size_t)program->block_bytes);
    if (program->threads != 1 || pool_threads() == 1) return run_steps(program, err);
    alone a = {program, err, PROPANE_OK};
    pool_run(alone_task, &a, 2);
    return a.status;
}
