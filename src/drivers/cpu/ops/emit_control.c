/* SPDX-License-Identifier: MIT
 * cond, while_loop and lists. A block is a function like any other, so it is planned by itself, once, into a program of its
 * own that the step of the operation runs: its memory is a part of this program's. Loop variables lie where the results will;
 * a body that cannot compute one in place writes it to a second place, and the two change over with every round.
 *
 * A list is its elements one after the other.
 */
#include <string.h>

#include "drivers/cpu/loop/dense.h"
#include "drivers/cpu/ops/emitters.h"

enum { MAX_ROUNDS = 10000000 }; /* of a loop: more is taken for one that does not end */

typedef struct control_args {
    int vars, captured, results;
    cpu_program *block[2];
    cpu_ref pred, *from, *around, *out, *spare; /* from: of each variable's first value; around: captured */
    int64_t *bytes;                             /* of each result */
    bool *in_place;
    cpu_ref memory, answer;
    void **in, **to; /* room for the addresses of one run of a block */
    const char *where;
} control_args;

static propane_status emit_control_cond_run(const cpu_run *run, const void *args, propane_error *err) {
    const control_args *a = args;
    const bool yes = *(const uint8_t *)cpu_ref_at(run, a->pred) != 0;
    for (int i = 0; i < a->captured; i++) a->in[i] = cpu_ref_at(run, a->around[i]);
    for (int i = 0; i < a->results; i++) a->to[i] = cpu_ref_at(run, a->out[i]);
    return cpu_program_run(a->block[yes ? 0 : 1], cpu_ref_at(run, a->memory), a->in, a->to, err);
}

/* in[k] is where variable k lies now. */
static propane_status emit_control_loop_run(const cpu_run *run, const void *args, propane_error *err) {
    const control_args *a = args;
    void *memory = cpu_ref_at(run, a->memory), *answer = cpu_ref_at(run, a->answer);
    for (int k = 0; k < a->vars; k++) {
        a->in[k] = cpu_ref_at(run, a->out[k]);
        memcpy(a->in[k], cpu_ref_at(run, a->from[k]), (size_t)a->bytes[k]);
    }
    for (int i = 0; i < a->captured; i++) a->in[a->vars + i] = cpu_ref_at(run, a->around[i]);
    for (int rounds = 0;; rounds++) {
        if (rounds == MAX_ROUNDS)
            return propane_fail(err, PROPANE_ERR_LIMIT, "%s: the loop has run %d rounds and does not end", a->where,
                                rounds);
        PROPANE_TRY(cpu_program_run(a->block[0], memory, a->in, &answer, err));
        if (!*(const uint8_t *)answer) break;
        for (int k = 0; k < a->vars; k++) {
            void *own = cpu_ref_at(run, a->out[k]);
            a->to[k] = a->in_place[k] ? a->in[k] : a->in[k] == own ? cpu_ref_at(run, a->spare[k]) : own;
        }
        PROPANE_TRY(cpu_program_run(a->block[1], memory, a->in, a->to, err));
        for (int k = 0; k < a->vars; k++) a->in[k] = a->to[k];
    }
    for (int k = 0; k < a->vars; k++) {
        void *own = cpu_ref_at(run, a->out[k]);
        if (a->in[k] != own) memcpy(own, a->in[k], (size_t)a->bytes[k]);
    }
    return PROPANE_OK;
}

/* ---- planning ----------------------------------------------------------------------------------------------------------- */

/* Programs of both blocks; they are the outer program's to free, also if something fails from here on. */
static propane_status emit_control_compile_blocks(planner *p, const mil_op *op, control_args *a, propane_error *err) {
    cpu_program *outer = p->program;
    for (int k = 0; k < 2; k++) {
        PROPANE_TRY(p->plan(op->blocks[k], &p->g.options, p->arena, &a->block[k], err));
        a->block[k]->outside = outer->inside;
        outer->inside = a->block[k];
    }
    return PROPANE_OK;
}

static propane_status emit_control_dense_refs(planner *p, const mil_op *op, const mil_operand *o, cpu_view *views,
                                              cpu_ref *out, propane_error *err) {
    for (int i = 0; i < o->count; i++) {
        PROPANE_TRY(cpu_emit_operand(p, o->values[i], &views[i], err));
        PROPANE_TRY(cpu_emit_dense(p, op->results[0], &views[i], &views[i], err));
        out[i] = cpu_view_ref(&views[i]);
    }
    return PROPANE_OK;
}

/* Which variables the body computes in the memory that they lie in, and a second place for the others. */
static propane_status emit_control_plan_variables(planner *p, control_args *a, propane_error *err) {
    const cpu_program *body = a->block[1];
    for (int k = 0; k < a->vars; k++) {
        a->in_place[k] = body->in_place[k * body->input_count + k];
        if (!a->in_place[k]) PROPANE_TRY(cpu_emit_scratch(p, a->bytes[k] + 1, &a->spare[k], err));
    }
    return cpu_emit_scratch(p, 64, &a->answer, err);
}

static propane_status emit_blocks(planner *p, const mil_op *op, control_args *a, propane_error *err) {
    const bool loop = op->info->code == MIL_OP_while_loop;
    const mil_operand *own = &op->operands[mil_op_param(op->info, loop ? "loop_vars" : "pred")];
    const mil_operand *around = &op->operands[mil_op_captured(op->info)];
    const int operands = own->count + around->count, results = op->result_count;
    a->vars = loop ? own->count : 0, a->captured = around->count, a->results = results;
    a->from = ARENA_ARRAY(p->arena, operands + 1, cpu_ref);
    a->out = ARENA_ARRAY(p->arena, 2 * results + 1, cpu_ref);
    a->bytes = ARENA_ARRAY(p->arena, results + 1, int64_t);
    a->in_place = ARENA_ARRAY(p->arena, results + 1, bool);
    a->in = ARENA_ARRAY(p->arena, operands + results + 1, void *);
    a->where = cpu_emit_where(p, op);
    cpu_view *views = ARENA_ARRAY(p->work, operands + 2 * results + 1, cpu_view);
    if (!a->from || !a->out || !a->bytes || !a->in_place || !a->in || !a->where || !views)
        return cpu_program_no_memory(err);
    a->around = a->from + own->count, a->spare = a->out + results, a->to = a->in + operands;
    PROPANE_TRY(emit_control_dense_refs(p, op, own, views, a->from, err));
    PROPANE_TRY(emit_control_dense_refs(p, op, around, views + own->count, a->around, err));
    if (!loop) a->pred = a->from[0];
    cpu_view *want = views + operands, *at = want + results;
    for (int r = 0; r < results; r++) {
        PROPANE_TRY(cpu_emit_result_dense(p, op->results[r], &want[r], &at[r], err));
        a->out[r] = cpu_view_ref(&at[r]);
        a->bytes[r] = mil_type_count(&op->results[r]->type) * cpu_view_dtype_bytes(op->results[r]->type.dtype);
    }
    if (loop) PROPANE_TRY(emit_control_plan_variables(p, a, err));
    const int64_t first = a->block[0]->block_bytes, second = a->block[1]->block_bytes;
    PROPANE_TRY(cpu_emit_scratch(p, first > second ? first : second, &a->memory, err));
    for (int i = 0; i < operands; i++) cpu_emit_touch(p, views[i].buffer);
    for (int r = 0; r < results; r++) cpu_emit_touch(p, at[r].buffer);
    PROPANE_TRY(cpu_emit_step(p, loop ? emit_control_loop_run : emit_control_cond_run, a, op->info->name,
                              op->results[0], 0, 0, err));
    for (int r = 0; r < results; r++)
        if (!cpu_view_equal(&want[r], &at[r])) PROPANE_TRY(cpu_emit_copy(p, op->results[r], &at[r], &want[r], err));
    return PROPANE_OK;
}

/* Element types that no program has as inputs leave the blocks to the slow meaning. */
static propane_status emit_control(planner *p, const mil_op *op, propane_error *err) {
    propane_error why = {0};
    control_args *a = ARENA_NEW(p->arena, control_args);
    if (!a) return cpu_program_no_memory(err);
    const propane_status status = emit_control_compile_blocks(p, op, a, &why);
    if (status == PROPANE_ERR_UNSUPPORTED) return cpu_emit_reference(p, op, err);
    if (status != PROPANE_OK && err) *err = why;
    return status == PROPANE_OK ? emit_blocks(p, op, a, err) : status;
}

/* A list that a block gives as it was given has no operation that would make it. */
static bool emit_control_passes_list_on(const mil_function *block) {
    for (int i = 0; i < block->result_count; i++)
        if (block->results[i]->type.shell == MIL_LIST && !block->results[i]->def) return true;
    return false;
}

static bool emit_control_takes_control(const mil_op *op) {
    if (op->block_count != 2 || op->result_count == 0) return false;
    if (emit_control_passes_list_on(op->blocks[0]) || emit_control_passes_list_on(op->blocks[1])) return false;
    MIL_FOR_OPERANDS (op, v)
        if (v->type.shell == MIL_STATE || mil_dtype_get(v->type.dtype)->bits < 8) return false;
    return true;
}

const cpu_emitter cpu_emitter_control = {.emit = emit_control, .takes = emit_control_takes_control};

/* ---- lists ---------------------------------------------------------------------------------------------------------------- */

typedef struct list_args {
    mil_opcode code;
    int64_t length, element, picks; /* element: bytes */
    mil_dtype index_type;
    cpu_ref list, indices, value, y;
    const char *where;
} list_args;

static propane_status emit_control_list_run(const cpu_run *run, const void *args, propane_error *err) {
    const list_args *a = args;
    unsigned char *y = cpu_ref_at(run, a->y);
    const size_t each = (size_t)a->element;
    if (a->code == MIL_OP_make_list) {
        memset(y, 0, (size_t)a->length * each);
        return PROPANE_OK;
    }
    if (a->code == MIL_OP_list_length) {
        *(int32_t *)(void *)y = (int32_t)a->length;
        return PROPANE_OK;
    }
    const bool writes = a->code == MIL_OP_list_write || a->code == MIL_OP_list_scatter;
    const unsigned char *list = cpu_ref_at(run, a->list), *value = writes ? cpu_ref_at(run, a->value) : NULL;
    const void *indices = cpu_ref_at(run, a->indices);
    if (writes && y != list) memcpy(y, list, (size_t)a->length * each);
    for (int64_t i = 0; i < a->picks; i++) {
        double index = 0;
        cpu_dense_load(&index, a->index_type, indices, i, 1, 1);
        if (index < 0 || index >= (double)a->length)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: index %.0f is outside the list, which has %lld elements; lists that grow need an "
                                "init_length that is large enough",
                                a->where, index, (long long)a->length);
        const size_t at = (size_t)index * each, line = (size_t)i * each;
        if (writes)
            memcpy(y + at, value + line, each);
        else
            memcpy(y + line, list + at, each);
    }
    return PROPANE_OK;
}

static propane_status emit_list(planner *p, const mil_op *op, propane_error *err) {
    static const char *const none[] = {NULL}, *const one[] = {"ls", NULL}, *const read[] = {"ls", "index", NULL},
                             *const gather[] = {"ls", "indices", NULL}, *const write[] = {"ls", "index", "value", NULL},
                             *const scatter[] = {"ls", "indices", "value", NULL};
    const mil_opcode code = op->info->code;
    const char *const *names = code == MIL_OP_make_list     ? none
                               : code == MIL_OP_list_length ? one
                               : code == MIL_OP_list_read   ? read
                               : code == MIL_OP_list_gather ? gather
                               : code == MIL_OP_list_write  ? write
                                                            : scatter;
    const mil_type *list = code == MIL_OP_make_list ? &op->results[0]->type : &mil_in(op, "ls")->type;
    const mil_type bare = mil_type_bare(list);
    list_args *a = ARENA_NEW(p->arena, list_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    a->code = code;
    a->length = list->length;
    a->element = mil_type_count(&bare) * cpu_view_dtype_bytes(bare.dtype);
    if (d.in_count > 0) a->list = cpu_view_ref(&d.in[0]);
    if (d.in_count > 1) {
        a->indices = cpu_view_ref(&d.in[1]);
        a->index_type = d.in[1].dtype;
        a->picks = cpu_view_count(&d.in[1]);
    }
    if (d.in_count > 2) {
        a->value = cpu_view_ref(&d.in[2]);
        if (d.in[0].buffer != d.in[1].buffer && d.in[0].buffer != d.in[2].buffer)
            PROPANE_TRY(cpu_emit_may_share(p, &d.in[0], &d.out[0], err));
    }
    a->y = cpu_view_ref(&d.out[0]);
    a->where = cpu_emit_where(p, op);
    if (!a->where) return cpu_program_no_memory(err);
    return cpu_emit_end(p, op, &d, emit_control_list_run, a, op->info->name, 0, err);
}

const cpu_emitter cpu_emitter_list = {.emit = emit_list};
