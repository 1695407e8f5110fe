/* SPDX-License-Identifier: MIT
 * Owns the checks of the advice in Apple's guide for authors of models (apple/coreai-models,
 * skills/model-authoring/references). Also owns checks of shapes with which Core ML itself, outside the engine, has
 * crashed the process. The guide is about speed and placement, so the checks of its advice are notes. They warn only if
 * the guide or a report describes an error.
 */
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

/* ---- windows ---------------------------------------------------------------------------------------------------------------- */

/* Reads a list argument, such as one number per spatial axis. Returns the number of elements, or 0 if the argument is
 * omitted. */
static int rule_guide_list(const mil_op *op, const char *param, int64_t out[MIL_MAX_RANK * 2]) {
    int count = 0;
    return mil_in(op, param) && mil_attr_ints(op, param, out, &count, NULL) == PROPANE_OK ? count : 0;
}

static int64_t rule_guide_largest(const mil_op *op, const char *param) {
    int64_t list[MIL_MAX_RANK * 2], largest = 0;
    const int count = rule_guide_list(op, param, list);
    for (int i = 0; i < count; i++)
        if (list[i] > largest) largest = list[i];
    return largest;
}

static bool rule_guide_of_twos_and_threes(int64_t n) {
    while (n % 2 == 0 && n > 0) n /= 2;
    while (n % 3 == 0 && n > 0) n /= 3;
    return n == 1;
}

bool chip_rule_stride_factors(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int64_t list[MIL_MAX_RANK * 2];
    const int count = rule_guide_list(view->op, "strides", list);
    for (int i = 0; i < count; i++)
        if (list[i] > 0 && (!rule_guide_of_twos_and_threes(list[i]) || (double)list[i] > view->limit->value))
            return chip_found(out, "the stride is %lld", (long long)list[i]);
    return false;
}

/* Returns true for pairs of strides that the guide allows: 2 with 3, 4, 8 or 9. Also returns true for pairs of smaller
 * strides, which the guide does not discuss. */
static bool rule_guide_pair(int64_t a, int64_t b) {
    const int64_t low = a < b ? a : b, high = a < b ? b : a;
    return high <= 2 || (low == 2 && (high == 3 || high == 4 || high == 8 || high == 9));
}

bool chip_rule_unequal_strides(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int64_t list[MIL_MAX_RANK * 2];
    const int count = rule_guide_list(view->op, "strides", list);
    for (int i = 1; i < count; i++)
        if (list[i] != list[0] && !rule_guide_pair(list[0], list[i]))
            return chip_found(out, "the strides are %lld and %lld", (long long)list[0], (long long)list[i]);
    return false;
}

bool chip_rule_palette_stride(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = mil_in(view->op, "weight");
    const int64_t n = rule_guide_largest(view->op, "strides");
    return w && w->def && w->def->info->code == MIL_OP_constexpr_lut_to_dense && (double)n > view->limit->value &&
           chip_found(out, "the weight '%.60s' is a palette and the stride is %lld", w->name, (long long)n);
}

bool chip_rule_pool_stride(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_guide_largest(view->op, "strides");
    return n > 1 && n != 2 && n != 4 && chip_found(out, "the stride is %lld", (long long)n);
}

bool chip_rule_large_dilation(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int64_t n = rule_guide_largest(view->op, "dilations");
    return (double)n > view->limit->value && chip_found(out, "the dilation is %lld", (long long)n);
}

bool chip_rule_long_kernel(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = mil_in(view->op, "weight");
    for (int i = 2; w && i < w->type.rank; i++)
        if ((double)w->type.dim[i] >= view->limit->value)
            return chip_found(out, "the kernel has length %lld", (long long)w->type.dim[i]);
    return false;
}

/* The convolution does not read elements left over by the stride, and may not read the padding after them. */
bool chip_rule_even_kernel_remainder(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *x = &mil_in(view->op, "x")->type;
    const mil_value *weight = mil_in(view->op, "weight");
    int64_t strides[MIL_MAX_RANK * 2], pads[MIL_MAX_RANK * 2], dilations[MIL_MAX_RANK * 2];
    const char *mode = NULL;
    const int spatial = x->rank - 2, dilated = rule_guide_list(view->op, "dilations", dilations);
    if (mil_attr_text(view->op, "pad_type", &mode, NULL) != PROPANE_OK || strcmp(mode, "custom") != 0) return false;
    if (rule_guide_list(view->op, "strides", strides) != spatial) return false;
    if (rule_guide_list(view->op, "pad", pads) != 2 * spatial) return false;
    for (int d = 0; d < spatial; d++) {
        const int64_t k = weight->type.dim[d + 2], span = (k - 1) * (dilated == spatial ? dilations[d] : 1) + 1;
        const int64_t left = x->dim[d + 2] + 2 * pads[2 * d] - span;
        if (k % 2 == 0 && strides[d] > 1 && pads[2 * d] > 0 && pads[2 * d] == pads[2 * d + 1] && left % strides[d] > 0)
            return chip_found(out,
                              "along axis %d the kernel is %lld, the pads are %lld, and the stride of %lld leaves a "
                              "remainder of %lld",
                              d + 2, (long long)k, (long long)pads[2 * d], (long long)strides[d],
                              (long long)(left % strides[d]));
    }
    return false;
}

/* ---- layout ----------------------------------------------------------------------------------------------------------------- */

/* Rows are padded to 64 bytes, so most of a row is wasted if the last axis is short. Names the tensor with the most
 * padding. Weights, including compressed ones, have another layout. */
bool chip_rule_padded_rows(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    enum { WORTH = 1 << 18 };
    const mil_value *worst = NULL;
    int64_t waste = WORTH;
    for (const mil_op *op = view->function->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++) {
            const mil_value *v = op->results[i];
            const int rank = v->type.rank;
            if (rank < 3 || v->type.dtype != MIL_fp16 || mil_type_is_open(&v->type) ||
                v->type.container != MIL_TENSOR || chip_is_constant(v))
                continue;
            const int64_t own = mil_type_bytes(&v->type), padded = (int64_t)chip_surface_bytes(&v->type, 0);
            if ((double)v->type.dim[rank - 1] < view->limit->value && padded - own > waste) {
                worst = v;
                waste = padded - own;
            }
        }
    return worst && chip_found(out, "the last axis of '%.60s' has %lld element%s: %.1f MB are padding", worst->name,
                               (long long)worst->type.dim[worst->type.rank - 1],
                               text_plural(worst->type.dim[worst->type.rank - 1]), (double)waste / 1e6);
}

/* Returns true if the value is an input of the function or one of its outputs, perhaps with a cast between. */
static bool rule_guide_is_feature(const chip_view *view, const mil_value *v) {
    const mil_function *f = view->function;
    if (v->def && v->def->info->code == MIL_OP_cast) v = mil_in(v->def, "x");
    for (int i = 0; i < f->param_count; i++)
        if (f->params[i] == v) return true;
    for (int i = 0; i < f->result_count; i++) {
        const mil_value *y = f->results[i];
        if (y->def && y->def->info->code == MIL_OP_cast) y = mil_in(y->def, "x");
        if (y == v) return true;
    }
    return false;
}

bool chip_rule_turned_feature(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x"), *y = view->op->results[0];
    const double n = (double)mil_type_count(&y->type);
    if (n < view->limit->value || chip_is_constant(y)) return false;
    if (!rule_guide_is_feature(view, x) && !rule_guide_is_feature(view, y)) return false;
    return chip_found(out, "it turns %.3g elements of an input or output", n);
}

bool chip_rule_linears(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int n = view->op_counts[MIL_OP_linear];
    return n && chip_found(out, "%d linear operation%s", n, text_plural(n));
}

bool chip_rule_cache_written_inside(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int *n = view->op_counts;
    const int writes = n[MIL_OP_write_state] + n[MIL_OP_coreml_update_state];
    return writes && n[MIL_OP_slice_update] && chip_found(out, "%d states are written, by slice_update", writes);
}

/* ---- crashes, and failed loads ----------------------------------------------------------------------------------- */

bool chip_rule_strided_dilated_groups(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int64_t groups = 1;
    const int64_t stride = rule_guide_largest(view->op, "strides"),
                  dilation = rule_guide_largest(view->op, "dilations");
    const mil_value *x = mil_in(view->op, "x");
    if (mil_attr_int(view->op, "groups", &groups, NULL) != PROPANE_OK) return false;
    return x->type.rank == 3 && stride > 1 && dilation > 1 && groups > 1 &&
           chip_found(out, "stride %lld, dilation %lld and %lld groups", (long long)stride, (long long)dilation,
                      (long long)groups);
}

bool chip_rule_integer_product(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_dtype type = view->op->results[0]->type.dtype;
    return !mil_dtype_is_float(type) && chip_found(out, "it multiplies %s", mil_dtype_get(type)->name);
}

bool chip_rule_five_axes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return mil_in(view->op, "x")->type.rank == 5 && chip_found(out, "its input has five axes");
}

/* Finds v times a transposed softmax, which is torch's channels-first attention. */
bool chip_rule_turned_softmax(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *y = mil_in(view->op, "y");
    bool turned = false;
    if (mil_attr_bool(view->op, "transpose_y", &turned, NULL) != PROPANE_OK) return false;
    if (y->def && y->def->info->code == MIL_OP_transpose) {
        turned = !turned;
        y = mil_in(y->def, "x");
    }
    return turned && y->def && y->def->info->code == MIL_OP_softmax &&
           chip_found(out, "'%.60s' is a softmax and is transposed", chip_value_name(y));
}

/* Finds attention of three axes: a fused operation, or a softmax in a function with at least two matmuls. */
bool chip_rule_three_axes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (const mil_op *op = view->function->first; op; op = op->next) {
        const mil_opcode code = op->info->code;
        const bool whole = code == MIL_OP_scaled_dot_product_attention;
        if ((whole || (code == MIL_OP_softmax && view->op_counts[MIL_OP_matmul] >= 2)) &&
            op->results[0]->type.rank == 3)
            return chip_found(out, "the attention at '%.60s' has three axes", op->results[0]->name);
    }
    return false;
}

/* Finds a depthwise convolution of a concat of channels whose last axis has one element. */
bool chip_rule_depthwise_of_concat(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    int64_t groups = 1, axis = 0;
    if (!x->def || x->def->info->code != MIL_OP_concat || x->type.rank < 3) return false;
    if (mil_attr_int(view->op, "groups", &groups, NULL) != PROPANE_OK || groups < 2) return false;
    if (mil_attr_int(x->def, "axis", &axis, NULL) != PROPANE_OK) return false;
    return groups == x->type.dim[1] && (axis == 1 || axis == 1 - x->type.rank) && x->type.dim[x->type.rank - 1] == 1 &&
           chip_found(out, "it is depthwise, and '%.60s' is a concat of channels with one column", chip_value_name(x));
}

bool chip_rule_byte_activations(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *q = view->op->results[0];
    return !chip_is_constant(q) && mil_dtype_get(q->type.dtype)->bits == 8 &&
           chip_found(out, "it makes %s of activations", mil_dtype_get(q->type.dtype)->name);
}

/* Finds a search over all elements, for which a reshape has already joined all axes. */
bool chip_rule_argmax_of_all(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    return x->type.rank == 1 && chip_found(out, "it searches all %lld elements", (long long)x->type.dim[0]);
}

bool chip_rule_flexible_mean(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    if (!chip_rule_flexible(view, out)) return false;
    for (const mil_op *op = view->function->first; op; op = op->next) {
        if (op->info->code != MIL_OP_real_div) continue;
        const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
        while (y->def && (y->def->info->code == MIL_OP_clip || y->def->info->code == MIL_OP_maximum))
            y = mil_in(y->def, "x");
        if (x->def && x->def->info->code == MIL_OP_reduce_sum && y->def && y->def->info->code == MIL_OP_reduce_sum)
            return chip_found(out, "'%.60s' divides one sum by another over a flexible shape", op->results[0]->name);
    }
    return false;
}

bool chip_rule_two_large_attentions(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    enum { KEYS = 1024 };
    int found = 0;
    for (const mil_op *op = view->function->first; op; op = op->next) {
        if (op->info->code != MIL_OP_scaled_dot_product_attention) continue;
        const mil_type *key = &mil_in(op, "key")->type;
        found += (double)key->dim[key->rank - 1] > view->limit->value && key->dim[key->rank - 2] >= KEYS;
    }
    return found >= 2 && chip_found(out, "%d attentions with heads of more than %.0f elements and %d keys or more",
                                    found, view->limit->value, KEYS);
}

/* A query that is a parameter has no operation before it that could be fused with the attention. */
bool chip_rule_queries_of_large_heads(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *query = mil_in(view->op, "query");
    const mil_type *t = &query->type;
    return query->def && !chip_is_constant(query) && t->dtype == MIL_fp16 && t->dim[t->rank - 2] >= 2 &&
           (double)t->dim[t->rank - 1] > view->limit->value &&
           chip_found(out, "%lld queries with heads of %lld elements", (long long)t->dim[t->rank - 2],
                      (long long)t->dim[t->rank - 1]);
}

bool chip_rule_palette_beside_state(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    if (!view->op_counts[MIL_OP_read_state] && !view->op_counts[MIL_OP_coreml_update_state]) return false;
    for (const mil_op *op = view->function->first; op; op = op->next)
        if (op->info->code == MIL_OP_constexpr_lut_to_dense) {
            const mil_type *lut = &mil_in(op, "lut")->type;
            if ((double)lut->dim[lut->rank - 2] <= view->limit->value)
                return chip_found(out, "'%.60s' is a palette of %lld entries, and there is a state",
                                  op->results[0]->name, (long long)lut->dim[lut->rank - 2]);
        }
    return false;
}

/* ---- shapes that only a run knows ------------------------------------------------------------------------------------------- */

bool chip_rule_open_shape(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    for (int i = 0; i < view->op->result_count; i++)
        if (mil_type_is_open(&view->op->results[i]->type))
            return chip_found(out, "the shape of '%.60s' depends on values", view->op->results[i]->name);
    MIL_FOR_OPERANDS (view->op, v)
        if (mil_type_is_open(&v->type)) return chip_found(out, "the shape of '%.60s' depends on values", v->name);
    return false;
}

/* ---- systems ---------------------------------------------------------------------------------------------------------------- */

bool chip_rule_opset(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const struct mil_package *p = view->module->package;
    if (p && p->spec_version >= (int)view->limit->value + CHIP_VERSION_OF_NONE)
        return chip_found(out, "its specification has version %d", p->spec_version);
    for (const mil_function *f = view->module->functions; f; f = f->next)
        if (f->opset >= (mil_opset)view->limit->value)
            return chip_found(out, "function '%.60s' is of opset %s", f->name, mil_opset_name(f->opset));
    return false;
}

bool chip_rule_attention(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const int *n = view->op_counts;
    const bool by_hand = n[MIL_OP_softmax] && n[MIL_OP_matmul];
    return (by_hand || n[MIL_OP_scaled_dot_product_attention]) && chip_found(out, "it has attention");
}

bool chip_rule_computes_fp32(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return view->op->results[0]->type.dtype == MIL_fp32 && chip_found(out, "it computes in fp32");
}
