/* SPDX-License-Identifier: MIT
 * Owns the checks of single operations. Most look only at the op, its operands and the ops that made them. The verifier
 * has ensured that attributes can be read. If an attribute cannot be read, the check reports nothing.
 */
#include <math.h>
#include <string.h>

#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/mil/ops.h"

static const mil_type *rule_op_type_of(const mil_op *op, const char *param) {
    const mil_value *v = mil_in(op, param);
    return v ? &v->type : NULL;
}

static const mil_type *rule_op_result_type(const mil_op *op) { return &op->results[0]->type; }
static const mil_value *rule_op_main_operand(const mil_op *op) {
    return op->info->param_count && op->operands[0].count ? op->operands[0].values[0] : NULL;
}

bool chip_rule_always(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return chip_found(out, "it uses %s", view->op->info->name);
}

/* ---- how arguments are written ------------------------------------------------------------------------------------------ */

static const char *rule_op_inline_param(const mil_op *op) {
    for (int i = 0; i < op->info->param_count; i++)
        for (int k = 0; k < op->operands[i].count; k++)
            if (op->operands[i].values[k]->is_inline) return op->info->params[i].name;
    return NULL;
}

bool chip_rule_inline_literal(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const char *param = rule_op_inline_param(view->op);
    return param && chip_found(out, "%s is a literal inside the argument list", param);
}

/* concat and matmul have separate rows. constexpr_affine_dequantize has attributes instead of arguments. */
bool chip_rule_inline_literal_elsewhere(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    mil_opcode code = view->op->info->code;
    if (code == MIL_OP_matmul || code == MIL_OP_concat || code == MIL_OP_constexpr_affine_dequantize) return false;
    return chip_rule_inline_literal(view, out);
}

bool chip_rule_concat_form(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    if (!mil_in(view->op, "interleave")) return chip_found(out, "interleave is omitted");
    return chip_rule_inline_literal(view, out);
}

bool chip_rule_gelu_form(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return !mil_in(view->op, "mode") && chip_found(out, "mode is omitted");
}

bool chip_rule_conv_bias(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *v = mil_in(view->op, "bias");
    return v && chip_found(out, "bias is '%.60s'", chip_value_name(v));
}

bool chip_rule_sdpa_mask(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *v = mil_in(view->op, "attn_mask");
    return v && chip_found(out, "attn_mask is '%.60s'", chip_value_name(v));
}

bool chip_rule_fp32_arithmetic(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_op *op = view->op;
    return op->info->flops_per_element != 0 && op->result_count && rule_op_result_type(op)->dtype == MIL_fp32 &&
           chip_found(out, "it computes in fp32");
}

/* ---- sizes -------------------------------------------------------------------------------------------------------------- */

bool chip_rule_op_rank(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int rank = rule_op_result_type(view->op)->rank;
    return rank > view->limit->value &&
           chip_found(out, "its result has %d axes; the maximum is %.0f", rank, view->limit->value);
}

bool chip_rule_conv_inputs(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *x = rule_op_type_of(view->op, "x");
    return x && x->rank > 1 && (double)x->dim[1] >= view->limit->value &&
           chip_found(out, "%lld input channels; fewer than %.0f pass", (long long)x->dim[1], view->limit->value);
}

bool chip_rule_kernel_width(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *w = rule_op_type_of(view->op, "weight");
    return w && w->rank > 2 && (double)w->dim[w->rank - 1] > view->limit->value &&
           chip_found(out, "the kernel has width %lld; the maximum is %.0f", (long long)w->dim[w->rank - 1],
                      view->limit->value);
}

bool chip_rule_inner_32(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *x = rule_op_type_of(view->op, "x");
    bool turned = false;
    if (!x || x->rank < 2 || mil_attr_bool(view->op, "transpose_x", &turned, NULL) != PROPANE_OK) return false;
    int64_t inner = x->dim[x->rank - (turned ? 2 : 1)];
    return inner % (int64_t)view->limit->value != 0 && chip_found(out, "the inner length is %lld", (long long)inner);
}

bool chip_rule_softmax_length(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *x = rule_op_type_of(view->op, "x");
    int64_t axis = -1;
    if (!x || mil_attr_int(view->op, "axis", &axis, NULL) != PROPANE_OK) return false;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) return false;
    int64_t n = x->dim[axis];
    return (n & (n - 1)) != 0 && chip_found(out, "the length is %lld", (long long)n);
}

/* Finds attention that a compiler may fuse into one step. */
bool chip_rule_softmax_between_products(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x"), *y = view->op->results[0];
    int64_t axis = -1;
    bool behind = false;
    if (mil_attr_int(view->op, "axis", &axis, NULL) != PROPANE_OK) return false;
    if (axis < 0) axis += x->type.rank;
    if (axis < 0 || axis >= x->type.rank || (double)x->type.dim[axis] < view->limit->value) return false;
    while (x && x->def && x->def->info->code != MIL_OP_matmul) /* a scale or a mask may be between the two operations */
        x = x->def->info->code == MIL_OP_mul || x->def->info->code == MIL_OP_add ? mil_in(x->def, "x") : NULL;
    for (const mil_op *op = view->op->next; op; op = op->next)
        if (op->info->code == MIL_OP_matmul) behind |= mil_in(op, "x") == y || mil_in(op, "y") == y;
    return x && x->def && behind &&
           chip_found(out, "it is computed over %lld elements between two matrix products",
                      (long long)mil_in(view->op, "x")->type.dim[axis]);
}

bool chip_rule_same_operands(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    return x == mil_in(view->op, "y") && chip_found(out, "x and y are both '%.60s'", chip_value_name(x));
}

bool chip_rule_core_stride(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = chip_weight_of(view->op);
    const double per_core = w ? chip_stored_bytes(w) / 16 : 0;
    return per_core > 0 && fmod(per_core, view->limit->value) == 0 &&
           chip_found(out, "each of 16 cores loads %.0f bytes of weights", per_core);
}

/* ---- convolutions with weights that are not constants ------------------------------------------------------------------- */

static bool rule_op_is_dynamic(const mil_value *weight) { return weight && !chip_is_constant(weight); }

bool chip_rule_dynamic_batch(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = mil_in(view->op, "weight");
    const mil_type *x = rule_op_type_of(view->op, "x");
    return rule_op_is_dynamic(w) && x && x->dim[0] != 1 &&
           chip_found(out, "the weight '%.60s' is not a constant and the batch is %lld", w->name, (long long)x->dim[0]);
}

bool chip_rule_dynamic_groups(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *w = mil_in(view->op, "weight");
    int64_t groups = 1;
    if (!rule_op_is_dynamic(w) || mil_attr_int(view->op, "groups", &groups, NULL) != PROPANE_OK) return false;
    return groups != 1 && chip_found(out, "the weight '%.60s' is not a constant and there are %lld groups", w->name,
                                     (long long)groups);
}

/* ---- slices of the last axis -------------------------------------------------------------------------------------------- */

static bool rule_op_is_slice(const mil_op *op) {
    return op && (op->info->code == MIL_OP_slice_by_size || op->info->code == MIL_OP_slice_by_index);
}

/* Returns the element of the last axis at which a slice begins, or 0 if that is not known. */
static int64_t rule_op_width_begin(const mil_op *op) {
    int64_t begin[MIL_MAX_RANK * 2];
    int count = 0;
    const mil_type *x = rule_op_type_of(op, "x");
    if (!x || x->rank == 0 || mil_attr_ints(op, "begin", begin, &count, NULL) != PROPANE_OK || count != x->rank)
        return 0;
    const mil_value *mask = op->info->code == MIL_OP_slice_by_index ? mil_in(op, "begin_mask") : NULL;
    if (mask && mask->constant && mil_const_i64(mask->constant, x->rank - 1)) return 0;
    int64_t first = begin[x->rank - 1];
    return first < 0 ? first + x->dim[x->rank - 1] : first;
}

bool chip_rule_width_slice(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int64_t begin = rule_op_width_begin(view->op);
    return begin > 0 && chip_found(out, "it begins at element %lld of the last axis", (long long)begin);
}

bool chip_rule_concat_width_slices(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    mil_value *const *values;
    int count = mil_in_list(view->op, "values", &values), slices = 0;
    for (int i = 0; i < count; i++)
        slices += rule_op_is_slice(values[i]->def) && rule_op_width_begin(values[i]->def) > 0;
    return slices >= 2 && chip_found(out, "%d of its values are slices that begin inside the last axis", slices);
}

/* Returns true if the value is a slice that shortens the last axis, perhaps followed by one or two multiplications or
 * subtractions (the negated half of a rotation). */
static bool rule_op_from_width_slice(const mil_value *v) {
    for (int depth = 0; depth < 3 && v && v->def; depth++) {
        const mil_op *op = v->def;
        const mil_value *x = rule_op_main_operand(op);
        if (!x) return false;
        if (rule_op_is_slice(op)) {
            const mil_type *from = &x->type, *to = &v->type;
            return from->rank > 0 && to->rank == from->rank && to->dim[to->rank - 1] < from->dim[from->rank - 1];
        }
        if (op->info->code != MIL_OP_mul && op->info->code != MIL_OP_sub) return false;
        v = x->constant && op->operands[1].count ? op->operands[1].values[0] : x;
    }
    return false;
}

bool chip_rule_concat_width_slices_any(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    mil_value *const *values;
    int count = mil_in_list(view->op, "values", &values), slices = 0, rank = rule_op_result_type(view->op)->rank;
    int64_t axis = 0;
    if (mil_attr_int(view->op, "axis", &axis, NULL) != PROPANE_OK || (axis != -1 && axis != rank - 1)) return false;
    for (int i = 0; i < count; i++) slices += rule_op_from_width_slice(values[i]);
    return slices >= 2 && chip_found(out, "it joins %d slices of the last axis along that axis", slices);
}

/* ---- neighbours --------------------------------------------------------------------------------------------------------- */

bool chip_rule_reshaped_operand(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_op *op = view->op;
    for (int i = 0; i < op->info->param_count; i++)
        for (int k = 0; k < op->operands[i].count; k++) {
            const mil_op *def = op->operands[i].values[k]->def;
            if (def && def->info->code == MIL_OP_reshape)
                return chip_found(out, "%s is the reshape '%.60s'", op->info->params[i].name, def->results[0]->name);
        }
    return false;
}

bool chip_rule_slice_of_input(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    const int *n = view->op_counts;
    bool norm = n[MIL_OP_rsqrt] || n[MIL_OP_pow] || n[MIL_OP_layer_norm];
    return x && !x->def && !x->constant && norm && n[MIL_OP_conv] &&
           chip_found(out, "it slices the input '%.60s'", x->name);
}

static bool rule_op_is_zero(const mil_value *v) {
    if (!v->constant || !v->constant->data) return false;
    int64_t count = mil_type_count(&v->type);
    for (int64_t i = 0; i < count; i++)
        if (mil_const_f64(v->constant, i) != 0) return false;
    return true;
}

bool chip_rule_mul_reduced_zero(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *pair[] = {mil_in(view->op, "x"), mil_in(view->op, "y")};
    for (int i = 0; i < 2; i++)
        if (pair[i]->def && strncmp(pair[i]->def->info->name, "reduce_", 7) == 0 && rule_op_is_zero(pair[1 - i]))
            return chip_found(out, "'%.60s' is a reduction and '%.60s' is zero", pair[i]->name,
                              chip_value_name(pair[1 - i]));
    return false;
}

/* Returns true if the numbers of a constant argument are not all equal. Returns false if the argument is omitted. */
static bool rule_op_varies(const mil_op *op, const char *param) {
    const mil_value *v = mil_in(op, param);
    const int64_t n = v && v->constant ? mil_type_count(&v->type) : 0;
    for (int64_t i = 1; i < n; i++)
        if (fabs(mil_const_f64(v->constant, i) - mil_const_f64(v->constant, 0)) > 0) return true;
    return false;
}

bool chip_rule_one_affine(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const bool gamma = rule_op_varies(view->op, "gamma"), beta = rule_op_varies(view->op, "beta");
    const mil_value *one = mil_in(view->op, gamma ? "gamma" : "beta");
    return gamma != beta && (double)mil_type_count(&one->type) >= view->limit->value &&
           chip_found(out, "of gamma and beta only %s varies, over %lld numbers", gamma ? "gamma" : "beta",
                      (long long)mil_type_count(&one->type));
}

bool chip_rule_square_nonlinear(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_op_main_operand(view->op);
    if (!x || !x->def || x->def->info->code != MIL_OP_square || x->type.rank == 0) return false;
    int64_t width = x->type.dim[x->type.rank - 1];
    return (double)(width % 128) > view->limit->value &&
           chip_found(out, "'%.60s' is a square whose last axis has %lld elements", x->name, (long long)width);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------ */

bool chip_rule_long_sum(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_type *x = rule_op_type_of(view->op, "x");
    if (!x || x->dtype != MIL_fp16) return false;
    int64_t to = mil_type_count(rule_op_result_type(view->op)), n = to > 0 ? mil_type_count(x) / to : 0;
    return (double)n > view->limit->value && chip_found(out, "it adds %lld fp16 elements", (long long)n);
}

/* Returns true if the constant contains a finite number below `bound`. Rule N6 is about minus infinity. */
static bool rule_op_holds_below(const mil_const *c, double bound) {
    int64_t count = mil_type_count(&c->type);
    if (!c->data) return false;
    if (c->type.dtype == MIL_fp16) { /* masks are large, so compare bits: 0xF8E2 is -40000, 0xFC00 minus infinity */
        const unsigned char *p = c->data;
        for (int64_t i = 0; i < count; i++) {
            unsigned bits = p[2 * i] | (unsigned)p[2 * i + 1] << 8;
            if (bits >= 0xF800u && bits < 0xFC00u && mil_const_f64(c, i) < bound) return true;
        }
        return false;
    }
    if (!mil_dtype_is_float(c->type.dtype)) return false;
    for (int64_t i = 0; i < count; i++)
        if (mil_const_f64(c, i) < bound && isfinite(mil_const_f64(c, i))) return true;
    return false;
}

bool chip_rule_huge_mask(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *pair[] = {mil_in(view->op, "x"), mil_in(view->op, "y")};
    for (int i = 0; i < 2; i++)
        if (pair[i]->constant && pair[i]->constant->type.dtype == rule_op_result_type(view->op)->dtype &&
            rule_op_holds_below(pair[i]->constant, view->limit->value))
            return chip_found(out, "the constant '%.60s' holds numbers below %.0f", chip_value_name(pair[i]),
                              view->limit->value);
    return false;
}

/* Returns the smallest element of a positive constant that is added to the operand, or 0 if there is none. Such a
 * constant is an epsilon as well, as in add(mean, 1e-5). */
static double rule_op_added(const mil_value *x) {
    if (!x || !x->def || x->def->info->code != MIL_OP_add) return 0;
    const mil_value *pair[] = {mil_in(x->def, "x"), mil_in(x->def, "y")};
    for (int i = 0; i < 2; i++) {
        const chip_range r = chip_range_of(pair[i]);
        if (pair[i]->constant && r.low > 0) return r.low;
    }
    return 0;
}

/* Sets *eps to the effective epsilon, which is the attribute plus a constant added to the operand. Returns true if the
 * epsilon is below the row's value and the operand plus the epsilon may be, too. */
static bool rule_op_epsilon_below(const chip_view *view, double *eps) {
    const mil_value *x = mil_in(view->op, "x");
    if (mil_attr_float(view->op, "epsilon", eps, NULL) != PROPANE_OK) return false;
    *eps += rule_op_added(x);
    return *eps < view->limit->value && (!x || chip_range_of(x).low + *eps < view->limit->value);
}

bool chip_rule_small_epsilon(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double eps = 0;
    return rule_op_epsilon_below(view, &eps) &&
           chip_found(out, "epsilon is %.3g%s", eps, mil_in(view->op, "epsilon") ? "" : " when it is omitted");
}

/* Returns the number that keeps a divisor from 0: the constant added to the divisor, or the lower bound of a maximum or
 * a clip. Looks through operations that only change the divisor's form. Returns 0 if there is no such number. */
static double rule_op_guard(const mil_value *v) {
    enum { DEPTH = 6 };
    for (int depth = 0; v && v->def && depth < DEPTH; depth++) {
        const mil_op *op = v->def;
        switch (op->info->code) {
        case MIL_OP_add: return rule_op_added(v);
        case MIL_OP_maximum: {
            const mil_value *floor = mil_in(op, "y")->constant ? mil_in(op, "y") : mil_in(op, "x");
            return floor->constant ? chip_range_of(floor).low : 0;
        }
        case MIL_OP_clip: return mil_in(op, "alpha")->constant ? chip_range_of(mil_in(op, "alpha")).low : 0;
        case MIL_OP_tile:
        case MIL_OP_reshape:
        case MIL_OP_expand_dims:
        case MIL_OP_squeeze:
        case MIL_OP_cast: v = mil_in(op, "x"); break;
        default: return 0;
        }
    }
    return 0;
}

/* real_div and sqrt have no epsilon parameter; sqrt(x + epsilon) and x / max(norm, epsilon) contain one. */
bool chip_rule_subnormal_epsilon(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_opcode code = view->op->info->code;
    double eps = 0;
    if (rule_op_result_type(view->op)->dtype != MIL_fp16) return false;
    if (code == MIL_OP_real_div || code == MIL_OP_sqrt) {
        const mil_value *v = mil_in(view->op, code == MIL_OP_sqrt ? "x" : "y");
        eps = chip_is_constant(v) ? 0 : rule_op_guard(v);
        if (eps >= view->limit->value || chip_range_of(v).low >= view->limit->value) return false;
    } else if (!rule_op_epsilon_below(view, &eps)) {
        return false;
    }
    return eps > 0 && chip_found(out, "epsilon is %.3g", eps);
}
