/* SPDX-License-Identifier: MIT
 * Owns the reference meaning of control flow, states and lists. A block runs as a function. A state is changed in
 * place. A list is a value like any other, so writing to a list makes a new one. An index without an element is an
 * error, except when writing to a list of dynamic length, which grows.
 */
#include <string.h>

#include "core/mil/eval/eval.h"

enum { MAX_ROUNDS = 10000000 }; /* a loop that needs more rounds counts as endless */

propane_status mil_eval_shape(const mil_eval_args *a, propane_error *err) {
    const mil_type *type = &mil_eval_in(a, "x")->type;
    for (int d = 0; d < type->rank; d++) a->out[0].data[d] = (double)type->dim[d];
    return PROPANE_OK;
}

/* ---- control flow --------------------------------------------------------------------------------------------------------- */

static void eval_control_copy_data(mil_tensor *to, const mil_tensor *from) {
    memcpy(to->data, from->data, (size_t)mil_type_count(&to->type) * sizeof *to->data);
}

static int64_t eval_control_element_count(const mil_tensor *list) {
    mil_type bare = mil_type_bare(&list->type);
    return mil_type_count(&bare);
}

/* Makes a list longer; the new elements are zeros. */
static propane_status eval_control_grow(const mil_eval_args *a, mil_tensor *list, int64_t length, propane_error *err) {
    const int64_t each = eval_control_element_count(list), old = mil_type_count(&list->type);
    if (length <= list->type.length) return PROPANE_OK;
    if (!a->memory || length > MIL_LIST_MOST / (each ? each : 1))
        return mil_op_fail(a->op, err, PROPANE_ERR_LIMIT, "a list of %lld elements is too large", (long long)length);
    double *data = ARENA_ARRAY(a->memory, length * each + 1, double);
    if (!data) return propane_fail_memory(err, (size_t)(length * each) * sizeof *data);
    memcpy(data, list->data, (size_t)old * sizeof *data);
    list->data = data;
    list->type.length = length;
    return PROPANE_OK;
}

/* Copies a value. A list may have grown, so the destination must grow too. */
static propane_status eval_control_copy(const mil_eval_args *a, mil_tensor *to, const mil_tensor *from,
                                        propane_error *err) {
    if (from->type.container == MIL_LIST) {
        PROPANE_TRY(eval_control_grow(a, to, from->type.length, err));
        to->type.length = from->type.length;
        to->grows = from->grows;
    }
    eval_control_copy_data(to, from);
    return PROPANE_OK;
}

/* Runs a block on its own inputs, followed by the values that it captures. */
static propane_status eval_control_run_block(const mil_eval_args *a, int block, const mil_tensor *own, int own_count,
                                             arena *memory, mil_tensor **out, propane_error *err) {
    const int captured = mil_op_captured(a->op->info), count = a->op->operands[captured].count;
    mil_tensor *in = ARENA_ARRAY(memory, own_count + count + 1, mil_tensor);
    if (!in) return propane_fail_memory(err, 0);
    for (int i = 0; i < own_count; i++) in[i] = own[i];
    for (int i = 0; i < count; i++) in[own_count + i] = *a->in[captured][i];
    return mil_eval_block(a->op->blocks[block], in, a->round, memory, out, err);
}

propane_status mil_eval_cond(const mil_eval_args *a, propane_error *err) {
    arena *memory = arena_create();
    mil_tensor *results = NULL;
    propane_status status = memory ? PROPANE_OK : propane_fail_memory(err, 0);
    if (!status)
        status =
            eval_control_run_block(a, mil_eval_in(a, "pred")->data[0] != 0 ? 0 : 1, NULL, 0, memory, &results, err);
    for (int k = 0; !status && k < a->op->result_count; k++)
        status = eval_control_copy(a, &a->out[k], &results[k], err);
    arena_free(memory);
    return status;
}

/* Runs one round of a loop. Sets *again if the condition is true; a->out then holds the next loop variables. */
static propane_status eval_control_round_of(const mil_eval_args *a, bool *again, propane_error *err) {
    arena *memory = arena_create();
    mil_tensor *results = NULL;
    const int count = a->op->result_count;
    propane_status status = memory ? PROPANE_OK : propane_fail_memory(err, 0);
    if (!status) status = eval_control_run_block(a, 0, a->out, count, memory, &results, err);
    *again = !status && results[0].data[0] != 0;
    if (*again) status = eval_control_run_block(a, 1, a->out, count, memory, &results, err);
    for (int k = 0; *again && !status && k < count; k++) status = eval_control_copy(a, &a->out[k], &results[k], err);
    arena_free(memory);
    return status;
}

propane_status mil_eval_while_loop(const mil_eval_args *a, propane_error *err) {
    const int vars = mil_op_param(a->op->info, "loop_vars");
    bool again = true;
    for (int k = 0; k < a->op->result_count; k++) PROPANE_TRY(eval_control_copy(a, &a->out[k], a->in[vars][k], err));
    for (int rounds = 0; again; rounds++) {
        if (rounds == MAX_ROUNDS)
            return mil_op_fail(a->op, err, PROPANE_ERR_LIMIT, "the loop did not end after %d iterations", rounds);
        PROPANE_TRY(eval_control_round_of(a, &again, err));
    }
    return PROPANE_OK;
}

/* ---- states --------------------------------------------------------------------------------------------------------------- */

propane_status mil_eval_read_state(const mil_eval_args *a, propane_error *err) {
    eval_control_copy_data(&a->out[0], mil_eval_in(a, "input"));
    return PROPANE_OK;
}

/* Writes through the const pointer: the state's tensor belongs to the runner and is made to be written. */
static void eval_control_write_state(const mil_tensor *state, const mil_tensor *value) {
    memcpy(state->data, value->data, (size_t)mil_type_count(&value->type) * sizeof *value->data);
}

propane_status mil_eval_write_state(const mil_eval_args *a, propane_error *err) {
    eval_control_write_state(mil_eval_in(a, "input"), mil_eval_in(a, "data"));
    return PROPANE_OK;
}

propane_status mil_eval_update_state(const mil_eval_args *a, propane_error *err) {
    eval_control_write_state(mil_eval_in(a, "state"), mil_eval_in(a, "value"));
    eval_control_copy_data(&a->out[0], mil_eval_in(a, "value"));
    return PROPANE_OK;
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------- */

/* Converts entry `at` of the indices to an offset in the list's data. */
static propane_status eval_control_place(const mil_eval_args *a, const mil_tensor *list, const mil_tensor *indices,
                                         int64_t at, int64_t *out, propane_error *err) {
    const double index = indices->data[at];
    if (index < 0 || index >= (double)list->type.length)
        return mil_op_fail(a->op, err, PROPANE_ERR_INVALID,
                           "index %.0f is outside the list, which has %lld elements; to write there, "
                           "give the list a larger init_length, or dynamic_length",
                           index, (long long)list->type.length);
    *out = (int64_t)index * eval_control_element_count(list);
    return PROPANE_OK;
}

propane_status mil_eval_make_list(const mil_eval_args *a, propane_error *err) {
    return mil_attr_bool(a->op, "dynamic_length", &a->out[0].grows, err); /* the elements are zeros */
}

propane_status mil_eval_identity(const mil_eval_args *a, propane_error *err) {
    return eval_control_copy(a, &a->out[0], mil_eval_in(a, "x"), err);
}

propane_status mil_eval_list_length(const mil_eval_args *a, propane_error *err) {
    a->out[0].data[0] = (double)mil_eval_in(a, "ls")->type.length;
    return PROPANE_OK;
}

static propane_status eval_control_read_elements(const mil_eval_args *a, const char *param, propane_error *err) {
    const mil_tensor *list = mil_eval_in(a, "ls"), *indices = mil_eval_in(a, param);
    const int64_t count = eval_control_element_count(list);
    for (int64_t i = 0; i < mil_type_count(&indices->type); i++) {
        int64_t from = 0;
        PROPANE_TRY(eval_control_place(a, list, indices, i, &from, err));
        memcpy(a->out[0].data + i * count, list->data + from, (size_t)count * sizeof(double));
    }
    return PROPANE_OK;
}

static propane_status eval_control_write_elements(const mil_eval_args *a, const char *param, propane_error *err) {
    const mil_tensor *list = mil_eval_in(a, "ls"), *indices = mil_eval_in(a, param), *value = mil_eval_in(a, "value");
    const int64_t count = eval_control_element_count(list);
    PROPANE_TRY(eval_control_copy(a, &a->out[0], list, err));
    for (int64_t i = 0; i < mil_type_count(&indices->type); i++) {
        int64_t to = 0;
        if (list->grows) PROPANE_TRY(eval_control_grow(a, &a->out[0], (int64_t)indices->data[i] + 1, err));
        PROPANE_TRY(eval_control_place(a, &a->out[0], indices, i, &to, err));
        memcpy(a->out[0].data + to, value->data + i * count, (size_t)count * sizeof(double));
    }
    return PROPANE_OK;
}

propane_status mil_eval_list_read(const mil_eval_args *a, propane_error *err) {
    return eval_control_read_elements(a, "index", err);
}

propane_status mil_eval_list_gather(const mil_eval_args *a, propane_error *err) {
    return eval_control_read_elements(a, "indices", err);
}

propane_status mil_eval_list_write(const mil_eval_args *a, propane_error *err) {
    return eval_control_write_elements(a, "index", err);
}

propane_status mil_eval_list_scatter(const mil_eval_args *a, propane_error *err) {
    return eval_control_write_elements(a, "indices", err);
}
