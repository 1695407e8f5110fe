/* SPDX-License-Identifier: MIT
 * Owns the checks of programs that Core ML itself refuses, or computes wrongly even on the CPU and the GPU.
 */
#include <string.h>

#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"

static bool rule_framework_is_half(const mil_value *v) { return v && v->type.dtype == MIL_fp16; }

/* ---- one operation ----------------------------------------------------------------------------------------------------------- */

/* The pairs of `pad` belong to the last axes. */
bool chip_rule_outer_pad(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    enum { INNER = 2 };
    int64_t pads[MIL_MAX_RANK * 2];
    int count = 0;
    const char *mode = NULL;
    if (mil_attr_text(view->op, "mode", &mode, NULL) != PROPANE_OK || !mode || strcmp(mode, "constant") == 0)
        return false;
    if (mil_attr_ints(view->op, "pad", pads, &count, NULL) != PROPANE_OK) return false;
    const int first = mil_in(view->op, "x")->type.rank - count / 2;
    for (int i = 0; i < count / 2 - INNER; i++)
        if (pads[2 * i] || pads[2 * i + 1])
            return chip_found(out, "the mode is %.20s, and axis %d is padded", mode, first + i);
    return false;
}

bool chip_rule_integer_division(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *y = view->op->results[0];
    return y->type.dtype == MIL_int32 && !chip_is_constant(y) && chip_found(out, "it divides int32 numbers");
}

bool chip_rule_many_boxes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    enum { CORNERS = 4 };
    const mil_value *boxes = mil_in(view->op, "boxes");
    if (!rule_framework_is_half(boxes) || boxes->type.rank != 3 || boxes->type.dim[0] < 1) return false;
    const int64_t n = mil_type_count(&boxes->type) / CORNERS / boxes->type.dim[0];
    return (double)n >= view->limit->value && chip_found(out, "it suppresses %lld boxes in fp16", (long long)n);
}

bool chip_rule_lower_pool(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const char *type = NULL;
    if (mil_in(view->op, "x")->type.rank != 3 || mil_attr_text(view->op, "pad_type", &type, NULL) != PROPANE_OK)
        return false;
    return type && strcmp(type, "same_lower") == 0 && chip_found(out, "it pools one axis with pad_type same_lower");
}

bool chip_rule_several_sequences(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *t = &mil_in(view->op, "x")->type;
    return t->rank == 3 && (double)t->dim[1] > view->limit->value &&
           chip_found(out, "its batch has %lld sequences", (long long)t->dim[1]);
}

bool chip_rule_half_crop(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_framework_is_half(view->op->results[0]) && chip_found(out, "it crops in fp16");
}

bool chip_rule_fractional_nearest(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *x = &mil_in(view->op, "x")->type, *y = &view->op->results[0]->type;
    for (int i = x->rank - 2; i >= 0 && i < x->rank; i++)
        if (x->dim[i] > 0 && y->dim[i] % x->dim[i] != 0)
            return chip_found(out, "axis %d grows from %lld to %lld", i, (long long)x->dim[i], (long long)y->dim[i]);
    return false;
}

bool chip_rule_end_of_singleton(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    int64_t begin[MIL_MAX_RANK * 2];
    bool whole[MIL_MAX_RANK] = {false};
    int count = 0;
    if (chip_is_constant(x) || mil_attr_ints(view->op, "begin", begin, &count, NULL) != PROPANE_OK) return false;
    if (mil_in(view->op, "begin_mask") &&
        mil_attr_bools(view->op, "begin_mask", x->type.rank, whole, NULL) != PROPANE_OK)
        return false;
    for (int i = 0; i < count && i < x->type.rank; i++)
        if (begin[i] < 0 && !whole[i] && x->type.dim[i] == 1)
            return chip_found(out, "it begins at %lld of axis %d, which has one element", (long long)begin[i], i);
    return false;
}

bool chip_rule_half_branch(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (int i = 0; i < view->op->result_count; i++)
        if (rule_framework_is_half(view->op->results[i]))
            return chip_found(out, "its result '%.60s' is fp16", view->op->results[i]->name);
    return false;
}

/* ---- flexible shapes and states ------------------------------------------------------------------------------------------------ */

bool chip_rule_flexible_recurrence(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = mil_interface_of(view->module, view->function->name);
    const int *n = view->op_counts;
    if (!n[MIL_OP_lstm] && !n[MIL_OP_gru] && !n[MIL_OP_rnn]) return false;
    for (int i = 0; face && i < face->input_count; i++) {
        int open = 0;
        for (int k = 0; k < face->inputs[i].range_count; k++) open += mil_feature_is_flexible(&face->inputs[i], k);
        if (open > 1)
            return chip_found(out, "%d axes of input '%.60s' are flexible, and it has a recurrent layer", open,
                              face->inputs[i].name);
    }
    return false;
}

bool chip_rule_flexible_mask(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *mask = mil_in(view->op, "attn_mask");
    char input[CHIP_TEXT_BYTES];
    return mask && !chip_is_constant(mask) && chip_rule_flexible(view, input) &&
           chip_found(out, "its mask '%.60s' is computed, and %.200s", chip_value_name(mask), input);
}

bool chip_rule_flexible_norm(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = mil_interface_of(view->module, view->function->name);
    enum { SPACE = 2 };
    for (int i = 0; face && i < face->input_count; i++)
        for (int k = SPACE; k < face->inputs[i].range_count; k++)
            if (mil_feature_is_flexible(&face->inputs[i], k))
                return chip_found(out, "axis %d of input '%.60s' is flexible", k, face->inputs[i].name);
    return false;
}

bool chip_rule_wide_state(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (int i = 0; i < view->function->param_count; i++) {
        const mil_value *v = view->function->params[i];
        if (v->type.container == MIL_STATE && v->type.dtype != MIL_fp16)
            return chip_found(out, "the state '%.60s' is %s", v->name, mil_dtype_get(v->type.dtype)->name);
    }
    return false;
}
