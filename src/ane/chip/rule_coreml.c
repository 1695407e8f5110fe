/* SPDX-License-Identifier: MIT
 * Owns the checks of effects that were seen through Core ML: operations that leave the engine, open shapes, states, and
 * weights with scales. Most look only at an operation, its operands and the operations that made them.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"

static const mil_value *rule_coreml_main(const mil_op *op) {
    return op->info->param_count && op->operands[0].count ? op->operands[0].values[0] : NULL;
}

/* Returns true if the result follows only from constants and shapes. Such values never reach a device. */
static bool rule_coreml_is_known(const mil_op *op) { return op->result_count && mil_know(op->results[0]); }

static bool rule_coreml_made_by(const mil_value *v, mil_opcode code) {
    return v && v->def && v->def->info->code == code;
}

bool chip_rule_computed(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return !rule_coreml_is_known(view->op) && chip_found(out, "it uses %s", view->op->info->name);
}

/* ---- element types ------------------------------------------------------------------------------------------------------ */

static bool rule_coreml_is_integer(const mil_value *v) {
    const mil_dtype_info *t = mil_dtype_get(v->type.dtype);
    return v->type.container == MIL_TENSOR && t->bits > 8 && (t->kind == MIL_KIND_INT || t->kind == MIL_KIND_UINT) &&
           !chip_is_constant(v);
}

/* Finds operations whose first operand is an integer tensor, and casts to integers. Indices next to a float operand do
 * not count. */
bool chip_rule_integers(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_op *op = view->op;
    const mil_value *x = rule_coreml_main(op);
    if (!x || !op->result_count) return false;
    const bool made = op->info->code == MIL_OP_cast && rule_coreml_is_integer(op->results[0]);
    if ((!made && !rule_coreml_is_integer(x)) || rule_coreml_is_known(op)) return false;
    if (rule_coreml_is_integer(x)) return chip_found(out, "it takes %s", mil_dtype_get(x->type.dtype)->name);
    return chip_found(out, "it makes %s", mil_dtype_get(op->results[0]->type.dtype)->name);
}

/* ---- windows ------------------------------------------------------------------------------------------------------------ */

/* Returns the largest integer of a list argument, or 0 if the argument is omitted. */
static int64_t rule_coreml_largest(const mil_op *op, const char *param) {
    int64_t list[MIL_MAX_RANK * 2], largest = 0;
    int count = 0;
    if (!mil_in(op, param) || mil_attr_ints(op, param, list, &count, NULL) != PROPANE_OK) return 0;
    for (int i = 0; i < count; i++)
        if (list[i] > largest) largest = list[i];
    return largest;
}

bool chip_rule_pool_kernel(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_coreml_largest(view->op, "kernel_sizes");
    return (double)n > view->limit->value &&
           chip_found(out, "the kernel has length %lld; the maximum is %.0f", (long long)n, view->limit->value);
}

bool chip_rule_stride(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_coreml_largest(view->op, "strides");
    return (double)n > view->limit->value &&
           chip_found(out, "the stride is %lld; the maximum is %.0f", (long long)n, view->limit->value);
}

bool chip_rule_kernel_length(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = mil_in(view->op, "weight");
    for (int i = 2; w && i < w->type.rank; i++)
        if ((double)w->type.dim[i] > view->limit->value)
            return chip_found(out, "the kernel has length %lld; the maximum is %.0f", (long long)w->type.dim[i],
                              view->limit->value);
    return false;
}

bool chip_rule_stride_5_7(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_coreml_largest(view->op, "strides");
    return (n == 5 || n == 7) && chip_found(out, "the stride is %lld", (long long)n);
}

bool chip_rule_dilated(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_coreml_largest(view->op, "dilations");
    return n > 1 && chip_found(out, "the dilation is %lld", (long long)n);
}

/* Core ML's tools write output_shape into every transposed convolution. This shape matters only if it changes the size
 * of an axis, or if the two sides of an axis are padded differently. */
bool chip_rule_cropping_shape(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_op *op = view->op;
    mil_conv c; /* c.out are x's dimensions, c.in the result's */
    const char *mode = NULL;
    int64_t pad[2 * MIL_MAX_RANK] = {0};
    int count = 0;
    if (!mil_in(op, "output_shape") || mil_conv_transpose_read(op, &c, NULL) != PROPANE_OK ||
        mil_attr_text(op, "pad_type", &mode, NULL) != PROPANE_OK)
        return false;
    const bool same = strcmp(mode, "same") == 0, custom = strcmp(mode, "custom") == 0;
    if (custom && mil_in(op, "pad") && mil_attr_ints(op, "pad", pad, &count, NULL) != PROPANE_OK) return false;
    for (int d = 0; d < c.spatial; d++) {
        const int64_t full = (c.out[d] - 1) * c.stride[d] + (c.kernel[d] - 1) * c.dilation[d] + 1;
        const int64_t natural = same ? c.out[d] * c.stride[d] : full - pad[2 * d] - pad[2 * d + 1];
        if (natural != c.in[d])
            return chip_found(out, "output_shape changes axis %d to %lld elements; it has %lld without it", d + 2,
                              (long long)c.in[d], (long long)natural);
        if (pad[2 * d] != pad[2 * d + 1])
            return chip_found(out, "with output_shape, axis %d loses %lld elements at the front and %lld at the end",
                              d + 2, (long long)pad[2 * d], (long long)pad[2 * d + 1]);
    }
    return false;
}

bool chip_rule_stride_fp32(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_coreml_largest(view->op, "strides");
    return view->op->results[0]->type.dtype == MIL_fp32 && (double)n > view->limit->value &&
           chip_found(out, "the stride is %lld, in fp32; the maximum is %.0f", (long long)n, view->limit->value);
}

bool chip_rule_three_dimensional(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    return x && x->type.rank == 5 && chip_found(out, "it is three-dimensional: its input has 5 axes");
}

bool chip_rule_upsample_factor(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    static const char *const params[] = {"scale_factor_height", "scale_factor_width"};
    for (int i = 0; i < 2; i++) {
        const mil_value *v = mil_in(view->op, params[i]);
        const double factor = v && v->constant && v->constant->data ? mil_const_f64(v->constant, 0) : 1;
        if (factor > view->limit->value)
            return chip_found(out, "the factor is %g; the maximum is %.0f", factor, view->limit->value);
    }
    return false;
}

/* Finds [C,H,W] combined with [C,1,1], both computed. */
bool chip_rule_channel_broadcast(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x"), *y = mil_in(view->op, "y");
    if (x->type.rank < 3 || x->type.rank != y->type.rank || chip_is_constant(x) || chip_is_constant(y)) return false;
    const int last = x->type.rank - 1;
    const int64_t *a = x->type.dim, *b = y->type.dim;
    const bool x_small = a[last] * a[last - 1] == 1, y_small = b[last] * b[last - 1] == 1;
    return x_small != y_small && a[last - 2] == b[last - 2] && a[last - 2] > 1 &&
           chip_found(out, "'%.60s' has one number per channel and is not a constant", (x_small ? x : y)->name);
}

bool chip_rule_reflecting(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const char *mode = NULL;
    if (mil_attr_text(view->op, "mode", &mode, NULL) != PROPANE_OK || !mode) return false;
    return strcmp(mode, "constant") != 0 && chip_found(out, "the mode is %.20s", mode);
}

/* ---- products ----------------------------------------------------------------------------------------------------------- */

bool chip_rule_product_depth(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    bool turned = false;
    if (view->op->info->code == MIL_OP_matmul && mil_attr_bool(view->op, "transpose_x", &turned, NULL) != PROPANE_OK)
        return false;
    if (!x || x->type.rank < 2) return false;
    const int64_t n = x->type.dim[x->type.rank - (turned ? 2 : 1)];
    return (double)n > view->limit->value &&
           chip_found(out, "it adds %lld products; the maximum is %.0f", (long long)n, view->limit->value);
}

/* Finds programs whose only computation is one small matrix product or attention. Core ML's planner does not send such
 * programs to the engine. */
bool chip_rule_small_alone(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_coreml_main(view->op);
    int others = -1;
    for (int i = 0; i < MIL_OP_COUNT; i++)
        if (i != MIL_OP_const && i != MIL_OP_cast) others += view->op_counts[i];
    const int64_t n = x ? mil_type_count(&x->type) : 0;
    return others == 0 && (double)n < view->limit->value &&
           chip_found(out, "the program has only this matrix product, which is small: %lld elements, fewer than %.0f",
                      (long long)n, view->limit->value);
}

/* Finds programs with few products in which no operand has as many elements as that of a lone matrix product that ran
 * on the engine (R26). Programs with softmax or attention do not count. */
bool chip_rule_few_layers(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int *n = view->op_counts;
    const int layers = chip_product_count(n);
    const double large = chip_limit_value("R26");
    if (!layers || layers > (int)view->limit->value || n[MIL_OP_softmax] || n[MIL_OP_scaled_dot_product_attention])
        return false;
    for (const mil_op *op = view->function->first; op; op = op->next) {
        if (op->block_count) return false;
        MIL_FOR_OPERANDS (op, x)
            if ((double)mil_type_count(&x->type) >= large) return false;
    }
    return chip_found(out, "its products are %d operation%s", layers, text_plural(layers));
}

/* Finds the scores of large attention, as the product of computed queries and keys or inside a fused attention. */
bool chip_rule_square_attention(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const bool fused = view->op->info->code == MIL_OP_scaled_dot_product_attention;
    const mil_value *q = mil_in(view->op, fused ? "query" : "x"), *k = mil_in(view->op, fused ? "key" : "y");
    const mil_type *scores = &view->op->results[0]->type;
    if (chip_is_constant(q) || chip_is_constant(k) || q->type.rank < 2 || k->type.rank < 2 || scores->rank < 2)
        return false;
    const int64_t queries = scores->dim[scores->rank - 2];
    const int64_t keys = fused ? k->type.dim[k->type.rank - 2] : scores->dim[scores->rank - 1];
    return (double)(queries < keys ? queries : keys) >= view->limit->value &&
           chip_found(out, "it is large: %lld positions attend to %lld", (long long)queries, (long long)keys);
}

/* ---- open shapes and states --------------------------------------------------------------------------------------------- */

static const mil_interface *rule_coreml_interface(const chip_view *view) {
    return mil_interface_of(view->module, view->function->name);
}

bool chip_rule_flexible(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = rule_coreml_interface(view);
    if (view->function->ranged) return chip_found(out, "an input has a flexible shape with ranges of dimensions");
    for (int i = 0; face && i < face->input_count; i++)
        for (int k = 0; k < face->inputs[i].range_count; k++) {
            const mil_shape_range *r = &face->inputs[i].ranges[k];
            if (!mil_feature_is_flexible(&face->inputs[i], k)) continue;
            if (r->upper < 0)
                return chip_found(out, "input '%.60s' has a flexible shape: axis %d is %lld or more",
                                  face->inputs[i].name, k, (long long)r->lower);
            return chip_found(out, "input '%.60s' has a flexible shape: axis %d is %lld to %lld", face->inputs[i].name,
                              k, (long long)r->lower, (long long)r->upper);
        }
    return false;
}

bool chip_rule_enumerated(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_interface *face = rule_coreml_interface(view);
    for (int i = 0; face && i < face->input_count; i++)
        if (face->inputs[i].shape_count > 1)
            return chip_found(out, "input '%.60s' has %d enumerated shapes", face->inputs[i].name,
                              face->inputs[i].shape_count);
    return false;
}

bool chip_rule_state_width(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (int i = 0; i < view->function->param_count; i++) {
        const mil_value *v = view->function->params[i];
        const int64_t n = v->type.rank ? v->type.dim[v->type.rank - 1] : 1;
        if (v->type.container == MIL_STATE && n % (int64_t)view->limit->value != 0)
            return chip_found(out, "the last axis of the state '%.60s' has %lld element%s, not a multiple of %.0f",
                              v->name, (long long)n, text_plural(n), view->limit->value);
    }
    return false;
}

/* The number of rows is the size of the update's longest axis that differs from the target's. */
bool chip_rule_update_rows(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x"), *u = mil_in(view->op, "update");
    int64_t rows = 0;
    for (int i = 0; x && u && u->type.rank == x->type.rank && i < x->type.rank; i++)
        if (u->type.dim[i] != x->type.dim[i] && u->type.dim[i] > rows) rows = u->type.dim[i];
    return (double)rows > view->limit->value &&
           chip_found(out, "it writes %lld rows at once; up to %.0f were seen to run", (long long)rows,
                      view->limit->value);
}

bool chip_rule_moving_update(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *begin = mil_in(view->op, "begin");
    return begin && !chip_is_constant(begin) && chip_found(out, "begin is not a constant: '%.60s'", begin->name);
}

/* ---- weights with scales ------------------------------------------------------------------------------------------------ */

bool chip_rule_block_scale(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *s = mil_in(view->op, "scale"), *data = mil_in(view->op, "data");
    for (int i = 1; s && !mil_dtype_is_float(data->type.dtype) && i < s->type.rank; i++)
        if (s->type.dim[i] > 1)
            return chip_found(out, "it has %lld blocks, each with its scale, along axis %d", (long long)s->type.dim[i],
                              i);
    return false;
}

bool chip_rule_palette_scale(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *data = mil_in(view->op, "data");
    return mil_dtype_is_float(data->type.dtype) &&
           chip_found(out, "it specifies a scale for %s, which contains the entries of a palette",
                      mil_dtype_get(data->type.dtype)->name);
}

bool chip_rule_palette_groups(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *lut = mil_in(view->op, "lut");
    return lut && lut->type.rank > 3 && lut->type.dim[1] > 1 &&
           chip_found(out, "it has %lld groups along the inputs", (long long)lut->type.dim[1]);
}

bool chip_rule_dequantized_factor(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *pair[] = {mil_in(view->op, "x"), mil_in(view->op, "y")};
    for (int i = 0; i < 2; i++)
        if (rule_coreml_made_by(pair[i], MIL_OP_dequantize) && !chip_is_constant(pair[1 - i]))
            return chip_found(out, "'%.60s' has a separate scale", pair[i]->name);
    return false;
}

bool chip_rule_byte_weight(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *data = rule_coreml_main(view->op), *w = view->op->results[0];
    if (!data || data->type.dtype != MIL_int8) return false;
    for (const mil_op *op = view->function->first; op; op = op->next)
        if (chip_is_product(op->info->code) && chip_weight_of(op) == w)
            return chip_found(out, "'%.60s' is the int8 weight of %s", w->name, op->info->name);
    return false;
}
