/* SPDX-License-Identifier: MIT
 * Owns the types of control flow, states and lists, and of shapes as values. When an op's rule runs, its blocks exist
 * and have been verified separately; the rule checks their inputs and results.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static propane_status shape_control_one(mil_type *out, int *out_count, mil_type type) {
    out[0] = type;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_shape(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_control_one(out, out_count, mil_type_tensor(MIL_int32, 1, &(int64_t){mil_in(op, "x")->type.rank}));
}

/* ---- control flow --------------------------------------------------------------------------------------------------------- */

static propane_status shape_control_has_blocks(const mil_op *op, propane_error *err) {
    return op->block_count == mil_op_blocks(op->info) ? PROPANE_OK : BAD("its blocks are missing");
}

propane_status mil_shape_rule_cond(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    PROPANE_TRY(shape_control_has_blocks(op, err));
    const mil_function *yes = op->blocks[0], *no = op->blocks[1];
    char a[160], b[160];
    if (mil_type_count(&mil_in(op, "pred")->type) != 1) return BAD("pred must be a single bool");
    if (yes->param_count != yes->captured || no->param_count != no->captured) return BAD("its blocks take no inputs");
    if (yes->result_count != no->result_count || yes->result_count > MIL_MAX_RESULTS)
        return BAD("its blocks return %d and %d results; the numbers must be equal", yes->result_count,
                   no->result_count);
    for (int i = 0; i < yes->result_count; i++) {
        out[i] = yes->results[i]->type;
        if (!mil_type_equal(&out[i], &no->results[i]->type))
            return BAD("result %d is %s if true and %s if false; it must have one type", i, mil_type_print(a, &out[i]),
                       mil_type_print(b, &no->results[i]->type));
    }
    *out_count = yes->result_count;
    return PROPANE_OK;
}

propane_status mil_shape_rule_while_loop(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    static const char *const names[] = {"the condition", "the body"};
    mil_value *const *vars;
    int count = mil_in_list(op, "loop_vars", &vars);
    char a[160], b[160];
    PROPANE_TRY(shape_control_has_blocks(op, err));
    if (count > MIL_MAX_RESULTS) return BAD("more than %d loop variables", MIL_MAX_RESULTS);
    for (int k = 0; k < 2; k++) {
        const mil_function *block = op->blocks[k];
        int own = block->param_count - block->captured;
        if (own != count) return BAD("%s takes %d inputs, but there are %d loop variables", names[k], own, count);
        for (int i = 0; i < count; i++)
            if (!mil_type_equal(&block->params[i]->type, &vars[i]->type))
                return BAD("input %d of %s is %s, but the loop variable is %s", i, names[k],
                           mil_type_print(a, &block->params[i]->type), mil_type_print(b, &vars[i]->type));
    }
    const mil_function *test = op->blocks[0], *body = op->blocks[1];
    if (test->result_count != 1 || test->results[0]->type.dtype != MIL_bool ||
        mil_type_count(&test->results[0]->type) != 1)
        return BAD("the condition must return a single bool");
    if (body->result_count != count)
        return BAD("the body returns %d results, but there are %d loop variables", body->result_count, count);
    for (int i = 0; i < count; i++) {
        if (!mil_type_equal(&body->results[i]->type, &vars[i]->type))
            return BAD("loop variable %d begins as %s and becomes %s; it must keep its type", i,
                       mil_type_print(a, &vars[i]->type), mil_type_print(b, &body->results[i]->type));
        out[i] = vars[i]->type;
    }
    *out_count = count;
    return PROPANE_OK;
}

/* ---- states --------------------------------------------------------------------------------------------------------------- */

static propane_status shape_control_same_tensor(const mil_op *op, const char *state, const char *value,
                                                propane_error *err) {
    mil_type inside = mil_type_bare(&mil_in(op, state)->type);
    const mil_type *given = &mil_in(op, value)->type;
    char a[160], b[160];
    if (mil_type_equal(&inside, given)) return PROPANE_OK;
    return BAD("%s is %s, but the state holds %s", value, mil_type_print(a, given), mil_type_print(b, &inside));
}

propane_status mil_shape_rule_read_state(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_control_one(out, out_count, mil_type_bare(&mil_in(op, "input")->type));
}

propane_status mil_shape_rule_write_state(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    *out_count = 0;
    return shape_control_same_tensor(op, "input", "data", err);
}

propane_status mil_shape_rule_update_state(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    PROPANE_TRY(shape_control_same_tensor(op, "state", "value", err));
    return shape_control_one(out, out_count, mil_in(op, "value")->type);
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------- */

propane_status mil_shape_rule_make_list(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_type list = {.container = MIL_LIST};
    const char *name = NULL;
    mil_value *const *dims;
    int count = mil_in_list(op, "elem_shape", &dims);
    PROPANE_TRY(mil_attr_text(op, "dtype", &name, err));
    PROPANE_TRY(mil_attr_int(op, "init_length", &list.length, err));
    list.dtype = mil_dtype_from_name(name, strlen(name));
    if (list.dtype != MIL_fp16 && list.dtype != MIL_fp32 && list.dtype != MIL_int32 && list.dtype != MIL_bool)
        return BAD("dtype is \"%.40s\"; it must be fp16, fp32, int32 or bool", name);
    if (list.length < 1) return BAD("init_length is %lld; it must be at least 1", (long long)list.length);
    for (int k = 0; k < count; k++) {
        const mil_const *c = dims[k]->constant;
        if (c->type.dtype == MIL_string)
            return BAD("elem_shape names the size \"%.40s\"; a number is needed", mil_const_text(c, 0));
        for (int64_t i = 0; i < mil_type_count(&c->type); i++) {
            if (list.rank == MIL_MAX_RANK) return BAD("elem_shape has more than %d dimensions", MIL_MAX_RANK);
            list.dim[list.rank++] = mil_const_i64(c, i);
        }
    }
    return shape_control_one(out, out_count, list);
}

propane_status mil_shape_rule_list_length(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_control_one(out, out_count, mil_type_scalar(MIL_int32));
}

propane_status mil_shape_rule_list_read(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    if (mil_type_count(&mil_in(op, "index")->type) != 1) return BAD("index must be a single number");
    return shape_control_one(out, out_count, mil_type_bare(&mil_in(op, "ls")->type));
}

propane_status mil_shape_rule_list_write(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    if (mil_type_count(&mil_in(op, "index")->type) != 1) return BAD("index must be a single number");
    PROPANE_TRY(shape_control_same_tensor(op, "ls", "value", err));
    return shape_control_one(out, out_count, mil_in(op, "ls")->type);
}

/* Sets *out to the type of one element per index: [number of indices, *element]. */
static propane_status shape_control_packed(const mil_op *op, mil_type *out, propane_error *err) {
    const mil_type *list = &mil_in(op, "ls")->type, *indices = &mil_in(op, "indices")->type;
    if (indices->rank != 1) return BAD("indices must be a vector");
    if (list->rank == MIL_MAX_RANK) return BAD("the elements already have rank %d", list->rank);
    *out = (mil_type){.dtype = list->dtype, .rank = list->rank + 1, .dim = {indices->dim[0]}};
    for (int d = 0; d < list->rank; d++) out->dim[d + 1] = list->dim[d];
    return PROPANE_OK;
}

propane_status mil_shape_rule_list_gather(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    *out_count = 1;
    return shape_control_packed(op, out, err);
}

propane_status mil_shape_rule_list_scatter(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_type wanted;
    char a[160], b[160];
    PROPANE_TRY(shape_control_packed(op, &wanted, err));
    if (!mil_type_equal(&wanted, &mil_in(op, "value")->type))
        return BAD("value is %s; it must be %s", mil_type_print(a, &mil_in(op, "value")->type),
                   mil_type_print(b, &wanted));
    return shape_control_one(out, out_count, mil_in(op, "ls")->type);
}
