/* SPDX-License-Identifier: MIT
 * Emits cond, while_loop and lists. A block is a function like any other, so it is planned separately, once, into a
 * program that the operation's step runs. This program uses a part of the outer program's memory. Loop variables are
 * stored where the results will be. If the body cannot compute a variable in place, it writes to a second place, and
 * the two places are swapped each round.
 *
 * A list is represented by the address of a cpu_list. A list that is a loop variable or a result of a block is copied
 * to a cpu_list of the loop or cond itself, because the block's own list changes when it runs again.
 */
#include <string.h>

#include "cpu/cpu_list.h"
#include "cpu/loop/dense.h"
#include "cpu/ops/emitters.h"

enum { MAX_ROUNDS = 10000000 }; /* of a loop: more is assumed to be endless */

typedef struct control_args {
    int vars, captured, results;
    cpu_program *block[2];
    cpu_ref pred, *from, *around, *out, *spare; /* from: each variable's first value; around: captured values */
    int64_t *bytes;                             /* per result */
    bool *in_place;
    cpu_ref memory, answer;
    cpu_list *(*own)[2]; /* for each result that is a list; a loop's variables alternate between the two */
    void **in, **to;     /* space for the addresses of one run of a block */
    const char *where;
} control_args;

/* Copies the list *at to a list of result k that is not `held`, which is in use, and sets *at to the copy. Does nothing
 * if result k is no list or *at is `held`. */
static propane_status emit_control_own(const control_args *a, int k, const cpu_list *held, cpu_list **at,
                                       propane_error *err) {
    if (!a->own[k][0] || *at == held) return PROPANE_OK;
    cpu_list *to = a->own[k][0] == held ? a->own[k][1] : a->own[k][0];
    PROPANE_TRY(cpu_list_assign(to, *at, a->where, err));
    *at = to;
    return PROPANE_OK;
}

static propane_status emit_control_cond_run(const cpu_run *run, const void *args, propane_error *err) {
    const control_args *a = args;
    const bool yes = *(const uint8_t *)cpu_ref_at(run, a->pred) != 0;
    for (int i = 0; i < a->captured; i++) a->in[i] = cpu_ref_at(run, a->around[i]);
    for (int i = 0; i < a->results; i++) a->to[i] = cpu_ref_at(run, a->out[i]);
    PROPANE_TRY(cpu_program_run(a->block[yes ? 0 : 1], cpu_ref_at(run, a->memory), a->in, a->to, err));
    for (int i = 0; i < a->results; i++) PROPANE_TRY(emit_control_own(a, i, NULL, a->to[i], err));
    return PROPANE_OK;
}

/* Runs one round of the body and updates the location of each variable. */
static propane_status emit_control_round(const cpu_run *run, const control_args *a, propane_error *err) {
    cpu_list *held[MIL_MAX_RESULTS] = {NULL};
    for (int k = 0; k < a->vars; k++) {
        void *own = cpu_ref_at(run, a->out[k]);
        if (a->own[k][0]) held[k] = *(cpu_list **)a->in[k];
        a->to[k] = a->in_place[k] ? a->in[k] : a->in[k] == own ? cpu_ref_at(run, a->spare[k]) : own;
    }
    PROPANE_TRY(cpu_program_run(a->block[1], cpu_ref_at(run, a->memory), a->in, a->to, err));
    for (int k = 0; k < a->vars; k++) {
        PROPANE_TRY(emit_control_own(a, k, held[k], a->to[k], err));
        a->in[k] = a->to[k];
    }
    return PROPANE_OK;
}

/* Runs the loop. in[k] is the current location of variable k. */
static propane_status emit_control_loop_run(const cpu_run *run, const void *args, propane_error *err) {
    const control_args *a = args;
    void *memory = cpu_ref_at(run, a->memory), *answer = cpu_ref_at(run, a->answer);
    for (int k = 0; k < a->vars; k++) {
        a->in[k] = cpu_ref_at(run, a->out[k]);
        memcpy(a->in[k], cpu_ref_at(run, a->from[k]), (size_t)a->bytes[k]);
        PROPANE_TRY(emit_control_own(a, k, NULL, a->in[k], err));
    }
    for (int i = 0; i < a->captured; i++) a->in[a->vars + i] = cpu_ref_at(run, a->around[i]);
    for (int rounds = 0;; rounds++) {
        if (rounds == MAX_ROUNDS)
            return propane_fail(err, PROPANE_ERR_LIMIT, "%s: the loop did not end after %d iterations", a->where,
                                rounds);
        PROPANE_TRY(cpu_program_run(a->block[0], memory, a->in, &answer, err));
        if (!*(const uint8_t *)answer) break;
        PROPANE_TRY(emit_control_round(run, a, err));
    }
    for (int k = 0; k < a->vars; k++) {
        void *own = cpu_ref_at(run, a->out[k]);
        if (a->in[k] != own) memcpy(own, a->in[k], (size_t)a->bytes[k]);
    }
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Compiles both blocks. The outer program frees them, even if something fails later. */
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

/* Determines which variables the body computes in place, and allocates a second place for the others. */
static propane_status emit_control_plan_variables(planner *p, control_args *a, propane_error *err) {
    const cpu_program *body = a->block[1];
    for (int k = 0; k < a->vars; k++) {
        a->in_place[k] = driver_may_share(body->shares, body->share_count, k, k);
        if (!a->in_place[k]) PROPANE_TRY(cpu_emit_scratch(p, a->bytes[k] + 1, &a->spare[k], err));
    }
    return cpu_emit_scratch(p, 64, &a->answer, err);
}

static cpu_list *emit_control_list_of(planner *p, const mil_value *v) {
    const mil_type bare = mil_type_bare(&v->type);
    return cpu_list_create(p->arena, &p->program->lists, cpu_view_type_bytes(&bare));
}

static propane_status emit_control_own_lists(planner *p, const mil_op *op, control_args *a, propane_error *err) {
    for (int r = 0; r < op->result_count; r++)
        for (int i = 0; i < 2 && op->results[r]->type.container == MIL_LIST; i++)
            if (!(a->own[r][i] = emit_control_list_of(p, op->results[r]))) return cpu_program_no_memory(err);
    return PROPANE_OK;
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
    a->own = arena_array(p->arena, (size_t)results + 1, sizeof *a->own);
    a->where = cpu_emit_where(p, op);
    cpu_view *views = ARENA_ARRAY(p->work, operands + 2 * results + 1, cpu_view);
    if (!a->from || !a->out || !a->bytes || !a->in_place || !a->in || !a->own || !a->where || !views)
        return cpu_program_no_memory(err);
    a->around = a->from + own->count, a->spare = a->out + results, a->to = a->in + operands;
    PROPANE_TRY(emit_control_dense_refs(p, op, own, views, a->from, err));
    PROPANE_TRY(emit_control_dense_refs(p, op, around, views + own->count, a->around, err));
    if (!loop) a->pred = a->from[0];
    cpu_view *want = views + operands, *at = want + results;
    for (int r = 0; r < results; r++) {
        PROPANE_TRY(cpu_emit_result_dense(p, op->results[r], &want[r], &at[r], err));
        a->out[r] = cpu_view_ref(&at[r]);
        a->bytes[r] = cpu_view_type_bytes(&op->results[r]->type);
    }
    PROPANE_TRY(emit_control_own_lists(p, op, a, err));
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

/* Leaves the operation to the slow reference if a block cannot be planned, as with element types that no program
 * accepts as inputs. */
static propane_status emit_control(planner *p, const mil_op *op, propane_error *err) {
    propane_error why = {0};
    control_args *a = ARENA_NEW(p->arena, control_args);
    if (!a) return cpu_program_no_memory(err);
    const propane_status status = emit_control_compile_blocks(p, op, a, &why);
    if (status == PROPANE_ERR_UNSUPPORTED) return cpu_emit_reference(p, op, err);
    if (status != PROPANE_OK && err) *err = why;
    return status == PROPANE_OK ? emit_blocks(p, op, a, err) : status;
}

static bool emit_control_takes_control(const mil_op *op) {
    if (op->block_count != 2 || op->result_count == 0) return false;
    MIL_FOR_OPERANDS (op, v)
        if (v->type.container == MIL_STATE || mil_dtype_get(v->type.dtype)->bits < 8) return false;
    return true;
}

const cpu_emitter cpu_emitter_control = {.emit = emit_control, .takes = emit_control_takes_control};

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static cpu_list **emit_control_list_at(const cpu_run *run, cpu_ref r) { return cpu_ref_at(run, r); }

typedef struct list_args {
    int64_t length, picks; /* length: of make_list */
    bool grows;
    mil_dtype index_type;
    cpu_list *own; /* for a result that is a list */
    cpu_ref list, indices, value, y;
    const char *where;
} list_args;

static propane_status emit_control_make_list_run(const cpu_run *run, const void *args, propane_error *err) {
    const list_args *a = args;
    a->own->length = 0;
    a->own->grows = a->grows;
    *emit_control_list_at(run, a->y) = a->own;
    return cpu_list_resize(a->own, a->length, a->where, err);
}

static propane_status emit_control_list_length_run(const cpu_run *run, const void *args, propane_error *err) {
    const list_args *a = args;
    *(int32_t *)cpu_ref_at(run, a->y) = (int32_t)(*emit_control_list_at(run, a->list))->length;
    return PROPANE_OK;
}

/* Sets *out to the address of an element. A list with dynamic_length grows if it is written past its end. */
static propane_status emit_control_list_place(const list_args *a, cpu_list *list, bool writes, double index,
                                              unsigned char **out, propane_error *err) {
    if (index >= (double)list->length && writes && list->grows)
        PROPANE_TRY(cpu_list_resize(list, (int64_t)index + 1, a->where, err));
    if (index < 0 || index >= (double)list->length)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: index %.0f is outside the list, which has %lld elements; to write there, "
                            "give the list a larger init_length, or dynamic_length",
                            a->where, index, (long long)list->length);
    *out = list->data + (int64_t)index * list->each;
    return PROPANE_OK;
}

static propane_status emit_control_list_run(const cpu_run *run, const void *args, propane_error *err) {
    const list_args *a = args;
    const bool writes = a->own != NULL;
    cpu_list **from = emit_control_list_at(run, a->list), *list = *from;
    unsigned char *other = cpu_ref_at(run, writes ? a->value : a->y);
    const void *indices = cpu_ref_at(run, a->indices);
    if (writes && emit_control_list_at(run, a->y) != from) {
        PROPANE_TRY(cpu_list_assign(a->own, list, a->where, err));
        *emit_control_list_at(run, a->y) = list = a->own;
    }
    for (int64_t i = 0; i < a->picks; i++, other += list->each) {
        unsigned char *at = NULL;
        double index = 0;
        cpu_dense_load(&index, a->index_type, indices, i, 1, 1);
        PROPANE_TRY(emit_control_list_place(a, list, writes, index, &at, err));
        memcpy(writes ? at : other, writes ? other : at, (size_t)list->each);
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
    list_args *a = ARENA_NEW(p->arena, list_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_emit_begin(p, op, names, &d, err));
    if (code == MIL_OP_make_list) PROPANE_TRY(mil_attr_bool(op, "dynamic_length", &a->grows, err));
    a->length = op->results[0]->type.length;
    if (op->results[0]->type.container == MIL_LIST && !(a->own = emit_control_list_of(p, op->results[0])))
        return cpu_program_no_memory(err);
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
    const cpu_step_run run = code == MIL_OP_make_list     ? emit_control_make_list_run
                             : code == MIL_OP_list_length ? emit_control_list_length_run
                                                          : emit_control_list_run;
    return cpu_emit_end(p, op, &d, run, a, op->info->name, 0, err);
}

/* The slow reference reads constant lists. */
static bool emit_control_takes_list(const mil_op *op) {
    return op->info->code == MIL_OP_make_list || !mil_in(op, "ls")->constant;
}

const cpu_emitter cpu_emitter_list = {.emit = emit_list, .takes = emit_control_takes_list};
