/* SPDX-License-Identifier: MIT
 * Owns simulated programs. Every operation becomes a step with dense operands and results, so that each intermediate
 * result is stored and rounded as on the engine. A step runs code of numerics.c, products.c or planar.c, or a program
 * of the cpu driver that contains only this operation. An operation that keeps the order of its elements becomes an
 * alias: its result is its operand's memory.
 *
 * Operations on lists, which only the CPU runs, form one step with all operations between them, because a list has no
 * dense form that could be passed between two steps.
 *
 * Each value has its own space in one block for the whole run. This needs more memory than a plan by lifetimes, but is
 * simpler. The scratch follows the values and has the size that the largest step needs. The device keeps one block for
 * all its programs, so a run allocates no memory.
 */
#include <string.h>

#include "ane/sim/sim.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/base/pool.h"
#include "core/mil/build.h"
#include "core/mil/function_copy.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "core/pass/pass.h"
#include "cpu/cpu_view.h"
#include "cpu/plan/facts.h"

enum { TABLE = 65536, SHARED_TABLES = 64 };

static propane_status steps_no_memory(propane_error *err) {
    return propane_fail(err, PROPANE_ERR_MEMORY, "not enough memory for a simulated program");
}

static void steps_need_scratch(sim_program *p, int64_t bytes) {
    if (p->scratch_bytes < bytes) p->scratch_bytes = bytes;
}
static int64_t steps_bytes_of(const mil_type *type) { return mil_type_count(type) * cpu_view_dtype_bytes(type->dtype); }

/* Data shared by the steps of one program while the steps are made. */
typedef struct steps_work {
    const cpu_plan_options *options;
    arena *arena;                    /* the program's arena */
    mil_value **map;                 /* [value_count]: values of a step's function; all NULL between two steps */
    const bool *live;                /* [value_count]: true if a result of the function needs the value */
    const int *reads;                /* [value_count]: number of uses by operations and as results */
    const mil_op *last_list;         /* the last operation on a list; NULL if there is none */
    const bool *read_after;          /* [value_count]: true if the value is read after last_list */
    sim_step *tables[SHARED_TABLES]; /* the newest steps whose tables differ */
    int table_count;
} steps_work;

/* ---- the program's own copy -------------------------------------------------------------------------------------------- */

static bool steps_choose_all(void *context, const char *name) {
    (void)context, (void)name;
    return true;
}

/* Copies the function and expands its compressed weights, as an engine does when it loads them, so that no step reads
 * compressed weights. */
static propane_status steps_copy_function(sim_program *p, const mil_function *f, propane_error *err) {
    mil_function *copy;
    p->module = mil_module_create(f->module->source);
    if (!p->module) return steps_no_memory(err);
    PROPANE_TRY(mil_function_copy(f, p->module, f->name, &copy, err));
    p->function = copy;
    int spread = 0;
    return pass_decompress(copy, steps_choose_all, NULL, &spread, err);
}

/* Marks, by value id, the values that the results of the function need. A label's text does not count, because the
 * session looks up that text itself. */
static propane_status steps_find_live(const mil_function *f, arena *work, const bool **out, propane_error *err) {
    bool *live = ARENA_ARRAY(work, f->value_count + 1, bool);
    if (!live) return steps_no_memory(err);
    for (int i = 0; i < f->result_count; i++) live[f->results[i]->id] = true;
    for (const mil_op *op = f->last; op; op = op->prev) {
        bool wanted = false;
        for (int r = 0; r < op->result_count; r++) wanted |= live[op->results[r]->id];
        if (!wanted) continue;
        MIL_FOR_OPERANDS (op, v) live[v->id] = true;
    }
    *out = live;
    return PROPANE_OK;
}

/* ---- one step ----------------------------------------------------------------------------------------------------------- */

static bool steps_known(const mil_op *op) {
    for (int r = 0; r < op->result_count; r++)
        if (!op->results[r]->constant) return false;
    return true;
}

static bool steps_is_live(const mil_op *op, const bool *live) {
    bool is = false;
    for (int r = 0; r < op->result_count; r++) is |= live[op->results[r]->id];
    return is;
}

/* Adds the operand to the step's function, as a constant if its value is known, otherwise as a parameter. */
static void steps_add_operand(mil_builder *b, const mil_value *v, mil_value **map, sim_step *s) {
    if (map[v->id] || (v->constant && v->is_inline)) return;
    if (v->constant && v->def && v->def->info->code == MIL_OP_const) {
        mil_build_copy(b, v->def, map);
    } else if (v->constant) {
        map[v->id] = mil_build_const(b, v->name, &v->constant->type, v->constant->data);
    } else {
        map[v->id] = mil_build_param(b, v->name, v->type);
        s->in[s->in_count++] = v->id;
    }
}

static bool steps_uses_list(const mil_op *op) {
    MIL_FOR_OPERANDS (op, v)
        if (v->type.container == MIL_LIST) return true;
    for (int r = 0; r < op->result_count; r++)
        if (op->results[r]->type.container == MIL_LIST) return true;
    return false;
}

static const mil_op *steps_last_list(const mil_function *f) {
    const mil_op *op = f->last;
    while (op && !steps_uses_list(op)) op = op->prev;
    return op;
}

/* Finds the last operation on a list, and marks the values that later operations read or the function returns. */
static propane_status steps_find_lists(const mil_function *f, arena *work, steps_work *w, propane_error *err) {
    bool *read = ARENA_ARRAY(work, f->value_count + 1, bool);
    if (!read) return steps_no_memory(err);
    w->last_list = steps_last_list(f);
    for (int i = 0; i < f->result_count; i++) read[f->results[i]->id] = true;
    for (const mil_op *op = w->last_list ? w->last_list->next : NULL; op; op = op->next)
        MIL_FOR_OPERANDS (op, v) read[v->id] = true;
    w->read_after = read;
    return PROPANE_OK;
}

/* Copies the operations from s->op to `last` into one function. If there are several, its results are only the values
 * that are read after w->last_list. */
static void steps_build_span(mil_builder *b, sim_step *s, const mil_op *last, const steps_work *w) {
    for (const mil_op *op = s->op;; op = op->next) {
        if (!steps_known(op) && steps_is_live(op, w->live)) {
            MIL_FOR_OPERANDS (op, v) steps_add_operand(b, v, w->map, s);
            mil_build_copy(b, op, w->map);
        }
        if (op == last) break;
    }
    for (const mil_op *op = s->op; !b->err.status; op = op->next) {
        const bool built = !steps_known(op) && steps_is_live(op, w->live);
        for (int r = 0; built && r < op->result_count && !b->err.status; r++) {
            const mil_value *v = op->results[r];
            if (s->op != last && !w->read_after[v->id]) continue;
            mil_build_result(b, w->map[v->id]);
            s->out[s->out_count++] = v->id;
        }
        if (op == last) break;
    }
}

static propane_status steps_compile_step(sim_step *s, const mil_op *last, const steps_work *w, propane_error *err) {
    mil_module *m = mil_module_create(s->op->function->module->source);
    if (!m) return steps_no_memory(err);
    mil_builder b = {0};
    mil_build_begin(&b, m, "step", s->op->function->opset);
    steps_build_span(&b, s, last, w);
    propane_status status = mil_build_end(&b, err);
    if (status == PROPANE_OK) status = cpu_plan_compile(b.function, w->options, w->arena, &s->program, err);
    for (const mil_op *op = s->op;; op = op->next) {
        MIL_FOR_OPERANDS (op, v) w->map[v->id] = NULL;
        for (int r = 0; r < op->result_count; r++) w->map[op->results[r]->id] = NULL;
        if (op == last) break;
    }
    mil_module_free(m);
    return status;
}

static bool steps_keeps_order(const mil_op *op) {
    return cpu_plan_keeps_order(op) && !op->operands[0].values[0]->constant;
}

/* Returns x if `op` is x * sigmoid(x) and the sigmoid has no other reader, otherwise NULL. An engine computes such a
 * product with one table. Without this table, the recorded feed-forward of an M3 Max is not reproduced
 * (tests/drivers/test_recorded.c). */
static const mil_value *steps_silu_of(const int *reads, const sim_numbers *n, const mil_op *op) {
    if (op->info->code != MIL_OP_mul || !n->switches->value[SIM_table]) return NULL;
    for (int k = 0; k < 2; k++) {
        const mil_value *x = op->operands[k].values[0], *sigmoid = op->operands[1 - k].values[0];
        const bool pair = sigmoid->def && sigmoid->def->info->code == MIL_OP_sigmoid && !x->constant &&
                          sigmoid->def->operands[0].values[0] == x && x->type.dtype == MIL_fp16;
        if (pair && reads[sigmoid->id] == 1) return x;
    }
    return NULL;
}

/* Returns true if two functions of one value have the same table, which depends only on the opcode and the
 * constants. */
static bool steps_same_table(const mil_op *a, const mil_op *b) {
    if (a->info != b->info) return false;
    for (int k = 1; k < a->info->param_count; k++) {
        const mil_operand *x = &a->operands[k], *y = &b->operands[k];
        if (x->count != y->count || x->count > 1) return false;
        if (!x->count) continue;
        const mil_const *c = x->values[0]->constant, *d = y->values[0]->constant;
        if (!c || !d || !mil_const_equal(c, d)) return false;
    }
    return true;
}

static propane_status steps_take_table(sim_step *s, steps_work *w, propane_error *err) {
    for (int i = 0; i < w->table_count && i < SHARED_TABLES; i++)
        if (steps_same_table(w->tables[i]->op, s->op)) {
            s->map = w->tables[i]->map;
            return PROPANE_OK;
        }
    uint16_t *map = ARENA_ARRAY(w->arena, TABLE, uint16_t);
    if (!map) return steps_no_memory(err);
    sim_kernel_map(s->op, map);
    s->map = map;
    w->tables[w->table_count++ % SHARED_TABLES] = s;
    return PROPANE_OK;
}

/* Makes one step of all operations from `op`, the first operation on a list, to the last operation on a list. */
static propane_status steps_add_lists(sim_program *p, const mil_op *op, steps_work *w, propane_error *err) {
    sim_step *s = &p->steps[p->step_count++];
    int values = 1;
    *s = (sim_step){.op = op, .host = true, .fault = -1};
    for (const mil_op *one = op;; one = one->next) {
        MIL_FOR_OPERANDS (one, v) values += v != NULL;
        values += one->result_count;
        if (one == w->last_list) break;
    }
    s->in = ARENA_ARRAY(w->arena, values, int);
    s->out = ARENA_ARRAY(w->arena, values, int);
    if (!s->in || !s->out) return steps_no_memory(err);
    PROPANE_TRY(steps_compile_step(s, w->last_list, w, err));
    for (const mil_op *one = op;; one = one->next) {
        for (int r = 0; r < one->result_count; r++) {
            const mil_value *v = one->results[r];
            if (v->type.container == MIL_LIST) continue;
            p->slots[v->id] = (sim_slot){.place = SIM_TEMP, .offset = p->block_bytes};
            p->block_bytes += round_up(steps_bytes_of(&v->type), SIM_ALIGNED);
        }
        if (one == w->last_list) break;
    }
    steps_need_scratch(p, s->program->block_bytes);
    return PROPANE_OK;
}

static propane_status steps_add_products(sim_program *p, const mil_op *op, propane_error *err) {
    int64_t bytes;
    PROPANE_TRY(sim_products_scratch(op, p->threads, &bytes, err));
    steps_need_scratch(p, bytes);
    return PROPANE_OK;
}

static propane_status steps_add_step(sim_program *p, const mil_op *op, bool host, const sim_numbers *n, steps_work *w,
                                     propane_error *err) {
    sim_step *s = &p->steps[p->step_count++];
    int operands = 0;
    s->op = op;
    s->host = host;
    s->fault = host ? -1 : sim_fault_of(n, op);
    for (int k = 0; k < op->info->param_count; k++) operands += op->operands[k].count;
    s->in = ARENA_ARRAY(w->arena, operands + 1, int);
    s->out = ARENA_ARRAY(w->arena, op->result_count + 1, int);
    if (!s->in || !s->out) return steps_no_memory(err);
    if (steps_keeps_order(op)) {
        s->alias = true;
        p->slots[op->results[0]->id] = p->slots[op->operands[0].values[0]->id];
        return PROPANE_OK;
    }
    for (int r = 0; r < op->result_count; r++) {
        sim_slot *slot = &p->slots[op->results[r]->id];
        *slot = (sim_slot){.place = SIM_TEMP, .offset = p->block_bytes};
        p->block_bytes += round_up(steps_bytes_of(&op->results[r]->type), SIM_ALIGNED);
    }
    if (!host && sim_has_kernel(n, op) && !op->operands[0].values[0]->constant) {
        const mil_value *x = op->operands[0].values[0];
        int64_t floats = round_up((int64_t)sizeof(float) * mil_type_count(&x->type), SIM_ALIGNED) +
                         round_up((int64_t)sizeof(float) * mil_type_count(&op->results[0]->type), SIM_ALIGNED);
        steps_need_scratch(p, floats);
        s->in[s->in_count++] = x->id;
        s->out[s->out_count++] = op->results[0]->id;
        return x->type.dtype == MIL_fp16 && sim_is_elementwise(op) ? steps_take_table(s, w, err) : PROPANE_OK;
    }
    const mil_value *x = host ? NULL : steps_silu_of(w->reads, n, op);
    if (x) {
        s->in[s->in_count++] = x->id;
        s->out[s->out_count++] = op->results[0]->id;
        s->map = n->tables->silu;
        return PROPANE_OK;
    }
    s->exact = !host && sim_has_products(n, op);
    s->planar = !host && s->fault < 0 && sim_has_planar(n, op);
    if (s->exact) return steps_add_products(p, op, err);
    if (s->planar) return PROPANE_OK;
    PROPANE_TRY(steps_compile_step(s, op, w, err));
    steps_need_scratch(p, s->program->block_bytes);
    return PROPANE_OK;
}

/* Returns the next operation of the original function, skipping constants and compressed weights. Counts the skipped
 * operations in *place. The copy has the other operations in the same order. */
static const mil_op *steps_next(const mil_op *op, int *place) {
    for (; op && (op->info->code == MIL_OP_const || mil_op_compressed(op)); op = op->next) ++*place;
    return op;
}

static propane_status steps_count_reads(const mil_function *f, arena *work, const int **out, propane_error *err) {
    int *reads = ARENA_ARRAY(work, f->value_count + 1, int);
    if (!reads) return steps_no_memory(err);
    for (int i = 0; i < f->result_count; i++) reads[f->results[i]->id]++;
    for (const mil_op *op = f->first; op; op = op->next)
        MIL_FOR_OPERANDS (op, v) reads[v->id]++;
    *out = reads;
    return PROPANE_OK;
}

static propane_status steps_plan_steps(sim_program *p, const mil_function *whose, const bool *moved,
                                       const sim_numbers *n, steps_work *w, propane_error *err) {
    const mil_function *f = p->function;
    const mil_op *theirs = whose->first;
    int operands = 1, place = 0;
    bool in_lists = false; /* the next operation is part of a step that has already been made */
    p->slots = ARENA_ARRAY(w->arena, f->value_count + 1, sim_slot);
    p->steps = ARENA_ARRAY(w->arena, f->op_count + 1, sim_step);
    if (!p->slots || !p->steps) return steps_no_memory(err);
    for (int i = 0; i < f->param_count; i++) p->slots[f->params[i]->id] = (sim_slot){.place = SIM_INPUT, .index = i};
    for (const mil_op *op = f->first; op; op = op->next) {
        bool host = false;
        if (op->info->code != MIL_OP_const && (theirs = steps_next(theirs, &place))) {
            host = moved && moved[place++];
            theirs = theirs->next;
        }
        const bool done = in_lists;
        in_lists &= op != w->last_list;
        if (steps_known(op)) {
            for (int r = 0; r < op->result_count; r++)
                p->slots[op->results[r]->id] = (sim_slot){.place = SIM_CONST, .data = op->results[r]->constant->data};
            continue;
        }
        if (done || !steps_is_live(op, w->live)) continue;
        in_lists = op != w->last_list && steps_uses_list(op);
        PROPANE_TRY(in_lists ? steps_add_lists(p, op, w, err) : steps_add_step(p, op, host, n, w, err));
        const sim_step *s = &p->steps[p->step_count - 1];
        if (operands < s->in_count + s->out_count) operands = s->in_count + s->out_count;
    }
    p->pointers = ARENA_ARRAY(w->arena, operands + 1, void *);
    p->scratch = p->block_bytes;
    p->block_bytes += p->scratch_bytes;
    return p->pointers ? PROPANE_OK : steps_no_memory(err);
}

propane_status sim_program_create(const mil_function *f, const bool *moved, const sim_numbers *n,
                                  const cpu_plan_options *options, arena *a, sim_program **out, propane_error *err) {
    arena *work = arena_create();
    sim_program *p = work ? ARENA_NEW(a, sim_program) : NULL;
    steps_work w = {.options = options, .arena = a};
    if (p) p->threads = pool_threads();
    propane_status status = p ? steps_copy_function(p, f, err) : steps_no_memory(err);
    if (!status) status = steps_find_live(p->function, work, &w.live, err);
    if (!status) status = steps_count_reads(p->function, work, &w.reads, err);
    if (!status && !(w.map = ARENA_ARRAY(work, p->function->value_count + 1, mil_value *)))
        status = steps_no_memory(err);
    if (!status) status = steps_find_lists(p->function, work, &w, err);
    if (!status) status = steps_plan_steps(p, f, moved, n, &w, err);
    arena_free(work);
    if (status != PROPANE_OK) sim_program_deinit(p);
    *out = status == PROPANE_OK ? p : NULL;
    return status;
}

void sim_program_deinit(sim_program *p) {
    if (!p) return;
    for (int i = 0; i < p->step_count; i++) cpu_program_deinit(p->steps[i].program);
    mil_module_free(p->module);
    p->module = NULL;
    p->step_count = 0;
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

static void *steps_address(const sim_program *p, void *block, void *const *inputs, int value) {
    const sim_slot *slot = &p->slots[value];
    switch (slot->place) {
    case SIM_INPUT: return inputs[slot->index];
    case SIM_TEMP: return (unsigned char *)block + slot->offset;
    default: return (void *)(uintptr_t)slot->data;
    }
}

static const void *steps_operand(const sim_program *p, const mil_value *v, void *block, void *const *inputs) {
    return !v ? NULL : v->constant ? v->constant->data : steps_address(p, block, inputs, v->id);
}

static propane_status steps_run_products(const sim_program *p, const sim_step *s, const sim_numbers *n, void *block,
                                         void *const *inputs, propane_error *err) {
    const bool two = s->planar || s->op->info->code == MIL_OP_matmul;
    const void *const operands[3] = {
        steps_operand(p, mil_in(s->op, "x"), block, inputs),
        steps_operand(p, mil_in(s->op, two ? "y" : "weight"), block, inputs),
        steps_operand(p, two ? NULL : mil_in(s->op, "bias"), block, inputs),
    };
    void *result = steps_address(p, block, inputs, s->op->results[0]->id);
    if (!s->planar)
        return sim_products_run(s->op, n->array, operands, result, (unsigned char *)block + p->scratch, err);
    sim_planar_run(s->op, operands[0], operands[1], result);
    return PROPANE_OK;
}

static propane_status steps_run_kernel(const sim_program *p, const sim_step *s, const sim_numbers *n, void *block,
                                       void *const *inputs, propane_error *err) {
    const mil_value *x = s->op->operands[0].values[0], *y = s->op->results[0];
    int64_t count = mil_type_count(&x->type);
    if (s->map) {
        const uint16_t *in = steps_address(p, block, inputs, s->in[0]);
        uint16_t *out = steps_address(p, block, inputs, s->out[0]);
        for (int64_t i = 0; i < count; i++) out[i] = s->map[in[i]];
        return PROPANE_OK;
    }
    float *from = (float *)((unsigned char *)block + p->scratch);
    float *to = from + round_up((int64_t)sizeof(float) * count, SIM_ALIGNED) / (int64_t)sizeof(float);
    sim_load_f32(from, x->type.dtype, steps_address(p, block, inputs, s->in[0]), count);
    PROPANE_TRY(sim_kernel_run(n, s->op, from, to, err));
    sim_store_f32(steps_address(p, block, inputs, s->out[0]), y->type.dtype, to, mil_type_count(&y->type));
    return PROPANE_OK;
}

propane_status sim_program_run(sim_program *p, const sim_numbers *n, void *block, void *const *inputs,
                               const void **outputs, propane_error *err) {
    if (pool_threads() != p->threads)
        return propane_fail(err, PROPANE_ERR_DEVICE, "the program was compiled for %d threads, but the pool has %d now",
                            p->threads, pool_threads());
    for (int i = 0; i < p->step_count; i++) {
        const sim_step *s = &p->steps[i];
        if (s->alias) continue;
        if (poll_stop())
            return propane_fail(err, PROPANE_ERR_CANCELLED, "the run was stopped at step %d of %d", i, p->step_count);
        if (s->exact || s->planar) {
            PROPANE_TRY(steps_run_products(p, s, n, block, inputs, err));
            sim_store(n, s->op, &s->op->results[0]->type, steps_address(p, block, inputs, s->op->results[0]->id));
            continue;
        }
        if (s->program) {
            void **in = p->pointers, **out = in + s->in_count;
            for (int k = 0; k < s->in_count; k++) in[k] = steps_address(p, block, inputs, s->in[k]);
            for (int k = 0; k < s->out_count; k++) out[k] = steps_address(p, block, inputs, s->out[k]);
            PROPANE_TRY(cpu_program_run(s->program, (unsigned char *)block + p->scratch, in, out, err));
        } else {
            PROPANE_TRY(steps_run_kernel(p, s, n, block, inputs, err));
        }
        if (s->fault >= 0)
            sim_fault_apply(s->fault, s->op, steps_operand(p, sim_fault_operand(s->op), block, inputs),
                            steps_operand(p, sim_fault_slope(s->op), block, inputs),
                            steps_address(p, block, inputs, s->out[0]));
        for (int k = 0; k < s->out_count && !s->host; k++)
            sim_store(n, s->op, &s->op->results[k]->type, steps_address(p, block, inputs, s->out[k]));
    }
    for (int i = 0; i < p->function->result_count; i++)
        outputs[i] = steps_address(p, block, inputs, p->function->results[i]->id);
    return PROPANE_OK;
}
