/* SPDX-License-Identifier: MIT
 * Walks a function, assigns every value a place and every operation its tasks, and makes the object. Values share
 * scratch memory according to their lifetimes. The scratch memory of tasks (staged kernels) follows the scratch memory
 * of values.
 */
#include "ane/h13/compile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ane/h13/compile_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "core/base/offset_planner.h"
#include "core/base/text.h"

enum { COMPILE_ZEROS = 16384, SURFACES_MAX = ENGINE_BARS - ENGINE_BAR_SURFACES };

/* ---- places ---------------------------------------------------------------------------------------------------------------------- */

/* Compares the symbols of two surfaces. The symbol of a result is its name and "@output", so b10 comes before b1
 * (allbilly/mlx-ane-sd artifacts/m1-full-ane/programs/head/linux-plan.json). */
static int compile_by_symbol(const void *a, const void *b) {
    const mil_value *x = *(mil_value *const *)a, *y = *(mil_value *const *)b;
    const char *p = x->name, *q = y->name;
    while (*p && *p == *q) p++, q++;
    int left = (unsigned char)*p, right = (unsigned char)*q;
    if (!left && x->def) left = '@';
    if (!right && y->def) right = '@';
    return left - right;
}

static propane_status compile_surface(compile *c, const mil_value *v, int bar, bool output, propane_error *err) {
    engine_object *o = c->object;
    engine_surface *s = &o->surfaces[o->surface_count++];
    emit_tensor t;
    PROPANE_TRY(compile_shape(NULL, v, &t, err));
    *s = (engine_surface){.name = arena_string(o->arena, v->name),
                          .bar = bar,
                          .output = output,
                          .read = !output,
                          .written = output,
                          .n = 1,
                          .c = t.c,
                          .h = t.h,
                          .w = t.w};
    s->wide = v->type.dtype == MIL_fp32;
    s->batch = s->bytes = (uint64_t)t.total, s->plane = (uint64_t)t.plane, s->row = (uint64_t)t.row;
    c->places[v->id] = (compile_place){.known = true, .bar = bar, .owner = v->id};
    return s->name ? PROPANE_OK : propane_fail_memory(err, strlen(v->name));
}

static propane_status compile_surfaces(compile *c, propane_error *err) {
    const mil_function *f = c->function;
    mil_value *sorted[SURFACES_MAX];
    int count = f->param_count + f->result_count;
    if (count > SURFACES_MAX)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: the program has %d inputs and outputs; the engine has base registers for %d", f->name,
                            count, SURFACES_MAX);
    c->object->surfaces = ARENA_ARRAY(c->object->arena, count + 1, engine_surface);
    if (!c->object->surfaces) return propane_fail_memory(err, sizeof(engine_surface));
    for (int i = 0; i < f->param_count; i++) sorted[i] = f->params[i];
    for (int i = 0; i < f->result_count; i++) sorted[f->param_count + i] = f->results[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compile_by_symbol);
    for (int i = 0; i < count; i++) {
        if (sorted[i]->constant || (i && sorted[i] == sorted[i - 1]))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: '%s' may be a result only once, and must not be a constant or an input", f->name,
                                sorted[i]->name);
        PROPANE_TRY(compile_surface(c, sorted[i], ENGINE_BAR_SURFACES + i, sorted[i]->def != NULL, err));
    }
    return PROPANE_OK;
}

typedef struct compile_lives {
    fit_span *spans;
    int *which, *span_of, *earliest; /* value of a span; span of a value, plus 1; first step that may write a value */
    int count;
} compile_lives;

/* Returns the first step that may write the operation's result. If a product absorbs the operation, the result is
 * written when the product runs. */
static int compile_earliest(const compile *c, const compile_lives *l, const mil_op *op, int step) {
    engine_table table;
    bool relu;
    const mil_value *x = NULL;
    if (op->info->code == MIL_OP_add || op->info->code == MIL_OP_mul) {
        const mil_value *a = mil_in(op, "x"), *b = mil_in(op, "y");
        x = b->constant ? a : a->constant ? b : NULL;
    } else if (compile_activation(op, &table, &relu) || compile_is_second(c, op))
        x = mil_in(op, "x");
    return x && x->def ? l->earliest[x->id] : step;
}

/* Opens the span of the memory that v owns or is a part of. If an earlier part of a concatenation opened the span,
 * extends it. */
static propane_status compile_span(compile *c, compile_lives *l, const mil_op *op, mil_value *v, int step,
                                   propane_error *err) {
    emit_tensor t;
    l->earliest[v->id] = compile_earliest(c, l, op, step);
    const compile_place *p = &c->places[v->id];
    int owner = p->owner;
    if (p->known || p->view || c->places[owner].known || compile_behind(v) || compile_is_inner(c, op))
        return PROPANE_OK;
    if (l->span_of[owner]) {
        fit_span *span = &l->spans[l->span_of[owner] - 1];
        if (l->earliest[v->id] < span->first) span->first = l->earliest[v->id];
        span->last = step;
        return PROPANE_OK;
    }
    propane_status status = compile_shape(op, c->values[owner], &t, err);
    char where[300];
    if (status) return propane_fail_prefix(err, status, "%s", mil_op_where(where, op));
    l->spans[l->count] = (fit_span){l->earliest[v->id], step, round_up(t.total, ENGINE_PAGE), 0};
    l->which[l->count] = owner;
    l->span_of[owner] = ++l->count;
    return PROPANE_OK;
}

static void compile_used(const compile *c, const compile_lives *l, const mil_op *op, int step) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int k = 0; k < op->operands[p].count; k++) {
            int owner = c->places[op->operands[p].values[k]->id].owner;
            if (l->span_of[owner]) l->spans[l->span_of[owner] - 1].last = step;
        }
}

static propane_status compile_spans(compile *c, compile_lives *l, propane_error *err) {
    compile_attention a;
    int step = 0;
    for (const mil_op *op = c->function->first; op; op = op->next, step++) {
        if (op->info->code == MIL_OP_const) continue;
        compile_used(c, l, op, step);
        if (compile_attention_of(c, op, &a)) compile_used(c, l, a.scores, step); /* the chain runs at this step */
        const mil_op *brought = compile_brought(c, op);
        if (brought) compile_used(c, l, brought, step); /* and so does the activation */
        for (int r = 0; r < op->result_count; r++) PROPANE_TRY(compile_span(c, l, op, op->results[r], step, err));
    }
    return fit_spans(l->spans, l->count, ENGINE_PAGE, &c->scratch, err);
}

/* Places the values that live between operations in scratch memory. */
static propane_status compile_scratch(compile *c, propane_error *err) {
    size_t room = (size_t)c->function->value_count + 1;
    compile_lives l = {mem_array(room, sizeof(fit_span)), mem_array(room, sizeof(int)), mem_array(room, sizeof(int)),
                       mem_array(room, sizeof(int)), 0};
    propane_status status = PROPANE_OK;
    if (!l.spans || !l.which || !l.span_of || !l.earliest)
        status = propane_fail_memory(err, room * sizeof(fit_span));
    else
        status = compile_spans(c, &l, err);
    for (int i = 0; i < l.count && !status; i++)
        c->places[l.which[i]] =
            (compile_place){.known = true, .bar = ENGINE_BAR_SCRATCH, .base = l.spans[i].offset, .owner = l.which[i]};
    compile_share_place(c);
    mem_free(l.spans);
    mem_free(l.which);
    mem_free(l.span_of);
    mem_free(l.earliest);
    return status;
}

/* ---- operations -------------------------------------------------------------------------------------------------------------------- */

static void compile_users(compile *c) {
    const mil_function *f = c->function;
    for (const mil_op *op = f->first; op; op = op->next)
        for (int p = 0; p < op->info->param_count; p++)
            for (int k = 0; k < op->operands[p].count; k++) c->users[op->operands[p].values[k]->id]++;
    for (int i = 0; i < f->result_count; i++) c->users[f->results[i]->id]++;
}

/* Marks the constant operands of a folded operation: overwriting them would not change the constant that tasks read. */
static void compile_folded(compile *c, const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int k = 0; k < op->operands[p].count; k++)
            emit_add_patch(&c->e, &(engine_patch){.constant = compile_patched(c, op->operands[p].values[k]),
                                                  .elements = ENGINE_PATCH_NEVER});
}

/* Returns the end of the on-chip memory that a task uses, in bytes. */
static int64_t compile_on_chip(const engine_task *t) {
    int64_t tile = engine_get(t, 0x28), h = engine_get_bits(t, 0x14, 16, 15), end;
    end = engine_get(t, 0x4808) + tile * (int64_t)engine_get(t, 0x4810);
    end = max_i64(end, engine_get(t, 0x481c) + tile * (int64_t)engine_get(t, 0x4820));
    return max_i64(end, engine_get(t, 0x4834) + h * (int64_t)engine_get(t, 0x483c));
}

/* Prints the report's line about an operation and its tasks, which start at `before`. */
static void compile_print(compile *c, const mil_op *op, int before, size_t constants, text *report) {
    int64_t dma = 0, chip = 0, kept = 0;
    if (!report) return;
    for (int i = before; i < c->e.count; i++) {
        const engine_task *t = &c->e.tasks[i].task;
        dma += c->e.tasks[i].bytes;
        chip = max_i64(chip, compile_on_chip(t));
        kept += engine_get_bits(t, 0x4830, 0, 2) == 0;
    }
    text_printf(
        report,
        "%-20s %-24s %3d task%s, %zu bytes of constants, %lld through DMA, %lld on chip, %lld results kept on chip\n",
        op->info->name, op->results[0]->name, c->e.count - before, c->e.count - before == 1 ? " " : "s",
        c->e.constants.length - constants, (long long)dma, (long long)chip, (long long)kept);
    if (c->apart[0]) text_printf(report, "%20s %s\n", "", c->apart);
}

static propane_status compile_one(compile *c, const mil_op *op, text *report, propane_error *err) {
    int before = c->e.count;
    c->apart[0] = 0;
    size_t constants = c->e.constants.length;
    if (op->info->code != MIL_OP_const && op->results[0]->constant) compile_folded(c, op);
    if (op->info->code == MIL_OP_const || op->results[0]->constant) return PROPANE_OK;
    if (c->taken[op->results[0]->id]) {
        if (report)
            text_printf(report, "%-20s %-24s merged into the task before it\n", op->info->name, op->results[0]->name);
        return PROPANE_OK;
    }
    if (!c->places[op->results[0]->id].known && compile_behind(op->results[0])) return PROPANE_OK;
    if (compile_is_inner(c, op)) {
        if (report) text_printf(report, "%-20s %-24s stays on chip\n", op->info->name, op->results[0]->name);
        return PROPANE_OK;
    }
    if (c->places[op->results[0]->id].view) return PROPANE_OK;
    compile_op make = compile_find(op->info->code);
    if (!make) return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "this compiler does not support this operation");
    propane_status status = make(c, op, err);
    if (status) {
        char where[300];
        return propane_fail_prefix(err, status, "%s", mil_op_where(where, op));
    }
    text reasons = {0};
    bool chained = compile_chain(c, op, before, report ? &reasons : NULL);
    c->chained += chained;
    compile_print(c, op, before, constants, report);
    if (chained && report) text_printf(report, "%20s its source stays on chip\n", "");
    if (report) text_append_n(report, reasons.data, reasons.length);
    text_deinit(&reasons);
    return PROPANE_OK;
}

static propane_status compile_function(compile *c, text *report, propane_error *err) {
    const mil_function *f = c->function;
    compile_users(c);
    PROPANE_TRY(compile_surfaces(c, err));
    compile_share(c);
    PROPANE_TRY(compile_scratch(c, err));
    c->e.scratch = c->scratch;
    for (const mil_op *op = f->first; op; op = op->next) PROPANE_TRY(compile_one(c, op, report, err));
    if (!c->e.count) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: the program computes nothing", f->name);
    static const char zeros[COMPILE_ZEROS];
    if (!c->e.constants.length) text_append_n(&c->e.constants, zeros, sizeof zeros);
    if (c->e.constants.failed) return propane_fail_memory(err, c->e.constants.length);
    PROPANE_TRY(emit_finish(&c->e, c->object, err));
    engine_object *o = c->object;
    o->constant_bytes = c->e.constants.length;
    o->constants = arena_copy(o->arena, c->e.constants.data, c->e.constants.length);
    o->scratch_bytes = (uint64_t)round_up(c->e.scratch, ENGINE_PAGE);
    o->patches = c->e.patches;
    o->patch_count = c->e.patch_count;
    if (!o->constants) return propane_fail_memory(err, c->e.constants.length);
    int wide = 0;
    for (int i = 0; i < o->surface_count; i++) wide += o->surfaces[i].wide;
    if (report && wide)
        text_printf(report, "%d of %d inputs and outputs are fp32 in the program and fp16 when compiled\n", wide,
                    o->surface_count);
    if (report)
        text_printf(report,
                    "%d task%s, %d value%s on chip between operations, %" PRIu64 " bytes of tasks, %" PRIu64
                    " of constants, %" PRIu64 " of scratch\n",
                    o->task_count, text_plural(o->task_count), c->chained, text_plural(c->chained), o->text_bytes,
                    o->constant_bytes, o->scratch_bytes);
    return PROPANE_OK;
}

static propane_status compile_as_given(const mil_function *f, const engine_compile_options *options,
                                       engine_object **out, propane_error *err) {
    arena *a = arena_create();
    engine_object *o = a ? ARENA_NEW(a, engine_object) : NULL;
    uint32_t subtype = options->subtype ? options->subtype : ENGINE_H13;
    compile c = {.function = f, .object = o, .e = {.arena = a, .subtype = subtype}, .patchable = options->patchable};
    if (o) {
        *o = (engine_object){.arena = a, .subtype = subtype, .newer = true};
        o->source = arena_string(a, f->name);
        c.places = ARENA_ARRAY(a, f->value_count + 1, compile_place);
        c.values = ARENA_ARRAY(a, f->value_count + 1, const mil_value *);
        c.users = ARENA_ARRAY(a, f->value_count + 1, int);
        c.taken = ARENA_ARRAY(a, f->value_count + 1, bool);
    }
    propane_status status = PROPANE_OK;
    if (!o || !o->source || !c.places || !c.values || !c.users || !c.taken)
        status = propane_fail_memory(err, sizeof *o);
    else
        status = compile_function(&c, options->report, err);
    text_deinit(&c.e.constants);
    if (status)
        arena_free(a);
    else
        *out = o;
    return status;
}

propane_status engine_compile(const mil_function *f, const engine_compile_options *options, engine_object **out,
                              propane_error *err) {
    static const engine_compile_options plain = {0};
    if (!options) options = &plain;
    *out = NULL;
    if (!compile_needs_rewrite(f)) return compile_as_given(f, options, out, err);
    mil_module *m = mil_module_create(f->module->source);
    mil_function *copy = NULL;
    propane_status status = m ? compile_rewrite(f, m, &copy, err) : propane_fail_memory(err, sizeof *f);
    if (!status) status = compile_as_given(copy, options, out, err);
    mil_module_free(m);
    return status;
}
