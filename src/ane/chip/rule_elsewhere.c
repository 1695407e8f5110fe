/* SPDX-License-Identifier: MIT
 * Owns the checks of shapes and forms that failed in Core ML outside the engine, or in its compiler. They are about
 * crashes, loads that never finish, and states and weights in forms that some systems refuse.
 */
#include <string.h>

#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"

static bool rule_elsewhere_made_by(const mil_value *v, mil_opcode code) {
    return v && v->def && v->def->info->code == code;
}

/* ---- convolutions and products --------------------------------------------------------------------------------------------- */

bool chip_rule_large_volume(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *t = &mil_in(view->op, "x")->type;
    if (t->rank != 5) return false;
    const double voxels = (double)t->dim[2] * (double)t->dim[3] * (double)t->dim[4];
    return voxels >= view->limit->value && chip_found(out, "its input has %lld x %lld x %lld positions",
                                                      (long long)t->dim[2], (long long)t->dim[3], (long long)t->dim[4]);
}

bool chip_rule_long_strided(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *t = &mil_in(view->op, "x")->type;
    int64_t strides[MIL_MAX_RANK * 2];
    int count = 0;
    if (!mil_in(view->op, "strides") || t->dtype != MIL_fp16) return false;
    if (mil_attr_ints(view->op, "strides", strides, &count, NULL) != PROPANE_OK) return false;
    for (int i = 0; i < count && i + 2 < t->rank; i++)
        if (strides[i] > 1 && (double)t->dim[i + 2] > view->limit->value)
            return chip_found(out, "the stride of axis %d is %lld, and the axis has %lld elements", i + 2,
                              (long long)strides[i], (long long)t->dim[i + 2]);
    return false;
}

bool chip_rule_product_work(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    bool turned = false;
    if (mil_attr_bool(view->op, "transpose_x", &turned, NULL) != PROPANE_OK || x->type.rank < 2) return false;
    const double depth = (double)x->type.dim[x->type.rank - (turned ? 2 : 1)];
    const double work = (double)mil_type_count(&view->op->results[0]->type) * depth;
    return work >= view->limit->value && chip_found(out, "it multiplies and adds %.3g times", work);
}

bool chip_rule_block_weight(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = chip_weight_of(view->op);
    if (!rule_elsewhere_made_by(w, MIL_OP_constexpr_blockwise_shift_scale) || view->op_counts[MIL_OP_read_state])
        return false;
    const mil_type *s = &mil_in(w->def, "scale")->type;
    if (mil_dtype_get(mil_in(w->def, "data")->type.dtype)->bits != (int)view->limit->value) return false;
    for (int i = 1; i < s->rank; i++)
        if (s->dim[i] > 1)
            return chip_found(out, "its weight '%.60s' has int4 blocks, and the program has no state", w->name);
    return false;
}

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

/* Finds layer_norm over the channels of a one-dimensional convolution. */
bool chip_rule_norm_of_conv1d(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    if (!rule_elsewhere_made_by(x, MIL_OP_transpose)) return false;
    const mil_value *conv = mil_in(x->def, "x");
    return rule_elsewhere_made_by(conv, MIL_OP_conv) && conv->type.rank == 3 &&
           chip_found(out, "it normalizes the channels of the one-dimensional convolution '%.60s'", conv->name);
}

bool chip_rule_computed_reps(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *reps = mil_in(view->op, "reps");
    return view->function->opset >= MIL_IOS18 && reps->def && reps->def->info->code != MIL_OP_const &&
           chip_found(out, "reps is computed: '%.60s'", chip_value_name(reps));
}

bool chip_rule_scatter_of_vector(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *data = mil_in(view->op, "data");
    return data->type.rank == 1 && chip_found(out, "'%.60s' has one axis", chip_value_name(data));
}

/* Finds a gather whose indices come from topk, perhaps through casts, repetitions and changes of shape. */
bool chip_rule_indices_of_topk(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *v = mil_in(view->op, "indices");
    while (rule_elsewhere_made_by(v, MIL_OP_cast) || rule_elsewhere_made_by(v, MIL_OP_tile) ||
           rule_elsewhere_made_by(v, MIL_OP_expand_dims) || rule_elsewhere_made_by(v, MIL_OP_reshape) ||
           rule_elsewhere_made_by(v, MIL_OP_squeeze))
        v = mil_in(v->def, "x");
    return rule_elsewhere_made_by(v, MIL_OP_topk) &&
           chip_found(out, "topk '%.60s' computes its indices", v->def->results[0]->name);
}

/* Finds a computed scalar to which axes are added. */
bool chip_rule_expanded_scalar(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    return x->type.rank == 0 && !chip_is_constant(x) && chip_found(out, "'%.60s' has no axes", chip_value_name(x));
}

bool chip_rule_open_result(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *y = view->op->results[0];
    return mil_type_is_open(&y->type) &&
           chip_found(out, "'%.60s' has as many elements as values differ from 0", y->name);
}

/* ---- flexible inputs --------------------------------------------------------------------------------------------------------- */

bool chip_rule_flexible_batch(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = mil_interface_of(view->module, view->function->name);
    const int *n = view->op_counts;
    if (!n[MIL_OP_conv] && !n[MIL_OP_matmul] && !n[MIL_OP_scaled_dot_product_attention]) return false;
    for (int i = 0; face && i < face->input_count; i++) {
        const mil_feature *f = &face->inputs[i];
        if (f->range_count < 2 || !mil_feature_is_flexible(f, 0)) continue;
        return chip_found(out, "the batch of input '%.60s' is flexible", f->name);
    }
    return false;
}

bool chip_rule_enumerated_palette(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    if (!view->op_counts[MIL_OP_constexpr_lut_to_dense]) return false;
    char input[CHIP_TEXT_BYTES];
    return chip_rule_enumerated(view, input) && chip_found(out, "%.200s, and its weights are palettes", input);
}

/* ---- states ------------------------------------------------------------------------------------------------------------------ */

/* Returns the value that the operation writes to a state, or NULL if it writes none. */
static const mil_value *rule_elsewhere_written(const mil_op *op) {
    if (op->info->code == MIL_OP_coreml_update_state) return mil_in(op, "value");
    return op->info->code == MIL_OP_write_state ? mil_in(op, "data") : NULL;
}

bool chip_rule_turned_update(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *v = rule_elsewhere_written(view->op);
    if (!rule_elsewhere_made_by(v, MIL_OP_slice_update)) return false;
    const mil_value *update = mil_in(v->def, "update");
    return rule_elsewhere_made_by(update, MIL_OP_transpose) &&
           chip_found(out, "the rows '%.60s' are transposed before they are written", update->name);
}

static bool rule_elsewhere_read_from(const mil_value *v) {
    while (v && v->def && (v->def->info->code == MIL_OP_slice_by_index || v->def->info->code == MIL_OP_slice_by_size))
        v = mil_in(v->def, "x");
    return rule_elsewhere_made_by(v, MIL_OP_read_state);
}

/* Finds a state that is replaced by a slice of itself and new rows. */
bool chip_rule_shifted_state(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *v = rule_elsewhere_written(view->op);
    if (!rule_elsewhere_made_by(v, MIL_OP_concat)) return false;
    MIL_FOR_OPERANDS (v->def, part)
        if (rule_elsewhere_read_from(part) && !rule_elsewhere_made_by(part, MIL_OP_read_state))
            return chip_found(out, "'%.60s' is a part of the state and new rows", v->name);
    return false;
}

/* ---- what Core ML gives to the CPU ------------------------------------------------------------------------------------------ */

/* Finds the first operation that Core ML's CPU library runs for certain: a recurrent layer, or fp32 arithmetic. */
bool chip_rule_cpu_library(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (const mil_op *op = view->function->first; op; op = op->next) {
        const mil_opcode code = op->info->code;
        if (code == MIL_OP_lstm || code == MIL_OP_gru || code == MIL_OP_rnn)
            return chip_found(out, "%s '%.60s' runs on the CPU", op->info->name, op->results[0]->name);
        if (chip_is_product(code) && op->results[0]->type.dtype == MIL_fp32)
            return chip_found(out, "%s '%.60s' computes in fp32", op->info->name, op->results[0]->name);
    }
    return false;
}
