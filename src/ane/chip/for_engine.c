/* SPDX-License-Identifier: MIT
 * Owns the table of rewrites. A rewrite builds a replacement for an operation's result before the operation. It returns
 * NULL if it does not apply, or if it has only changed operands. The walk replaces the old result by the new one, under
 * the old name.
 */
#include "ane/chip/for_engine.h"

#include <string.h>

#include "ane/chip/limit.h"
#include "ane/chip/value_facts.h"
#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ops/shape_util.h"
#include "core/pass/pass.h"

enum { MASK_DEPTH = 8, MASK_ELEMENTS = 1 << 20 };
#define MASK_VALUE (-1e4)

typedef struct engine_site {
    mil_builder b;
    mil_function *function;
    mil_op *op;
    bool changed; /* operands were replaced, and the operation stays */
} engine_site;

typedef mil_value *(*engine_rewrite)(engine_site *s);

static mil_value *engine_unary(engine_site *s, mil_opcode code, mil_value *x) {
    return mil_build_unary(&s->b, code, x);
}
static mil_value *engine_pair(engine_site *s, mil_opcode code, mil_value *x, mil_value *y) {
    return mil_build_binary(&s->b, code, x, y);
}

/* Builds an operation with operand x, and omits optional parameters such as the epsilon of log. */
static mil_value *engine_call(engine_site *s, mil_opcode code, mil_value *x) {
    const mil_op *op = mil_build_op(&s->b, code, NULL, &(mil_argument){"x", 1, &x}, 1);
    return op ? op->results[0] : NULL;
}

static int engine_reads(const mil_function *f, const mil_value *v) {
    int count = 0;
    for (int i = 0; i < f->result_count; i++) count += f->results[i] == v;
    for (const mil_op *op = f->first; op; op = op->next)
        MIL_FOR_OPERANDS (op, x) count += x == v;
    return count;
}

static bool engine_is_found(const char *rule, const mil_op *op) {
    char message[CHIP_TEXT_BYTES];
    if (!*rule) return true;
    const chip_limit *l = chip_limit_find(rule);
    return l->check(&(chip_view){.limit = l, .op = op}, message);
}

/* ---- numbers ---------------------------------------------------------------------------------------------------------------- */

/* Builds max(x, 0) + log(1 + exp(-|x|)). */
static mil_value *engine_softplus(engine_site *s) {
    mil_value *x = mil_in(s->op, "x");
    mil_value *minus = mil_build_binary_scalar(&s->b, MIL_OP_mul, engine_unary(s, MIL_OP_abs, x), -1);
    mil_value *sum = mil_build_binary_scalar(&s->b, MIL_OP_add, engine_call(s, MIL_OP_exp, minus), 1);
    return engine_pair(s, MIL_OP_add, engine_unary(s, MIL_OP_relu, x), engine_call(s, MIL_OP_log, sum));
}

/* Builds max, x - max and log(sum(exp(x - max))) over the axes. */
static void engine_shifted(engine_site *s, mil_value *x, const int64_t *axes, int count, mil_value **most,
                           mil_value **shifted, mil_value **log_sum) {
    *most = mil_build_reduce(&s->b, MIL_OP_reduce_max, x, axes, count, true);
    *shifted = engine_pair(s, MIL_OP_sub, x, *most);
    mil_value *e = engine_call(s, MIL_OP_exp, *shifted);
    *log_sum = engine_call(s, MIL_OP_log, mil_build_reduce(&s->b, MIL_OP_reduce_sum, e, axes, count, true));
}

static mil_value *engine_log_sum_exp(engine_site *s) {
    mil_value *x = mil_in(s->op, "x"), *most, *shifted, *log_sum;
    const mil_type *type = &s->op->results[0]->type;
    bool member[MIL_MAX_RANK];
    int64_t axes[MIL_MAX_RANK];
    int count = 0;
    if (mil_attr_axes(s->op, "axes", x->type.rank, member, NULL) != PROPANE_OK || type->rank == 0) return NULL;
    for (int k = 0; k < x->type.rank; k++)
        if (member[k]) axes[count++] = k;
    engine_shifted(s, x, axes, count, &most, &shifted, &log_sum);
    mil_value *y = engine_pair(s, MIL_OP_add, log_sum, most);
    return y && type->rank != y->type.rank ? mil_build_reshape(&s->b, y, type->dim, type->rank) : y;
}

static mil_value *engine_log_softmax(engine_site *s) {
    const mil_op *softmax = mil_in(s->op, "x")->def;
    mil_value *x = mil_in(softmax, "x"), *most, *shifted, *log_sum;
    int axis;
    if (mil_attr_axis(softmax, "axis", x->type.rank, &axis, NULL) != PROPANE_OK) return NULL;
    engine_shifted(s, x, (int64_t[]){axis}, 1, &most, &shifted, &log_sum);
    return engine_pair(s, MIL_OP_sub, shifted, log_sum);
}

/* ---- masks ------------------------------------------------------------------------------------------------------------------ */

static mil_value *engine_finite(engine_site *s, const mil_value *v) {
    const int64_t count = mil_type_count(&v->type);
    double *values = mem_array((size_t)count, sizeof *values);
    mil_value *made = NULL;
    for (int64_t i = 0; values && i < count; i++) {
        const double old = mil_const_f64(v->constant, i);
        values[i] = old < MASK_VALUE ? MASK_VALUE : old;
    }
    if (values)
        made = mil_build_const_f64(&s->b, "mask", &v->type, values);
    else
        (void)propane_fail_memory(&s->b.err, (size_t)count * sizeof *values);
    mem_free(values);
    return made;
}

static bool engine_carries_mask(mil_opcode code) {
    static const mil_opcode codes[] = {MIL_OP_add,          MIL_OP_sub,       MIL_OP_mul,         MIL_OP_select,
                                       MIL_OP_cast,         MIL_OP_reshape,   MIL_OP_expand_dims, MIL_OP_squeeze,
                                       MIL_OP_tile,         MIL_OP_transpose, MIL_OP_identity,    MIL_OP_slice_by_index,
                                       MIL_OP_slice_by_size};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i] == code) return true;
    return false;
}

/* Replaces constants that reach `op` and contain minus infinity in fp16. */
static void engine_mend_masks(engine_site *s, const mil_op *op, int depth) {
    for (int k = 0; k < op->info->param_count && depth < MASK_DEPTH; k++)
        for (int j = 0; j < op->operands[k].count; j++) {
            mil_value **at = (mil_value **)(uintptr_t)&op->operands[k].values[j];
            const mil_value *v = *at;
            const bool known = v->constant && v->constant->data && mil_dtype_is_float(v->type.dtype);
            if (known && mil_type_count(&v->type) <= MASK_ELEMENTS && chip_range_of(v).low < -65504) {
                mil_value *finite = engine_finite(s, v);
                if (finite) *at = finite;
                s->changed |= finite != NULL;
            } else if (!v->constant && v->def && !v->def->block_count && engine_carries_mask(v->def->info->code)) {
                engine_mend_masks(s, v->def, depth + 1);
            }
        }
}

static mil_value *engine_mask(engine_site *s) {
    s->b.before = s->function->first; /* the new constant must precede all its readers */
    engine_mend_masks(s, s->op, 0);
    return NULL;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------------------ */

static mil_value *engine_silu(engine_site *s) {
    for (int k = 0; k < 2; k++) {
        mil_value *x = s->op->operands[k].values[0];
        const mil_value *gate = s->op->operands[1 - k].values[0];
        if (!gate->def || gate->constant || gate->def->info->code != MIL_OP_sigmoid) continue;
        if (mil_in(gate->def, "x") == x && engine_reads(s->function, gate) == 1) return engine_unary(s, MIL_OP_silu, x);
    }
    return NULL;
}

static mil_value *engine_with_rank_4(engine_site *s, mil_value *x) {
    const mil_type *t = &x->type;
    const int64_t dim[4] = {1, 1, t->rank == 2 ? t->dim[0] : 1, t->dim[t->rank - 1]};
    return mil_build_reshape(&s->b, x, dim, 4);
}

/* Builds the same product on four axes. Returns NULL unless `product` is linear, or a matmul with a constant. */
static mil_value *engine_wide_product(engine_site *s, const mil_op *product) {
    const bool linear = product->info->code == MIL_OP_linear;
    const char *const params[] = {linear ? "weight" : "y", linear ? "bias" : "transpose_y"};
    if (!linear && (product->info->code != MIL_OP_matmul || !mil_in(product, "y")->constant)) return NULL;
    bool transposed = false;
    if (!linear && mil_in(product, "transpose_x") && mil_attr_bool(product, "transpose_x", &transposed, NULL))
        return NULL;
    if (transposed || mil_in(product, "x")->type.rank > 2) return NULL;
    mil_value *x = engine_with_rank_4(s, mil_in(product, "x")), *others[2];
    mil_argument given[3] = {{"x", 1, &x}};
    int count = 1;
    for (int k = 0; k < 2; k++)
        if ((others[k] = mil_in(product, params[k]))) given[count++] = (mil_argument){params[k], 1, &others[k]};
    const mil_op *op = x ? mil_build_op(&s->b, product->info->code, NULL, given, count) : NULL;
    return op ? op->results[0] : NULL;
}

enum { WIDE_VALUES = 16 };

/* Values with at most two axes, and their replacements with four. */
typedef struct engine_wide_values {
    const mil_value *from[WIDE_VALUES];
    mil_value *to[WIDE_VALUES];
    int count;
} engine_wide_values;

static mil_value *engine_widen(engine_site *s, engine_wide_values *w, mil_value *v);

/* Builds an elementwise operation on four axes. Computed operands are widened; constants broadcast as before. */
static mil_value *engine_widen_map(engine_site *s, engine_wide_values *w, const mil_op *op) {
    static const mil_opcode codes[] = {MIL_OP_add,  MIL_OP_mul,          MIL_OP_real_div,        MIL_OP_relu6,
                                       MIL_OP_clip, MIL_OP_sigmoid_hard, MIL_OP_thresholded_relu};
    mil_argument given[4];
    mil_value *values[4];
    bool known = op->info->param_count <= 4;
    int count = 0;
    for (size_t i = 0; known && i <= sizeof codes / sizeof codes[0]; i++) {
        if (i == sizeof codes / sizeof codes[0]) return NULL;
        if (codes[i] == op->info->code) break;
    }
    for (int k = 0; known && k < op->info->param_count; k++) {
        if (!op->operands[k].count) continue;
        values[count] = engine_widen(s, w, op->operands[k].values[0]);
        known = values[count] != NULL;
        given[count] = (mil_argument){op->info->params[k].name, 1, &values[count]};
        count++;
    }
    const mil_op *made = known ? mil_build_op(&s->b, op->info->code, NULL, given, count) : NULL;
    return made ? made->results[0] : NULL;
}

/* Returns the value on four axes. Returns NULL if it does not come from a product through only the operations of
 * engine_widen_map. */
static mil_value *engine_widen(engine_site *s, engine_wide_values *w, mil_value *v) {
    if (v->constant) return v;
    for (int i = 0; i < w->count; i++)
        if (w->from[i] == v) return w->to[i];
    if (!v->def || w->count == WIDE_VALUES || v->type.rank > 2) return NULL;
    mil_value *wide = engine_wide_product(s, v->def);
    if (!wide) wide = engine_widen_map(s, w, v->def);
    if (!wide || w->count == WIDE_VALUES) return NULL;
    w->from[w->count] = v;
    w->to[w->count++] = wide;
    return wide;
}

/* Widens the product and everything after it, up to the mul that ends the hardswish. */
static mil_value *engine_hardswish(engine_site *s) {
    engine_wide_values w = {.count = 0};
    const mil_type *type = &s->op->results[0]->type;
    mil_value *y = type->rank == 2 ? engine_widen_map(s, &w, s->op) : NULL;
    return y ? mil_build_reshape(&s->b, y, type->dim, type->rank) : NULL;
}

/* ---- norms ------------------------------------------------------------------------------------------------------------------ */

static bool engine_made_by(const mil_value *v, mil_opcode code) { return v && v->def && v->def->info->code == code; }

static bool engine_is_square_of(const mil_value *v, const mil_value *x) {
    if (engine_made_by(v, MIL_OP_square)) return mil_in(v->def, "x") == x;
    if (engine_made_by(v, MIL_OP_mul)) return mil_in(v->def, "x") == x && mil_in(v->def, "y") == x;
    const mil_value *y = engine_made_by(v, MIL_OP_pow) ? mil_in(v->def, "y") : NULL;
    return y && mil_in(v->def, "x") == x && y->constant && y->constant->data && mil_type_count(&y->type) == 1 &&
           mil_const_f64(y->constant, 0) == 2;
}

typedef struct engine_norm {
    mil_value *x, *epsilon;    /* the epsilon added to the mean; NULL if there is none */
    const mil_op *mean, *root; /* reduce_mean; rsqrt, or the sqrt of the divisor */
} engine_norm;

/* Recognises x * rsqrt(mean(x^2) + e) and x / sqrt(mean(x^2) + e). */
static bool engine_read_norm(const mil_op *op, engine_norm *n) {
    const bool quotient = op->info->code == MIL_OP_real_div;
    for (int k = 0; k < (quotient ? 1 : 2); k++) {
        mil_value *root = mil_in(op, k ? "x" : "y");
        *n = (engine_norm){.x = mil_in(op, k ? "y" : "x"), .root = root->def};
        if (!engine_made_by(root, quotient ? MIL_OP_sqrt : MIL_OP_rsqrt)) continue;
        mil_value *mean = mil_in(root->def, "x");
        if (engine_made_by(mean, MIL_OP_add) && mil_type_count(&mil_in(mean->def, "y")->type) == 1 &&
            mil_in(mean->def, "y")->constant) {
            n->epsilon = mil_in(mean->def, "y");
            mean = mil_in(mean->def, "x");
        }
        if (!engine_made_by(mean, MIL_OP_reduce_mean) || !engine_is_square_of(mil_in(mean->def, "x"), n->x)) continue;
        n->mean = mean->def;
        return mean->type.rank == n->x->type.rank;
    }
    return false;
}

/* Builds x/m * rsqrt(mean((x/m)^2) + e/m/m) with m = max(|x|, 1). The result is the same in exact arithmetic. The
 * epsilon is divided, too, as in apple/coremltools pull request 2822, and a row of zeros stays zero. */
static mil_value *engine_rms_norm(engine_site *s) {
    engine_norm n;
    bool member[MIL_MAX_RANK];
    int64_t axes[MIL_MAX_RANK];
    int count = 0;
    double own = 0;
    if (!engine_read_norm(s->op, &n) || !engine_is_found("N5", n.mean)) return NULL;
    if (mil_attr_axes(n.mean, "axes", n.x->type.rank, member, NULL) != PROPANE_OK) return NULL;
    if (n.root->info->code == MIL_OP_rsqrt && mil_attr_float(n.root, "epsilon", &own, NULL) != PROPANE_OK) return NULL;
    for (int k = 0; k < n.x->type.rank; k++)
        if (member[k]) axes[count++] = k;
    mil_value *most = mil_build_reduce(&s->b, MIL_OP_reduce_max, engine_unary(s, MIL_OP_abs, n.x), axes, count, true);
    mil_value *m = mil_build_binary_scalar(&s->b, MIL_OP_maximum, most, 1);
    mil_value *x = engine_pair(s, MIL_OP_real_div, n.x, m);
    mil_value *mean = mil_build_reduce(&s->b, MIL_OP_reduce_mean, engine_pair(s, MIL_OP_mul, x, x), axes, count, true);
    const double added = n.epsilon ? mil_const_f64(n.epsilon->constant, 0) : 0;
    mil_value *e = m ? mil_build_scalar(&s->b, m->type.dtype, added + own) : NULL;
    e = engine_pair(s, MIL_OP_real_div, engine_pair(s, MIL_OP_real_div, e, m), m);
    return engine_pair(s, MIL_OP_mul, x, engine_call(s, MIL_OP_rsqrt, engine_pair(s, MIL_OP_add, mean, e)));
}

/* ---- layout ----------------------------------------------------------------------------------------------------------------- */

/* Rewrites a linear as a convolution: [.., S, I] becomes [B, I, 1, S], and the weight [O, I] becomes a kernel [O, I, 1,
 * 1]. A linear with compressed weights stays as it is. */
static mil_value *engine_linear(engine_site *s) {
    mil_value *x = mil_in(s->op, "x"), *w = mil_in(s->op, "weight"), *bias = mil_in(s->op, "bias");
    const mil_type *t = &x->type, *out = &s->op->results[0]->type;
    const bool plain = w->constant && w->constant->data && w->def && w->def->info->code == MIL_OP_const;
    if (!plain || t->rank < 2 || t->rank > 3 || w->type.dtype != t->dtype) return NULL;
    if (bias && (!bias->constant || !bias->constant->data)) return NULL;
    const int64_t batch = t->rank == 3 ? t->dim[0] : 1, rows = t->dim[t->rank - 2], in = w->type.dim[1],
                  o = w->type.dim[0];
    mil_type kernel = mil_type_tensor(w->type.dtype, 4, (int64_t[]){o, in, 1, 1});
    mil_type shift = mil_type_tensor(bias ? bias->type.dtype : t->dtype, 4, (int64_t[]){1, o, 1, 1});
    mil_value *k = mil_build_const(&s->b, w->name, &kernel, w->constant->data);
    mil_value *y = mil_build_reshape(&s->b, x, (int64_t[]){batch, rows, 1, in}, 4);
    y = mil_build_conv1x1(&s->b, mil_build_transpose(&s->b, y, (int64_t[]){0, 3, 2, 1}, 4), k);
    mil_value *c = bias ? mil_build_const(&s->b, bias->name, &shift, bias->constant->data) : NULL;
    if (c && shift.dtype != t->dtype) c = mil_build_cast(&s->b, c, t->dtype);
    if (bias) y = engine_pair(s, MIL_OP_add, y, c);
    y = mil_build_transpose(&s->b, y, (int64_t[]){0, 3, 2, 1}, 4);
    return mil_build_reshape(&s->b, y, out->dim, out->rank);
}

/* Rewrites a transpose on fewer axes. Drops axes of length 1, and joins axes that stay next to each other. */
static mil_value *engine_transpose(engine_site *s) {
    mil_value *x = mil_in(s->op, "x");
    const mil_type *out = &s->op->results[0]->type;
    int64_t perm[MIL_MAX_RANK * 2], dim[MIL_MAX_RANK], order[MIL_MAX_RANK], to[MIL_MAX_RANK];
    int count = 0, groups = 0, group_of[MIL_MAX_RANK];
    if (mil_attr_ints(s->op, "perm", perm, &count, NULL) != PROPANE_OK || count != x->type.rank) return NULL;
    int64_t first[MIL_MAX_RANK], last = -2;
    for (int k = 0; k < count; k++) { /* groups in the order of the result */
        if (perm[k] < 0) perm[k] += count;
        if (out->dim[k] == 1) continue;
        if (groups && perm[k] == last + 1) {
            to[groups - 1] *= out->dim[k];
        } else {
            first[groups] = perm[k];
            to[groups++] = out->dim[k];
        }
        last = perm[k];
    }
    if (groups < 2 || groups > 4) return NULL;
    for (int g = 0; g < groups; g++) { /* the position of each group in x */
        group_of[g] = 0;
        for (int h = 0; h < groups; h++) group_of[g] += first[h] < first[g];
    }
    for (int g = 0; g < groups; g++) {
        dim[group_of[g]] = to[g];
        order[g] = group_of[g];
    }
    mil_value *y = mil_build_transpose(&s->b, mil_build_reshape(&s->b, x, dim, groups), order, groups);
    return mil_build_reshape(&s->b, y, out->dim, out->rank);
}

/* Joins the first two axes of the batch, which both sides share. */
static mil_value *engine_matmul(engine_site *s) {
    mil_value *x = mil_in(s->op, "x"), *y = mil_in(s->op, "y");
    const mil_type *a = &x->type, *b = &y->type, *out = &s->op->results[0]->type;
    bool tx = false, ty = false;
    if (a->rank != 5 || b->rank != 5) return NULL;
    for (int k = 0; k < 3; k++)
        if (a->dim[k] != b->dim[k]) return NULL;
    if (mil_attr_bool(s->op, "transpose_x", &tx, NULL) || mil_attr_bool(s->op, "transpose_y", &ty, NULL)) return NULL;
    const int64_t outer = a->dim[0] * a->dim[1], inner = a->dim[2];
    mil_value *left = mil_build_reshape(&s->b, x, (int64_t[]){outer, inner, a->dim[3], a->dim[4]}, 4);
    mil_value *right = mil_build_reshape(&s->b, y, (int64_t[]){outer, inner, b->dim[3], b->dim[4]}, 4);
    return mil_build_reshape(&s->b, mil_build_matmul(&s->b, left, right, tx, ty), out->dim, out->rank);
}

/* ---- the table -------------------------------------------------------------------------------------------------------------- */

/* The rewrites, in the order in which they are tried. `rule` names the rule whose check must report the operation. It
 * is "" if the rule is about whole functions or about speed. */
static const struct {
    mil_opcode code;
    const char *rule, *id, *text;
    engine_rewrite rewrite;
} engine_rows[] = {
    {MIL_OP_softplus, "N1", "N1", "softplus as max(x, 0) + log(1 + exp(-abs(x)))", engine_softplus},
    {MIL_OP_reduce_log_sum_exp, "N2", "N2", "logsumexp with the maximum subtracted", engine_log_sum_exp},
    {MIL_OP_log, "N4", "N4", "log of a softmax as x - max - log(sum(exp(x - max)))", engine_log_softmax},
    {MIL_OP_mul, "", "N5", "an RMSNorm with its row divided by its largest element", engine_rms_norm},
    {MIL_OP_real_div, "", "N5", "an RMSNorm with its row divided by its largest element", engine_rms_norm},
    {MIL_OP_softmax, "N6", "N6", "a mask of minus infinity as -10000", engine_mask},
    {MIL_OP_scaled_dot_product_attention, "N6", "N6", "an attention's mask of minus infinity as -10000", engine_mask},
    {MIL_OP_mul, "N7", "N7", "linear and hardswish on four axes", engine_hardswish},
    {MIL_OP_mul, "", "C46b", "x * sigmoid(x) as silu", engine_silu},
    {MIL_OP_transpose, "C28e", "C28e", "a transpose of five axes on four or fewer", engine_transpose},
    {MIL_OP_matmul, "C28b", "C28b", "a product of five axes on four", engine_matmul},
    {MIL_OP_linear, "", "A8", "linear as a 1 x 1 convolution", engine_linear},
};
enum { ENGINE_ROWS = sizeof engine_rows / sizeof engine_rows[0] };

/* Replaces the op's result by `with`. The new value receives the old name, because the result may be an output. */
static propane_status engine_replace(mil_function *f, mil_op *op, mil_value *with, propane_error *err) {
    mil_value *old = op->results[0];
    const char *name = old->name;
    if (!mil_type_equal(&with->type, &old->type))
        return propane_fail(err, PROPANE_ERR_INVALID, "'%.60s' (%s) would change its type", name, op->info->name);
    mil_replace_uses(f, old, with);
    mil_op_remove(op);
    return mil_rename(f, with, name, err);
}

static propane_status engine_row_run(mil_function *f, int row, int *count, propane_error *err) {
    for (mil_op *op = f->first, *next; op; op = next) {
        next = op->next;
        const bool single =
            op->result_count == 1 && !op->results[0]->constant && op->info->code == engine_rows[row].code;
        if (!single || chip_op_is_open(op) || !engine_is_found(engine_rows[row].rule, op)) continue;
        engine_site s = {.function = f, .op = op};
        mil_build_resume(&s.b, f);
        s.b.before = op;
        mil_value *with = engine_rows[row].rewrite(&s);
        if (s.b.err.status) {
            *err = s.b.err;
            return err->status;
        }
        *count += with || s.changed;
        if (with) PROPANE_TRY(engine_replace(f, op, with, err));
    }
    return PROPANE_OK;
}

propane_status for_engine_rewrite(mil_module *m, int *count, text *out, propane_error *err) {
    *count = 0;
    for (int row = 0; row < ENGINE_ROWS; row++) {
        int made = 0;
        for (mil_function *f = m->functions; f; f = f->next) PROPANE_TRY(engine_row_run(f, row, &made, err));
        if (made) text_printf(out, "%d times %s: %s\n", made, engine_rows[row].id, engine_rows[row].text);
        *count += made;
    }
    for (mil_function *f = m->functions; f; f = f->next)
        PROPANE_TRY(pass_run(f, &(pass_options){.simplify = true, .drop_unused = true}, err));
    return PROPANE_OK;
}
